//! What a person is asked for when a playbook is over: to let a letter go out that was made of what was decided.

use std::fmt::Write as _;

use quorate::deliberation::{Demand, Outcome, Spec};
use serde::Deserialize;
use serde_json::{Value, json};

/// What stands in braces in a letter.
const PARTS: [&str; 3] = ["{subject}", "{recommendation}", "{points}"];
/// As long as a person has if nothing is said.
const HOURS_DEFAULT: u32 = 72;
/// As long as the hub allows.
const HOURS_MAX: u32 = 90 * 24;
/// Points in a letter. Whoever has more to say should not sign.
const POINTS_MAX: usize = 12;

/// The approval of a playbook.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Approval {
    /// What happens once it is approved, in a few words.
    pub(crate) action: String,
    /// After which recommendations; none: after any outcome.
    #[serde(default)]
    when: Vec<String>,
    /// The letter, with `{subject}`, `{recommendation}` and `{points}` to be filled in.
    letter: String,
    /// The name of the file that the letter is written to.
    write: String,
    /// How long a person has.
    #[serde(default = "hours_default")]
    pub(crate) timeout_hours: u32,
}

fn hours_default() -> u32 {
    HOURS_DEFAULT
}

impl Approval {
    /// What is wrong with it, and what to do about that.
    pub(super) fn check(&self, spec: &Spec) -> Result<(), (String, String)> {
        if self.action.trim().is_empty() {
            return Err(("action: there is none".into(), "say in a few words what will happen".into()));
        }
        if !is_file_name(&self.write) {
            let what = format!("write: {:?} is no name of a file", self.write);
            return Err((
                what,
                "give a plain name such as letter.txt: it is written where the run says".into(),
            ));
        }
        if !(1..=HOURS_MAX).contains(&self.timeout_hours) {
            let what = format!("timeout_hours: {} is not between 1 and {HOURS_MAX}", self.timeout_hours);
            return Err((what, format!("without it, a person has {HOURS_DEFAULT} hours")));
        }
        let known = &spec.words.recommendations;
        if let Some(other) =
            self.when.iter().find(|one| !known.is_empty() && spec.words.recommendation(one).is_none())
        {
            return Err((
                format!("when: nobody can recommend {other:?}"),
                format!("they are: {}", known.join(", ")),
            ));
        }
        match braces(&self.letter).find(|part| !PARTS.contains(part)) {
            Some(other) => Err((
                format!("letter: {other} is nothing that is known"),
                format!("there are {}", PARTS.join(", ")),
            )),
            None => Ok(()),
        }
    }

    /// The payload of the action, if there is anything to approve after this outcome.
    pub(crate) fn payload(&self, outcome: &Outcome) -> Option<Value> {
        let recommendation = outcome.synthesis.recommendation.as_deref();
        // Without a decision there is nothing to fill in, so there is no such letter.
        if recommendation.is_none() && self.letter.contains("{recommendation}") {
            return None;
        }
        let recommendation = recommendation.unwrap_or_default();
        let same = |one: &String| one.eq_ignore_ascii_case(recommendation);
        if !self.when.is_empty() && !self.when.iter().any(same) {
            return None;
        }
        let letter = self
            .letter
            .replace("{subject}", &outcome.subject)
            .replace("{recommendation}", recommendation)
            .replace("{points}", points(&outcome.synthesis.strategy).trim_end());
        Some(json!({ "letter": letter, "write": self.write }))
    }
}

/// A name without a way in it: a playbook does not choose where on a machine it writes.
pub(crate) fn is_file_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(plain)
}

fn braces(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(start, _)| {
        let end = text[start..].find('}')?;
        Some(&text[start..=start + end])
    })
}

/// What to ask for, the most needed first.
fn points(strategy: &[Demand]) -> String {
    let mut text = String::new();
    for (number, demand) in strategy.iter().take(POINTS_MAX).enumerate() {
        let place = demand.section.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
        let (topic, ask) = (first_large(&demand.topic), demand.ask.trim_end_matches('.'));
        let _ = writeln!(text, "{}. {topic}{place}: {ask}.", number + 1);
    }
    text
}

fn first_large(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
