//! Whoever waits for tasks gets them in the very commit that makes them ready.

use expect_test::expect;

use super::check;

// Fails under: a task that waits although somebody waits for it.
#[test]
fn c4_a_waiting_claim_gets_a_task_in_the_commit_that_makes_it() {
    check(
        "bob can x; bob awaits 3 as w1; alice makes a of x + b of x; alice makes c of x; task c",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to take
            #4 a made: ready
            #4 b made: ready
            w1 gets a (try 1, token 1)
            w1 gets b (try 1, token 2)
            #5 c made: ready
            c ready since 0s"#]],
    );
}

// Fails under: dependents not handed over when they become ready.
#[test]
fn c4_a_task_that_becomes_ready_goes_to_whoever_waits() {
    check(
        "bob can x; carol can x; alice makes a of x + b of x needs a + c of x needs a; bob takes; bob serves 1 as b1; carol serves 1 as c1; bob finishes a; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a made: ready
            #5 b made: blocked
            #5 c made: blocked
            bob takes a (try 1, token 1)
            bob: no task to take
            carol: no task to take
            #7 a done
            #7 b ready
            #7 c ready
            b1 gets b (try 1, token 2)
            c1 gets c (try 1, token 3)
            2 leased, 1 done"#]],
    );
}

// Fails under: one waiting agent getting everything.
#[test]
fn c4_those_who_wait_take_turns() {
    check(
        "bob can x; carol can x; bob serves 9 as b1; carol serves 9 as c1; alice makes a of x + b of x + c of x + d of x",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            bob: no task to take
            carol: no task to take
            #5 a made: ready
            #5 b made: ready
            #5 c made: ready
            #5 d made: ready
            b1 gets a (try 1, token 1)
            c1 gets b (try 1, token 2)
            b1 gets c (try 1, token 3)
            c1 gets d (try 1, token 4)"#]],
    );
}

// Fails under: credit not taken, or a grant that finds nothing.
#[test]
fn c4_credit_is_spent_and_granted() {
    check(
        "bob can x; bob serves 1 as b1; alice makes a of x + b of x + c of x; bob finishes a & grants 1 to b1; bob grants 5 to b1; alice makes d of x",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to take
            #4 a made: ready
            #4 b made: ready
            #4 c made: ready
            b1 gets a (try 1, token 1)
            #5 a done
            b1 gets b (try 1, token 2)
            b1 gets c (try 1, token 3)
            #7 d made: ready
            b1 gets d (try 1, token 4)"#]],
    );
}

// Fails under: a closed claim that gets tasks.
#[test]
fn c4_a_closed_claim_gets_nothing() {
    check(
        "bob can x; bob serves 9 as b1; bob closes b1; alice makes a of x; task a",
        expect![[r#"
        #3 bob starts epoch 3
        bob: no task to take
        bob: nothing to write
        #4 a made: ready
        a ready since 0s"#]],
    );
}

// Fails under: somebody who asks overtaking those who wait.
#[test]
fn c4_whoever_waits_comes_before_whoever_asks() {
    check(
        "bob can x; carol can x; alice makes a of x; carol takes; bob serves 1 as b1; carol returns a & takes",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a made: ready
            carol takes a (try 1, token 1)
            bob: no task to take
            #7 a released: ready
            carol: no task to take
            b1 gets a (try 1, token 2)"#]],
    );
}

// Fails under: the higher priority not going first to those who wait.
#[test]
fn c4_priority_rules_over_types_for_those_who_wait() {
    check(
        "bob can x,y; bob serves 1 as b1; alice makes a of x priority 2 + b of y priority 9; bob grants 1 to b1",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to take
            #4 a made: ready
            #4 b made: ready
            b1 gets b (try 1, token 1)
            b1 gets a (try 1, token 2)"#]],
    );
}

// Fails under: a waiting agent that is not told of what it lost.
#[test]
fn c9_whoever_waits_is_told_at_once_that_its_task_was_cancelled() {
    check(
        "bob can x; bob serves 2 as b1; alice makes a of x + b of x timeout 5s lease 3s; alice cancels a; +3s; bob grants 1 to b1; +2s; +30s",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to take
            #4 a made: ready
            #4 b made: ready
            b1 gets a (try 1, token 1)
            b1 gets b (try 1, token 2)
            #5 a cancelled
            b1 loses a (token 1, cancelled)
            #6 b lapsed: ready
            b1 loses b (token 2, lapsed)
            b1 gets b (try 2, token 3)
            #8 b lapsed: ready
            b1 loses b (token 3, lapsed)"#]],
    );
}

// Fails under: claims of an old start that go on.
#[test]
fn i13_a_new_start_sends_its_claims_away() {
    check(
        "bob can x; bob serves 9 as b1; alice makes a of x; bob starts; alice makes b of x; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to take
            #4 a made: ready
            b1 gets a (try 1, token 1)
            #5 a holder gone: ready
            #5 bob starts epoch 5
            b1 loses a (token 1, holder gone)
            b1 is sent away
            #6 b made: ready
            2 ready"#]],
    );
}

// Fails under: what comes back not going to whoever waits.
#[test]
fn i9_what_lapses_goes_to_whoever_waits() {
    check(
        "bob can x; carol can x; alice makes a of x; bob takes; carol serves 1 as c1; +30s",
        expect![[r#"
        #3 bob starts epoch 3
        #4 carol starts epoch 4
        #5 a made: ready
        bob takes a (try 1, token 1)
        carol: no task to take
        #7 a lapsed: ready
        c1 gets a (try 2, token 2)"#]],
    );
}

// Fails under: low priorities starving, within a type.
#[test]
fn c4_after_60_s_a_lower_one_is_taken() {
    check(
        "bob can x; alice makes low of x priority 1 + a of x priority 9 + b of x priority 9; +59s; bob takes; +1s; bob takes; bob takes",
        expect![[r#"
            #3 bob starts epoch 3
            #4 low made: ready
            #4 a made: ready
            #4 b made: ready
            bob takes a (try 1, token 1)
            bob takes low (try 1, token 2)
            bob takes b (try 1, token 3)"#]],
    );
}

// Fails under: low priorities starving, across types.
#[test]
fn c4_after_60_s_a_lower_one_of_another_type_is_taken() {
    check(
        "bob can x,y; alice makes low of y priority 1 + a of x priority 9 + b of x priority 9; +59s; bob takes; +1s; bob takes; bob takes",
        expect![[r#"
            #3 bob starts epoch 3
            #4 low made: ready
            #4 a made: ready
            #4 b made: ready
            bob takes a (try 1, token 1)
            bob takes low (try 1, token 2)
            bob takes b (try 1, token 3)"#]],
    );
}

// Fails under: tasks of other spaces.
#[test]
fn i16_tasks_stay_in_their_space() {
    check(
        "bob can x; bob serves 9 as b1; alice makes a of x; in team; bob can x; bob takes; bob finishes a; alice makes a of x; bob takes; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to take
            #4 a made: ready
            b1 gets a (try 1, token 1)
            #3 bob starts epoch 3
            bob: no task to take
            refused NOT_FOUND
            #4 a made: ready
            bob takes a (try 1, token 1)
            1 leased"#]],
    );
}
