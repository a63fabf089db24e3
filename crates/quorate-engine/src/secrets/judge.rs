//! Whether text of the right shape is a secret: how random it is, and whether it reads like a name. It is asked only of
//! what a pattern has found.

/// What a secret must pass, beside not being a placeholder.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Check {
    /// So many bits of entropy a character.
    Entropy(f64),
    /// The same, with large letters, small letters and digits.
    Mixed(f64),
    /// Something that a machine made up: letters and digits in no readable order.
    Key,
    /// A password in quotes.
    Password,
    /// A password without quotes, which could also be an expression.
    Bare,
    /// An argument of a command: a key or a password.
    Argument,
    /// The password beside a user name.
    Login,
    /// The first line of a private key.
    Pem,
}

impl Check {
    /// As it stands in the table.
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

    /// Whether the text is random enough for what it is.
    pub(super) fn passes(self, text: &[u8]) -> bool {
        let has = Has::of(text);
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

/// Shannon's entropy in bits a byte.
pub(super) fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in text {
        counts[usize::from(*byte)] += 1;
    }
    let length = text.len() as f64;
    let share = |count: u32| f64::from(count) / length;
    counts.iter().filter(|count| **count > 0).map(|count| -share(*count) * share(*count).log2()).sum()
}

/// Which kinds of characters there are.
#[derive(Clone, Copy)]
struct Has {
    lower: bool,
    upper: bool,
    digit: bool,
    /// Signs that people put into passwords and programs do not put into names.
    sign: bool,
}

impl Has {
    fn of(text: &[u8]) -> Self {
        let any = |test: fn(&u8) -> bool| text.iter().any(test);
        Self {
            lower: any(u8::is_ascii_lowercase),
            upper: any(u8::is_ascii_uppercase),
            digit: any(u8::is_ascii_digit),
            sign: text.iter().any(|byte| b"!@#$%^&*+?~".contains(byte)),
        }
    }

    fn mixed(self) -> bool {
        self.lower && self.upper && self.digit
    }

    fn letter(self) -> bool {
        self.lower || self.upper
    }
}

fn is_key(text: &[u8], has: Has) -> bool {
    has.letter()
        && has.digit
        && entropy(text) >= 3.0
        && !is_short_digest(text)
        && !is_uuid(text)
        && !is_dotted_name(text)
        && !is_readable(text)
}

fn is_password(text: &[u8], has: Has) -> bool {
    let typed = text.iter().all(|byte| !byte.is_ascii_control());
    typed && has.letter() && has.digit && (has.sign || has.lower && has.upper) && !is_name_or_path(text)
}

fn is_bare_password(text: &[u8], has: Has) -> bool {
    is_password(text, has) && (has.sign || !is_readable(text))
}

/// Passwords that everybody has in a local set-up.
const EVERYBODYS: &[&str] = &[
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
];

fn is_login(text: &[u8]) -> bool {
    !EVERYBODYS.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}

fn is_name_or_path(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'/' | b'.' | b'~'))
        || text.windows(3).any(|three| three == b"://")
        || is_dotted_name(text)
}

/// `settings.database.key1`: names joined by dots are an expression.
fn is_dotted_name(text: &[u8]) -> bool {
    let name = |part: &[u8]| {
        part.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
            && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            && (part.len() < 3 || is_readable(part))
    };
    text.contains(&b'.') && text.split(|byte| *byte == b'.').all(name)
}

/// Hexadecimal digits, too few for a key: the beginning of a digest.
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

/// Whether a reader sees words: `backupKey2`, `prod-db-credentials-v3`. Names are, random text hardly ever is.
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

/// How far the first piece goes: letters up to the next large one, digits, or one sign.
fn piece_length(text: &[u8]) -> usize {
    let goes_on = |pair: &[u8]| match (pair[0], pair[1]) {
        (a, b) if a.is_ascii_digit() => b.is_ascii_digit(),
        (a, b) if a.is_ascii_alphabetic() => {
            b.is_ascii_alphabetic() && !(a.is_ascii_lowercase() && b.is_ascii_uppercase())
        }
        _ => false,
    };
    text.windows(2).take_while(|pair| goes_on(pair)).count() + 1
}

/// Letters that can be spoken: some vowels, and not too many consonants in a row.
fn is_word(letters: &[u8]) -> bool {
    let vowel = |byte: &u8| b"aeiouy".contains(&byte.to_ascii_lowercase());
    let vowels = letters.iter().filter(|byte| vowel(byte)).count();
    letters.len() >= 3
        && (letters.len()..=letters.len() * 4).contains(&(vowels * 5))
        && letters.split(vowel).all(|consonants| consonants.len() < 4)
}
