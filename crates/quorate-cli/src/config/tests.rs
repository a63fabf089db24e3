//! Precedence of configuration levels, and rejected files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Key, Origin, ProcessContext, Setting, SettingMap, Settings};

/// A home directory with a project in it.
struct Fixture {
    root: tempfile::TempDir,
    variables: BTreeMap<String, String>,
}

impl Fixture {
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
        let flag = |value: &str| Setting { value: value.to_owned(), origin: Origin::Flag("--flag") };
        let flags: SettingMap = flags.iter().map(|(key, value)| (*key, flag(value))).collect();
        let directory = self.root.path().join("home/work/deep");
        Settings::load(flags, &ProcessContext { variables: self.variables.clone(), directory })
    }

    fn refused(&self) -> String {
        let error = self.load(&[]).expect_err("refused");
        let command_error = error.downcast_ref::<crate::exit::CommandError>().expect("with a hint");
        format!("{}\n{}", command_error.message, command_error.hint)
    }

    fn path(&self, path: &str) -> String {
        self.root.path().join(path).display().to_string()
    }
}

fn value(settings: &Settings, key: Key) -> (&str, String) {
    let setting = settings.get(key).expect("it is set");
    (&setting.value, setting.origin.to_string())
}

#[test]
fn flag_then_environment_then_project_then_user() {
    let fixture = Fixture::new("url: http://project\n", "# mine\nurl: http://user\nspace: lab\n");
    let file = fixture.path("home/work/quorate.yaml");
    let settings = fixture.load(&[]).expect("settings");
    assert_eq!(value(&settings, Key::Url), ("http://project", format!("{file}:1")));
    assert_eq!(value(&settings, Key::Space).0, "lab");
    let fixture = fixture.with("QUORATE_URL", "http://variable");
    let settings = fixture.load(&[]).expect("settings");
    assert_eq!(value(&settings, Key::Url), ("http://variable", "QUORATE_URL".to_owned()));
    let settings = fixture.load(&[(Key::Url, "http://flag")]).expect("settings");
    let all: Vec<&str> = settings.all(Key::Url).map(|setting| setting.value.as_str()).collect();
    assert_eq!(all, ["http://flag", "http://variable", "http://project", "http://user"]);
}

const PROFILES: &str =
    "url: http://plain\nprofiles:\n  staging:\n    url: http://staging\n  prod:\n    url: http://prod\n";

#[test]
fn a_profile_has_the_precedence_of_the_level_that_selects_it() {
    let fixture = Fixture::new(PROFILES, "profile: staging\n");
    let url = |fixture: &Fixture, flags: &[(Key, &str)]| {
        value(&fixture.load(flags).expect("settings"), Key::Url).0.to_owned()
    };
    assert_eq!(url(&fixture, &[]), "http://plain", "the user's selection is below the project");
    let fixture =
        Fixture::new(&format!("profile: staging\n{PROFILES}"), "").with("QUORATE_URL", "http://variable");
    assert_eq!(url(&fixture, &[]), "http://variable");
    assert_eq!(url(&fixture, &[(Key::Profile, "prod")]), "http://prod", "a flag overrides a variable");
    let fixture = fixture.with("QUORATE_URL", "");
    assert_eq!(url(&fixture, &[]), "http://staging", "and a profile overrides plain keys");
}

#[test]
fn an_unknown_profile_is_an_error_that_lists_the_profiles() {
    let fixture = Fixture::new(PROFILES, "").with("QUORATE_PROFILE", "stagin");
    let error = fixture.refused();
    assert!(error.contains("unknown profile \"stagin\", selected by QUORATE_PROFILE"), "{error}");
    assert!(error.contains("did you mean staging? The profiles are prod, staging"), "{error}");
}

#[test]
fn an_unknown_key_is_an_error_with_its_line_and_the_nearest_key() {
    let error = Fixture::new("# a comment\nurl: http://x\ntokenfile: x\n", "").refused();
    assert!(
        error.contains("quorate.yaml:3: unknown key \"tokenfile\"\ndid you mean \"token_file\"?"),
        "{error}"
    );
    let error = Fixture::new("profiles:\n  a:\n    ulr: x\n", "").refused();
    assert!(error.contains("quorate.yaml:3: unknown key \"ulr\"\ndid you mean \"url\"?"), "{error}");
    let error = Fixture::new("url: a\nurl: b\n", "").refused();
    assert!(error.contains("quorate.yaml:2"), "{error}");
    let error = Fixture::new("url: [\n", "").refused();
    assert!(error.contains("quorate.yaml:"), "{error}");
    assert!(Fixture::new("# nothing but a comment\n", "").load(&[]).is_ok());
}

#[test]
fn i18_no_token_in_a_file_and_no_token_file_outside_the_project() {
    let error = Fixture::new("space: x\ntoken: qrt_x\n", "").refused();
    assert!(error.contains("quorate.yaml:2: token is not allowed"), "{error}");
    assert!(!error.contains("qrt_x"), "{error}");
    for outside in ["../token", "/etc/token", "~/token", "a/../../token"] {
        let error = Fixture::new(&format!("token_file: {outside}\n"), "").refused();
        assert!(error.contains("outside the project"), "{error}");
        assert!(Fixture::new("", &format!("token_file: {outside}\n")).load(&[]).is_ok());
    }
    let error = Fixture::new("insecure_http: true\n", "").refused();
    assert!(error.contains("not allowed in a project's quorate.yaml"), "{error}");
}

#[test]
fn paths_are_relative_to_their_file() {
    let fixture = Fixture::new("data: team\ntoken_file: ./secret\n", "ca_file: ~/ca.pem\n");
    let settings = fixture.load(&[]).expect("settings");
    assert_eq!(value(&settings, Key::Data).0, fixture.path("home/work/team"));
    assert_eq!(Path::new(value(&settings, Key::TokenFile).0), Path::new(&fixture.path("home/work/secret")));
    assert_eq!(value(&settings, Key::CaFile).0, fixture.path("home/ca.pem"));
}
