//! Public type names with two meanings.
//!
//! A public type has a name of its own in the workspace. Three kinds of names are shared, by rule and not by a list:
//! a noun that core stores and api renders, a handle of the library for such a noun, and the conventional names of a
//! crate's error and options.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, is_word};
use super::{Violation, dependencies};

const KEYWORDS: [&str; 4] = ["struct", "enum", "trait", "type"];

/// Names that every crate may declare for itself. They are used with the name of the crate.
const CONVENTIONAL: [&str; 3] = ["Error", "Options", "Settings"];

/// Crates with the stored type, the JSON type and the handle of the same noun.
const SAME_NOUN: [&str; 3] = ["quorate-core", "quorate-api", LIBRARY];

const LIBRARY: &str = "quorate";
const ENGINE: &str = "quorate-engine";

/// Declaration of a public type.
struct Declaration<'a> {
    directory: &'a str,
    path: &'a str,
    line: usize,
}

/// Reports each public type whose name another public type has already. The one in the lower crate keeps it.
pub(crate) fn check(sources: &[Source]) -> Vec<Violation> {
    let mut declared: BTreeMap<&str, Vec<Declaration<'_>>> = BTreeMap::new();
    for source in sources {
        let Some(directory) = crate_of(source) else { continue };
        for (name, offset) in public_types(source) {
            let declaration = Declaration { directory, path: &source.path, line: source.line_at(offset) };
            declared.entry(name).or_default().push(declaration);
        }
    }
    let handles = engine_types_of_library(sources);
    let mut violations = Vec::new();
    for (name, mut declarations) in declared {
        declarations.sort_by_key(|declaration| {
            (dependencies::layer(declaration.directory), declaration.path, declaration.line)
        });
        for (index, declaration) in declarations.iter().enumerate() {
            let mut earlier = declarations[..index].iter();
            if let Some(other) = earlier.find(|other| !may_share(name, declaration, other, &handles)) {
                let Declaration { path, line, .. } = other;
                let problem = format!("the public type `{name}` is also declared at {path}:{line}");
                let help = "use that one if it is the same thing; otherwise rename one after what it is";
                violations.push(Violation::new(
                    "duplicate-type",
                    declaration.path,
                    declaration.line,
                    problem,
                    help,
                ));
            }
        }
    }
    violations
}

fn may_share(
    name: &str,
    declaration: &Declaration<'_>,
    other: &Declaration<'_>,
    handles: &BTreeSet<&str>,
) -> bool {
    let same_noun =
        |directory: &str| SAME_NOUN.contains(&directory) || (directory == ENGINE && handles.contains(name));
    declaration.directory != other.directory
        && (CONVENTIONAL.contains(&name) || (same_noun(declaration.directory) && same_noun(other.directory)))
}

/// Returns the folder of the crate if the file is in its `src`.
fn crate_of(source: &Source) -> Option<&str> {
    let (directory, rest) = source.path.strip_prefix("crates/")?.split_once('/')?;
    rest.starts_with("src/").then_some(directory)
}

/// Returns the public types that a file declares outside tests, with their positions.
fn public_types(source: &Source) -> Vec<(&str, usize)> {
    let mut types = Vec::new();
    for (offset, text) in source.code.match_indices("pub ") {
        let starts_word = offset == 0 || !is_word(source.code.as_bytes()[offset - 1]);
        let mut words = source.code[offset + text.len()..].splitn(2, ' ');
        let (Some(keyword), Some(rest)) = (words.next(), words.next()) else { continue };
        let name = first_word(rest);
        if starts_word && KEYWORDS.contains(&keyword) && !name.is_empty() && !source.is_test_at(offset) {
            types.push((name, offset));
        }
    }
    types
}

/// Returns the types of the engine that the library exports: they are handles, like the library's own types.
fn engine_types_of_library(sources: &[Source]) -> BTreeSet<&str> {
    let library = sources.iter().filter(|source| crate_of(source) == Some(LIBRARY));
    let exports = library.flat_map(|source| source.code.split("pub use quorate_engine::").skip(1));
    let lists = exports.map(|export| export.split(';').next().unwrap_or_default());
    lists.flat_map(|list| list.split(|c: char| !c.is_alphanumeric() && c != '_')).collect()
}

fn first_word(text: &str) -> &str {
    let end = text.bytes().position(|byte| !is_word(byte)).unwrap_or(text.len());
    &text[..end]
}
