//! Validation of matches: entropy, and whether the text reads like a name. Only applied to matches of a pattern.

/// Validator of a match, in addition to the check for placeholders.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Validator {
    /// Minimum entropy in bits per character.
    Entropy(f64),
    /// Minimum entropy, with uppercase letters, lowercase letters and digits.
    Mixed(f64),
    /// Generated key: letters and digits in no readable order.
    Key,
    /// Quoted password.
    Password,
    /// Unquoted password, which could also be an expression.
    Bare,
    /// Command-line argument: a key or a password.
    Argument,
    /// Password next to a user name.
    Login,
    /// First line of a private key.
    Pem,
}

impl Validator {
    /// Parses the column of the rule table.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "key" => Self::Key,
            "password" => Self::Password,
            "bare" => Self::Bare,
            "argument" => Self::Argument,
            "login" => Self::Login,
            "pem" => Self::Pem,
            _ => match text.strip_suffix("+mixed") {
                Some(bits) => Self::Mixed(bits.parse().ok()?),
                None => Self::Entropy(text.parse().ok()?),
            },
        })
    }

    /// Whether the text is a plausible secret.
    pub(super) fn accepts(self, text: &[u8]) -> bool {
        let has = CharClasses::of(text);
        match self {
            Self::Entropy(bits) => entropy(text) >= bits,
            Self::Mixed(bits) => has.mixed() && entropy(text) >= bits,
            Self::Key => is_key(text, has),
            Self::Password => is_password(text, has),
            Self::Bare => is_bare_password(text, has),
            Self::Argument => is_key(text, has) || is_bare_password(text, has),
            Self::Login => is_login(text),
            Self::Pem => entropy(text) >= 3.5,
        }
    }
}

/// Returns the Shannon entropy in bits per byte.
pub(super) fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in text {
        counts[usize::from(*byte)] += 1;
    }
    let length = text.len() as f64;
    let share = |count: u32| f64::from(count) / length;
    counts.iter().filter(|count| **count > 0).map(|count| -share(*count) * share(*count).log2()).sum()
}

/// Character classes in a text.
#[derive(Clone, Copy)]
struct CharClasses {
    lower: bool,
    upper: bool,
    digit: bool,
    /// Symbols that are common in passwords, but not in identifiers.
    symbol: bool,
}

impl CharClasses {
    fn of(text: &[u8]) -> Self {
        let any = |test: fn(&u8) -> bool| text.iter().any(test);
        Self {
            lower: any(u8::is_ascii_lowercase),
            upper: any(u8::is_ascii_uppercase),
            digit: any(u8::is_ascii_digit),
            symbol: text.iter().any(|byte| b"!@#$%^&*+?~".contains(byte)),
        }
    }

    fn mixed(self) -> bool {
        self.lower && self.upper && self.digit
    }

    fn letter(self) -> bool {
        self.lower || self.upper
    }
}

fn is_key(text: &[u8], has: CharClasses) -> bool {
    has.letter()
        && has.digit
        && entropy(text) >= 3.0
        && !is_short_digest(text)
        && !is_uuid(text)
        && !is_dotted_name(text)
        && !is_readable(text)
}

fn is_password(text: &[u8], has: CharClasses) -> bool {
    let typed = text.iter().all(|byte| !byte.is_ascii_control());
    typed && has.letter() && has.digit && (has.symbol || has.lower && has.upper) && !is_name_or_path(text)
}

fn is_bare_password(text: &[u8], has: CharClasses) -> bool {
    is_password(text, has) && (has.symbol || !is_readable(text))
}

/// Well-known passwords of local setups.
const COMMON_PASSWORDS: &[&str] = &[
    "pass",
    "pwd",
    "pw",
    "postgres",
    "root",
    "admin",
    "user",
    "guest",
    "mysql",
    "mongo",
    "redis",
    "rabbitmq",
    "docker",
    "local",
    "localhost",
    "hunter2",
    "letmein",
    "123456",
    "none",
    "null",
    "empty",
    "anonymous",
    "tiger",
    "oracle",
    "manager",
];

fn is_login(text: &[u8]) -> bool {
    !COMMON_PASSWORDS.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}

fn is_name_or_path(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'/' | b'.' | b'~'))
        || text.windows(3).any(|window| window == b"://")
        || is_dotted_name(text)
}

/// Whether the text is an expression of names joined by dots: `settings.database.key1`.
fn is_dotted_name(text: &[u8]) -> bool {
    let is_name = |part: &[u8]| {
        part.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
            && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            && (part.len() < 3 || is_readable(part))
    };
    text.contains(&b'.') && text.split(|byte| *byte == b'.').all(is_name)
}

/// Whether the text consists of hexadecimal digits, but is too short for a key: a truncated digest.
fn is_short_digest(text: &[u8]) -> bool {
    text.len() < 24 && text.iter().all(u8::is_ascii_hexdigit)
}

fn is_uuid(text: &[u8]) -> bool {
    text.len() == 36
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether the text consists of readable words: `backupKey2`, `prod-db-credentials-v3`. Names do, random text hardly
/// ever does.
fn is_readable(text: &[u8]) -> bool {
    let (mut pieces, mut length, mut letters, mut in_words) = (0, 0, 0, 0);
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(piece_length(rest));
        rest = after;
        if piece[0].is_ascii_alphanumeric() {
            pieces += 1;
            length += piece.len();
        }
        if piece[0].is_ascii_alphabetic() {
            letters += piece.len();
            in_words += if is_word(piece) { piece.len() } else { 0 };
        }
    }
    letters > 0 && length * 10 >= pieces * 26 && in_words * 10 >= letters * 8
}

/// Returns the length of the first piece: letters up to the next uppercase one, digits, or one symbol.
fn piece_length(text: &[u8]) -> usize {
    let continues = |pair: &[u8]| match (pair[0], pair[1]) {
        (a, b) if a.is_ascii_digit() => b.is_ascii_digit(),
        (a, b) if a.is_ascii_alphabetic() => {
            b.is_ascii_alphabetic() && !(a.is_ascii_lowercase() && b.is_ascii_uppercase())
        }
        _ => false,
    };
    text.windows(2).take_while(|pair| continues(pair)).count() + 1
}

/// Whether letters are pronounceable: some vowels, and not too many consecutive consonants.
fn is_word(letters: &[u8]) -> bool {
    let is_vowel = |byte: &u8| b"aeiouy".contains(&byte.to_ascii_lowercase());
    let vowels = letters.iter().filter(|byte| is_vowel(byte)).count();
    letters.len() >= 3
        && (letters.len()..=letters.len() * 4).contains(&(vowels * 5))
        && letters.split(is_vowel).all(|consonants| consonants.len() < 4)
}
