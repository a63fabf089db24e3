//! Parser of the rule table `rules.txt`. Patterns are compiled on first use, so that a hub starts quickly and never
//! pays for unused rules.

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

use super::validators::Validator;

const RULES: &str = include_str!("rules.txt");

/// Shared parts of patterns; a part can contain those after it. They are bounded, so that no text causes a long scan.
const PARTS: &[(&str, &str)] = &[
    // After the name of a vendor, an assignment to a field such as `key` or `token` within a short distance, or a
    // sentence such as `the token is …`.
    (
        "{near}",
        r#"[^\r\n]{0,60}?(?i:key|token|secret|auth|sid)(?i:s|[_-]?id|{suffix})?(?:{is}|{s}is:?{s}{opens}?)"#,
    ),
    // End of the name, an assignment, and optionally the opening quote of the value. Quotes can be escaped, as in JSON
    // within JSON; `name` and `value` can also be two members of an object. A colon that is not followed by a quote or
    // space joins the parts of a longer name.
    ("{is}", r#"{name_ends}(?:{assigns}{s}{0,8}{opens}?|:(?:{s}{1,8}{opens}?|{opens}))"#),
    ("{is_quoted}", r#"{name_ends}(?:{assigns}|:){s}{0,8}{opens}"#),
    ("{is_bare}", r#"{name_ends}(?:{assigns}|:){s}{0,8}"#),
    ("{name_ends}", r#"{q}?\]?(?:{s}is)?{s}{0,8}"#),
    ("{assigns}", r#"(?::=|=>|={1,3}|>|,{s}{0,8}{q}(?:value|val){q}{s}{0,4}:)"#),
    ("{opens}", r#"(?:[bfru]?{q}{1,3})"#),
    (
        "{suffix}",
        r#"(?i:_?(?:[0-9]{1,2}|prod|production|live|staging|stage|dev|main|primary|backup|new|old))?"#,
    ),
    ("{q}", r#"(?:\\*["'`])"#),
    ("{s}", r#"(?:[ \t\r\n]|\\+[nrt])"#),
    ("{uuid}", r#"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"#),
    ("{start}", r#"(?:^|[^A-Za-z0-9_]|\\+[bfnrt]|%[0-9A-Fa-f]{2})"#),
    ("{end}", r#"\b{end-half}"#),
];

/// One line of the table.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) keywords: Vec<&'static str>,
    pub(super) mode: MatchMode,
    pub(super) validator: Validator,
    pattern: &'static str,
    /// Compiled pattern. Never `None`: a test compiles all patterns.
    regex: OnceLock<Option<Regex>>,
}

/// Position of a pattern relative to its keyword.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MatchMode {
    /// The pattern starts at the keyword, at a word boundary; the whole match is the secret.
    Token,
    /// The pattern starts at the keyword; the capture is the secret.
    From,
    /// The pattern starts up to this many bytes before the keyword; the capture is the secret.
    Back(usize),
}

impl Rule {
    /// Returns the compiled pattern. Never `None`: a test compiles all patterns.
    pub(super) fn regex(&self) -> Option<&Regex> {
        self.regex.get_or_init(|| self.compile()).as_ref()
    }

    fn compile(&self) -> Option<Regex> {
        let mut text = match self.mode {
            MatchMode::Token | MatchMode::From => format!("^(?:{})", self.pattern),
            MatchMode::Back(_) => self.pattern.to_owned(),
        };
        for (name, part) in PARTS {
            text = text.replace(name, part);
        }
        RegexBuilder::new(&text).unicode(false).dfa_size_limit(1 << 20).build().ok()
    }
}

/// Parses all rules, and the prefixes of public sample credentials.
pub(super) fn parse_rules() -> (Vec<Rule>, Vec<&'static str>) {
    let (mut rules, mut samples) = (Vec::new(), Vec::new());
    for line in RULES.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.strip_prefix("sample ") {
            Some(words) => samples.extend(words.split_whitespace()),
            None => rules.extend(parse_rule(line)),
        }
    }
    (rules, samples)
}

/// Parses a line of five columns; the last one is the rest of the line. Never `None`: a test counts the lines.
pub(super) fn parse_rule(line: &'static str) -> Option<Rule> {
    let mut rest = line;
    let mut column = || {
        let (column, after) = rest.split_once(' ')?;
        rest = after.trim_start();
        Some(column)
    };
    let (name, keywords, mode, validator) = (column()?, column()?, column()?, column()?);
    let mode = match mode.split_once(':') {
        None if mode == "token" => MatchMode::Token,
        None if mode == "from" => MatchMode::From,
        Some(("back", bytes)) => MatchMode::Back(bytes.parse().ok()?),
        _ => return None,
    };
    let keywords = keywords.split(',').collect();
    Some(Rule {
        name,
        keywords,
        mode,
        validator: Validator::parse(validator)?,
        pattern: rest,
        regex: OnceLock::new(),
    })
}
