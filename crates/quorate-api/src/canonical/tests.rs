//! Canonical JSON: the examples of RFC 8785, and values without a canonical form.

use super::*;

fn canonical(text: &str) -> String {
    String::from_utf8(to_canonical_bytes(&parse_canonical("action", text.as_bytes()).unwrap())).unwrap()
}

// Fails under: names sorted by bytes; floats formatted as in Rust; uppercase escapes.
#[test]
fn i14_the_example_of_rfc_8785_has_the_expected_bytes() {
    let given = r#"{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"#;
    let expected = r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#;
    assert_eq!(canonical(given), expected);
}

#[test]
fn i14_names_are_sorted_by_utf_16() {
    let given = r#"{"\u20ac":"Euro","\r":"Return","\ufb33":"Dalet","1":"One","\ud83d\ude00":"Smiley","\u0080":"Control","\u00f6":"o"}"#;
    let expected = canonical(given);
    let order: Vec<_> = ["Return", "One", "Control", "\"o\"", "Euro", "Smiley", "Dalet"]
        .iter()
        .map(|word| expected.find(word).unwrap())
        .collect();
    assert!(order.is_sorted(), "{expected}");
}

#[test]
fn i14_numbers_are_written_as_ecmascript_does() {
    let cases = [
        ("0", "0"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("1.0", "1"),
        ("100", "100"),
        ("1e21", "1e+21"),
        ("123456789012345680000", "123456789012345680000"),
        ("1e-6", "0.000001"),
        ("1e-7", "1e-7"),
        ("-1.5e-9", "-1.5e-9"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("9007199254740991", "9007199254740991"),
        ("0.1", "0.1"),
    ];
    for (given, expected) in cases {
        assert_eq!(canonical(given), expected, "{given}");
    }
}

// Fails under: a parser that keeps the last of two duplicate members, or rounds an integer.
#[test]
fn i14_ambiguous_json_has_no_canonical_form() {
    let long = "[".repeat(65);
    for given in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":{"b":1,"b":1}}"#,
        "9007199254740993",
        "-9007199254740992",
        "1e400",
        r#""\ud800""#,
        "",
        &long,
    ] {
        assert!(parse_canonical("action", given.as_bytes()).is_err(), "{given}");
    }
}

// Fails under: a search at the top level only; equal names of different objects that are taken for duplicates.
#[test]
fn i17_duplicate_members_are_found_at_any_depth() {
    for (json, expected) in [
        (r#"{"a":1,"b":2}"#, None),
        (r#"[{"a":{"x":1}},{"a":{"x":1}}]"#, None),
        (r#"{"a":1,"a":1}"#, Some("a")),
        (r#"{"a":[1,{"b":null,"c":1.5,"b":-1}]}"#, Some("b")),
        (r#"{"a":1,"\u0061":true}"#, Some("a")),
    ] {
        assert_eq!(super::duplicate_member(json.as_bytes()).as_deref(), expected, "{json}");
    }
}

// Fails under: any value that does not survive a round trip.
#[test]
fn i14_canonical_bytes_are_their_own_canonical_form() {
    for given in [r#"{"b":[1,2.50,{"z":null,"a":"\u001f"}],"":true}"#, "[]", "\"\\u007f\"", "1e-5", "-3"] {
        let once = canonical(given);
        assert_eq!(canonical(&once), once);
        assert_eq!(
            parse_canonical("action", given.as_bytes()).unwrap(),
            parse_canonical("action", once.as_bytes()).unwrap(),
            "{given}"
        );
    }
}
