//! D8: circles of requests, tasks and locks are found within a second; what only looks like one is left alone.

use expect_test::expect;

use super::check;

/// The seed's chain: alice asks bob, who asks carol, who asks dora, who asks alice.
const CHAIN: &str = "hub registers dora; alice asks q1 to bob told a; bob claims; bob asks q2 to carol told b upon q1; \
                     carol claims; carol asks q3 to dora told c upon q2; dora claims; dora asks q4 to alice told d upon q3";

// Fails under: "the recipient is in the chain already" as the test; an agent that takes more taken for stuck.
#[test]
fn d8_the_chain_of_the_seed_works() {
    check(
        &format!(
            "silently {}; alice claims; +2s; alice answers q4 saying 4 & acks q4; dora answers q3 saying 3 & acks q3; \
             carol answers q2 saying 2 & acks q2; bob answers q1 saying 1 & acks q1; +2s",
            CHAIN.replace("; ", "; silently ")
        ),
        expect![[r#"
            alice takes q4 (try 1, token 4)
            #12 an answer by alice
            #12 request.answered q4: answered; alice answered
            #12 q4 of alice acked
            d hears 4 from alice (#12)
            #13 an answer by dora
            #13 request.answered q3: answered; dora answered
            #13 q3 of dora acked
            c hears 3 from dora (#13)
            #14 an answer by carol
            #14 request.answered q2: answered; carol answered
            #14 q2 of carol acked
            b hears 2 from carol (#14)
            #15 an answer by bob
            #15 request.answered q1: answered; bob answered
            #15 q1 of bob acked
            a hears 1 from bob (#15)"#]],
    );
}

// Fails under: requests left out of the graph; a circle found later than a second after it closed.
#[test]
fn d8_a_chain_that_nobody_can_go_on_with_is_a_circle() {
    check(
        &format!(
            "silently {}; +999ms; +1ms; request q4; inbox alice; why q1",
            CHAIN.replace("; ", "; silently ")
        ),
        expect![[r#"
            #11 request.failed q4: failed DEADLOCK (dora waits for an answer of alice, alice waits for an answer of bob, bob waits for an answer of carol, carol waits for an answer of dora); alice
            #11 q4 of alice purged
            #11 wait called off: dora for an answer of alice, alice for an answer of bob, bob for an answer of carol, carol for an answer of dora
            d is refused DEADLOCK: dora for an answer of alice, alice for an answer of bob, bob for an answer of carol, carol for an answer of dora
            q4: failed DEADLOCK (dora waits for an answer of alice, alice waits for an answer of bob, bob waits for an answer of carol, carol waits for an answer of dora); alice; chain msg_0-10-0
            inbox of alice: 
            q1: leased to bob since 08:00:00 (attempt 1 of 4); if not acked by 08:00:30 it expires
            q1 is waited for until 30s"#]],
    );
}

// Fails under: whoever asks for work again and again taken for stuck between two asks.
#[test]
fn d8_a_question_that_came_a_moment_ago_is_nobodys_circle() {
    check(
        "alice asks q1 to bob told a; bob claims; +400ms; bob asks q2 to alice told b upon q1; +100ms; alice claims; +5s",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            bob takes q1 (try 1, token 1)
            #5 q2 goes to alice
            #5 request.made q2: waiting; alice
            alice takes q2 (try 1, token 2)"#]],
    );
}

// Fails under: a wait counted against work that its agent does beside it.
#[test]
fn d8_an_agent_with_two_hands_is_not_stuck() {
    check(
        "alice asks q1 to bob told a; alice sends m1 to bob; bob claims 2; bob asks q2 to alice told b; +2s; bob acks m1; +1s",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            #4 m1 goes to bob
            bob takes q1 (try 1, token 1), m1 (try 1, token 2)
            #6 q2 goes to alice
            #6 request.made q2: waiting; alice
            #7 m1 of bob acked
            #8 request.failed q2: failed DEADLOCK (bob waits for an answer of alice, alice waits for an answer of bob); alice
            #8 q2 of alice purged
            #8 wait called off: bob for an answer of alice, alice for an answer of bob
            b is refused DEADLOCK: bob for an answer of alice, alice for an answer of bob"#]],
    );
}

// Fails under: requests and locks in graphs of their own.
#[test]
fn d8_a_circle_of_a_request_and_a_lock_is_found() {
    check(
        "alice locks x; alice asks q1 to bob told a; bob claims; bob locks x within q1 as b; +1s; alice unlocks x",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            #4 q1 goes to bob
            #4 request.made q1: waiting; bob
            bob takes q1 (try 1, token 1)
            bob waits in line
            #6 wait called off: bob for lock x, alice for an answer of bob
            b is refused DEADLOCK: bob for lock x, alice for an answer of bob
            #7 lock.released x: free"#]],
    );
}

// Fails under: tasks left out of the graph, or their dependencies.
#[test]
fn d8_a_circle_of_a_request_a_lock_and_a_task_is_found() {
    check(
        "bob can w; carol can v; hub makes t1 of w + t2 of v needs t1; bob takes; alice locks x; alice needs t2 as a; \
         bob asks q1 to carol told b; carol claims; carol locks x within q1 as c; +1s; alice unlocks x; locks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 t1 made: ready
            #5 t2 made: blocked
            bob takes t1 (try 1, token 1)
            #7 lock.granted x: held by alice under 1
            alice waits in line
            #8 q1 goes to carol
            #8 request.made q1: waiting; carol
            carol takes q1 (try 1, token 2)
            carol waits in line
            #10 wait called off: carol for lock x, alice for task t2, bob for an answer of carol
            c is refused DEADLOCK: carol for lock x, alice for task t2, bob for an answer of carol
            #11 lock.released x: free
            lock x for 1: free"#]],
    );
}

// Fails under: a task that is for an agent that waits taken for one that somebody will take.
#[test]
fn d8_a_task_for_somebody_who_waits_closes_a_circle() {
    check(
        "alice asks q1 to bob told a; bob claims; hub makes t1 of w for alice; bob needs t1 within q1 as b; +1s; +1s",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            bob takes q1 (try 1, token 1)
            #5 t1 made: ready
            bob waits in line
            #6 wait called off: bob for task t1, alice for an answer of bob
            b is refused DEADLOCK: bob for task t1, alice for an answer of bob"#]],
    );
}

// Fails under: waiting for a task ended by anything else than its end; by another task's end.
#[test]
fn d8_whoever_waits_for_a_task_hears_when_it_is_over() {
    check(
        "bob can w; hub makes t1 of w + t2 of w; alice needs t1 as a; bob takes 2; bob finishes t2; bob finishes t1; \
         alice needs t1 as b; alice needs nothing as c; +5s",
        expect![[r#"
            #3 bob starts epoch 3
            #4 t1 made: ready
            #4 t2 made: ready
            alice waits in line
            bob takes t1 (try 1, token 1), t2 (try 1, token 2)
            #6 t2 done
            #7 t1 done
            a hears that t1 is over
            alice: nothing to write
            refused NOT_FOUND"#]],
    );
}

// Fails under: a wait for a task that a new start of the agent goes on with.
#[test]
fn d8_a_new_start_waits_for_no_task() {
    check(
        "bob can w; hub makes t1 of w; alice needs t1 as a; alice starts; bob takes; bob finishes t1; alice needs t1 as b; \
         hub makes t2 of w; alice needs t2 as c; alice closes c; bob takes; bob finishes t2",
        expect![[r#"
            #3 bob starts epoch 3
            #4 t1 made: ready
            alice waits in line
            #5 alice starts epoch 5
            a is sent away
            bob takes t1 (try 1, token 1)
            #7 t1 done
            alice: nothing to write
            #8 t2 made: ready
            alice waits in line
            alice: nothing to write
            bob takes t2 (try 1, token 2)
            #10 t2 done"#]],
    );
}
