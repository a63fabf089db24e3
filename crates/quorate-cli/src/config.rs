//! The configuration of a command and the source of each value. Precedence: flag, environment variable, `quorate.yaml` of the
//! project, the user's file, default. Unknown keys are errors, and secrets are never printed.

mod file;
mod keys;
mod show;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use quorate_agents::closest_match;

use crate::exit::{CommandError, USAGE};

pub(crate) use file::PROJECT_FILE;
pub(crate) use keys::Key;
pub(crate) use show::{ConfigArgs, run};

use file::ConfigFile;

/// A configured value and its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Setting {
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// Source of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Flag(&'static str),
    Environment(&'static str),
    /// A line of a configuration file, possibly within a profile. `project` is true for the project's file.
    File {
        path: PathBuf,
        line: u64,
        profile: Option<String>,
        project: bool,
    },
}

impl Origin {
    /// Whether the value comes from the project's file, which may have been written by a third party.
    pub(crate) fn is_project(&self) -> bool {
        matches!(self, Self::File { project: true, .. })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Environment(name) => f.write_str(name),
            Self::File { path, line, profile, .. } => {
                write!(f, "{}:{line}", path.display())?;
                profile.iter().try_for_each(|profile| write!(f, " (profile {profile})"))
            }
        }
    }
}

/// The values of one level of precedence.
type SettingMap = BTreeMap<Key, Setting>;

/// Environment variables and working directory of a command.
pub(crate) struct ProcessContext {
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) directory: PathBuf,
}

impl ProcessContext {
    /// Reads them from this process.
    ///
    /// # Errors
    /// If the current directory cannot be determined.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        Ok(Self { variables: variables.collect(), directory: std::env::current_dir()? })
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from)
    }

    /// Returns the path of the user's file, whether it exists or not.
    pub(crate) fn user_file(&self) -> Option<PathBuf> {
        let base = self.variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let base = base.or_else(|| Some(self.home()?.join(".config")))?;
        Some(base.join("quorate").join("config.yaml"))
    }

    /// Returns the project's file: the nearest one from the current directory upwards, but not above the user's home.
    pub(crate) fn project_file(&self) -> Option<PathBuf> {
        let home = self.home();
        for directory in self.directory.ancestors() {
            let file = directory.join(PROJECT_FILE);
            if file.is_file() {
                return Some(file);
            }
            if home.as_deref() == Some(directory) {
                break;
            }
        }
        None
    }
}

/// The values of all levels, highest precedence first.
#[derive(Debug)]
pub(crate) struct Settings {
    levels: Vec<SettingMap>,
    /// Configuration files that were read.
    pub(crate) files: Vec<PathBuf>,
    /// All URLs in the user's file, including those of inactive profiles.
    user_urls: Vec<String>,
}

impl Settings {
    /// Loads and combines all levels.
    ///
    /// # Errors
    /// If a file has an unknown key or an invalid value, or if the selected profile is not defined.
    pub(crate) fn load(flags: SettingMap, context: &ProcessContext) -> anyhow::Result<Self> {
        let environment: SettingMap = Key::ALL
            .into_iter()
            .filter_map(|key| {
                let value = context.variable(key.variable())?.to_owned();
                Some((key, Setting { value, origin: Origin::Environment(key.variable()) }))
            })
            .collect();
        let project =
            context.project_file().map(|path| ConfigFile::read(&path, true, context)).transpose()?;
        let user = context.user_file().filter(|path| path.is_file());
        let user = user.map(|path| ConfigFile::read(&path, false, context)).transpose()?;
        let user_levels =
            user.iter().flat_map(|file| std::iter::once(&file.defaults).chain(file.profiles.values()));
        let user_urls = user_levels.filter_map(|level| Some(level.get(&Key::Url)?.value.clone())).collect();
        let files: Vec<&ConfigFile> = project.iter().chain(&user).collect();
        let mut levels = vec![flags, environment];
        levels.extend(files.iter().map(|file| file.defaults.clone()));
        // A profile has the precedence of the level that selects it. It is placed below the flags or variables that select
        // it, which can override it for one call, and above the file that selects it, whose plain keys apply to all profiles.
        let selection = levels
            .iter()
            .enumerate()
            .find_map(|(index, level)| Some((index, level.get(&Key::Profile)?.clone())));
        if let Some((index, selected)) = selection {
            let position = if index < 2 { index + 1 } else { index };
            levels.insert(position, profile(&selected, &files)?);
        }
        let paths = files.iter().map(|file| file.path.clone()).collect();
        Ok(Self { levels, files: paths, user_urls })
    }

    /// Returns the effective value.
    pub(crate) fn get(&self, key: Key) -> Option<&Setting> {
        self.all(key).next()
    }

    /// Returns the values of all levels, the effective one first.
    pub(crate) fn all(&self, key: Key) -> impl Iterator<Item = &Setting> {
        self.levels.iter().filter_map(move |level| level.get(&key))
    }

    /// Whether the user names this URL, by a flag, a variable, or anywhere in the user's file.
    pub(crate) fn is_set_by_user(&self, url: &str) -> bool {
        let is_set = self.all(Key::Url).any(|setting| setting.value == url && !setting.origin.is_project());
        is_set || self.user_urls.iter().any(|user_url| user_url == url)
    }

    /// Returns the one of two keys that is set on the higher level; on the same level, the first.
    pub(crate) fn first_set(&self, keys: [Key; 2]) -> Option<(Key, &Setting)> {
        self.levels.iter().find_map(|level| keys.into_iter().find_map(|key| Some((key, level.get(&key)?))))
    }

    /// Returns the effective data directory.
    pub(crate) fn data(&self) -> PathBuf {
        PathBuf::from(self.get(Key::Data).map_or(keys::DATA_DEFAULT, |setting| &setting.value))
    }
}

/// Returns the data directory for a command that uses no other setting.
///
/// # Errors
/// As [`Settings::load`].
pub(crate) fn data_directory(flag: Option<&Path>) -> anyhow::Result<PathBuf> {
    let value =
        flag.map(|path| Setting { value: path.display().to_string(), origin: Origin::Flag("--data") });
    let flags = value.into_iter().map(|value| (Key::Data, value)).collect();
    match flag {
        // Not converted: a path need not be UTF-8.
        Some(path) => Ok(path.to_owned()),
        None => Ok(Settings::load(flags, &ProcessContext::read()?)?.data()),
    }
}

/// Returns the values of a profile; the project's file takes precedence.
fn profile(selected: &Setting, files: &[&ConfigFile]) -> anyhow::Result<SettingMap> {
    let matching: Vec<&SettingMap> =
        files.iter().filter_map(|file| file.profiles.get(&selected.value)).collect();
    if matching.is_empty() {
        let mut known: Vec<&str> =
            files.iter().flat_map(|file| file.profiles.keys()).map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        let hint = match (closest_match(&selected.value, known.iter().copied()), known.as_slice()) {
            (Some(closest), _) => format!("did you mean {closest}? The profiles are {}", known.join(", ")),
            (None, []) => format!("no profiles are defined; add them to {PROJECT_FILE} under `profiles`"),
            (None, known) => format!("the profiles are {}", known.join(", ")),
        };
        let message = format!("unknown profile {:?}, selected by {}", selected.value, selected.origin);
        return Err(CommandError::new(USAGE, message, hint).into());
    }
    let mut level = SettingMap::new();
    for values in matching {
        for (key, value) in values {
            level.entry(*key).or_insert_with(|| value.clone());
        }
    }
    Ok(level)
}

#[cfg(test)]
mod tests;
