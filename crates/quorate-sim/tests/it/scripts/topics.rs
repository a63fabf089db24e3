//! Topics, everybody, roles: who gets what, and who does not.

use expect_test::expect;

use super::check;

// Fails under: a subscription that is not in the tree, or one that matches more than it says.
#[test]
fn d4_who_subscribes_gets_it() {
    check(
        "bob subscribes findings.high; carol subscribes findings.*; \
         alice sends m1 to topic:findings.high; alice sends m2 to topic:findings.low; bob claims 9; carol claims 9",
        expect![[r#"
            #3 topic.subscribed bob findings.high
            #4 topic.subscribed carol findings.*
            #5 m1 goes to bob carol
            #6 m2 goes to carol
            bob takes m1 (try 1, token 1)
            carol takes m1 (try 1, token 2), m2 (try 1, token 3)"#]],
    );
}

// Fails under: `>` that stands for nothing, or ends after one word.
#[test]
fn d3_the_rest_is_one_word_or_more() {
    check(
        "bob subscribes a.>; alice sends m1 to topic:a; alice sends m2 to topic:a.b; \
         alice sends m3 to topic:a.b.c; bob claims 9",
        expect![[r#"
            #3 topic.subscribed bob a.>
            #4 m1 goes to nobody
            #5 m2 goes to bob
            #6 m3 goes to bob
            bob takes m2 (try 1, token 1), m3 (try 1, token 2)"#]],
    );
}

// Fails under: one delivery for each pattern that matches.
#[test]
fn d4_several_patterns_make_one_delivery() {
    check(
        "bob subscribes a.b; bob subscribes a.*; bob subscribes >; alice sends m1 to topic:a.b; \
         bob claims 9; bob unsubscribes a.*; alice sends m2 to topic:a.b; bob claims 9; subscriptions",
        expect![[r#"
            #3 topic.subscribed bob a.b
            #4 topic.subscribed bob a.*
            #5 topic.subscribed bob >
            #6 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #8 topic.unsubscribed bob a.*
            #9 m2 goes to bob
            bob takes m2 (try 1, token 2)
            bob >
            bob a.b"#]],
    );
}

// Fails under: a topic without subscribers that is refused, or that is not in the log.
#[test]
fn d4_a_topic_without_subscribers_is_fine() {
    check(
        "alice sends m1 to topic:a.b saying 7; text m1; counts",
        expect![[r#"
        #3 m1 goes to nobody
        m1 from alice: 7
    "#]],
    );
}

// Fails under: `sender` not left out in `subscribers`, `all_but`.
#[test]
fn d4_nobody_hears_itself() {
    check(
        "alice subscribes >; bob subscribes >; alice sends m1 to topic:a; alice sends m2 to *; \
         alice sends m3 to role:worker; hub sends m4 to topic:a; alice claims 9; bob claims 9",
        expect![[r#"
            #3 topic.subscribed alice >
            #4 topic.subscribed bob >
            #5 m1 goes to bob
            #6 m2 goes to bob carol
            #7 m3 goes to bob carol
            #8 m4 goes to alice bob
            alice takes m4 (try 1, token 1)
            bob takes m1 (try 1, token 2), m2 (try 1, token 3), m3 (try 1, token 4), m4 (try 1, token 5)"#]],
    );
}

// Fails under: history brought without being asked for.
#[test]
fn d4_who_comes_late_has_missed_it() {
    check(
        "alice sends m1 to topic:a; bob subscribes a; alice sends m2 to topic:a; bob claims 9",
        expect![[r#"
            #3 m1 goes to nobody
            #4 topic.subscribed bob a
            #5 m2 goes to bob
            bob takes m2 (try 1, token 1)"#]],
    );
}

// Fails under: subscriptions in memory only.
#[test]
fn d4_a_subscription_outlives_a_restart() {
    check(
        "bob subscribes a.*; restart; alice sends m1 to topic:a.b; bob claims; bob subscribes a.*; \
         bob unsubscribes a.*; restart; alice sends m2 to topic:a.b; bob unsubscribes a.*; subscriptions",
        expect![[r#"
            #3 topic.subscribed bob a.*
            #4 m1 goes to bob
            bob takes m1 (try 1, token 1)
            subscribed since #3
            #6 topic.unsubscribed bob a.*
            #7 m2 goes to nobody
            refused NOT_FOUND
            none"#]],
    );
}

// Fails under: subscriptions that are left behind by an agent that goes.
#[test]
fn d4_who_leaves_subscribes_to_nothing() {
    check(
        "bob subscribes a; bob subscribes b.>; bob leaves; alice sends m1 to topic:a; subscriptions; \
         bob starts; alice sends m2 to topic:a",
        expect![[r#"
            #3 topic.subscribed bob a
            #4 topic.subscribed bob b.>
            #5 topic.unsubscribed bob a
            #5 topic.unsubscribed bob b.>
            #5 agent 2 leaves
            #6 m1 goes to nobody
            none
            #7 bob starts epoch 7
            #8 m2 goes to nobody"#]],
    );
}

// Fails under: `require_own` missing in `subscribe`.
#[test]
fn d4_an_agent_subscribes_for_itself() {
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

// Fails under: a refused commit that leaves its subscription behind (`Undo::Item`).
#[test]
fn d4_a_refused_step_subscribes_to_nothing() {
    check(
        "bob subscribes a & puts plan=1 expecting 9; alice sends m1 to topic:a; subscriptions; \
         bob subscribes a & sends m2 to nobody; alice sends m3 to topic:a",
        expect![[r#"
            refused VERSION_CONFLICT, now at v0
            #3 m1 goes to nobody
            none
            refused UNKNOWN_RECIPIENT: there is no agent nobody
            #4 m3 goes to nobody"#]],
    );
}

// Fails under: a hand-over that forgets the others, or a lease in the insert for one recipient only.
#[test]
fn d4_those_who_wait_get_it_at_once() {
    check(
        "bob subscribes a; carol subscribes a; bob stands 5 as b; carol waits as c; alice sends m1 to topic:a; \
         alice sends m2 to topic:a; where m1; where m2",
        expect![[r#"
            #3 topic.subscribed bob a
            #4 topic.subscribed carol a
            bob: nothing to claim
            carol: nothing to claim
            #5 m1 goes to bob (leased at once) carol (leased at once)
            b gets m1 (try 1, token 1)
            c gets m1 (try 1, token 2)
            #6 m2 goes to bob (leased at once) carol
            b gets m2 (try 1, token 3)
            m1 of bob: held under token 1, try 1
            m1 of carol: held under token 2, try 1
            m2 of bob: held under token 3, try 1
            m2 of carol: ready since 0s, tried 0"#]],
    );
}

// Fails under: numbers of a topic's deliveries that leave a gap, or a priority that is lost on the way.
#[test]
fn d4_priorities_and_delays_hold_for_topics() {
    check(
        "bob subscribes a; alice sends m1 to topic:a; alice sends m2 to topic:a urgent; \
         alice sends m3 to topic:a after 5s; bob claims 9; +5s; bob claims 9",
        expect![[r#"
            #3 topic.subscribed bob a
            #4 m1 goes to bob
            #5 m2 goes to bob
            #6 m3 goes to bob
            bob takes m2 (try 1, token 1), m1 (try 1, token 2)
            hub: nothing to write
            bob takes m3 (try 1, token 3)"#]],
    );
}

// Fails under: a quota that a refused message uses up, or that never ends.
#[test]
fn d4_everybody_costs_quota() {
    check(
        "hub sets mesh broadcasts 2; alice sends m1 to *; alice sends m2 to * & puts plan=1 expecting 9; \
         alice sends m3 to *; alice sends m4 to *; bob sends m5 to *; hub sends m6 to *; +59s; \
         alice sends m7 to *; +1s; alice sends m8 to *",
        expect![[r#"
            #3 policy.set policy
            #4 m1 goes to bob carol
            refused VERSION_CONFLICT, now at v0
            #5 m3 goes to bob carol
            refused LIMIT_EXCEEDED, limit 2 by broadcastsPerMinute at to
            #6 m5 goes to alice carol
            #7 m6 goes to alice bob carol
            refused LIMIT_EXCEEDED, limit 2 by broadcastsPerMinute at to
            #8 m8 goes to bob carol"#]],
    );
}

// Fails under: a role that nobody else has and that swallows the message.
#[test]
fn d3_a_role_is_everybody_who_has_it() {
    check(
        "hub registers dave as coordinator; hub registers erin as observer; alice sends m1 to role:worker; \
         alice sends m2 to role:coordinator; alice sends m3 to role:specialist; \
         dave sends m4 to role:coordinator; erin leaves; alice sends m5 to role:observer",
        expect![[r#"
            #3 dave starts epoch 5
            #4 erin starts epoch 6
            #5 m1 goes to bob carol
            #6 m2 goes to dave
            refused UNKNOWN_RECIPIENT: no agent other than the sender has role specialist
            refused UNKNOWN_RECIPIENT: no agent other than the sender has role coordinator
            #7 agent 5 leaves
            refused UNKNOWN_RECIPIENT: no agent other than the sender has role observer"#]],
    );
}

// Fails under: `wanted` not compared, so that a search that comes second brings everything again.
#[test]
fn d4_history_is_brought_once() {
    check(
        "alice sends m1 to topic:a; alice sends m2 to topic:a; bob subscribes a last 5; alice sends m3 to topic:a; \
         hub brings m1,m2 to bob of a wanting last 5; hub brings m1,m2 to bob of a wanting last 5; \
         bob claims 9; bob subscribes a last 5; where m1",
        expect![[r#"
            #3 m1 goes to nobody
            #4 m2 goes to nobody
            #5 topic.subscribed bob a
            #6 m3 goes to bob
            #7 m1, m2 brought to bob
            #7 topic.caughtUp bob a
            refused NOT_FOUND
            bob takes m3 (try 1, token 1), m1 (try 1, token 2), m2 (try 1, token 3)
            subscribed since #5
            m1 of bob: held under token 2, try 1"#]],
    );
}

// Fails under: a position that is not kept, so that a crash on the way loses or repeats a part.
#[test]
fn d4_history_goes_on_where_it_stopped() {
    check(
        "alice sends m1 to topic:a; alice sends m2 to topic:a; bob subscribes a from #3; \
         hub brings m1 to bob of a wanting from #3 until #4; restart; \
         hub brings m1 to bob of a wanting from #3 until #4; hub brings m2 to bob of a wanting from #4; \
         bob claims 9; bob acks m1,m2; counts",
        expect![[r#"
            #3 m1 goes to nobody
            #4 m2 goes to nobody
            #5 topic.subscribed bob a
            #6 m1 brought to bob
            #6 topic.caughtUp bob a
            refused NOT_FOUND
            #7 m2 brought to bob
            #7 topic.caughtUp bob a
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)
            #9 m1 of bob, m2 of bob acked
            2 acked"#]],
    );
}

// Fails under: `require_system` missing in `bring_history`: then anybody could read anything.
#[test]
fn d4_history_is_for_the_hub_to_bring() {
    check(
        "alice sends m1 to carol; bob subscribes a last 5; bob brings m1 to bob of a wanting last 5; \
         alice sends m2 to topic:a; hub brings m2 to bob of a wanting last 5; \
         hub brings m1 to carol of a wanting last 5; bob unsubscribes a; \
         hub brings nothing to bob of a wanting last 5",
        expect![[r#"
            #3 m1 goes to carol
            #4 topic.subscribed bob a
            refused FORBIDDEN
            #5 m2 goes to bob
            refused INVALID
            refused NOT_FOUND
            #6 topic.unsubscribed bob a
            refused NOT_FOUND"#]],
    );
}

// Fails under: an end of several that ends only the first, or under another's token.
#[test]
fn d4_many_are_acked_at_once() {
    check(
        "bob subscribes a; alice sends m1 to topic:a; alice sends m2 to topic:a; alice sends m3 to topic:a; \
         bob claims 2; bob acks m1,m2; bob acks m1,m2; bob claims; bob acks m2,m3,m3; counts; restart; bob acks m1,m3",
        expect![[r#"
            #3 topic.subscribed bob a
            #4 m1 goes to bob
            #5 m2 goes to bob
            #6 m3 goes to bob
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)
            #8 m1 of bob, m2 of bob acked
            acked already: 0 by #8, 1 by #8
            bob takes m3 (try 1, token 3)
            #10 m3 of bob acked
            acked already: 0 by #8, 2 by #10
            3 acked
            acked already: 0 by #8, 1 by #10"#]],
    );
}

// Fails under: a refusal that names only the first stale lease, or that acks the others.
#[test]
fn d4_every_stale_ack_of_many_is_named() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob; alice sends m3 to bob; bob claims 3; bob drops m1; \
         bob drops m3; bob acks m1,m2,m3; where m2; carol acks m2,m2",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            #5 m3 goes to bob
            bob takes m1 (try 1, token 1), m2 (try 1, token 2), m3 (try 1, token 3)
            #7 m1 of bob nacked: dead
            #8 m3 of bob nacked: dead
            refused STALE_LEASE, op 0 dlv_0-1 STALE_LEASE, op 0 dlv_0-3 STALE_LEASE
            m2 of bob: held under token 2, try 1
            refused FORBIDDEN"#]],
    );
}
