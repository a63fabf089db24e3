//! Script tests: each runs a script and compares the rendered output. The comment above a test (`Fails under: …`)
//! describes the mutation of the code that the test detects. `UPDATE_EXPECT=1` rewrites the expected output; review it
//! before you commit it.

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

/// Runs a script on SQLite and compares the output.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that a test reads `expect![…]` and not `&expect![…]`")]
fn check(script: &str, expected: Expect) {
    expected.assert_eq(&quorate_sim::script::play(script));
}
