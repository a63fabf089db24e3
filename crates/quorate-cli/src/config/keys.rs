//! Configuration keys: the single list from which flags, variables, files and the documentation take their names.

/// Default data directory.
pub(crate) const DATA_DEFAULT: &str = "quorate-data";
/// Default URL of the hub.
pub(crate) const URL_DEFAULT: &str = "http://127.0.0.1:7867";

/// A configuration key.
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

    /// Returns the key in a configuration file.
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

    /// Returns the environment variable.
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

    /// Returns the default; empty if there is none.
    pub(crate) fn default_value(self) -> &'static str {
        match self {
            Self::Url => URL_DEFAULT,
            Self::Data => DATA_DEFAULT,
            Self::InsecureHttp => "false",
            Self::Token | Self::TokenFile | Self::Space | Self::CaFile | Self::Profile => "",
        }
    }

    /// Describes the key in a sentence.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Url => "URL of the hub",
            Self::Data => "data directory; a running hub and its admin token are discovered in it",
            Self::Token => {
                "access token, from the environment only: files are shared, and other users can see options"
            }
            Self::TokenFile => "file with the access token",
            Self::Space => "space in which an admin acts",
            Self::CaFile => "CA certificate of the hub, for https",
            Self::InsecureHttp => "send the token unencrypted to another machine",
            Self::Profile => "profile to use",
        }
    }

    /// Whether it names a file or a directory.
    pub(crate) fn is_path(self) -> bool {
        matches!(self, Self::Data | Self::TokenFile | Self::CaFile)
    }
}

/// Returns the most similar known word, if one is similar enough.
pub(crate) fn closest_match<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let closest = known.map(|candidate| (distance(word, candidate), candidate)).min()?;
    (closest.0 <= 1 + word.chars().count() / 3).then_some(closest.1)
}

/// Returns the Levenshtein distance, ignoring case.
fn distance(word: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (row_index, ch) in word.to_lowercase().chars().enumerate() {
        let mut diagonal = row_index;
        row[0] = row_index + 1;
        for (column, other_ch) in other.iter().enumerate() {
            let changed = diagonal + usize::from(ch != *other_ch);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
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
        assert_eq!(closest_match("tokenfile", known()), Some("token_file"));
        assert_eq!(closest_match("ulr", known()), Some("url"));
        assert_eq!(closest_match("Sapce", known()), Some("space"));
        assert_eq!(closest_match("confidence_floor", known()), None);
    }
}
