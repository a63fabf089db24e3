//! Task failures: retries, other agents, escalation, and the end of a task.

use expect_test::expect;

use super::check;

// Fails under: no backoff, or a constant one.
#[test]
fn c9_failed_attempts_are_retried_after_1_2_and_4_seconds() {
    check(
        "bob can x; alice makes a of x; bob takes; bob flunks a because busy; +999ms; bob takes; +1ms; bob takes; bob flunks a; task a; +2s; bob takes; \
         bob flunks a; task a; +4s; bob takes; bob flunks a because still_busy; task a; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 failures/a is at v1
            #6 a failed (busy): due at 1s
            bob: no task to claim
            #7 a ready
            bob claims a (attempt 2, token 2)
            #9 failures/a is at v2
            #9 a failed: due at 3s
            a due at 3s, tried 2, last failed by bob
            #10 a ready
            bob claims a (attempt 3, token 3)
            #12 failures/a is at v3
            #12 a failed: due at 7s
            a due at 7s, tried 3, last failed by bob
            #13 a ready
            bob claims a (attempt 4, token 4)
            #15 failures/a is at v4
            #15 a failed, tried 4, last failed by bob
            a failed, tried 4, last failed by bob
            1 failed"#]],
    );
}

// Fails under: a backoff that grows without limit, or stops growing too early.
#[test]
fn c9_the_backoff_doubles_up_to_16_times() {
    check(
        "bob can x; alice makes a of x tries 7 backoff 10s; bob takes; bob flunks a; +10s; bob takes; bob flunks a; +20s; bob takes; bob flunks a; \
         +40s; bob takes; bob flunks a; +80s; bob takes; bob flunks a; task a; +160s; bob takes; bob flunks a; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 failures/a is at v1
            #6 a failed: due at 10s
            #7 a ready
            bob claims a (attempt 2, token 2)
            #9 failures/a is at v2
            #9 a failed: due at 30s
            #10 a ready
            bob claims a (attempt 3, token 3)
            #12 failures/a is at v3
            #12 a failed: due at 70s
            #13 a ready
            bob claims a (attempt 4, token 4)
            #15 failures/a is at v4
            #15 a failed: due at 150s
            #16 a ready
            bob claims a (attempt 5, token 5)
            #18 failures/a is at v5
            #18 a failed: due at 310s
            a due at 310s, tried 5, last failed by bob
            #19 a ready
            bob claims a (attempt 6, token 6)
            #21 failures/a is at v6
            #21 a failed: due at 470s
            a due at 470s, tried 6, last failed by bob"#]],
    );
}

// Fails under: an unrecoverable failure that is retried.
#[test]
fn c9_an_unrecoverable_failure_is_not_retried() {
    check(
        "bob can x; alice makes a of x; bob takes; bob flunks a permanently leaving 7 because no_such_file; task a; +1h; bob takes",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 failures/a is at v1
            #6 a failed, tried 1, last hopeless by bob
            a failed, tried 1, last hopeless by bob
            bob: no task to claim"#]],
    );
}

// Fails under: a retry assigned to the agent that failed while another one waits.
#[test]
fn c9_another_agent_gets_the_next_attempt() {
    check(
        "bob can x; carol can x; alice makes a of x backoff 0s; bob takes; bob serves 1 as b1; carol serves 1 as c1; bob flunks a; carol flunks a; bob flunks a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a created: ready
            bob claims a (attempt 1, token 1)
            bob: no task to claim
            carol: no task to claim
            #7 failures/a is at v1
            #7 a failed: ready
            c1 receives a (attempt 2, token 2)
            #8 failures/a is at v2
            #8 a failed: ready
            b1 receives a (attempt 3, token 3)
            #9 failures/a is at v3
            #9 a failed: ready"#]],
    );
}

// Fails under: a task that is never retried if no other agent is available.
#[test]
fn c9_the_same_agent_retries_if_no_other_is_available() {
    check(
        "bob can x; alice makes a of x; bob serves 1 as b1; bob flunks a; bob grants 1 to b1; +1s",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 failures/a is at v1
            #6 a failed: due at 1s
            bob: nothing to write
            #7 a ready
            b1 receives a (attempt 2, token 2)"#]],
    );
}

// Fails under: a failed task without an escalation.
#[test]
fn c9_a_task_without_attempts_left_is_escalated_to_the_coordinators() {
    check(
        "bob can x; alice leads; carol leads; alice makes a of x tries 1; bob takes; bob flunks a because out_of_paper; task a; where !a; text !a; \
         alice claims; tasks; counts",
        expect![[r##"
            #3 bob starts epoch 3
            #4 alice starts epoch 2
            #5 carol starts epoch 4
            #6 a created: ready
            bob claims a (attempt 1, token 1)
            #8 failures/a is at v1
            #8 !a sent to alice carol
            #8 a failed (out of paper): escalated
            a escalated by msg_0-8-0, tried 1, last failed by bob
            !a of alice: ready since 0s, tried 0
            !a of carol: ready since 0s, tried 0
            !a from the hub: {"task":"a","type":"x","attempts":1,"cause":"failed","reason":"out of paper"}
            alice claims !a (attempt 1, token 2)
            1 escalated
            1 ready, 1 leased"##]],
    );
}

// Fails under: an escalation that ignores the named agent.
#[test]
fn c9_a_task_is_escalated_to_the_named_agent() {
    check(
        "bob can x; alice leads; alice makes a of x tries 1 escalating carol; bob takes; bob flunks a; where !a; carol claims",
        expect![[r#"
            #3 bob starts epoch 3
            #4 alice starts epoch 2
            #5 a created: ready
            bob claims a (attempt 1, token 1)
            #7 failures/a is at v1
            #7 !a sent to carol
            #7 a failed: escalated
            !a of carol: ready since 0s, tried 0
            carol claims !a (attempt 1, token 2)"#]],
    );
}

// Fails under: an escalation of a task that disables it.
#[test]
fn c9_a_task_can_disable_escalation() {
    check(
        "bob can x; alice leads; alice makes a of x tries 1 escalating nobody; bob takes; bob flunks a; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 alice starts epoch 2
            #5 a created: ready
            bob claims a (attempt 1, token 1)
            #7 failures/a is at v1
            #7 a failed, tried 1, last failed by bob
            a failed, tried 1, last failed by bob"#]],
    );
}

// Fails under: a task that stays open because it cannot be escalated.
#[test]
fn c9_without_a_coordinator_the_task_fails() {
    check(
        "bob can x; alice makes a of x tries 1; alice makes b of x tries 1 escalating carol; bob takes 2; carol leaves; bob flunks a; bob flunks b; task a; task b",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #5 b created: ready
            bob claims a (attempt 1, token 1), b (attempt 1, token 2)
            #7 agent 3 removed
            #8 failures/a is at v1
            #8 a failed, tried 1, last failed by bob
            #9 failures/b is at v1
            #9 b failed, tried 1, last failed by bob
            a failed, tried 1, last failed by bob
            b failed, tried 1, last failed by bob"#]],
    );
}

// Fails under: an escalation outside the commit of the failure.
#[test]
fn c9_an_escalation_is_delivered_in_the_commit_of_the_failure() {
    check(
        "bob can x; carol leads; carol stands 1 as c1; alice makes a of x tries 1 + b of x needs a; bob takes; bob flunks a; task b",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            carol: nothing to claim
            #5 a created: ready
            #5 b created: blocked
            bob claims a (attempt 1, token 1)
            #7 failures/a is at v1
            #7 !a sent to carol (leased immediately)
            #7 a failed: escalated
            #7 b failed because of a
            c1 receives !a (attempt 1, token 2)
            b failed because of a"#]],
    );
}

// Fails under: a repeated failure that counts twice, or is accepted after the task was leased again.
#[test]
fn i3_a_repeated_failure_has_the_same_response() {
    check(
        "bob can x; alice makes a of x; bob takes; bob flunks a; bob flunks a; task a; +1s; bob takes; bob flunks a#1; task a; bob flunks a twice; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 failures/a is at v1
            #6 a failed: due at 1s
            accepted already by #6
            a due at 1s, tried 1, last failed by bob
            #7 a ready
            bob claims a (attempt 2, token 2)
            refused STALE_LEASE
            a leased by bob under token 2, tried 2, last failed by bob
            #9 failures/a is at v2
            #9 a failed: due at 3s
            a due at 3s, tried 2, last failed by bob"#]],
    );
}

// Fails under: a release that counts as an attempt, or is delayed by a backoff.
#[test]
fn c9_a_released_task_does_not_count_as_an_attempt() {
    check(
        "bob can x; alice makes a of x tries 1; bob takes; bob returns a; task a; bob takes; bob flunks a; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 a released: ready
            a ready since 0s
            bob claims a (attempt 1, token 2)
            #8 failures/a is at v1
            #8 a failed, tried 1, last failed by bob
            a failed, tried 1, last failed by bob"#]],
    );
}

// Fails under: an escalation to an unknown agent.
#[test]
fn c9_the_escalation_target_must_be_registered() {
    check(
        "alice makes a of x escalating nobody_else; alice makes a for nobody_else",
        expect![[r#"
        refused NOT_FOUND
        refused NOT_FOUND"#]],
    );
}

// Fails under: a failure that is not written, is written in another commit, or overwrites a version; a lapse that is
// written although another agent takes over.
#[test]
fn c9_each_failure_is_written_to_the_shared_memory() {
    check(
        "bob can x; alice makes a of x tries 4 timeout 10s lease 5s; bob takes; bob flunks a leaving 7 because disk; read failures/a; \
         quietly +1s; hub sweeps; bob takes; +5s; history failures/a; bob takes for 1m; +10s; read failures/a; \
         quietly +9s; hub sweeps; bob takes; bob flunks a permanently; read failures/a; history failures/a; restart; list failures",
        expect![[r##"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 failures/a is at v1
            #6 a failed (disk): due at 1s
            failures/a v1 = {"task":"a","type":"x","agent":"bob","cause":"failed","reason":"disk","attempt":1,"maxAttempts":4,"retried":true,"details":7}, by agent:bob at 0s
            #7 a ready
            bob claims a (attempt 2, token 2)
            #9 a lapsed: ready
            failures/a v1 = {"task":"a","type":"x","agent":"bob","cause":"failed","reason":"disk","attempt":1,"maxAttempts":4,"retried":true,"details":7}, by agent:bob at 0s
            bob claims a (attempt 3, token 3)
            #11 failures/a is at v2
            #11 a timed out: due at 20s
            bob is notified: a (token 3) timed out
            failures/a v2 = {"task":"a","type":"x","agent":"bob","cause":"timed out","reason":"attempt 3 exceeded its time limit of 10000 ms","attempt":3,"maxAttempts":4,"retried":true}, by system at 16s
            #12 a ready
            bob claims a (attempt 4, token 4)
            #14 failures/a is at v3
            #14 a failed, tried 4, last hopeless by bob
            failures/a v3 = {"task":"a","type":"x","agent":"bob","cause":"hopeless","attempt":4,"maxAttempts":4,"retried":false}, by agent:bob at 25s
            failures/a v1 = {"task":"a","type":"x","agent":"bob","cause":"failed","reason":"disk","attempt":1,"maxAttempts":4,"retried":true,"details":7}, by agent:bob at 0s
            failures/a v2 = {"task":"a","type":"x","agent":"bob","cause":"timed out","reason":"attempt 3 exceeded its time limit of 10000 ms","attempt":3,"maxAttempts":4,"retried":true}, by system at 16s
            failures/a v3 = {"task":"a","type":"x","agent":"bob","cause":"hopeless","attempt":4,"maxAttempts":4,"retried":false}, by agent:bob at 25s
            failures/a v3 = {"task":"a","type":"x","agent":"bob","cause":"hopeless","attempt":4,"maxAttempts":4,"retried":false}, by agent:bob at 25s"##]],
    );
}

// Fails under: a dependent that is written, or an entry in place of the first one.
#[test]
fn c9_dependents_that_fail_are_not_written() {
    check(
        "bob can x; alice makes a of x tries 1 + b of x needs a; bob takes; alice puts failures/a=mine; bob flunks a; list failures; task b",
        expect![[r##"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: blocked
            bob claims a (attempt 1, token 1)
            #6 failures/a is at v1
            #7 failures/a is at v2
            #7 a failed, tried 1, last failed by bob
            #7 b failed because of a
            failures/a v2 = {"task":"a","type":"x","agent":"bob","cause":"failed","attempt":1,"maxAttempts":1,"retried":false}, by agent:bob at 0s
            b failed because of a"##]],
    );
}

// Fails under: a holder that is not notified because it polled for the task.
#[test]
fn m16_the_holder_of_a_cancelled_task_or_request_is_notified() {
    check(
        "bob can x; alice makes a of x timeout 10s; bob takes; alice cancels a because done; bob beats a; \
         alice makes b of x timeout 10s tries 1; bob takes; +10s; \
         alice asks q1 to bob,carol within 1m notifying w; bob claims; alice withdraws q1; bob extends q1 to 1m; bob acks q1",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 a cancelled
            bob is notified: a (token 1) cancelled: done
            refused CANCELLED
            #7 b created: ready
            bob claims b (attempt 1, token 2)
            #9 failures/b is at v1
            #9 b failed, tried 1, last timed out by bob
            bob is notified: b (token 2) timed out
            #10 q1 sent to bob carol
            #10 request.made q1: waiting; bob, carol
            bob claims q1 (attempt 1, token 3)
            #12 request.cancelled q1: cancelled; bob, carol
            #12 q1 of bob purged
            #12 q1 of carol purged
            w is refused CANCELLED
            bob is notified: request q1 ended with CANCELLED
            refused STALE_LEASE
            refused STALE_LEASE"#]],
    );
}
