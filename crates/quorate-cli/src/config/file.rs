//! Parses a configuration file. The YAML is strict: an unknown key is an error with its line.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::keys::{Key, closest_match};
use super::{Origin, ProcessContext, Setting, SettingMap};
use crate::exit::{CommandError, USAGE};
use crate::playbook::read_text;

/// File name of the project's configuration.
pub(crate) const PROJECT_FILE: &str = "quorate.yaml";
/// Size limit of a configuration file.
const BYTES_MAX: u64 = 1 << 20;

/// A parsed configuration file.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) defaults: SettingMap,
    pub(super) profiles: BTreeMap<String, SettingMap>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct FileIn {
    url: Option<Spanned<String>>,
    data: Option<Spanned<String>>,
    token: Option<Spanned<serde::de::IgnoredAny>>,
    token_file: Option<Spanned<String>>,
    space: Option<Spanned<String>>,
    ca_file: Option<Spanned<String>>,
    insecure_http: Option<Spanned<bool>>,
    profile: Option<Spanned<String>>,
    #[serde(default)]
    profiles: BTreeMap<String, ProfileIn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileIn {
    url: Option<Spanned<String>>,
    data: Option<Spanned<String>>,
    token: Option<Spanned<serde::de::IgnoredAny>>,
    token_file: Option<Spanned<String>>,
    space: Option<Spanned<String>>,
    ca_file: Option<Spanned<String>>,
    insecure_http: Option<Spanned<bool>>,
}

/// A key with its value and line.
type Lined = (Key, Option<(String, u64)>);

fn lined<T: ToString>(key: Key, value: Option<Spanned<T>>) -> Lined {
    (key, value.map(|spanned| (spanned.value.to_string(), spanned.referenced.line())))
}

impl ConfigFile {
    /// Reads a file. A project's file may have been written by a third party, so it may set less.
    pub(super) fn read(path: &Path, project: bool, around: &ProcessContext) -> anyhow::Result<Self> {
        let text = read_text(path, BYTES_MAX, "settings")?;
        let reading = Reading { path, project, around };
        let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true };
        let found = serde_saphyr::from_str_with_options::<Option<FileIn>>(&text, options);
        let FileIn { url, data, token, token_file, space, ca_file, insecure_http, profile, profiles } =
            found.map_err(|error| reading.wrong(&error))?.unwrap_or_default();
        reading.refuse_token(token)?;
        let plain = [
            lined(Key::Url, url),
            lined(Key::Data, data),
            lined(Key::TokenFile, token_file),
            lined(Key::Space, space),
            lined(Key::CaFile, ca_file),
            lined(Key::InsecureHttp, insecure_http),
            lined(Key::Profile, profile),
        ];
        let plain = reading.level(plain, None)?;
        let mut levels = BTreeMap::new();
        for (name, profile) in profiles {
            let level = reading.profile(profile, &name)?;
            levels.insert(name, level);
        }
        Ok(Self { path: path.to_owned(), defaults: plain, profiles: levels })
    }
}

struct Reading<'a> {
    path: &'a Path,
    project: bool,
    around: &'a ProcessContext,
}

impl Reading<'_> {
    fn profile(&self, profile: ProfileIn, name: &str) -> anyhow::Result<SettingMap> {
        self.refuse_token(profile.token)?;
        let values = [
            lined(Key::Url, profile.url),
            lined(Key::Data, profile.data),
            lined(Key::TokenFile, profile.token_file),
            lined(Key::Space, profile.space),
            lined(Key::CaFile, profile.ca_file),
            lined(Key::InsecureHttp, profile.insecure_http),
        ];
        self.level(values, Some(name))
    }

    fn level<const N: usize>(&self, values: [Lined; N], profile: Option<&str>) -> anyhow::Result<SettingMap> {
        let mut level = SettingMap::new();
        for (key, value) in values {
            let Some((value, line)) = value else { continue };
            if self.project && key == Key::InsecureHttp {
                return Err(self.ended(
                    line,
                    "insecure_http is not allowed in a project's quorate.yaml",
                    "use --insecure-http, QUORATE_INSECURE_HTTP=true, or the user's file",
                ));
            }
            let value = if key.is_path() { self.located(key, &value, line)? } else { value };
            let origin = Origin::File {
                path: self.path.to_owned(),
                line,
                profile: profile.map(str::to_owned),
                project: self.project,
            };
            level.insert(key, Setting { value, origin });
        }
        Ok(level)
    }

    /// Resolves a path relative to the directory of the file. A project's file may not name a token file outside the project:
    /// its author could have the user's token sent to an address of their own.
    fn located(&self, key: Key, value: &str, line: u64) -> anyhow::Result<String> {
        let path = match (value.strip_prefix("~/"), self.around.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(value),
        };
        let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if self.project && key == Key::TokenFile && !inside {
            return Err(self.ended(
                line,
                &format!("token_file: {value} is outside the project"),
                "set it in the user's file, with QUORATE_TOKEN_FILE, or with --token-file",
            ));
        }
        let directory = self.path.parent().unwrap_or(Path::new(""));
        Ok(directory.join(path).display().to_string())
    }

    fn refuse_token(&self, token: Option<Spanned<serde::de::IgnoredAny>>) -> anyhow::Result<()> {
        token.map_or(Ok(()), |token| {
            Err(self.ended(
                token.referenced.line(),
                "token is not allowed in a configuration file",
                "put the token into a separate file and set token_file: FILE, or set QUORATE_TOKEN",
            ))
        })
    }

    fn ended(&self, line: u64, what: &str, hint: &str) -> anyhow::Error {
        CommandError::new(USAGE, format!("{}:{line}: {what}", self.path.display()), hint).into()
    }

    /// Converts an error of the YAML parser.
    fn wrong(&self, error: &serde_saphyr::Error) -> anyhow::Error {
        let error = error.without_snippet();
        let line = error.location().map_or(1, |location| location.line());
        let (what, hint) = match error {
            serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
                let known: Vec<&str> = expected.iter().copied().filter(|key| *key != "token").collect();
                let hint = match closest_match(field, known.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("the keys are {}", known.join(", ")),
                };
                (format!("unknown key {field:?}"), hint)
            }
            other => (other.to_string(), "see `quorate init --stdout` for a valid file".to_owned()),
        };
        self.ended(line, &what, &hint)
    }
}
