//! Approvals: permissions, decisions, expiry, and immutability of decisions.

use expect_test::expect;

use super::check;

// Fails under: a decision by the requester; a second decision; a delivery in another record than the decision.
#[test]
fn i14_another_principal_decides_once_and_the_requester_is_notified_in_the_same_record() {
    check(
        "alice proposes a then bob; alice approves a; +5s; approver approves a because fine; alice claims; bob claims; \
         +5s; approver rejects a because no; admin approves a; approval a; restart; approval a",
        expect![[r#"
            #3 approval.requested a
            refused FORBIDDEN
            #4 approval.approved a
            #4 ? sent to ?
            #4 ? sent to ?
            alice claims ? (attempt 1, token 1)
            bob claims ? (attempt 1, token 2)
            refused CONFLICT
            refused CONFLICT
            a requested by agent:alice is approved by approver:desk at 5s (fine): approved as proposed
            a requested by agent:alice is approved by approver:desk at 5s (fine): approved as proposed"#]],
    );
}

// Fails under: persons compared by token; a decision by an operator.
#[test]
fn i14_the_same_person_with_another_token_cannot_decide() {
    check(
        "operator proposes a; approver approves a because mine; operator approves a; admin approves a; approval a",
        expect![[r#"
            #3 approval.requested a
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            a requested by operator:desk is pending until 259200s: nothing approved"#]],
    );
}

// Fails under: a digest that is not compared; a modification that keeps the proposed bytes.
#[test]
fn i14_a_modification_requires_the_proposed_digest_and_creates_a_new_one() {
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
            #4 ? sent to ?
            #4 ? sent to ?
            a requested by agent:alice is modified by approver:desk at 0s (wrong address): 8892b6db approved instead of 9e39b9f9
            bob claims ? (attempt 1, token 1)
            refused CONFLICT"#]],
    );
}

// Fails under: an expiry that is reported as a rejection; a decision after the expiry; an expiry that only takes effect
// at the sweep.
#[test]
fn i14_an_undecided_approval_expires() {
    check(
        "alice proposes a within 60s default wait then bob; alice proposes b within 2h; +59s; approval a; quietly +1s; \
         approver approves a; +0s; approval a; alice claims; bob claims; approver approves a; restart; wall +1d; +1s; \
         approval b; alice claims",
        expect![[r#"
            #3 approval.requested a
            #4 approval.requested b
            a requested by agent:alice is pending until 60s: nothing approved
            refused EXPIRED
            #5 approval.expired a
            #5 ? sent to ?
            a requested by agent:alice is expired at 60s: nothing approved
            alice claims ? (attempt 1, token 1)
            bob: nothing to claim
            refused EXPIRED
            #7 approval.expired b
            #7 ? sent to ?
            b requested by agent:alice is expired at 86461s: nothing approved
            alice claims ? (attempt 1, token 2)"#]],
    );
}

// Fails under: a wait for a person that is missing in the wait-for graph, or that is aborted because another agent
// waits.
#[test]
fn e3_a_wait_for_a_person_is_in_the_graph_and_is_never_aborted() {
    check(
        "silently alice locks x; silently bob locks y; alice proposes a; agents; bob locks x as B; +2s; alice locks y as A; \
         +2s; approval a; approver approves a; agents",
        expect![[r#"
            #5 approval.requested a
            alice: waiting, 0 open, 0 leased, 0 requests pending
            bob: idle, 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            bob is queued
            alice is queued
            #6 wait aborted: alice for lock y, bob for lock x
            A is refused DEADLOCK: alice for lock y, bob for lock x
            a requested by agent:alice is pending until 259200s: nothing approved
            #7 approval.approved a
            #7 ? sent to ?
            alice: idle, 1 open, 0 leased, 0 requests pending
            bob: waiting, 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending"#]],
    );
}
