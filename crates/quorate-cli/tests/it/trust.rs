//! Which token goes where: never to somebody whom its owner did not choose, whatever a project's file says.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::place::{Place, Said};

/// Somebody on this machine who listens and remembers what comes.
struct Somebody {
    url: String,
    heard: Receiver<String>,
}

impl Somebody {
    fn new() -> Self {
        Self::at("127.0.0.1:0")
    }

    fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (tell, heard) = channel();
        // Ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).unwrap_or(0);
                let _ = tell.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
                let _ =
                    stream.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        Self { url, heard }
    }

    /// Whether anything that was sent since the last look had a token in it. Whoever called has ended: all was sent.
    fn got_a_token(&self) -> bool {
        let mut marked =
            std::net::TcpStream::connect(self.url.trim_start_matches("http://")).expect("it is there");
        marked.write_all(b"the end").expect("sent");
        let mut got = false;
        loop {
            match self.heard.recv_timeout(Duration::from_secs(10)).expect("it hears").as_str() {
                "the end" => return got,
                request => got |= request.contains("qrt_"),
            }
        }
    }
}

/// Where something is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Flag,
    Variable,
    User,
    Project,
    Nowhere,
}

const ALL: [At; 5] = [At::Flag, At::Variable, At::User, At::Project, At::Nowhere];
const CALLER: [At; 3] = [At::Flag, At::Variable, At::User];

/// `quorate status` with everything said where it is to be said.
fn status(place: &Place, all: &[(&str, At, &str)]) -> Said {
    let (mut flags, mut variables) = (String::new(), String::new());
    let (mut user, mut project) = (String::new(), String::new());
    for (key, at, value) in all {
        match at {
            At::Flag => flags.push_str(&format!(" --{} {value}", key.replace('_', "-"))),
            At::Variable => variables.push_str(&format!("QUORATE_{}={value} ", key.to_uppercase())),
            At::User => user.push_str(&format!("{key}: {value}\n")),
            At::Project => project.push_str(&format!("{key}: {value}\n")),
            At::Nowhere => {}
        }
    }
    let config = place.home().join(".config/quorate");
    fs::create_dir_all(&config).expect("made");
    fs::write(config.join("config.yaml"), format!("# mine\n{user}")).expect("written");
    fs::write(place.work().join("quorate.yaml"), format!("# of somebody\n{project}")).expect("written");
    place.shell(&format!("{variables}quorate status{flags}"))
}

/// A hub in `quorate-data`, its token in a file of the project, and a directory elsewhere with a token in which no hub runs.
fn world() -> (Place, Somebody, String) {
    let place = Place::with_hub();
    let secret = fs::read_to_string(place.data().join("admin-token")).expect("a token");
    fs::write(place.work().join("own.token"), &secret).expect("written");
    let other = place.home().join("other");
    fs::create_dir(&other).expect("made");
    fs::write(other.join("admin-token"), &secret).expect("written");
    let other = other.display().to_string();
    (place, Somebody::new(), other)
}

// Fails under: a token of the caller's that follows the `url` of a project; a project's that goes to it either.
#[test]
fn i18_no_token_goes_to_an_address_that_only_a_project_names() {
    let (place, somebody, _) = world();
    let token = place.work().join("own.token").display().to_string();
    for url in ALL {
        for whose in [At::Flag, At::Variable, At::User, At::Project] {
            // A project names what is in it.
            let file = if whose == At::Project { "own.token" } else { &token };
            let said = status(&place, &[("url", url, &somebody.url), ("token_file", whose, file)]);
            let case = format!("url by {url:?}, token by {whose:?}: {}", said.err);
            assert_eq!(somebody.got_a_token(), CALLER.contains(&url), "{case}");
            match url {
                At::Project => {
                    assert_eq!(said.code, Some(2), "{case}");
                    assert!(said.err.contains("which only") && said.err.contains("--url http://"), "{case}");
                }
                At::Nowhere => assert_eq!(said.code, Some(0), "the hub that runs here: {case}"),
                _ => {}
            }
        }
    }
}

// Fails under: the token of a directory that a project names, sent to where a project or a caller says (finding 27).
#[test]
fn i18_the_token_of_a_directory_goes_to_the_hub_that_runs_there() {
    let (place, somebody, other) = world();
    for url in ALL {
        for data in ALL {
            let said = status(&place, &[("url", url, &somebody.url), ("data", data, &other)]);
            let case = format!("url by {url:?}, data by {data:?}: {}", said.err);
            // Both are the caller's, and the address is not overridden by a directory in which no hub runs.
            let both = CALLER.contains(&url) && CALLER.contains(&data);
            assert_eq!(somebody.got_a_token(), both && (data != At::Flag || url == At::Flag), "{case}");
            if (url, data) == (At::Nowhere, At::Nowhere) {
                assert_eq!(said.code, Some(0), "{case}");
            } else {
                assert_ne!(said.code, Some(0), "{case}");
            }
        }
    }
    // One in which a hub runs is found, whoever names it, and an address that is its own needs no other word.
    for data in ALL {
        let said = status(&place, &[("data", data, &place.data().display().to_string())]);
        assert_eq!(said.code, Some(0), "data by {data:?}: {}", said.err);
    }
    let own = format!("http://{}", place.address);
    assert_eq!(status(&place, &[("url", At::Project, &own)]).code, Some(0));
}

// Fails under: a `ready.json` that counts though no hub holds the directory.
#[test]
fn i18_a_directory_that_only_looks_as_if_a_hub_ran_there_gets_no_token() {
    let (place, somebody, _) = world();
    let address = somebody.url.trim_start_matches("http://");
    let token = place.work().join("own.token").display().to_string();
    for directory in [place.home().join("other"), place.work().join("brought")] {
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join("ready.json"), format!("{{\"http\":\"{address}\",\"pid\":1}}"))
            .expect("written");
        fs::write(directory.join("quorate.lock"), "1\n").expect("written");
        for data in [At::Flag, At::Variable, At::User, At::Project] {
            for whose in [At::Flag, At::Variable, At::User, At::Nowhere] {
                let directory = directory.display().to_string();
                let said = status(&place, &[("data", data, &directory), ("token_file", whose, &token)]);
                assert!(!somebody.got_a_token(), "{directory} by {data:?}, token by {whose:?}: {}", said.err);
                assert_ne!(said.code, Some(0), "{}", said.err);
            }
        }
    }
}

// Fails under: a `ready.json` that is believed after its hub was killed, whoever has the port or the directory now.
#[test]
fn i18_who_has_the_port_of_a_hub_that_was_killed_gets_no_token() {
    let (mut place, _, _) = world();
    place.kill();
    let heir = Somebody::at(&place.address);
    let data = place.data().display().to_string();
    let token = place.work().join("own.token").display().to_string();
    for at in ALL {
        for whose in [At::Flag, At::Variable, At::User, At::Nowhere] {
            let said = status(&place, &[("data", at, &data), ("token_file", whose, &token)]);
            assert!(!heir.got_a_token(), "data by {at:?}, token by {whose:?}: {}", said.err);
            assert_ne!(said.code, Some(0), "{}", said.err);
        }
    }
    // Another process may hold the directory without listening anywhere, as a program with the library does.
    let lock = fs::File::options().write(true).open(place.data().join("quorate.lock")).expect("a lock");
    lock.lock().expect("held");
    fs::write(place.data().join("quorate.lock"), format!("{}\n", std::process::id())).expect("written");
    let said = status(&place, &[("data", At::Flag, &data)]);
    assert_eq!((said.code, heir.got_a_token()), (Some(1), false), "{}", said.err);
}

// Fails under: a connection that is made again without a look at who listens there now.
#[test]
fn i18_a_tail_gives_its_token_to_nobody_who_came_in_between() {
    let (mut place, _, _) = world();
    let mut tail = place.command("quorate");
    tail.args(["tail", "--from", "1"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut tail = tail.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(tail.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    place.kill();
    let heir = Somebody::at(&place.address);
    let heard: Vec<String> =
        (0..3).map(|_| heir.heard.recv_timeout(Duration::from_secs(20)).expect("it looks again")).collect();
    let _ = (tail.kill(), tail.wait());
    assert!(heard.iter().all(|request| !request.contains("qrt_")), "{}", heard.concat().len());
}

// Fails under: a start that makes the token of the file an admin's again.
#[test]
fn i19_a_revoked_token_stays_revoked() {
    let place = Place::empty();
    let said = once(
        &place,
        "team",
        "cat team/admin-token; quorate token revoke @last --data team; quorate status --data team",
    );
    assert_eq!(said.code, Some(4), "{}", said.err);
    let old = said.out.lines().next().expect("a token").to_owned();
    let said = once(
        &place,
        "team",
        &format!("QUORATE_TOKEN={old} quorate status --data team; test $? = 4 && quorate status --data team"),
    );
    assert_eq!(said.code, Some(0), "the old one is not let in, the new one is: {}", said.err);
}

// Fails under: a look at the path as it is written, not at where it leads.
#[test]
fn i18_a_project_names_tokens_of_its_own_only() {
    let (place, somebody, _) = world();
    symlink(place.home().join("other/admin-token"), place.work().join("link")).expect("linked");
    symlink(place.home().join("other"), place.work().join("away")).expect("linked");
    for file in ["link", "away/admin-token", "quorate-data/admin-token"] {
        let said = status(&place, &[("url", At::Flag, &somebody.url), ("token_file", At::Project, file)]);
        assert_eq!((said.code, somebody.got_a_token()), (Some(2), false), "{file}: {}", said.err);
        assert!(said.err.contains("none of the project's own"), "{}", said.err);
    }
}

#[test]
fn an_address_that_the_user_names_too_may_be_the_projects() {
    let (place, somebody, _) = world();
    let said =
        status(&place, &[("url", At::Project, &somebody.url), ("token_file", At::Project, "own.token")]);
    assert_eq!((said.code, somebody.got_a_token()), (Some(2), false), "{}", said.err);
    let config = place.home().join(".config/quorate/config.yaml");
    fs::write(config, format!("profiles:\n  team:\n    url: {}\n", somebody.url)).expect("written");
    place.shell("quorate status");
    assert!(somebody.got_a_token(), "the user's file names it, if only in a profile");
    // A project chooses among the user's profiles, but does not change what they say.
    let secret = place.work().join("own.token").display().to_string();
    let config = place.home().join(".config/quorate/config.yaml");
    let own = format!("http://{}", place.address);
    fs::write(config, format!("profiles:\n  team:\n    url: {own}\n    token_file: {secret}\n"))
        .expect("written");
    fs::write(place.work().join("quorate.yaml"), "profile: team\n").expect("written");
    assert_eq!(place.shell("quorate status").code, Some(0));
    let changed = format!("profile: team\nprofiles:\n  team:\n    url: {}\n", somebody.url);
    fs::write(place.work().join("quorate.yaml"), changed).expect("written");
    let said = place.shell("quorate status");
    assert_eq!((said.code, somebody.got_a_token()), (Some(2), false), "{}", said.err);
}

#[test]
fn i18_a_project_says_who_signs_for_this_machine_only() {
    let (place, _, _) = world();
    fs::write(place.work().join("ca.pem"), "no certificate").expect("written");
    let token = place.work().join("own.token").display().to_string();
    let ask = |url: &str, whose| {
        let said = status(
            &place,
            &[("url", At::Flag, url), ("token_file", At::Flag, &token), ("ca_file", whose, "ca.pem")],
        );
        said.err
    };
    assert!(ask("https://192.0.2.1:1", At::Project).contains("signs for no other machine"));
    for (url, whose) in [("https://127.0.0.1:1", At::Project), ("https://192.0.2.1:1", At::Flag)] {
        let said = ask(url, whose);
        assert!(said.contains("ca.pem") && !said.contains("signs for"), "it is looked at: {said}");
    }
    for other in ["https://localhost:1@192.0.2.1:1", "https://127.0.0.1@192.0.2.1"] {
        assert!(ask(other, At::Project).contains("signs for no other machine"), "{other}");
    }
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o777
}

/// Starts a hub under the loosest umask, asks once, and ends it.
fn once(place: &Place, data: &str, then: &str) -> Said {
    place.shell(&format!(
        "umask 0; rm -f ready.json; quorate serve --data {data} --listen 127.0.0.1:0 > ready.json 2> said.txt & hub=$!
         for i in $(seq 200); do test -s ready.json && break; sleep 0.05; done
         {then}
         code=$?; kill $hub; wait $hub; exit $code"
    ))
}

// Fails under: a start that trusts that a token once made is still somewhere; an old token that lives on.
#[test]
fn i19_whoever_owns_the_directory_gets_in_after_a_restore() {
    let place = Place::empty();
    let first = once(&place, "team", "quorate memory set plan kept --data team && cat team/admin-token");
    assert_eq!(first.code, Some(0), "{}", first.err);
    let old = first.out.trim().to_owned();
    let copied = place.shell("umask 022; quorate backup create --data team --to copy && quorate backup restore --from copy --data back");
    assert_eq!(copied.code, Some(0), "{}", copied.err);
    assert!(!place.work().join("back/admin-token").exists(), "a backup holds no secret in clear");
    let again = once(
        &place,
        "back",
        "quorate memory get plan --data back && cat back/admin-token && quorate token list --data back --jsonl | wc -l",
    );
    assert_eq!(again.code, Some(0), "{}", again.err);
    let new = again.out.trim_start_matches("kept");
    assert!(new.starts_with("qrt_") && !new.contains(&old), "another one");
    assert!(new.ends_with("\n1\n"), "the old one is ended: {}", new.len());
    assert_eq!(mode(&place.work().join("back/admin-token")), 0o600);
    let ready: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(place.work().join("ready.json")).expect("a line"))
            .expect("JSON");
    assert!(
        place.work().join(ready["adminTokenFile"].as_str().expect("a path")).exists(),
        "the line is true"
    );
    let refused = once(&place, "back", &format!("QUORATE_TOKEN={old} quorate status --data back"));
    assert_eq!(refused.code, Some(4), "whoever has the old file does not get in: {}", refused.err);
    // A file that was lost, or whose token is good no more, is the same; one that is good stays.
    for spoil in [
        "rm back/admin-token",
        "echo nonsense > back/admin-token",
        "cp team/admin-token back/admin-token",
        "true",
    ] {
        let before = fs::read_to_string(place.work().join("back/admin-token")).unwrap_or_default();
        assert_eq!(place.shell(spoil).code, Some(0));
        let said = once(&place, "back", "quorate status --data back");
        assert_eq!(said.code, Some(0), "{spoil}: {}", said.err);
        let after = fs::read_to_string(place.work().join("back/admin-token")).expect("a token");
        assert_eq!(before == after, spoil == "true", "{spoil}");
    }
}

// Fails under: `token create` that needs a token, or a hub, where the files are at hand.
#[test]
fn i19_token_create_on_the_host_always_works() {
    let place = Place::empty();
    assert_eq!(once(&place, "team", "true").code, Some(0));
    place.shell("rm team/admin-token");
    let said = place.shell("quorate token create --role operator --name ops --data team --expires 30d");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("qrt_") && said.err.contains("token tok_"), "{}", said.err);
    fs::write(place.work().join("ops.token"), &said.out).expect("written");
    let asked = once(&place, "team", "quorate status --data team --token-file ops.token");
    assert_eq!(asked.code, Some(0), "{}", asked.err);
    let refused = [
        ("--role king --name x --data team", 2, "possible values: agent, operator"),
        ("--role viewer --name x --data team --space elsewhere", 3, "there is no space elsewhere"),
        ("--role viewer --name x --data nowhere", 3, "there is no directory nowhere"),
        ("--role viewer --name x --expires soon --data team", 2, "no time"),
    ];
    for (line, code, words) in refused {
        let said = place.shell(&format!("quorate token create {line}"));
        assert_eq!(said.code, Some(code), "{line}: {}", said.err);
        assert!(said.err.contains(words), "{line}: {}", said.err);
    }
    assert!(!place.work().join("nowhere").exists(), "nothing is made to look at");
    let planned = place.shell("quorate token create --role viewer --name x --data team --dry-run --json");
    assert!(planned.out.contains("\"dryRun\":true"), "{}", planned.out);
    assert!(place.shell("quorate verify --data team").code == Some(0));
}

// Fails under: files that are as open as the umask lets them, or as the copy was that they come from.
#[test]
fn i18_files_are_closed_to_others_whatever_the_umask() {
    let place = Place::empty();
    let closed = |directory: &str| {
        let mut directories = vec![place.work().join(directory)];
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
    let open = |directory: &str| {
        format!(
            "find {directory} -type d -exec chmod 755 {{}} +; find {directory} -type f -exec chmod 644 {{}} +"
        )
    };
    assert_eq!(once(&place, "team", "test $(stat -c %a team/quorate.db-wal) = 600").code, Some(0));
    closed("team");
    let made = place.shell("umask 0; quorate backup create --data team --to copy");
    assert_eq!(made.code, Some(0), "{}", made.err);
    closed("copy");
    // A copy that came over a network is as open as that left it.
    let restore = "umask 0; quorate backup restore --from copy --data back";
    let made = place.shell(&format!("{}; {restore}", open("copy")));
    assert_eq!(made.code, Some(0), "{}", made.err);
    closed("back");
    let made = place.shell(&format!("cp -r copy brought; {}", open("brought")));
    assert_eq!(made.code, Some(0), "{}", made.err);
    let said = once(&place, "brought", "test $(stat -c %a brought/quorate.db-wal) = 600");
    assert_eq!(said.code, Some(0), "what was brought by hand is closed, and so is what comes beside it");
    closed("brought");
    assert_eq!(place.shell("umask 0; quorate token create --role viewer --name x --data back").code, Some(0));
    closed("back");
}
