//! Capability pools (`can:CAPABILITY`): exactly one capable agent receives each message, selected at claim time.

use expect_test::expect;

use super::check;

// Fails under: one delivery per capable agent, or a pool that no agent can claim from.
#[test]
fn d3_one_capable_agent_claims_the_message() {
    check(
        "bob can review; carol can review,cook; alice sends m1 to can:review; where m1; alice claims; \
         carol claims; bob claims; carol acks m1; where m1; counts",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 pool.opened can:review
            #5 m1 sent to can:review
            m1 of can:review: ready since 0s, tried 0
            alice: nothing to claim
            carol claims m1 (attempt 1, token 1)
            bob: nothing to claim
            #7 m1 of can:review acked
            m1 of can:review: acked by #7
            1 acked"#]],
    );
}

// Fails under: a recipient selected at send time.
#[test]
fn d3_the_recipient_is_selected_at_claim_time() {
    check(
        "bob can review; alice sends m1 to can:review; carol can review; carol claims; alice sends m2 to can:review; \
         bob leaves; hub registers dave able review; dave claims 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m1 sent to can:review
            #5 carol starts epoch 4
            carol claims m1 (attempt 1, token 1)
            #7 m2 sent to can:review
            #8 agent 2 removed
            #9 dave starts epoch 9
            dave claims m2 (attempt 1, token 2)"#]],
    );
}

// Fails under: a queue that serves one consumer until its credit is used up.
#[test]
fn d3_waiting_consumers_take_turns() {
    check(
        "bob can review; carol can review; bob stands 5 as b; carol stands 5 as c; alice sends m1 to can:review; \
         alice sends m2 to can:review; alice sends m3 to can:review; alice sends m4 to can:review",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            bob: nothing to claim
            carol: nothing to claim
            #5 pool.opened can:review
            #5 m1 sent to can:review (leased immediately)
            b receives m1 (attempt 1, token 1)
            #6 m2 sent to can:review (leased immediately)
            c receives m2 (attempt 1, token 2)
            #7 m3 sent to can:review (leased immediately)
            b receives m3 (attempt 1, token 3)
            #8 m4 sent to can:review (leased immediately)
            c receives m4 (attempt 1, token 4)"#]],
    );
}

// Fails under: a backlog that goes entirely to the first consumer, or a consumer without credit that receives more.
#[test]
fn d3_credit_limits_pool_deliveries() {
    check(
        "bob can review; carol can review; bob stands 1 as b; carol stands 2 as c; alice sends m1 to can:review & \
         sends m2 to can:review & sends m3 to can:review & sends m4 to can:review; where m4; \
         bob acks m1 & grants 1 to b",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            bob: nothing to claim
            carol: nothing to claim
            #5 pool.opened can:review
            #5 m1 sent to can:review (leased immediately)
            #5 m2 sent to can:review (leased immediately)
            #5 m3 sent to can:review (leased immediately)
            #5 m4 sent to can:review
            b receives m1 (attempt 1, token 1)
            c receives m2 (attempt 1, token 2)
            c receives m3 (attempt 1, token 3)
            m4 of can:review: ready since 0s, tried 0
            #6 m1 of can:review acked
            b receives m4 (attempt 1, token 4)"#]],
    );
}

// Fails under: a message to a capability that no agent has, silently accepted.
#[test]
fn d3_a_pool_without_a_capable_agent_is_refused() {
    check(
        "alice sends m1 to can:review; bob can review; alice sends m2 to can:review; bob can cook; \
         alice sends m3 to can:review; bob claims; carol can review; carol claims",
        expect![[r#"
            refused UNKNOWN_RECIPIENT: no agent has capability review
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m2 sent to can:review
            #5 bob starts epoch 3
            refused UNKNOWN_RECIPIENT: no agent has capability review
            bob: nothing to claim
            #6 carol starts epoch 4
            carol claims m2 (attempt 1, token 1)"#]],
    );
}

// Fails under: an inbox that always precedes the pools, or the other way round.
#[test]
fn d3_inbox_and_pools_share_one_order() {
    check(
        "bob can review,cook; alice sends m1 to can:review; alice sends m2 to bob; alice sends m3 to can:cook urgent; \
         alice sends m4 to can:review; alice sends m5 to bob high; bob claims 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m1 sent to can:review
            #5 m2 sent to bob
            #6 pool.opened can:cook
            #6 m3 sent to can:cook
            #7 m4 sent to can:review
            #8 m5 sent to bob
            bob claims m3 (attempt 1, token 1), m5 (attempt 1, token 2), m1 (attempt 1, token 3), m2 (attempt 1, token 4), m4 (attempt 1, token 5)"#]],
    );
}

// Fails under: an expired lease that leaves the delivery with its holder.
#[test]
fn d3_an_expired_lease_returns_to_the_pool() {
    check(
        "bob can review; carol can review; alice sends m1 to can:review tries 2; bob claims; +30s; bob acks m1; \
         carol claims; bob acks m1; bob acks m1#2; carol retries m1; dead",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 pool.opened can:review
            #5 m1 sent to can:review
            bob claims m1 (attempt 1, token 1)
            #7 m1 of can:review lapsed: ready
            refused STALE_LEASE
            carol claims m1 (attempt 2, token 2)
            refused STALE_LEASE
            refused STALE_LEASE
            #9 m1 of can:review nacked: dead
            dead: m1 of can:review after 2 (dead-lettered by its holder)"#]],
    );
}

// Fails under: leases of an earlier epoch that are not returned to the pool.
#[test]
fn d3_a_new_epoch_returns_leases_to_the_pool() {
    check(
        "bob can review; carol can review; carol waits as c; bob claims; alice sends m1 to can:review; \
         alice sends m2 to can:review; bob claims; bob starts; carol claims",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            carol: nothing to claim
            bob: nothing to claim
            #5 pool.opened can:review
            #5 m1 sent to can:review (leased immediately)
            c receives m1 (attempt 1, token 1)
            #6 m2 sent to can:review
            bob claims m2 (attempt 1, token 2)
            #8 m2 of can:review epoch ended: ready
            #8 bob starts epoch 8
            carol claims m2 (attempt 2, token 3)"#]],
    );
}

// Fails under: a holder that is lost at a restart.
#[test]
fn d3_the_holder_survives_a_restart() {
    check(
        "bob can review; carol can review; alice sends m1 to can:review; alice sends m2 to can:review; bob claims; \
         restart; carol acks m1; bob acks m1; carol claims; where m2",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 pool.opened can:review
            #5 m1 sent to can:review
            #6 m2 sent to can:review
            bob claims m1 (attempt 1, token 1)
            refused STALE_LEASE
            #8 m1 of can:review acked
            carol claims m2 (attempt 1, token 2)
            m2 of can:review: leased under token 2, attempt 1"#]],
    );
}

// Fails under: a dead letter of a pool that is redriven to its last holder.
#[test]
fn d3_a_dead_letter_of_a_pool_is_redriven_to_the_pool() {
    check(
        "bob can review; carol can review; alice sends m1 to can:review; bob claims; bob drops m1 because no_use; \
         dead; hub redrives m1; carol claims; carol acks m1; counts",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 pool.opened can:review
            #5 m1 sent to can:review
            bob claims m1 (attempt 1, token 1)
            #7 m1 of can:review nacked (no use): dead
            dead: m1 of can:review after 1 (no use)
            #8 m1 of can:review redriven
            carol claims m1 (attempt 1, token 2)
            #10 m1 of can:review acked
            1 acked"#]],
    );
}

// Fails under: a purge of an inbox that ends deliveries claimed from a pool.
#[test]
fn d3_purging_an_inbox_does_not_affect_pools() {
    check(
        "bob can review; alice sends m1 to can:review; alice sends m2 to bob; bob claims 2; bob purges; \
         where m1; bob purges can:review; hub purges can:review; counts",
        expect![[r#"
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m1 sent to can:review
            #5 m2 sent to bob
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)
            #7 m2 of bob purged
            1 purged
            m1 of can:review: leased under token 1, attempt 1
            refused FORBIDDEN
            #8 m1 of can:review purged
            1 purged
            2 purged"#]],
    );
}

// Fails under: an agent that cannot be removed because it holds pool deliveries.
#[test]
fn d3_a_removed_agent_returns_its_leases_to_the_pool() {
    check(
        "bob can review; carol can review; alice sends m1 to can:review; bob claims; bob leaves; carol claims; \
         counts",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 pool.opened can:review
            #5 m1 sent to can:review
            bob claims m1 (attempt 1, token 1)
            #7 m1 of can:review epoch ended: ready
            #7 agent 2 removed
            carol claims m1 (attempt 2, token 2)
            1 leased"#]],
    );
}

// Fails under: a refused commit that leaves a pool or a queue position.
#[test]
fn d3_a_refused_commit_creates_no_pool() {
    check(
        "bob can review; bob stands 1 as b; alice sends m1 to can:review & puts plan=1 expecting 9; \
         alice sends m2 to can:review; bob acks m2 & grants 1 to b; alice sends m3 to can:review",
        expect![[r#"
            #3 bob starts epoch 3
            bob: nothing to claim
            refused VERSION_CONFLICT, now at v0
            #4 pool.opened can:review
            #4 m2 sent to can:review (leased immediately)
            b receives m2 (attempt 1, token 1)
            #5 m2 of can:review acked
            #6 m3 sent to can:review (leased immediately)
            b receives m3 (attempt 1, token 2)"#]],
    );
}

// Fails under: expiry or delay that is ignored in pools.
#[test]
fn d3_expiry_and_delay_apply_to_pools() {
    check(
        "bob can review; alice sends m1 to can:review expires 5s; alice sends m2 to can:review after 5s; +5s; \
         bob claims 9; alice sends m3 to can:review expires 5s; quietly +5s; bob claims; counts",
        expect![[r#"
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m1 sent to can:review
            #5 m2 sent to can:review
            #6 m1 of can:review expired
            bob claims m2 (attempt 1, token 1)
            #8 m3 sent to can:review
            #9 m3 of can:review expired
            bob: nothing to claim
            1 leased, 2 expired"#]],
    );
}

// Fails under: a sender that is excluded from its own pool message.
#[test]
fn d3_the_sender_may_claim_its_own_pool_message() {
    check(
        "alice can review; alice sends m1 to can:review; alice claims",
        expect![[r#"
        #3 alice starts epoch 2
        #4 pool.opened can:review
        #4 m1 sent to can:review
        alice claims m1 (attempt 1, token 1)"#]],
    );
}
