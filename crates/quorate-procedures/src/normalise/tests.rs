//! Values that are equal in different formats, and values that only look equal.

use serde_json::{Value, json};

use super::*;

fn same(a: &Value, b: &Value) -> bool {
    let keys = canonical_keys(&[a.clone(), b.clone()]);
    keys[0] == keys[1]
}

#[test]
fn a3_equal_values_in_different_formats_compare_equal() {
    let pairs = [
        (json!("$1,200.00"), json!("1200 USD")),
        (json!("US$ 1,200"), json!("usd 1200")),
        (json!("1.2 million dollars"), json!("$1,200,000")),
        (json!("€5"), json!("5 EUR")),
        (json!("$1,200.00"), json!(1200)),
        (json!("1 Jan 2027"), json!("2027-01-01")),
        (json!("January 1st, 2027"), json!("2027/01/01")),
        (json!("the 3rd of Sept 2027"), json!("3 September 2027")),
        (json!("12"), json!(12.0)),
        (json!("1,200"), json!("1200.00")),
        (json!("15 %"), json!("15 percent")),
        (json!("Yes"), json!(true)),
        (json!("New  York."), json!("new york")),
    ];
    for (a, b) in pairs {
        assert!(same(&a, &b), "{a} and {b} are equal");
    }
}

#[test]
fn a3_different_values_stay_different() {
    let pairs = [
        (json!("$1,200"), json!("1200 EUR")),
        (json!("01/02/2027"), json!("2027-02-01")),
        (json!("30 Feb 2027"), json!("2027-03-02")),
        (json!("1.200"), json!(1200)),
        (json!("12,00"), json!(1200)),
        (json!("15%"), json!(0.15)),
        (json!("24 months"), json!("12 months")),
        (json!(1), json!(true)),
        (json!("29 Feb 2027"), json!("2027-02-29.")),
    ];
    for (a, b) in pairs {
        assert!(!same(&a, &b), "{a} and {b} differ");
    }
    assert_eq!(canonical_keys(&[json!("29 Feb 2028")]), ["2028-02-29"], "a leap year");
}

#[test]
fn a3_a_bare_number_takes_a_currency_only_if_there_is_one() {
    assert_eq!(canonical_keys(&[json!(5), json!("$5")]), ["USD 5", "USD 5"]);
    assert_eq!(canonical_keys(&[json!(5), json!("$5"), json!("€5")]), ["5", "USD 5", "EUR 5"]);
}

#[test]
fn names_are_compared_by_their_words() {
    assert_eq!(normalise_words("Do_not-SIGN!"), normalise_words("do not sign"));
    assert_eq!(
        (format_number(-0.0), format_number(62.0), format_number(0.5)),
        ("0".into(), "62".into(), "0.5".into())
    );
    assert_eq!(
        (parse_amount(&json!("$1.5 million")), parse_amount(&json!("high"))),
        (Some(1_500_000.0), None)
    );
}
