//! What may break a rule, each with its reason. The list only gets shorter: an entry that is not needed is a violation.

use super::Violation;

/// One exemption.
pub(crate) struct Exempt {
    pub(crate) rule: &'static str,
    /// A path, or `path::function` for the length of a function.
    pub(crate) subject: &'static str,
    pub(crate) reason: &'static str,
}

/// All exemptions.
pub(crate) const LIST: &[Exempt] = &[];

/// Takes out what is exempt, and adds a violation for each exemption that took out nothing.
pub(crate) fn apply(found: Vec<Violation>, list: &[Exempt]) -> Vec<Violation> {
    let matches = |exempt: &Exempt, violation: &Violation| {
        exempt.rule == violation.rule && exempt.subject == violation.subject
    };
    let unneeded: Vec<Violation> = list
        .iter()
        .filter(|exempt| !found.iter().any(|violation| matches(exempt, violation)))
        .map(|exempt| {
            let Exempt { rule, subject, reason } = exempt;
            let what = format!("{subject} no longer breaks the rule `{rule}` ({reason})");
            let instead = "delete the exemption";
            Violation::new("exemption", "xtask/src/tidy/exempt.rs", 1, what, instead)
        })
        .collect();
    let mut left = found;
    left.retain(|violation| !list.iter().any(|exempt| matches(exempt, violation)));
    left.extend(unneeded);
    left
}
