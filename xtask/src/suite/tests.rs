//! Argument parsing of `cargo xtask test`.

use super::Scope;

fn parse(line: &str) -> Result<Scope, String> {
    let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Scope::parse(&args).map_err(|error| error.to_string())
}

#[test]
fn without_a_flag_the_scope_is_full() {
    assert_eq!(parse(""), Ok(Scope::Full));
    assert!(Scope::Full.variables().is_empty());
}

#[test]
fn fast_is_the_only_flag() {
    assert_eq!(parse("--fast"), Ok(Scope::Fast));
    assert!(parse("--fsat").is_err());
    assert!(parse("--fast --fast").is_err());
}
