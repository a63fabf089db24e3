//! `cargo xtask sim`: the crash, power-loss and broken-input tests of quorate-sim, for as long as one likes.
//!
//! The tests read their numbers from the environment and have their own defaults; this only passes on what was asked.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::step::{call, cargo};

/// What was asked for; `None` leaves the tests' own default.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    cycles: Option<u64>,
    cuts: Option<u64>,
    /// Seconds for each target of broken input.
    fuzz: Option<u64>,
    seed: Option<u64>,
    rest: Vec<String>,
}

impl Plan {
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let mut plan = Self::default();
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let place = match flag.as_str() {
                "--cycles" => &mut plan.cycles,
                "--cuts" => &mut plan.cuts,
                "--fuzz" => &mut plan.fuzz,
                "--seed" => &mut plan.seed,
                "--" => {
                    plan.rest = args.cloned().collect();
                    break;
                }
                _ => bail!(
                    "unknown argument `{flag}`: sim takes --cycles N, --cuts N, --fuzz SECONDS, --seed S and -- ARGS"
                ),
            };
            let value = args.next().with_context(|| format!("{flag} needs a number"))?;
            let number = value.parse().with_context(|| format!("{flag} needs a number, not `{value}`"))?;
            *place = Some(number);
        }
        Ok(plan)
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        [
            ("QUORATE_CRASH_CYCLES", self.cycles),
            ("QUORATE_POWER_CUTS", self.cuts),
            ("QUORATE_FUZZ_SECONDS", self.fuzz),
            ("QUORATE_SEED", self.seed),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?.to_string())))
        .collect()
    }
}

/// Runs the tests of quorate-sim in a release build.
pub(crate) fn run(root: &Path, plan: &Plan) -> Result<()> {
    if !root.join("crates/quorate-sim/Cargo.toml").exists() {
        bail!("there is no crate quorate-sim yet, so there is nothing to run");
    }
    let variables = plan.variables();
    for (name, value) in &variables {
        eprintln!("   {name}={value}");
    }
    let build = ["test", "--release", "--locked", "-p", "quorate-sim", "--all-features", "--"];
    call(cargo(root, &build).args(&plan.rest).envs(variables))
}

#[cfg(test)]
mod tests;
