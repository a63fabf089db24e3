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
    let mut dice = RandomText::new(18);
    let (truths, falsehoods) = (true_examples::all(&mut dice, 10), false_examples::all(&mut dice, 80));
    assert!(truths.len() >= 200 && falsehoods.len() >= 2_000, "{} and {}", truths.len(), falsehoods.len());
    let missed: Vec<_> =
        truths.iter().filter(|truth| scanner.scan(truth.text.as_bytes()).is_none()).collect();
    let wrong: Vec<_> = falsehoods
        .iter()
        .filter_map(|(kind, text)| scanner.scan(text.as_bytes()).map(|found| (*kind, found.rule, text)))
        .collect();
    let found = truths.len() - missed.len();
    let recall = found as f64 / truths.len() as f64;
    let precision = found as f64 / (found + wrong.len()) as f64;
    let line = format!(
        "{} true examples, {found} found (recall {recall:.4}); {} false examples, {} found (precision {precision:.4})",
        truths.len(),
        falsehoods.len(),
        wrong.len(),
    );
    let missed: Vec<_> = missed.iter().map(|truth| (truth.rule, &truth.text)).collect();
    assert!(recall >= 0.98 && precision >= 0.98, "{line}\nmissed: {missed:#?}\nwrong: {wrong:#?}");
    assert!(PAGE.contains(&line), "the guide must contain: {line}\nmissed: {missed:#?}\nwrong: {wrong:#?}");
}

#[test]
fn i18_the_most_specific_rule_wins() {
    let scanner = Scanner::new();
    let truths = true_examples::all(&mut RandomText::new(7), 4);
    let found = |text: &str| scanner.scan(text.as_bytes()).map(|found| found.rule);
    let other: Vec<_> = truths
        .iter()
        .filter_map(|truth| {
            found(&truth.text).filter(|rule| *rule != truth.rule).map(|rule| (truth.rule, rule, &truth.text))
        })
        .collect();
    assert!(other.len() * 100 <= truths.len(), "{} of {}: {other:#?}", other.len(), truths.len());
}

#[test]
fn i18_redaction_removes_the_whole_secret() {
    let scanner = Scanner::new();
    for truth in true_examples::all(&mut RandomText::new(4), 4) {
        let Some(redacted) = scanner.redact(truth.text.as_bytes()) else { continue };
        let redacted = String::from_utf8(redacted).expect("redacted text is UTF-8");
        // Alphanumeric pieces look the same regardless of how the surrounding text is escaped.
        let pieces = truth.core.split(|character: char| !character.is_ascii_alphanumeric());
        for piece in pieces.filter(|piece| piece.len() >= 8) {
            assert!(!redacted.contains(piece), "{}: {redacted}\nof {}", truth.rule, truth.text);
        }
        if serde_json::from_str::<serde_json::Value>(&truth.text).is_ok() {
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
        true_examples::all(&mut RandomText::new(1), 1).iter().map(|truth| truth.rule).collect();
    assert_eq!(
        named.symmetric_difference(&covered).collect::<Vec<_>>(),
        [&""; 0],
        "rules without examples, or examples without a rule"
    );
}
