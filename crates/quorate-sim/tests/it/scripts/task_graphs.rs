//! Task graphs: dependencies, and the consequences of failures.

use expect_test::expect;

use super::check;

// Fails under: all tasks ready immediately.
#[test]
fn c4_a_graph_is_created_atomically_and_tasks_without_dependencies_are_ready() {
    check(
        "bob can x; alice makes a of x + b of x needs a + c of x needs a,b; tasks; bob takes 9; task b; task c",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: blocked
            #4 c created: blocked
            2 blocked, 1 ready
            bob claims a (attempt 1, token 1)
            b blocked, needs a
            c blocked, needs a,b"#]],
    );
}

// Fails under: a dependent that becomes ready after the first dependency, or twice.
#[test]
fn c4_a_task_becomes_ready_once_when_all_dependencies_are_done() {
    check(
        "bob can x; alice makes a of x + b of x + c of x needs a,b; bob takes 9; bob finishes a; task c; bob finishes b; task c; \
         bob takes 9; bob finishes c; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: ready
            #4 c created: blocked
            bob claims a (attempt 1, token 1), b (attempt 1, token 2)
            #6 a done
            c blocked, needs a,b
            #7 b done
            #7 c ready
            c ready since 0s
            bob claims c (attempt 1, token 3)
            #9 c done
            3 done"#]],
    );
}

// Fails under: dependencies by index instead of by id; a required order of definition.
#[test]
fn i10_a_dependency_may_be_defined_later_in_the_same_operation() {
    check(
        "bob can x; alice makes b of x needs a + a of x; bob takes 9; bob finishes a; bob takes 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 b created: blocked
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 a done
            #6 b ready
            bob claims b (attempt 1, token 2)"#]],
    );
}

// Fails under: a cycle that is accepted, or not reported.
#[test]
fn i10_a_dependency_cycle_is_refused_and_reported() {
    check(
        "alice makes a of x needs c + b of x needs a + c of x needs b; alice makes a of x needs a; tasks; alice makes a of x",
        expect![[r#"
            refused INVALID, cycle: a for c, c for b, b for a
            refused INVALID, cycle: a for a
            no tasks
            #3 a created: ready"#]],
    );
}

// Fails under: an unknown dependency that counts as satisfied.
#[test]
fn i10_an_unknown_dependency_is_refused() {
    check(
        "alice makes a of x needs nowhere; tasks",
        expect![[r#"
        refused NOT_FOUND
        no tasks"#]],
    );
}

// Fails under: a dependency that was done before not counted: the task would wait forever.
#[test]
fn i10_a_dependency_that_is_already_done_is_satisfied() {
    check(
        "bob can x; alice makes a of x; bob takes; bob finishes a; alice makes b of x needs a; task b",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 a done
            #7 b created: ready
            b ready since 0s"#]],
    );
}

// Fails under: a dependency that failed before ignored: the task would wait forever.
#[test]
fn i10_a_dependency_that_already_failed_counts_immediately() {
    check(
        "bob can x; alice makes a of x; bob takes; bob flunks a permanently; alice makes b of x needs a + c of x needs b; \
         alice makes d of x needs a skipping; alice makes e of x needs a waiting; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            bob claims a (attempt 1, token 1)
            #6 failures/a is at v1
            #6 a failed, tried 1, last hopeless by bob
            #7 b created: blocked
            #7 c created: blocked
            #7 b failed because of a
            #7 c failed because of b
            #8 d created: blocked
            #8 d ready without a
            #9 e created: blocked
            #9 e blocked, held by a
            1 blocked, 1 ready, 3 failed"#]],
    );
}

// Fails under: a failure that does not reach direct or transitive dependents.
#[test]
fn c4_a_failure_propagates_to_all_dependents() {
    check(
        "bob can x; alice makes a of x + b of x needs a + c of x needs b + d of x; bob takes; bob flunks a permanently because no_such_page; \
         task b; task c; task d; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: blocked
            #4 c created: blocked
            #4 d created: ready
            bob claims a (attempt 1, token 1)
            #6 failures/a is at v1
            #6 a failed, tried 1, last hopeless by bob
            #6 b failed because of a
            #6 c failed because of b
            b failed because of a
            c failed because of b
            d ready since 0s
            1 ready, 3 failed"#]],
    );
}

// Fails under: a skipping task that becomes ready while other dependencies are open.
#[test]
fn c4_skip_runs_without_failed_dependencies() {
    check(
        "bob can x; alice makes a of x + b of x + c of x needs a,b skipping; bob takes 9; bob flunks a permanently; task c; \
         bob finishes b; bob takes; bob finishes c with 3; task c",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: ready
            #4 c created: blocked
            bob claims a (attempt 1, token 1), b (attempt 1, token 2)
            #6 failures/a is at v1
            #6 a failed, tried 1, last hopeless by bob
            c blocked, needs a,b
            #7 b done
            #7 c ready without a
            bob claims c (attempt 1, token 3)
            #9 c done
            c done by bob under token 3, tried 1, result 3"#]],
    );
}

// Fails under: a waiting task that forgets which dependency failed.
#[test]
fn c4_wait_stays_blocked_and_lists_the_failed_dependencies() {
    check(
        "bob can x; alice makes a of x + b of x + c of x needs a,b waiting; bob takes 9; bob flunks a permanently; task c; \
         bob finishes b; task c; restart; task c; alice cancels c; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: ready
            #4 c created: blocked
            bob claims a (attempt 1, token 1), b (attempt 1, token 2)
            #6 failures/a is at v1
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

// Fails under: a partial result that satisfies a dependency.
#[test]
fn i10_partial_is_not_done() {
    check(
        "bob can x; alice makes a of x + b of x needs a + c of x needs a skipping; bob takes; bob finishes a with 1 partly; task a; task b; task c",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: blocked
            #4 c created: blocked
            bob claims a (attempt 1, token 1)
            #6 a partial
            #6 c ready without a
            #6 b failed because of a
            a partial by bob under token 1, tried 1, result 1
            b failed because of a
            c ready since 0s"#]],
    );
}

// Fails under: a cancelled task that satisfies a dependency.
#[test]
fn c4_cancellation_applies_the_failure_policy_of_dependents() {
    check(
        "bob can x; alice makes a of x + b of x needs a + c of x needs a skipping + d of x needs a waiting; alice cancels a because late; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: blocked
            #4 c created: blocked
            #4 d created: blocked
            #5 a cancelled
            #5 c ready without a
            #5 d blocked, held by a
            #5 b failed because of a
            1 blocked, 1 ready, 1 failed, 1 cancelled"#]],
    );
}

// Fails under: a task that fails once per failed dependency.
#[test]
fn i10_a_task_with_two_failed_dependencies_fails_once() {
    check(
        "bob can x; alice makes r of x + a of x needs r + b of x needs r + c of x needs a,b; bob takes; bob flunks r permanently; tasks",
        expect![[r#"
            #3 bob starts epoch 3
            #4 r created: ready
            #4 a created: blocked
            #4 b created: blocked
            #4 c created: blocked
            bob claims r (attempt 1, token 1)
            #6 failures/r is at v1
            #6 r failed, tried 1, last hopeless by bob
            #6 a failed because of r
            #6 b failed because of r
            #6 c failed because of a
            4 failed"#]],
    );
}

// Fails under: open dependencies that are not restored.
#[test]
fn i10_blocked_tasks_survive_a_restart() {
    check(
        "bob can x; alice makes a of x + b of x + z of x needs a,b + c of x needs z; bob takes; bob finishes a; restart; bob takes; bob finishes b; \
         task z; bob takes; bob finishes z; task c",
        expect![[r#"
            #3 bob starts epoch 3
            #4 a created: ready
            #4 b created: ready
            #4 z created: blocked
            #4 c created: blocked
            bob claims a (attempt 1, token 1)
            #6 a done
            bob claims b (attempt 1, token 2)
            #8 b done
            #8 z ready
            z ready since 0s
            bob claims z (attempt 1, token 3)
            #10 z done
            #10 c ready
            c ready since 0s"#]],
    );
}

// Fails under: an id that can be used twice; a repeated operation that creates tasks again.
#[test]
fn i3_a_repeated_creation_returns_the_same_tasks() {
    check(
        "alice makes a of x saying 1 + b of x needs a; alice makes a of x saying 1 + b of x needs a; alice makes a of x saying 2 + b of x needs a; \
         alice makes a of x saying 1; bob makes a of x saying 1 + b of x needs a; alice makes c of x + a of x; restart; alice makes a of x saying 1 + b of x needs a; tasks",
        expect![[r#"
            #3 a created: ready
            #3 b created: blocked
            created already by #3
            refused DUPLICATE
            created already by #3
            refused DUPLICATE
            refused DUPLICATE
            created already by #3
            1 blocked, 1 ready"#]],
    );
}

// Fails under: an id that occurs twice within one operation.
#[test]
fn c4_a_task_id_is_unique_within_an_operation() {
    check(
        "alice makes a of x + a of x; alice makes a of x & makes b of x needs a & makes a of x; tasks",
        expect![[r#"
            refused DUPLICATE
            #3 a created: ready
            #3 b created: blocked
            1 blocked, 1 ready"#]],
    );
}

// Fails under: generated ids that collide within a commit.
#[test]
fn c4_the_hub_generates_missing_ids() {
    check(
        "bob can x; alice makes _ of x + _ of x & makes _ of x; bob takes 9",
        expect![[r#"
        #3 bob starts epoch 3
        #4 tsk_0-4-0 created: ready
        #4 tsk_0-4-1 created: ready
        #4 tsk_0-4-2 created: ready
        bob claims tsk_0-4-0 (attempt 1, token 1), tsk_0-4-1 (attempt 1, token 2), tsk_0-4-2 (attempt 1, token 3)"#]],
    );
}

// Fails under: a refused graph that is not undone completely.
#[test]
fn c4_a_refused_graph_leaves_nothing() {
    check(
        "bob can x; bob serves 9 as s1; alice makes a of x + b of x for nobody; alice makes a of x & deletes k; tasks; alice makes a of x",
        expect![[r#"
            #3 bob starts epoch 3
            bob: no task to claim
            refused NOT_FOUND
            refused NOT_FOUND
            no tasks
            #4 a created: ready
            s1 receives a (attempt 1, token 1)"#]],
    );
}
