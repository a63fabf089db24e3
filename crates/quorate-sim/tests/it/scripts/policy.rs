//! Policy of a space, enforced on every route.

use expect_test::expect;

use super::check;

// Fails under: a route that does not check the policy.
#[test]
fn c1_workers_reach_coordinators_only() {
    check(
        "carol leads; hub sets supervised; alice sends m1 to bob; alice sends m2 to carol; \
         alice sends m3 to carol,bob; alice sends m4 to alice; carol sends m5 to bob; hub sends m6 to bob; \
         hub sends m7 to bob as alice; bob claims 9; carol claims 9",
        expect![[r#"
            #3 carol starts epoch 4
            #4 policy.set policy
            refused POLICY_VIOLATION by supervised at to
            #5 m2 sent to carol
            refused POLICY_VIOLATION by supervised at to
            #6 m4 sent to alice
            #7 m5 sent to bob
            #8 m6 sent to bob
            refused POLICY_VIOLATION by supervised at to
            bob claims m5 (attempt 1, token 1), m6 (attempt 1, token 2)
            carol claims m2 (attempt 1, token 3)"#]],
    );
}

// Fails under: a topic that lets workers reach workers, or is refused because one of them subscribes.
#[test]
fn c1_a_topic_reaches_allowed_subscribers_only() {
    check(
        "carol leads; bob subscribes a; carol subscribes a; hub sets supervised; alice sends m1 to topic:a; \
         carol sends m2 to topic:a; bob claims 9; carol claims 9",
        expect![[r#"
            #3 carol starts epoch 4
            #4 topic.subscribed bob a
            #5 topic.subscribed carol a
            #6 policy.set policy
            #7 m1 sent to carol
            #8 m2 sent to bob
            bob claims m2 (attempt 1, token 1)
            carol claims m1 (attempt 1, token 2)"#]],
    );
}

// Fails under: a broadcast or a role without a policy check.
#[test]
fn c1_the_policy_applies_to_broadcasts_and_roles() {
    check(
        "carol leads; hub sets supervised; alice sends m1 to *; alice sends m2 to role:worker; \
         alice sends m3 to role:coordinator; carol sends m4 to *; carol sends m5 to role:worker",
        expect![[r#"
            #3 carol starts epoch 4
            #4 policy.set policy
            refused POLICY_VIOLATION by broadcast at to
            refused POLICY_VIOLATION by supervised at to
            #5 m3 sent to carol
            #6 m4 sent to alice bob
            #7 m5 sent to alice bob"#]],
    );
}

// Fails under: a worker that claims a pool message of another worker.
#[test]
fn c1_only_coordinators_claim_pool_messages_of_workers() {
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
            #6 m2 sent to can:review
            bob: nothing to claim
            dave claims m2 (attempt 1, token 1)
            #8 pool.opened can:review
            #8 m3 sent to can:review
            bob claims m3 (attempt 1, token 2)
            #10 erin starts epoch 10
            erin: nothing to claim"#]],
    );
}

// Fails under: an answer that is allowed because it was requested.
#[test]
fn c1_the_policy_applies_to_answers() {
    check(
        "alice sends m1 to bob; bob claims; hub sets supervised; bob acks m1 & sends m2 to alice answering; \
         bob acks m1; counts",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 policy.set policy
            refused POLICY_VIOLATION by supervised at to
            #6 m1 of bob acked
            1 acked"#]],
    );
}

// Fails under: `is_denied_by_policy` that is not checked at dispatch, or checked with the roles swapped.
#[test]
fn c1_queued_messages_are_checked_at_dispatch() {
    check(
        "carol leads; alice sends m1 to bob; alice sends m2 to carol; carol sends m3 to bob; hub sends m4 to bob; \
         bob sends m5 to bob; hub sets supervised; bob claims 9; carol claims 9; dead; where m1",
        expect![[r#"
            #3 carol starts epoch 4
            #4 m1 sent to bob
            #5 m2 sent to carol
            #6 m3 sent to bob
            #7 m4 sent to bob
            #8 m5 sent to bob
            #9 policy.set policy
            #10 m1 of bob denied by policy: dead
            bob claims m3 (attempt 1, token 1), m4 (attempt 1, token 2), m5 (attempt 1, token 3)
            carol claims m2 (attempt 1, token 4)
            dead: m1 of bob after 0 (no longer allowed by policy)
            m1 of bob: dead by #10"#]],
    );
}

// Fails under: a leased delivery that is revoked, or redelivered after it was returned.
#[test]
fn c1_a_leased_delivery_can_be_completed_after_a_policy_change() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob; bob claims 2; hub sets supervised; bob acks m1; \
         bob retries m2; bob claims; dead; restart; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)
            #6 policy.set policy
            #7 m1 of bob acked
            #8 m2 of bob nacked: ready
            #9 m2 of bob denied by policy: dead
            bob: nothing to claim
            dead: m2 of bob after 1 (no longer allowed by policy)
            bob: nothing to claim"#]],
    );
}

// Fails under: a redrive without a policy check, or a denied dead letter that cannot be redriven later.
#[test]
fn c1_the_policy_applies_to_redrives() {
    check(
        "alice sends m1 to bob; bob claims; bob drops m1; carol leads; alice sends m2 to carol; carol claims; \
         carol drops m2; hub sets supervised; hub redrives m1; hub redrives m2; hub sets mesh; hub redrives m1; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: dead
            #6 carol starts epoch 4
            #7 m2 sent to carol
            carol claims m2 (attempt 1, token 2)
            #9 m2 of carol nacked: dead
            #10 policy.set policy
            refused POLICY_VIOLATION by supervised at to
            #11 m2 of carol redriven
            #12 policy.set policy
            #13 m1 of bob redriven
            bob claims m1 (attempt 1, token 3)"#]],
    );
}

// Fails under: a removed sender that is treated like the hub.
#[test]
fn c1_a_removed_sender_is_not_treated_as_the_hub() {
    check(
        "alice sends m1 to bob; hub sets supervised; alice leaves; bob claims; dead; \
         bob leaves & sends m2 to carol; hub registers bob; where m1",
        expect![[r#"
            #3 m1 sent to bob
            #4 policy.set policy
            #5 agent 1 removed
            #6 m1 of bob denied by policy: dead
            bob: nothing to claim
            dead: m1 of bob after 0 (no longer allowed by policy)
            refused POLICY_VIOLATION by supervised at to
            #7 bob starts epoch 7
            m1 of bob: dead by #6"#]],
    );
}

// Fails under: an agent that registers itself as a coordinator.
#[test]
fn c1_an_agent_cannot_make_itself_a_coordinator() {
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
            #7 m1 sent to bob"#]],
    );
}

// Fails under: work that is assigned as a task to bypass the policy.
#[test]
fn c1_the_policy_applies_to_tasks() {
    check(
        "carol leads; bob can review; hub sets supervised; alice makes t1 of review; alice makes t2 of review for bob; \
         alice makes t3 of review for carol; alice makes t4 of review for carol escalating bob; carol makes t5 of review; \
         alice makes t6 of review for alice",
        expect![[r#"
            #3 carol starts epoch 4
            #4 bob starts epoch 3
            #5 policy.set policy
            refused POLICY_VIOLATION by supervised at to
            refused POLICY_VIOLATION by supervised at to
            #6 t3 created: ready
            refused POLICY_VIOLATION by supervised at to
            #7 t5 created: ready
            #8 t6 created: ready"#]],
    );
}

// Fails under: a backfill that delivers messages denied by the policy.
#[test]
fn c1_the_policy_applies_to_backfills() {
    check(
        "carol leads; alice sends m1 to topic:a; carol sends m2 to topic:a; bob subscribes a from #4; \
         hub sets supervised; hub backfills m1 to bob of a wanting from #4 until #5 by alice; \
         hub backfills m2 to bob of a wanting from #5 by carol; bob claims 9",
        expect![[r#"
            #3 carol starts epoch 4
            #4 m1 sent to no recipient
            #5 m2 sent to no recipient
            #6 topic.subscribed bob a
            #7 policy.set policy
            #8 topic.backfilled bob a
            #9 m2 backfilled to bob
            #9 topic.backfilled bob a
            bob claims m2 (attempt 1, token 1)"#]],
    );
}

// Fails under: a limit that is checked in one operation and not in another.
#[test]
fn e7_payload_size_is_limited_by_the_policy() {
    check(
        "hub sets mesh bytes 4; alice sends m1 to bob saying 1234; alice sends m2 to bob saying 12345; \
         alice puts plan=12345; alice puts plan=1234; alice makes t1 of x saying 12345; hub sets mesh; \
         alice sends m3 to bob saying 12345",
        expect![[r#"
            #3 policy.set policy
            #4 m1 sent to bob
            refused TOO_LARGE, limit 4 by payloadBytesMax at payload
            refused TOO_LARGE, limit 4 by payloadBytesMax at payload
            #5 plan is at v1
            refused TOO_LARGE, limit 4 by payloadBytesMax at payload
            #6 policy.set policy
            #7 m3 sent to bob"#]],
    );
}

// Fails under: a rationale measured in bytes, or not at all.
#[test]
fn e7_rationale_length_is_limited_by_the_policy() {
    check(
        "hub sets mesh chars 3; alice sends m1 to bob reason äöü; alice sends m2 to bob reason äöüß",
        expect![[r#"
            #3 policy.set policy
            #4 m1 sent to bob
            refused TOO_LARGE, limit 3 by rationaleCharsMax at rationale"#]],
    );
}

// Fails under: fields required of commands, or not required of answers.
#[test]
fn e6_answers_require_confidence_and_rationale() {
    check(
        "hub sets mesh asking structured,confidence,rationale; alice sends m1 to bob; \
         alice sends m2 to bob written text/plain; alice sends m3 to bob answering sure 0.5 reason so; \
         alice sends m3 to bob answering about m1; alice sends m4 to bob answering about m1 sure 0.5; \
         alice sends m5 to bob answering about m1 sure 0.5 reason so; \
         hub sends m6 to bob answering; alice sends m7 to bob written application/x+json",
        expect![[r#"
            #3 policy.set policy
            #4 m1 sent to bob
            refused POLICY_VIOLATION by structured at contentType
            refused POLICY_VIOLATION by structured at inReplyTo
            refused POLICY_VIOLATION by confidence at confidence
            refused POLICY_VIOLATION by rationale at rationale
            #5 m5 sent to bob
            #6 m6 sent to bob
            #7 m7 sent to bob"#]],
    );
}

// Fails under: a failure that needs a confidence, or one that needs no rationale.
#[test]
fn e6_a_failure_needs_no_confidence() {
    check(
        "hub sets mesh asking confidence,rationale; alice sends m1 to bob; bob sends m2 to alice failing about m1; \
         bob sends m3 to alice failing about m1 reason so; bob sends m4 to alice answering about m1 reason so",
        expect![[r#"
            #3 policy.set policy
            #4 m1 sent to bob
            refused POLICY_VIOLATION by rationale at rationale
            #5 m3 sent to alice
            refused POLICY_VIOLATION by confidence at confidence"#]],
    );
}

// Fails under: a text that counts as structured, because it is JSON or contains JSON.
#[test]
fn e6_a_json_string_is_not_structured() {
    check(
        r#"alice sends m1 to bob saying "text"; hub sets mesh asking structured;
           alice sends m2 to bob saying "text"; alice sends m3 to bob saying "{\"a\":1}";
           hub sends m4 to bob saying "text"; alice sends m5 to bob saying {"text":"a"};
           alice sends m6 to bob saying ["text"]; alice sends m7 to bob saying null; alice sends m8 to bob saying 1"#,
        expect![[r#"
            #3 m1 sent to bob
            #4 policy.set policy
            refused POLICY_VIOLATION by structured at payload
            refused POLICY_VIOLATION by structured at payload
            refused POLICY_VIOLATION by structured at payload
            #5 m5 sent to bob
            #6 m6 sent to bob
            #7 m7 sent to bob
            #8 m8 sent to bob"#]],
    );
}

// Fails under: what a holder of a task reports that counts as structured, because it is JSON or contains JSON.
#[test]
fn e6_a_result_of_a_task_that_is_a_json_string_is_not_structured() {
    check(
        r#"bob can x; alice makes t1 of x & makes t2 of x & makes t3 of x; bob takes 3; bob finishes t3 with "text";
           hub sets mesh asking structured; bob beats t1 with "text"; bob finishes t1 with "{\"a\":1}";
           bob flunks t2 leaving "text" because so; bob beats t1 with [1]; bob finishes t1 with {"a":1};
           bob flunks t2 permanently leaving {"a":"text"} because so"#,
        expect![[r#"
            #3 bob starts epoch 3
            #4 t1 created: ready
            #4 t2 created: ready
            #4 t3 created: ready
            bob claims t1 (attempt 1, token 1), t2 (attempt 1, token 2), t3 (attempt 1, token 3)
            #6 t3 done
            #7 policy.set policy
            refused POLICY_VIOLATION by structured at partial
            refused POLICY_VIOLATION by structured at result
            refused POLICY_VIOLATION by structured at details
            #8 t1 progressed
            #9 t1 done
            #10 failures/t2 is at v1
            #10 t2 failed, tried 1, last hopeless by bob"#]],
    );
}

// Fails under: completions and failures without the fields required of answers.
#[test]
fn e6_task_completions_require_confidence_and_rationale() {
    check(
        "bob can x; alice makes t1 of x & makes t2 of x; bob takes 2; hub sets mesh asking confidence,rationale; \
         bob finishes t1; bob finishes t1 sure 0.5; bob finishes t1 sure 0.5 because so; bob flunks t2; \
         bob flunks t2 because so",
        expect![[r#"
            #3 bob starts epoch 3
            #4 t1 created: ready
            #4 t2 created: ready
            bob claims t1 (attempt 1, token 1), t2 (attempt 1, token 2)
            #6 policy.set policy
            refused POLICY_VIOLATION by confidence at confidence
            refused POLICY_VIOLATION by rationale at rationale
            #7 t1 done
            refused POLICY_VIOLATION by rationale at rationale
            #8 failures/t2 is at v1
            #8 t2 failed (so): due at 1s"#]],
    );
}

// Fails under: a policy that any agent can set, or that is lost at a restart.
#[test]
fn c1_the_policy_is_set_by_the_hub_and_survives_a_restart() {
    check(
        "alice sets supervised; hub sets supervised; hub sets supervised; restart; alice sends m1 to bob; \
         hub sets mesh; alice sends m2 to bob",
        expect![[r#"
            refused FORBIDDEN
            #3 policy.set policy
            hub: nothing to write
            refused POLICY_VIOLATION by supervised at to
            #4 policy.set policy
            #5 m2 sent to bob"#]],
    );
}
