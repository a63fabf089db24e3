//! Which crate may depend on which, and which foreign crates must stay out of where.
//!
//! Dependencies flow one way: each crate knows only crates that stand before it in this list.

use super::manifest::{self, Dependency, Manifest, Use};
use super::{File, Violation, crates};

struct Crate {
    name: &'static str,
    /// The crates of the house that it may name.
    knows: &'static [&'static str],
    /// Foreign crates that it must not name, also not in tests of its own kind of work.
    without: &'static [&'static str],
}

/// The order of the house, from the bottom to the top.
const HOUSE: &[Crate] = &[
    Crate { name: "quorate-core", knows: &[], without: NOT_PURE },
    Crate { name: "quorate-api", knows: &["quorate-core"], without: NOT_PURE },
    Crate { name: "quorate-env", knows: &["quorate-core"], without: NO_SQL },
    Crate { name: "quorate-http", knows: &["quorate-core"], without: NO_SQL },
    Crate { name: "quorate-store", knows: &["quorate-core", "quorate-env"], without: NO_SQL },
    Crate { name: "quorate-sqlite", knows: &["quorate-core", "quorate-store"], without: &["anyhow"] },
    Crate {
        name: "quorate-engine",
        knows: &["quorate-api", "quorate-core", "quorate-store"],
        without: NO_SQL,
    },
    Crate {
        name: "quorate-procedures",
        knows: &["quorate-core", "quorate-engine", "quorate-env"],
        without: NO_SQL,
    },
    Crate { name: "quorate-contracts", knows: &[], without: NOT_PURE },
    Crate {
        name: "quorate-agents",
        knows: &["quorate-contracts", "quorate-core", "quorate-env", "quorate-engine", "quorate-http"],
        without: NO_SQL,
    },
    Crate {
        name: "quorate",
        knows: &[
            "quorate-api",
            "quorate-core",
            "quorate-env",
            "quorate-store",
            "quorate-sqlite",
            "quorate-engine",
            "quorate-procedures",
            "quorate-agents",
        ],
        without: NO_SQL,
    },
    Crate {
        name: "quorate-server",
        knows: &[
            "quorate-api",
            "quorate-core",
            "quorate-engine",
            "quorate-env",
            "quorate-http",
            "quorate-procedures",
            "quorate-agents",
            "quorate",
        ],
        without: NO_SQL,
    },
    Crate {
        name: "quorate-client",
        knows: &["quorate-api", "quorate-core", "quorate-env", "quorate-http", "quorate"],
        without: NO_SQL,
    },
    Crate {
        name: "quorate-bench",
        knows: &[
            "quorate-core",
            "quorate-store",
            "quorate-sqlite",
            "quorate-engine",
            "quorate-procedures",
            "quorate",
        ],
        without: SQL,
    },
    Crate {
        name: "quorate-cli",
        knows: &[
            "quorate-api",
            "quorate-core",
            "quorate-store",
            "quorate-sqlite",
            "quorate-engine",
            "quorate-procedures",
            "quorate-contracts",
            "quorate-agents",
            "quorate",
            "quorate-server",
            "quorate-client",
            "quorate-bench",
        ],
        without: &[],
    },
    Crate {
        name: "quorate-sim",
        knows: &[
            "quorate-api",
            "quorate-core",
            "quorate-store",
            "quorate-sqlite",
            "quorate-engine",
            "quorate-procedures",
            "quorate-contracts",
            "quorate-agents",
            "quorate",
            "quorate-server",
            "quorate-client",
            "quorate-bench",
            "quorate-cli",
        ],
        without: &[],
    },
];

const SIM: &str = "quorate-sim";

/// Core has no I/O, no async, no clock, no chance and no SQL.
const NOT_PURE: &[&str] = &[
    "anyhow",
    "async-trait",
    "axum",
    "chrono",
    "crossbeam-channel",
    "futures",
    "getrandom",
    "hyper",
    "jiff",
    "rand",
    "reqwest",
    "rusqlite",
    "sqlx",
    "tempfile",
    "time",
    "tokio",
    "tokio-postgres",
    "uuid",
];

/// Above the backends nobody knows SQL; a library has errors of its own.
const NO_SQL: &[&str] = &["anyhow", "rusqlite", "sqlx", "tokio-postgres"];

/// The workloads of the bench are part of the binary, whose errors are anyhow's.
const SQL: &[&str] = &["rusqlite", "sqlx", "tokio-postgres"];

/// What the library needs for an embedded hub only: the network client is built on the library and does without.
const EMBEDDED: [&str; 4] = ["quorate-store", "quorate-sqlite", "quorate-engine", "quorate-procedures"];

/// Features that break the product on purpose.
const TEST_FEATURES: [&str; 2] = ["\"faults\"", "\"sabotage\""];

/// Checks every crate's manifest.
pub(crate) fn check(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for folder in crates(files) {
        let path = format!("crates/{folder}/Cargo.toml");
        let Some(file) = files.iter().find(|file| file.path == path) else {
            let instead = "one flat folder for each crate, with a Cargo.toml in it";
            found.push(Violation::new("arrow", &path, 1, "the crate has no Cargo.toml", instead));
            continue;
        };
        let manifest = manifest::read(&file.text);
        if manifest.name != folder {
            let what = format!("the folder `{folder}` holds the crate `{}`", manifest.name);
            found.push(Violation::new("arrow", &path, 1, what, "give both the same name"));
        }
        match HOUSE.iter().find(|known| known.name == folder) {
            Some(known) => found.extend(check_crate(known, &manifest, &path)),
            None => {
                let what = format!("`{folder}` is not in the list of crates");
                let instead = "put it where it belongs in xtask/src/tidy/arrows.rs, with a decision record";
                found.push(Violation::new("arrow", &path, 1, what, instead));
            }
        }
    }
    found
}

fn check_crate(known: &Crate, manifest: &Manifest, path: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for dependency in &manifest.dependencies {
        let mut refuse = |what: String, instead: &str| {
            found.push(Violation::new("arrow", path, dependency.line, what, instead));
        };
        let Dependency { name, text, .. } = dependency;
        if HOUSE.iter().any(|other| other.name == name) && !may_know(known, dependency) {
            let instead =
                "dependencies flow one way: move the code down, or hand the thing in as an argument";
            refuse(format!("`{}` must not depend on `{name}`", known.name), instead);
        }
        if known.without.contains(&name.as_str()) && dependency.use_for == Use::Product {
            refuse(format!("`{}` must stay without `{name}`", known.name), reason(known));
        }
        let uses_test_feature = TEST_FEATURES.iter().any(|feature| text.contains(feature));
        if uses_test_feature && dependency.use_for == Use::Product && known.name != SIM {
            let instead = "turn it on in dev-dependencies only";
            refuse(format!("a test-only feature of `{name}` is on in the product"), instead);
        }
        let is_embedded = known.name == "quorate" && EMBEDDED.contains(&name.as_str());
        if is_embedded && dependency.use_for == Use::Product && !text.contains("optional = true") {
            let instead =
                "make it optional and add it to the feature `embedded`: the network client does without";
            refuse(format!("`quorate` must not always depend on `{name}`"), instead);
        }
        if !text.contains("workspace = true") {
            let instead = "write the version into the root Cargo.toml and `workspace = true` here";
            refuse(format!("`{name}` has a version of its own here"), instead);
        }
    }
    if let Some((line, value)) = &manifest.default_features
        && TEST_FEATURES.iter().any(|feature| value.contains(feature))
    {
        let instead = "leave it out of the default features";
        found.push(Violation::new("arrow", path, *line, "a test-only feature is on by default", instead));
    }
    found
}

/// The product follows the list. Tests may use everything that stands before the crate, and quorate-sim.
fn may_know(known: &Crate, dependency: &Dependency) -> bool {
    let name = dependency.name.as_str();
    let before = || HOUSE.iter().take_while(|other| other.name != known.name).any(|other| other.name == name);
    match dependency.use_for {
        Use::Product => known.knows.contains(&name),
        Use::Tests => name == SIM || before(),
    }
}

fn reason(known: &Crate) -> &'static str {
    match known.name {
        "quorate-core" | "quorate-contracts" => {
            "the crate is pure: time, randomness and stored rows come in as arguments"
        }
        _ => "SQL stays in the backends, and anyhow in the binary; libraries use thiserror",
    }
}
