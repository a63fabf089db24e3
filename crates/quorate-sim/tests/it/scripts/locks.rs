//! C8, I12: locks with capacity, time limit, queue and fences.

use expect_test::expect;

use super::check;

// Fails under: `has_room` always true.
#[test]
fn c8_one_holds_a_lock_and_another_does_not() {
    check(
        "alice locks x; bob locks x; locks; alice unlocks x; bob locks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            refused TIMEOUT
            lock x for 1: held by alice under 1
            #4 lock.released x: free
            #5 lock.granted x: held by bob under 2
            lock x for 1: held by bob under 2"#]],
    );
}

// Fails under: `serve_stirred_locks` left out, or serving the newest first.
#[test]
fn c8_whoever_waits_gets_it_in_turn() {
    check(
        "alice locks x; bob locks x as b; carol locks x as c; alice unlocks x; bob unlocks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            bob waits in line
            carol waits in line
            #4 lock.released x: free
            #4 lock.granted x: held by bob under 2
            b holds x under 2
            #5 lock.released x: free
            #5 lock.granted x: held by carol under 3
            c holds x under 3
            lock x for 1: held by carol under 3"#]],
    );
}

// Fails under: the priority left out of a waiter's place.
#[test]
fn c8_the_higher_priority_goes_first() {
    check(
        "alice locks x; bob locks x low as b; carol locks x urgent as c; alice unlocks x; carol unlocks x",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            bob waits in line
            carol waits in line
            #4 lock.released x: free
            #4 lock.granted x: held by carol under 2
            c holds x under 2
            #5 lock.released x: free
            #5 lock.granted x: held by bob under 3
            b holds x under 3"#]],
    );
}

// Fails under: `is_wanted` always false.
#[test]
fn c8_a_newcomer_does_not_overtake() {
    check(
        "alice locks x; bob locks x,y as b; carol locks y; carol locks y urgent; carol unlocks y; \
         alice unlocks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            bob waits in line
            refused TIMEOUT
            #4 lock.granted y: held by carol under 1
            #5 lock.released y: free
            #6 lock.released x: free
            #6 lock.granted x: held by bob under 2
            #6 lock.granted y: held by bob under 2
            b holds x under 2, y under 2
            lock x for 1: held by bob under 2
            lock y for 1: held by bob under 2"#]],
    );
}

// Fails under: grants taken one by one, before all can be had.
#[test]
fn c8_several_names_are_taken_together_or_not_at_all() {
    check(
        "alice locks y; bob locks z,y,x,z; bob locks z,y,x as b; locks; alice unlocks y; locks",
        expect![[r#"
            #3 lock.granted y: held by alice under 1
            refused TIMEOUT
            bob waits in line
            lock y for 1: held by alice under 1
            #4 lock.released y: free
            #4 lock.granted x: held by bob under 1
            #4 lock.granted y: held by bob under 2
            #4 lock.granted z: held by bob under 1
            b holds x under 1, y under 2, z under 1
            lock x for 1: held by bob under 1
            lock y for 1: held by bob under 2
            lock z for 1: held by bob under 1"#]],
    );
}

// Fails under: the alarm of a hold left out, or the next in line not served by the sweep.
#[test]
fn c8_a_hold_ends_with_its_time_and_the_next_one_has_it() {
    check(
        "alice locks x for 10s; bob locks x for 20s as b; +9999ms; +1ms; alice unlocks x@1; +20s; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            bob waits in line
            #4 lock.expired x: free
            #4 lock.granted x: held by bob under 2
            b holds x under 2
            refused STALE_FENCE
            #5 lock.expired x: free
            lock x for 1: free"#]],
    );
}

// Fails under: `renew_locks` doing nothing, or renewing without asking who holds it.
#[test]
fn c8_a_renewal_holds_it_for_its_time_again() {
    check(
        "alice locks x for 10s; +9s; bob renews x; alice renews x; +9s; bob locks x; +1s; alice renews x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            refused FORBIDDEN
            alice: nothing to write
            refused TIMEOUT
            #4 lock.expired x: free
            refused STALE_FENCE
            lock x for 1: free"#]],
    );
}

// Fails under: `renew_locks` leaving the length aside; a length that is remembered by the next renewal.
#[test]
fn c8_a_renewal_may_say_for_how_long() {
    check(
        "alice locks x,y for 10s; alice renews x,y for 30s; +29s; alice renews x; +9s; bob locks x; +1s; \
         alice locks z for 10s; alice renews z for 1s; +1s; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            #3 lock.granted y: held by alice under 1
            alice: nothing to write
            alice: nothing to write
            #4 lock.expired y: free
            refused TIMEOUT
            #5 lock.expired x: free
            #6 lock.granted z: held by alice under 1
            alice: nothing to write
            #7 lock.expired z: free
            lock x for 1: free
            lock y for 1: free
            lock z for 1: free"#]],
    );
}

// Fails under: `return_locks_of` left out of `release_all_of`.
#[test]
fn i13_locks_come_back_when_their_holder_starts_again_or_leaves() {
    check(
        "alice locks x,y; bob locks x as b; carol locks y as c; alice starts; bob leaves; carol locks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            #3 lock.granted y: held by alice under 1
            bob waits in line
            carol waits in line
            #4 lock.returned x: free
            #4 lock.returned y: free
            #4 alice starts epoch 5
            #4 lock.granted x: held by bob under 2
            #4 lock.granted y: held by carol under 2
            b holds x under 2
            c holds y under 2
            #5 lock.returned x: free
            #5 agent 2 leaves
            #6 lock.granted x: held by carol under 3
            lock x for 1: held by carol under 3
            lock y for 1: held by carol under 2"#]],
    );
}

// Fails under: waiters of an agent that was started again kept in line.
#[test]
fn c8_an_agent_that_starts_again_waits_no_longer() {
    check(
        "alice locks x; bob locks x as b; carol locks x as c; bob starts; alice unlocks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            bob waits in line
            carol waits in line
            #4 bob starts epoch 5
            b is sent away
            #5 lock.released x: free
            #5 lock.granted x: held by carol under 2
            c holds x under 2
            lock x for 1: held by carol under 2"#]],
    );
}

// Fails under: `Op::Close` not leaving the line, or those behind not looked at.
#[test]
fn c8_whoever_goes_away_leaves_the_line() {
    check(
        "alice locks x; bob locks x,y as b; carol locks y as c; bob closes b; alice unlocks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            bob waits in line
            carol waits in line
            #4 lock.granted y: held by carol under 1
            c holds y under 1
            #5 lock.released x: free
            lock x for 1: free
            lock y for 1: held by carol under 1"#]],
    );
}

// Fails under: the capacity not kept, or changed while the lock is held.
#[test]
fn c8_a_lock_may_have_room_for_several() {
    check(
        "alice locks x capacity 2; bob locks x; carol locks x; carol locks x capacity 3; locks; alice unlocks x@1; \
         carol locks x; bob unlocks x@2; carol unlocks x@3; carol locks x capacity 1; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            #4 lock.granted x: held by alice under 1, held by bob under 2
            refused TIMEOUT
            refused CONFLICT, limit 2
            lock x for 2: held by alice under 1, held by bob under 2
            #5 lock.released x: held by bob under 2
            #6 lock.granted x: held by bob under 2, held by carol under 3
            #7 lock.released x: held by carol under 3
            #8 lock.released x: free
            #9 lock.granted x: held by carol under 4
            lock x for 1: held by carol under 4"#]],
    );
}

// Fails under: `last_fence` not stored, or counted from the grants.
#[test]
fn i12_fences_go_up_for_ever() {
    check(
        "alice locks x; alice unlocks x; bob locks x; restart; bob unlocks x; restart; carol locks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            #4 lock.released x: free
            #5 lock.granted x: held by bob under 2
            #6 lock.released x: free
            #7 lock.granted x: held by carol under 3
            lock x for 1: held by carol under 3"#]],
    );
}

// Fails under: `check_fence` left out of `put` or `delete`, or comparing with what is held only.
#[test]
fn i12_a_write_under_a_stale_fence_is_refused() {
    check(
        "alice locks x for 10s; alice puts plan=1 under x; +10s; alice puts plan=2 under x; bob locks x; \
         alice puts plan=3 under x@1; alice deletes plan under x@1; bob puts plan=4 under x; alice puts plan=5 under x@9; \
         alice puts plan=5 under y@1; read plan",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            #4 plan is at v1
            #5 lock.expired x: free
            #6 plan is at v2
            #7 lock.granted x: held by bob under 2
            refused STALE_FENCE
            refused STALE_FENCE
            #8 plan is at v3
            refused STALE_FENCE
            refused NOT_FOUND
            plan v3 = 4, by agent:bob at 10s"#]],
    );
}

// Fails under: a fence that is lower than another one taken for stale though it is held.
#[test]
fn i12_with_room_for_several_every_holder_may_write() {
    check(
        "alice locks x capacity 2; bob locks x; alice puts plan=1 under x@1; bob puts plan=2 under x@2; alice unlocks x@1; \
         alice puts plan=3 under x@1",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            #4 lock.granted x: held by alice under 1, held by bob under 2
            #5 plan is at v1
            #6 plan is at v2
            #7 lock.released x: held by bob under 2
            refused STALE_FENCE"#]],
    );
}

// Fails under: a refusal that names the first stale item only.
#[test]
fn i12_a_refusal_names_every_stale_write() {
    check(
        "alice locks x; alice unlocks x; bob locks x; \
         alice puts a=1 under x@1 & puts b=1 & puts c=1 expecting 7 & deletes d under x@1",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            #4 lock.released x: free
            #5 lock.granted x: held by bob under 2
            refused STALE_FENCE, op 0 a STALE_FENCE, op 2 c VERSION_CONFLICT, op 3 d STALE_FENCE"#]],
    );
}

// Fails under: grants not put back by `undo`, or a fence used up by a refused commit.
#[test]
fn c8_a_refused_commit_takes_and_gives_no_lock() {
    check(
        "alice locks x & puts plan=1 expecting 9; bob locks x; carol locks x as c; bob unlocks x & puts plan=1 expecting 9; \
         locks; bob unlocks x; locks",
        expect![[r#"
            refused VERSION_CONFLICT, now at v0
            #3 lock.granted x: held by bob under 1
            carol waits in line
            refused VERSION_CONFLICT, now at v0
            lock x for 1: held by bob under 1
            #4 lock.released x: free
            #4 lock.granted x: held by carol under 2
            c holds x under 2
            lock x for 1: held by carol under 2"#]],
    );
}

// Fails under: deadlines kept over a restart; waiters kept over a restart.
#[test]
fn c8_after_a_restart_a_hold_runs_its_full_time_again() {
    check(
        "alice locks x for 10s; bob locks x as b; +9s; restart; +9s; bob locks x; +1s; locks; bob locks x",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            bob waits in line
            refused TIMEOUT
            #4 lock.expired x: free
            lock x for 1: free
            #5 lock.granted x: held by bob under 2"#]],
    );
}

// Fails under: `require_own` left out of `acquire_locks`, `require_holder` left out of the rest.
#[test]
fn c8_an_agent_acts_for_itself_only() {
    check(
        "alice locks x of bob; alice locks x; bob unlocks x; hub unlocks x; hub locks x of bob; locks",
        expect![[r#"
            refused FORBIDDEN
            #3 lock.granted x: held by alice under 1
            refused FORBIDDEN
            #4 lock.released x: free
            #5 lock.granted x: held by bob under 2
            lock x for 1: held by bob under 2"#]],
    );
}

// Fails under: an acquire with a key that is not repeatable.
#[test]
fn c8_a_repeated_acquire_has_the_same_fence() {
    check(
        "alice locks x with key k1; alice locks x with key k1; restart; alice locks x with key k1; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            the same answer as #3
            the same answer as #3
            lock x for 1: held by alice under 1"#]],
    );
}

// Fails under: a wall clock used for holds.
#[test]
fn i23_a_jump_of_the_wall_clock_ends_no_hold() {
    check(
        "alice locks x for 10s; wall +1d; bob locks x; hub sweeps; locks; wall -2d; +10s; locks",
        expect![[r#"
            #3 lock.granted x: held by alice under 1
            refused TIMEOUT
            hub: nothing to write
            lock x for 1: held by alice under 1
            #4 lock.expired x: free
            lock x for 1: free"#]],
    );
}

// Fails under: `check_fence` left out of `complete_task`, or asked before a repeated end finds its answer.
#[test]
fn i12_a_task_is_not_ended_under_a_stale_fence() {
    check(
        "bob can w; hub makes t1 of w; bob takes; bob locks x for 10s; +10s; carol locks x; bob finishes t1 under x@1; \
         bob finishes t1; bob finishes t1 under x@1; task t1",
        expect![[r#"
            #3 bob starts epoch 3
            #4 t1 made: ready
            bob takes t1 (try 1, token 1)
            #6 lock.granted x: held by bob under 1
            #7 lock.expired x: free
            #8 lock.granted x: held by carol under 2
            refused STALE_FENCE
            #9 t1 done
            accepted already by #9
            t1 done by bob under token 1, tried 1"#]],
    );
}
