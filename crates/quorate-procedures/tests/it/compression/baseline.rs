//! Reference implementations that the compressor is compared with: the beginning of the text, TextRank and LexRank.
//!
//! They return plain text without references, so that the whole budget is spent on sentences. Code blocks are left out, and each
//! row of a table is a sentence.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quorate_procedures::tokens::count_o200k;

const DAMPING: f64 = 0.85;
const ITERATIONS: usize = 100;
/// Similarity below which LexRank sees no connection.
const LEXRANK_THRESHOLD: f64 = 0.1;

/// Returns the longest beginning of the text within the budget, at a word.
pub(super) fn first_tokens(text: &str, budget: usize) -> String {
    let ends: Vec<usize> =
        text.char_indices().filter(|(_, ch)| ch.is_whitespace()).map(|(end, _)| end).collect();
    let fitting = ends.partition_point(|end| count_o200k(&text[..*end]) <= budget);
    text[..ends[fitting - 1]].to_owned()
}

/// Mihalcea and Tarau, 2004: similarity is the number of shared words, divided by the logarithms of the lengths.
pub(super) fn text_rank(text: &str, budget: usize) -> String {
    let sentences = sentences(text);
    let words: Vec<BTreeSet<String>> =
        sentences.iter().map(|sentence| words(sentence).into_iter().collect()).collect();
    let similarity = |a: usize, b: usize| {
        let shared = words[a].intersection(&words[b]).count() as f64;
        let lengths = (words[a].len().max(1) as f64).ln() + (words[b].len().max(1) as f64).ln();
        if lengths > 0.0 { shared / lengths } else { 0.0 }
    };
    best_within(&sentences, &page_rank(sentences.len(), similarity), budget)
}

/// Erkan and Radev, 2004: similarity is the cosine of the TF-IDF vectors, where it is above a threshold.
pub(super) fn lex_rank(text: &str, budget: usize) -> String {
    let sentences = sentences(text);
    let counts: Vec<BTreeMap<String, f64>> = sentences
        .iter()
        .map(|sentence| {
            let mut counts = BTreeMap::new();
            words(sentence).into_iter().for_each(|word| *counts.entry(word).or_insert(0.0) += 1.0);
            counts
        })
        .collect();
    let mut occurrences: HashMap<&str, f64> = HashMap::new();
    counts.iter().flat_map(BTreeMap::keys).for_each(|word| *occurrences.entry(word).or_insert(0.0) += 1.0);
    let idf = |word: &str| (sentences.len() as f64 / occurrences[word]).ln();
    let norms: Vec<f64> = counts
        .iter()
        .map(|counts| counts.iter().map(|(word, count)| (count * idf(word)).powi(2)).sum::<f64>().sqrt())
        .collect();
    let similarity = |a: usize, b: usize| {
        let shared = counts[a].iter().filter_map(|(word, count)| Some((word, count * counts[b].get(word)?)));
        let product: f64 = shared.map(|(word, counts)| counts * idf(word).powi(2)).sum();
        let norm = norms[a] * norms[b];
        let cosine = if norm > 0.0 { product / norm } else { 0.0 };
        if cosine >= LEXRANK_THRESHOLD { cosine } else { 0.0 }
    };
    best_within(&sentences, &page_rank(sentences.len(), similarity), budget)
}

/// Scores of the nodes of a graph with weighted, undirected edges.
fn page_rank(count: usize, similarity: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let weight = |a: usize, b: usize| if a == b { 0.0 } else { similarity(a, b) };
    let weights: Vec<Vec<f64>> = (0..count).map(|a| (0..count).map(|b| weight(a, b)).collect()).collect();
    let sums: Vec<f64> = weights.iter().map(|row| row.iter().sum()).collect();
    let mut scores = vec![1.0 / count as f64; count];
    for _ in 0..ITERATIONS {
        let incoming = |node: usize| -> f64 {
            (0..count)
                .filter(|other| sums[*other] > 0.0)
                .map(|other| scores[other] * weights[other][node] / sums[other])
                .sum()
        };
        scores = (0..count).map(|node| (1.0 - DAMPING) / count as f64 + DAMPING * incoming(node)).collect();
    }
    scores
}

/// Takes sentences by their score as long as they fit, and returns them in the order of the text.
fn best_within(sentences: &[String], scores: &[f64], budget: usize) -> String {
    let mut order: Vec<usize> = (0..sentences.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    let mut selected = BTreeSet::new();
    let joined = |selected: &BTreeSet<usize>| {
        selected.iter().map(|index| sentences[*index].as_str()).collect::<Vec<_>>().join(" ")
    };
    for index in order {
        selected.insert(index);
        if count_o200k(&joined(&selected)) > budget {
            selected.remove(&index);
        }
    }
    joined(&selected)
}

fn words(sentence: &str) -> Vec<String> {
    const STOP_WORDS: &str = " a an and are as at be but by for from had has have he i in is it its not of on or that the their they \
        this to was we were which will with you ";
    let words = sentence.split(|ch: char| !ch.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).filter(|word| !STOP_WORDS.contains(&format!(" {word} "))).collect()
}

/// Splits a Markdown text into sentences.
fn sentences(text: &str) -> Vec<String> {
    let prose: String =
        text.split("```").enumerate().filter(|(index, _)| index % 2 == 0).map(|(_, prose)| prose).collect();
    let mut paragraphs = vec![String::new()];
    for line in prose.lines().map(str::trim) {
        let starts_block = line.is_empty()
            || line.starts_with(['-', '|', '#'])
            || line.starts_with(|ch: char| ch.is_ascii_digit());
        if starts_block {
            paragraphs.push(String::new());
        }
        if let Some(paragraph) = paragraphs.last_mut().filter(|_| !line.starts_with('#')) {
            paragraph.push_str(line.trim_start_matches("- "));
            paragraph.push(' ');
        }
    }
    let mut sentences = Vec::new();
    for paragraph in paragraphs {
        let mut start = 0;
        for (stop, _) in paragraph.match_indices(['.', '!', '?']) {
            let rest = &paragraph[stop + 1..];
            let begins = rest.trim_start().chars().next().is_none_or(|ch| !ch.is_lowercase());
            if rest.starts_with(' ') && begins {
                sentences.push(paragraph[start..=stop].trim().to_owned());
                start = stop + 1;
            }
        }
        sentences.push(paragraph[start..].trim().to_owned());
    }
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

// Fails under: a score that ignores the edges; a text beyond the budget; sentences out of order.
#[test]
fn b5_central_sentences_rank_first() {
    let text = "Cats are small animals. The stock market fell.\n\n- Small cats hunt animals at night. Small animals fear cats.";
    assert_eq!(sentences(text).len(), 4);
    for rank in [text_rank, lex_rank] {
        let summary = rank(text, 8);
        assert!(
            summary.to_lowercase().contains("cats")
                && !summary.contains("stock")
                && count_o200k(&summary) <= 8,
            "{summary}"
        );
    }
    assert_eq!(first_tokens("one two three four five", 3), "one two three");
}
