//! Leases of deliveries: expiry, tokens, and the operations of the holder.

use expect_test::expect;

use super::check;

// Fails under: an expiry that does not make the delivery ready, keeps its token, or is a millisecond early.
#[test]
fn an_expired_lease_is_redelivered() {
    check(
        "alice sends m1 to bob; bob claims; quietly +29999ms; hub sweeps; bob claims; +1ms; bob claims; \
         bob acks m1#1; bob acks m1; where m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            hub: nothing to write
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            bob claims m1 (attempt 2, token 2)
            refused STALE_LEASE
            #7 m1 of bob acked
            m1 of bob: acked by #7"#]],
    );
}

// Fails under: a token that is not compared with that of the lease.
#[test]
fn a_stale_token_is_refused() {
    check(
        "alice sends m1 to bob; bob claims; bob retries m1; bob claims; bob acks m1#1; \
         bob retries m1#1; bob extends m1#1 to 60s; bob drops m1#1; where m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: ready
            bob claims m1 (attempt 2, token 2)
            refused STALE_LEASE
            refused STALE_LEASE
            refused STALE_LEASE
            refused STALE_LEASE
            m1 of bob: leased under token 2, attempt 2"#]],
    );
}

// Fails under: an ack of a delivery without a lease that is accepted.
#[test]
fn an_unleased_delivery_cannot_be_acked() {
    check(
        "alice sends m1 to bob; bob claims; bob retries m1; bob acks m1; where m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: ready
            refused STALE_LEASE
            m1 of bob: ready since 0s, tried 1"#]],
    );
}

// Fails under: an actor that is not compared with the recipient.
#[test]
fn only_the_recipient_can_ack() {
    check(
        "alice sends m1 to bob,carol; bob claims; carol acks m1/bob; alice acks m1/bob; \
         hub acks m1/bob; where m1",
        expect![[r#"
            #3 m1 sent to bob carol
            bob claims m1 (attempt 1, token 1)
            refused NOT_FOUND
            refused NOT_FOUND
            #5 m1 of bob acked
            m1 of bob: acked by #5
            m1 of carol: ready since 0s, tried 0"#]],
    );
}

// Fails under: a repeated ack that returns the new sequence number.
#[test]
fn a_repeated_ack_returns_the_original_record() {
    check(
        "alice sends m1 to bob; bob claims; bob acks m1; alice sends m2 to bob; bob acks m1; \
         bob acks m1 & acks m1; counts",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob acked
            #6 m2 sent to bob
            acked already by #5
            acked already by #5
            acked already by #5
            1 ready, 1 acked"#]],
    );
}

// Fails under: a repeated ack whose token is not compared.
#[test]
fn a_repeated_ack_needs_the_token() {
    check(
        "alice sends m1 to bob; bob claims; bob retries m1; bob claims; bob acks m1; \
         bob acks m1#1; bob retries m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: ready
            bob claims m1 (attempt 2, token 2)
            #7 m1 of bob acked
            refused STALE_LEASE
            refused STALE_LEASE"#]],
    );
}

// Fails under: immediate redelivery; a backoff that does not double; a backoff before the dead letter.
#[test]
fn d7_a_retry_without_a_delay_backs_off() {
    check(
        "alice sends m1 to bob; bob claims; bob retries m1 later; quietly +999ms; bob claims; +1ms; bob claims; \
         bob retries m1 later; +2s; bob claims; bob retries m1 later; restart; +4s; bob claims; bob retries m1 later; \
         where m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: due at 1s
            bob: nothing to claim
            hub: nothing to write
            bob claims m1 (attempt 2, token 2)
            #7 m1 of bob nacked: due at 3s
            hub: nothing to write
            bob claims m1 (attempt 3, token 3)
            #9 m1 of bob nacked: due at 7s
            hub: nothing to write
            bob claims m1 (attempt 4, token 4)
            #11 m1 of bob nacked: dead
            m1 of bob: dead by #11"#]],
    );
}

// Fails under: a retry delay that is ignored.
#[test]
fn a_retry_is_delayed() {
    check(
        "alice sends m1 to bob; bob claims; bob retries m1 after 5s because busy; where m1; \
         bob claims; +4s; bob claims; +1s; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked (busy): due at 5s
            m1 of bob: due at 5s, tried 1
            bob: nothing to claim
            bob: nothing to claim
            hub: nothing to write
            bob claims m1 (attempt 2, token 2)"#]],
    );
}

// Fails under: `Released` that does not restore the attempt count.
#[test]
fn a_release_does_not_count_as_an_attempt() {
    check(
        "alice sends m1 to bob tries 1; bob claims; bob releases m1; bob claims; bob releases m1; \
         bob claims; bob retries m1; dead",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob released: ready
            bob claims m1 (attempt 1, token 2)
            #7 m1 of bob released: ready
            bob claims m1 (attempt 1, token 3)
            #9 m1 of bob nacked: dead
            dead: m1 of bob after 1 (dead-lettered by its holder)"#]],
    );
}

// Fails under: an extension that writes a record, or counts from the old deadline.
#[test]
fn an_extension_extends_the_lease_without_a_record() {
    check(
        "alice sends m1 to bob; bob claims; +20s; bob extends m1 to 60s; +59s; bob claims; +1s; \
         bob claims",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            bob: nothing to write
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            bob claims m1 (attempt 2, token 2)"#]],
    );
}

// Fails under: an extension that never shortens the lease.
#[test]
fn an_extension_can_shorten_the_lease() {
    check(
        "alice sends m1 to bob; bob claims for 1h; bob extends m1 to 5s; +5s; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            bob: nothing to write
            #5 m1 of bob lapsed: ready
            bob claims m1 (attempt 2, token 2)"#]],
    );
}

// Fails under: a loop over operations that stops at the first stale one.
#[test]
fn a_refusal_lists_every_stale_lease() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob; alice puts plan=1; bob claims 2; \
         bob retries m1; bob acks m1 & acks m2 & puts plan=2 expecting 9 & retries m1; where m2",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            #5 plan is at v1
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)
            #7 m1 of bob nacked: ready
            refused STALE_LEASE, op 0 dlv_0-1 STALE_LEASE, op 2 plan VERSION_CONFLICT, op 3 dlv_0-1 STALE_LEASE
            m2 of bob: leased under token 2, attempt 1"#]],
    );
}

// Fails under: a loop over operations that continues after a refusal other than a stale item.
#[test]
fn any_other_refusal_ends_the_commit() {
    check(
        "alice puts plan=1; alice sends m1 to nobody & puts plan=2 expecting 9; \
         alice puts plan=2 expecting 9 & sends m1 to nobody & puts plan=3 expecting 8",
        expect![[r#"
            #3 plan is at v1
            refused UNKNOWN_RECIPIENT: there is no agent nobody
            refused VERSION_CONFLICT, now at v1"#]],
    );
}

// Fails under: a token counter per inbox instead of per space.
#[test]
fn lease_tokens_increase_across_agents() {
    check(
        "alice sends m1 to bob,carol; bob claims; carol claims; bob retries m1; bob claims",
        expect![[r#"
            #3 m1 sent to bob carol
            bob claims m1 (attempt 1, token 1)
            carol claims m1 (attempt 1, token 2)
            #6 m1 of bob nacked: ready
            bob claims m1 (attempt 2, token 3)"#]],
    );
}

// Fails under: `last_token` that is not restored by `undo`.
#[test]
fn a_refused_claim_consumes_no_token() {
    check(
        "alice sends m1 to bob; bob claims & puts plan=1 expecting 9; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            refused VERSION_CONFLICT, now at v0
            bob claims m1 (attempt 1, token 1)"#]],
    );
}
