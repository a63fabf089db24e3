//! Agents that come with Quorate: rules over the given text. No model, no key, no network; the same answer every time.

use crate::question::{Failure, Kind, Question, Reply};

/// A set of rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heuristic {
    /// Which clauses a contract has.
    Clauses,
    /// How risky a contract is.
    Risk,
    /// What a contract costs.
    Financial,
    /// Who owns what.
    Ip,
    /// Whether a contract keeps to the laws on personal data.
    Compliance,
}

impl Heuristic {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Clauses, Self::Risk, Self::Financial, Self::Ip, Self::Compliance];

    /// Its name in `heuristic:NAME`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Clauses => "clauses",
            Self::Risk => "risk",
            Self::Financial => "financial",
            Self::Ip => "ip",
            Self::Compliance => "compliance",
        }
    }

    /// The heuristic of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    pub(crate) fn answer(self, question: &Question) -> Result<Reply, Failure> {
        let place = format!("heuristic:{}", self.name());
        let what = format!("does not know how to `{}`", question.action);
        Err(Failure::new(Kind::Misdeclared, place, what).hint("ask it to `analyse` or to `discuss`"))
    }
}
