//! What can be set: one list, from which flags, variables, files and the documentation take their names.

/// Where data is if nobody says otherwise.
pub(crate) const DATA_DEFAULT: &str = "quorate-data";
/// Where a hub listens if nobody says otherwise.
pub(crate) const URL_DEFAULT: &str = "http://127.0.0.1:7867";

/// Something that can be set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Url,
    Data,
    Token,
    TokenFile,
    Space,
    CaFile,
    InsecureHttp,
    Profile,
}

impl Key {
    pub(crate) const ALL: [Self; 8] = [
        Self::Url,
        Self::Data,
        Self::Token,
        Self::TokenFile,
        Self::Space,
        Self::CaFile,
        Self::InsecureHttp,
        Self::Profile,
    ];

    /// In a file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Data => "data",
            Self::Token => "token",
            Self::TokenFile => "token_file",
            Self::Space => "space",
            Self::CaFile => "ca_file",
            Self::InsecureHttp => "insecure_http",
            Self::Profile => "profile",
        }
    }

    /// In the environment.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Url => "QUORATE_URL",
            Self::Data => "QUORATE_DATA",
            Self::Token => "QUORATE_TOKEN",
            Self::TokenFile => "QUORATE_TOKEN_FILE",
            Self::Space => "QUORATE_SPACE",
            Self::CaFile => "QUORATE_CA_FILE",
            Self::InsecureHttp => "QUORATE_INSECURE_HTTP",
            Self::Profile => "QUORATE_PROFILE",
        }
    }

    /// What holds if nobody says anything.
    pub(crate) fn default_value(self) -> &'static str {
        match self {
            Self::Url => URL_DEFAULT,
            Self::Data => DATA_DEFAULT,
            Self::InsecureHttp => "false",
            Self::Token | Self::TokenFile | Self::Space | Self::CaFile | Self::Profile => "",
        }
    }

    /// What it is for.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Url => "where the hub is",
            Self::Data => {
                "the data directory; a hub that runs on it is found by itself, and so is its admin's token"
            }
            Self::Token => {
                "the token itself, from the environment only: files are shared, flags are seen by others"
            }
            Self::TokenFile => "the file with the token",
            Self::Space => "in which space an admin acts",
            Self::CaFile => "for https: who signed the hub's certificate",
            Self::InsecureHttp => "let the token travel unencrypted to another machine",
            Self::Profile => "which of the profiles counts",
        }
    }

    /// Whether it names a file or a directory.
    pub(crate) fn is_path(self) -> bool {
        matches!(self, Self::Data | Self::TokenFile | Self::CaFile)
    }
}

/// The word that was meant, if one is near.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|one| (distance(word, one), one)).min()?;
    (near.0 <= 1 + word.chars().count() / 3).then_some(near.1)
}

/// How many letters must be put in, left out or exchanged.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.to_lowercase().chars().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (index, against) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *against);
            diagonal = row[index + 1];
            row[index + 1] = changed.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_a_far_one_is_not() {
        let known = || Key::ALL.into_iter().map(Key::name);
        assert_eq!(nearest("tokenfile", known()), Some("token_file"));
        assert_eq!(nearest("ulr", known()), Some("url"));
        assert_eq!(nearest("Sapce", known()), Some("space"));
        assert_eq!(nearest("confidence_floor", known()), None);
    }
}
