//! Precision and recall on true and false examples. The results are published in `docs/guides/secrets.md`.

use std::collections::BTreeSet;

use super::random_text::RandomText;
use super::{false_examples, true_examples};
use crate::Scanner;
use crate::secrets::rules;

const PAGE: &str = include_str!("../../../../../docs/guides/secrets.md");

#[test]
fn i18_precision_and_recall_match_the_guide() {
    let scanner = Scanner::new();
    let mut rng = RandomText::new(18);
    let (positives, negatives) = (true_examples::all(&mut rng, 10), false_examples::all(&mut rng, 80));
    assert!(
        positives.len() >= 200 && negatives.len() >= 2_000,
        "{} and {}",
        positives.len(),
        negatives.len()
    );
    let missed: Vec<_> =
        positives.iter().filter(|example| scanner.scan(example.text.as_bytes()).is_none()).collect();
    let false_positives: Vec<_> = negatives
        .iter()
        .filter_map(|(kind, text)| scanner.scan(text.as_bytes()).map(|found| (*kind, found.rule, text)))
        .collect();
    let found = positives.len() - missed.len();
    let recall = found as f64 / positives.len() as f64;
    let precision = found as f64 / (found + false_positives.len()) as f64;
    let line = format!(
        "{} true examples, {found} found (recall {recall:.4}); {} false examples, {} found (precision {precision:.4})",
        positives.len(),
        negatives.len(),
        false_positives.len(),
    );
    let missed: Vec<_> = missed.iter().map(|example| (example.rule, &example.text)).collect();
    assert!(recall >= 0.98 && precision >= 0.98, "{line}\nmissed: {missed:#?}\nwrong: {false_positives:#?}");
    assert!(
        PAGE.contains(&line),
        "the guide must contain: {line}\nmissed: {missed:#?}\nwrong: {false_positives:#?}"
    );
}

#[test]
fn i18_the_most_specific_rule_wins() {
    let scanner = Scanner::new();
    let positives = true_examples::all(&mut RandomText::new(7), 4);
    let found = |text: &str| scanner.scan(text.as_bytes()).map(|found| found.rule);
    let other: Vec<_> = positives
        .iter()
        .filter_map(|example| {
            found(&example.text)
                .filter(|rule| *rule != example.rule)
                .map(|rule| (example.rule, rule, &example.text))
        })
        .collect();
    assert!(other.len() * 100 <= positives.len(), "{} of {}: {other:#?}", other.len(), positives.len());
}

#[test]
fn i18_redaction_removes_the_whole_secret() {
    let scanner = Scanner::new();
    for example in true_examples::all(&mut RandomText::new(4), 4) {
        let Some(redacted) = scanner.redact(example.text.as_bytes()) else { continue };
        let redacted = String::from_utf8(redacted).expect("redacted text is UTF-8");
        // Alphanumeric pieces look the same regardless of how the surrounding text is escaped.
        let pieces = example.core.split(|character: char| !character.is_ascii_alphanumeric());
        for piece in pieces.filter(|piece| piece.len() >= 8) {
            assert!(!redacted.contains(piece), "{}: {redacted}\nof {}", example.rule, example.text);
        }
        if serde_json::from_str::<serde_json::Value>(&example.text).is_ok() {
            assert!(serde_json::from_str::<serde_json::Value>(&redacted).is_ok(), "{redacted}");
        }
        assert_eq!(scanner.scan(redacted.as_bytes()), None, "{redacted}");
    }
}

#[test]
fn i18_every_rule_is_parsed_compiles_and_has_true_examples() {
    let (rules, samples) = rules::parse_rules();
    let lines =
        include_str!("../rules.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    assert_eq!(lines.count(), rules.len() + 1, "every line is a rule or the list of samples");
    assert!(!samples.is_empty());
    for rule in &rules {
        assert!(rule.regex().is_some(), "the pattern of {} does not compile", rule.name);
        assert!(
            rule.keywords.iter().all(|keyword| keyword.len() >= 3),
            "{}: the prefilter needs three bytes",
            rule.name
        );
    }
    let named: BTreeSet<_> = rules.iter().map(|rule| rule.name).collect();
    let covered: BTreeSet<_> =
        true_examples::all(&mut RandomText::new(1), 1).iter().map(|example| example.rule).collect();
    assert_eq!(
        named.symmetric_difference(&covered).collect::<Vec<_>>(),
        [&""; 0],
        "rules without examples, or examples without a rule"
    );
}
