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
