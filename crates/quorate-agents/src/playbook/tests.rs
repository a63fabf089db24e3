//! Errors of playbooks: message, position and hint.

use std::path::Path;

use super::{InputSource, Playbook, PlaybookAccess, PlaybookAgents, PlaybookError, PlaybookPosition};

const HEAD: &str = "procedure: deliberation\nsubject: Shall we?\n";

fn parse(playbook: &str) -> Result<Playbook, PlaybookError> {
    let input = InputSource::Text("some text".to_owned());
    Playbook::parse(Path::new("team/play.yaml"), playbook, input, PlaybookAccess::default())
}

/// Writes a playbook and reads its agents.
fn read_agents(playbook: &str) -> Result<PlaybookAgents, PlaybookError> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("play.yaml");
    std::fs::write(&file, playbook).unwrap();
    PlaybookAgents::read(&file, PlaybookAccess::default())
}

#[track_caller]
fn check_error(playbook: &str, line: u64, message: &str, hint: &str) {
    let error = parse(playbook).unwrap_err();
    let position = error.position().cloned().unwrap();
    assert_eq!((position.file.as_path(), position.line), (Path::new("team/play.yaml"), line), "{error}");
    assert!(error.to_string().starts_with(&format!("team/play.yaml:{line}")), "{error}");
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.hint().contains(hint), "{}", error.hint());
}

// Fails under: an error without its line; the words of the YAML parser for a repeated name.
#[test]
fn an_invalid_playbook_is_reported_with_position_and_hint() {
    let agent = |rest: &str| format!("{HEAD}agents:\n  ada: {{ use: 'cmd:true'{rest} }}\n");
    check_error(
        &agent("").replace("agents", "agnets"),
        3,
        "unknown key \"agnets\"",
        "did you mean \"agents\"",
    );
    let twice = agent("") + "  ada: { use: 'cmd:false' }\n";
    check_error(&twice, 5, "the key \"ada\" is there twice", "each agent");
    assert!(!parse(&twice).unwrap_err().to_string().contains("DuplicateKeyPolicy"));
    check_error(&agent(", tasks: []"), 4, "agents.ada.tasks: the list is empty", "omit the key");
    check_error(&agent(", tasks: ['']"), 4, "agents.ada.tasks: a type is empty", "tasks: [review");
    let long = format!(", tasks: ['{}']", "x".repeat(200));
    check_error(&agent(&long), 4, "agents.ada.tasks: capabilities is too long", "at most 128 bytes");
    let heuristic = agent(", tasks: [review], when: always").replace("cmd:true", "heuristic:risk");
    check_error(&heuristic, 4, "heuristics only answer requests", "cmd:COMMAND");
    let nothing = agent("").replace(HEAD, "");
    check_error(&nothing, 1, "missing key \"procedure\"", "quorate worker");
    check_error(
        &agent("").replace("subject: Shall we?\n", ""),
        1,
        "missing key \"subject\"",
        "subject: QUESTION",
    );
}

// Fails under: a playbook for workers that needs a procedure or reads the input; task types that are lost.
#[test]
fn c2_a_worker_reads_the_agents_without_procedure_and_input() {
    let agents =
        "agents:\n  ada: { use: 'cmd:true', tasks: [review, count] }\n  ben: { use: 'heuristic:risk' }\n";
    let read = read_agents(agents).unwrap();
    assert_eq!(read.agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(), ["ada", "ben"]);
    assert_eq!((read.agents[0].tasks.join(" "), read.agents[1].tasks.len()), ("review count".to_owned(), 0));
    let with_input = read_agents(&format!("{HEAD}input: missing.txt\n{agents}")).unwrap();
    assert_eq!(with_input.agents.len(), 2);
    let approval = "approval: { action: send, write: a.txt, letter: hello }\n";
    assert!(read_agents(&format!("{HEAD}{agents}{approval}")).unwrap().approval.is_some());
    for (playbook, message) in [
        (format!("{agents}{approval}"), "no procedure that could request it"),
        ("agents: {}\n".to_owned(), "there is none"),
        (format!("{HEAD}rule: none\n{agents}"), "none"),
    ] {
        let error = read_agents(&playbook).unwrap_err();
        assert!(error.to_string().contains(message) && error.position().is_some(), "{error}");
    }
}

// Fails under: an invalid approval that is only noticed after the deliberation; a setting that is lost.
#[test]
fn n16_an_approval_is_checked_with_its_revision() {
    let head = format!("{HEAD}agents:\n  ada: {{ use: 'cmd:true' }}\n  ben: {{ use: 'cmd:true' }}\n");
    let with =
        |rest: &str| format!("{head}approval: {{ action: send, write: a.txt, letter: hello{rest} }}\n");
    let approval = parse(&with(", revise: 2, revise_by: [ben], timeout_hours: 1")).unwrap();
    let proposal = approval.approval.unwrap().proposal(&approval.spec);
    let revise = proposal.revise.unwrap();
    assert_eq!((revise.max, revise.agents, proposal.timeout_ms), (2, vec!["ben".to_owned()], 3_600_000));
    assert_eq!(
        parse(&with("")).map(|read| read.approval.unwrap().proposal(&read.spec).revise).unwrap(),
        None
    );
    for (playbook, message, hint) in [
        (with(", revise: 6"), "approval.revise: expected 1 to 5, found 6", "final"),
        (with(", revise_by: [ben]"), "approval.revise_by: there is no revision", "revise: 1"),
        (with(", revise: 1, revise_by: [carl]"), "\"carl\" takes no part", "ada, ben"),
        (with(", revise: 1, revise_by: [ben, ben]"), "ben is listed twice", "once"),
        (with(", timeout_hours: 0"), "approval.timeout_hours: 0 is not between 1 and 2160", "72 hours"),
        (with("").replace("a.txt", "../a.txt"), "approval.write: \"../a.txt\" is not a file name", "--out"),
        (with("").replace("hello", "'{today}'"), "approval.letter: unknown placeholder {today}", "braces"),
        (with("").replace("send", "' '"), "approval.action: expected 1 to 128 bytes", "few words"),
    ] {
        check_error(&playbook, 6, message, hint);
    }
}

// Fails under: a file that cannot be read, without its cause; a column that is not rendered.
#[test]
fn errors_render_their_position_or_cause() {
    let error = PlaybookAgents::read(Path::new("/no/such/play.yaml"), PlaybookAccess::default()).unwrap_err();
    assert_eq!(error.to_string(), "failed to read /no/such/play.yaml");
    assert!(error.with_cause().contains("No such file") && error.position().is_none(), "{error}");
    let position = PlaybookPosition { file: "a.yaml".into(), line: 3, column: Some(7) };
    assert_eq!(position.to_string(), "a.yaml:3:7");
}
