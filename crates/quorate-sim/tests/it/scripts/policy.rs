//! The rules of a space, on every way in and out.

use expect_test::expect;

use super::check;

// Fails under: any way that does not ask `Map::reach`.
#[test]
fn c1_agents_reach_the_coordinators_only() {
    check(
        "carol leads; hub sets supervised; alice sends m1 to bob; alice sends m2 to carol; \
         alice sends m3 to carol,bob; alice sends m4 to alice; carol sends m5 to bob; hub sends m6 to bob; \
         hub sends m7 to bob as alice; bob claims 9; carol claims 9",
        expect![[r#"
            #3 carol starts epoch 4
            #4 policy.set policy
            refused POLICY_VIOLATION by supervised at to
            #5 m2 goes to carol
            refused POLICY_VIOLATION by supervised at to
            #6 m4 goes to alice
            #7 m5 goes to bob
            #8 m6 goes to bob
            refused POLICY_VIOLATION by supervised at to
            bob takes m5 (try 1, token 1), m6 (try 1, token 2)
            carol takes m2 (try 1, token 3)"#]],
    );
}

// Fails under: a topic that lets workers reach workers, or that is refused because one of them listens.
#[test]
fn c1_a_topic_reaches_whom_it_may() {
    check(
        "carol leads; bob subscribes a; carol subscribes a; hub sets supervised; alice sends m1 to topic:a; \
         carol sends m2 to topic:a; bob claims 9; carol claims 9",
        expect![[r#"
            #3 carol starts epoch 4
            #4 topic.subscribed bob a
            #5 topic.subscribed carol a
            #6 policy.set policy
            #7 m1 goes to carol
            #8 m2 goes to bob
            bob takes m2 (try 1, token 1)
            carol takes m1 (try 1, token 2)"#]],
    );
}

// Fails under: a broadcast or a role that is not asked about.
#[test]
fn c1_everybody_and_roles_are_ways_too() {
    check(
        "carol leads; hub sets supervised; alice sends m1 to *; alice sends m2 to role:worker; \
         alice sends m3 to role:coordinator; carol sends m4 to *; carol sends m5 to role:worker",
        expect![[r#"
            #3 carol starts epoch 4
            #4 policy.set policy
            refused POLICY_VIOLATION by broadcast at to
            refused POLICY_VIOLATION by supervised at to
            #5 m3 goes to carol
            #6 m4 goes to alice bob
            #7 m5 goes to alice bob"#]],
    );
}

// Fails under: a pool from which a worker takes what another worker sent.
#[test]
fn c1_from_a_pool_only_coordinators_take_what_workers_send() {
    check(
        "bob can review; hub sets supervised; alice sends m1 to can:review; hub registers dave as coordinator able review; \
         alice sends m2 to can:review; bob claims; dave claims; dave sends m3 to can:review; bob claims; \
         hub registers erin able review; erin claims",
        expect![[r#"
            #3 bob starts epoch 3
            #4 policy.set policy
            refused POLICY_VIOLATION by supervised at to
            #5 dave starts epoch 5
            #6 pool.opened coordinators can:review
            #6 m2 goes to can:review
            bob: nothing to claim
            dave takes m2 (try 1, token 1)
            #8 pool.opened can:review
            #8 m3 goes to can:review
            bob takes m3 (try 1, token 2)
            #10 erin starts epoch 10
            erin: nothing to claim"#]],
    );
}

// Fails under: an answer that is let through because somebody asked.
#[test]
fn c1_an_answer_is_a_message_like_any_other() {
    check(
        "alice sends m1 to bob; bob claims; hub sets supervised; bob acks m1 & sends m2 to alice answering; \
         bob acks m1; counts",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 policy.set policy
            refused POLICY_VIOLATION by supervised at to
            #6 m1 of bob acked
            1 acked"#]],
    );
}

// Fails under: `is_barred` not asked when a delivery goes out, or asked with the roles of the wrong side.
#[test]
fn c1_what_waits_is_looked_at_when_it_goes_out() {
    check(
        "carol leads; alice sends m1 to bob; alice sends m2 to carol; carol sends m3 to bob; hub sends m4 to bob; \
         bob sends m5 to bob; hub sets supervised; bob claims 9; carol claims 9; dead; where m1",
        expect![[r#"
            #3 carol starts epoch 4
            #4 m1 goes to bob
            #5 m2 goes to carol
            #6 m3 goes to bob
            #7 m4 goes to bob
            #8 m5 goes to bob
            #9 policy.set policy
            #10 m1 of bob barred: dead
            bob takes m3 (try 1, token 1), m4 (try 1, token 2), m5 (try 1, token 3)
            carol takes m2 (try 1, token 4)
            dead: m1 of bob after 0 (no longer allowed by policy)
            m1 of bob: dead by #10"#]],
    );
}

// Fails under: what is held already being taken away, or coming back to be handed out again.
#[test]
fn c1_what_is_held_may_be_finished() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob; bob claims 2; hub sets supervised; bob acks m1; \
         bob retries m2; bob claims; dead; restart; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)
            #6 policy.set policy
            #7 m1 of bob acked
            #8 m2 of bob nacked: ready
            #9 m2 of bob barred: dead
            bob: nothing to claim
            dead: m2 of bob after 1 (no longer allowed by policy)
            bob: nothing to claim"#]],
    );
}

// Fails under: a redrive that does not ask, or that a dead letter of the policy cannot be redriven later.
#[test]
fn c1_a_redrive_is_a_way_too() {
    check(
        "alice sends m1 to bob; bob claims; bob drops m1; carol leads; alice sends m2 to carol; carol claims; \
         carol drops m2; hub sets supervised; hub redrives m1; hub redrives m2; hub sets mesh; hub redrives m1; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked: dead
            #6 carol starts epoch 4
            #7 m2 goes to carol
            carol takes m2 (try 1, token 2)
            #9 m2 of carol nacked: dead
            #10 policy.set policy
            refused POLICY_VIOLATION by supervised at to
            #11 m2 of carol redriven
            #12 policy.set policy
            #13 m1 of bob redriven
            bob takes m1 (try 1, token 3)"#]],
    );
}

// Fails under: a sender that is gone and taken for the hub.
#[test]
fn c1_who_is_gone_is_not_the_hub() {
    check(
        "alice sends m1 to bob; hub sets supervised; alice leaves; bob claims; dead; \
         bob leaves & sends m2 to carol; hub registers bob; where m1",
        expect![[r#"
            #3 m1 goes to bob
            #4 policy.set policy
            #5 agent 1 leaves
            #6 m1 of bob barred: dead
            bob: nothing to claim
            dead: m1 of bob after 0 (no longer allowed by policy)
            refused POLICY_VIOLATION by supervised at to
            #7 bob starts epoch 7
            m1 of bob: dead by #6"#]],
    );
}

// Fails under: an agent that makes itself a coordinator.
#[test]
fn c1_nobody_leads_by_its_own_word() {
    check(
        "carol leads; hub sets supervised; alice leads; alice starts as coordinator; carol starts; \
         hub registers alice as coordinator; alice sends m1 to bob",
        expect![[r#"
            #3 carol starts epoch 4
            #4 policy.set policy
            refused POLICY_VIOLATION by supervised at role
            refused POLICY_VIOLATION by supervised at role
            #5 carol starts epoch 5
            #6 alice starts epoch 6
            #7 m1 goes to bob"#]],
    );
}

// Fails under: work that is handed on as a task instead of a message.
#[test]
fn c1_a_task_is_a_way_too() {
    check(
        "carol leads; bob can review; hub sets supervised; alice makes t1 of review; alice makes t2 of review for bob; \
         alice makes t3 of review for carol; alice makes t4 of review for carol tells bob; carol makes t5 of review; \
         alice makes t6 of review for alice",
        expect![[r#"
            #3 carol starts epoch 4
            #4 bob starts epoch 3
            #5 policy.set policy
            refused POLICY_VIOLATION by supervised at to
            refused POLICY_VIOLATION by supervised at to
            #6 t3 made: ready
            refused POLICY_VIOLATION by supervised at to
            #7 t5 made: ready
            #8 t6 made: ready"#]],
    );
}

// Fails under: history that brings what the rules would not let through.
#[test]
fn c1_history_asks_too() {
    check(
        "carol leads; alice sends m1 to topic:a; carol sends m2 to topic:a; bob subscribes a from #4; \
         hub sets supervised; hub brings m1 to bob of a wanting from #4 until #5 by alice; \
         hub brings m2 to bob of a wanting from #5 by carol; bob claims 9",
        expect![[r#"
            #3 carol starts epoch 4
            #4 m1 goes to nobody
            #5 m2 goes to nobody
            #6 topic.subscribed bob a
            #7 policy.set policy
            #8 topic.caughtUp bob a
            #9 m2 brought to bob
            #9 topic.caughtUp bob a
            bob takes m2 (try 1, token 1)"#]],
    );
}

// Fails under: limits that are looked at in one operation and not in the other.
#[test]
fn e7_payloads_have_the_size_that_the_policy_says() {
    check(
        "hub sets mesh bytes 4; alice sends m1 to bob saying 1234; alice sends m2 to bob saying 12345; \
         alice puts plan=12345; alice puts plan=1234; alice makes t1 of x saying 12345; hub sets mesh; \
         alice sends m3 to bob saying 12345",
        expect![[r#"
            #3 policy.set policy
            #4 m1 goes to bob
            refused TOO_LARGE, limit 4 by payloadBytesMax at payload
            refused TOO_LARGE, limit 4 by payloadBytesMax at payload
            #5 plan is at v1
            refused TOO_LARGE, limit 4 by payloadBytesMax at payload
            #6 policy.set policy
            #7 m3 goes to bob"#]],
    );
}

// Fails under: a rationale counted in bytes, or not at all.
#[test]
fn e7_a_rationale_has_its_length() {
    check(
        "hub sets mesh chars 3; alice sends m1 to bob reason äöü; alice sends m2 to bob reason äöüß",
        expect![[r#"
            #3 policy.set policy
            #4 m1 goes to bob
            refused TOO_LARGE, limit 3 by rationaleCharsMax at rationale"#]],
    );
}

// Fails under: fields that are asked for of commands, or not asked for of answers.
#[test]
fn e6_answers_say_how_sure_they_are_and_why() {
    check(
        "hub sets mesh asking structured,confidence,rationale; alice sends m1 to bob; \
         alice sends m2 to bob written text/plain; alice sends m3 to bob answering sure 0.5 reason so; \
         alice sends m3 to bob answering about m1; alice sends m4 to bob answering about m1 sure 0.5; \
         alice sends m5 to bob answering about m1 sure 0.5 reason so; \
         hub sends m6 to bob answering; alice sends m7 to bob written application/x+json",
        expect![[r#"
            #3 policy.set policy
            #4 m1 goes to bob
            refused POLICY_VIOLATION by structured at contentType
            refused POLICY_VIOLATION by structured at inReplyTo
            refused POLICY_VIOLATION by confidence at confidence
            refused POLICY_VIOLATION by rationale at rationale
            #5 m5 goes to bob
            #6 m6 goes to bob
            #7 m7 goes to bob"#]],
    );
}

// Fails under: completions and failures that need no reason where answers do.
#[test]
fn e6_so_do_the_ends_of_tasks() {
    check(
        "bob can x; alice makes t1 of x & makes t2 of x; bob takes 2; hub sets mesh asking confidence,rationale; \
         bob finishes t1; bob finishes t1 sure 0.5; bob finishes t1 sure 0.5 because so; bob flunks t2; \
         bob flunks t2 because so",
        expect![[r#"
            #3 bob starts epoch 3
            #4 t1 made: ready
            #4 t2 made: ready
            bob takes t1 (try 1, token 1), t2 (try 1, token 2)
            #6 policy.set policy
            refused POLICY_VIOLATION by confidence at confidence
            refused POLICY_VIOLATION by rationale at rationale
            #7 t1 done
            refused POLICY_VIOLATION by rationale at rationale
            #8 t2 failed (so): due at 1s"#]],
    );
}

// Fails under: rules that only whoever runs the hub may set being anybody's, or lost in a restart.
#[test]
fn c1_the_rules_are_the_hubs_and_stay() {
    check(
        "alice sets supervised; hub sets supervised; hub sets supervised; restart; alice sends m1 to bob; \
         hub sets mesh; alice sends m2 to bob",
        expect![[r#"
            refused FORBIDDEN
            #3 policy.set policy
            hub: nothing to write
            refused POLICY_VIOLATION by supervised at to
            #4 policy.set policy
            #5 m2 goes to bob"#]],
    );
}
