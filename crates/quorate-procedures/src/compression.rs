//! Compression of a context for a handoff: keeps objective, findings and next action, summarises the analysis, references large
//! outputs and drops reasoning. Extractive, deterministic and without a model.
//!
//! ```text
//! original ─▶ document (units with roles, parts) ─▶ ranking ─▶ within the budget ─▶ summary, key_points, refs, expandable
//! ```
//!
//! A context is Markdown, plain text, or a JSON object with fields such as `objective`, `findings`, `analysis` and `next_action`.
//! The budget is in tokens of the rendered output ([`Compressed::to_json`], [`Compressed::to_yaml`]) and is never exceeded.
//! Nothing is lost: [`expand`] returns each part of the original byte for byte.

mod block;
mod budget;
mod concept;
mod document;
mod listing;
mod part;
mod rank;
mod render;
mod role;
mod sentence;
mod stored;
mod structured;
mod trim;

#[cfg(test)]
mod tests;

pub use budget::BudgetTooSmall;
pub use part::{FULL, Part, UnknownPart};
pub use render::Compressed;
pub use stored::{StoredContext, StoredPart};

use document::Document;

/// Compresses a context to at most `budget` tokens. `source` names the original in the references: a file, or the key of a memory
/// entry.
///
/// # Errors
/// If not even a summary of a few words fits.
pub fn compress(context: &str, source: &str, budget: usize) -> Result<Compressed, BudgetTooSmall> {
    budget::fill(&document(context), context, source, budget)
}

/// Divides a context into its parts: the sections of a text, or the fields of a JSON object.
#[must_use]
pub fn parts(context: &str) -> Vec<Part<'_>> {
    document(context).parts
}

/// Returns the text of a reference: `T3` is a part, `T3-T5` are consecutive parts, [`FULL`] is everything. The form in which a
/// compressed context shows it, `[expand:T3]`, is accepted as well.
///
/// # Errors
/// If there is no such part.
pub fn expand<'a>(context: &'a str, reference: &str) -> Result<&'a str, UnknownPart> {
    part::expand(context, &parts(context), reference)
}

fn document(context: &str) -> Document<'_> {
    structured::document(context).unwrap_or_else(|| Document::of_text(context))
}
