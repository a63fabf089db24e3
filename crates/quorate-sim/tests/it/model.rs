//! Random work on SQLite and on the naive reference model: same answers, same state, and the log says so too.
//!
//! `PROPTEST_CASES` says how many plans, `QUORATE_SEED` which ones. A failure is shrunk and printed in words.

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use quorate_sim::model::{self, chance};

const CASES: u32 = 2_000;
const STEPS_MAX: usize = 40;

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn sqlite_does_what_the_model_does() {
    let config = Config {
        cases: number("PROPTEST_CASES").unwrap_or(CASES),
        // The same plans in every run, so that a red test is red for everybody; other seeds find other plans.
        rng_seed: RngSeed::Fixed(number("QUORATE_SEED").unwrap_or(2)),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    let outcome = TestRunner::new(config)
        .run(&chance::plans(STEPS_MAX), |plan| model::run(&plan).map_err(TestCaseError::fail));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
