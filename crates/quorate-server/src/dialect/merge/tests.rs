//! Properties of a merge: changes of one side are preserved, changes of both are combined, and no change is lost
//! silently.

use proptest::prelude::*;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{Merged, canonical, first_change, merge};

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("JSON")
}

fn merged(base: &Value, current: &Value, submitted: &Value) -> (Value, Vec<String>) {
    let Merged { document, conflicts } = merge(&raw(base), &raw(current), &raw(submitted));
    let document = serde_json::from_str(document.get()).expect("JSON");
    (document, conflicts.into_iter().map(|conflict| conflict.pointer).collect())
}

#[track_caller]
fn check(base: Value, current: Value, submitted: Value, expected: Value) {
    assert_eq!(merged(&base, &current, &submitted), (expected, vec![]));
}

#[track_caller]
fn check_conflict(base: Value, current: Value, submitted: Value, pointer: &str) {
    let (document, pointers) = merged(&base, &current, &submitted);
    assert_eq!(pointers, [pointer]);
    // The current value stays.
    let value_at = |document: &Value| document.pointer(pointer).cloned();
    assert_eq!(value_at(&document), value_at(&current));
}

#[test]
fn m2_different_members_merge() {
    check(
        json!({"a": {"x": 1, "y": 1}, "b": 1}),
        json!({"a": {"x": 2, "y": 1}, "b": 1, "c": 3}),
        json!({"a": {"x": 1, "y": 5}, "d": 4}),
        json!({"a": {"x": 2, "y": 5}, "c": 3, "d": 4}),
    );
    // Both added the same object; both set the same value.
    check(json!({}), json!({"a": {"x": 1}}), json!({"a": {"y": 2}}), json!({"a": {"x": 1, "y": 2}}));
    check(json!({"a": 1}), json!({"a": 2}), json!({"a": 2}), json!({"a": 2}));
    check(json!({"a": 1}), json!({}), json!({}), json!({}));
}

#[test]
fn m2_the_same_member_changed_differently_is_a_conflict() {
    check_conflict(json!({"a": 1}), json!({"a": 2}), json!({"a": 3}), "/a");
    check_conflict(json!({"a": 1}), json!({"a": 2}), json!({}), "/a");
    check_conflict(json!({"a": 1}), json!({}), json!({"a": 2}), "/a");
    check_conflict(json!({}), json!({"a": {"b": 1}}), json!({"a": [1]}), "/a");
    check_conflict(json!({"a/b": {"~": 1}}), json!({"a/b": {"~": 2}}), json!({"a/b": {"~": 3}}), "/a~1b/~0");
}

#[test]
fn m2_lists_merge_by_id() {
    let base = json!([{"id": "b1", "s": "open"}, {"id": "b2", "s": "open"}, {"id": "b3"}]);
    let current =
        json!([{"id": "b1", "s": "open", "by": "a"}, {"id": "b2", "s": "open"}, {"id": "b3"}, {"id": "b4"}]);
    let submitted = json!([{"id": "b1", "s": "resolved"}, {"id": "b3"}, {"id": "b5"}]);
    check(
        base,
        current,
        submitted,
        json!([{"id": "b1", "s": "resolved", "by": "a"}, {"id": "b3"}, {"id": "b4"}, {"id": "b5"}]),
    );
    check_conflict(json!([]), json!([{"id": 7, "a": 1}]), json!([{"id": 7, "b": 1}]), "/0");
    check_conflict(
        json!([{"id": 1}, {"id": 2, "s": 0}]),
        json!([{"id": 1}, {"id": 2, "s": 1}]),
        json!([{"id": 1}]),
        "/1",
    );
    check_conflict(
        json!([{"id": 1}, {"id": 2, "s": 0}]),
        json!([{"id": 1}]),
        json!([{"id": 2, "s": 1}, {"id": 1}]),
        "/0",
    );
}

#[test]
fn m2_entries_without_id_are_appended() {
    check(json!(["a"]), json!(["a", "b"]), json!(["a", "c"]), json!(["a", "b", "c"]));
    check(json!(["a", "b"]), json!(["a", "b", "c"]), json!(["b"]), json!(["b", "c"]));
    // An entry added by both is one entry: a repeated request adds nothing.
    check(json!([]), json!(["x", "z"]), json!(["x"]), json!(["x", "z"]));
    check(json!(["a", "a"]), json!(["a", "a", "b"]), json!(["a"]), json!(["a", "b"]));
    // Ids that are not unique identify nothing.
    let twice = json!([{"id": 1, "a": 1}, {"id": 1, "a": 2}]);
    check(
        twice.clone(),
        json!([{"id": 1, "a": 1}, {"id": 1, "a": 2}, 3]),
        json!([{"id": 1, "a": 1}]),
        json!([{"id": 1, "a": 1}, 3]),
    );
}

#[test]
fn m2_unchanged_values_keep_their_bytes() {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
    let base = raw(r#"{"z":{"score":1.50},"a":1}"#);
    let current = raw(r#"{"z":{"score":1.50},"a":2}"#);
    let submitted = raw(r#"{"a":1,"z":{"score":1.50},"b":1e999}"#);
    assert_eq!(merge(&base, &current, &submitted).document.get(), r#"{"z":{"score":1.50},"a":2,"b":1e999}"#);
}

#[test]
fn m2_additions_are_distinguished_from_changes() {
    let first = |current: Value, submitted: Value| first_change(&raw(&current), &raw(&submitted));
    assert_eq!(
        first(json!({"a": {"x": 1}, "l": ["n"]}), json!({"l": ["m", "n"], "a": {"x": 1, "y": 2}})),
        None
    );
    assert_eq!(first(json!([{"id": 1}]), json!([{"id": 0}, {"id": 1, "s": 2}])), None);
    assert_eq!(first(json!({"a": {"x": 1}}), json!({"a": {"x": 2}})), Some("/a/x".into()));
    assert_eq!(first(json!({"a": {"x": 1}}), json!({"a": {}})), Some("/a/x".into()));
    assert_eq!(first(json!({"l": ["n", "n"]}), json!({"l": ["n"]})), Some("/l/1".into()));
    assert_eq!(
        first(json!({"l": [{"id": 1, "s": 1}]}), json!({"l": [{"id": 1, "s": 2}]})),
        Some("/l/0/s".into())
    );
    assert_eq!(first(json!({"l": 1}), json!({"l": [1]})), Some("/l".into()));
}

/// Documents with few names and values, so that edits collide.
fn document() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(json!(null)), (0..3).prop_map(|n| json!(n)), "[ab]".prop_map(|text| json!(text))];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let with_id = (0..4, inner.clone()).prop_map(|(id, value)| json!({"id": id, "v": value}));
        prop_oneof![
            proptest::collection::btree_map("[a-c]", inner.clone(), 0..4).prop_map(|map| json!(map)),
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            proptest::collection::vec(with_id, 0..4).prop_map(Value::from),
        ]
    })
}

/// An edit of a document: some members and entries are replaced, dropped or added.
fn edited() -> impl Strategy<Value = (Value, Value, Value)> {
    let object = || proptest::collection::btree_map("[a-d]", document(), 0..4).prop_map(|map| json!(map));
    (object(), object(), object(), any::<u16>()).prop_map(|(base, left, right, mask)| {
        let mix = |with: &Value, shift: u32| {
            let mut mixed = base.as_object().expect("an object").clone();
            for (index, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
                if mask >> (index as u32 + shift) & 1 == 1 {
                    mixed.remove(name);
                    mixed.extend(with.get(name).map(|value| (name.to_owned(), value.clone())));
                }
            }
            Value::Object(mixed)
        };
        let (left, right) = (mix(&left, 0), mix(&right, 4));
        (base, left, right)
    })
}

/// Sorts all lists: the order of entries is not merged.
fn unordered(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), unordered(value))).collect(),
        Value::Array(list) => {
            let mut list: Vec<_> = list.iter().map(unordered).collect();
            list.sort_by_key(ToString::to_string);
            Value::Array(list)
        }
        other => other.clone(),
    }
}

/// Whether a change from `base` to `side` is in `result`, or below the pointer of a conflict.
fn is_preserved(pointer: &str, [base, side, result]: [Option<&Value>; 3], conflicts: &[String]) -> bool {
    if base == side || side == result || conflicts.iter().any(|conflict| conflict == pointer) {
        return true;
    }
    match (side, result) {
        (Some(Value::Object(side)), Some(Value::Object(result))) => {
            let empty = serde_json::Map::new();
            let base = base.and_then(Value::as_object).unwrap_or(&empty);
            let names = side.keys().chain(base.keys());
            names.into_iter().all(|name| {
                let values = [base.get(name), side.get(name), result.get(name)];
                is_preserved(&format!("{pointer}/{name}"), values, conflicts)
            })
        }
        (Some(Value::Array(side)), Some(Value::Array(result))) => {
            let empty = Vec::new();
            let base = base.and_then(Value::as_array).unwrap_or(&empty);
            let is_under = |conflict: &String| conflict.starts_with(&format!("{pointer}/"));
            let count = |list: &[Value], value: &Value| list.iter().filter(|entry| *entry == value).count();
            // Entries with an id may combine changes of both; conflicting ones may have any value.
            let has_id = |value: &Value| value.get("id").is_some();
            let added = side.iter().filter(|entry| count(side, entry) > count(base, entry));
            added.into_iter().all(|entry| has_id(entry) || result.contains(entry))
                || conflicts.iter().any(is_under)
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn m2_changes_of_one_side_are_applied_unchanged(base in document(), other in document()) {
        prop_assert_eq!(merged(&base, &base, &other), (other.clone(), vec![]));
        prop_assert_eq!(merged(&base, &other, &base), (other.clone(), vec![]));
        prop_assert_eq!(merged(&base, &other, &other), (other, vec![]));
    }

    #[test]
    fn m2_edits_that_do_not_conflict_commute((base, left, right) in edited()) {
        let (merged_left, conflicts) = merged(&base, &left, &right);
        let (merged_right, reverse_conflicts) = merged(&base, &right, &left);
        prop_assert_eq!(conflicts.is_empty(), reverse_conflicts.is_empty());
        if conflicts.is_empty() {
            prop_assert_eq!(unordered(&merged_left), unordered(&merged_right));
        }
    }

    #[test]
    fn m2_no_change_is_lost_silently((base, left, right) in edited()) {
        let (result, conflicts) = merged(&base, &left, &right);
        for side in [&left, &right] {
            prop_assert!(
                is_preserved("", [Some(&base), Some(side), Some(&result)], &conflicts),
                "{base} to {side} is not in {result}, {conflicts:?}"
            );
        }
    }

    #[test]
    fn m2_additions_survive_a_merge_with_themselves(base in document(), other in document()) {
        if first_change(&raw(&base), &raw(&other)).is_none() {
            let (result, conflicts) = merged(&base, &base, &other);
            prop_assert!(conflicts.is_empty());
            prop_assert!(first_change(&raw(&base), &raw(&result)).is_none());
            prop_assert_eq!(canonical(&raw(&result)), canonical(&raw(&other)));
        }
    }
}
