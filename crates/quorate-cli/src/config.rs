//! What holds for a command, and where that was said: flag, then environment, then `quorate.yaml` of the project, then the
//! user's file, then the default. Nothing unknown is passed over, and no secret is shown.

mod command;
mod file;
mod keys;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::exit::{Ended, USAGE};

pub(crate) use command::{ConfigArgs, run};
pub(crate) use file::PROJECT_FILE;
pub(crate) use keys::{Key, nearest};

use file::File;

/// A value, and where it was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// Where something was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Flag(&'static str),
    Environment(&'static str),
    /// A file and a line of it; the profile in it, if it is one's; whether it is the project's.
    File {
        path: PathBuf,
        line: u64,
        profile: Option<String>,
        project: bool,
    },
}

impl Origin {
    /// Whether it was said in a file that may have come with a project from somebody else.
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

/// What was said on one level.
type Level = BTreeMap<Key, Said>;

/// The machine around a command.
pub(crate) struct Surroundings {
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) directory: PathBuf,
}

impl Surroundings {
    /// Those of this process.
    ///
    /// # Errors
    /// When there is no current directory.
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

    /// The file of the user, whether it is there or not.
    pub(crate) fn user_file(&self) -> Option<PathBuf> {
        let base = self.variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let base = base.or_else(|| Some(self.home()?.join(".config")))?;
        Some(base.join("quorate").join("config.yaml"))
    }

    /// The file of the project: in the current directory, or the nearest above it; not above the user's home.
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

/// All that was said, the level that counts most first.
#[derive(Debug)]
pub(crate) struct Settings {
    levels: Vec<Level>,
    /// The files that were read.
    pub(crate) files: Vec<PathBuf>,
    /// The addresses that the user's file names anywhere, also in profiles that do not count now.
    users_urls: Vec<String>,
}

impl Settings {
    /// Puts the levels together.
    ///
    /// # Errors
    /// For a file that says something unknown, and for a profile that nobody described.
    pub(crate) fn load(flags: Level, around: &Surroundings) -> anyhow::Result<Self> {
        let environment: Level = Key::ALL
            .into_iter()
            .filter_map(|key| {
                let value = around.variable(key.variable())?.to_owned();
                Some((key, Said { value, origin: Origin::Environment(key.variable()) }))
            })
            .collect();
        let project = around.project_file().map(|path| File::read(&path, true, around)).transpose()?;
        let user = around.user_file().filter(|path| path.is_file());
        let user = user.map(|path| File::read(&path, false, around)).transpose()?;
        let users = user.iter().flat_map(|file| std::iter::once(&file.plain).chain(file.profiles.values()));
        let users_urls = users.filter_map(|level| Some(level.get(&Key::Url)?.value.clone())).collect();
        let files: Vec<&File> = project.iter().chain(&user).collect();
        let mut levels = vec![flags, environment];
        levels.extend(files.iter().map(|file| file.plain.clone()));
        // A profile counts where it was chosen: below a flag or a variable, which may say otherwise for one call, and
        // above a file, whose other lines are for all profiles.
        let chosen =
            levels.iter().enumerate().find_map(|(at, level)| Some((at, level.get(&Key::Profile)?.clone())));
        if let Some((at, said)) = chosen {
            let position = if at < 2 { at + 1 } else { at };
            levels.insert(position, profile(&said, &files)?);
        }
        let paths = files.iter().map(|file| file.path.clone()).collect();
        Ok(Self { levels, files: paths, users_urls })
    }

    /// What counts.
    pub(crate) fn get(&self, key: Key) -> Option<&Said> {
        self.all(key).next()
    }

    /// What was said, the one that counts first.
    pub(crate) fn all(&self, key: Key) -> impl Iterator<Item = &Said> {
        self.levels.iter().filter_map(move |level| level.get(&key))
    }

    /// Whether the caller names this address: by a flag, a variable, or anywhere in the user's file.
    pub(crate) fn is_callers(&self, url: &str) -> bool {
        let said = self.all(Key::Url).any(|said| said.value == url && !said.origin.is_project());
        said || self.users_urls.iter().any(|one| one == url)
    }

    /// What counts of these two: whichever was said on the higher level, on one level the first.
    pub(crate) fn first_of(&self, keys: [Key; 2]) -> Option<(Key, &Said)> {
        self.levels.iter().find_map(|level| keys.into_iter().find_map(|key| Some((key, level.get(&key)?))))
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        PathBuf::from(self.get(Key::Data).map_or(keys::DATA_DEFAULT, |said| &said.value))
    }
}

/// The data directory of a command that takes no other setting.
///
/// # Errors
/// As [`Settings::load`].
pub(crate) fn data_directory(flag: Option<&Path>) -> anyhow::Result<PathBuf> {
    let said = flag.map(|path| Said { value: path.display().to_string(), origin: Origin::Flag("--data") });
    let flags = said.into_iter().map(|said| (Key::Data, said)).collect();
    match flag {
        // As it was given: a path need not be text.
        Some(path) => Ok(path.to_owned()),
        None => Ok(Settings::load(flags, &Surroundings::read()?)?.data()),
    }
}

/// The values of a profile, of the project first.
fn profile(chosen: &Said, files: &[&File]) -> anyhow::Result<Level> {
    let found: Vec<&Level> = files.iter().filter_map(|file| file.profiles.get(&chosen.value)).collect();
    if found.is_empty() {
        let mut known: Vec<&str> =
            files.iter().flat_map(|file| file.profiles.keys()).map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        let hint = match (keys::nearest(&chosen.value, known.iter().copied()), known.as_slice()) {
            (Some(near), _) => format!("did you mean {near}? The profiles are {}", known.join(", ")),
            (None, []) => format!("no file describes a profile; {PROJECT_FILE} may, under `profiles`"),
            (None, known) => format!("the profiles are {}", known.join(", ")),
        };
        let message = format!("there is no profile {:?}, which {} chooses", chosen.value, chosen.origin);
        return Err(Ended::new(USAGE, message, hint).into());
    }
    let mut level = Level::new();
    for values in found {
        for (key, said) in values {
            level.entry(*key).or_insert_with(|| said.clone());
        }
    }
    Ok(level)
}

#[cfg(test)]
mod tests;
