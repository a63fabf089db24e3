//! Generator of labelled contracts.
//!
//! Analysts are evaluated on contracts whose problems are known because they were planted. The sentences come from two
//! files of phrasings: `seen.yaml`, which authors of an analyst may look at, and `unseen.yaml`, which they must not open.
//! Both were committed before the first analyst.
//!
//! [`generate`] creates the contract of a seed. Its [`GroundTruth`] lists the clauses with their spans, the planted
//! problems, the stated facts, the subjects that make further analysts relevant ([`Activation`]) and the recommendation
//! for the customer. The rule for score and recommendation is in `ground_truth.rs`.
//!
//! # Adding a phrasing
//!
//! A file has these parts. It is parsed strictly, and a test reports errors with file and line:
//!
//! - `headings`: the possible headings of each section.
//! - `clauses`: phrasings of each of the 41 types of clauses ([`Clause`]). Write them neutral or in the customer's
//!   favour: wording that is bad for the customer belongs to `problems`.
//! - `provisions`: acceptable wording of further points that a review checks ([`Provision`]).
//! - `problems`: unacceptable wording of the same points ([`Problem`]). A contradiction has a `second` phrasing, which is
//!   written into the schedule.
//! - `near_misses`: wording that resembles a topic without being it. `about` lists the topics; the text is used only in
//!   contracts that contain none of them, so reporting one of them is a false positive.
//! - `filler`: boilerplate without any label.
//!
//! An entry has a `text`, and optionally a `title` (rendered in some contracts) and `holds`: further types of clauses
//! that the same words contain. **Be complete in `holds`**: a licence that cannot be transferred is a `license_grant`
//! and a `non_transferable_license`, and an analyst that finds both is right. Filler and near-misses hold nothing. The
//! types are those of CUAD (Contract Understanding Atticus Dataset), with one exception: a time limit on claims is not
//! labelled as a cap on liability, only an amount is.
//!
//! Placeholders for facts are in braces: `{cap}`, `{payment_days}`, `{effective_date}`; their names are in `fact.rs`.
//! `{vendor}` and `{customer}` are the parties in their roles, with an article where the contract uses one; `{Vendor}` is
//! for the beginning of a sentence, `{VENDOR}` for text in capitals, `{vendor:term}` has no article. Dates are written in
//! the style of the contract unless the phrasing specifies one: `:long`, `:day`, `:iso`, `:legal`; so are amounts:
//! `:figures`, `:words`, `:both`.

mod clause;
mod compose;
mod fact;
mod fact_values;
mod ground_truth;
mod layout;
pub(crate) mod numerals;
mod phrasing;
mod plan;
mod problem;
mod provision;
mod rng;
mod section;
mod template;
mod value;

pub use clause::Clause;
pub use fact::Fact;
pub use ground_truth::{
    Activation, GroundTruth, Label, NearMiss, PlantedProblem, Recommendation, StatedFact, TextSpan,
    risk_score,
};
pub use phrasing::{ContractTopic, PhrasingSet};
pub use problem::{Problem, Severity};
pub use provision::Provision;
pub use section::Section;
pub use value::{Currency, Date, Value};

/// A generated contract with its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The text to be read.
    pub text: String,
    /// The labels. Spans are byte offsets in the text.
    pub truth: GroundTruth,
}

/// Generates the contract of a seed from one set of phrasings. The output is stable: the same bytes in every version.
///
/// Both sets of a seed have the same facts, the same planted problems and the same recommendation.
pub fn generate(seed: u64, set: PhrasingSet) -> Contract {
    compose::compose(seed, set)
}

#[cfg(test)]
mod tests;
