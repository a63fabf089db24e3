//! Detects which of the 41 types of clauses a contract has.

mod rules;

use super::reading::{Contract, Paragraph};
use crate::generator::Clause;
pub(crate) use rules::RULES;

/// A detected clause.
pub(crate) struct Found {
    pub(crate) clause: Clause,
    /// Index of the paragraph that contains it; `None` for the title.
    pub(crate) place: Option<usize>,
}

/// Number of paragraphs in which the date of the agreement can occur.
const AGREEMENT_DATE_WITHIN: usize = 8;

/// Finds the clauses of a contract, in the order of CUAD; each once, at its first occurrence.
pub(crate) fn find(contract: &Contract) -> Vec<Found> {
    let mut found = Vec::new();
    if is_title(&contract.title) {
        found.push(Found { clause: Clause::DocumentName, place: None });
    }
    if contract.has_parties || introduces_parties(contract) {
        found.push(Found { clause: Clause::Parties, place: Some(0) });
    }
    for clause in Clause::all() {
        if let Some(one) = contract.paragraphs.iter().find(|one| is_in(contract, one, clause)) {
            found.push(Found { clause, place: Some(one.place) });
        }
    }
    // Without a restriction there is no exception to it.
    let restricts = |one: &Found| matches!(one.clause, Clause::NonCompete | Clause::Exclusivity);
    if !found.iter().any(restricts) {
        found.retain(|one| one.clause != Clause::CompetitiveRestrictionException);
    }
    found
}

/// Whether the title names a kind of document.
fn is_title(title: &str) -> bool {
    let title = title.to_lowercase();
    let kinds = [
        "agreement",
        "contract",
        "terms",
        "addendum",
        "order",
        "deed",
        "statement",
        "memorandum",
        "lease",
        "license",
    ];
    title.len() < 160 && kinds.iter().any(|kind| title.contains(kind))
}

/// Whether the opening names two companies and a word for contracting.
fn introduces_parties(contract: &Contract) -> bool {
    let opening: String = contract
        .paragraphs
        .iter()
        .take(AGREEMENT_DATE_WITHIN)
        .filter(|one| one.in_opening)
        .map(|one| one.plain.as_str())
        .collect::<Vec<_>>()
        .join(" ");
    let endings = [
        "inc",
        "ltd",
        "limited",
        "llc",
        "gmbh",
        "corp",
        "corporation",
        "plc",
        "dac",
        "lp",
        "ag",
        "bv",
        "sa",
        "company",
    ];
    let companies =
        opening.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| endings.contains(word)).count();
    let contracts = ["between", "parties", "party", "by and among", "contract", "agree"];
    companies >= 2 && contracts.iter().any(|word| opening.contains(word))
}

/// Whether a paragraph contains a type of clause.
pub(crate) fn is_in(contract: &Contract, one: &Paragraph, clause: Clause) -> bool {
    if one.defines && !can_be_defined(clause) {
        return false;
    }
    match clause {
        // The date of the agreement is at its beginning; later dates belong to something else.
        Clause::AgreementDate => {
            (one.in_opening || contract.headings.is_empty())
                && one.place < AGREEMENT_DATE_WITHIN
                && contract.says(one, clause.name())
        }
        _ => contract.says(one, clause.name()),
    }
}

/// Types that a definition can state; the others need an obligation or a permission.
fn can_be_defined(clause: Clause) -> bool {
    matches!(
        clause,
        Clause::AgreementDate
            | Clause::EffectiveDate
            | Clause::ExpirationDate
            | Clause::RenewalTerm
            | Clause::WarrantyDuration
            | Clause::CapOnLiability
            | Clause::MinimumCommitment
    )
}

/// Indices of all paragraphs that contain a type of clause.
pub(crate) fn places(contract: &Contract, clause: Clause) -> Vec<usize> {
    let fits = contract.paragraphs.iter().filter(|one| is_in(contract, one, clause));
    fits.map(|one| one.place).collect()
}
