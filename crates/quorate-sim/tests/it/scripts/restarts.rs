//! Acknowledged changes survive a restart.

use expect_test::expect;

use super::check;

// Fails under: a table that is not written, or not read at startup.
#[test]
fn all_state_survives_a_restart() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob after 1h; alice sends m3 to bob; \
         bob claims; bob claims; bob drops m3 because no_use; alice puts plan=1; restart; \
         where m1; where m2; dead; read plan; counts; bob acks m1; counts",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            #5 m3 sent to bob
            bob claims m1 (attempt 1, token 1)
            bob claims m3 (attempt 1, token 2)
            #8 m3 of bob nacked (no use): dead
            #9 plan is at v1
            m1 of bob: leased under token 1, attempt 1
            m2 of bob: due at 3600s, tried 0
            dead: m3 of bob after 1 (no use)
            plan v1 = 1, by agent:alice at 0s
            1 scheduled, 1 leased, 1 dead
            #10 m1 of bob acked
            1 scheduled, 1 acked, 1 dead"#]],
    );
}

// Fails under: deadlines kept across a restart: the monotonic clock of the new process has another origin.
#[test]
fn a_restart_renews_leases_to_their_full_length() {
    check(
        "alice sends m1 to bob; bob claims; +20s; restart; +29s; bob claims; +1s; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            bob claims m1 (attempt 2, token 2)"#]],
    );
}

// Fails under: an acknowledged extension that is lost.
#[test]
fn a_lease_extension_survives_a_restart() {
    check(
        "alice sends m1 to bob; bob claims; bob extends m1 to 1h; restart; +59m; bob claims; \
         bob acks m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            bob: nothing to write
            bob: nothing to claim
            #5 m1 of bob acked"#]],
    );
}

// Fails under: `attempt` not stored with the delivery.
#[test]
fn attempts_survive_a_restart() {
    check(
        "alice sends m1 to bob tries 2; bob claims; +30s; restart; bob claims; restart; +30s; \
         dead",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob lapsed: ready
            bob claims m1 (attempt 2, token 2)
            #7 m1 of bob lapsed: dead
            dead: m1 of bob after 2 (its last lease expired)"#]],
    );
}

// Fails under: ended deliveries that are not stored: a repeated ack would not find its response.
#[test]
fn an_ack_survives_a_restart() {
    check(
        "alice sends m1 to bob; bob claims; bob acks m1; restart; bob acks m1; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob acked
            acked already by #5
            bob: nothing to claim"#]],
    );
}

// Fails under: keys or client ids kept in memory only.
#[test]
fn keys_and_client_ids_survive_a_restart() {
    check(
        "alice puts plan=1 with key k1; alice sends m1 to bob id x; restart; \
         alice puts plan=1 with key k1; alice sends again to bob id x; counts",
        expect![[r#"
            #3 plan is at v1
            #4 m1 sent to bob
            the same receipt as #3
            sent already by #4
            1 ready"#]],
    );
}

// Fails under: `last_token` that is not stored: an old token would be valid again.
#[test]
fn lease_tokens_keep_increasing_after_a_restart() {
    check(
        "alice sends m1 to bob; bob claims; bob acks m1; alice sends m2 to bob; restart; \
         bob claims; bob acks m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob acked
            #6 m2 sent to bob
            bob claims m2 (attempt 1, token 2)
            acked already by #5"#]],
    );
}

// Fails under: `next_delivery` that is not stored.
#[test]
fn delivery_numbers_keep_increasing_after_a_restart() {
    check(
        "alice sends m1 to bob; bob claims; bob acks m1; restart; alice sends m2 to bob; \
         where m1; bob claims; bob acks m2; where m2",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob acked
            #6 m2 sent to bob
            m1 of bob: acked by #5
            bob claims m2 (attempt 1, token 2)
            #8 m2 of bob acked
            m2 of bob: acked by #8"#]],
    );
}

// Fails under: consumers kept across a restart, although their connections are closed.
#[test]
fn consumers_do_not_survive_a_restart() {
    check(
        "bob stands 9 as s1; restart; alice sends m1 to bob; where m1",
        expect![[r#"
            bob: nothing to claim
            #3 m1 sent to bob
            m1 of bob: ready since 0s, tried 0"#]],
    );
}

// Fails under: an agent loaded with the first of two registrations in one record.
#[test]
fn the_newest_epoch_survives_a_restart() {
    check(
        "bob starts twice; restart; bob puts plan=1; old bob puts plan=2; read plan",
        expect![[r#"
            #3 bob starts epoch 5
            #3 bob starts epoch 6
            #4 plan is at v1
            refused STALE_EPOCH
            plan v1 = 1, by agent:bob at 0s"#]],
    );
}

// Fails under: the timestamp of the head that is not stored.
#[test]
fn record_timestamps_do_not_decrease_after_a_restart() {
    check(
        "alice puts plan=1; wall -1d; restart; alice puts plan=2; history plan",
        expect![[r#"
        #3 plan is at v1
        #4 plan is at v2
        plan v1 = 1, by agent:alice at 0s
        plan v2 = 2, by agent:alice at 0s"#]],
    );
}
