//! Digest of the declaration of an agent: what it is, without names of variables with secrets, prices and rate limits. Two
//! workers whose agents have the same digest can stand in for each other.

use std::path::{Component, Path};

use quorate_core::{DeclarationDigest, hex};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::agent::{AgentSettings, RecordMode};
use crate::limits::PROGRAM_BYTES_MAX;
use crate::use_spec::UseSpec;

/// Computes the digest. The files of the playbook that a command names are part of it, so that programs of the same name in two
/// playbooks are different agents.
pub(crate) fn digest(
    line: &str,
    declared: &UseSpec,
    settings: &AgentSettings,
    directory: &Path,
) -> DeclarationDigest {
    let files = match declared {
        UseSpec::Command(argv) => argv.iter().filter_map(|word| program_file(word, directory)).collect(),
        UseSpec::Heuristic(_) | UseSpec::Model { .. } | UseSpec::Http(_) => Vec::new(),
    };
    let is_replayed = matches!(settings.record_mode, RecordMode::Replay(_));
    // A list, because the order of fields is not fixed. A change of it changes all digests, as if every agent were another.
    let content = json!([
        ["use", line.trim()],
        ["prompt", settings.instructions],
        ["tasks", settings.tasks],
        ["env", settings.env],
        ["hub", settings.hub],
        ["replayed", is_replayed],
        ["files", files],
    ]);
    DeclarationDigest::of(content.to_string().as_bytes())
}

/// Computes the digest of an agent that writes approved letters to this directory.
pub(crate) fn of_letters(directory: &Path) -> DeclarationDigest {
    DeclarationDigest::of(json!(["letters", directory]).to_string().as_bytes())
}

/// Returns the name and the digest of a file below the directory of the playbook, if a word of a command names one.
fn program_file(word: &str, directory: &Path) -> Option<Value> {
    let path = Path::new(word);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let path = directory.join(path);
    let is_small =
        |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.len() <= PROGRAM_BYTES_MAX);
    if word.is_empty() || !is_below || !is_small(&path) {
        return None;
    }
    let content = std::fs::read(path).ok()?;
    Some(json!([word, hex::encode(&Sha256::digest(content))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(line: &str, settings: &AgentSettings, directory: &Path) -> DeclarationDigest {
        digest(line, &UseSpec::parse(line).unwrap(), settings, directory)
    }

    // Fails under: a setting that is not part of the digest; a key variable, price or rate limit that is.
    #[test]
    fn c2_a_declaration_is_what_the_agent_is() {
        let directory = Path::new(".");
        let base = AgentSettings::default();
        let digest = |settings: &AgentSettings| digest_of("cmd:cat", settings, directory);
        let first = digest(&base);
        assert_eq!(first, digest_of(" cmd:cat ", &base, directory), "spaces are no difference");
        assert_ne!(first, digest_of("cmd:tac", &base, directory));
        for changed in [
            AgentSettings { instructions: "Be brief.".into(), ..base.clone() },
            AgentSettings { tasks: vec!["review".into()], ..base.clone() },
            AgentSettings { env: vec!["HOME".into()], ..base.clone() },
            AgentSettings { hub: true, ..base.clone() },
            AgentSettings { record_mode: RecordMode::Replay("tape".into()), ..base.clone() },
        ] {
            assert_ne!(digest(&changed), first, "{changed:?}");
        }
        for same in [
            AgentSettings { key_env: Some("MY_KEY".into()), ..base.clone() },
            AgentSettings { calls_per_minute: Some(7), ..base.clone() },
            AgentSettings { record_mode: RecordMode::Record("tape".into()), ..base.clone() },
        ] {
            assert_eq!(digest(&same), first, "{same:?}");
        }
    }

    // Fails under: programs of one name in two directories with one digest; a digest that depends on the directory.
    #[test]
    fn c2_the_declaration_of_a_command_contains_its_program() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let digest = |directory: &tempfile::TempDir| {
            digest_of("cmd:python3 agent.py --fast", &AgentSettings::default(), directory.path())
        };
        assert_eq!(digest(&one), digest(&other));
        std::fs::write(one.path().join("agent.py"), "print(1)").unwrap();
        std::fs::write(other.path().join("agent.py"), "print(2)").unwrap();
        assert_ne!(digest(&one), digest(&other));
        std::fs::write(other.path().join("agent.py"), "print(1)").unwrap();
        assert_eq!(digest(&one), digest(&other));
        assert!(program_file("/etc/passwd", one.path()).is_none());
        assert!(program_file("../agent.py", one.path()).is_none());
    }
}
