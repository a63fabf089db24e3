//! Exemptions from rules, each with a reason. An exemption that is no longer needed is a violation itself.

use super::Violation;

/// Exemption from a rule.
pub(crate) struct Exempt {
    pub(crate) rule: &'static str,
    /// A path, or `path::function` for the length of a function.
    pub(crate) subject: &'static str,
    pub(crate) reason: &'static str,
}

/// All exemptions.
pub(crate) const LIST: &[Exempt] = &[
    Exempt {
        rule: "idiom",
        subject: "crates/quorate-api/src/why.rs",
        reason: "names in the JSON of the wire",
    },
    Exempt {
        rule: "idiom",
        subject: "crates/quorate-server/src/webhook_config.rs",
        reason: "GitHub's published example of a signature",
    },
    Exempt {
        rule: "idiom",
        subject: "crates/quorate-server/tests/it/flags_as_messages.rs",
        reason: "GitHub's published example of a signature",
    },
];

/// Removes exempted violations, and adds a violation for each exemption that matched nothing.
pub(crate) fn apply(violations: Vec<Violation>, list: &[Exempt]) -> Vec<Violation> {
    let matches = |exempt: &Exempt, violation: &Violation| {
        exempt.rule == violation.rule && exempt.subject == violation.subject
    };
    let unneeded: Vec<Violation> = list
        .iter()
        .filter(|exempt| !violations.iter().any(|violation| matches(exempt, violation)))
        .map(|exempt| {
            let Exempt { rule, subject, reason } = exempt;
            let problem = format!("{subject} no longer violates the rule `{rule}` ({reason})");
            let help = "delete the exemption";
            Violation::new("exemption", "xtask/src/tidy/exempt.rs", 1, problem, help)
        })
        .collect();
    let mut remaining = violations;
    remaining.retain(|violation| !list.iter().any(|exempt| matches(exempt, violation)));
    remaining.extend(unneeded);
    remaining
}
