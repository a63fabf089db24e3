//! The trie returns the same subscribers as matching every pattern individually.

use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern::new(text).expect("a valid pattern")
}

fn topic(text: &str) -> Topic {
    Topic::new(text).expect("a valid topic")
}

/// Returns every combination of up to three of these words.
fn texts(words: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    for _ in 0..2 {
        let longer: Vec<_> =
            all.iter().flat_map(|text| words.iter().map(move |word| format!("{text}.{word}"))).collect();
        all.extend(longer);
    }
    all.sort();
    all.dedup();
    all
}

// Fails under: a node that is not visited for `*`, `>` taken at the end of a topic, or a removed branch that stays.
#[test]
fn d3_the_tree_agrees_with_pattern_matching() {
    let patterns: Vec<_> =
        texts(&["a", "b", "*", ">"]).iter().filter_map(|text| Pattern::new(text).ok()).collect();
    let topics: Vec<_> = texts(&["a", "b", "c"]).iter().map(|text| topic(text)).collect();
    let mut tree = SubscriptionTree::default();
    for (index, pattern) in patterns.iter().enumerate() {
        tree.add(AgentNo(index as u64 % 7 + 1), pattern);
    }
    let expected = |skip: usize, topic: &Topic| {
        let matching = patterns.iter().enumerate().skip(skip).filter(|(_, pattern)| pattern.matches(topic));
        matching.map(|(index, _)| AgentNo(index as u64 % 7 + 1)).collect::<BTreeSet<_>>()
    };
    for removed in 0..=patterns.len() {
        for topic in &topics {
            let found = tree.subscribers(topic);
            assert_eq!(found, expected(removed, topic).into_iter().collect::<Vec<_>>(), "{topic}");
        }
        assert_eq!(tree.len(), patterns.len() - removed);
        if let Some(gone) = patterns.get(removed) {
            tree.remove(AgentNo(removed as u64 % 7 + 1), gone);
        }
    }
    assert!(tree.is_empty() && tree.root.is_empty(), "nothing is left behind");
}

// Fails under: a change that modifies the snapshot of a reader.
#[test]
fn d3_a_snapshot_is_not_affected_by_changes() {
    let mut tree = SubscriptionTree::default();
    tree.add(AgentNo(1), &pattern("a.b"));
    let before = tree.clone();
    tree.add(AgentNo(2), &pattern("a.*"));
    tree.remove(AgentNo(1), &pattern("a.b"));
    assert_eq!(before.subscribers(&topic("a.b")), [AgentNo(1)]);
    assert_eq!(tree.subscribers(&topic("a.b")), [AgentNo(2)]);
}
