//! Which of the 41 types of clauses a contract has.

mod rules;

use super::reading::{Contract, Paragraph};
use crate::generator::Clause;
pub(crate) use rules::RULES;

/// A clause that was found.
pub(crate) struct Found {
    pub(crate) clause: Clause,
    /// The paragraph that has it; nothing for the title.
    pub(crate) place: Option<usize>,
}

/// How far into a contract its date can stand.
const AGREEMENT_DATE_WITHIN: usize = 8;

/// The clauses of a contract, in the order of CUAD; each once, where it stands first.
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
    // Where nothing is restricted there is nothing to except from.
    let restricts = |one: &Found| matches!(one.clause, Clause::NonCompete | Clause::Exclusivity);
    if !found.iter().any(restricts) {
        found.retain(|one| one.clause != Clause::CompetitiveRestrictionException);
    }
    found
}

/// A title names a kind of document.
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

/// Two companies in the opening, and a word that says that they contract.
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

/// Whether a paragraph has a type of clause.
pub(crate) fn is_in(contract: &Contract, one: &Paragraph, clause: Clause) -> bool {
    if one.defines && !can_be_defined(clause) {
        return false;
    }
    match clause {
        // A date of the agreement stands where it begins: later ones are of something else.
        Clause::AgreementDate => {
            (one.in_opening || contract.headings.is_empty())
                && one.place < AGREEMENT_DATE_WITHIN
                && contract.says(one, clause.name())
        }
        _ => contract.says(one, clause.name()),
    }
}

/// Types that a definition can state: the rest needs somebody who must or may do something.
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

/// The places of all paragraphs that have a type of clause.
pub(crate) fn places(contract: &Contract, clause: Clause) -> Vec<usize> {
    let fits = contract.paragraphs.iter().filter(|one| is_in(contract, one, clause));
    fits.map(|one| one.place).collect()
}
