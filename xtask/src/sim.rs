//! `cargo xtask sim`: runs the crash, power-loss and fuzz tests of quorate-sim with more repetitions.
//!
//! The tests read the numbers from environment variables and have their own defaults; this only sets the variables.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::step::{cargo, run_command};

/// Parsed arguments; `None` uses the default of the tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SimArgs {
    cycles: Option<u64>,
    cuts: Option<u64>,
    /// Seconds per fuzz target.
    fuzz: Option<u64>,
    seed: Option<u64>,
    rest: Vec<String>,
}

impl SimArgs {
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let mut parsed = Self::default();
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let target = match flag.as_str() {
                "--cycles" => &mut parsed.cycles,
                "--cuts" => &mut parsed.cuts,
                "--fuzz" => &mut parsed.fuzz,
                "--seed" => &mut parsed.seed,
                "--" => {
                    parsed.rest = args.cloned().collect();
                    break;
                }
                _ => bail!(
                    "unknown argument `{flag}`: sim accepts --cycles N, --cuts N, --fuzz SECONDS, --seed S and -- ARGS"
                ),
            };
            let value = args.next().with_context(|| format!("{flag} requires a number"))?;
            let number = value.parse().with_context(|| format!("{flag} requires a number, not `{value}`"))?;
            *target = Some(number);
        }
        Ok(parsed)
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
pub(crate) fn run(root: &Path, sim_args: &SimArgs) -> Result<()> {
    if !root.join("crates/quorate-sim/Cargo.toml").exists() {
        bail!("the crate quorate-sim does not exist");
    }
    let variables = sim_args.variables();
    for (name, value) in &variables {
        eprintln!("   {name}={value}");
    }
    let build = ["test", "--release", "--locked", "-p", "quorate-sim", "--all-features", "--"];
    run_command(cargo(root, &build).args(&sim_args.rest).envs(variables))
}

#[cfg(test)]
mod tests;
