//! From the lines of `rules.txt` to rules. The patterns are compiled when they are first needed, so that a hub starts at
//! once and never pays for a vendor that nobody mentions.

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

use super::judge::Check;

const RULES: &str = include_str!("rules.txt");

/// The parts that patterns share; a part may hold those behind it. They are bounded, so that no text makes a pattern look far.
const PARTS: &[(&str, &str)] = &[
    // A vendor was named; a little further something is assigned to a name that says what it is.
    ("{near}", r#"[^\r\n]{0,60}?(?i:key|token|secret|auth|sid)(?i:s|[_-]?id|{suffix})?{is}"#),
    // The name is over, an assignment follows, and perhaps the quote in front of the value. Quotes may be escaped, as they
    // are in JSON within JSON; `name` and `value` may also be two members of an object. A colon without quote or space
    // behind it joins the parts of a longer name.
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
    pub(super) reach: Reach,
    pub(super) check: Check,
    pattern: &'static str,
    regex: OnceLock<Option<Regex>>,
}

/// Where a pattern is looked for, seen from its keyword.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    /// It begins at the keyword, where no word goes on; the whole match is the secret.
    Token,
    /// It begins at the keyword; the capture is the secret.
    From,
    /// It begins up to so many bytes before; the capture is the secret.
    Back(usize),
}

impl Rule {
    /// The pattern, ready to use. `None` never happens: a test compiles them all.
    pub(super) fn regex(&self) -> Option<&Regex> {
        self.regex.get_or_init(|| self.compile()).as_ref()
    }

    fn compile(&self) -> Option<Regex> {
        let mut text = match self.reach {
            Reach::Token | Reach::From => format!("^(?:{})", self.pattern),
            Reach::Back(_) => self.pattern.to_owned(),
        };
        for (name, part) in PARTS {
            text = text.replace(name, part);
        }
        RegexBuilder::new(&text).unicode(false).dfa_size_limit(1 << 20).build().ok()
    }
}

/// All rules, and the beginnings of credentials that are printed for everybody.
pub(super) fn read() -> (Vec<Rule>, Vec<&'static str>) {
    let (mut rules, mut samples) = (Vec::new(), Vec::new());
    for line in RULES.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.strip_prefix("sample ") {
            Some(words) => samples.extend(words.split_whitespace()),
            None => rules.extend(rule(line)),
        }
    }
    (rules, samples)
}

/// Five columns; the last one is the rest of the line. `None` never happens: a test counts the lines.
pub(super) fn rule(line: &'static str) -> Option<Rule> {
    let mut rest = line;
    let mut column = || {
        let (column, after) = rest.split_once(' ')?;
        rest = after.trim_start();
        Some(column)
    };
    let (name, keywords, reach, check) = (column()?, column()?, column()?, column()?);
    let reach = match reach.split_once(':') {
        None if reach == "token" => Reach::Token,
        None if reach == "from" => Reach::From,
        Some(("back", bytes)) => Reach::Back(bytes.parse().ok()?),
        _ => return None,
    };
    let keywords = keywords.split(',').collect();
    Some(Rule { name, keywords, reach, check: Check::parse(check)?, pattern: rest, regex: OnceLock::new() })
}
