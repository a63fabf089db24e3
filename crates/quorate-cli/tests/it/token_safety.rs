//! Tokens are sent only to hubs that their owner chose, regardless of the project's file.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::fixture::{CommandOutput, Fixture};

/// A local server that records all requests.
struct RecordingServer {
    url: String,
    requests: Receiver<String>,
}

impl RecordingServer {
    fn new() -> Self {
        Self::at("127.0.0.1:0")
    }

    fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (sender, requests) = channel();
        // Runs until the test process ends.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).unwrap_or(0);
                let _ = sender.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
                let _ =
                    stream.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        Self { url, requests }
    }

    /// Whether any request since the last call had a token. The client has exited, so all its requests have arrived.
    fn got_a_token(&self) -> bool {
        let mut sentinel =
            std::net::TcpStream::connect(self.url.trim_start_matches("http://")).expect("it listens");
        sentinel.write_all(b"the end").expect("sent");
        let mut has_token = false;
        loop {
            match self.requests.recv_timeout(Duration::from_secs(10)).expect("a request").as_str() {
                "the end" => return has_token,
                request => has_token |= request.contains("qrt_"),
            }
        }
    }
}

/// Level at which a setting is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    Flag,
    Variable,
    User,
    Project,
    Nowhere,
}

const LEVELS: [Level; 5] = [Level::Flag, Level::Variable, Level::User, Level::Project, Level::Nowhere];
const USER_LEVELS: [Level; 3] = [Level::Flag, Level::Variable, Level::User];

/// Runs `quorate status` with settings at the given levels.
fn status(fixture: &Fixture, settings: &[(&str, Level, &str)]) -> CommandOutput {
    let (mut flags, mut variables) = (String::new(), String::new());
    let (mut user, mut project) = (String::new(), String::new());
    for (key, level, value) in settings {
        match level {
            Level::Flag => flags.push_str(&format!(" --{} {value}", key.replace('_', "-"))),
            Level::Variable => variables.push_str(&format!("QUORATE_{}={value} ", key.to_uppercase())),
            Level::User => user.push_str(&format!("{key}: {value}\n")),
            Level::Project => project.push_str(&format!("{key}: {value}\n")),
            Level::Nowhere => {}
        }
    }
    let config = fixture.home().join(".config/quorate");
    fs::create_dir_all(&config).expect("made");
    fs::write(config.join("config.yaml"), format!("# mine\n{user}")).expect("written");
    fs::write(fixture.work().join("quorate.yaml"), format!("# project\n{project}")).expect("written");
    fixture.shell(&format!("{variables}quorate status{flags}"))
}

/// Starts a hub in `quorate-data`, with its token in a file of the project, and creates another directory with a token but
/// without a hub.
fn fixture() -> (Fixture, RecordingServer, String) {
    let fixture = Fixture::with_hub();
    let secret = fs::read_to_string(fixture.data().join("admin-token")).expect("a token");
    fs::write(fixture.work().join("own.token"), &secret).expect("written");
    let other = fixture.home().join("other");
    fs::create_dir(&other).expect("made");
    fs::write(other.join("admin-token"), &secret).expect("written");
    let other = other.display().to_string();
    (fixture, RecordingServer::new(), other)
}

// Fails under: a token that is sent to a `url` that only a project sets, whether the token is the user's or the project's.
#[test]
fn i18_no_token_is_sent_to_a_url_that_only_a_project_sets() {
    let (fixture, server, _) = fixture();
    let token = fixture.work().join("own.token").display().to_string();
    for url in LEVELS {
        for token_level in [Level::Flag, Level::Variable, Level::User, Level::Project] {
            // A project can only name files inside it.
            let file = if token_level == Level::Project { "own.token" } else { &token };
            let output = status(&fixture, &[("url", url, &server.url), ("token_file", token_level, file)]);
            let case = format!("url by {url:?}, token by {token_level:?}: {}", output.err);
            assert_eq!(server.got_a_token(), USER_LEVELS.contains(&url), "{case}");
            match url {
                Level::Project => {
                    assert_eq!(output.code, Some(2), "{case}");
                    assert!(
                        output.err.contains(", which only ") && output.err.contains("--url http://"),
                        "{case}"
                    );
                }
                Level::Nowhere => assert_eq!(output.code, Some(0), "the running hub is used: {case}"),
                _ => {}
            }
        }
    }
}

// Fails under: the token of a directory that a project sets, sent to a URL of the project or the user (finding 27).
#[test]
fn i18_the_token_of_a_directory_is_sent_to_the_hub_running_there() {
    let (fixture, server, other) = fixture();
    for url in LEVELS {
        for data in LEVELS {
            let output = status(&fixture, &[("url", url, &server.url), ("data", data, &other)]);
            let case = format!("url by {url:?}, data by {data:?}: {}", output.err);
            // The user set both, and a directory without a hub does not override the URL.
            let both = USER_LEVELS.contains(&url) && USER_LEVELS.contains(&data);
            assert_eq!(server.got_a_token(), both && (data != Level::Flag || url == Level::Flag), "{case}");
            if (url, data) == (Level::Nowhere, Level::Nowhere) {
                assert_eq!(output.code, Some(0), "{case}");
            } else {
                assert_ne!(output.code, Some(0), "{case}");
            }
        }
    }
    // A directory with a running hub is used at any level, and the URL of that hub is trusted.
    for data in LEVELS {
        let output = status(&fixture, &[("data", data, &fixture.data().display().to_string())]);
        assert_eq!(output.code, Some(0), "data by {data:?}: {}", output.err);
    }
    let own = format!("http://{}", fixture.address);
    assert_eq!(status(&fixture, &[("url", Level::Project, &own)]).code, Some(0));
}

// Fails under: a `ready.json` that is trusted although no hub holds the lock of the directory.
#[test]
fn i18_a_forged_ready_file_gets_no_token() {
    let (fixture, server, _) = fixture();
    let address = server.url.trim_start_matches("http://");
    let token = fixture.work().join("own.token").display().to_string();
    for directory in [fixture.home().join("other"), fixture.work().join("brought")] {
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join("ready.json"), format!("{{\"http\":\"{address}\",\"pid\":1}}"))
            .expect("written");
        fs::write(directory.join("quorate.lock"), "1\n").expect("written");
        for data in [Level::Flag, Level::Variable, Level::User, Level::Project] {
            for token_level in [Level::Flag, Level::Variable, Level::User, Level::Nowhere] {
                let directory = directory.display().to_string();
                let output =
                    status(&fixture, &[("data", data, &directory), ("token_file", token_level, &token)]);
                assert!(
                    !server.got_a_token(),
                    "{directory} by {data:?}, token by {token_level:?}: {}",
                    output.err
                );
                assert_ne!(output.code, Some(0), "{}", output.err);
            }
        }
    }
}

// Fails under: a `ready.json` that is trusted after its hub was killed and another process has the port or the directory.
#[test]
fn i18_another_process_on_the_port_of_a_killed_hub_gets_no_token() {
    let (mut fixture, _, _) = fixture();
    fixture.kill();
    let impostor = RecordingServer::at(&fixture.address);
    let data = fixture.data().display().to_string();
    let token = fixture.work().join("own.token").display().to_string();
    for level in LEVELS {
        for token_level in [Level::Flag, Level::Variable, Level::User, Level::Nowhere] {
            let output = status(&fixture, &[("data", level, &data), ("token_file", token_level, &token)]);
            assert!(!impostor.got_a_token(), "data by {level:?}, token by {token_level:?}: {}", output.err);
            assert_ne!(output.code, Some(0), "{}", output.err);
        }
    }
    // Another process may hold the lock without listening, such as a program with an embedded hub.
    let lock = fs::File::options().write(true).open(fixture.data().join("quorate.lock")).expect("a lock");
    lock.lock().expect("held");
    fs::write(fixture.data().join("quorate.lock"), format!("{}\n", std::process::id())).expect("written");
    let output = status(&fixture, &[("data", Level::Flag, &data)]);
    assert_eq!((output.code, impostor.got_a_token()), (Some(1), false), "{}", output.err);
}

// Fails under: a reconnect that does not check which process is listening.
#[test]
fn i18_a_reconnecting_tail_sends_no_token_to_another_process() {
    let (mut fixture, _, _) = fixture();
    let mut tail = fixture.command("quorate");
    tail.args(["tail", "--from", "1"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut tail = tail.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(tail.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    fixture.kill();
    let impostor = RecordingServer::at(&fixture.address);
    let requests: Vec<String> = (0..3)
        .map(|_| impostor.requests.recv_timeout(Duration::from_secs(20)).expect("it retries"))
        .collect();
    let _ = (tail.kill(), tail.wait());
    assert!(requests.iter().all(|request| !request.contains("qrt_")), "{}", requests.concat().len());
}

// Fails under: a start that makes the revoked token of the file valid again.
#[test]
fn i19_a_revoked_token_stays_revoked() {
    let fixture = Fixture::empty();
    let output = with_temporary_hub(
        &fixture,
        "team",
        "cat team/admin-token; quorate token revoke @last --data team; quorate status --data team",
    );
    assert_eq!(output.code, Some(4), "{}", output.err);
    let old = output.out.lines().next().expect("a token").to_owned();
    let output = with_temporary_hub(
        &fixture,
        "team",
        &format!("QUORATE_TOKEN={old} quorate status --data team; test $? = 4 && quorate status --data team"),
    );
    assert_eq!(output.code, Some(0), "the old token is rejected, the new one is accepted: {}", output.err);
}

// Fails under: a path that is checked without resolving symlinks.
#[test]
fn i18_a_project_can_only_use_its_own_token_files() {
    let (fixture, server, _) = fixture();
    symlink(fixture.home().join("other/admin-token"), fixture.work().join("link")).expect("linked");
    symlink(fixture.home().join("other"), fixture.work().join("away")).expect("linked");
    for file in ["link", "away/admin-token", "quorate-data/admin-token"] {
        let output =
            status(&fixture, &[("url", Level::Flag, &server.url), ("token_file", Level::Project, file)]);
        assert_eq!((output.code, server.got_a_token()), (Some(2), false), "{file}: {}", output.err);
        assert!(output.err.contains("is not a token file of the project"), "{}", output.err);
    }
}

#[test]
fn a_project_may_set_a_url_that_the_user_also_sets() {
    let (fixture, server, _) = fixture();
    let output = status(
        &fixture,
        &[("url", Level::Project, &server.url), ("token_file", Level::Project, "own.token")],
    );
    assert_eq!((output.code, server.got_a_token()), (Some(2), false), "{}", output.err);
    let config = fixture.home().join(".config/quorate/config.yaml");
    fs::write(config, format!("profiles:\n  team:\n    url: {}\n", server.url)).expect("written");
    fixture.shell("quorate status");
    assert!(server.got_a_token(), "the user's file sets it, even if only in a profile");
    // A project may select a profile of the user, but not change it.
    let secret = fixture.work().join("own.token").display().to_string();
    let config = fixture.home().join(".config/quorate/config.yaml");
    let own = format!("http://{}", fixture.address);
    fs::write(config, format!("profiles:\n  team:\n    url: {own}\n    token_file: {secret}\n"))
        .expect("written");
    fs::write(fixture.work().join("quorate.yaml"), "profile: team\n").expect("written");
    assert_eq!(fixture.shell("quorate status").code, Some(0));
    let changed = format!("profile: team\nprofiles:\n  team:\n    url: {}\n", server.url);
    fs::write(fixture.work().join("quorate.yaml"), changed).expect("written");
    let output = fixture.shell("quorate status");
    assert_eq!((output.code, server.got_a_token()), (Some(2), false), "{}", output.err);
}

#[test]
fn i18_the_ca_file_of_a_project_is_used_for_loopback_only() {
    let (fixture, _, _) = fixture();
    fs::write(fixture.work().join("ca.pem"), "no certificate").expect("written");
    let token = fixture.work().join("own.token").display().to_string();
    let error_of = |url: &str, token_level| {
        let output = status(
            &fixture,
            &[
                ("url", Level::Flag, url),
                ("token_file", Level::Flag, &token),
                ("ca_file", token_level, "ca.pem"),
            ],
        );
        output.err
    };
    assert!(error_of("https://192.0.2.1:1", Level::Project).contains("refusing ca_file"));
    for (url, token_level) in [("https://127.0.0.1:1", Level::Project), ("https://192.0.2.1:1", Level::Flag)]
    {
        let output = error_of(url, token_level);
        assert!(output.contains("ca.pem") && !output.contains("refusing ca_file"), "it is used: {output}");
    }
    for other in ["https://localhost:1@192.0.2.1:1", "https://127.0.0.1@192.0.2.1"] {
        assert!(error_of(other, Level::Project).contains("refusing ca_file"), "{other}");
    }
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o777
}

/// Starts a hub with umask 0, runs a command, and stops the hub.
fn with_temporary_hub(fixture: &Fixture, data: &str, then: &str) -> CommandOutput {
    fixture.shell(&format!(
        "umask 0; rm -f ready.json; quorate serve --data {data} --listen 127.0.0.1:0 > ready.json 2> output.txt & hub=$!
         for i in $(seq 200); do test -s ready.json && break; sleep 0.05; done
         {then}
         code=$?; kill $hub; wait $hub; exit $code"
    ))
}

// Fails under: a start that assumes that an earlier admin token still exists; an old token that stays valid.
#[test]
fn i19_the_owner_of_a_restored_directory_has_access() {
    let fixture = Fixture::empty();
    let first = with_temporary_hub(
        &fixture,
        "team",
        "quorate memory set plan kept --data team && cat team/admin-token",
    );
    assert_eq!(first.code, Some(0), "{}", first.err);
    let old = first.out.trim().to_owned();
    let copied = fixture.shell("umask 022; quorate backup create --data team --out copy && quorate backup restore --from copy --data back");
    assert_eq!(copied.code, Some(0), "{}", copied.err);
    assert!(!fixture.work().join("back/admin-token").exists(), "a backup contains no plaintext secret");
    let second = with_temporary_hub(
        &fixture,
        "back",
        "quorate memory get plan --data back && cat back/admin-token && quorate token list --data back --jsonl | wc -l",
    );
    assert_eq!(second.code, Some(0), "{}", second.err);
    let new = second.out.trim_start_matches("kept");
    assert!(new.starts_with("qrt_") && !new.contains(&old), "a new token");
    assert!(new.ends_with("\n1\n"), "the old token is revoked: {}", new.len());
    assert_eq!(mode(&fixture.work().join("back/admin-token")), 0o600);
    let ready: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(fixture.work().join("ready.json")).expect("a line"))
            .expect("JSON");
    assert!(
        fixture.work().join(ready["adminTokenFile"].as_str().expect("a path")).exists(),
        "the ready line names an existing file"
    );
    let refused =
        with_temporary_hub(&fixture, "back", &format!("QUORATE_TOKEN={old} quorate status --data back"));
    assert_eq!(refused.code, Some(4), "the old token is rejected: {}", refused.err);
    // A lost file or an invalid token is replaced; a valid token is kept.
    for command in [
        "rm back/admin-token",
        "echo nonsense > back/admin-token",
        "cp team/admin-token back/admin-token",
        "true",
    ] {
        let before = fs::read_to_string(fixture.work().join("back/admin-token")).unwrap_or_default();
        assert_eq!(fixture.shell(command).code, Some(0));
        let output = with_temporary_hub(&fixture, "back", "quorate status --data back");
        assert_eq!(output.code, Some(0), "{command}: {}", output.err);
        let after = fs::read_to_string(fixture.work().join("back/admin-token")).expect("a token");
        assert_eq!(before == after, command == "true", "{command}");
    }
}

// Fails under: `token create` that needs a token or a hub although the data directory is accessible.
#[test]
fn i19_token_create_on_the_host_always_works() {
    let fixture = Fixture::empty();
    assert_eq!(with_temporary_hub(&fixture, "team", "true").code, Some(0));
    fixture.shell("rm team/admin-token");
    let output =
        fixture.shell("quorate token create --role operator --name ops --data team --expires-at 30d");
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.out.starts_with("qrt_") && output.err.contains("created token tok_"), "{}", output.err);
    fs::write(fixture.work().join("ops.token"), &output.out).expect("written");
    let accepted = with_temporary_hub(&fixture, "team", "quorate status --data team --token-file ops.token");
    assert_eq!(accepted.code, Some(0), "{}", accepted.err);
    let refused = [
        ("--role king --name x --data team", 2, "possible values: agent, operator"),
        ("--role viewer --name x --data team --space elsewhere", 3, "there is no space elsewhere"),
        ("--role viewer --name x --data nowhere", 3, "the directory nowhere does not exist"),
        ("--role viewer --name x --expires-at soon --data team", 2, "invalid time"),
    ];
    for (line, code, expected) in refused {
        let output = fixture.shell(&format!("quorate token create {line}"));
        assert_eq!(output.code, Some(code), "{line}: {}", output.err);
        assert!(output.err.contains(expected), "{line}: {}", output.err);
    }
    assert!(!fixture.work().join("nowhere").exists(), "nothing is created");
    let planned = fixture.shell("quorate token create --role viewer --name x --data team --dry-run --json");
    assert!(planned.out.contains("\"dryRun\":true"), "{}", planned.out);
    assert!(fixture.shell("quorate verify --data team").code == Some(0));
}

// Fails under: files with permissions from the umask or from the copy.
#[test]
fn i18_only_the_owner_can_access_files_regardless_of_the_umask() {
    let fixture = Fixture::empty();
    let check_private = |directory: &str| {
        let mut directories = vec![fixture.work().join(directory)];
        while let Some(directory) = directories.pop() {
            assert_eq!(mode(&directory), 0o700, "{}", directory.display());
            for entry in fs::read_dir(&directory).expect("readable") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    assert_eq!(mode(&path), 0o600, "{}", path.display());
                }
            }
        }
    };
    let chmod_open = |directory: &str| {
        format!(
            "find {directory} -type d -exec chmod 755 {{}} +; find {directory} -type f -exec chmod 644 {{}} +"
        )
    };
    assert_eq!(
        with_temporary_hub(&fixture, "team", "test $(stat -c %a team/quorate.db-wal) = 600").code,
        Some(0)
    );
    check_private("team");
    let result = fixture.shell("umask 0; quorate backup create --data team --out copy");
    assert_eq!(result.code, Some(0), "{}", result.err);
    check_private("copy");
    // A copy may arrive with wider permissions.
    let restore = "umask 0; quorate backup restore --from copy --data back";
    let result = fixture.shell(&format!("{}; {restore}", chmod_open("copy")));
    assert_eq!(result.code, Some(0), "{}", result.err);
    check_private("back");
    let result = fixture.shell(&format!("cp -r copy brought; {}", chmod_open("brought")));
    assert_eq!(result.code, Some(0), "{}", result.err);
    let output = with_temporary_hub(&fixture, "brought", "test $(stat -c %a brought/quorate.db-wal) = 600");
    assert_eq!(output.code, Some(0), "copied files and new files are private");
    check_private("brought");
    assert_eq!(
        fixture.shell("umask 0; quorate token create --role viewer --name x --data back").code,
        Some(0)
    );
    check_private("back");
}
