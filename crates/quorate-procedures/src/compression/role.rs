//! What a passage is for: by the heading or field above it, by its label, and by the words in it.

/// What a passage is for. Objective and next action are kept first; reasoning is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Role {
    Objective,
    NextAction,
    /// A finding, decision, result or risk.
    Finding,
    Analysis,
    /// Introductions, digressions, appendices: where labels do not count, and thinking aloud is dropped.
    Background,
    Reasoning,
}

/// Words of headings, labels and field names, with their role. The first match counts.
const NAMES: &[(&[&str], Role)] = &[
    (
        &[
            "reasoning",
            "thoughts",
            "thinking",
            "scratchpad",
            "chain of thought",
            "monologue",
            "deliberation notes",
        ],
        Role::Reasoning,
    ),
    (
        &[
            "objective",
            "objectives",
            "goal",
            "goals",
            "task",
            "mission",
            "aim",
            "purpose",
            "question",
            "the short version",
            "tl;dr",
            "abstract",
        ],
        Role::Objective,
    ),
    (
        &[
            "next",
            "next action",
            "next actions",
            "next step",
            "next steps",
            "action items",
            "actions",
            "todo",
            "to do",
            "still to do",
            "follow-up",
            "proposed follow-up",
            "handoff",
            "not done",
            "in this order",
            "how it goes on",
        ],
        Role::NextAction,
    ),
    (
        &[
            "finding",
            "findings",
            "decision",
            "decisions",
            "decided",
            "outcome",
            "result",
            "results",
            "conclusion",
            "conclusions",
            "recommendation",
            "recommendations",
            "assessment",
            "measures",
            "root cause",
            "cause",
            "why it happened",
            "what this means",
            "risks",
            "risk",
            "blockers",
            "blocker",
            "blocked",
            "open",
            "open points",
            "open questions",
            "what we did not settle",
            "known issues",
            "impact",
            "summary",
            "plan",
            "schedule",
            "acceptance",
            "state",
            "status",
            "release",
            "security",
            "steps",
            "lessons",
            "requirements",
        ],
        Role::Finding,
    ),
    (
        &[
            "background",
            "introduction",
            "small talk",
            "admin",
            "warm-up",
            "noise",
            "digression",
            "appendix",
            "annex",
            "any other business",
            "about this",
            "greeting",
            "acknowledgements",
            "thanks",
            "formalities",
            "method",
            "procedure",
            "scope",
            "environment",
            "tools",
            "history",
            "in general",
            "terms",
            "closing",
            "outlook",
            "what went well",
            "things that work",
            "positive",
            "previous",
            "side note",
            "skipped",
            "people and visits",
        ],
        Role::Background,
    ),
];

/// Returns the role that a heading or field name states. Within a long heading, only a phrase or its first word counts.
pub(super) fn of_name(name: &str) -> Option<Role> {
    const SHORT_WORDS_MAX: usize = 4;
    let words = words_of(name);
    let words = words.trim_start_matches(|ch: char| ch.is_numeric() || ". )".contains(ch));
    let is_short = words.split_whitespace().count() <= SHORT_WORDS_MAX;
    let matches = |key: &str| {
        let is_match = |(start, _): (usize, &str)| {
            is_word_start(words, start)
                && is_word_end(words, start + key.len())
                && (is_short || start == 0 || key.contains(' '))
        };
        words.match_indices(key).any(is_match)
    };
    NAMES.iter().find(|(names, _)| names.iter().any(|name| matches(name))).map(|(_, role)| *role)
}

/// Lower case, with the words of `camelCase` and `snake_case` separated.
fn words_of(name: &str) -> String {
    let mut words = String::with_capacity(name.len());
    let mut previous = ' ';
    for ch in name.chars() {
        if ch.is_uppercase() && previous.is_lowercase() {
            words.push(' ');
        }
        words.extend(if ch == '_' { ' ' } else { ch }.to_lowercase());
        previous = ch;
    }
    words
}

fn is_word_start(text: &str, start: usize) -> bool {
    !text[..start].ends_with(char::is_alphanumeric)
}

fn is_word_end(text: &str, end: usize) -> bool {
    !text[end..].starts_with(char::is_alphanumeric)
}

/// Returns the role of a sentence that starts with a label, such as `Next action: …`.
pub(super) fn of_label(sentence: &str) -> Option<Role> {
    const LABEL_WORDS_MAX: usize = 4;
    let (label, rest) = sentence.split_once(':')?;
    let is_label = label.split_whitespace().count() <= LABEL_WORDS_MAX && rest.starts_with(' ');
    if is_label { of_name(label).filter(|role| *role != Role::Background) } else { None }
}

/// Words of a sentence that states a decision, a duty or a measured result.
const STRONG: [&str; 46] = [
    "decided",
    "decision",
    "agreed",
    "must",
    "shall",
    "recommend",
    "cause",
    "reason",
    "because",
    "due",
    "owner",
    "deadline",
    "risk",
    "blocked",
    "blocker",
    "never",
    "failed",
    "increased",
    "fell",
    "rose",
    "found",
    "confirmed",
    "measured",
    "cost",
    "costs",
    "limit",
    "only",
    "until",
    "before",
    "after",
    "planned",
    "instead",
    "therefore",
    "needs",
    "requires",
    "required",
    "approved",
    "affected",
    "lost",
    "will",
    "not",
    "no",
    "at most",
    "at least",
    "compared",
    "explains",
];

/// Words of a sentence that thinks aloud. A passage with one of them is reasoning, unless it concludes.
const THINKING: [&str; 19] = [
    "let me",
    "hmm",
    "hm,",
    "wait.",
    "wait,",
    "i wonder",
    "i was worried",
    "my first idea",
    "first suspicion",
    "i thought about",
    "overthinking",
    "i considered",
    "interesting,",
    "i think this",
    "i first assumed",
    "another thought",
    "looking at",
    "first idea",
    "tempting to",
];

/// Words of a sentence that concludes.
const CONCLUDING: [&str; 6] = ["conclusion", "so the ", "decision", "therefore", "this means", "confirmed"];

/// Words of a sentence that a reader can do without: politeness, meta text, digressions.
const WEAK: [&str; 40] = [
    "thank",
    "sorry",
    "hello",
    "good morning",
    "apologise",
    "by the way",
    "digress",
    "digression",
    "side note",
    "never mind",
    "i think",
    "i do not think",
    "perhaps",
    "maybe",
    "probably",
    "curious",
    "as usual",
    "opinions differ",
    "somehow",
    "for example",
    "for instance",
    "discussed at some length",
    "discussion about",
    "in this report",
    "this document",
    "this section",
    "this summary",
    "we apologise",
    "nobody",
    "tempting",
    "admit",
    "joke",
    "coffee",
    "fun",
    "holiday",
    "would like to",
    "looking forward",
    "of course",
    "have a nice",
    "small talk",
];

/// Returns how much a sentence counts by the words in it, 1 for an ordinary one. The sentence is in lower case.
pub(super) fn emphasis(lower: &str) -> f64 {
    const STRONG_GAIN: f64 = 0.12;
    const STRONG_MAX: usize = 4;
    const WEAK_FACTOR: f64 = 0.6;
    const QUESTION_FACTOR: f64 = 0.35;
    let occurs = |phrase: &&&str| {
        lower
            .match_indices(**phrase)
            .any(|(start, found)| is_word_start(lower, start) && is_word_end(lower, start + found.len()))
    };
    let strong = STRONG.iter().filter(occurs).count().min(STRONG_MAX);
    let weak = WEAK.iter().filter(|phrase| lower.contains(**phrase)).count().min(2);
    let question = if lower.trim_end().ends_with('?') { QUESTION_FACTOR } else { 1.0 };
    (1.0 + STRONG_GAIN * strong as f64) * WEAK_FACTOR.powi(weak as i32) * question
}

/// Whether a sentence in lower case thinks aloud.
pub(super) fn is_reasoning(lower: &str) -> bool {
    THINKING.iter().any(|phrase| lower.contains(phrase))
        && !CONCLUDING.iter().any(|phrase| lower.contains(phrase))
}
