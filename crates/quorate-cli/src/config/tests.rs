//! Which of several sayings counts, and what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Key, Level, Origin, Said, Settings, Surroundings};

/// A home with a project in it.
struct Place {
    root: tempfile::TempDir,
    variables: BTreeMap<String, String>,
}

impl Place {
    fn new(project: &str, user: &str) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("home/work/deep/here.txt", "");
        if !project.is_empty() {
            write("home/work/quorate.yaml", project);
        }
        if !user.is_empty() {
            write("home/.config/quorate/config.yaml", user);
        }
        let home = root.path().join("home").display().to_string();
        Self { root, variables: BTreeMap::from([("HOME".to_owned(), home)]) }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    fn load(&self, flags: &[(Key, &str)]) -> anyhow::Result<Settings> {
        let said = |value: &str| Said { value: value.to_owned(), origin: Origin::Flag("--flag") };
        let flags: Level = flags.iter().map(|(key, value)| (*key, said(value))).collect();
        let directory = self.root.path().join("home/work/deep");
        Settings::load(flags, &Surroundings { variables: self.variables.clone(), directory })
    }

    fn refused(&self) -> String {
        let error = self.load(&[]).expect_err("refused");
        let ended = error.downcast_ref::<crate::exit::Ended>().expect("with a hint");
        format!("{}\n{}", ended.message, ended.hint)
    }

    fn path(&self, path: &str) -> String {
        self.root.path().join(path).display().to_string()
    }
}

fn value(settings: &Settings, key: Key) -> (&str, String) {
    let said = settings.get(key).expect("it is set");
    (&said.value, said.origin.to_string())
}

#[test]
fn flag_then_environment_then_project_then_user() {
    let place = Place::new("url: http://project\n", "# mine\nurl: http://user\nspace: lab\n");
    let file = place.path("home/work/quorate.yaml");
    let settings = place.load(&[]).expect("settings");
    assert_eq!(value(&settings, Key::Url), ("http://project", format!("{file}:1")));
    assert_eq!(value(&settings, Key::Space).0, "lab");
    let place = place.with("QUORATE_URL", "http://variable");
    let settings = place.load(&[]).expect("settings");
    assert_eq!(value(&settings, Key::Url), ("http://variable", "QUORATE_URL".to_owned()));
    let settings = place.load(&[(Key::Url, "http://flag")]).expect("settings");
    let all: Vec<&str> = settings.all(Key::Url).map(|said| said.value.as_str()).collect();
    assert_eq!(all, ["http://flag", "http://variable", "http://project", "http://user"]);
}

const PROFILES: &str =
    "url: http://plain\nprofiles:\n  staging:\n    url: http://staging\n  prod:\n    url: http://prod\n";

#[test]
fn a_profile_counts_where_it_was_chosen() {
    let place = Place::new(PROFILES, "profile: staging\n");
    let url = |place: &Place, flags: &[(Key, &str)]| {
        value(&place.load(flags).expect("settings"), Key::Url).0.to_owned()
    };
    assert_eq!(url(&place, &[]), "http://plain", "the user's choice is below the project");
    let place =
        Place::new(&format!("profile: staging\n{PROFILES}"), "").with("QUORATE_URL", "http://variable");
    assert_eq!(url(&place, &[]), "http://variable");
    assert_eq!(url(&place, &[(Key::Profile, "prod")]), "http://prod", "a flag counts more than a variable");
    let place = place.with("QUORATE_URL", "");
    assert_eq!(url(&place, &[]), "http://staging", "and a profile more than what is for all of them");
}

#[test]
fn an_unknown_profile_is_an_error_that_names_the_known_ones() {
    let place = Place::new(PROFILES, "").with("QUORATE_PROFILE", "stagin");
    let said = place.refused();
    assert!(said.contains("\"stagin\", which QUORATE_PROFILE chooses"), "{said}");
    assert!(said.contains("did you mean staging? The profiles are prod, staging"), "{said}");
}

#[test]
fn an_unknown_key_is_an_error_with_its_line_and_the_nearest_key() {
    let said = Place::new("# a comment\nurl: http://x\ntokenfile: x\n", "").refused();
    assert!(said.contains("quorate.yaml:3: \"tokenfile\" is no key\ndid you mean \"token_file\"?"), "{said}");
    let said = Place::new("profiles:\n  a:\n    ulr: x\n", "").refused();
    assert!(said.contains("quorate.yaml:3: \"ulr\" is no key\ndid you mean \"url\"?"), "{said}");
    let said = Place::new("url: a\nurl: b\n", "").refused();
    assert!(said.contains("quorate.yaml:2"), "{said}");
    let said = Place::new("url: [\n", "").refused();
    assert!(said.contains("quorate.yaml:"), "{said}");
    assert!(Place::new("# nothing but a comment\n", "").load(&[]).is_ok());
}

#[test]
fn i18_a_file_holds_no_token_and_a_project_names_none_of_others() {
    let said = Place::new("space: x\ntoken: qrt_x\n", "").refused();
    assert!(said.contains("quorate.yaml:2: a token does not belong"), "{said}");
    assert!(!said.contains("qrt_x"), "{said}");
    for outside in ["../token", "/etc/token", "~/token", "a/../../token"] {
        let said = Place::new(&format!("token_file: {outside}\n"), "").refused();
        assert!(said.contains("outside of the project"), "{said}");
        assert!(Place::new("", &format!("token_file: {outside}\n")).load(&[]).is_ok());
    }
    let said = Place::new("insecure_http: true\n", "").refused();
    assert!(said.contains("not for the file of a project"), "{said}");
}

#[test]
fn paths_count_from_the_directory_of_their_file() {
    let place = Place::new("data: team\ntoken_file: ./secret\n", "ca_file: ~/ca.pem\n");
    let settings = place.load(&[]).expect("settings");
    assert_eq!(value(&settings, Key::Data).0, place.path("home/work/team"));
    assert_eq!(Path::new(value(&settings, Key::TokenFile).0), Path::new(&place.path("home/work/secret")));
    assert_eq!(value(&settings, Key::CaFile).0, place.path("home/ca.pem"));
}
