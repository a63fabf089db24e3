//! Leases of tasks: who may end one, and under which token.

use expect_test::expect;

use super::check;

// Fails under: tasks that go to whoever asks.
#[test]
fn c4_tasks_are_claimed_by_capability_or_by_name() {
    check(
        "bob can x; carol can y; alice makes a of x + b of y + c for carol + d of x for carol; bob takes 9; carol takes 9; alice takes 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a made: ready
            #5 b made: ready
            #5 c made: ready
            #5 d made: ready
            bob takes a (try 1, token 1)
            carol takes b (try 1, token 2), c (try 1, token 3), d (try 1, token 4)
            alice: no task to take"#]],
    );
}

// Fails under: types that a claim names ignored.
#[test]
fn c4_a_claim_may_name_its_types() {
    check(
        "bob can x,y; alice makes a of x + b of y; bob takes 9 on y; bob takes 9 on z; bob takes 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: ready
            bob takes b (try 1, token 1)
            bob: no task to take
            bob takes a (try 1, token 2)"#]],
    );
}

// Fails under: priority ignored, or 1 to 10 not mapped in order.
#[test]
fn c4_higher_priority_is_taken_first() {
    check(
        "bob can x,y; alice makes a of x priority 1 + b of y priority 10 + c of x priority 5 + d of y priority 5 + e of x priority 6; bob takes 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: ready
            #4 c made: ready
            #4 d made: ready
            #4 e made: ready
            bob takes b (try 1, token 1), e (try 1, token 2), c (try 1, token 3), d (try 1, token 4), a (try 1, token 5)"#]],
    );
}

// Fails under: a token that is given out twice, or that goes back over a restart.
#[test]
fn i8_every_lease_has_a_higher_token() {
    check(
        "bob can x; alice makes a of x; bob takes; bob returns a; bob takes; restart; bob starts; bob takes; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            bob takes a (try 1, token 1)
            #6 a released: ready
            bob takes a (try 1, token 2)
            #8 a holder gone: ready
            #8 bob starts epoch 8
            bob takes a (try 2, token 3)
            a leased by bob under token 3, tried 2, last holder gone by bob"#]],
    );
}

// Fails under: a stale token accepted.
#[test]
fn i8_a_lower_token_is_refused_and_changes_nothing() {
    check(
        "bob can x; carol can x; alice makes a of x; bob takes; +31s; carol takes; bob finishes a#1 with 1; bob flunks a#1; bob beats a#1; bob returns a#1; \
         task a; carol finishes a with 2; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a made: ready
            bob takes a (try 1, token 1)
            #7 a lapsed: ready
            carol takes a (try 2, token 2)
            refused STALE_LEASE
            refused STALE_LEASE
            refused STALE_LEASE
            refused STALE_LEASE
            a leased by carol under token 2, tried 2, last lapsed by bob
            #9 a done
            a done by carol under token 2, tried 2, last lapsed by bob, result 2"#]],
    );
}

// Fails under: a failure that is repeated although somebody else has the task, or had it.
#[test]
fn i8_a_stale_holder_hears_no_ok_for_its_failure() {
    check(
        "bob can x; carol can x; alice makes a of x; bob takes; bob flunks a; bob flunks a#1; +1s; carol takes; bob flunks a#1; \
         bob returns a#1; carol returns a; bob flunks a#1; carol takes; carol finishes a with 2; bob flunks a#1; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a made: ready
            bob takes a (try 1, token 1)
            #7 a failed: due at 1s
            accepted already by #7
            #8 a ready
            carol takes a (try 2, token 2)
            refused STALE_LEASE
            refused STALE_LEASE
            #10 a released: ready
            refused STALE_LEASE
            carol takes a (try 2, token 3)
            #12 a done
            refused STALE_LEASE
            a done by carol under token 3, tried 2, last failed by bob, result 2"#]],
    );
}

// Fails under: a second end accepted.
#[test]
fn i8_a_task_has_one_end_and_one_result() {
    check(
        "bob can x; alice makes a of x; bob takes; bob finishes a with 1; bob finishes a with 2; bob flunks a; bob finishes a with 1; task a; restart; bob finishes a with 3; bob finishes a with 1; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            bob takes a (try 1, token 1)
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

// Fails under: somebody else ending a task.
#[test]
fn i8_only_the_holder_ends_a_task() {
    check(
        "bob can x; alice makes a of x; bob takes; carol finishes a; alice flunks a; hub finishes a with 1; task a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            bob takes a (try 1, token 1)
            refused FORBIDDEN
            refused FORBIDDEN
            #6 a done
            a done by bob under token 1, tried 1, result 1"#]],
    );
}

// Fails under: a task that never was accepted.
#[test]
fn i8_what_never_was_is_not_found() {
    check(
        "bob finishes nothing; bob beats nothing; alice cancels nothing; alice makes a of x; bob finishes a; bob beats a",
        expect![[r#"
            refused NOT_FOUND
            refused NOT_FOUND
            refused NOT_FOUND
            #3 a made: ready
            refused STALE_LEASE
            refused STALE_LEASE"#]],
    );
}

// Fails under: an end in a refused commit that stays.
#[test]
fn i8_an_end_is_part_of_its_commit() {
    check(
        "bob can x; alice makes a of x + b of x needs a; bob takes; bob finishes a with 1 & puts k=1 expecting 7; task a; task b; \
         bob finishes a with 1 & puts k=1 expecting 0 & sends m1 to carol; task b",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: blocked
            bob takes a (try 1, token 1)
            refused VERSION_CONFLICT, now at v0
            a leased by bob under token 1, tried 1
            b blocked, needs a
            #6 a done
            #6 b ready
            #6 k is at v1
            #6 m1 goes to carol
            b ready since 0s"#]],
    );
}

// Fails under: a refusal that names only the first stale item.
#[test]
fn i8_a_refusal_names_every_stale_task() {
    check(
        "bob can x; alice makes a of x + b of x; bob takes 2; +31s; bob finishes a & finishes b & beats a",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: ready
            bob takes a (try 1, token 1), b (try 1, token 2)
            #6 a lapsed: ready
            #6 b lapsed: ready
            refused STALE_LEASE, op 0 a STALE_LEASE, op 1 b STALE_LEASE, op 2 a STALE_LEASE"#]],
    );
}

// Fails under: a repeated claim that takes more.
#[test]
fn i3_a_repeated_claim_has_the_same_leases() {
    check(
        "bob can x; alice makes a of x saying 1 + b of x; bob takes with key k; bob takes with key k; restart; bob takes with key k; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: ready
            bob takes a (try 1, token 1)
            the same answer as #5
            bob takes a (try 1, token 1)
            the same answer as #5
            bob takes a (try 1, token 1)
            1 ready, 1 leased"#]],
    );
}

// Fails under: an agent claiming for another.
#[test]
fn c4_an_agent_claims_for_itself() {
    check(
        "bob can x; alice makes a of x; bob takes 300; hub takes on x",
        expect![[r#"
        #3 bob starts epoch 3
        #4 a made: ready
        bob takes a (try 1, token 1)
        refused NOT_FOUND"#]],
    );
}

// Fails under: tasks of a new start kept by the old one.
#[test]
fn i13_a_new_start_gives_its_tasks_back_at_once() {
    check(
        "bob can x; alice makes a of x + b of x; bob takes 2; bob starts; task a; old bob finishes a; bob finishes a; bob takes 2; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: ready
            bob takes a (try 1, token 1), b (try 1, token 2)
            #6 a holder gone: ready
            #6 b holder gone: ready
            #6 bob starts epoch 6
            a ready since 0s, tried 1, last holder gone by bob
            refused STALE_EPOCH
            refused STALE_LEASE
            bob takes a (try 2, token 3), b (try 2, token 4)
            2 leased"#]],
    );
}

// Fails under: the tasks of a removed agent lost.
#[test]
fn i13_a_removed_agent_gives_its_tasks_back() {
    check(
        "bob can x; carol can x; alice makes a of x; bob takes; bob leaves; task a; carol takes",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a made: ready
            bob takes a (try 1, token 1)
            #7 a holder gone: ready
            #7 agent 2 leaves
            a ready since 0s, tried 1, last holder gone by bob
            carol takes a (try 2, token 2)"#]],
    );
}

// Fails under: an agent removed that tasks are named for: they would wait for ever.
#[test]
fn i9_an_agent_with_tasks_of_its_own_stays() {
    check(
        "alice makes a for bob; bob leaves; bob takes; bob finishes a; bob leaves",
        expect![[r#"
        #3 a made: ready
        refused CONFLICT
        bob takes a (try 1, token 1)
        #5 a done
        #6 agent 2 leaves"#]],
    );
}

// Fails under: cancel that the worker does not hear of.
#[test]
fn c9_a_cancelled_task_is_refused_to_its_worker() {
    check(
        "bob can x; alice makes a of x; bob takes; alice cancels a because no_longer_needed; bob beats a; bob finishes a with 1; bob flunks a; task a; \
         alice cancels a; bob cancels a; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            bob takes a (try 1, token 1)
            #6 a cancelled
            refused CANCELLED
            refused CANCELLED
            refused CANCELLED
            a cancelled, tried 1
            accepted already by #6
            refused FORBIDDEN
            1 cancelled"#]],
    );
}

// Fails under: anybody cancelling anything.
#[test]
fn c9_whoever_made_a_task_or_leads_may_cancel_it() {
    check(
        "alice makes a of x + b of x + c of x; bob cancels a; alice cancels a; bob leads; bob cancels b; hub cancels c; hub cancels c; bob can x; alice makes d of x; bob takes; bob finishes d; alice cancels d",
        expect![[r#"
            #3 a made: ready
            #3 b made: ready
            #3 c made: ready
            refused FORBIDDEN
            #4 a cancelled
            #5 bob starts epoch 3
            #6 b cancelled
            #7 c cancelled
            accepted already by #7
            #8 bob starts epoch 3
            #9 d made: ready
            bob takes d (try 1, token 1)
            #11 d done
            refused CONFLICT"#]],
    );
}
