//! Tests of the dependency rules for manifests.

use super::{assert_none, assert_one, violations};

/// Checks a crate whose manifest has this text after the two lines of its `[package]` table.
fn violations_in_manifest(name: &str, rest: &str) -> Vec<String> {
    let manifest = format!("[package]\nname = \"{name}\"\n{rest}");
    let (path, lib) = (format!("crates/{name}/Cargo.toml"), format!("crates/{name}/src/lib.rs"));
    violations(&[(&path, &manifest), (&lib, "//! A crate.\npub struct Head;\n")])
}

#[test]
fn dependencies_go_one_way() {
    let on = |name: &str| format!("[dependencies]\n{name} = {{ workspace = true }}\n");
    assert_one(
        &violations_in_manifest("quorate-core", &on("quorate-store")),
        "Cargo.toml:4: `quorate-core` must not",
    );
    assert_one(
        &violations_in_manifest("quorate-engine", &on("quorate-sqlite")),
        "must not depend on `quorate-sqlite`",
    );
    assert_one(
        &violations_in_manifest("quorate-cli", &on("quorate-sim")),
        "must not depend on `quorate-sim`",
    );
    assert_one(
        &violations_in_manifest("quorate-contracts", &on("quorate-core")),
        "must not depend on `quorate-core`",
    );
    assert_none(&violations_in_manifest("quorate-agents", &on("quorate-contracts")));
    assert_none(&violations_in_manifest("quorate-engine", &on("quorate-store")));
    assert_none(&violations_in_manifest("quorate-sim", &on("quorate-cli")));
}

#[test]
fn the_library_needs_the_engine_only_for_an_embedded_hub() {
    let on = |name: &str, more: &str| format!("[dependencies]\n{name} = {{ workspace = true{more} }}\n");
    for name in ["quorate-engine", "quorate-store", "quorate-sqlite", "quorate-procedures"] {
        assert_one(&violations_in_manifest("quorate", &on(name, "")), "unconditionally");
        assert_none(&violations_in_manifest("quorate", &on(name, ", optional = true")));
    }
    assert_none(&violations_in_manifest("quorate", &on("quorate-env", "")));
}

#[test]
fn every_dependency_syntax_is_recognized() {
    for rest in [
        "[dependencies]\nquorate-store.workspace = true\n",
        "[dependencies.quorate-store]\nworkspace = true\n",
        "[target.'cfg(unix)'.dependencies]\nquorate-store = { workspace = true }\n",
        "[build-dependencies]\nquorate-store = { workspace = true }\n",
        "[dependencies]\nseam = { package = \"quorate-store\", workspace = true }\n",
        "[dependencies]\nbytes = { workspace = true, features = [\n  \"std\", # A comment ]\n] }\nquorate-store.workspace = true\n",
    ] {
        assert_one(&violations_in_manifest("quorate-core", rest), "must not depend on `quorate-store`");
    }
}

#[test]
fn dev_dependencies_may_be_lower_crates_the_crate_itself_and_the_simulation() {
    let on = |name: &str| format!("[dev-dependencies]\n{name} = {{ workspace = true }}\n");
    assert_none(&violations_in_manifest("quorate-engine", &on("quorate-sqlite")));
    assert_none(&violations_in_manifest("quorate-engine", &on("quorate-sim")));
    assert_none(&violations_in_manifest("quorate-engine", &on("quorate-engine")));
    assert_one(
        &violations_in_manifest("quorate-store", &on("quorate-engine")),
        "must not depend on `quorate-engine`",
    );
}

#[test]
fn core_stays_pure() {
    for name in ["tokio", "rusqlite", "jiff", "getrandom"] {
        let rest = format!("[dependencies]\n{name} = {{ workspace = true }}\n");
        assert_one(
            &violations_in_manifest("quorate-core", &rest),
            &format!("must not depend on the external crate `{name}`"),
        );
    }
    assert_none(&violations_in_manifest("quorate-core", "[dependencies]\nserde = { workspace = true }\n"));
}

#[test]
fn sql_stays_in_the_backend_and_anyhow_in_the_binary() {
    let on = |name: &str| format!("[dependencies]\n{name} = {{ workspace = true }}\n");
    assert_one(
        &violations_in_manifest("quorate-engine", &on("rusqlite")),
        "must not depend on the external crate `rusqlite`",
    );
    assert_one(
        &violations_in_manifest("quorate-sqlite", &on("anyhow")),
        "must not depend on the external crate `anyhow`",
    );
    assert_none(&violations_in_manifest("quorate-sqlite", &on("rusqlite")));
    assert_one(
        &violations_in_manifest("quorate-bench", &on("rusqlite")),
        "must not depend on the external crate `rusqlite`",
    );
    assert_none(&violations_in_manifest("quorate-bench", &on("anyhow")));
    assert_none(&violations_in_manifest("quorate-cli", &on("anyhow")));
}

#[test]
fn test_features_stay_out_of_the_product() {
    let on = |table: &str| {
        format!("[{table}]\nquorate-sqlite = {{ workspace = true, features = [\"faults\"] }}\n")
    };
    assert_one(&violations_in_manifest("quorate-cli", &on("dependencies")), "test-only feature");
    assert_none(&violations_in_manifest("quorate-cli", &on("dev-dependencies")));
    assert_none(&violations_in_manifest("quorate-sim", &on("dependencies")));
    let schemas = "[dependencies]\nquorate-api = { workspace = true, features = [\"schema\"] }\n";
    assert_one(&violations_in_manifest("quorate-server", schemas), "test-only feature");
    let default = "[features]\ndefault = [\"sabotage\"]\nsabotage = []\n";
    assert_one(
        &violations_in_manifest("quorate-sqlite", default),
        "Cargo.toml:4: a test-only feature is enabled by default",
    );
}

#[test]
fn versions_are_specified_in_the_root() {
    assert_one(
        &violations_in_manifest("quorate-core", "[dependencies]\nserde = \"1\"\n"),
        "not inherited from the workspace",
    );
}

#[test]
fn a_crate_is_in_the_list_and_its_directory_has_its_name() {
    assert_one(&violations_in_manifest("quorate-shed", ""), "not in the list of crates");
    let lib = ("crates/quorate-core/src/lib.rs", "//! A crate.\npub struct Head;\n");
    assert_one(&violations(&[lib]), "has no Cargo.toml");
    let manifest = ("crates/quorate-core/Cargo.toml", "[package]\nname = \"core\"\n");
    assert_one(&violations(&[lib, manifest]), "contains the crate `core`");
}
