//! Secrets within escapes and terminal control sequences: every true example is found and redacted in every variant,
//! and no false example is refused.

use serde_json::Value;

use super::random_text::{BASE62, RandomText};
use super::true_examples::TrueExample;
use super::{false_examples, true_examples};
use crate::Scanner;

/// Text next to a secret in a JSON string, and an unescaped equivalent that separates as well.
const BESIDE: &[(&str, &str)] = &[
    (r"\u201c", "“"),
    (r"\u00a0", "\u{a0}"),
    (r"\u00e4", "ä"),
    (r"\u0000", "\0"),
    (r"\u000a", "\n"),
    (r"\u0009", "\t"),
    (r"\u0022", "\""),
    (r"\u003c", "<"),
    (r"\n", "\n"),
    (r"\r\n", "\r\n"),
    (r"\t", "\t"),
    (r"\b", " "),
    (r"\f", " "),
    (r#"\""#, "\""),
    (r"\/", "/"),
    (r"\\", "\\"),
    (r"\ud83d\ude00", "😀"),
    (r"\ud83d", " "),
    (r"\ude00", " "),
    (r"\\u201c", "“"),
    (r"\\\\u201c", "“"),
    (r"\u005cu201c", "“"),
    (r"\\ud83d\\ude00", "😀"),
    (r"\\n", "\n"),
    (r"\u005cn", "\n"),
    (r"\u001b[31m", " "),
    (r"\u001B[1;38;5;196m", " "),
    (r"\u001b\u005b0m", " "),
    (r"\u001b[m\u001b[K", " "),
    (r"\u001b(B\u001b[m", " "),
    (r"\u009b31m", " "),
    (r"\u001b", " "),
    (r"\u001bc", " "),
    (r"\\u001b[31m", " "),
    (r"\\x1b[31m", " "),
    (r"\\033[31m", " "),
    (r"\\e[31m", " "),
    (r"\\a", " "),
    (r"\\v", " "),
    (r"\\U0001f600", "😀"),
    (r"\\u{1b}[31m", " "),
    (r"\\xe2\\x80\\x9c", "“"),
    (r"\\342\\200\\234", "“"),
    (r"\\0", " "),
    ("\u{1b}[31m", " "),
    ("\u{9b}31m", " "),
    ("“", "“"),
    ("\0", " "),
];

fn found(scanner: &Scanner, text: &str) -> Option<&'static str> {
    scanner.scan(text.as_bytes()).map(|found| found.rule)
}

/// Returns a JSON string in which the selected characters are escaped as `\uXXXX`, as some serializers do with all
/// characters except for letters and digits.
fn escaped(text: &str, is_escaped: impl Fn(usize, char) -> bool) -> String {
    let mut out = String::from("\"");
    for (at, character) in text.chars().enumerate() {
        if is_escaped(at, character) {
            let units = character.encode_utf16(&mut [0; 2]).to_vec();
            units.iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push_str(&RandomText::quoted(&character.to_string()));
        }
    }
    out + "\""
}

/// Returns several equivalent JSON serializations of the same text.
fn all_escaped(text: &str) -> Vec<String> {
    vec![
        escaped(text, |_, character| !character.is_ascii()),
        escaped(text, |_, character| !character.is_ascii_alphanumeric()),
        escaped(text, |_, character| !character.is_ascii() || "<>&'+/=\"`".contains(character)),
        escaped(text, |_, _| true),
        escaped(text, |at, _| at % 2 == 0),
        escaped(text, |at, _| at % 3 == 1),
        escaped(text, |at, _| at % 7 == 6),
        escaped(&escaped(text, |at, _| at % 5 == 0), |_, character| character == '"'),
        escaped(&escaped(text, |_, character| !character.is_ascii_alphanumeric()), |_, character| {
            character == '\\'
        }),
        serde_json::to_string(&escaped(text, |_, _| true)).expect("text is JSON"),
    ]
}

/// Returns several ways in which a terminal colors a text.
fn all_colored(text: &str) -> Vec<String> {
    let quoted = RandomText::quoted(text);
    let words = |on: &str, off: &str| {
        let words: Vec<String> = quoted.split(' ').map(|word| format!("{on}{word}{off}")).collect();
        words.join(" ")
    };
    vec![
        format!("\u{1b}[31m{text}\u{1b}[0m"),
        format!(r#"{{"log":"\u001b[1;31m{quoted}\u001b[0m done"}}"#),
        format!(r#"{{"log":"{}"}}"#, words(r"\u001b[32m", r"\u001b[39m")),
        format!(r#"{{"log":"{}"}}"#, words(r"\u001b[32m", r"\u001b(B\u001b[m")),
        format!(r#"{{"log":"{}"}}"#, words(r"\\x1b[32m", r"\\x1b[39m")),
    ]
}

/// Returns the true examples that are found without escapes: a few random ones are too weak.
fn found_plainly(scanner: &Scanner, seed: u64, rounds: usize) -> Vec<TrueExample> {
    let all = true_examples::all(&mut RandomText::new(seed), rounds);
    let total = all.len();
    let found: Vec<_> = all
        .into_iter()
        .filter(|example| found(scanner, &format!("use {} now", example.bare)).is_some())
        .collect();
    assert!(found.len() * 100 >= total * 98, "{} of {total}", found.len());
    found
}

// Fails under: an escape whose last digit is taken for a letter, non-ASCII characters that stay escaped, and a color
// code whose last letter is taken for the start of a word.
#[test]
fn i18_a_secret_is_found_next_to_any_escape() {
    let scanner = Scanner::new();
    let mut missed = Vec::new();
    let mut tried = 0;
    for example in found_plainly(&scanner, 21, 1) {
        let quoted = RandomText::quoted(&example.bare);
        // A digit after `\0` is part of the escape.
        let starts_with_digit = example.bare.starts_with(|character: char| character.is_ascii_digit());
        for (beside, plain) in BESIDE.iter().filter(|(beside, _)| !starts_with_digit || *beside != r"\\0") {
            let before = (format!(r#"{{"payload":"{beside}{quoted}"}}"#), format!("{plain}{}", example.bare));
            let after =
                (format!(r#"{{"payload":"{quoted}{beside}."}}"#), format!("{}{plain}.", example.bare));
            let both = (
                format!(r#"["note{beside}{quoted}{beside}x"]"#),
                format!("note{plain}{}{plain}x", example.bare),
            );
            for (text, plain) in [before, after, both] {
                if found(&scanner, &plain).is_some() {
                    tried += 1;
                    if found(&scanner, &text).is_none() {
                        missed.push((example.rule, *beside, text));
                    }
                }
            }
        }
    }
    assert!(tried > 20_000, "{tried}");
    assert!(missed.is_empty(), "{} of {tried}: {:#?}", missed.len(), &missed[..missed.len().min(20)]);
}

#[test]
fn i18_an_escaped_secret_is_found() {
    let scanner = Scanner::new();
    let mut missed = Vec::new();
    for example in found_plainly(&scanner, 22, 2) {
        let text = format!("“use {} now”", example.bare);
        let texts = all_escaped(&text).into_iter().chain(all_colored(&text));
        missed.extend(texts.filter(|text| found(&scanner, text).is_none()).map(|text| (example.rule, text)));
    }
    assert!(missed.is_empty(), "{}: {:#?}", missed.len(), &missed[..missed.len().min(20)]);
}

#[test]
fn i18_a_partially_highlighted_token_is_redacted_completely() {
    let scanner = Scanner::new();
    let tail = RandomText::new(23).text(BASE62, 36);
    for (on, off) in [("\u{1b}[01;31m\u{1b}[K", "\u{1b}[m\u{1b}[K"), (r"\u001b[1m", r"\u001b[0m")] {
        let text = format!("a.env:TOKEN={on}ghp_{off}{tail} b");
        let redacted = scanner.redact(text.as_bytes()).expect("it is found");
        assert_eq!(
            String::from_utf8(redacted).unwrap(),
            format!("a.env:TOKEN={on}[redacted:github-token] b")
        );
    }
}

#[test]
fn i18_no_escaped_or_colored_false_example_is_refused() {
    let scanner = Scanner::new();
    let mut false_positives = Vec::new();
    for (kind, text) in false_examples::all(&mut RandomText::new(24), 12) {
        let texts = all_escaped(&text).into_iter().chain(all_colored(&text));
        let texts = texts.chain(all_escaped(&format!("“{text}”")));
        false_positives.extend(texts.filter_map(|text| Some((kind, found(&scanner, &text)?, text))));
    }
    assert!(
        false_positives.is_empty(),
        "{}: {:#?}",
        false_positives.len(),
        &false_positives[..false_positives.len().min(20)]
    );
}

/// Control codes that are invisible on a terminal.
const INVISIBLE: &[&str] = &[
    "\0",
    r"\u0000",
    r"\\0",
    "\u{1b}[1m",
    r"\u001b[0;31m",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;https://example.org/\u{1b}\\",
    r"\u001b]8;;https://example.org/\u001b\\",
    r"\u009d0;title\u009c",
    r"\u001bPq\u001b\\",
    r"\u001b\u0000[31m",
    r"\u0007",
    r"\\a",
    r"\U00000000",
    "\u{1b}7",
    "\u{1b}#8",
    "\u{1b}%G",
    "\u{1b}[2 q",
    "\u{1b}M",
    "\u{8}",
    "\u{7f}",
    "\u{e}",
];

// Fails under: a view that drops the content of a control string, or keeps the NULs in it.
#[test]
fn i18_a_secret_within_a_control_string_is_found() {
    let scanner = Scanner::new();
    let token = format!("ghp_{}", RandomText::new(31).text(BASE62, 36));
    let with_nul: String = token.chars().flat_map(|character| [character, '\0']).collect();
    for token in [token.as_str(), &with_nul] {
        for text in [format!("\u{1b}]0;{token}\u{7}"), format!("\u{1b}]8;;https://x/{token}\u{1b}\\link")] {
            assert_eq!(found(&scanner, &text), Some("github-token"), "{text:?}");
        }
    }
}

/// Returns texts with a control code after each group of characters, and the code.
fn interleaved(text: &str) -> impl Iterator<Item = (&'static str, String)> {
    let variants = INVISIBLE.iter().flat_map(|code| [1, 2, 5, 11].map(|group| (*code, group)));
    variants.filter_map(move |(code, group)| {
        let is_escaped = code.starts_with('\\');
        let mut out = String::new();
        for (at, character) in text.chars().enumerate() {
            if at > 0 && at % group == 0 {
                // A digit after `\0` is part of the escape.
                if code == r"\\0" && character.is_ascii_digit() {
                    return None;
                }
                out.push_str(code);
            }
            match is_escaped {
                true => out.push_str(&RandomText::quoted(&character.to_string())),
                false => out.push(character),
            }
        }
        Some((code, out))
    })
}

// Fails under: NUL that separates words only, and control strings whose content stays in the text.
#[test]
fn i18_a_secret_with_invisible_codes_between_its_characters_is_found() {
    let scanner = Scanner::new();
    let (mut missed, mut tried) = (Vec::new(), 0);
    for example in found_plainly(&scanner, 29, 1) {
        for (code, text) in interleaved(&example.bare) {
            tried += 1;
            let text = format!("use {text} now");
            if found(&scanner, &text).is_none() {
                missed.push((example.rule, code, text));
            }
        }
    }
    assert!(tried > 5_000, "{tried}");
    assert!(missed.is_empty(), "{} of {tried}: {:#?}", missed.len(), &missed[..missed.len().min(20)]);
}

// Fails under: a terminator of a control string that includes the backslash of the next escape.
#[test]
fn i18_no_false_example_with_invisible_codes_is_refused() {
    let scanner = Scanner::new();
    let (mut refused, mut tried) = (Vec::new(), 0);
    for (kind, text) in false_examples::all(&mut RandomText::new(30), 12) {
        for (code, text) in interleaved(&text) {
            tried += 1;
            refused.extend(found(&scanner, &text).map(|rule| (kind, rule, code, text)));
        }
    }
    assert!(tried > 20_000, "{tried}");
    assert!(refused.is_empty(), "{} of {tried}: {:#?}", refused.len(), &refused[..refused.len().min(20)]);
}

// Fails under: a range that includes adjacent text, or omits a part of the secret.
#[test]
fn i18_exactly_the_secret_is_redacted_next_to_an_escape() {
    let scanner = Scanner::new();
    let token = format!("ghp_{}", RandomText::new(25).text(BASE62, 36));
    let whole = escaped(&token, |_, _| true);
    let whole = &whole[1..whole.len() - 1];
    let some = escaped(&token, |at, _| at % 3 == 0);
    let some = &some[1..some.len() - 1];
    for (beside, _) in BESIDE {
        for token in [token.as_str(), whole, some] {
            let text = format!(r#"{{"a":"x{beside}{token}{beside}y","n":1}}"#);
            let redacted = scanner.redact(text.as_bytes()).unwrap_or_else(|| panic!("not found: {text}"));
            let redacted = String::from_utf8(redacted).unwrap();
            let expected = format!(r#"{{"a":"x{beside}[redacted:github-token]{beside}y","n":1}}"#);
            assert_eq!(redacted, expected, "{text}");
            assert_eq!(found(&scanner, &redacted), None, "{redacted}");
        }
    }
}

#[test]
fn i18_an_escaped_secret_is_redacted_completely_and_json_stays_valid() {
    let scanner = Scanner::new();
    for example in found_plainly(&scanner, 26, 1) {
        for text in all_escaped(&format!("“use {} now”", example.bare)) {
            let redacted = String::from_utf8(scanner.redact(text.as_bytes()).expect("it is found")).unwrap();
            let mut decoded: Value = serde_json::from_str(&redacted).expect("valid JSON");
            // Unwrap JSON within JSON.
            while let Some(inner) = decoded.as_str().and_then(|text| serde_json::from_str(text).ok()) {
                decoded = inner;
            }
            let decoded = decoded.as_str().expect("a string");
            let pieces = example.core.split(|character: char| !character.is_ascii_alphanumeric());
            for piece in pieces.filter(|piece| piece.len() >= 8) {
                assert!(!decoded.contains(piece), "{}: {decoded}\nof {text}", example.rule);
            }
            assert_eq!(found(&scanner, &redacted), None, "{redacted}");
        }
    }
}

#[test]
fn i18_invalid_escapes_are_left_unchanged() {
    let scanner = Scanner::new();
    let token = format!("ghp_{}", RandomText::new(27).text(BASE62, 36));
    for beside in
        [r"\u", r"\u12", r"\uzzzz", r"\u{", r"\u{110000000}", r"\x", r"\xg1", r"\u+123", "\\", "\u{1b}"]
    {
        let text = format!("{beside} {token} {beside}");
        let redacted = scanner.redact(text.as_bytes()).expect("it is found");
        let expected = format!("{beside} [redacted:github-token] {beside}");
        assert_eq!(String::from_utf8(redacted).unwrap(), expected);
    }
}

// Fails under: quadratic work for a run of backslashes or escapes.
#[test]
fn i18_long_runs_of_escapes_are_scanned_in_linear_time() {
    let scanner = Scanner::new();
    let token = format!("ghp_{}", RandomText::new(28).text(BASE62, 36));
    for run in [
        "\\",
        r"\u005c",
        r"\ud83d",
        "\u{1b}[",
        "\u{1b}",
        r"\u001b[3",
        r"\0",
        "\0",
        "\u{1b}]",
        "\u{9d}",
        "\u{a0}",
    ] {
        let text = format!("{} {token}", run.repeat(400_000 / run.len()));
        assert_eq!(found(&scanner, &text), Some("github-token"), "{run:?}");
    }
}
