//! C8, I12: locks with capacity, time to live, queue and fences.

use expect_test::expect;

use super::check;

// Fails under: `has_capacity` that is always true.
#[test]
fn c8_a_lock_has_one_holder() {
    check(
        "alice locks x; bob locks x; locks; alice unlocks x; bob locks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            refused TIMEOUT
            lock x for 1: held by alice with fence 1
            #4 lock.released x: free
            #5 lock.granted x: held by bob with fence 2
            lock x for 1: held by bob with fence 2"#]],
    );
}

// Fails under: `grant_freed_locks` not called, or the newest waiter served first.
#[test]
fn c8_waiting_consumers_get_the_lock_in_order() {
    check(
        "alice locks x; bob locks x as b; carol locks x as c; alice unlocks x; bob unlocks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            bob is queued
            carol is queued
            #4 lock.released x: free
            #4 lock.granted x: held by bob with fence 2
            b holds x with fence 2
            #5 lock.released x: free
            #5 lock.granted x: held by carol with fence 3
            c holds x with fence 3
            lock x for 1: held by carol with fence 3"#]],
    );
}

// Fails under: waiters ordered without their priority.
#[test]
fn c8_the_higher_priority_is_granted_first() {
    check(
        "alice locks x; bob locks x low as b; carol locks x urgent as c; alice unlocks x; carol unlocks x",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            bob is queued
            carol is queued
            #4 lock.released x: free
            #4 lock.granted x: held by carol with fence 2
            c holds x with fence 2
            #5 lock.released x: free
            #5 lock.granted x: held by bob with fence 3
            b holds x with fence 3"#]],
    );
}

// Fails under: `has_waiter_ahead` that is always false.
#[test]
fn c8_a_newcomer_does_not_overtake_waiters() {
    check(
        "alice locks x; bob locks x,y as b; carol locks y; carol locks y urgent; carol unlocks y; \
         alice unlocks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            bob is queued
            refused TIMEOUT
            #4 lock.granted y: held by carol with fence 1
            #5 lock.released y: free
            #6 lock.released x: free
            #6 lock.granted x: held by bob with fence 2
            #6 lock.granted y: held by bob with fence 2
            b holds x with fence 2, y with fence 2
            lock x for 1: held by bob with fence 2
            lock y for 1: held by bob with fence 2"#]],
    );
}

// Fails under: locks granted one by one before all are available.
#[test]
fn c8_several_locks_are_granted_together_or_not_at_all() {
    check(
        "alice locks y; bob locks z,y,x,z; bob locks z,y,x as b; locks; alice unlocks y; locks",
        expect![[r#"
            #3 lock.granted y: held by alice with fence 1
            refused TIMEOUT
            bob is queued
            lock y for 1: held by alice with fence 1
            #4 lock.released y: free
            #4 lock.granted x: held by bob with fence 1
            #4 lock.granted y: held by bob with fence 2
            #4 lock.granted z: held by bob with fence 1
            b holds x with fence 1, y with fence 2, z with fence 1
            lock x for 1: held by bob with fence 1
            lock y for 1: held by bob with fence 2
            lock z for 1: held by bob with fence 1"#]],
    );
}

// Fails under: a lock without an expiry timer, or a sweep that does not serve the next waiter.
#[test]
fn c8_an_expired_lock_is_granted_to_the_next_waiter() {
    check(
        "alice locks x for 10s; bob locks x for 20s as b; +9999ms; +1ms; alice unlocks x@1; +20s; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            bob is queued
            #4 lock.expired x: free
            #4 lock.granted x: held by bob with fence 2
            b holds x with fence 2
            refused STALE_FENCE
            #5 lock.expired x: free
            lock x for 1: free"#]],
    );
}

// Fails under: `renew_locks` without effect, or without a check of the holder.
#[test]
fn c8_a_renewal_restarts_the_time_to_live() {
    check(
        "alice locks x for 10s; +9s; bob renews x; alice renews x; +9s; bob locks x; +1s; alice renews x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            refused FORBIDDEN
            alice: nothing to write
            refused TIMEOUT
            #4 lock.expired x: free
            refused STALE_FENCE
            lock x for 1: free"#]],
    );
}

// Fails under: `renew_locks` that ignores the time to live, or keeps it for the next renewal.
#[test]
fn c8_a_renewal_can_set_the_time_to_live() {
    check(
        "alice locks x,y for 10s; alice renews x,y for 30s; +29s; alice renews x; +9s; bob locks x; +1s; \
         alice locks z for 10s; alice renews z for 1s; +1s; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            #3 lock.granted y: held by alice with fence 1
            alice: nothing to write
            alice: nothing to write
            #4 lock.expired y: free
            refused TIMEOUT
            #5 lock.expired x: free
            #6 lock.granted z: held by alice with fence 1
            alice: nothing to write
            #7 lock.expired z: free
            lock x for 1: free
            lock y for 1: free
            lock z for 1: free"#]],
    );
}

// Fails under: locks that are not revoked in `release_all_of`.
#[test]
fn i13_locks_are_released_when_their_holder_registers_again_or_is_removed() {
    check(
        "alice locks x,y; bob locks x as b; carol locks y as c; alice starts; bob leaves; carol locks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            #3 lock.granted y: held by alice with fence 1
            bob is queued
            carol is queued
            #4 lock.returned x: free
            #4 lock.returned y: free
            #4 alice starts epoch 5
            #4 lock.granted x: held by bob with fence 2
            #4 lock.granted y: held by carol with fence 2
            b holds x with fence 2
            c holds y with fence 2
            #5 lock.returned x: free
            #5 agent 2 removed
            #6 lock.granted x: held by carol with fence 3
            lock x for 1: held by carol with fence 3
            lock y for 1: held by carol with fence 2"#]],
    );
}

// Fails under: waiters of an earlier epoch that stay in the queue.
#[test]
fn c8_a_new_epoch_ends_lock_waits() {
    check(
        "alice locks x; bob locks x as b; carol locks x as c; bob starts; alice unlocks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            bob is queued
            carol is queued
            #4 bob starts epoch 5
            b is dismissed
            #5 lock.released x: free
            #5 lock.granted x: held by carol with fence 2
            c holds x with fence 2
            lock x for 1: held by carol with fence 2"#]],
    );
}

// Fails under: a closed consumer that stays in the queue, or waiters behind it that are not served.
#[test]
fn c8_a_closed_consumer_leaves_the_queue() {
    check(
        "alice locks x; bob locks x,y as b; carol locks y as c; bob closes b; alice unlocks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            bob is queued
            carol is queued
            #4 lock.granted y: held by carol with fence 1
            c holds y with fence 1
            #5 lock.released x: free
            lock x for 1: free
            lock y for 1: held by carol with fence 1"#]],
    );
}

// Fails under: a capacity that is not stored, or that changes while the lock is held.
#[test]
fn c8_a_lock_can_have_several_holders() {
    check(
        "alice locks x capacity 2; bob locks x; carol locks x; carol locks x capacity 3; locks; alice unlocks x@1; \
         carol locks x; bob unlocks x@2; carol unlocks x@3; carol locks x capacity 1; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            #4 lock.granted x: held by alice with fence 1, held by bob with fence 2
            refused TIMEOUT
            refused CONFLICT, limit 2
            lock x for 2: held by alice with fence 1, held by bob with fence 2
            #5 lock.released x: held by bob with fence 2
            #6 lock.granted x: held by bob with fence 2, held by carol with fence 3
            #7 lock.released x: held by carol with fence 3
            #8 lock.released x: free
            #9 lock.granted x: held by carol with fence 4
            lock x for 1: held by carol with fence 4"#]],
    );
}

// Fails under: `last_fence` that is not stored, or derived from the grants.
#[test]
fn i12_fences_always_increase() {
    check(
        "alice locks x; alice unlocks x; bob locks x; restart; bob unlocks x; restart; carol locks x; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            #4 lock.released x: free
            #5 lock.granted x: held by bob with fence 2
            #6 lock.released x: free
            #7 lock.granted x: held by carol with fence 3
            lock x for 1: held by carol with fence 3"#]],
    );
}

// Fails under: `check_fence` missing in `put` or `delete`, or a comparison with held fences only.
#[test]
fn i12_a_write_under_a_stale_fence_is_refused() {
    check(
        "alice locks x for 10s; alice puts plan=1 under x; +10s; alice puts plan=2 under x; bob locks x; \
         alice puts plan=3 under x@1; alice deletes plan under x@1; bob puts plan=4 under x; alice puts plan=5 under x@9; \
         alice puts plan=5 under y@1; read plan",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            #4 plan is at v1
            #5 lock.expired x: free
            #6 plan is at v2
            #7 lock.granted x: held by bob with fence 2
            refused STALE_FENCE
            refused STALE_FENCE
            #8 plan is at v3
            refused STALE_FENCE
            refused NOT_FOUND
            plan v3 = 4, by agent:bob at 10s"#]],
    );
}

// Fails under: a held fence that counts as stale because another one is higher.
#[test]
fn i12_every_holder_of_a_shared_lock_can_write() {
    check(
        "alice locks x capacity 2; bob locks x; alice puts plan=1 under x@1; bob puts plan=2 under x@2; alice unlocks x@1; \
         alice puts plan=3 under x@1",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            #4 lock.granted x: held by alice with fence 1, held by bob with fence 2
            #5 plan is at v1
            #6 plan is at v2
            #7 lock.released x: held by bob with fence 2
            refused STALE_FENCE"#]],
    );
}

// Fails under: a refusal that lists only the first stale item.
#[test]
fn i12_a_refusal_lists_every_stale_write() {
    check(
        "alice locks x; alice unlocks x; bob locks x; \
         alice puts a=1 under x@1 & puts b=1 & puts c=1 expecting 7 & deletes d under x@1",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            #4 lock.released x: free
            #5 lock.granted x: held by bob with fence 2
            refused STALE_FENCE, op 0 a STALE_FENCE, op 2 c VERSION_CONFLICT, op 3 d STALE_FENCE"#]],
    );
}

// Fails under: grants that are not restored by `undo`, or a fence consumed by a refused commit.
#[test]
fn c8_a_refused_commit_acquires_and_releases_nothing() {
    check(
        "alice locks x & puts plan=1 expecting 9; bob locks x; carol locks x as c; bob unlocks x & puts plan=1 expecting 9; \
         locks; bob unlocks x; locks",
        expect![[r#"
            refused VERSION_CONFLICT, now at v0
            #3 lock.granted x: held by bob with fence 1
            carol is queued
            refused VERSION_CONFLICT, now at v0
            lock x for 1: held by bob with fence 1
            #4 lock.released x: free
            #4 lock.granted x: held by carol with fence 2
            c holds x with fence 2
            lock x for 1: held by carol with fence 2"#]],
    );
}

// Fails under: deadlines or waiters kept across a restart.
#[test]
fn c8_a_restart_renews_locks_to_their_full_time_to_live() {
    check(
        "alice locks x for 10s; bob locks x as b; +9s; restart; +9s; bob locks x; +1s; locks; bob locks x",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            bob is queued
            refused TIMEOUT
            #4 lock.expired x: free
            lock x for 1: free
            #5 lock.granted x: held by bob with fence 2"#]],
    );
}

// Fails under: a missing `require_self` in `acquire_locks`, or a missing `require_holder` elsewhere.
#[test]
fn c8_an_agent_locks_for_itself_only() {
    check(
        "alice locks x of bob; alice locks x; bob unlocks x; hub unlocks x; hub locks x of bob; locks",
        expect![[r#"
            refused FORBIDDEN
            #3 lock.granted x: held by alice with fence 1
            refused FORBIDDEN
            #4 lock.released x: free
            #5 lock.granted x: held by bob with fence 2
            lock x for 1: held by bob with fence 2"#]],
    );
}

// Fails under: a keyed acquire that is not idempotent.
#[test]
fn c8_a_repeated_acquire_has_the_same_fence() {
    check(
        "alice locks x with key k1; alice locks x with key k1; restart; alice locks x with key k1; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            the same receipt as #3
            the same receipt as #3
            lock x for 1: held by alice with fence 1"#]],
    );
}

// Fails under: lock deadlines measured with the wall clock.
#[test]
fn i23_a_wall_clock_jump_expires_no_lock() {
    check(
        "alice locks x for 10s; wall +1d; bob locks x; hub sweeps; locks; wall -2d; +10s; locks",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            refused TIMEOUT
            hub: nothing to write
            lock x for 1: held by alice with fence 1
            #4 lock.expired x: free
            lock x for 1: free"#]],
    );
}

// Fails under: `check_fence` missing in `complete_task`, or checked before a repeated completion finds its response.
#[test]
fn i12_a_task_cannot_be_completed_under_a_stale_fence() {
    check(
        "bob can w; hub makes t1 of w; bob takes; bob locks x for 10s; +10s; carol locks x; bob finishes t1 under x@1; \
         bob finishes t1; bob finishes t1 under x@1; task t1",
        expect![[r#"
            #3 bob starts epoch 3
            #4 t1 created: ready
            bob claims t1 (attempt 1, token 1)
            #6 lock.granted x: held by bob with fence 1
            #7 lock.expired x: free
            #8 lock.granted x: held by carol with fence 2
            refused STALE_FENCE
            #9 t1 done
            accepted already by #9
            t1 done by bob under token 1, tried 1"#]],
    );
}

// Fails under: a queue in order of arrival, or one without the waiters for several locks.
#[test]
fn m17_the_queue_of_a_lock_lists_its_waiters_in_order() {
    check(
        "alice locks x for 10m; +5s; bob locks x,y as b; +5s; carol locks x urgent as c; queue x; queue y; alice unlocks x; queue x",
        expect![[r#"
            #3 lock.granted x: held by alice with fence 1
            bob is queued
            carol is queued
            queue of x: carol for x since 10s, bob for x+y since 5s
            queue of y: bob for x+y since 5s
            #4 lock.released x: free
            #4 lock.granted x: held by carol with fence 2
            c holds x with fence 2
            queue of x: bob for x+y since 5s"#]],
    );
}
