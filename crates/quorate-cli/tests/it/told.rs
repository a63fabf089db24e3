//! What a command says when something is wrong: the real cause, in one shape, with a next step that can be typed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use crate::place::{Place, Said, said};

/// An error in the one shape.
fn is_whole(line: &str, said: &Said, exit: i32, code: &str) {
    assert_eq!(said.code, Some(exit), "{line}: {}", said.err);
    assert!(said.err.contains(&format!("error[{code}]: ")), "{line}: {}", said.err);
    let help = said.err.split("help: ").nth(1).unwrap_or_else(|| panic!("{line} has no help: {}", said.err));
    for of_http in ["/v1/", "openapi", "Bearer", "header"] {
        assert!(!help.contains(of_http), "{line}: {}", said.err);
    }
}

// Fails under: a failed write that is passed over, by `print`, by what goes on and on, or by what leaves a buffer behind.
#[test]
fn data_that_does_not_get_out_is_a_failure() {
    let mut place = Place::with_hub();
    let full = |place: &Place, line: &str| {
        let said = place.shell(&format!("{line} > /dev/full"));
        is_whole(line, &said, 1, "STORAGE_FULL");
        assert!(said.err.contains("stdout could not be written: No space left"), "{line}: {}", said.err);
        said.err
    };
    let lost = full(&place, "quorate agent add bob");
    assert!(lost.contains("quorate token create --role agent --agent bob"), "{lost}");
    assert!(!lost.contains("is on stdout"), "{lost}");
    let lost = full(&place, "quorate token create --role viewer --name wall");
    assert!(lost.contains("quorate token revoke tok_"), "{lost}");
    for line in [
        "quorate agent list",
        "quorate memory set k 1 --json",
        "quorate memory get k",
        "quorate audit export",
        "quorate tail --from 1 --limit 1",
        "quorate --help",
    ] {
        full(&place, line);
    }
    let piped = place.shell("set -o pipefail; quorate audit export | head -n 1");
    assert!(piped.code == Some(0) && piped.err.is_empty(), "whoever has read enough: {}", piped.err);
    place.kill();
    full(&place, "quorate audit export --data quorate-data");
    full(&place, "quorate audit log --data quorate-data --limit 1");
}

// Fails under: a word on tokens where nobody listens, and an exit code 1 for a directory that is not there.
#[test]
fn a_newcomer_without_a_hub_is_told_to_start_one() {
    let place = Place::empty();
    // A port that was free a moment ago: nothing listens there.
    let free =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let line = format!("quorate status --url http://{free}");
    let away = place.shell(&line);
    is_whole(&line, &away, 1, "UNAVAILABLE");
    assert!(away.err.contains("no hub answers") && away.err.contains("quorate serve"), "{}", away.err);
    let doctor = place.shell(&format!("quorate doctor --url http://{free}"));
    assert!(doctor.out.contains("no hub answers"), "{}", doctor.out);
    is_whole("nodir", &place.shell("quorate status --data nodir"), 3, "NOT_FOUND");
    fs::create_dir(place.work().join("closed")).expect("made");
    let at_rest = place.shell("quorate status --data closed");
    is_whole("at rest", &at_rest, 1, "UNAVAILABLE");
    let by_variable = place.shell("QUORATE_DATA=closed quorate status");
    assert_eq!(by_variable.err, at_rest.err, "whoever names the directory, in whichever way");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let line = format!("quorate status --url http://{}", socket.local_addr().expect("an address"));
    is_whole("somebody listens", &place.shell(&line), 4, "UNAUTHENTICATED");
}

// Fails under: a directory that may not be read and is taken for one in which no hub runs.
#[test]
fn a_directory_of_somebody_else_is_said_to_be_closed() {
    let place = Place::empty();
    let closed = place.work().join("closed");
    fs::create_dir(&closed).expect("made");
    let mut command = place.command("quorate");
    command.args(["status", "--data", "closed"]);
    let mode = if rustix::process::geteuid().is_root() {
        // The administrator may read everything: somebody else asks.
        for directory in [place.work().parent().expect("one"), &place.work(), &place.home()] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("changed");
        }
        command.uid(65_534).gid(65_534);
        0o700
    } else {
        0o000
    };
    fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).expect("changed");
    let told = said(&command.output().expect("it runs"));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("changed");
    is_whole("closed", &told, 1, "FORBIDDEN");
    assert!(told.err.contains("permission denied"), "{}", told.err);
}

// Fails under: a second `agent add` that starts the agent anew, or changes anything of it.
#[test]
fn an_agent_that_is_there_is_not_added_again() {
    let place = Place::with_hub();
    assert_eq!(place.shell("quorate agent add bob --role specialist --name Bob > bob.token").code, Some(0));
    // But for when it was heard last, which is reckoned back from now.
    let shown = || {
        let shown = place.shell("quorate agent show bob --json").out;
        shown.split("\"heardAt\"").next().unwrap_or_default().to_owned()
    };
    let before = shown();
    let again = place.shell("quorate agent add bob");
    is_whole("again", &again, 5, "CONFLICT");
    assert!(again.out.is_empty() && again.err.contains("quorate agent set bob"), "{}", again.err);
    assert!(before.contains("specialist"), "{before}");
    assert_eq!(shown(), before);
    let token = place.shell("quorate token create --role agent --agent bob --name bob");
    assert_eq!(token.code, Some(0), "what is advised works: {}", token.err);
}

// Fails under: `audit --data` that opens a directory which a hub holds.
#[test]
fn the_log_of_a_directory_in_which_a_hub_runs_is_asked_of_the_hub() {
    let place = Place::with_hub();
    for verb in ["verify", "log", "export", "checkpoint", "proof 1"] {
        let with_flag = place.shell(&format!("quorate audit {verb} --data quorate-data"));
        assert_eq!(with_flag.code, Some(0), "{verb}: {}", with_flag.err);
        assert_eq!(with_flag.out, place.shell(&format!("quorate audit {verb}")).out, "{verb}");
    }
}

// Fails under: an error without a code or without a next command, one that speaks HTTP to people, and a wrong value that ends
// with another exit code than 2.
#[test]
fn every_error_has_a_code_and_a_next_command() {
    let place = Place::with_hub();
    assert_eq!(place.shell("quorate memory set k 1").code, Some(0));
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
        let said = place.shell(line);
        is_whole(line, &said, exit, code);
        let help = said.err.split("help: ").nth(1).expect("looked at");
        assert!(help.contains(next) && !help.contains("did you mean"), "{line}: {}", said.err);
    }
    for line in [
        "quorate task add sum --priority huge",
        "quorate msg send --to bob --type nope hello",
        "quorate agent add bob --role king",
        "quorate token create --role king --name x",
    ] {
        assert_eq!(place.shell(line).code, Some(2), "{line}");
    }
    let admin = fs::read_to_string(place.data().join("admin-token")).expect("a token");
    assert_eq!(place.shell("quorate token create --role viewer --name v > v.token").code, Some(0));
    assert_eq!(place.shell("quorate token revoke @last").code, Some(0));
    let gone = place.shell("quorate status --token-file v.token");
    is_whole("a revoked token", &gone, 4, "UNAUTHENTICATED");
    assert!(gone.err.contains("taken from v.token") && !gone.err.contains(admin.trim()), "{}", gone.err);
}
