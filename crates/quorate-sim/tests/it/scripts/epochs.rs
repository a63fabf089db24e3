//! Epochs: operations under the epoch of an earlier registration are refused.

use expect_test::expect;

use super::check;

// Fails under: `register` that does not release the leases of the previous epoch.
#[test]
fn a_new_epoch_releases_all_leases() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob; bob claims 2; bob starts; bob acks m1; \
         bob claims 2",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)
            #6 m1 of bob epoch ended: ready
            #6 m2 of bob epoch ended: ready
            #6 bob starts epoch 6
            refused STALE_LEASE
            bob claims m1 (attempt 2, token 3), m2 (attempt 2, token 4)"#]],
    );
}

// Fails under: `EpochEnded` that restores the attempt count.
#[test]
fn a_lease_ended_by_a_new_epoch_counts_as_an_attempt() {
    check(
        "alice sends m1 to bob tries 1; bob claims; bob starts; dead",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob epoch ended: dead
            #5 bob starts epoch 5
            dead: m1 of bob after 1 (its holder registered again during the last attempt)"#]],
    );
}

// Fails under: an epoch that is not compared in `resolve_actor`.
#[test]
fn a_stale_epoch_changes_nothing() {
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

// Fails under: an epoch checked after the operations, or only for leases.
#[test]
fn an_epoch_is_checked_before_anything_else() {
    check(
        "alice sends m1 to bob; bob claims; bob starts; old bob acks m1; \
         old bob sends m2 to alice; alice claims",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob epoch ended: ready
            #5 bob starts epoch 5
            refused STALE_EPOCH
            refused STALE_EPOCH
            alice: nothing to claim"#]],
    );
}

// Fails under: `resolve_actor` that accepts unknown agents.
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

// Fails under: `remove_agent` that ignores open deliveries.
#[test]
fn an_agent_with_open_deliveries_cannot_be_removed() {
    check(
        "alice sends m1 to bob after 1h; bob leaves; hub purges bob; bob leaves; \
         alice sends m2 to bob; bob puts plan=1",
        expect![[r#"
            #3 m1 sent to bob
            refused CONFLICT
            #4 m1 of bob purged
            1 purged
            #5 agent 2 removed
            refused UNKNOWN_RECIPIENT: there is no agent bob
            refused NOT_FOUND"#]],
    );
}

// Fails under: epochs counted per agent and lost with it: after the removal the number would be 5 again.
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
            #4 agent 2 removed
            #5 bob starts epoch 9
            refused STALE_EPOCH
            #6 plan is at v1
            plan v1 = 2, by agent:bob at 0s"#]],
    );
}

// Fails under: `register` that releases the leases of all agents.
#[test]
fn a_new_epoch_does_not_affect_other_agents() {
    check(
        "alice sends m1 to bob,carol; bob claims; carol claims; bob starts; carol acks m1; \
         where m1",
        expect![[r#"
            #3 m1 sent to bob carol
            bob claims m1 (attempt 1, token 1)
            carol claims m1 (attempt 1, token 2)
            #6 m1 of bob epoch ended: ready
            #6 bob starts epoch 6
            #7 m1 of carol acked
            m1 of bob: ready since 0s, tried 1
            m1 of carol: acked by #7"#]],
    );
}
