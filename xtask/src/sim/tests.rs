//! The command line of `cargo xtask sim`.

use super::Plan;

fn parse(line: &str) -> Result<Plan, String> {
    let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Plan::parse(&args).map_err(|error| error.to_string())
}

#[test]
fn numbers_become_variables() {
    let plan = parse("--cycles 500 --cuts 1000 --seed 42 -- --nocapture power").expect("a good line");
    let variables = plan.variables();
    let lines: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(lines, ["QUORATE_CRASH_CYCLES=500", "QUORATE_POWER_CUTS=1000", "QUORATE_SEED=42"]);
    assert_eq!(plan.rest, ["--nocapture", "power"]);
}

#[test]
fn what_is_not_asked_for_is_not_set() {
    assert!(parse("").expect("an empty line").variables().is_empty());
    assert_eq!(parse("--seed 7").expect("a good line").variables(), [("QUORATE_SEED", "7".to_owned())]);
}

#[test]
fn a_wrong_line_is_refused() {
    assert_eq!(parse("--cycles"), Err("--cycles needs a number".to_owned()));
    assert_eq!(parse("--cycles many"), Err("--cycles needs a number, not `many`".to_owned()));
    assert!(parse("--cycle 5").is_err());
}
