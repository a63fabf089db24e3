//! Consumers: waiting claims and streams receive deliveries in turn and within their credit.

use expect_test::expect;

use super::check;

// Fails under: no immediate lease: the delivery would be ready first and leased by a second effect.
#[test]
fn a_waiting_consumer_leases_a_message_in_the_commit_that_sends_it() {
    check(
        "bob waits as w1; alice sends m1 to bob; where m1; bob acks m1",
        expect![[r#"
            bob: nothing to claim
            #3 m1 sent to bob (leased immediately)
            w1 receives m1 (attempt 1, token 1)
            m1 of bob: leased under token 1, attempt 1
            #4 m1 of bob acked"#]],
    );
}

// Fails under: a waiting claim that stays in the queue.
#[test]
fn a_waiting_claim_receives_one_delivery() {
    check(
        "bob waits 5 as w1; alice sends m1 to bob; alice sends m2 to bob; where m2",
        expect![[r#"
            bob: nothing to claim
            #3 m1 sent to bob (leased immediately)
            w1 receives m1 (attempt 1, token 1)
            #4 m2 sent to bob
            m2 of bob: ready since 0s, tried 0"#]],
    );
}

// Fails under: credit that is not spent, or a grant that does not dispatch ready deliveries.
#[test]
fn credit_is_spent_and_granted() {
    check(
        "bob stands 1 as s1; alice sends m1 to bob; alice sends m2 to bob; bob grants 2 to s1; \
         alice sends m3 to bob; alice sends m4 to bob; counts",
        expect![[r#"
            bob: nothing to claim
            #3 m1 sent to bob (leased immediately)
            s1 receives m1 (attempt 1, token 1)
            #4 m2 sent to bob
            s1 receives m2 (attempt 1, token 2)
            #6 m3 sent to bob (leased immediately)
            s1 receives m3 (attempt 1, token 3)
            #7 m4 sent to bob
            1 ready, 3 leased"#]],
    );
}

// Fails under: a consumer that stays at the front of the queue after it was served.
#[test]
fn consumers_take_turns() {
    check(
        "bob stands 2 as s1; bob stands 2 as s2; alice sends m1 to bob; alice sends m2 to bob; \
         alice sends m3 to bob; alice sends m4 to bob",
        expect![[r#"
            bob: nothing to claim
            bob: nothing to claim
            #3 m1 sent to bob (leased immediately)
            s1 receives m1 (attempt 1, token 1)
            #4 m2 sent to bob (leased immediately)
            s2 receives m2 (attempt 1, token 2)
            #5 m3 sent to bob (leased immediately)
            s1 receives m3 (attempt 1, token 3)
            #6 m4 sent to bob (leased immediately)
            s2 receives m4 (attempt 1, token 4)"#]],
    );
}

// Fails under: a closed consumer that stays in the queue.
#[test]
fn a_closed_consumer_receives_nothing() {
    check(
        "bob stands 9 as s1; bob closes s1; alice sends m1 to bob; where m1",
        expect![[r#"
            bob: nothing to claim
            bob: nothing to write
            #3 m1 sent to bob
            m1 of bob: ready since 0s, tried 0"#]],
    );
}

// Fails under: a missing `dismiss_consumers`: a stale process would receive the work of the new one.
#[test]
fn a_new_epoch_dismisses_consumers() {
    check(
        "bob stands 9 as s1; carol stands 9 as s2; bob starts; alice sends m1 to bob,carol",
        expect![[r#"
            bob: nothing to claim
            carol: nothing to claim
            #3 bob starts epoch 5
            s1 is dismissed
            #4 m1 sent to bob carol (leased immediately)
            s2 receives m1 (attempt 1, token 1)"#]],
    );
}

// Fails under: an expired lease that does not trigger dispatch.
#[test]
fn an_expired_lease_is_redelivered_to_a_waiting_consumer() {
    check(
        "alice sends m1 to bob; bob claims; bob waits as w1; +30s",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            w1 receives m1 (attempt 2, token 2)"#]],
    );
}

// Fails under: a delivery that falls due without triggering dispatch.
#[test]
fn a_due_delivery_goes_to_a_waiting_consumer() {
    check(
        "bob waits as w1; alice sends m1 to bob after 5s; +5s",
        expect![[r#"
            bob: nothing to claim
            #3 m1 sent to bob
            w1 receives m1 (attempt 1, token 1)"#]],
    );
}

// Fails under: a redrive that does not trigger dispatch.
#[test]
fn a_redriven_delivery_goes_to_a_waiting_consumer() {
    check(
        "alice sends m1 to bob; bob claims; bob drops m1; bob waits as w1; hub redrives m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: dead
            bob: nothing to claim
            #6 m1 of bob redriven
            w1 receives m1 (attempt 1, token 2)"#]],
    );
}

// Fails under: an immediate lease although another delivery is ready.
#[test]
fn a_new_message_does_not_overtake_a_ready_one() {
    check(
        "alice sends m1 to bob; bob claims; bob waits as w1; bob retries m1 & sends m2 to bob; \
         bob claims",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            bob: nothing to claim
            #5 m1 of bob nacked: ready
            #5 m2 sent to bob
            w1 receives m1 (attempt 2, token 2)
            bob claims m2 (attempt 1, token 3)"#]],
    );
}

// Fails under: credit that is not restored by `undo`.
#[test]
fn a_refused_send_spends_no_credit() {
    check(
        "bob stands 1 as s1; alice sends m1 to bob & puts plan=1 expecting 9; \
         alice sends m1 to bob; alice sends m2 to bob; counts",
        expect![[r#"
            bob: nothing to claim
            refused VERSION_CONFLICT, now at v0
            #3 m1 sent to bob (leased immediately)
            s1 receives m1 (attempt 1, token 1)
            #4 m2 sent to bob
            1 ready, 1 leased"#]],
    );
}

// Fails under: an inbox marked for dispatch by a refused commit that stays marked.
#[test]
fn a_refused_registration_leaves_nothing() {
    check(
        "dave starts & stands 1 as s1 & sends m1 to dave & sends m2 to dave & grants 1 to s1 \
         & puts plan=1 expecting 9; hub sweeps; alice sends m3 to dave; dave starts; \
         alice sends m3 to dave; dave claims",
        expect![[r#"
            refused VERSION_CONFLICT, now at v0
            hub: nothing to write
            refused UNKNOWN_RECIPIENT: there is no agent dave
            #3 dave starts epoch 5
            #4 m3 sent to dave
            dave claims m3 (attempt 1, token 1)"#]],
    );
}

// Fails under: an immediate lease that ignores the expiry.
#[test]
fn an_expired_message_is_not_leased_immediately() {
    check(
        "bob waits as w1; alice sends m1 to bob expires 0s; alice sends m2 to bob",
        expect![[r#"
            bob: nothing to claim
            #3 m1 sent to bob
            #3 m1 of bob expired
            #4 m2 sent to bob (leased immediately)
            w1 receives m2 (attempt 1, token 1)"#]],
    );
}
