//! Approvals: who proposes, who decides, what time does, and that nothing decided changes.

use expect_test::expect;

use super::check;

// Fails under: a decision that whoever asked may make; one that is made twice; a delivery in another record than the decision.
#[test]
fn i14_somebody_else_decides_once_and_whoever_asked_is_told_in_the_same_record() {
    check(
        "alice proposes a then bob; alice approves a; +5s; approver approves a because fine; alice claims; bob claims; \
         +5s; approver rejects a because no; admin approves a; approval a; restart; approval a",
        expect![[r#"
            #3 approval.requested a
            refused FORBIDDEN
            #4 approval.approved a
            #4 ? goes to ?
            #4 ? goes to ?
            alice takes ? (try 1, token 1)
            bob takes ? (try 1, token 2)
            refused CONFLICT
            refused CONFLICT
            a asked by agent:alice is approved by approver:desk at 5s (fine): what was proposed may happen
            a asked by agent:alice is approved by approver:desk at 5s (fine): what was proposed may happen"#]],
    );
}

// Fails under: another person only by another token; an operator that decides.
#[test]
fn i14_the_same_person_with_another_token_does_not_decide() {
    check(
        "operator proposes a; approver approves a because mine; operator approves a; admin approves a; approval a",
        expect![[r#"
            #3 approval.requested a
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            a asked by operator:desk is pending until 259200s: nothing may happen"#]],
    );
}

// Fails under: a digest that is not compared; a modification whose bytes are those that were proposed.
#[test]
fn i14_a_modification_is_about_the_very_bytes_and_makes_a_new_digest() {
    check(
        "alice proposes a then bob; approver approves a of other; approver modifies a to changed of other; \
         approver modifies a to letter; approver modifies a to changed because wrong_address; approval a; bob claims; \
         approver approves a of changed",
        expect![[r#"
            #3 approval.requested a
            refused CONFLICT
            refused CONFLICT
            refused INVALID
            #4 approval.modified a
            #4 ? goes to ?
            #4 ? goes to ?
            a asked by agent:alice is modified by approver:desk at 0s (wrong address): 8892b6db may happen instead of 9e39b9f9
            bob takes ? (try 1, token 1)
            refused CONFLICT"#]],
    );
}

// Fails under: a time-out that is told as a refusal; a decision that comes after it; a clock that is not looked at before the
// sweep is.
#[test]
fn i14_time_alone_expires_what_nobody_decided() {
    check(
        "alice proposes a within 60s default wait then bob; alice proposes b within 2h; +59s; approval a; quietly +1s; \
         approver approves a; +0s; approval a; alice claims; bob claims; approver approves a; restart; wall +1d; +1s; \
         approval b; alice claims",
        expect![[r#"
            #3 approval.requested a
            #4 approval.requested b
            a asked by agent:alice is pending until 60s: nothing may happen
            refused EXPIRED
            #5 approval.expired a
            #5 ? goes to ?
            a asked by agent:alice is expired at 60s: nothing may happen
            alice takes ? (try 1, token 1)
            bob: nothing to claim
            refused EXPIRED
            #7 approval.expired b
            #7 ? goes to ?
            b asked by agent:alice is expired at 86461s: nothing may happen
            alice takes ? (try 1, token 2)"#]],
    );
}

// Fails under: a wait for a person that is not in the graph, or that is called off because somebody waits for its agent.
#[test]
fn e3_whoever_waits_for_a_person_waits_and_is_never_the_one_to_be_called_off() {
    check(
        "silently alice locks x; silently bob locks y; alice proposes a; agents; bob locks x as B; +2s; alice locks y as A; \
         +2s; approval a; approver approves a; agents",
        expect![[r#"
            #5 approval.requested a
            alice: waiting, 0 open, 0 held, 0 asked
            bob: idle, 0 open, 0 held, 0 asked
            carol: idle, 0 open, 0 held, 0 asked
            bob waits in line
            alice waits in line
            #6 wait called off: alice for lock y, bob for lock x
            A is refused DEADLOCK: alice for lock y, bob for lock x
            a asked by agent:alice is pending until 259200s: nothing may happen
            #7 approval.approved a
            #7 ? goes to ?
            alice: idle, 1 open, 0 held, 0 asked
            bob: waiting, 0 open, 0 held, 0 asked
            carol: idle, 0 open, 0 held, 0 asked"#]],
    );
}
