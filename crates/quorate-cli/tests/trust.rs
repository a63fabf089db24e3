//! Which token goes where: never to somebody whom its owner did not choose, whatever a project's file says.
#![allow(missing_docs)]

mod place;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use place::{Place, Said};

/// Somebody on this machine who listens and remembers what comes.
struct Somebody {
    url: String,
    heard: Receiver<String>,
}

impl Somebody {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
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
        fs::write(directory.join("ready.json"), format!("{{\"http\":\"{address}\"}}")).expect("written");
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
