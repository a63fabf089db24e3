//! Scripts: what happens, and what came of it. Each test is small, and above each stands the mutation of the code that it
//! finds. `UPDATE_EXPECT=1` writes down what came out; read it before it is kept.

mod approvals;
mod chains;
mod circles;
mod deadlocks;
mod deliveries;
mod leases;
mod locks;
mod memory;
mod order;
mod policy;
mod pools;
mod presence;
mod repeats;
mod requests;
mod restarts;
mod rollback;
mod sessions;
mod starts;
mod task_failures;
mod task_graphs;
mod task_leases;
mod task_time;
mod task_waiting;
mod time;
mod tokens;
mod topics;
mod waiting;

use expect_test::Expect;

/// Plays a script on SQLite and compares what came of it.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that a test reads `expect![…]` and not `&expect![…]`")]
fn check(script: &str, expected: Expect) {
    expected.assert_eq(&quorate_sim::script::play(script));
}
