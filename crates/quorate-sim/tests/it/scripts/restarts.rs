//! What was acknowledged is there after a restart.

use expect_test::expect;

use super::check;

// Fails under: any table that is not written, or not read at the start.
#[test]
fn in_the_middle_of_everything() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob after 1h; alice sends m3 to bob; \
         bob claims; bob claims; bob drops m3 because no_use; alice puts plan=1; restart; \
         where m1; where m2; dead; read plan; counts; bob acks m1; counts",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            #5 m3 goes to bob
            bob takes m1 (try 1, token 1)
            bob takes m3 (try 1, token 2)
            #8 m3 of bob nacked (no use): dead
            #9 plan is at v1
            m1 of bob: held under token 1, try 1
            m2 of bob: due at 3600s, tried 0
            dead: m3 of bob after 1 (no use)
            plan v1 = 1, by agent:alice at 0s
            1 scheduled, 1 leased, 1 dead
            #10 m1 of bob acked
            1 scheduled, 1 acked, 1 dead"#]],
    );
}

// Fails under: deadlines kept over a restart: the clock of the new process starts elsewhere.
#[test]
fn a_lease_runs_its_full_length_again() {
    check(
        "alice sends m1 to bob; bob claims; +20s; restart; +29s; bob claims; +1s; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            bob takes m1 (try 2, token 2)"#]],
    );
}

// Fails under: an acknowledged extension forgotten by a restart.
#[test]
fn an_extension_is_remembered() {
    check(
        "alice sends m1 to bob; bob claims; bob extends m1 to 1h; restart; +59m; bob claims; \
         bob acks m1",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            bob: nothing to write
            bob: nothing to claim
            #5 m1 of bob acked"#]],
    );
}

// Fails under: `attempt` not stored with the delivery.
#[test]
fn attempts_are_remembered() {
    check(
        "alice sends m1 to bob tries 2; bob claims; +30s; restart; bob claims; restart; +30s; \
         dead",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob lapsed: ready
            bob takes m1 (try 2, token 2)
            #7 m1 of bob lapsed: dead
            dead: m1 of bob after 2 (its last lease expired)"#]],
    );
}

// Fails under: `ended` not stored: a repeated ack would not find its answer.
#[test]
fn an_ack_is_remembered() {
    check(
        "alice sends m1 to bob; bob claims; bob acks m1; restart; bob acks m1; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob acked
            acked already by #5
            bob: nothing to claim"#]],
    );
}

// Fails under: keys or client ids kept in memory only.
#[test]
fn a_key_and_an_id_are_remembered() {
    check(
        "alice puts plan=1 with key k1; alice sends m1 to bob id x; restart; \
         alice puts plan=1 with key k1; alice sends again to bob id x; counts",
        expect![[r#"
            #3 plan is at v1
            #4 m1 goes to bob
            the same answer as #3
            sent already by #4
            1 ready"#]],
    );
}

// Fails under: `last_token` not stored: an old token would be valid again.
#[test]
fn tokens_go_on() {
    check(
        "alice sends m1 to bob; bob claims; bob acks m1; alice sends m2 to bob; restart; \
         bob claims; bob acks m1",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob acked
            #6 m2 goes to bob
            bob takes m2 (try 1, token 2)
            acked already by #5"#]],
    );
}

// Fails under: `next_delivery` not stored.
#[test]
fn numbers_go_on() {
    check(
        "alice sends m1 to bob; bob claims; bob acks m1; restart; alice sends m2 to bob; \
         where m1; bob claims; bob acks m2; where m2",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob acked
            #6 m2 goes to bob
            m1 of bob: acked by #5
            bob takes m2 (try 1, token 2)
            #8 m2 of bob acked
            m2 of bob: acked by #8"#]],
    );
}

// Fails under: consumers kept over a restart, though their connections are gone.
#[test]
fn whoever_waited_is_gone() {
    check(
        "bob stands 9 as s1; restart; alice sends m1 to bob; where m1",
        expect![[r#"
            bob: nothing to claim
            #3 m1 goes to bob
            m1 of bob: ready since 0s, tried 0"#]],
    );
}

// Fails under: an agent loaded with the first of two registrations of one record.
#[test]
fn the_newest_start_counts() {
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

// Fails under: `at` of the head not stored.
#[test]
fn time_does_not_go_back() {
    check(
        "alice puts plan=1; wall -1d; restart; alice puts plan=2; history plan",
        expect![[r#"
        #3 plan is at v1
        #4 plan is at v2
        plan v1 = 1, by agent:alice at 0s
        plan v2 = 2, by agent:alice at 0s"#]],
    );
}
