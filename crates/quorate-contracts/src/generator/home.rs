//! The sections of a contract: where a phrasing stands.

use serde::{Deserialize, Serialize};

/// A section of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// The first line. It has no heading.
    Title,
    /// Who contracts, and when. It has no heading.
    Preamble,
    /// What words mean.
    Definitions,
    /// What is done.
    Services,
    /// What is paid.
    Fees,
    /// How long it lasts and how it ends.
    Term,
    /// Who owns and who may use what.
    Ip,
    /// What is kept secret.
    Confidentiality,
    /// How data are handled.
    Data,
    /// What is promised of the quality.
    Warranties,
    /// Who steps in against claims of others.
    Indemnity,
    /// Who pays how much if something goes wrong.
    Liability,
    /// What is insured.
    Insurance,
    /// What the parties must not do to each other.
    Covenants,
    /// Everything else.
    General,
    /// The commercial terms at the end.
    Schedule,
}

impl Home {
    /// The sections that have a heading, in the order of the textbook.
    pub const HEADED: [Self; 14] = [
        Self::Definitions,
        Self::Services,
        Self::Fees,
        Self::Term,
        Self::Ip,
        Self::Confidentiality,
        Self::Data,
        Self::Warranties,
        Self::Indemnity,
        Self::Liability,
        Self::Insurance,
        Self::Covenants,
        Self::General,
        Self::Schedule,
    ];
}
