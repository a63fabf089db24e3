//! D8: deadlocks across requests, tasks and locks are detected within a second; waits without a cycle are left alone.

use expect_test::expect;

use super::check;

/// Chain of requests from alice to bob, carol, dora and back to alice.
const CHAIN: &str = "hub registers dora; alice asks q1 to bob notifying a; bob claims; bob asks q2 to carol notifying b upon q1; \
                     carol claims; carol asks q3 to dora notifying c upon q2; dora claims; dora asks q4 to alice notifying d upon q3";

// Fails under: a check that rejects any recipient already in the chain; an agent that can still claim work taken for
// blocked.
#[test]
fn d8_a_request_chain_back_to_its_start_is_no_deadlock() {
    check(
        &format!(
            "silently {}; alice claims; +2s; alice answers q4 saying 4 & acks q4; dora answers q3 saying 3 & acks q3; \
             carol answers q2 saying 2 & acks q2; bob answers q1 saying 1 & acks q1; +2s",
            CHAIN.replace("; ", "; silently ")
        ),
        expect![[r#"
            alice claims q4 (attempt 1, token 4)
            #12 answer from alice
            #12 request.answered q4: answered; alice answered
            #12 q4 of alice acked
            d receives answer 4 from alice (#12)
            #13 answer from dora
            #13 request.answered q3: answered; dora answered
            #13 q3 of dora acked
            c receives answer 3 from dora (#13)
            #14 answer from carol
            #14 request.answered q2: answered; carol answered
            #14 q2 of carol acked
            b receives answer 2 from carol (#14)
            #15 answer from bob
            #15 request.answered q1: answered; bob answered
            #15 q1 of bob acked
            a receives answer 1 from bob (#15)"#]],
    );
}

// Fails under: requests missing in the wait-for graph; a cycle detected later than a second after it formed.
#[test]
fn d8_a_request_chain_in_which_every_agent_is_blocked_is_a_deadlock() {
    check(
        &format!(
            "silently {}; +999ms; +1ms; request q4; inbox alice; why q1",
            CHAIN.replace("; ", "; silently ")
        ),
        expect![[r#"
            #11 request.failed q4: failed DEADLOCK (dora waits for an answer of alice, alice waits for an answer of bob, bob waits for an answer of carol, carol waits for an answer of dora); alice
            #11 q4 of alice purged
            #11 wait aborted: dora for an answer of alice, alice for an answer of bob, bob for an answer of carol, carol for an answer of dora
            d is refused DEADLOCK: dora for an answer of alice, alice for an answer of bob, bob for an answer of carol, carol for an answer of dora
            q4: failed DEADLOCK (dora waits for an answer of alice, alice waits for an answer of bob, bob waits for an answer of carol, carol waits for an answer of dora); alice; chain msg_0-10-0
            inbox of alice: 
            q1: leased to bob since 08:00:00 (attempt 1 of 4); if not acked by 08:00:30 it expires
            q1 awaits answers until 30s"#]],
    );
}

// Fails under: an agent that polls for work taken for blocked between two polls.
#[test]
fn d8_a_recently_delivered_request_is_no_deadlock() {
    check(
        "alice asks q1 to bob notifying a; bob claims; +400ms; bob asks q2 to alice notifying b upon q1; +100ms; alice claims; +5s",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            bob claims q1 (attempt 1, token 1)
            #5 q2 sent to alice
            #5 request.made q2: waiting; alice
            alice claims q2 (attempt 1, token 2)"#]],
    );
}

// Fails under: a wait that blocks unrelated work of the same agent.
#[test]
fn d8_an_agent_with_other_work_in_progress_is_not_blocked() {
    check(
        "alice asks q1 to bob notifying a; alice sends m1 to bob; bob claims 2; bob asks q2 to alice notifying b; +2s; bob acks m1; +1s",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            #4 m1 sent to bob
            bob claims q1 (attempt 1, token 1), m1 (attempt 1, token 2)
            #6 q2 sent to alice
            #6 request.made q2: waiting; alice
            #7 m1 of bob acked
            #8 request.failed q2: failed DEADLOCK (bob waits for an answer of alice, alice waits for an answer of bob); alice
            #8 q2 of alice purged
            #8 wait aborted: bob for an answer of alice, alice for an answer of bob
            b is refused DEADLOCK: bob for an answer of alice, alice for an answer of bob"#]],
    );
}

// Fails under: separate wait-for graphs for requests and locks.
#[test]
fn d8_a_cycle_of_a_request_and_a_lock_is_detected() {
    check(
        "alice locks x; alice asks q1 to bob notifying a; bob claims; bob locks x within q1 as b; +1s; alice unlocks x",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            #4 q1 sent to bob
            #4 request.made q1: waiting; bob
            bob claims q1 (attempt 1, token 1)
            bob is queued
            #6 wait aborted: bob for lock x, alice for an answer of bob
            b is refused DEADLOCK: bob for lock x, alice for an answer of bob
            #7 lock.released x: free"#]],
    );
}

// Fails under: tasks or their dependencies missing in the wait-for graph.
#[test]
fn d8_a_cycle_of_a_request_a_lock_and_a_task_is_detected() {
    check(
        "bob can w; carol can v; hub makes t1 of w + t2 of v needs t1; bob takes; alice locks x; alice needs t2 as a; \
         bob asks q1 to carol notifying b; carol claims; carol locks x within q1 as c; +1s; alice unlocks x; locks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 t1 created: ready
            #5 t2 created: blocked
            bob claims t1 (attempt 1, token 1)
            #7 lock.granted x: held by alice with fence 1
            alice is queued
            #8 q1 sent to carol
            #8 request.made q1: waiting; carol
            carol claims q1 (attempt 1, token 2)
            carol is queued
            #10 wait aborted: carol for lock x, alice for task t2, bob for an answer of carol
            c is refused DEADLOCK: carol for lock x, alice for task t2, bob for an answer of carol
            #11 lock.released x: free
            lock x for 1: free"#]],
    );
}

// Fails under: a task assigned to a blocked agent taken for one that another agent can claim.
#[test]
fn d8_a_task_assigned_to_a_waiting_agent_closes_a_cycle() {
    check(
        "alice asks q1 to bob notifying a; bob claims; hub makes t1 of w for alice; bob needs t1 within q1 as b; +1s; +1s",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            bob claims q1 (attempt 1, token 1)
            #5 t1 created: ready
            bob is queued
            #6 wait aborted: bob for task t1, alice for an answer of bob
            b is refused DEADLOCK: bob for task t1, alice for an answer of bob"#]],
    );
}

// Fails under: a wait for a task that ends before the task does, or with another task.
#[test]
fn d8_a_consumer_is_notified_when_the_awaited_task_ends() {
    check(
        "bob can w; hub makes t1 of w + t2 of w; alice needs t1 as a; bob takes 2; bob finishes t2; bob finishes t1; \
         alice needs t1 as b; alice needs nothing as c; +5s",
        expect![[r#"
            #3 bob starts epoch 3
            #4 t1 created: ready
            #4 t2 created: ready
            alice is queued
            bob claims t1 (attempt 1, token 1), t2 (attempt 1, token 2)
            #6 t2 done
            #7 t1 done
            a is notified that t1 ended
            alice: nothing to write
            refused NOT_FOUND"#]],
    );
}

// Fails under: a wait for a task that survives a new registration of the agent.
#[test]
fn d8_a_new_epoch_ends_waits_for_tasks() {
    check(
        "bob can w; hub makes t1 of w; alice needs t1 as a; alice starts; bob takes; bob finishes t1; alice needs t1 as b; \
         hub makes t2 of w; alice needs t2 as c; alice closes c; bob takes; bob finishes t2",
        expect![[r#"
            #3 bob starts epoch 3
            #4 t1 created: ready
            alice is queued
            #5 alice starts epoch 5
            a is dismissed
            bob claims t1 (attempt 1, token 1)
            #7 t1 done
            alice: nothing to write
            #8 t2 created: ready
            alice is queued
            alice: nothing to write
            bob claims t2 (attempt 1, token 2)
            #10 t2 done"#]],
    );
}
