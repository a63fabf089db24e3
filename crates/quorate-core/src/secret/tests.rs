//! Tests of the format of secrets.

use expect_test::expect;
use proptest::prelude::*;

use super::*;

#[test]
fn i18_the_format_of_a_secret_never_changes() {
    let low = Secret::from_random([0; 32]);
    let high = Secret::from_random([0xff; 32]);
    expect!["qrt_00000000000000000000000000000000000000000004b7cJh qrt_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp10IeVwO"].assert_eq(&format!("{} {}", low.reveal(), high.reveal()));
    assert!([&low, &high].iter().all(|secret| secret.reveal().len() == 53));
    let digest = crate::hex::encode(&low.digest().0);
    expect!["d1fe9448cb554dbdd120b58677267a95232b23ba0fa4577d681d400f85b672f9"].assert_eq(&digest);
}

// Fails under: one error for both, or an error that contains its input.
#[test]
fn i18_a_typo_is_distinguished_from_other_text() {
    let valid = Secret::from_random([7; 32]);
    let parsed = |text: &str| text.parse::<Secret>().map(|secret| secret.digest());
    assert_eq!(parsed(valid.reveal()), Ok(valid.digest()));
    let malformed = ["", "qrt_", "ghp_x", "QRT_0", &valid.reveal()[..52], &format!("{}0", valid.reveal())];
    let spaced = format!(" {}", &valid.reveal()[1..]);
    let marked = valid.reveal().replace(|c: char| c.is_ascii_digit(), "-");
    for text in malformed.into_iter().chain([spaced.as_str(), marked.as_str()]) {
        assert_eq!(parsed(text), Err(InvalidSecret::Format), "{text}");
    }
    let mut swapped = valid.reveal().as_bytes().to_vec();
    let at = (4..52).find(|at| swapped[*at] != swapped[at + 1]).unwrap();
    swapped.swap(at, at + 1);
    let swapped = String::from_utf8(swapped).unwrap();
    assert_eq!(parsed(&swapped), Err(InvalidSecret::Checksum));
    assert!(!InvalidSecret::Checksum.to_string().contains(&swapped[4..]));
}

proptest! {
    // Fails under: missing leading zeros, a checksum that skips a character, a secret that prints itself.
    #[test]
    fn i18_every_secret_parses_and_every_typo_is_detected(bits: [u8; 32], other: [u8; 32], at in 4usize..53, with in 0usize..62) {
        let secret = Secret::from_random(bits);
        let again: Secret = secret.reveal().parse().unwrap();
        prop_assert_eq!(again.digest(), secret.digest());
        prop_assert_eq!(bits == other, Secret::from_random(other).digest() == secret.digest());
        let printed = format!("{secret} {secret:?} {:?}", secret.digest());
        prop_assert!(!printed.contains(&secret.reveal()[4..12]));
        let mut typo = secret.reveal().as_bytes().to_vec();
        typo[at] = DIGITS[with];
        let typo = String::from_utf8(typo).unwrap();
        prop_assert_eq!(typo == secret.reveal(), typo.parse::<Secret>().is_ok());
    }
}

// Fails under: a token that is recognised only at the start, once, as a whole, or in the original case.
#[test]
fn i18_tokens_are_redacted_from_errors() {
    let token = Secret::from_random([7; 32]);
    let token = token.reveal();
    let redact = |text: &str| redact_tokens(text).into_owned();
    assert_eq!(redact(&format!("unknown host {token:?}: é")), "unknown host \"qrt_[redacted]\": é");
    assert_eq!(redact(&format!("{token}/{token}")), "qrt_[redacted]/qrt_[redacted]");
    assert_eq!(redact(&format!("{}…", &token[..20])), "qrt_[redacted]…");
    assert_eq!(redact(&token.to_lowercase()), "qrt_[redacted]");
    assert_eq!(redact(&format!("qrt_{token}")), "qrt_qrt_[redacted]");
    for text in ["", "qrt_", "q", "expected qrt_ followed by 49 letters and digits", "qrt_abc, qrt_", "Qé"] {
        assert!(matches!(redact_tokens(text), std::borrow::Cow::Borrowed(same) if same == text), "{text}");
    }
}
