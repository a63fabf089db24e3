//! Parses a configuration file. The YAML is strict: an unknown key is an error with its line.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use quorate_agents::closest_match;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::keys::Key;
use super::{Origin, ProcessContext, Setting, SettingMap};
use crate::exit::{CommandError, USAGE};
use crate::playbook::read_text_file;

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
type LocatedValue = (Key, Option<(String, u64)>);

fn located_value<T: ToString>(key: Key, value: Option<Spanned<T>>) -> LocatedValue {
    (key, value.map(|spanned| (spanned.value.to_string(), spanned.referenced.line())))
}

impl ConfigFile {
    /// Reads a file. A project's file may have been written by a third party, so it may set less.
    pub(super) fn read(path: &Path, project: bool, context: &ProcessContext) -> anyhow::Result<Self> {
        let text = read_text_file(path, BYTES_MAX, "settings")?;
        let parser = Parser { path, project, context };
        let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true };
        let parsed = serde_saphyr::from_str_with_options::<Option<FileIn>>(&text, options);
        let FileIn { url, data, token, token_file, space, ca_file, insecure_http, profile, profiles } =
            parsed.map_err(|error| parser.yaml_error(&error))?.unwrap_or_default();
        parser.refuse_token(token)?;
        let defaults = [
            located_value(Key::Url, url),
            located_value(Key::Data, data),
            located_value(Key::TokenFile, token_file),
            located_value(Key::Space, space),
            located_value(Key::CaFile, ca_file),
            located_value(Key::InsecureHttp, insecure_http),
            located_value(Key::Profile, profile),
        ];
        let defaults = parser.level(defaults, None)?;
        let mut levels = BTreeMap::new();
        for (name, profile) in profiles {
            let level = parser.profile(profile, &name)?;
            levels.insert(name, level);
        }
        Ok(Self { path: path.to_owned(), defaults, profiles: levels })
    }
}

struct Parser<'a> {
    path: &'a Path,
    project: bool,
    context: &'a ProcessContext,
}

impl Parser<'_> {
    fn profile(&self, profile: ProfileIn, name: &str) -> anyhow::Result<SettingMap> {
        self.refuse_token(profile.token)?;
        let values = [
            located_value(Key::Url, profile.url),
            located_value(Key::Data, profile.data),
            located_value(Key::TokenFile, profile.token_file),
            located_value(Key::Space, profile.space),
            located_value(Key::CaFile, profile.ca_file),
            located_value(Key::InsecureHttp, profile.insecure_http),
        ];
        self.level(values, Some(name))
    }

    fn level<const N: usize>(
        &self,
        values: [LocatedValue; N],
        profile: Option<&str>,
    ) -> anyhow::Result<SettingMap> {
        let mut level = SettingMap::new();
        for (key, value) in values {
            let Some((value, line)) = value else { continue };
            if self.project && key == Key::InsecureHttp {
                return Err(self.error_at(
                    line,
                    "insecure_http is not allowed in a project's quorate.yaml",
                    "use --insecure-http, QUORATE_INSECURE_HTTP=true, or the user's file",
                ));
            }
            let value = if key.is_path() { self.resolve_path(key, &value, line)? } else { value };
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
    fn resolve_path(&self, key: Key, value: &str, line: u64) -> anyhow::Result<String> {
        let path = match (value.strip_prefix("~/"), self.context.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(value),
        };
        let is_inside =
            path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if self.project && key == Key::TokenFile && !is_inside {
            return Err(self.error_at(
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
            Err(self.error_at(
                token.referenced.line(),
                "token is not allowed in a configuration file",
                "put the token into a separate file and set token_file: FILE, or set QUORATE_TOKEN",
            ))
        })
    }

    fn error_at(&self, line: u64, message: &str, hint: &str) -> anyhow::Error {
        CommandError::new(USAGE, format!("{}:{line}: {message}", self.path.display()), hint).into()
    }

    /// Converts an error of the YAML parser.
    fn yaml_error(&self, error: &serde_saphyr::Error) -> anyhow::Error {
        let error = error.without_snippet();
        let line = error.location().map_or(1, |location| location.line());
        let (message, hint) = match error {
            serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
                let known: Vec<&str> = expected.iter().copied().filter(|key| *key != "token").collect();
                let hint = match closest_match(field, known.iter().copied()) {
                    Some(closest) => format!("did you mean {closest:?}?"),
                    None => format!("the keys are {}", known.join(", ")),
                };
                (format!("unknown key {field:?}"), hint)
            }
            other => (other.to_string(), "see `quorate init --stdout` for a valid file".to_owned()),
        };
        self.error_at(line, &message, &hint)
    }
}
