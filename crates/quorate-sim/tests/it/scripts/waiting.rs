//! Whoever waits gets what comes, in turn and within its credit.

use expect_test::expect;

use super::check;

// Fails under: `lease_at_once` never taken: the delivery would be ready first and leased by another effect.
#[test]
fn leased_in_the_very_insert() {
    check(
        "bob waits as w1; alice sends m1 to bob; where m1; bob acks m1",
        expect![[r#"
            bob: nothing to claim
            #3 m1 goes to bob (leased at once)
            w1 gets m1 (try 1, token 1)
            m1 of bob: held under token 1, try 1
            #4 m1 of bob acked"#]],
    );
}

// Fails under: a waiting claim that stays in line.
#[test]
fn a_waiting_claim_gets_one_hand_over() {
    check(
        "bob waits 5 as w1; alice sends m1 to bob; alice sends m2 to bob; where m2",
        expect![[r#"
            bob: nothing to claim
            #3 m1 goes to bob (leased at once)
            w1 gets m1 (try 1, token 1)
            #4 m2 goes to bob
            m2 of bob: ready since 0s, tried 0"#]],
    );
}

// Fails under: credit not taken, or a grant that does not look for what is ready.
#[test]
fn credit_is_spent_and_granted() {
    check(
        "bob stands 1 as s1; alice sends m1 to bob; alice sends m2 to bob; bob grants 2 to s1; \
         alice sends m3 to bob; alice sends m4 to bob; counts",
        expect![[r#"
            bob: nothing to claim
            #3 m1 goes to bob (leased at once)
            s1 gets m1 (try 1, token 1)
            #4 m2 goes to bob
            s1 gets m2 (try 1, token 2)
            #6 m3 goes to bob (leased at once)
            s1 gets m3 (try 1, token 3)
            #7 m4 goes to bob
            1 ready, 3 leased"#]],
    );
}

// Fails under: whoever was served staying first in line.
#[test]
fn consumers_take_turns() {
    check(
        "bob stands 2 as s1; bob stands 2 as s2; alice sends m1 to bob; alice sends m2 to bob; \
         alice sends m3 to bob; alice sends m4 to bob",
        expect![[r#"
            bob: nothing to claim
            bob: nothing to claim
            #3 m1 goes to bob (leased at once)
            s1 gets m1 (try 1, token 1)
            #4 m2 goes to bob (leased at once)
            s2 gets m2 (try 1, token 2)
            #5 m3 goes to bob (leased at once)
            s1 gets m3 (try 1, token 3)
            #6 m4 goes to bob (leased at once)
            s2 gets m4 (try 1, token 4)"#]],
    );
}

// Fails under: `Close` forgetting the line.
#[test]
fn closed_means_closed() {
    check(
        "bob stands 9 as s1; bob closes s1; alice sends m1 to bob; where m1",
        expect![[r#"
            bob: nothing to claim
            bob: nothing to write
            #3 m1 goes to bob
            m1 of bob: ready since 0s, tried 0"#]],
    );
}

// Fails under: `dismiss_consumers` forgotten: an old process would get the work of the new one.
#[test]
fn a_new_start_sends_consumers_away() {
    check(
        "bob stands 9 as s1; carol stands 9 as s2; bob starts; alice sends m1 to bob,carol",
        expect![[r#"
            bob: nothing to claim
            carol: nothing to claim
            #3 bob starts epoch 5
            s1 is sent away
            #4 m1 goes to bob carol (leased at once)
            s2 gets m1 (try 1, token 1)"#]],
    );
}

// Fails under: a lapse that does not stir the inbox.
#[test]
fn what_lapses_goes_to_whoever_waits() {
    check(
        "alice sends m1 to bob; bob claims; bob waits as w1; +30s",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            w1 gets m1 (try 2, token 2)"#]],
    );
}

// Fails under: falling due that does not stir the inbox.
#[test]
fn what_falls_due_goes_to_whoever_waits() {
    check(
        "bob waits as w1; alice sends m1 to bob after 5s; +5s",
        expect![[r#"
            bob: nothing to claim
            #3 m1 goes to bob
            w1 gets m1 (try 1, token 1)"#]],
    );
}

// Fails under: a redrive that does not stir the inbox.
#[test]
fn a_redrive_goes_to_whoever_waits() {
    check(
        "alice sends m1 to bob; bob claims; bob drops m1; bob waits as w1; hub redrives m1",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked: dead
            bob: nothing to claim
            #6 m1 of bob redriven
            w1 gets m1 (try 1, token 2)"#]],
    );
}

// Fails under: `lease_at_once` not looking whether something is ready.
#[test]
fn nothing_overtakes_what_waits() {
    check(
        "alice sends m1 to bob; bob claims; bob waits as w1; bob retries m1 & sends m2 to bob; \
         bob claims",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            bob: nothing to claim
            #5 m1 of bob nacked: ready
            #5 m2 goes to bob
            w1 gets m1 (try 2, token 2)
            bob takes m2 (try 1, token 3)"#]],
    );
}

// Fails under: credit not put back by `undo`.
#[test]
fn a_refused_send_takes_no_credit() {
    check(
        "bob stands 1 as s1; alice sends m1 to bob & puts plan=1 expecting 9; \
         alice sends m1 to bob; alice sends m2 to bob; counts",
        expect![[r#"
            bob: nothing to claim
            refused VERSION_CONFLICT, now at v0
            #3 m1 goes to bob (leased at once)
            s1 gets m1 (try 1, token 1)
            #4 m2 goes to bob
            1 ready, 1 leased"#]],
    );
}

// Fails under: inboxes stirred by a refused commit kept in the list.
#[test]
fn a_refused_stranger_leaves_nothing() {
    check(
        "dave starts & stands 1 as s1 & sends m1 to dave & sends m2 to dave & grants 1 to s1 \
         & puts plan=1 expecting 9; hub sweeps; alice sends m3 to dave; dave starts; \
         alice sends m3 to dave; dave claims",
        expect![[r#"
            refused VERSION_CONFLICT, now at v0
            hub: nothing to write
            refused UNKNOWN_RECIPIENT: there is no agent dave
            #3 dave starts epoch 5
            #4 m3 goes to dave
            dave takes m3 (try 1, token 1)"#]],
    );
}

// Fails under: `lease_at_once` not looking at expiry.
#[test]
fn past_its_time_it_is_not_handed_over() {
    check(
        "bob waits as w1; alice sends m1 to bob expires 0s; alice sends m2 to bob",
        expect![[r#"
            bob: nothing to claim
            #3 m1 goes to bob
            #3 m1 of bob expired
            #4 m2 goes to bob (leased at once)
            w1 gets m2 (try 1, token 1)"#]],
    );
}
