//! A small pattern grammar over words and concepts; the rules are data.
//!
//! | pattern | matches |
//! |---|---|
//! | `renew` | this word |
//! | `renew*` | a word with this prefix |
//! | `(may \| is free to)` | one of the alternatives |
//! | `<may>` | the concept of that name (`concepts.rs`) |
//! | `@n`, `@money`, `@percent`, `@date` | a number, an amount, a rate, a date |
//! | `~`, `~4` | a gap of any length, or of at most four words |
//! | `~4!<ends>` | a gap of at most four words, none of which starts a match of `<ends>` |
//! | `x?` | `x` or nothing |
//! | `a & b & !c` | `a` and `b` in the same sentence, in any order, and not `c` |
//! | `P: …` | the same in one paragraph instead of one sentence |
//! | `T: …` | the same in the title of a paragraph that contains no negation |
//!
//! Each word of a contract is compared once with each word of the grammar; a pattern is tried only on sentences that
//! contain all required words.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::concepts::CONCEPTS;

/// Name of a rule, its patterns, and its exclusions.
pub(crate) type RuleSource = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Set of grammar words that a word matches or a sentence contains.
#[derive(Clone, Default)]
pub(crate) struct WordSet(Vec<u64>);

impl WordSet {
    fn set(&mut self, bit: u16) {
        let (index, bit) = (usize::from(bit / 64), bit % 64);
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] |= 1 << bit;
    }

    fn has(&self, bit: u16) -> bool {
        self.0.get(usize::from(bit / 64)).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own |= other;
        }
    }
}

enum Node {
    Word(u16),
    Seq(Vec<Node>),
    Any(Vec<Node>),
    Named(u16),
    Maybe(Box<Node>),
    Gap { max: usize, without: Option<Box<Node>> },
}

/// Scope of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Window {
    Sentence,
    Paragraph,
    Title,
}

struct Pattern {
    window: Window,
    all: Vec<Node>,
    none: Vec<Node>,
}

struct Compiled {
    any: Vec<Pattern>,
    not: Vec<Pattern>,
}

/// A sentence, compared with the grammar.
#[derive(Clone, Default)]
pub(crate) struct Sentence {
    words: Vec<usize>,
    has: WordSet,
    /// Concepts for which the sentence contains the words.
    concepts: WordSet,
}

/// Distinct words of a text, each compared once with the grammar.
#[derive(Default)]
pub(crate) struct Lexicon {
    indices: HashMap<String, usize>,
    bits: Vec<WordSet>,
}

/// All concepts and rules.
pub(crate) struct Grammar {
    exact: HashMap<&'static str, u16>,
    stems: HashMap<&'static str, u16>,
    names: HashMap<&'static str, u16>,
    concepts: Vec<Node>,
    rules: HashMap<&'static str, Compiled>,
}

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(Grammar::build);

impl Sentence {
    /// Concatenates two sentences.
    pub(crate) fn concat(&self, next: &Self) -> Self {
        let mut both = self.clone();
        both.words.extend(&next.words);
        both.has.add(&next.has);
        both.concepts.add(&next.concepts);
        both
    }
}

impl Lexicon {
    /// Builds a sentence from words.
    pub(crate) fn sentence(&mut self, words: &[String]) -> Sentence {
        let mut sentence = Sentence::default();
        for word in words {
            let index = match self.indices.get(word) {
                Some(index) => *index,
                None => {
                    self.bits.push(GRAMMAR.bits_of(word));
                    self.indices.insert(word.clone(), self.bits.len() - 1);
                    self.bits.len() - 1
                }
            };
            sentence.has.add(&self.bits[index]);
            sentence.words.push(index);
        }
        // A concept may use those before it.
        for (index, concept) in (0_u16..).zip(&GRAMMAR.concepts) {
            if GRAMMAR.may_match(concept, &sentence) {
                sentence.concepts.set(index);
            }
        }
        sentence
    }

    /// Index of the sentence that a rule matches, if any; `whole` is the paragraph as one sentence.
    pub(crate) fn match_rule(
        &self,
        name: &str,
        (title, whole): (&Sentence, &Sentence),
        sentences: &[Sentence],
        pairs: &[Sentence],
    ) -> Option<usize> {
        let rule = GRAMMAR.rules.get(name)?;
        let any_matches = |patterns: &[Pattern], window: Window, sentence: &Sentence| {
            patterns.iter().any(|pattern| pattern.window == window && self.has(pattern, sentence))
        };
        let excluded = |sentence: &Sentence| any_matches(&rule.not, Window::Sentence, sentence);
        let matches =
            |sentence: &Sentence| any_matches(&rule.any, Window::Sentence, sentence) && !excluded(sentence);
        let index =
            sentences.iter().position(matches).or_else(|| pairs.iter().position(matches)).or_else(|| {
                let title_matches = any_matches(&rule.any, Window::Title, title)
                    && !any_matches(&GRAMMAR.rules["denied"].any, Window::Sentence, whole);
                let paragraph_matches =
                    (title_matches || any_matches(&rule.any, Window::Paragraph, whole)) && !excluded(whole);
                // The sentence after a title belongs to it.
                paragraph_matches.then(|| usize::from(title_matches && sentences.len() > 1))
            })?;
        (!any_matches(&rule.not, Window::Paragraph, whole)).then_some(index)
    }

    fn has(&self, pattern: &Pattern, sentence: &Sentence) -> bool {
        pattern.all.iter().all(|node| GRAMMAR.may_match(node, sentence))
            && pattern.all.iter().all(|node| self.is_in(node, sentence))
            && !pattern.none.iter().any(|node| self.is_in(node, sentence))
    }

    fn is_in(&self, node: &Node, sentence: &Sentence) -> bool {
        GRAMMAR.may_match(node, sentence)
            && (0..sentence.words.len())
                .any(|start| !self.match_ends(node, &sentence.words, start).is_empty())
    }

    /// End positions of all matches of a node that start at a position.
    fn match_ends(&self, node: &Node, words: &[usize], start: usize) -> Vec<usize> {
        match node {
            Node::Word(bit) => {
                let matches = words.get(start).is_some_and(|word| self.bits[*word].has(*bit));
                if matches { vec![start + 1] } else { Vec::new() }
            }
            Node::Named(index) => self.match_ends(&GRAMMAR.concepts[usize::from(*index)], words, start),
            Node::Any(nodes) => {
                sorted_unique(nodes.iter().flat_map(|node| self.match_ends(node, words, start)).collect())
            }
            Node::Maybe(node) => {
                let mut ends = self.match_ends(node, words, start);
                ends.push(start);
                sorted_unique(ends)
            }
            Node::Gap { max, without } => {
                let is_excluded = |start: usize| {
                    without.as_ref().is_some_and(|node| !self.match_ends(node, words, start).is_empty())
                };
                let last = (start..words.len()).take(*max).take_while(|start| !is_excluded(*start)).last();
                (start..=last.map_or(start, |last| last + 1)).collect()
            }
            Node::Seq(nodes) => {
                let mut starts = vec![start];
                for node in nodes {
                    let ends = starts.iter().flat_map(|start| self.match_ends(node, words, *start)).collect();
                    starts = sorted_unique(ends);
                    if starts.is_empty() {
                        break;
                    }
                }
                starts
            }
        }
    }
}

fn sorted_unique(mut ends: Vec<usize>) -> Vec<usize> {
    ends.sort_unstable();
    ends.dedup();
    ends
}

impl Grammar {
    fn build() -> Self {
        let mut grammar = Self {
            exact: HashMap::new(),
            stems: HashMap::new(),
            names: HashMap::new(),
            concepts: Vec::new(),
            rules: HashMap::new(),
        };
        for (name, source) in CONCEPTS {
            let node = grammar.alternatives(source);
            let index = u16::try_from(grammar.concepts.len()).unwrap_or(u16::MAX);
            grammar.names.insert(name, index);
            grammar.concepts.push(node);
        }
        let tables = [super::clauses::CLAUSE_RULES, super::issues::PROBLEM_RULES, super::cues::CUE_RULES];
        for (name, any, not) in tables.into_iter().flatten() {
            let any = any.iter().map(|source| grammar.pattern(source)).collect();
            let not = not.iter().map(|source| grammar.pattern(source)).collect();
            grammar.rules.insert(name, Compiled { any, not });
        }
        grammar
    }

    fn bits_of(&self, word: &str) -> WordSet {
        let mut bits = WordSet::default();
        if let Some(bit) = self.exact.get(word) {
            bits.set(*bit);
        }
        for end in 2..=word.len() {
            if let Some(bit) = word.get(..end).and_then(|stem| self.stems.get(stem)) {
                bits.set(*bit);
            }
        }
        bits
    }

    /// Whether a sentence contains the words that a node requires, in any order.
    fn may_match(&self, node: &Node, sentence: &Sentence) -> bool {
        match node {
            Node::Word(bit) => sentence.has.has(*bit),
            Node::Seq(nodes) => nodes.iter().all(|node| self.may_match(node, sentence)),
            Node::Any(nodes) => nodes.iter().any(|node| self.may_match(node, sentence)),
            Node::Named(index) => sentence.concepts.has(*index),
            Node::Maybe(_) | Node::Gap { .. } => true,
        }
    }

    fn pattern(&mut self, source: &'static str) -> Pattern {
        let (window, source) = match (source.strip_prefix("P: "), source.strip_prefix("T: ")) {
            (Some(rest), _) => (Window::Paragraph, rest),
            (_, Some(rest)) => (Window::Title, rest),
            _ => (Window::Sentence, source),
        };
        let (mut all, mut none) = (Vec::new(), Vec::new());
        for part in source.split(" & ") {
            match part.trim().strip_prefix('!') {
                Some(part) => none.push(self.alternatives(part)),
                None => all.push(self.alternatives(part)),
            }
        }
        Pattern { window, all, none }
    }

    /// Parses alternatives: `a b | c | <d>`.
    fn alternatives(&mut self, source: &'static str) -> Node {
        let (mut nodes, mut depth, mut start) = (Vec::new(), 0, 0);
        for (offset, c) in source.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                '|' if depth == 0 => {
                    nodes.push(self.sequence(&source[start..offset]));
                    start = offset + 1;
                }
                _ => {}
            }
        }
        nodes.push(self.sequence(&source[start..]));
        Node::Any(nodes)
    }

    fn sequence(&mut self, source: &'static str) -> Node {
        let mut nodes = Vec::new();
        let mut rest = source.trim();
        while !rest.is_empty() {
            // A group may be separate or follow a gap: `(a | b)`, `~4!(a | b)`.
            let space = rest.find(' ').unwrap_or(rest.len());
            let end = match rest.find('(').filter(|open| *open < space) {
                Some(open) => open + closing(&rest[open..]),
                None => space,
            };
            let (item, after) = rest.split_at(end);
            rest = after.trim_start();
            nodes.push(self.item(item));
        }
        if nodes.len() == 1 { nodes.remove(0) } else { Node::Seq(nodes) }
    }

    fn item(&mut self, item: &'static str) -> Node {
        if let Some(item) = item.strip_suffix('?') {
            return Node::Maybe(Box::new(self.item(item)));
        }
        if let Some(group) = item.strip_prefix('(') {
            return self.alternatives(group.strip_suffix(')').unwrap_or(group));
        }
        if let Some(gap) = item.strip_prefix('~') {
            let (max, without) = gap.split_once('!').unwrap_or((gap, ""));
            let without = (!without.is_empty()).then(|| Box::new(self.item(without)));
            return Node::Gap { max: max.parse().unwrap_or(usize::MAX), without };
        }
        if let Some(name) = item.strip_prefix('<').and_then(|name| name.strip_suffix('>')) {
            // The tables are constants, and a test builds the grammar, so this cannot fail at run time.
            return Node::Named(*self.names.get(name).unwrap_or_else(|| panic!("unknown concept {name}")));
        }
        let next = u16::try_from(self.exact.len() + self.stems.len()).unwrap_or(u16::MAX);
        Node::Word(match item.strip_suffix('*') {
            Some(stem) => *self.stems.entry(stem).or_insert(next),
            None => *self.exact.entry(item).or_insert(next),
        })
    }
}

/// Offset after the closing parenthesis of the group at the start, including a `?` after it.
fn closing(source: &str) -> usize {
    let mut depth = 0;
    for (offset, c) in source.char_indices() {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return source[offset..].find(' ').map_or(source.len(), |space| offset + space);
        }
    }
    source.len()
}
