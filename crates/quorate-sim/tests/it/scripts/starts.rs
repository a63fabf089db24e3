//! Epochs: what belongs to an earlier start is refused.

use expect_test::expect;

use super::check;

// Fails under: `register` not giving back what the earlier start held.
#[test]
fn a_new_start_gives_everything_back() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob; bob claims 2; bob starts; bob acks m1; \
         bob claims 2",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)
            #6 m1 of bob epoch ended: ready
            #6 m2 of bob epoch ended: ready
            #6 bob starts epoch 6
            refused STALE_LEASE
            bob takes m1 (try 2, token 3), m2 (try 2, token 4)"#]],
    );
}

// Fails under: `EpochEnded` taking the attempt back.
#[test]
fn a_new_start_counts_the_try() {
    check(
        "alice sends m1 to bob tries 1; bob claims; bob starts; dead",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob epoch ended: dead
            #5 bob starts epoch 5
            dead: m1 of bob after 1 (its holder registered again during the last attempt)"#]],
    );
}

// Fails under: `find_actor` not comparing epochs.
#[test]
fn a_zombie_changes_nothing() {
    check(
        "bob starts; old bob puts plan=1; old bob claims; read plan; bob puts plan=2; read plan",
        expect![[r#"
            #3 bob starts epoch 5
            refused STALE_EPOCH
            refused STALE_EPOCH
            plan: nothing
            #4 plan is at v1
            plan v1 = 2, by agent:bob at 0s"#]],
    );
}

// Fails under: the epoch checked after the operations, or only for leases.
#[test]
fn an_epoch_is_checked_before_anything_else() {
    check(
        "alice sends m1 to bob; bob claims; bob starts; old bob acks m1; \
         old bob sends m2 to alice; alice claims",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob epoch ended: ready
            #5 bob starts epoch 5
            refused STALE_EPOCH
            refused STALE_EPOCH
            alice: nothing to claim"#]],
    );
}

// Fails under: `find_actor` letting strangers act.
#[test]
fn an_unknown_agent_is_refused() {
    check(
        "dave puts plan=1; dave claims; dave starts; dave puts plan=1; read plan",
        expect![[r#"
            refused NOT_FOUND
            refused NOT_FOUND
            #3 dave starts epoch 5
            #4 plan is at v1
            plan v1 = 1, by agent:dave at 0s"#]],
    );
}

// Fails under: `remove_agent` not looking at open deliveries.
#[test]
fn an_agent_with_work_stays() {
    check(
        "alice sends m1 to bob after 1h; bob leaves; hub purges bob; bob leaves; \
         alice sends m2 to bob; bob puts plan=1",
        expect![[r#"
            #3 m1 goes to bob
            refused CONFLICT
            #4 m1 of bob purged
            1 purged
            #5 agent 2 leaves
            refused UNKNOWN_RECIPIENT: there is no agent bob
            refused NOT_FOUND"#]],
    );
}

// Fails under: epochs counted for each agent and forgotten with it: after the leave the number would be 5 again.
#[test]
fn an_epoch_is_never_used_twice() {
    check(
        "bob starts twice & starts twice; bob leaves; bob starts; old bob puts plan=1; \
         bob puts plan=2; read plan",
        expect![[r#"
            #3 bob starts epoch 5
            #3 bob starts epoch 6
            #3 bob starts epoch 7
            #3 bob starts epoch 8
            #4 agent 2 leaves
            #5 bob starts epoch 9
            refused STALE_EPOCH
            #6 plan is at v1
            plan v1 = 2, by agent:bob at 0s"#]],
    );
}

// Fails under: `register` giving back the leases of everybody.
#[test]
fn others_keep_what_they_hold() {
    check(
        "alice sends m1 to bob,carol; bob claims; carol claims; bob starts; carol acks m1; \
         where m1",
        expect![[r#"
            #3 m1 goes to bob carol
            bob takes m1 (try 1, token 1)
            carol takes m1 (try 1, token 2)
            #6 m1 of bob epoch ended: ready
            #6 bob starts epoch 6
            #7 m1 of carol acked
            m1 of bob: ready since 0s, tried 1
            m1 of carol: acked by #7"#]],
    );
}
