//! `can:CAPABILITY`: exactly one of those who can, and late.

use expect_test::expect;

use super::check;

// Fails under: one delivery for each who can, or a pool that nobody may take from.
#[test]
fn d3_one_of_those_who_can_takes_it() {
    check(
        "bob can review; carol can review,cook; alice sends m1 to can:review; where m1; alice claims; \
         carol claims; bob claims; carol acks m1; where m1; counts",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 pool.opened can:review
            #5 m1 goes to can:review
            m1 of can:review: ready since 0s, tried 0
            alice: nothing to claim
            carol takes m1 (try 1, token 1)
            bob: nothing to claim
            #7 m1 of can:review acked
            m1 of can:review: acked by #7
            1 acked"#]],
    );
}

// Fails under: a recipient that is chosen when the message is sent.
#[test]
fn d3_it_is_taken_late_by_whoever_is_free() {
    check(
        "bob can review; alice sends m1 to can:review; carol can review; carol claims; alice sends m2 to can:review; \
         bob leaves; hub registers dave able review; dave claims 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m1 goes to can:review
            #5 carol starts epoch 4
            carol takes m1 (try 1, token 1)
            #7 m2 goes to can:review
            #8 agent 2 leaves
            #9 dave starts epoch 9
            dave takes m2 (try 1, token 2)"#]],
    );
}

// Fails under: a line that serves one consumer until its credit is gone.
#[test]
fn d3_those_who_wait_take_turns() {
    check(
        "bob can review; carol can review; bob stands 5 as b; carol stands 5 as c; alice sends m1 to can:review; \
         alice sends m2 to can:review; alice sends m3 to can:review; alice sends m4 to can:review",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            bob: nothing to claim
            carol: nothing to claim
            #5 pool.opened can:review
            #5 m1 goes to can:review (leased at once)
            b gets m1 (try 1, token 1)
            #6 m2 goes to can:review (leased at once)
            c gets m2 (try 1, token 2)
            #7 m3 goes to can:review (leased at once)
            b gets m3 (try 1, token 3)
            #8 m4 goes to can:review (leased at once)
            c gets m4 (try 1, token 4)"#]],
    );
}

// Fails under: a backlog that goes to the first who asks, or a consumer without credit that is given more.
#[test]
fn d3_credit_is_what_counts() {
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
            #5 m1 goes to can:review (leased at once)
            #5 m2 goes to can:review (leased at once)
            #5 m3 goes to can:review (leased at once)
            #5 m4 goes to can:review
            b gets m1 (try 1, token 1)
            c gets m2 (try 1, token 2)
            c gets m3 (try 1, token 3)
            m4 of can:review: ready since 0s, tried 0
            #6 m1 of can:review acked
            b gets m4 (try 1, token 4)"#]],
    );
}

// Fails under: a capability that nobody has and that swallows the message.
#[test]
fn d3_somebody_must_be_able() {
    check(
        "alice sends m1 to can:review; bob can review; alice sends m2 to can:review; bob can cook; \
         alice sends m3 to can:review; bob claims; carol can review; carol claims",
        expect![[r#"
            refused UNKNOWN_RECIPIENT: no agent has capability review
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m2 goes to can:review
            #5 bob starts epoch 3
            refused UNKNOWN_RECIPIENT: no agent has capability review
            bob: nothing to claim
            #6 carol starts epoch 4
            carol takes m2 (try 1, token 1)"#]],
    );
}

// Fails under: an inbox that always goes before the pools, or the other way round.
#[test]
fn d3_inbox_and_pools_are_one_order() {
    check(
        "bob can review,cook; alice sends m1 to can:review; alice sends m2 to bob; alice sends m3 to can:cook urgent; \
         alice sends m4 to can:review; alice sends m5 to bob high; bob claims 9",
        expect![[r#"
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m1 goes to can:review
            #5 m2 goes to bob
            #6 pool.opened can:cook
            #6 m3 goes to can:cook
            #7 m4 goes to can:review
            #8 m5 goes to bob
            bob takes m3 (try 1, token 1), m5 (try 1, token 2), m1 (try 1, token 3), m2 (try 1, token 4), m4 (try 1, token 5)"#]],
    );
}

// Fails under: a lapse that leaves the delivery with whoever held it (`back_home`).
#[test]
fn d3_what_lapses_goes_back_to_the_pool() {
    check(
        "bob can review; carol can review; alice sends m1 to can:review tries 2; bob claims; +30s; bob acks m1; \
         carol claims; bob acks m1; bob acks m1#2; carol retries m1; dead",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 pool.opened can:review
            #5 m1 goes to can:review
            bob takes m1 (try 1, token 1)
            #7 m1 of can:review lapsed: ready
            refused STALE_LEASE
            carol takes m1 (try 2, token 2)
            refused STALE_LEASE
            refused STALE_LEASE
            #9 m1 of can:review nacked: dead
            dead: m1 of can:review after 2 (dead-lettered by its holder)"#]],
    );
}

// Fails under: leases of an earlier start that are not given back to the pool.
#[test]
fn d3_a_new_start_gives_it_back() {
    check(
        "bob can review; carol can review; carol waits as c; bob claims; alice sends m1 to can:review; \
         alice sends m2 to can:review; bob claims; bob starts; carol claims",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            carol: nothing to claim
            bob: nothing to claim
            #5 pool.opened can:review
            #5 m1 goes to can:review (leased at once)
            c gets m1 (try 1, token 1)
            #6 m2 goes to can:review
            bob takes m2 (try 1, token 2)
            #8 m2 of can:review epoch ended: ready
            #8 bob starts epoch 8
            carol takes m2 (try 2, token 3)"#]],
    );
}

// Fails under: a holder that a restart forgets.
#[test]
fn d3_who_holds_it_is_known_after_a_restart() {
    check(
        "bob can review; carol can review; alice sends m1 to can:review; alice sends m2 to can:review; bob claims; \
         restart; carol acks m1; bob acks m1; carol claims; where m2",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 pool.opened can:review
            #5 m1 goes to can:review
            #6 m2 goes to can:review
            bob takes m1 (try 1, token 1)
            refused STALE_LEASE
            #8 m1 of can:review acked
            carol takes m2 (try 1, token 2)
            m2 of can:review: held under token 2, try 1"#]],
    );
}

// Fails under: dead letters of a pool that go back to their last holder.
#[test]
fn d3_a_dead_letter_of_a_pool_is_redriven_to_the_pool() {
    check(
        "bob can review; carol can review; alice sends m1 to can:review; bob claims; bob drops m1 because no_use; \
         dead; hub redrives m1; carol claims; carol acks m1; counts",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 pool.opened can:review
            #5 m1 goes to can:review
            bob takes m1 (try 1, token 1)
            #7 m1 of can:review nacked (no use): dead
            dead: m1 of can:review after 1 (no use)
            #8 m1 of can:review redriven
            carol takes m1 (try 1, token 2)
            #10 m1 of can:review acked
            1 acked"#]],
    );
}

// Fails under: an agent that takes what it holds from a pool with it, or a purge of its inbox that ends it.
#[test]
fn d3_a_purge_of_an_inbox_leaves_pools_alone() {
    check(
        "bob can review; alice sends m1 to can:review; alice sends m2 to bob; bob claims 2; bob purges; \
         where m1; bob purges can:review; hub purges can:review; counts",
        expect![[r#"
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m1 goes to can:review
            #5 m2 goes to bob
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)
            #7 m2 of bob purged
            1 purged
            m1 of can:review: held under token 1, try 1
            refused FORBIDDEN
            #8 m1 of can:review purged
            1 purged
            2 purged"#]],
    );
}

// Fails under: an agent that cannot leave because of what others could do as well.
#[test]
fn d3_who_leaves_gives_it_back() {
    check(
        "bob can review; carol can review; alice sends m1 to can:review; bob claims; bob leaves; carol claims; \
         counts",
        expect![[r#"
            #3 bob starts epoch 3
            #4 carol starts epoch 4
            #5 pool.opened can:review
            #5 m1 goes to can:review
            bob takes m1 (try 1, token 1)
            #7 m1 of can:review epoch ended: ready
            #7 agent 2 leaves
            carol takes m1 (try 2, token 2)
            1 leased"#]],
    );
}

// Fails under: a refused commit that leaves its pool behind, or its place in the line.
#[test]
fn d3_a_refused_step_opens_no_pool() {
    check(
        "bob can review; bob stands 1 as b; alice sends m1 to can:review & puts plan=1 expecting 9; \
         alice sends m2 to can:review; bob acks m2 & grants 1 to b; alice sends m3 to can:review",
        expect![[r#"
            #3 bob starts epoch 3
            bob: nothing to claim
            refused VERSION_CONFLICT, now at v0
            #4 pool.opened can:review
            #4 m2 goes to can:review (leased at once)
            b gets m2 (try 1, token 1)
            #5 m2 of can:review acked
            #6 m3 goes to can:review (leased at once)
            b gets m3 (try 1, token 2)"#]],
    );
}

// Fails under: expiry or delay that pools do not know.
#[test]
fn d3_time_works_in_pools() {
    check(
        "bob can review; alice sends m1 to can:review expires 5s; alice sends m2 to can:review after 5s; +5s; \
         bob claims 9; alice sends m3 to can:review expires 5s; quietly +5s; bob claims; counts",
        expect![[r#"
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m1 goes to can:review
            #5 m2 goes to can:review
            #6 m1 of can:review expired
            bob takes m2 (try 1, token 1)
            #8 m3 goes to can:review
            #9 m3 of can:review expired
            bob: nothing to claim
            1 leased, 2 expired"#]],
    );
}

// Fails under: the sender kept from what it can do itself.
#[test]
fn d3_the_sender_may_take_it_too() {
    check(
        "alice can review; alice sends m1 to can:review; alice claims",
        expect![[r#"
        #3 alice starts epoch 2
        #4 pool.opened can:review
        #4 m1 goes to can:review
        alice takes m1 (try 1, token 1)"#]],
    );
}
