//! Sections of a contract.

use serde::{Deserialize, Serialize};

/// A section of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// The first line, without a heading.
    Title,
    /// Parties and date, without a heading.
    Preamble,
    /// Definitions.
    Definitions,
    /// Services.
    Services,
    /// Fees and payment.
    Fees,
    /// Term and termination.
    Term,
    /// Ownership and licences.
    Ip,
    /// Confidentiality.
    Confidentiality,
    /// Data protection.
    Data,
    /// Warranties.
    Warranties,
    /// Indemnities.
    Indemnity,
    /// Limitation of liability.
    Liability,
    /// Insurance.
    Insurance,
    /// Restrictive covenants.
    Covenants,
    /// General provisions.
    General,
    /// Commercial terms at the end.
    Schedule,
}

impl Section {
    /// Sections that have a heading, in conventional order.
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
