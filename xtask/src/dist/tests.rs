//! License table, checksums and the size limit.

use super::{BINARY_BYTES_MAX, check_size, checksum, license_table, licenses};

#[test]
fn every_linked_crate_is_listed_once_with_its_license() {
    let tree = "quorate-cli v0.1.0 (/some where/quorate-cli)|MIT OR Apache-2.0\n\
                serde v1.0.229|MIT OR Apache-2.0\n\
                memchr v2.8.3|Unlicense/MIT\n\n\
                serde v1.0.229|MIT OR Apache-2.0 (*)\n";
    let expected = "name\tversion\tlicense\n\
                    memchr\t2.8.3\tUnlicense OR MIT\n\
                    quorate-cli\t0.1.0\tMIT OR Apache-2.0\n\
                    serde\t1.0.229\tMIT OR Apache-2.0\n";
    assert_eq!(license_table(&licenses(tree).expect("a tree")), expected);
}

#[test]
fn a_crate_without_a_license_is_rejected() {
    for line in ["hidden v0.3.0|", "hidden v0.3.0| (*)"] {
        let error = licenses(&format!("serde v1.0.229|MIT\n{line}\n")).expect_err("no license").to_string();
        assert!(error.starts_with("hidden 0.3.0 is linked into the binary and has no license"), "{error}");
    }
    assert!(licenses("").is_err());
    assert!(licenses("error: something else\n").is_err());
}

#[test]
fn a_checksum_line_has_the_sha256sum_format() {
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  quorate\n";
    assert_eq!(checksum(b"abc", "quorate"), expected);
}

#[test]
fn a_binary_over_the_limit_is_rejected() {
    assert!(check_size(BINARY_BYTES_MAX).is_ok());
    let error = check_size(41_234_567).expect_err("too large").to_string();
    assert!(error.starts_with("the binary has 41.2 MB, more than 40 MB"), "{error}");
}
