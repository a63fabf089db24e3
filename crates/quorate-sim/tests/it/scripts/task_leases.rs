//! Task leases: the right to end a task, and lease tokens.

use expect_test::expect;

use super::check;

// Fails under: tasks that any agent can claim.
#[test]
fn c4_tasks_are_claimed_by_capability_or_assignment() {
    check(
        "bob can x; carol can y; alice makes a of x + b of y + c for carol + d of x for carol; bob takes 9; carol takes 9; alice takes 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a created: ready
            #5 b created: ready
            #5 c created: ready
            #5 d created: ready
            bob claims a (attempt 1, token 1)
            carol claims b (attempt 1, token 2), c (attempt 1, token 3), d (attempt 1, token 4)
            alice: no task to claim"#]],
    );
}

// Fails under: a type filter that is ignored.
#[test]
fn c4_a_claim_can_filter_by_type() {
    check(
        "bob can x,y; alice makes a of x + b of y; bob takes 9 on y; bob takes 9 on z; bob takes 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: ready
            bob claims b (attempt 1, token 1)
            bob: no task to claim
            bob claims a (attempt 1, token 2)"#]],
    );
}

// Fails under: an ignored priority, or 1 to 10 not mapped in order.
#[test]
fn c4_higher_priority_is_claimed_first() {
    check(
        "bob can x,y; alice makes a of x priority 1 + b of y priority 10 + c of x priority 5 + d of y priority 5 + e of x priority 6; bob takes 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: ready
            #4 c created: ready
            #4 d created: ready
            #4 e created: ready
            bob claims b (attempt 1, token 1), e (attempt 1, token 2), c (attempt 1, token 3), d (attempt 1, token 4), a (attempt 1, token 5)"#]],
    );
}

// Fails under: a token that is issued twice, or that decreases after a restart.
#[test]
fn i8_lease_tokens_always_increase() {
    check(
        "bob can x; alice makes a of x; bob takes; bob returns a; bob takes; restart; bob starts; bob takes; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 a released: ready
            bob claims a (attempt 1, token 2)
            #8 a holder gone: ready
            #8 bob starts epoch 8
            bob claims a (attempt 2, token 3)
            a leased by bob under token 3, tried 2, last holder gone by bob"#]],
    );
}

// Fails under: a stale token that is accepted.
#[test]
fn i8_a_lower_token_is_refused_and_changes_nothing() {
    check(
        "bob can x; carol can x; alice makes a of x; bob takes; +31s; carol takes; bob finishes a#1 with 1; bob flunks a#1; bob beats a#1; bob returns a#1; \
         task a; carol finishes a with 2; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a created: ready
            bob claims a (attempt 1, token 1)
            #7 a lapsed: ready
            carol claims a (attempt 2, token 2)
            refused STALE_LEASE
            refused STALE_LEASE
            refused STALE_LEASE
            refused STALE_LEASE
            a leased by carol under token 2, tried 2, last lapsed by bob
            #9 a done
            a done by carol under token 2, tried 2, last lapsed by bob, result 2"#]],
    );
}

// Fails under: a repeated failure that is accepted although another agent holds the task, or held it since.
#[test]
fn i8_a_stale_holder_cannot_report_a_failure() {
    check(
        "bob can x; carol can x; alice makes a of x; bob takes; bob flunks a; bob flunks a#1; +1s; carol takes; bob flunks a#1; \
         bob returns a#1; carol returns a; bob flunks a#1; carol takes; carol finishes a with 2; bob flunks a#1; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a created: ready
            bob claims a (attempt 1, token 1)
            #7 failures/a is at v1
            #7 a failed: due at 1s
            accepted already by #7
            #8 a ready
            carol claims a (attempt 2, token 2)
            refused STALE_LEASE
            refused STALE_LEASE
            #10 a released: ready
            refused STALE_LEASE
            carol claims a (attempt 2, token 3)
            #12 a done
            refused STALE_LEASE
            a done by carol under token 3, tried 2, last failed by bob, result 2"#]],
    );
}

// Fails under: a second end that is accepted.
#[test]
fn i8_a_task_has_one_end_and_one_result() {
    check(
        "bob can x; alice makes a of x; bob takes; bob finishes a with 1; bob finishes a with 2; bob flunks a; bob finishes a with 1; task a; restart; bob finishes a with 3; bob finishes a with 1; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 a done
            refused STALE_LEASE
            refused STALE_LEASE
            accepted already by #6
            a done by bob under token 1, tried 1, result 1
            refused STALE_LEASE
            accepted already by #6
            a done by bob under token 1, tried 1, result 1"#]],
    );
}

// Fails under: an end by an agent that does not hold the task.
#[test]
fn i8_only_the_holder_can_end_a_task() {
    check(
        "bob can x; alice makes a of x; bob takes; carol finishes a; alice flunks a; hub finishes a with 1; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            refused FORBIDDEN
            refused FORBIDDEN
            #6 a done
            a done by bob under token 1, tried 1, result 1"#]],
    );
}

// Fails under: an operation on an unknown task that is accepted.
#[test]
fn i8_an_unknown_task_is_not_found() {
    check(
        "bob finishes nothing; bob beats nothing; alice cancels nothing; alice makes a of x; bob finishes a; bob beats a",
        expect![[r#"
            refused NOT_FOUND
            refused NOT_FOUND
            refused NOT_FOUND
            #3 a created: ready
            refused STALE_LEASE
            refused STALE_LEASE"#]],
    );
}

// Fails under: an end that remains although its commit was refused.
#[test]
fn i8_a_refused_commit_does_not_end_a_task() {
    check(
        "bob can x; alice makes a of x + b of x needs a; bob takes; bob finishes a with 1 & puts k=1 expecting 7; task a; task b; \
         bob finishes a with 1 & puts k=1 expecting 0 & sends m1 to carol; task b",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: blocked
            bob claims a (attempt 1, token 1)
            refused VERSION_CONFLICT, now at v0
            a leased by bob under token 1, tried 1
            b blocked, needs a
            #6 a done
            #6 b ready
            #6 k is at v1
            #6 m1 sent to carol
            b ready since 0s"#]],
    );
}

// Fails under: a refusal that lists only the first stale item.
#[test]
fn i8_a_refusal_lists_every_stale_task() {
    check(
        "bob can x; alice makes a of x + b of x; bob takes 2; +31s; bob finishes a & finishes b & beats a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: ready
            bob claims a (attempt 1, token 1), b (attempt 1, token 2)
            #6 a lapsed: ready
            #6 b lapsed: ready
            refused STALE_LEASE, op 0 a STALE_LEASE, op 1 b STALE_LEASE, op 2 a STALE_LEASE"#]],
    );
}

// Fails under: a repeated claim that leases more tasks.
#[test]
fn i3_a_repeated_claim_returns_the_same_leases() {
    check(
        "bob can x; alice makes a of x saying 1 + b of x; bob takes with key k; bob takes with key k; restart; bob takes with key k; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: ready
            bob claims a (attempt 1, token 1)
            the same receipt as #5
            bob claims a (attempt 1, token 1)
            the same receipt as #5
            bob claims a (attempt 1, token 1)
            1 ready, 1 leased"#]],
    );
}

// Fails under: an agent that claims for another agent.
#[test]
fn c4_an_agent_claims_for_itself_only() {
    check(
        "bob can x; alice makes a of x; bob takes 300; hub takes on x",
        expect![[r#"
        #3 bob starts epoch 3
        #4 a created: ready
        bob claims a (attempt 1, token 1)
        refused NOT_FOUND"#]],
    );
}

// Fails under: tasks that stay leased to the previous epoch.
#[test]
fn i13_a_new_epoch_releases_tasks_immediately() {
    check(
        "bob can x; alice makes a of x + b of x; bob takes 2; bob starts; task a; old bob finishes a; bob finishes a; bob takes 2; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: ready
            bob claims a (attempt 1, token 1), b (attempt 1, token 2)
            #6 a holder gone: ready
            #6 b holder gone: ready
            #6 bob starts epoch 6
            a ready since 0s, tried 1, last holder gone by bob
            refused STALE_EPOCH
            refused STALE_LEASE
            bob claims a (attempt 2, token 3), b (attempt 2, token 4)
            2 leased"#]],
    );
}

// Fails under: leased tasks of a removed agent that are lost.
#[test]
fn i13_a_removed_agent_releases_its_tasks() {
    check(
        "bob can x; carol can x; alice makes a of x; bob takes; bob leaves; task a; carol takes",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a created: ready
            bob claims a (attempt 1, token 1)
            #7 a holder gone: ready
            #7 agent 2 removed
            a ready since 0s, tried 1, last holder gone by bob
            carol claims a (attempt 2, token 2)"#]],
    );
}

// Fails under: removal of an agent with assigned tasks: they would wait forever.
#[test]
fn i9_an_agent_with_assigned_tasks_cannot_be_removed() {
    check(
        "alice makes a for bob; bob leaves; bob takes; bob finishes a; bob leaves",
        expect![[r#"
        #3 a created: ready
        refused CONFLICT
        bob claims a (attempt 1, token 1)
        #5 a done
        #6 agent 2 removed"#]],
    );
}

// Fails under: a cancellation that the worker is not informed of.
#[test]
fn c9_a_cancelled_task_is_reported_to_its_worker() {
    check(
        "bob can x; alice makes a of x; bob takes; alice cancels a because no_longer_needed; bob beats a; bob finishes a with 1; bob flunks a; task a; \
         alice cancels a; bob cancels a; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 a cancelled
            bob is notified: a (token 1) cancelled: no longer needed
            refused CANCELLED
            refused CANCELLED
            refused CANCELLED
            a cancelled, tried 1
            accepted already by #6
            refused FORBIDDEN
            1 cancelled"#]],
    );
}

// Fails under: a cancellation by any agent.
#[test]
fn c9_the_creator_or_a_coordinator_can_cancel_a_task() {
    check(
        "alice makes a of x + b of x + c of x; bob cancels a; alice cancels a; bob leads; bob cancels b; hub cancels c; hub cancels c; bob can x; alice makes d of x; bob takes; bob finishes d; alice cancels d",
        expect![[r#"
            #3 a created: ready
            #3 b created: ready
            #3 c created: ready
            refused FORBIDDEN
            #4 a cancelled
            #5 bob starts epoch 3
            #6 b cancelled
            #7 c cancelled
            accepted already by #7
            #8 bob starts epoch 3
            #9 d created: ready
            bob claims d (attempt 1, token 1)
            #11 d done
            refused CONFLICT"#]],
    );
}
