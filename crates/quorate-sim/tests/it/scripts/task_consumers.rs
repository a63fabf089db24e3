//! Task consumers: waiting claims and streams receive tasks in the commit that makes them ready.

use expect_test::expect;

use super::check;

// Fails under: a ready task that is not dispatched although a consumer waits.
#[test]
fn c4_a_waiting_claim_leases_a_task_in_the_commit_that_creates_it() {
    check(
        "bob can x; bob awaits 3 as w1; alice makes a of x + b of x; alice makes c of x; task c",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to claim
            #4 a created: ready
            #4 b created: ready
            w1 receives a (attempt 1, token 1)
            w1 receives b (attempt 1, token 2)
            #5 c created: ready
            c ready since 0s"#]],
    );
}

// Fails under: dependents that are not dispatched when they become ready.
#[test]
fn c4_a_task_that_becomes_ready_goes_to_a_waiting_consumer() {
    check(
        "bob can x; carol can x; alice makes a of x + b of x needs a + c of x needs a; bob takes; bob serves 1 as b1; carol serves 1 as c1; bob finishes a; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a created: ready
            #5 b created: blocked
            #5 c created: blocked
            bob claims a (attempt 1, token 1)
            bob: no task to claim
            carol: no task to claim
            #7 a done
            #7 b ready
            #7 c ready
            b1 receives b (attempt 1, token 2)
            c1 receives c (attempt 1, token 3)
            2 leased, 1 done"#]],
    );
}

// Fails under: one consumer that receives every task.
#[test]
fn c4_task_consumers_take_turns() {
    check(
        "bob can x; carol can x; bob serves 9 as b1; carol serves 9 as c1; alice makes a of x + b of x + c of x + d of x",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            bob: no task to claim
            carol: no task to claim
            #5 a created: ready
            #5 b created: ready
            #5 c created: ready
            #5 d created: ready
            b1 receives a (attempt 1, token 1)
            c1 receives b (attempt 1, token 2)
            b1 receives c (attempt 1, token 3)
            c1 receives d (attempt 1, token 4)"#]],
    );
}

// Fails under: credit that is not spent, or a grant that does not dispatch ready tasks.
#[test]
fn c4_credit_is_spent_and_granted() {
    check(
        "bob can x; bob serves 1 as b1; alice makes a of x + b of x + c of x; bob finishes a & grants 1 to b1; bob grants 5 to b1; alice makes d of x",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to claim
            #4 a created: ready
            #4 b created: ready
            #4 c created: ready
            b1 receives a (attempt 1, token 1)
            #5 a done
            b1 receives b (attempt 1, token 2)
            b1 receives c (attempt 1, token 3)
            #7 d created: ready
            b1 receives d (attempt 1, token 4)"#]],
    );
}

// Fails under: a closed claim that receives tasks.
#[test]
fn c4_a_closed_claim_receives_nothing() {
    check(
        "bob can x; bob serves 9 as b1; bob closes b1; alice makes a of x; task a",
        expect![[r#"
        #3 bob starts epoch 3
        bob: no task to claim
        bob: nothing to write
        #4 a created: ready
        a ready since 0s"#]],
    );
}

// Fails under: a new claim that overtakes waiting consumers.
#[test]
fn c4_waiting_consumers_precede_a_new_claim() {
    check(
        "bob can x; carol can x; alice makes a of x; carol takes; bob serves 1 as b1; carol returns a & takes",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 a created: ready
            carol claims a (attempt 1, token 1)
            bob: no task to claim
            #7 a released: ready
            carol: no task to claim
            b1 receives a (attempt 1, token 2)"#]],
    );
}

// Fails under: a higher priority that is not dispatched first.
#[test]
fn c4_priority_precedes_type_for_waiting_consumers() {
    check(
        "bob can x,y; bob serves 1 as b1; alice makes a of x priority 2 + b of y priority 9; bob grants 1 to b1",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to claim
            #4 a created: ready
            #4 b created: ready
            b1 receives b (attempt 1, token 1)
            b1 receives a (attempt 1, token 2)"#]],
    );
}

// Fails under: a consumer that is not notified of a lost task.
#[test]
fn c9_a_consumer_is_notified_immediately_that_its_task_was_cancelled() {
    check(
        "bob can x; bob serves 2 as b1; alice makes a of x + b of x timeout 5s lease 3s; alice cancels a; +3s; bob grants 1 to b1; +2s; +30s",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to claim
            #4 a created: ready
            #4 b created: ready
            b1 receives a (attempt 1, token 1)
            b1 receives b (attempt 1, token 2)
            #5 a cancelled
            b1 loses a (token 1, cancelled)
            bob is notified: a (token 1) cancelled
            #6 b lapsed: ready
            b1 loses b (token 2, lapsed)
            b1 receives b (attempt 2, token 3)
            #8 b lapsed: ready
            b1 loses b (token 3, lapsed)"#]],
    );
}

// Fails under: claims of an earlier epoch that stay active.
#[test]
fn i13_a_new_epoch_dismisses_task_consumers() {
    check(
        "bob can x; bob serves 9 as b1; alice makes a of x; bob starts; alice makes b of x; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to claim
            #4 a created: ready
            b1 receives a (attempt 1, token 1)
            #5 a holder gone: ready
            #5 bob starts epoch 5
            b1 loses a (token 1, holder gone)
            b1 is dismissed
            #6 b created: ready
            2 ready"#]],
    );
}

// Fails under: a returned task that is not dispatched to a waiting consumer.
#[test]
fn i9_an_expired_task_lease_goes_to_a_waiting_consumer() {
    check(
        "bob can x; carol can x; alice makes a of x; bob takes; carol serves 1 as c1; +30s",
        expect![[r#"
        #3 bob starts epoch 3
        #4 carol starts epoch 4
        #5 a created: ready
        bob claims a (attempt 1, token 1)
        carol: no task to claim
        #7 a lapsed: ready
        c1 receives a (attempt 2, token 2)"#]],
    );
}

// Fails under: starvation of lower priorities within a type.
#[test]
fn c4_after_60_s_a_lower_priority_task_is_served() {
    check(
        "bob can x; alice makes low of x priority 1 + a of x priority 9 + b of x priority 9; +59s; bob takes; +1s; bob takes; bob takes",
        expect![[r#"
            #3 bob starts epoch 3
            #4 low created: ready
            #4 a created: ready
            #4 b created: ready
            bob claims a (attempt 1, token 1)
            bob claims low (attempt 1, token 2)
            bob claims b (attempt 1, token 3)"#]],
    );
}

// Fails under: starvation of lower priorities across types.
#[test]
fn c4_after_60_s_a_lower_priority_task_of_another_type_is_served() {
    check(
        "bob can x,y; alice makes low of y priority 1 + a of x priority 9 + b of x priority 9; +59s; bob takes; +1s; bob takes; bob takes",
        expect![[r#"
            #3 bob starts epoch 3
            #4 low created: ready
            #4 a created: ready
            #4 b created: ready
            bob claims a (attempt 1, token 1)
            bob claims low (attempt 1, token 2)
            bob claims b (attempt 1, token 3)"#]],
    );
}

// Fails under: tasks dispatched across spaces.
#[test]
fn i16_tasks_stay_in_their_space() {
    check(
        "bob can x; bob serves 9 as b1; alice makes a of x; in team; bob can x; bob takes; bob finishes a; alice makes a of x; bob takes; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to claim
            #4 a created: ready
            b1 receives a (attempt 1, token 1)
            #3 bob starts epoch 3
            bob: no task to claim
            refused NOT_FOUND
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            1 leased"#]],
    );
}
