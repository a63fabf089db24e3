//! Topics, broadcasts and roles: recipients and non-recipients.

use expect_test::expect;

use super::check;

// Fails under: a subscription that is not in the tree, or matches too much.
#[test]
fn d4_a_subscriber_receives_matching_messages() {
    check(
        "bob subscribes findings.high; carol subscribes findings.*; \
         alice sends m1 to topic:findings.high; alice sends m2 to topic:findings.low; bob claims 9; carol claims 9",
        expect![[r#"
            #3 topic.subscribed bob findings.high
            #4 topic.subscribed carol findings.*
            #5 m1 sent to bob carol
            #6 m2 sent to carol
            bob claims m1 (attempt 1, token 1)
            carol claims m1 (attempt 1, token 2), m2 (attempt 1, token 3)"#]],
    );
}

// Fails under: `>` that matches zero words, or only one.
#[test]
fn d3_the_tail_wildcard_matches_one_or_more_words() {
    check(
        "bob subscribes a.>; alice sends m1 to topic:a; alice sends m2 to topic:a.b; \
         alice sends m3 to topic:a.b.c; bob claims 9",
        expect![[r#"
            #3 topic.subscribed bob a.>
            #4 m1 sent to no recipient
            #5 m2 sent to bob
            #6 m3 sent to bob
            bob claims m2 (attempt 1, token 1), m3 (attempt 1, token 2)"#]],
    );
}

// Fails under: one delivery per matching pattern.
#[test]
fn d4_several_matching_patterns_create_one_delivery() {
    check(
        "bob subscribes a.b; bob subscribes a.*; bob subscribes >; alice sends m1 to topic:a.b; \
         bob claims 9; bob unsubscribes a.*; alice sends m2 to topic:a.b; bob claims 9; subscriptions",
        expect![[r#"
            #3 topic.subscribed bob a.b
            #4 topic.subscribed bob a.*
            #5 topic.subscribed bob >
            #6 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #8 topic.unsubscribed bob a.*
            #9 m2 sent to bob
            bob claims m2 (attempt 1, token 2)
            bob >
            bob a.b"#]],
    );
}

// Fails under: a message without subscribers that is refused or not logged.
#[test]
fn d4_a_topic_without_subscribers_is_accepted() {
    check(
        "alice sends m1 to topic:a.b saying 7; text m1; counts",
        expect![[r#"
        #3 m1 sent to no recipient
        m1 from alice: 7
    "#]],
    );
}

// Fails under: a sender that is not excluded from `subscribers` or `all_but`.
#[test]
fn d4_a_sender_does_not_receive_its_own_broadcast() {
    check(
        "alice subscribes >; bob subscribes >; alice sends m1 to topic:a; alice sends m2 to *; \
         alice sends m3 to role:worker; hub sends m4 to topic:a; alice claims 9; bob claims 9",
        expect![[r#"
            #3 topic.subscribed alice >
            #4 topic.subscribed bob >
            #5 m1 sent to bob
            #6 m2 sent to bob carol
            #7 m3 sent to bob carol
            #8 m4 sent to alice bob
            alice claims m4 (attempt 1, token 1)
            bob claims m1 (attempt 1, token 2), m2 (attempt 1, token 3), m3 (attempt 1, token 4), m4 (attempt 1, token 5)"#]],
    );
}

// Fails under: history that is delivered without being requested.
#[test]
fn d4_a_late_subscriber_receives_no_history_by_default() {
    check(
        "alice sends m1 to topic:a; bob subscribes a; alice sends m2 to topic:a; bob claims 9",
        expect![[r#"
            #3 m1 sent to no recipient
            #4 topic.subscribed bob a
            #5 m2 sent to bob
            bob claims m2 (attempt 1, token 1)"#]],
    );
}

// Fails under: subscriptions kept in memory only.
#[test]
fn d4_a_subscription_survives_a_restart() {
    check(
        "bob subscribes a.*; restart; alice sends m1 to topic:a.b; bob claims; bob subscribes a.*; \
         bob unsubscribes a.*; restart; alice sends m2 to topic:a.b; bob unsubscribes a.*; subscriptions",
        expect![[r#"
            #3 topic.subscribed bob a.*
            #4 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            subscribed since #3
            #6 topic.unsubscribed bob a.*
            #7 m2 sent to no recipient
            refused NOT_FOUND
            none"#]],
    );
}

// Fails under: subscriptions that remain after their agent is removed.
#[test]
fn d4_removing_an_agent_removes_its_subscriptions() {
    check(
        "bob subscribes a; bob subscribes b.>; bob leaves; alice sends m1 to topic:a; subscriptions; \
         bob starts; alice sends m2 to topic:a",
        expect![[r#"
            #3 topic.subscribed bob a
            #4 topic.subscribed bob b.>
            #5 topic.unsubscribed bob a
            #5 topic.unsubscribed bob b.>
            #5 agent 2 removed
            #6 m1 sent to no recipient
            none
            #7 bob starts epoch 7
            #8 m2 sent to no recipient"#]],
    );
}

// Fails under: a missing `require_self` in `subscribe`.
#[test]
fn d4_an_agent_subscribes_for_itself_only() {
    check(
        "nobody subscribes a; bob subscribes a; bob starts; old bob subscribes b; hub subscribes b",
        expect![[r#"
            refused NOT_FOUND
            #3 topic.subscribed bob a
            #4 bob starts epoch 5
            refused STALE_EPOCH
            refused NOT_FOUND"#]],
    );
}

// Fails under: a refused commit that leaves its subscription (`Undo::Item`).
#[test]
fn d4_a_refused_commit_creates_no_subscription() {
    check(
        "bob subscribes a & puts plan=1 expecting 9; alice sends m1 to topic:a; subscriptions; \
         bob subscribes a & sends m2 to nobody; alice sends m3 to topic:a",
        expect![[r#"
            refused VERSION_CONFLICT, now at v0
            #3 m1 sent to no recipient
            none
            refused UNKNOWN_RECIPIENT: there is no agent nobody
            #4 m3 sent to no recipient"#]],
    );
}

// Fails under: a dispatch that skips subscribers, or an immediate lease for one recipient only.
#[test]
fn d4_waiting_subscribers_lease_the_message_immediately() {
    check(
        "bob subscribes a; carol subscribes a; bob stands 5 as b; carol waits as c; alice sends m1 to topic:a; \
         alice sends m2 to topic:a; where m1; where m2",
        expect![[r#"
            #3 topic.subscribed bob a
            #4 topic.subscribed carol a
            bob: nothing to claim
            carol: nothing to claim
            #5 m1 sent to bob (leased immediately) carol (leased immediately)
            b receives m1 (attempt 1, token 1)
            c receives m1 (attempt 1, token 2)
            #6 m2 sent to bob (leased immediately) carol
            b receives m2 (attempt 1, token 3)
            m1 of bob: leased under token 1, attempt 1
            m1 of carol: leased under token 2, attempt 1
            m2 of bob: leased under token 3, attempt 1
            m2 of carol: ready since 0s, tried 0"#]],
    );
}

// Fails under: delivery numbers of a topic with a gap, or a lost priority.
#[test]
fn d4_priorities_and_delays_apply_to_topics() {
    check(
        "bob subscribes a; alice sends m1 to topic:a; alice sends m2 to topic:a urgent; \
         alice sends m3 to topic:a after 5s; bob claims 9; +5s; bob claims 9",
        expect![[r#"
            #3 topic.subscribed bob a
            #4 m1 sent to bob
            #5 m2 sent to bob
            #6 m3 sent to bob
            bob claims m2 (attempt 1, token 1), m1 (attempt 1, token 2)
            hub: nothing to write
            bob claims m3 (attempt 1, token 3)"#]],
    );
}

// Fails under: a quota that a refused message uses up, or that never resets.
#[test]
fn d4_broadcasts_are_limited_by_a_quota() {
    check(
        "hub sets mesh broadcasts 2; alice sends m1 to *; alice sends m2 to * & puts plan=1 expecting 9; \
         alice sends m3 to *; alice sends m4 to *; bob sends m5 to *; hub sends m6 to *; +59s; \
         alice sends m7 to *; +1s; alice sends m8 to *",
        expect![[r#"
            #3 policy.set policy
            #4 m1 sent to bob carol
            refused VERSION_CONFLICT, now at v0
            #5 m3 sent to bob carol
            refused LIMIT_EXCEEDED, limit 2 by broadcastsPerMinute at to
            #6 m5 sent to alice carol
            #7 m6 sent to alice bob carol
            refused LIMIT_EXCEEDED, limit 2 by broadcastsPerMinute at to
            #8 m8 sent to bob carol"#]],
    );
}

// Fails under: a message to a role without other agents that is silently accepted.
#[test]
fn d3_a_role_reaches_every_agent_with_that_role() {
    check(
        "hub registers dave as coordinator; hub registers erin as observer; alice sends m1 to role:worker; \
         alice sends m2 to role:coordinator; alice sends m3 to role:specialist; \
         dave sends m4 to role:coordinator; erin leaves; alice sends m5 to role:observer",
        expect![[r#"
            #3 dave starts epoch 5
            #4 erin starts epoch 6
            #5 m1 sent to bob carol
            #6 m2 sent to dave
            refused UNKNOWN_RECIPIENT: no agent other than the sender has role specialist
            refused UNKNOWN_RECIPIENT: no agent other than the sender has role coordinator
            #7 agent 5 removed
            refused UNKNOWN_RECIPIENT: no agent other than the sender has role observer"#]],
    );
}

// Fails under: an expected state that is not compared, so that a second backfill delivers everything again.
#[test]
fn d4_history_is_backfilled_once() {
    check(
        "alice sends m1 to topic:a; alice sends m2 to topic:a; bob subscribes a last 5; alice sends m3 to topic:a; \
         hub backfills m1,m2 to bob of a wanting last 5; hub backfills m1,m2 to bob of a wanting last 5; \
         bob claims 9; bob subscribes a last 5; where m1",
        expect![[r#"
            #3 m1 sent to no recipient
            #4 m2 sent to no recipient
            #5 topic.subscribed bob a
            #6 m3 sent to bob
            #7 m1, m2 backfilled to bob
            #7 topic.backfilled bob a
            refused NOT_FOUND
            bob claims m3 (attempt 1, token 1), m1 (attempt 1, token 2), m2 (attempt 1, token 3)
            subscribed since #5
            m1 of bob: leased under token 2, attempt 1"#]],
    );
}

// Fails under: a position that is not stored, so that a crash loses or repeats a part.
#[test]
fn d4_a_backfill_resumes_after_an_interruption() {
    check(
        "alice sends m1 to topic:a; alice sends m2 to topic:a; bob subscribes a from #3; \
         hub backfills m1 to bob of a wanting from #3 until #4; restart; \
         hub backfills m1 to bob of a wanting from #3 until #4; hub backfills m2 to bob of a wanting from #4; \
         bob claims 9; bob acks m1,m2; counts",
        expect![[r#"
            #3 m1 sent to no recipient
            #4 m2 sent to no recipient
            #5 topic.subscribed bob a
            #6 m1 backfilled to bob
            #6 topic.backfilled bob a
            refused NOT_FOUND
            #7 m2 backfilled to bob
            #7 topic.backfilled bob a
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)
            #9 m1 of bob, m2 of bob acked
            2 acked"#]],
    );
}

// Fails under: a backfill without a permission check: any agent could read any message.
#[test]
fn d4_only_the_hub_can_backfill() {
    check(
        "alice sends m1 to carol; bob subscribes a last 5; bob backfills m1 to bob of a wanting last 5; \
         alice sends m2 to topic:a; hub backfills m2 to bob of a wanting last 5; \
         hub backfills m1 to carol of a wanting last 5; bob unsubscribes a; \
         hub backfills nothing to bob of a wanting last 5",
        expect![[r#"
            #3 m1 sent to carol
            #4 topic.subscribed bob a
            refused FORBIDDEN
            #5 m2 sent to bob
            refused INVALID
            refused NOT_FOUND
            #6 topic.unsubscribed bob a
            refused NOT_FOUND"#]],
    );
}

// Fails under: an operation that ends only the first delivery, or one under the token of another.
#[test]
fn d4_several_deliveries_are_acked_in_one_operation() {
    check(
        "bob subscribes a; alice sends m1 to topic:a; alice sends m2 to topic:a; alice sends m3 to topic:a; \
         bob claims 2; bob acks m1,m2; bob acks m1,m2; bob claims; bob acks m2,m3,m3; counts; restart; bob acks m1,m3",
        expect![[r#"
            #3 topic.subscribed bob a
            #4 m1 sent to bob
            #5 m2 sent to bob
            #6 m3 sent to bob
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)
            #8 m1 of bob, m2 of bob acked
            acked already: 0 by #8, 1 by #8
            bob claims m3 (attempt 1, token 3)
            #10 m3 of bob acked
            acked already: 0 by #8, 2 by #10
            3 acked
            acked already: 0 by #8, 1 by #10"#]],
    );
}

// Fails under: a refusal that lists only the first stale lease, or acks the others.
#[test]
fn d4_a_refusal_lists_every_stale_ack_of_an_operation() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob; alice sends m3 to bob; bob claims 3; bob drops m1; \
         bob drops m3; bob acks m1,m2,m3; where m2; carol acks m2,m2",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            #5 m3 sent to bob
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2), m3 (attempt 1, token 3)
            #7 m1 of bob nacked: dead
            #8 m3 of bob nacked: dead
            refused STALE_LEASE, op 0 dlv_0-1 STALE_LEASE, op 0 dlv_0-3 STALE_LEASE
            m2 of bob: leased under token 2, attempt 1
            refused NOT_FOUND"#]],
    );
}
