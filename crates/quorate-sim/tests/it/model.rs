//! Model-based test: random plans give the same results and the same state on SQLite and on the reference model, and
//! replaying the log gives that state as well.
//!
//! `PROPTEST_CASES` sets the number of plans, `QUORATE_SEED` selects them. A failing plan is shrunk and printed.

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use quorate_sim::model::{self, generate};

const CASES: u32 = 2_000;
const STEPS_MAX: usize = 40;

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn sqlite_matches_the_reference_model() {
    let config = Config {
        cases: number("PROPTEST_CASES").unwrap_or(CASES),
        // A fixed default seed, so that a failure is reproducible; other seeds give other plans.
        rng_seed: RngSeed::Fixed(number("QUORATE_SEED").unwrap_or(2)),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    let outcome = TestRunner::new(config)
        .run(&generate::plans(STEPS_MAX), |plan| model::run(&plan).map_err(TestCaseError::fail));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
