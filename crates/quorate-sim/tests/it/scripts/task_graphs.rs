//! Graphs of tasks: who waits for whom, and what a failure means.

use expect_test::expect;

use super::check;

// Fails under: every task made ready at once.
#[test]
fn c4_a_graph_is_made_in_one_commit_and_starts_with_what_needs_nothing() {
    check(
        "bob can x; alice makes a of x + b of x needs a + c of x needs a,b; tasks; bob takes 9; task b; task c",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: blocked
            #4 c made: blocked
            2 blocked, 1 ready
            bob takes a (try 1, token 1)
            b blocked, needs a
            c blocked, needs a,b"#]],
    );
}

// Fails under: dependents started by the first end instead of the last; or started twice.
#[test]
fn c4_a_task_starts_when_all_it_needs_is_done_and_only_once() {
    check(
        "bob can x; alice makes a of x + b of x + c of x needs a,b; bob takes 9; bob finishes a; task c; bob finishes b; task c; \
         bob takes 9; bob finishes c; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: ready
            #4 c made: blocked
            bob takes a (try 1, token 1), b (try 1, token 2)
            #6 a done
            c blocked, needs a,b
            #7 b done
            #7 c ready
            c ready since 0s
            bob takes c (try 1, token 3)
            #9 c done
            3 done"#]],
    );
}

// Fails under: dependencies by place instead of by id; an order of making required.
#[test]
fn i10_tasks_may_be_named_before_they_are_made_in_the_same_operation() {
    check(
        "bob can x; alice makes b of x needs a + a of x; bob takes 9; bob finishes a; bob takes 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 b made: blocked
            #4 a made: ready
            bob takes a (try 1, token 1)
            #6 a done
            #6 b ready
            bob takes b (try 1, token 2)"#]],
    );
}

// Fails under: a circle accepted, or not named.
#[test]
fn i10_a_circle_is_refused_and_named() {
    check(
        "alice makes a of x needs c + b of x needs a + c of x needs b; alice makes a of x needs a; tasks; alice makes a of x",
        expect![[r#"
            refused INVALID, circle: a for c, c for b, b for a
            refused INVALID, circle: a for a
            no tasks
            #3 a made: ready"#]],
    );
}

// Fails under: an unknown dependency taken for a satisfied one.
#[test]
fn i10_an_unknown_dependency_is_refused() {
    check(
        "alice makes a of x needs nowhere; tasks",
        expect![[r#"
        refused NOT_FOUND
        no tasks"#]],
    );
}

// Fails under: what is done before not counted: the task would wait for ever.
#[test]
fn i10_what_is_done_before_counts() {
    check(
        "bob can x; alice makes a of x; bob takes; bob finishes a; alice makes b of x needs a; task b",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            bob takes a (try 1, token 1)
            #6 a done
            #7 b made: ready
            b ready since 0s"#]],
    );
}

// Fails under: what failed before not looked at: the task would wait for ever.
#[test]
fn i10_what_failed_before_counts_at_once() {
    check(
        "bob can x; alice makes a of x; bob takes; bob flunks a hopelessly; alice makes b of x needs a + c of x needs b; \
         alice makes d of x needs a skipping; alice makes e of x needs a waiting; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            bob takes a (try 1, token 1)
            #6 a failed, tried 1, last hopeless by bob
            #7 b made: blocked
            #7 c made: blocked
            #7 b failed because of a
            #7 c failed because of b
            #8 d made: blocked
            #8 d ready without a
            #9 e made: blocked
            #9 e blocked, held by a
            1 blocked, 1 ready, 3 failed"#]],
    );
}

// Fails under: a failure that does not reach those that need the task, or not those behind them.
#[test]
fn c4_a_failure_goes_through_all_that_need_it() {
    check(
        "bob can x; alice makes a of x + b of x needs a + c of x needs b + d of x; bob takes; bob flunks a hopelessly because no_such_page; \
         task b; task c; task d; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: blocked
            #4 c made: blocked
            #4 d made: ready
            bob takes a (try 1, token 1)
            #6 a failed, tried 1, last hopeless by bob
            #6 b failed because of a
            #6 c failed because of b
            b failed because of a
            c failed because of b
            d ready since 0s
            1 ready, 3 failed"#]],
    );
}

// Fails under: skip starting a task while others that it needs are open.
#[test]
fn c4_skip_does_without_what_failed() {
    check(
        "bob can x; alice makes a of x + b of x + c of x needs a,b skipping; bob takes 9; bob flunks a hopelessly; task c; \
         bob finishes b; bob takes; bob finishes c with 3; task c",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: ready
            #4 c made: blocked
            bob takes a (try 1, token 1), b (try 1, token 2)
            #6 a failed, tried 1, last hopeless by bob
            c blocked, needs a,b
            #7 b done
            #7 c ready without a
            bob takes c (try 1, token 3)
            #9 c done
            c done by bob under token 3, tried 1, result 3"#]],
    );
}

// Fails under: wait forgetting what it waits for.
#[test]
fn c4_wait_stays_blocked_and_says_on_what() {
    check(
        "bob can x; alice makes a of x + b of x + c of x needs a,b waiting; bob takes 9; bob flunks a hopelessly; task c; \
         bob finishes b; task c; restart; task c; alice cancels c; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: ready
            #4 c made: blocked
            bob takes a (try 1, token 1), b (try 1, token 2)
            #6 a failed, tried 1, last hopeless by bob
            c blocked, needs a,b
            #7 b done
            #7 c blocked, held by a
            c blocked, held by a
            c blocked, held by a
            #8 c cancelled
            1 done, 1 failed, 1 cancelled"#]],
    );
}

// Fails under: partial taken for done.
#[test]
fn i10_partial_is_not_done() {
    check(
        "bob can x; alice makes a of x + b of x needs a + c of x needs a skipping; bob takes; bob finishes a with 1 partly; task a; task b; task c",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: blocked
            #4 c made: blocked
            bob takes a (try 1, token 1)
            #6 a partial
            #6 c ready without a
            #6 b failed because of a
            a partial by bob under token 1, tried 1, result 1
            b failed because of a
            c ready since 0s"#]],
    );
}

// Fails under: a cancelled task that starts those that need it.
#[test]
fn c4_cancelling_moves_dependents_by_their_policy() {
    check(
        "bob can x; alice makes a of x + b of x needs a + c of x needs a skipping + d of x needs a waiting; alice cancels a because late; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: blocked
            #4 c made: blocked
            #4 d made: blocked
            #5 a cancelled
            #5 c ready without a
            #5 d blocked, held by a
            #5 b failed because of a
            1 blocked, 1 ready, 1 failed, 1 cancelled"#]],
    );
}

// Fails under: a task failing twice because it needs two that failed.
#[test]
fn i10_a_task_that_needs_two_failures_fails_once() {
    check(
        "bob can x; alice makes r of x + a of x needs r + b of x needs r + c of x needs a,b; bob takes; bob flunks r hopelessly; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 r made: ready
            #4 a made: blocked
            #4 b made: blocked
            #4 c made: blocked
            bob takes r (try 1, token 1)
            #6 r failed, tried 1, last hopeless by bob
            #6 a failed because of r
            #6 b failed because of r
            #6 c failed because of a
            4 failed"#]],
    );
}

// Fails under: the open dependencies counted before the restart only.
#[test]
fn i10_blocked_tasks_survive_a_restart() {
    check(
        "bob can x; alice makes a of x + b of x + z of x needs a,b + c of x needs z; bob takes; bob finishes a; restart; bob takes; bob finishes b; \
         task z; bob takes; bob finishes z; task c",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a made: ready
            #4 b made: ready
            #4 z made: blocked
            #4 c made: blocked
            bob takes a (try 1, token 1)
            #6 a done
            bob takes b (try 1, token 2)
            #8 b done
            #8 z ready
            z ready since 0s
            bob takes z (try 1, token 3)
            #10 z done
            #10 c ready
            c ready since 0s"#]],
    );
}

// Fails under: an id that can be used twice; or a repeated operation that makes tasks again.
#[test]
fn i3_the_same_tasks_again_are_the_same_tasks() {
    check(
        "alice makes a of x saying 1 + b of x needs a; alice makes a of x saying 1 + b of x needs a; alice makes a of x saying 2 + b of x needs a; \
         alice makes a of x saying 1; bob makes a of x saying 1 + b of x needs a; alice makes c of x + a of x; restart; alice makes a of x saying 1 + b of x needs a; tasks",
        expect![[r#"
            #3 a made: ready
            #3 b made: blocked
            made already by #3
            refused DUPLICATE
            made already by #3
            refused DUPLICATE
            refused DUPLICATE
            made already by #3
            1 blocked, 1 ready"#]],
    );
}

// Fails under: an id chosen twice within one operation.
#[test]
fn c4_an_id_is_used_once() {
    check(
        "alice makes a of x + a of x; alice makes a of x & makes b of x needs a & makes a of x; tasks",
        expect![[r#"
            refused DUPLICATE
            #3 a made: ready
            #3 b made: blocked
            1 blocked, 1 ready"#]],
    );
}

// Fails under: hub-made ids that collide within a commit.
#[test]
fn c4_the_hub_makes_ids_where_there_are_none() {
    check(
        "bob can x; alice makes _ of x + _ of x & makes _ of x; bob takes 9",
        expect![[r#"
        #3 bob starts epoch 3
        #4 tsk_0-4-0 made: ready
        #4 tsk_0-4-1 made: ready
        #4 tsk_0-4-2 made: ready
        bob takes tsk_0-4-0 (try 1, token 1), tsk_0-4-1 (try 1, token 2), tsk_0-4-2 (try 1, token 3)"#]],
    );
}

// Fails under: the whole of a refused graph not put back.
#[test]
fn c4_nothing_of_a_refused_graph_is_left() {
    check(
        "bob can x; bob serves 9 as s1; alice makes a of x + b of x for nobody; alice makes a of x & deletes k; tasks; alice makes a of x",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to take
            refused NOT_FOUND
            refused NOT_FOUND
            no tasks
            #4 a made: ready
            s1 gets a (try 1, token 1)"#]],
    );
}
