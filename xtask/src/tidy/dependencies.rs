//! Allowed dependencies between the crates of the workspace, and external crates that are forbidden in some of them.
//!
//! Dependencies go one way: each crate may only depend on crates before it in the list.

use super::manifest::{self, Dependency, DependencyUse, Manifest};
use super::{File, Violation, crates};

struct Crate {
    name: &'static str,
    /// Workspace crates that it may depend on.
    may_use: &'static [&'static str],
    /// External crates that it must not depend on, except in dev-dependencies.
    forbidden: &'static [&'static str],
}

/// All crates, from the lowest layer to the highest.
const CRATES: &[Crate] = &[
    Crate { name: "quorate-core", may_use: &[], forbidden: NOT_PURE },
    Crate { name: "quorate-api", may_use: &["quorate-core"], forbidden: NOT_PURE },
    Crate { name: "quorate-env", may_use: &["quorate-core"], forbidden: NO_SQL },
    Crate { name: "quorate-http", may_use: &["quorate-core"], forbidden: NO_SQL },
    Crate { name: "quorate-store", may_use: &["quorate-core", "quorate-env"], forbidden: NO_SQL },
    Crate { name: "quorate-sqlite", may_use: &["quorate-core", "quorate-store"], forbidden: &["anyhow"] },
    Crate {
        name: "quorate-engine",
        may_use: &["quorate-api", "quorate-core", "quorate-store"],
        forbidden: NO_SQL,
    },
    Crate {
        name: "quorate-procedures",
        may_use: &["quorate-core", "quorate-engine", "quorate-env"],
        forbidden: NO_SQL,
    },
    Crate { name: "quorate-contracts", may_use: &[], forbidden: NOT_PURE },
    Crate {
        name: "quorate",
        may_use: &[
            "quorate-api",
            "quorate-core",
            "quorate-env",
            "quorate-store",
            "quorate-sqlite",
            "quorate-engine",
            "quorate-procedures",
        ],
        forbidden: NO_SQL,
    },
    Crate {
        name: "quorate-agents",
        may_use: &[
            "quorate-contracts",
            "quorate-core",
            "quorate-env",
            "quorate-http",
            "quorate-procedures",
            "quorate",
        ],
        forbidden: NO_SQL,
    },
    Crate {
        name: "quorate-server",
        may_use: &[
            "quorate-api",
            "quorate-core",
            "quorate-engine",
            "quorate-env",
            "quorate-http",
            "quorate-procedures",
            "quorate",
        ],
        forbidden: NO_SQL,
    },
    Crate {
        name: "quorate-client",
        may_use: &["quorate-api", "quorate-core", "quorate-env", "quorate-http", "quorate"],
        forbidden: NO_SQL,
    },
    Crate {
        name: "quorate-bench",
        may_use: &[
            "quorate-core",
            "quorate-store",
            "quorate-sqlite",
            "quorate-engine",
            "quorate-procedures",
            "quorate",
        ],
        forbidden: SQL,
    },
    Crate {
        name: "quorate-cli",
        may_use: &[
            "quorate-api",
            "quorate-core",
            "quorate-env",
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
        forbidden: &[],
    },
    Crate {
        name: "quorate-sim",
        may_use: &[
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
        forbidden: &[],
    },
];

const SIM: &str = "quorate-sim";

/// For pure crates: no I/O, no async, no clock, no randomness and no SQL.
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

/// For libraries outside the storage backends: no SQL, and error types of their own.
const NO_SQL: &[&str] = &["anyhow", "rusqlite", "sqlx", "tokio-postgres"];

/// For the benchmarks: no SQL. They are part of the binary, which uses anyhow.
const SQL: &[&str] = &["rusqlite", "sqlx", "tokio-postgres"];

/// Dependencies of the library that only an embedded hub needs. The network client uses the library without them.
const EMBEDDED: [&str; 4] = ["quorate-store", "quorate-sqlite", "quorate-engine", "quorate-procedures"];

/// Test-only features: deliberate faults, and the JSON Schemas from which the OpenAPI document is generated.
const TEST_FEATURES: [&str; 3] = ["\"faults\"", "\"sabotage\"", "\"schema\""];

/// Returns the layer of a crate: its position in the list, from the lowest. Unknown crates are the highest.
pub(super) fn layer(directory: &str) -> usize {
    CRATES.iter().position(|entry| entry.name == directory).unwrap_or(CRATES.len())
}

/// Checks the manifests of all crates.
pub(crate) fn check(files: &[File]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for directory in crates(files) {
        let path = format!("crates/{directory}/Cargo.toml");
        let Some(file) = files.iter().find(|file| file.path == path) else {
            let help = "use one directory in crates/ per crate, with a Cargo.toml in it";
            violations.push(Violation::new("dependency", &path, 1, "the crate has no Cargo.toml", help));
            continue;
        };
        let manifest = manifest::read(&file.text);
        if manifest.name != directory {
            let problem = format!("the directory `{directory}` contains the crate `{}`", manifest.name);
            violations.push(Violation::new("dependency", &path, 1, problem, "give both the same name"));
        }
        match CRATES.iter().find(|entry| entry.name == directory) {
            Some(entry) => violations.extend(check_crate(entry, &manifest, &path)),
            None => {
                let problem = format!("`{directory}` is not in the list of crates");
                let help = "add it to the list in xtask/src/tidy/dependencies.rs, with a decision record";
                violations.push(Violation::new("dependency", &path, 1, problem, help));
            }
        }
    }
    violations
}

fn check_crate(entry: &Crate, manifest: &Manifest, path: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for dependency in &manifest.dependencies {
        let mut report = |problem: String, help: &str| {
            violations.push(Violation::new("dependency", path, dependency.line, problem, help));
        };
        let Dependency { name, text, .. } = dependency;
        if CRATES.iter().any(|other| other.name == name) && !is_allowed(entry, dependency) {
            let help =
                "dependencies go one way: move the code to a lower crate, or pass the value as an argument";
            report(format!("`{}` must not depend on `{name}`", entry.name), help);
        }
        if entry.forbidden.contains(&name.as_str()) && dependency.use_for == DependencyUse::Product {
            report(format!("`{}` must not depend on the external crate `{name}`", entry.name), reason(entry));
        }
        let uses_test_feature = TEST_FEATURES.iter().any(|feature| text.contains(feature));
        if uses_test_feature && dependency.use_for == DependencyUse::Product && entry.name != SIM {
            let help = "enable it in dev-dependencies only";
            report(format!("a test-only feature of `{name}` is enabled in the product"), help);
        }
        let is_embedded = entry.name == "quorate" && EMBEDDED.contains(&name.as_str());
        if is_embedded && dependency.use_for == DependencyUse::Product && !text.contains("optional = true") {
            let help =
                "make it optional and add it to the feature `embedded`: the network client does not need it";
            report(format!("`quorate` must not depend on `{name}` unconditionally"), help);
        }
        if !text.contains("workspace = true") {
            let help = "specify the version in the root Cargo.toml and use `workspace = true` here";
            report(format!("`{name}` is not inherited from the workspace"), help);
        }
    }
    if let Some((line, value)) = &manifest.default_features
        && TEST_FEATURES.iter().any(|feature| value.contains(feature))
    {
        let help = "remove it from the default features";
        violations.push(Violation::new(
            "dependency",
            path,
            *line,
            "a test-only feature is enabled by default",
            help,
        ));
    }
    violations
}

/// Whether a dependency is allowed. Dev-dependencies may be any crate before this one in the list, quorate-sim, and the
/// crate itself, to enable a feature in its tests.
fn is_allowed(entry: &Crate, dependency: &Dependency) -> bool {
    let name = dependency.name.as_str();
    let before =
        || CRATES.iter().take_while(|other| other.name != entry.name).any(|other| other.name == name);
    match dependency.use_for {
        DependencyUse::Product => entry.may_use.contains(&name),
        DependencyUse::Tests => name == SIM || name == entry.name || before(),
    }
}

fn reason(entry: &Crate) -> &'static str {
    match entry.name {
        "quorate-core" | "quorate-contracts" => {
            "the crate is pure: pass time, randomness and stored rows as arguments"
        }
        _ => "use SQL only in the storage backends, and anyhow only in the binary; libraries use thiserror",
    }
}
