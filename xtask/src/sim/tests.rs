//! Argument parsing of `cargo xtask sim`.

use super::SimArgs;

fn parse(line: &str) -> Result<SimArgs, String> {
    let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    SimArgs::parse(&args).map_err(|error| error.to_string())
}

#[test]
fn numbers_become_environment_variables() {
    let args = parse("--cycles 500 --cuts 1000 --seed 42 -- --nocapture power").expect("valid arguments");
    let variables = args.variables();
    let lines: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(lines, ["QUORATE_CRASH_CYCLES=500", "QUORATE_POWER_CUTS=1000", "QUORATE_SEED=42"]);
    assert_eq!(args.rest, ["--nocapture", "power"]);
}

#[test]
fn omitted_arguments_set_no_variables() {
    assert!(parse("").expect("no arguments").variables().is_empty());
    assert_eq!(parse("--seed 7").expect("valid arguments").variables(), [("QUORATE_SEED", "7".to_owned())]);
}

#[test]
fn invalid_arguments_are_rejected() {
    assert_eq!(parse("--cycles"), Err("--cycles requires a number".to_owned()));
    assert_eq!(parse("--cycles many"), Err("--cycles requires a number, not `many`".to_owned()));
    assert!(parse("--cycle 5").is_err());
}
