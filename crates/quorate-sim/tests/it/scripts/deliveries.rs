//! Deliveries: one per recipient, each with exactly one end.

use expect_test::expect;

use super::check;

// Fails under: an ack that leaves the delivery open (`Effect::Acked` not applied).
#[test]
fn a_message_is_sent_claimed_and_acked() {
    check(
        "alice sends m1 to bob; bob claims; bob acks m1; where m1; bob claims; counts",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob acked
            m1 of bob: acked by #5
            bob: nothing to claim
            1 acked"#]],
    );
}

// Fails under: a payload that is parsed and serialized again, or a sender that is not the principal.
#[test]
fn a_message_is_delivered_unchanged() {
    check(
        "alice sends m1 to bob saying {\"a\":1.50}; hub sends m2 to bob; text m1; text m2",
        expect![[r##"
        #3 m1 sent to bob
        #4 m2 sent to bob
        m1 from alice: {"a":1.50}
        m2 from the hub: {}"##]],
    );
}

// Fails under: a recipient list with duplicates, or delivery numbers with a wrong start.
#[test]
fn a_recipient_list_creates_one_delivery_per_recipient() {
    check(
        "alice sends m1 to bob,carol,bob; where m1; bob claims; carol claims; counts",
        expect![[r#"
            #3 m1 sent to bob carol
            m1 of bob: ready since 0s, tried 0
            m1 of carol: ready since 0s, tried 0
            bob claims m1 (attempt 1, token 1)
            carol claims m1 (attempt 1, token 2)
            2 leased"#]],
    );
}

// Fails under: an unknown recipient that is ignored instead of refused.
#[test]
fn one_unknown_recipient_refuses_the_whole_message() {
    check(
        "alice sends m1 to bob,nobody,noone; bob claims; counts",
        expect![[r#"
            refused UNKNOWN_RECIPIENT: there is no agent nobody, noone
            bob: nothing to claim
        "#]],
    );
}

// Fails under: a sender that is removed from the recipients.
#[test]
fn an_agent_can_send_to_itself() {
    check(
        "alice sends m1 to alice; alice claims; alice acks m1; where m1",
        expect![[r#"
            #3 m1 sent to alice
            alice claims m1 (attempt 1, token 1)
            #5 m1 of alice acked
            m1 of alice: acked by #5"#]],
    );
}

// Fails under: `check_sender` that does not compare principal and sender.
#[test]
fn an_agent_cannot_send_as_another_agent() {
    check(
        "alice sends m1 to bob as carol; bob claims",
        expect![[r#"
            refused FORBIDDEN
            bob: nothing to claim"#]],
    );
}

// Fails under: a hub that cannot send for an agent, or sends for an unknown one.
#[test]
fn the_hub_can_send_on_behalf_of_an_agent() {
    check(
        "hub sends m1 to bob; hub sends m2 to bob as alice; hub sends m3 to bob as nobody; \
         bob claims 9",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            refused NOT_FOUND
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)"#]],
    );
}

// Fails under: `attempt >= attempts_max` written as `>`.
#[test]
fn a_delivery_is_dead_lettered_after_the_last_attempt() {
    check(
        "alice sends m1 to bob; bob claims; +30s; bob claims; +30s; bob claims; +30s; bob claims; \
         +30s; bob claims; dead; counts",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob lapsed: ready
            bob claims m1 (attempt 2, token 2)
            #7 m1 of bob lapsed: ready
            bob claims m1 (attempt 3, token 3)
            #9 m1 of bob lapsed: ready
            bob claims m1 (attempt 4, token 4)
            #11 m1 of bob lapsed: dead
            bob: nothing to claim
            dead: m1 of bob after 4 (its last lease expired)
            1 dead"#]],
    );
}

// Fails under: `NackAction::DeadLetter` that is treated as a retry while attempts are left.
#[test]
fn a_dropped_delivery_is_dead_lettered_immediately() {
    check(
        "alice sends m1 to bob; bob claims; bob drops m1 because no_use; dead; where m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked (no use): dead
            dead: m1 of bob after 1 (no use)
            m1 of bob: dead by #5"#]],
    );
}

// Fails under: a redrive that keeps the previous attempt count.
#[test]
fn a_redrive_resets_the_attempts() {
    check(
        "alice sends m1 to bob tries 2; bob claims; bob drops m1; hub redrives m1; dead; \
         bob claims; bob retries m1; bob claims; bob retries m1; dead",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: dead
            #6 m1 of bob redriven
            none
            bob claims m1 (attempt 1, token 2)
            #8 m1 of bob nacked: ready
            bob claims m1 (attempt 2, token 3)
            #10 m1 of bob nacked: dead
            dead: m1 of bob after 2 (dead-lettered by its holder)"#]],
    );
}

// Fails under: a redrive that checks the delivery number only.
#[test]
fn only_dead_letters_can_be_redriven() {
    check(
        "alice sends m1 to bob; hub redrives m1; bob claims; hub redrives m1; bob acks m1; \
         hub redrives m1; counts",
        expect![[r#"
            #3 m1 sent to bob
            refused NOT_FOUND
            bob claims m1 (attempt 1, token 1)
            refused NOT_FOUND
            #5 m1 of bob acked
            refused NOT_FOUND
            1 acked"#]],
    );
}

// Fails under: a redrive that reads the tables and ignores deliveries ended in the same commit.
#[test]
fn a_redrive_sees_earlier_operations_of_its_commit() {
    check(
        "alice sends m1 to bob; bob claims; hub drops m1 & redrives m1; bob claims; bob drops m1; \
         hub redrives m1 & purges bob & redrives m1; counts",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: dead
            #5 m1 of bob redriven
            bob claims m1 (attempt 1, token 2)
            #7 m1 of bob nacked: dead
            refused NOT_FOUND
            1 dead"#]],
    );
}

// Fails under: a redrive without a permission check.
#[test]
fn an_agent_cannot_redrive() {
    check(
        "alice sends m1 to bob; bob claims; bob drops m1; bob redrives m1; dead",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: dead
            refused FORBIDDEN
            dead: m1 of bob after 1 (dead-lettered by its holder)"#]],
    );
}

// Fails under: a purge that skips scheduled or leased deliveries.
#[test]
fn a_purge_ends_ready_scheduled_and_leased_deliveries() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob after 9s; alice sends m3 to bob; \
         bob claims; bob purges; bob acks m1; counts",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            #5 m3 sent to bob
            bob claims m1 (attempt 1, token 1)
            #7 m3 of bob purged
            #7 m2 of bob purged
            #7 m1 of bob purged
            3 purged
            refused STALE_LEASE
            3 purged"#]],
    );
}

// Fails under: a refusal that does not undo the operations before it (`undo`).
#[test]
fn a_commit_is_atomic() {
    check(
        "alice sends m1 to bob; bob claims; \
         bob acks m1 & puts plan=1 expecting 7 & sends m2 to alice; where m1; alice claims; \
         bob acks m1 & puts plan=1 expecting 0 & sends m2 to alice; alice claims; read plan",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            refused VERSION_CONFLICT, now at v0
            m1 of bob: leased under token 1, attempt 1
            alice: nothing to claim
            #5 m1 of bob acked
            #5 plan is at v1
            #5 m2 sent to alice
            alice claims m2 (attempt 1, token 2)
            plan v1 = 1, by agent:bob at 0s"#]],
    );
}

// Fails under: a row key without the space number.
#[test]
fn spaces_are_isolated() {
    check(
        "alice sends m1 to bob; alice puts plan=1; in team; bob claims; read plan; \
         alice sends m1 to bob; bob claims; in default; counts; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            #4 plan is at v1
            bob: nothing to claim
            plan: nothing
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            1 ready
            bob claims m1 (attempt 1, token 1)"#]],
    );
}
