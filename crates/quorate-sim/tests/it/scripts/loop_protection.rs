//! D8: loop protection: message chains end by hop limit, by repetition, or by budget.

use expect_test::expect;

use super::check;

// Fails under: a missing `check_hops`, or `<` instead of `<=`.
#[test]
fn d8_a_chain_is_limited_to_100_hops() {
    check(
        "alice sends m1 to bob hops 100; bob sends m2 to alice hops 101; alice sends m3 to bob hops 7 limit 7; \
         bob sends m4 to alice hops 8 limit 7",
        expect![[r#"
            #3 m1 sent to bob
            refused LOOP_REFUSED, limit 100
            #4 m3 sent to bob
            refused LOOP_REFUSED, limit 7"#]],
    );
}

// Fails under: messages compared without the recipient.
#[test]
fn d8_a_chain_may_return_to_its_first_sender() {
    check(
        "dave starts; alice sends m1 to bob chain c1; bob sends m2 to carol chain c1 hops 1; \
         carol sends m3 to dave chain c1 hops 2; dave sends m4 to alice chain c1 hops 3; counts",
        expect![[r#"
            #3 dave starts epoch 5
            #4 m1 sent to bob
            #5 m2 sent to carol
            #6 m3 sent to dave
            #7 m4 sent to alice
            4 ready"#]],
    );
}

// Fails under: a missing `check_chain`; messages compared without the payload.
#[test]
fn d8_two_agents_that_repeat_the_same_messages_are_stopped() {
    check(
        "alice sends m1 to bob chain c1 saying ready?; bob sends m2 to alice chain c1 hops 1 saying ready?; \
         alice sends m3 to bob chain c1 hops 2 saying ready?; bob sends m4 to alice chain c1 hops 3 saying ready?; \
         alice sends m5 to bob chain c1 hops 4 saying ready?; bob sends m6 to alice chain c1 hops 5 saying ready?; \
         bob sends m7 to alice chain c1 hops 5 saying no; counts",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to alice
            #5 m3 sent to bob
            #6 m4 sent to alice
            #7 m5 sent to bob
            refused LOOP_REFUSED, limit 2
            #8 m7 sent to alice
            6 ready"#]],
    );
}

// Fails under: chains that are not distinguished; the first message of a chain counted.
#[test]
fn d8_other_chains_and_first_messages_do_not_count() {
    check(
        "alice sends m1 to bob chain c1 hops 1; alice sends m2 to bob chain c1 hops 2; alice sends m3 to bob chain c2 hops 1; \
         alice sends m4 to bob chain c1; alice sends m5 to bob hops 1; alice sends m6 to bob chain c1 hops 3; counts",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            #5 m3 sent to bob
            #6 m4 sent to bob
            #7 m5 sent to bob
            refused LOOP_REFUSED, limit 2
            5 ready"#]],
    );
}

// Fails under: a redelivery or a repeated client id counted.
#[test]
fn d8_redeliveries_do_not_count() {
    check(
        "alice sends m1 to bob chain c1 hops 1 id x; alice sends m1 to bob chain c1 hops 1 id x; bob claims; bob retries m1; \
         bob claims; bob retries m1; bob claims; alice sends m2 to bob chain c1 hops 2; alice sends m3 to bob chain c1 hops 3",
        expect![[r#"
            #3 m1 sent to bob
            sent already by #3
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: ready
            bob claims m1 (attempt 2, token 2)
            #7 m1 of bob nacked: ready
            bob claims m1 (attempt 3, token 3)
            #9 m2 sent to bob
            refused LOOP_REFUSED, limit 2"#]],
    );
}

// Fails under: repetition counts that are not undone when a commit is refused.
#[test]
fn d8_refused_messages_do_not_count() {
    check(
        "alice sends m1 to bob chain c1 hops 1 & puts plan=1 expecting 9; alice sends m1 to bob chain c1 hops 2 & puts plan=1 expecting 9; \
         alice sends m1 to bob chain c1 hops 1; alice sends m2 to bob chain c1 hops 2; alice sends m3 to bob chain c1 hops 3",
        expect![[r#"
            refused VERSION_CONFLICT, now at v0
            refused VERSION_CONFLICT, now at v0
            #3 m1 sent to bob
            #4 m2 sent to bob
            refused LOOP_REFUSED, limit 2"#]],
    );
}

// Fails under: a budget that is not charged; a warning at another percentage, or twice.
#[test]
fn d8_a_budget_warns_and_then_refuses() {
    check(
        "alice budgets b1 to 5; alice sends m1 to bob on b1; bob sends m2 to alice on b1; alice sends m3 to bob on b1; \
         alice sends m4 to bob on b1; budget b1; alice sends m5 to bob on b1; alice sends m6 to bob on b1; bob budgets b1 to 9; \
         alice budgets b1 to 6; alice sends m7 to bob on b1; budget b1",
        expect![[r#"
            #3 budget.set b1: 0 of 5 messages
            #4 budget.spent b1: 1 of 5 messages
            #4 m1 sent to bob
            #5 budget.spent b1: 2 of 5 messages
            #5 m2 sent to alice
            #6 budget.spent b1: 3 of 5 messages
            #6 m3 sent to bob
            #7 budget.warned b1: 4 of 5 messages, warned
            #7 m4 sent to bob
            #7 !warning sent to alice
            budget b1: 4 of 5 messages, warned
            #8 budget.spent b1: 5 of 5 messages, warned
            #8 m5 sent to bob
            refused BUDGET_EXCEEDED, limit 5
            refused FORBIDDEN
            #9 budget.set b1: 5 of 6 messages
            #10 budget.warned b1: 6 of 6 messages, warned
            #10 m7 sent to bob
            #10 !warning sent to alice
            budget b1: 6 of 6 messages, warned"#]],
    );
}

// Fails under: a budget row that is not written, or a charge that is not undone.
#[test]
fn d8_spent_budget_survives_a_restart() {
    check(
        "hub budgets b1 to 3; alice sends m1 to bob on b1; alice sends m2 to bob on b1 & puts plan=1 expecting 9; restart; \
         budget b1; alice sends m3 to bob on b1 & sends m4 to bob on b1; alice sends m5 to bob on b1; alice sends m6 to bob on b2",
        expect![[r#"
            #3 budget.set b1: 0 of 3 messages
            #4 budget.spent b1: 1 of 3 messages
            #4 m1 sent to bob
            refused VERSION_CONFLICT, now at v0
            budget b1: 1 of 3 messages
            #5 budget.spent b1: 2 of 3 messages
            #5 m3 sent to bob
            #5 budget.warned b1: 3 of 3 messages, warned
            #5 m4 sent to bob
            refused BUDGET_EXCEEDED, limit 3
            refused NOT_FOUND"#]],
    );
}
