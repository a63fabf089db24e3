//! Detects which of the 41 types of clauses a contract has.

mod rules;

use super::document::{Paragraph, ParsedContract};
use crate::generator::Clause;
pub(crate) use rules::CLAUSE_RULES;

/// A detected clause.
pub(crate) struct FoundClause {
    pub(crate) clause: Clause,
    /// Index of the paragraph that contains it; `None` for the title.
    pub(crate) paragraph: Option<usize>,
}

/// Number of paragraphs in which the date of the agreement can occur.
const AGREEMENT_DATE_WITHIN: usize = 8;

/// Finds the clauses of a contract, in the order of CUAD; each once, at its first occurrence.
pub(crate) fn find(contract: &ParsedContract) -> Vec<FoundClause> {
    let mut found = Vec::new();
    if is_title(&contract.title) {
        found.push(FoundClause { clause: Clause::DocumentName, paragraph: None });
    }
    if contract.has_parties || introduces_parties(contract) {
        found.push(FoundClause { clause: Clause::Parties, paragraph: Some(0) });
    }
    for clause in Clause::all() {
        let mut paragraphs = contract.paragraphs.iter();
        if let Some(paragraph) = paragraphs.find(|paragraph| contains_clause(contract, paragraph, clause)) {
            found.push(FoundClause { clause, paragraph: Some(paragraph.index) });
        }
    }
    // Without a restriction there is no exception to it.
    let restricts =
        |found_clause: &FoundClause| matches!(found_clause.clause, Clause::NonCompete | Clause::Exclusivity);
    if !found.iter().any(restricts) {
        found.retain(|found_clause| found_clause.clause != Clause::CompetitiveRestrictionException);
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
fn introduces_parties(contract: &ParsedContract) -> bool {
    let opening: String = contract
        .paragraphs
        .iter()
        .take(AGREEMENT_DATE_WITHIN)
        .filter(|paragraph| paragraph.in_opening)
        .map(|paragraph| paragraph.normalised.as_str())
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
    let contract_words = ["between", "parties", "party", "by and among", "contract", "agree"];
    companies >= 2 && contract_words.iter().any(|word| opening.contains(word))
}

/// Whether a paragraph contains a type of clause.
pub(crate) fn contains_clause(contract: &ParsedContract, paragraph: &Paragraph, clause: Clause) -> bool {
    if paragraph.is_definition && !can_be_defined(clause) {
        return false;
    }
    match clause {
        // The date of the agreement is at its beginning; later dates belong to something else.
        Clause::AgreementDate => {
            (paragraph.in_opening || contract.headings.is_empty())
                && paragraph.index < AGREEMENT_DATE_WITHIN
                && contract.matches(paragraph, clause.name())
        }
        _ => contract.matches(paragraph, clause.name()),
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
pub(crate) fn paragraph_indices(contract: &ParsedContract, clause: Clause) -> Vec<usize> {
    let matching =
        contract.paragraphs.iter().filter(|paragraph| contains_clause(contract, paragraph, clause));
    matching.map(|paragraph| paragraph.index).collect()
}
