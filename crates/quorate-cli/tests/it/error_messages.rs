//! Error messages of commands: the real cause in a consistent format, with a next command.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use crate::fixture::{CommandOutput, Fixture, command_output};

/// Checks the format of an error: exit code, error code, and a hint without HTTP terms.
fn check_error(line: &str, output: &CommandOutput, exit: i32, code: &str) {
    assert_eq!(output.code, Some(exit), "{line}: {}", output.err);
    assert!(output.err.contains(&format!("error[{code}]: ")), "{line}: {}", output.err);
    let help =
        output.err.split("help: ").nth(1).unwrap_or_else(|| panic!("{line} has no help: {}", output.err));
    for http_term in ["/v1/", "openapi", "Bearer", "header"] {
        assert!(!help.contains(http_term), "{line}: {}", output.err);
    }
}

// Fails under: a failed write to stdout that is ignored, by `print`, by a streaming command, or by a buffered writer.
#[test]
fn a_failed_write_to_stdout_is_an_error() {
    let mut fixture = Fixture::with_hub();
    let fail_to_write = |fixture: &Fixture, line: &str| {
        let output = fixture.shell(&format!("{line} > /dev/full"));
        check_error(line, &output, 1, "STORAGE_FULL");
        assert!(output.err.contains("failed to write to stdout: No space left"), "{line}: {}", output.err);
        output.err
    };
    let err = fail_to_write(&fixture, "quorate agent add bob");
    assert!(err.contains("quorate token create --role agent --agent bob"), "{err}");
    assert!(!err.contains("is on stdout"), "{err}");
    let err = fail_to_write(&fixture, "quorate token create --role viewer --name wall");
    assert!(err.contains("quorate token revoke tok_"), "{err}");
    for line in [
        "quorate agent list",
        "quorate memory set k 1 --json",
        "quorate memory get k",
        "quorate audit export",
        "quorate tail --from 1 --limit 1",
        "quorate --help",
    ] {
        fail_to_write(&fixture, line);
    }
    let piped = fixture.shell("set -o pipefail; quorate audit export | head -n 1");
    assert!(piped.code == Some(0) && piped.err.is_empty(), "a closed pipe is not an error: {}", piped.err);
    fixture.kill();
    fail_to_write(&fixture, "quorate audit export --data quorate-data");
    fail_to_write(&fixture, "quorate audit log --data quorate-data --limit 1");
}

// Fails under: an error about tokens although no hub is listening, or exit code 1 for a missing directory.
#[test]
fn without_a_hub_the_hint_is_to_start_one() {
    let fixture = Fixture::empty();
    // A port that was free a moment ago, so nothing is listening there.
    let address =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let line = format!("quorate status --url http://{address}");
    let unavailable = fixture.shell(&line);
    check_error(&line, &unavailable, 1, "UNAVAILABLE");
    assert!(
        unavailable.err.contains("no hub is listening") && unavailable.err.contains("quorate serve"),
        "{}",
        unavailable.err
    );
    let doctor = fixture.shell(&format!("quorate doctor --url http://{address}"));
    assert!(doctor.out.contains("no hub is listening"), "{}", doctor.out);
    check_error("nodir", &fixture.shell("quorate status --data nodir"), 3, "NOT_FOUND");
    fs::create_dir(fixture.work().join("closed")).expect("made");
    let stopped = fixture.shell("quorate status --data closed");
    check_error("at rest", &stopped, 1, "UNAVAILABLE");
    let by_variable = fixture.shell("QUORATE_DATA=closed quorate status");
    assert_eq!(by_variable.err, stopped.err, "the same for a flag and a variable");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let line = format!("quorate status --url http://{}", socket.local_addr().expect("an address"));
    check_error("listening", &fixture.shell(&line), 4, "UNAUTHENTICATED");
}

// Fails under: an unreadable directory that is reported as one without a hub.
#[test]
fn a_directory_of_another_user_is_reported_as_forbidden() {
    let fixture = Fixture::empty();
    let closed = fixture.work().join("closed");
    fs::create_dir(&closed).expect("made");
    // A copy: the other user may not be allowed to enter the directories above the binary.
    let program = fixture.work().join("quorate");
    fs::copy(env!("CARGO_BIN_EXE_quorate"), &program).expect("copied");
    let mut command = fixture.command(program.to_str().expect("text"));
    command.args(["status", "--data", "closed"]);
    let mode = if rustix::process::geteuid().is_root() {
        // Root may read everything, so the command runs as another user.
        for directory in [fixture.work().parent().expect("one"), &fixture.work(), &fixture.home()] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("changed");
        }
        command.uid(65_534).gid(65_534);
        0o700
    } else {
        0o000
    };
    fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).expect("changed");
    let output = command_output(&command.output().expect("it runs"));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("changed");
    check_error("closed", &output, 1, "FORBIDDEN");
    assert!(output.err.contains("permission denied"), "{}", output.err);
}

// Fails under: a second `agent add` that begins a new epoch or changes the agent.
#[test]
fn an_existing_agent_is_not_added_again() {
    let fixture = Fixture::with_hub();
    assert_eq!(fixture.shell("quorate agent add bob --role specialist --name Bob > bob.token").code, Some(0));
    // Without the time of the last activity, which is computed from now.
    let shown = || {
        let shown = fixture.shell("quorate agent show bob --json").out;
        shown.split("\"heardAt\"").next().unwrap_or_default().to_owned()
    };
    let before = shown();
    let second = fixture.shell("quorate agent add bob");
    check_error("again", &second, 5, "CONFLICT");
    assert!(second.out.is_empty() && second.err.contains("quorate agent set bob"), "{}", second.err);
    assert!(before.contains("specialist"), "{before}");
    assert_eq!(shown(), before);
    let token = fixture.shell("quorate token create --role agent --agent bob --name bob");
    assert_eq!(token.code, Some(0), "the hinted command works: {}", token.err);
}

// Fails under: `audit --data` that opens the directory of a running hub.
#[test]
fn the_log_of_a_running_hub_is_read_through_the_hub() {
    let fixture = Fixture::with_hub();
    for verb in ["verify", "log", "export", "checkpoint", "proof 1"] {
        let with_flag = fixture.shell(&format!("quorate audit {verb} --data quorate-data"));
        assert_eq!(with_flag.code, Some(0), "{verb}: {}", with_flag.err);
        assert_eq!(with_flag.out, fixture.shell(&format!("quorate audit {verb}")).out, "{verb}");
    }
}

// Fails under: an error without a code or a next command, a hint with HTTP terms, or an invalid value with an exit code other
// than 2.
#[test]
fn every_error_has_a_code_and_a_next_command() {
    let fixture = Fixture::with_hub();
    assert_eq!(fixture.shell("quorate memory set k 1").code, Some(0));
    for (line, exit, code, next) in [
        ("quorate status --profile nope", 2, "INVALID", "profiles"),
        ("quorate task show @last", 3, "NOT_FOUND", "quorate task"),
        ("quorate memory set x --file /nonexistent", 3, "NOT_FOUND", "path"),
        ("quorate bench NOPE", 2, "INVALID", "W0"),
        ("quorate memory get nope", 3, "NOT_FOUND", "quorate memory list"),
        ("quorate memory get k --version 9", 3, "NOT_FOUND", "quorate memory log k"),
        ("quorate status --space proj", 3, "NOT_FOUND", "--space"),
        (
            "quorate status --url http://192.0.2.1 --data quorate-data --token-file quorate-data/admin-token",
            2,
            "INVALID",
            "--insecure-http",
        ),
        ("quorate agent remove bob", 3, "NOT_FOUND", "quorate agent list"),
        ("quorate token revoke tok_0-9-9", 3, "NOT_FOUND", "quorate token list"),
        ("quorate tail --where kind=nope", 2, "INVALID", ""),
        ("quorate verify --data quorate-data", 64, "CONFLICT", ""),
    ] {
        let output = fixture.shell(line);
        check_error(line, &output, exit, code);
        let help = output.err.split("help: ").nth(1).expect("looked at");
        assert!(help.contains(next) && !help.contains("did you mean"), "{line}: {}", output.err);
    }
    for line in [
        "quorate task add sum --priority huge",
        "quorate msg send --to bob --type nope hello",
        "quorate agent add bob --role king",
        "quorate token create --role king --name x",
    ] {
        assert_eq!(fixture.shell(line).code, Some(2), "{line}");
    }
    let admin = fs::read_to_string(fixture.data().join("admin-token")).expect("a token");
    assert_eq!(fixture.shell("quorate token create --role viewer --name v > v.token").code, Some(0));
    assert_eq!(fixture.shell("quorate token revoke @last").code, Some(0));
    let revoked = fixture.shell("quorate status --token-file v.token");
    check_error("a revoked token", &revoked, 4, "UNAUTHENTICATED");
    assert!(
        revoked.err.contains("read from v.token") && !revoked.err.contains(admin.trim()),
        "{}",
        revoked.err
    );
}
