//! The two data files of phrasings, parsed strictly: a file that would produce an incorrect contract is rejected.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};

use super::clause::Clause;
use super::problem::Problem;
use super::provision::Provision;
use super::section::Section;
use super::template::Template;

/// Set of phrasings that a contract is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhrasingSet {
    /// Phrasings that authors of an analyst may look at.
    Seen,
    /// Held-out phrasings, committed before the first analyst; its authors must not look at them.
    Unseen,
}

/// Minimum number of phrasings of each clause and each problem.
pub(super) const PHRASINGS_MIN: usize = 3;

/// Minimum number of phrasings of each provision.
const PROVISIONS_MIN: usize = 2;

/// One wording of a topic.
#[derive(Clone, Debug)]
pub(super) struct Phrasing {
    /// Position in the file: `clauses.governing_law[1]`.
    pub(super) id: String,
    pub(super) title: Option<String>,
    pub(super) text: Template,
    /// Further clauses that the same words contain.
    pub(super) holds: Vec<Clause>,
    /// The contradicting phrasing in the schedule.
    pub(super) second: Option<Box<Phrasing>>,
}

/// A text without a label: filler, or a near-miss.
#[derive(Clone, Debug)]
pub(super) struct UnlabelledText {
    pub(super) section: Section,
    /// Topics that it resembles; it is used only in contracts without them. Empty for filler.
    pub(super) about: Vec<ContractTopic>,
    pub(super) phrasing: Phrasing,
}

/// A topic that a contract can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(untagged)]
pub enum ContractTopic {
    /// A clause of CUAD.
    Clause(Clause),
    /// A provision as it should be.
    Provision(Provision),
    /// A planted problem.
    Problem(Problem),
}

/// All phrasings of one set.
#[derive(Clone, Debug)]
pub(super) struct Phrasings {
    pub(super) headings: BTreeMap<Section, Vec<String>>,
    pub(super) clauses: BTreeMap<Clause, Vec<Phrasing>>,
    pub(super) provisions: BTreeMap<Provision, Vec<Phrasing>>,
    pub(super) problems: BTreeMap<Problem, Vec<Phrasing>>,
    pub(super) near_misses: Vec<UnlabelledText>,
    pub(super) filler: Vec<UnlabelledText>,
}

static SEEN: LazyLock<Phrasings> = LazyLock::new(|| built_in("seen.yaml", include_str!("seen.yaml")));
static UNSEEN: LazyLock<Phrasings> = LazyLock::new(|| built_in("unseen.yaml", include_str!("unseen.yaml")));

/// Parses an embedded file. A test parses both, so this cannot fail at run time.
fn built_in(file: &str, text: &str) -> Phrasings {
    Phrasings::parse(file, text).unwrap_or_else(|error| panic!("{error}"))
}

impl PhrasingSet {
    pub(super) fn phrasings(self) -> &'static Phrasings {
        match self {
            Self::Seen => &SEEN,
            Self::Unseen => &UNSEEN,
        }
    }
}

impl Phrasings {
    /// Parses a file of phrasings.
    ///
    /// # Errors
    /// The file, the line and the problem. The format is described in `generator.rs`.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, String> {
        let parsed: FileIn = serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
            let line = error.location().map_or(1, |location| location.line());
            format!("{file}:{line}: {}", error.without_snippet())
        })?;
        let parser = PhrasingParser { file };
        let phrasings = Self {
            headings: parsed.headings,
            clauses: parser.map(parsed.clauses, "clauses", Clause::name)?,
            provisions: parser.map(parsed.provisions, "provisions", Provision::name)?,
            problems: parser.map(parsed.problems, "problems", Problem::name)?,
            near_misses: parser.unlabelled_texts(parsed.near_misses, "near_misses")?,
            filler: parser.unlabelled_texts(parsed.filler, "filler")?,
        };
        phrasings.check(&parser)?;
        Ok(phrasings)
    }

    fn check(&self, parser: &PhrasingParser<'_>) -> Result<(), String> {
        for section in Section::HEADED {
            let count = self.headings.get(&section).map_or(0, Vec::len);
            parser.check_count(&format!("headings of {section:?}"), count, 1)?;
        }
        for clause in Clause::all() {
            let count = self.clauses.get(&clause).map_or(0, Vec::len);
            parser.check_count(clause.name(), count, PHRASINGS_MIN)?;
        }
        for provision in Provision::ALL {
            let count = self.provisions.get(&provision).map_or(0, Vec::len);
            parser.check_count(provision.name(), count, PROVISIONS_MIN)?;
        }
        for problem in Problem::all() {
            let phrasings = self.problems.get(&problem).map_or(&[][..], Vec::as_slice);
            let required = if problem.is_absence() { 0 } else { PHRASINGS_MIN };
            parser.check_count(problem.name(), phrasings.len(), required)?;
            if phrasings.iter().any(|phrasing| phrasing.second.is_some() != problem.is_contradiction()) {
                let message =
                    "needs a `second` phrasing in each entry if it is a contradiction, and none otherwise";
                return Err(format!("{}: {} {message}", parser.file, problem.name()));
            }
        }
        self.check_alone(parser)?;
        let unpaired = self.clauses.values().flatten().chain(self.provisions.values().flatten());
        match unpaired
            .chain(self.filler.iter().map(|text| &text.phrasing))
            .find(|phrasing| phrasing.second.is_some())
        {
            Some(phrasing) => {
                Err(format!("{}: {}: only a problem can have a `second` phrasing", parser.file, phrasing.id))
            }
            None => Ok(()),
        }
    }

    /// Checks that each clause and provision has a phrasing that contains nothing else, for contracts that must not
    /// contain more.
    fn check_alone(&self, parser: &PhrasingParser<'_>) -> Result<(), String> {
        for list in self.clauses.values().chain(self.provisions.values()) {
            if let (Some(first), true) =
                (list.first(), list.iter().all(|phrasing| !phrasing.holds.is_empty()))
            {
                let message = "needs at least one alternative phrasing with empty `holds`";
                return Err(format!("{}: {} {message}", parser.file, first.id));
            }
        }
        Ok(())
    }
}

struct PhrasingParser<'a> {
    file: &'a str,
}

impl PhrasingParser<'_> {
    fn map<K: Ord + Copy>(
        &self,
        entries: BTreeMap<K, Vec<PhrasingIn>>,
        list: &str,
        name: impl Fn(K) -> &'static str,
    ) -> Result<BTreeMap<K, Vec<Phrasing>>, String> {
        let mut phrasings = BTreeMap::new();
        for (key, items) in entries {
            let items = items.into_iter().enumerate();
            let items = items
                .map(|(index, phrasing)| self.phrasing(phrasing, format!("{list}.{}[{index}]", name(key))));
            phrasings.insert(key, items.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(phrasings)
    }

    fn unlabelled_texts(
        &self,
        entries: Vec<UnlabelledIn>,
        list: &str,
    ) -> Result<Vec<UnlabelledText>, String> {
        let texts = entries.into_iter().enumerate().map(|(index, entry)| {
            let UnlabelledIn { section, about, title, text } = entry;
            let phrasing = PhrasingIn { title, text, holds: Vec::new(), second: None };
            let phrasing = self.phrasing(phrasing, format!("{list}[{index}]"))?;
            Ok(UnlabelledText { section, about, phrasing })
        });
        texts.collect()
    }

    fn phrasing(&self, phrasing: PhrasingIn, id: String) -> Result<Phrasing, String> {
        let line = phrasing.text.referenced.line();
        let text = Template::parse(&phrasing.text.value)
            .map_err(|error| format!("{}:{line}: {id}: {error}", self.file))?;
        let second = phrasing.second.map(|SecondIn { text, holds }| {
            let second = PhrasingIn { title: None, text, holds, second: None };
            self.phrasing(second, format!("{id}.second")).map(Box::new)
        });
        Ok(Phrasing { id, title: phrasing.title, text, holds: phrasing.holds, second: second.transpose()? })
    }

    fn check_count(&self, name: &str, count: usize, required: usize) -> Result<(), String> {
        if count < required {
            let message = format!("has {count} phrasings, needs at least {required}");
            return Err(format!("{}: {name} {message}", self.file));
        }
        Ok(())
    }
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileIn {
    headings: BTreeMap<Section, Vec<String>>,
    clauses: BTreeMap<Clause, Vec<PhrasingIn>>,
    provisions: BTreeMap<Provision, Vec<PhrasingIn>>,
    problems: BTreeMap<Problem, Vec<PhrasingIn>>,
    near_misses: Vec<UnlabelledIn>,
    filler: Vec<UnlabelledIn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhrasingIn {
    title: Option<String>,
    text: Spanned<String>,
    #[serde(default)]
    holds: Vec<Clause>,
    second: Option<SecondIn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecondIn {
    text: Spanned<String>,
    #[serde(default)]
    holds: Vec<Clause>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnlabelledIn {
    #[serde(rename = "home")]
    section: Section,
    #[serde(default)]
    about: Vec<ContractTopic>,
    title: Option<String>,
    text: Spanned<String>,
}

#[cfg(test)]
mod tests;
