//! Timers of tasks: leases, heartbeats, timeouts and backoff.

use expect_test::expect;

use super::check;

// Fails under: a lease that expires too early, too late, or never.
#[test]
fn i9_a_task_is_ready_again_after_its_lease_expires() {
    check(
        "bob can x; alice makes a of x; bob takes; +29999ms; task a; +1ms; task a; bob takes; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            a leased by bob under token 1, tried 1
            #6 a lapsed: ready
            a ready since 30s, tried 1, last lapsed by bob
            bob claims a (attempt 2, token 2)
            1 leased"#]],
    );
}

// Fails under: a lease duration of the task or of the claim that is ignored.
#[test]
fn c4_a_task_or_a_claim_can_set_the_lease_duration() {
    check(
        "bob can x; alice makes a of x lease 5s + b of x lease 5s; bob takes; bob takes for 2s; +2s; task a; task b; +3s; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: ready
            bob claims a (attempt 1, token 1)
            bob claims b (attempt 1, token 2)
            #7 b lapsed: ready
            a leased by bob under token 1, tried 1
            b ready since 2s, tried 1, last lapsed by bob
            #8 a lapsed: ready
            a ready since 5s, tried 1, last lapsed by bob"#]],
    );
}

// Fails under: a heartbeat that writes a record, or does not extend the lease.
#[test]
fn c10_a_heartbeat_extends_the_lease_without_a_record() {
    check(
        "bob can x; alice makes a of x lease 10s; bob takes; quietly +9s; bob beats a; +9999ms; task a; +1ms; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            bob: nothing to write
            a leased by bob under token 1, tried 1
            #6 a lapsed: ready
            a ready since 19s, tried 1, last lapsed by bob"#]],
    );
}

// Fails under: partial results that are lost when the attempt ends.
#[test]
fn c10_partial_results_survive_timeouts() {
    check(
        "bob can x; alice makes a of x timeout 60s lease 10s; bob takes; +5s; bob beats a with 1; +5s; bob beats a with 2; +5s; task a; +10s; task a; \
         restart; task a; bob takes; bob beats a with 3; bob finishes a with 4; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 a progressed
            #7 a progressed
            a leased by bob under token 1, tried 1, partial 1, partial 2
            #8 a lapsed: ready
            a ready since 25s, tried 1, last lapsed by bob, partial 1, partial 2
            a ready since 25s, tried 1, last lapsed by bob, partial 1, partial 2
            bob claims a (attempt 2, token 2)
            #10 a progressed
            #11 a done
            a done by bob under token 2, tried 2, last lapsed by bob, partial 1, partial 2, partial 3, result 4"#]],
    );
}

// Fails under: the oldest partial results kept instead of the newest.
#[test]
fn c10_the_newest_eight_partial_results_are_kept() {
    check(
        "bob can x; alice makes a of x; bob takes; silently bob beats a with 1; silently bob beats a with 2; silently bob beats a with 3; \
         silently bob beats a with 4; silently bob beats a with 5; silently bob beats a with 6; silently bob beats a with 7; silently bob beats a with 8; \
         bob beats a with 9; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #14 a progressed
            a leased by bob under token 1, tried 1, partial 2, partial 3, partial 4, partial 5, partial 6, partial 7, partial 8, partial 9"#]],
    );
}

// Fails under: heartbeats that extend the timeout of the attempt.
#[test]
fn c10_an_attempt_that_exceeds_its_timeout_is_ended() {
    check(
        "bob can x; alice makes a of x timeout 25s lease 10s; bob serves 1 as b1; +9s; bob beats a; +9s; bob beats a; +6999ms; task a; +1ms; task a; \
         bob finishes a; +1s; bob takes",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            bob: nothing to write
            bob: nothing to write
            a leased by bob under token 1, tried 1
            #6 failures/a is at v1
            #6 a timed out: due at 26s
            bob is notified: a (token 1) timed out
            a due at 26s, tried 1, last timed out by bob
            refused STALE_LEASE
            #7 a ready
            bob claims a (attempt 2, token 2)"#]],
    );
}

// Fails under: a task that stays open after its last lease expires.
#[test]
fn i9_a_lease_that_expires_on_the_last_attempt_fails_the_task() {
    check(
        "bob can x; alice makes a of x tries 2 + b of x needs a; bob takes; +30s; bob takes; +30s; task a; task b",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: blocked
            bob claims a (attempt 1, token 1)
            #6 a lapsed: ready
            bob claims a (attempt 2, token 2)
            #8 failures/a is at v1
            #8 a failed, tried 2, last lapsed by bob
            #8 b failed because of a
            a failed, tried 2, last lapsed by bob
            b failed because of a"#]],
    );
}

// Fails under: leases without a deadline after a restart, or tasks that stay leased.
#[test]
fn i9_a_restart_renews_task_leases_to_their_full_length() {
    check(
        "bob can x; alice makes a of x timeout 50s; bob takes; quietly +20s; restart; +29s; task a; +1s; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            a leased by bob under token 1, tried 1
            #6 a lapsed: ready
            a ready since 50s, tried 1, last lapsed by bob"#]],
    );
}

// Fails under: attempts that are lost at a restart.
#[test]
fn i9_attempts_and_backoff_survive_a_restart() {
    check(
        "bob can x; alice makes a of x; bob takes; bob flunks a because busy; restart; task a; +1s; bob takes; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 failures/a is at v1
            #6 a failed (busy): due at 1s
            a due at 1s, tried 1, last failed by bob
            #7 a ready
            bob claims a (attempt 2, token 2)
            a leased by bob under token 2, tried 2, last failed by bob"#]],
    );
}

// Fails under: task leases measured with the wall clock.
#[test]
fn i23_a_wall_clock_jump_expires_no_task_lease() {
    check(
        "bob can x; alice makes a of x timeout 60s; bob takes; wall +1d; hub sweeps; task a; wall -2d; +29s; task a; +1s; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            hub: nothing to write
            a leased by bob under token 1, tried 1
            a leased by bob under token 1, tried 1
            #6 a lapsed: ready
            a ready since 0s, tried 1, last lapsed by bob"#]],
    );
}

// Fails under: both timers of a lease taking effect.
#[test]
fn i9_a_lease_and_a_timeout_that_expire_together_count_once() {
    check(
        "bob can x; alice makes a of x timeout 30s; bob takes; +30s; task a; +1h; task a",
        expect![[r#"
        #3 bob starts epoch 3
        #4 a created: ready
        bob claims a (attempt 1, token 1)
        #6 a lapsed: ready
        a ready since 30s, tried 1, last lapsed by bob
        a ready since 30s, tried 1, last lapsed by bob"#]],
    );
}
