//! Who holds what, and what only its holder may do.

use expect_test::expect;

use super::check;

// Fails under: a lapse that does not make the delivery ready, keeps its token, or comes a millisecond early.
#[test]
fn a_lapsed_lease_comes_again() {
    check(
        "alice sends m1 to bob; bob claims; quietly +29999ms; hub sweeps; bob claims; +1ms; bob claims; \
         bob acks m1#1; bob acks m1; where m1",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            hub: nothing to write
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            bob takes m1 (try 2, token 2)
            refused STALE_LEASE
            #7 m1 of bob acked
            m1 of bob: acked by #7"#]],
    );
}

// Fails under: `held` not comparing tokens.
#[test]
fn a_stale_token_is_refused() {
    check(
        "alice sends m1 to bob; bob claims; bob retries m1; bob claims; bob acks m1#1; \
         bob retries m1#1; bob extends m1#1 to 60s; bob drops m1#1; where m1",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked: ready
            bob takes m1 (try 2, token 2)
            refused STALE_LEASE
            refused STALE_LEASE
            refused STALE_LEASE
            refused STALE_LEASE
            m1 of bob: held under token 2, try 2"#]],
    );
}

// Fails under: `held` accepting a delivery that nobody holds.
#[test]
fn what_waits_cannot_be_acked() {
    check(
        "alice sends m1 to bob; bob claims; bob retries m1; bob acks m1; where m1",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked: ready
            refused STALE_LEASE
            m1 of bob: ready since 0s, tried 1"#]],
    );
}

// Fails under: `held` not comparing the actor with the recipient.
#[test]
fn only_the_recipient_acks() {
    check(
        "alice sends m1 to bob,carol; bob claims; carol acks m1/bob; alice acks m1/bob; \
         hub acks m1/bob; where m1",
        expect![[r#"
            #3 m1 goes to bob carol
            bob takes m1 (try 1, token 1)
            refused FORBIDDEN
            refused FORBIDDEN
            #5 m1 of bob acked
            m1 of bob: acked by #5
            m1 of carol: ready since 0s, tried 0"#]],
    );
}

// Fails under: `ack_again` answering with the position of the new record.
#[test]
fn a_repeated_ack_names_its_record() {
    check(
        "alice sends m1 to bob; bob claims; bob acks m1; alice sends m2 to bob; bob acks m1; \
         bob acks m1 & acks m1; counts",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob acked
            #6 m2 goes to bob
            acked already by #5
            acked already by #5
            acked already by #5
            1 ready, 1 acked"#]],
    );
}

// Fails under: `ack_again` not comparing tokens.
#[test]
fn a_repeated_ack_needs_the_token() {
    check(
        "alice sends m1 to bob; bob claims; bob retries m1; bob claims; bob acks m1; \
         bob acks m1#1; bob retries m1",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked: ready
            bob takes m1 (try 2, token 2)
            #7 m1 of bob acked
            refused STALE_LEASE
            refused STALE_LEASE"#]],
    );
}

// Fails under: a retry whose delay is ignored.
#[test]
fn a_retry_waits() {
    check(
        "alice sends m1 to bob; bob claims; bob retries m1 after 5s because busy; where m1; \
         bob claims; +4s; bob claims; +1s; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked (busy): due at 5s
            m1 of bob: due at 5s, tried 1
            bob: nothing to claim
            bob: nothing to claim
            hub: nothing to write
            bob takes m1 (try 2, token 2)"#]],
    );
}

// Fails under: `Released` not taking the attempt back.
#[test]
fn a_release_counts_no_try() {
    check(
        "alice sends m1 to bob tries 1; bob claims; bob releases m1; bob claims; bob releases m1; \
         bob claims; bob retries m1; dead",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob released: ready
            bob takes m1 (try 1, token 2)
            #7 m1 of bob released: ready
            bob takes m1 (try 1, token 3)
            #9 m1 of bob nacked: dead
            dead: m1 of bob after 1 (dead-lettered by its holder)"#]],
    );
}

// Fails under: an extension that writes a record, or measures from the old deadline.
#[test]
fn an_extension_prolongs_and_leaves_no_record() {
    check(
        "alice sends m1 to bob; bob claims; +20s; bob extends m1 to 60s; +59s; bob claims; +1s; \
         bob claims",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            bob: nothing to write
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            bob takes m1 (try 2, token 2)"#]],
    );
}

// Fails under: an extension that only ever prolongs the deadline.
#[test]
fn an_extension_can_be_short() {
    check(
        "alice sends m1 to bob; bob claims for 1h; bob extends m1 to 5s; +5s; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            bob: nothing to write
            #5 m1 of bob lapsed: ready
            bob takes m1 (try 2, token 2)"#]],
    );
}

// Fails under: the loop over operations ending at the first stale one.
#[test]
fn every_stale_item_is_named() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob; alice puts plan=1; bob claims 2; \
         bob retries m1; bob acks m1 & acks m2 & puts plan=2 expecting 9 & retries m1; where m2",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            #5 plan is at v1
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)
            #7 m1 of bob nacked: ready
            refused STALE_LEASE, op 0 dlv_0-1 STALE_LEASE, op 2 plan VERSION_CONFLICT, op 3 dlv_0-1 STALE_LEASE
            m2 of bob: held under token 2, try 1"#]],
    );
}

// Fails under: the loop going on after a refusal that is not about a stale item.
#[test]
fn another_refusal_ends_the_commit() {
    check(
        "alice puts plan=1; alice sends m1 to nobody & puts plan=2 expecting 9; \
         alice puts plan=2 expecting 9 & sends m1 to nobody & puts plan=3 expecting 8",
        expect![[r#"
            #3 plan is at v1
            refused UNKNOWN_RECIPIENT: there is no agent nobody
            refused VERSION_CONFLICT, now at v1"#]],
    );
}

// Fails under: a token counter for each inbox instead of one for the space.
#[test]
fn tokens_rise_across_agents() {
    check(
        "alice sends m1 to bob,carol; bob claims; carol claims; bob retries m1; bob claims",
        expect![[r#"
            #3 m1 goes to bob carol
            bob takes m1 (try 1, token 1)
            carol takes m1 (try 1, token 2)
            #6 m1 of bob nacked: ready
            bob takes m1 (try 2, token 3)"#]],
    );
}

// Fails under: `last_token` not put back by `undo`.
#[test]
fn a_refused_claim_uses_up_no_token() {
    check(
        "alice sends m1 to bob; bob claims & puts plan=1 expecting 9; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            refused VERSION_CONFLICT, now at v0
            bob takes m1 (try 1, token 1)"#]],
    );
}
