//! What is sent arrives, once for each recipient, and ends in one way only.

use expect_test::expect;

use super::check;

// Fails under: an ack that leaves the delivery open (`Effect::Acked` not applied).
#[test]
fn sent_claimed_acked() {
    check(
        "alice sends m1 to bob; bob claims; bob acks m1; where m1; bob claims; counts",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob acked
            m1 of bob: acked by #5
            bob: nothing to claim
            1 acked"#]],
    );
}

// Fails under: a payload that is parsed and written anew, or a sender taken from elsewhere than the principal.
#[test]
fn what_is_sent_is_what_is_read() {
    check(
        "alice sends m1 to bob saying {\"a\":1.50}; hub sends m2 to bob; text m1; text m2",
        expect![[r##"
        #3 m1 goes to bob
        #4 m2 goes to bob
        m1 from alice: {"a":1.50}
        m2 from the hub: {}"##]],
    );
}

// Fails under: a list that keeps duplicates (`recipients` without the set), or numbers them from another
// first.
#[test]
fn a_list_makes_one_delivery_each() {
    check(
        "alice sends m1 to bob,carol,bob; where m1; bob claims; carol claims; counts",
        expect![[r#"
            #3 m1 goes to bob carol
            m1 of bob: ready since 0s, tried 0
            m1 of carol: ready since 0s, tried 0
            bob takes m1 (try 1, token 1)
            carol takes m1 (try 1, token 2)
            2 leased"#]],
    );
}

// Fails under: unknown recipients swallowed instead of refused.
#[test]
fn an_unknown_recipient_is_refused_for_everybody() {
    check(
        "alice sends m1 to bob,nobody,noone; bob claims; counts",
        expect![[r#"
            refused UNKNOWN_RECIPIENT: there is no agent nobody, noone
            bob: nothing to claim
        "#]],
    );
}

// Fails under: a recipient left out because it is the sender.
#[test]
fn a_message_to_oneself() {
    check(
        "alice sends m1 to alice; alice claims; alice acks m1; where m1",
        expect![[r#"
            #3 m1 goes to alice
            alice takes m1 (try 1, token 1)
            #5 m1 of alice acked
            m1 of alice: acked by #5"#]],
    );
}

// Fails under: `check_sender` not comparing actor and sender.
#[test]
fn an_agent_sends_as_itself() {
    check(
        "alice sends m1 to bob as carol; bob claims",
        expect![[r#"
            refused FORBIDDEN
            bob: nothing to claim"#]],
    );
}

// Fails under: the hub refused, or let through for an agent that does not exist.
#[test]
fn the_hub_sends_for_an_agent() {
    check(
        "hub sends m1 to bob; hub sends m2 to bob as alice; hub sends m3 to bob as nobody; \
         bob claims 9",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            refused NOT_FOUND
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)"#]],
    );
}

// Fails under: `attempt >= attempts_max` written as `>`.
#[test]
fn dead_after_the_last_try() {
    check(
        "alice sends m1 to bob; bob claims; +30s; bob claims; +30s; bob claims; +30s; bob claims; \
         +30s; bob claims; dead; counts",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob lapsed: ready
            bob takes m1 (try 2, token 2)
            #7 m1 of bob lapsed: ready
            bob takes m1 (try 3, token 3)
            #9 m1 of bob lapsed: ready
            bob takes m1 (try 4, token 4)
            #11 m1 of bob lapsed: dead
            bob: nothing to claim
            dead: m1 of bob after 4 (its last lease expired)
            1 dead"#]],
    );
}

// Fails under: `NackThen::Dead` treated as a retry while tries are left.
#[test]
fn a_drop_is_dead_at_once() {
    check(
        "alice sends m1 to bob; bob claims; bob drops m1 because no_use; dead; where m1",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked (no use): dead
            dead: m1 of bob after 1 (no use)
            m1 of bob: dead by #5"#]],
    );
}

// Fails under: a redrive that keeps the attempts of before.
#[test]
fn a_redrive_grants_all_tries_again() {
    check(
        "alice sends m1 to bob tries 2; bob claims; bob drops m1; hub redrives m1; dead; \
         bob claims; bob retries m1; bob claims; bob retries m1; dead",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked: dead
            #6 m1 of bob redriven
            none
            bob takes m1 (try 1, token 2)
            #8 m1 of bob nacked: ready
            bob takes m1 (try 2, token 3)
            #10 m1 of bob nacked: dead
            dead: m1 of bob after 2 (dead-lettered by its holder)"#]],
    );
}

// Fails under: a redrive that looks at the delivery number only.
#[test]
fn only_what_is_dead_is_redriven() {
    check(
        "alice sends m1 to bob; hub redrives m1; bob claims; hub redrives m1; bob acks m1; \
         hub redrives m1; counts",
        expect![[r#"
            #3 m1 goes to bob
            refused NOT_FOUND
            bob takes m1 (try 1, token 1)
            refused NOT_FOUND
            #5 m1 of bob acked
            refused NOT_FOUND
            1 acked"#]],
    );
}

// Fails under: `redrive` asking the tables before this commit's own endings.
#[test]
fn a_redrive_sees_what_its_commit_did() {
    check(
        "alice sends m1 to bob; bob claims; hub drops m1 & redrives m1; bob claims; bob drops m1; \
         hub redrives m1 & purges bob & redrives m1; counts",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked: dead
            #5 m1 of bob redriven
            bob takes m1 (try 1, token 2)
            #7 m1 of bob nacked: dead
            refused NOT_FOUND
            1 dead"#]],
    );
}

// Fails under: `require_system` missing in `redrive`.
#[test]
fn a_redrive_is_for_the_hub() {
    check(
        "alice sends m1 to bob; bob claims; bob drops m1; bob redrives m1; dead",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked: dead
            refused FORBIDDEN
            dead: m1 of bob after 1 (dead-lettered by its holder)"#]],
    );
}

// Fails under: a purge that leaves out what is scheduled or held.
#[test]
fn a_purge_ends_all_three_kinds() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob after 9s; alice sends m3 to bob; \
         bob claims; bob purges; bob acks m1; counts",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            #5 m3 goes to bob
            bob takes m1 (try 1, token 1)
            #7 m3 of bob purged
            #7 m2 of bob purged
            #7 m1 of bob purged
            3 purged
            refused STALE_LEASE
            3 purged"#]],
    );
}

// Fails under: a refusal that does not put back the operations before it (`undo`).
#[test]
fn one_step_or_nothing() {
    check(
        "alice sends m1 to bob; bob claims; \
         bob acks m1 & puts plan=1 expecting 7 & sends m2 to alice; where m1; alice claims; \
         bob acks m1 & puts plan=1 expecting 0 & sends m2 to alice; alice claims; read plan",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            refused VERSION_CONFLICT, now at v0
            m1 of bob: held under token 1, try 1
            alice: nothing to claim
            #5 m1 of bob acked
            #5 plan is at v1
            #5 m2 goes to alice
            alice takes m2 (try 1, token 2)
            plan v1 = 1, by agent:bob at 0s"#]],
    );
}

// Fails under: a key without the space number in it.
#[test]
fn spaces_do_not_meet() {
    check(
        "alice sends m1 to bob; alice puts plan=1; in team; bob claims; read plan; \
         alice sends m1 to bob; bob claims; in default; counts; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            #4 plan is at v1
            bob: nothing to claim
            plan: nothing
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            1 ready
            bob takes m1 (try 1, token 1)"#]],
    );
}
