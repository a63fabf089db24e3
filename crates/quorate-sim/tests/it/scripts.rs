//! Script tests: each runs a script and compares the rendered output. The comment above a test (`Fails under: …`)
//! describes the mutation of the code that the test detects. `UPDATE_EXPECT=1` rewrites the expected output; review it
//! before you commit it.

mod approvals;
mod consumers;
mod deliveries;
mod delivery_order;
mod epochs;
mod idempotency;
mod leases;
mod lock_deadlocks;
mod locks;
mod loop_protection;
mod memory;
mod policy;
mod pools;
mod presence;
mod request_deadlocks;
mod requests;
mod restarts;
mod rollback;
mod sessions;
mod task_consumers;
mod task_failures;
mod task_graphs;
mod task_leases;
mod task_timers;
mod timers;
mod tokens;
mod topics;

use expect_test::Expect;

/// Runs a script on SQLite and compares the output.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that a test reads `expect![…]` and not `&expect![…]`")]
fn check(script: &str, expected: Expect) {
    expected.assert_eq(&quorate_sim::script::run(script));
}
