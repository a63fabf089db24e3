//! What programs and playbooks can reach: environment variables, files, and the hub.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Hub, QUORATE};

/// A program that stores its environment and answers with a finding.
const PROGRAM: &str = "\
import json, os, urllib.request
seen = dict(os.environ)
if 'QUORATE_URL' in seen:
    request = urllib.request.Request(seen['QUORATE_URL'] + '/v1/info')
    request.add_header('Authorization', 'Bearer ' + seen['QUORATE_TOKEN'])
    seen['info'] = json.load(urllib.request.urlopen(request))
json.dump(seen, open('seen.json', 'w'))
print(json.dumps({'summary': 'I looked.', 'confidence': 0.6, 'recommendation': 'yes'}))
";

fn write_playbook(directory: &Path, head: &str, settings: &str) {
    fs::write(directory.join("program.py"), PROGRAM).expect("written");
    let playbook = format!(
        "procedure: deliberation\nsubject: Shall we?\n{head}agents:\n  ada: {{ use: 'cmd:python3 program.py'{settings} }}\n"
    );
    fs::write(directory.join("playbook.yaml"), playbook).expect("written");
}

/// Runs the playbook with these variables; returns the exit code and stderr.
fn run(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(QUORATE);
    command.args(["run", "playbook.yaml", "--json"]).args(arguments).current_dir(directory);
    for name in ["GITHUB_TOKEN", "DATABASE_URL", "GROQ_API_KEY", "LC_TIME"] {
        command.env(name, "value");
    }
    let output = command.output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn seen(directory: &Path) -> Value {
    serde_json::from_slice(&fs::read(directory.join("seen.json")).expect("the program ran")).expect("JSON")
}

// Fails under: a program that inherits the environment; a flag that also passes API keys.
#[test]
fn s14_a_program_gets_only_the_variables_that_it_lists() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    for (settings, arguments, expected) in [
        ("", &[][..], &["LC_TIME"][..]),
        (", env: [GITHUB_TOKEN]", &[], &["GITHUB_TOKEN", "LC_TIME"]),
        (
            ", env: [GROQ_API_KEY]",
            &["--inherit-env"],
            &["GITHUB_TOKEN", "DATABASE_URL", "GROQ_API_KEY", "LC_TIME"],
        ),
        ("", &["--inherit-env"], &["GITHUB_TOKEN", "DATABASE_URL", "LC_TIME"]),
    ] {
        write_playbook(path, "", settings);
        let (code, err) = run(path, arguments);
        assert_eq!(code, Some(0), "{err}");
        let seen = seen(path);
        for name in ["GITHUB_TOKEN", "DATABASE_URL", "GROQ_API_KEY", "LC_TIME"] {
            assert_eq!(seen.get(name).is_some(), expected.contains(&name), "{name} {settings} {arguments:?}");
        }
    }
    write_playbook(path, "", ", env: ['GITHUB_TOKEN=hunter2']");
    let (code, err) = run(path, &[]);
    assert!(code == Some(2) && err.contains("not the name") && !err.contains("hunter2"), "{code:?} {err}");
}

// Fails under: a path that is used as it is; a symbolic link that is not resolved.
#[test]
fn s14_a_playbook_names_only_files_below_its_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let (outside, path) = (directory.path().join("outside.txt"), directory.path().join("playbook"));
    fs::create_dir(&path).expect("created");
    fs::write(&outside, "secret text").expect("written");
    std::os::unix::fs::symlink(&outside, path.join("link.txt")).expect("linked");
    let outside = outside.to_str().expect("a path");
    for name in ["../outside.txt", "link.txt", outside] {
        write_playbook(&path, &format!("input: {name}\n"), "");
        let (code, err) = run(&path, &["--estimate"]);
        assert!(
            code == Some(2) && err.contains(":3: input: ") && err.contains("--allow-outside-files"),
            "{err}"
        );
        assert_eq!(run(&path, &["--estimate", "--allow-outside-files"]).0, Some(0), "{name}");
        assert_eq!(
            run(&path, &["--estimate", "--input", outside]).0,
            Some(0),
            "the caller may name any file"
        );
        for key in ["prompt", "record", "replay"] {
            write_playbook(&path, "", &format!(", {key}: {name}"));
            let (code, err) = run(&path, &["--estimate"]);
            assert!(code == Some(2) && err.contains(&format!("agents.ada.{key}: ")), "{code:?} {err}");
        }
    }
}

// Fails under: a token that is not the agent's own, or that is still valid after the run.
#[test]
fn s14_a_program_with_hub_access_gets_a_token_for_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    write_playbook(path, "", ", hub: true");
    let (code, err) = run(path, &["--data", "embedded"]);
    assert!(
        code == Some(2) && err.contains("agents.ada.hub") && err.contains("quorate serve"),
        "{code:?} {err}"
    );
    let hub = Hub::start(&path.join("data"));
    let (code, err) = run(path, &["--data", "data"]);
    assert_eq!(code, Some(0), "{err}");
    let seen = seen(path);
    assert_eq!((&seen["QUORATE_AGENT"], &seen["info"]["you"]["role"]), (&json!("ada"), &json!("agent")));
    let token = seen["QUORATE_TOKEN"].as_str().expect("a token");
    assert_ne!(token, hub.admin);
    let (status, _) = hub.call(token, "GET", "/v1/info", &json!({}));
    assert_eq!(status, 401, "it is revoked");
    hub.stop();
}
