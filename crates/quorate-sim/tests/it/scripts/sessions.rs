//! Sessions: permissions, held deliveries of a paused session, refusals of a closed one, and the timeline.

use expect_test::expect;

use super::check;

// Fails under: a status or a participant that is not stored, or a count that does not increase.
#[test]
fn d9_a_session_is_opened_paused_resumed_and_completed() {
    check(
        "alice opens s1 with bob on Release_7 for {\"goal\":7}; bob adds decision to s1 saying \"yaml\" because readable; \
         bob adds decision to s1; alice adds finding to s1; hub adds note to s1; alice admits carol to s1; \
         carol adds blocker to s1; alice dismisses bob from s1; session s1; alice completes s1 because shipped; session s1",
        expect![[r##"
            #3 session.opened s1
            #4 s1 has decision 1
            #5 s1 has decision 2
            #6 s1 has finding 1
            #7 s1 has note 1
            #8 session.joined s1
            #9 s1 has blocker 1
            #10 session.left s1
            s1: "Release 7" active, led by alice, with carol, formerly bob, 2 decision, 1 finding, 1 blocker, 1 note
            #11 session.completed s1
            s1: "Release 7" completed, led by alice (shipped), with carol, formerly bob, 2 decision, 1 finding, 1 blocker, 1 note"##]],
    );
}

// Fails under: `opened_here` missing in the number: two sessions of one commit would have the same id.
#[test]
fn d9_the_hub_generates_missing_session_ids() {
    check(
        "alice opens - on a & opens - on b; hub opens - led bob on c; hub opens - on d; \
         session ses_0-3-0; session ses_0-3-1; session ses_0-4-0; session ses_0-5-0",
        expect![[r##"
            #3 session.opened ses_0-3-0
            #3 session.opened ses_0-3-1
            #4 session.opened ses_0-4-0
            #5 session.opened ses_0-5-0
            ses_0-3-0: "a" active, led by alice
            ses_0-3-1: "b" active, led by alice
            ses_0-4-0: "c" active, led by bob
            ses_0-5-0: "d" active, led by the hub"##]],
    );
}

// Fails under: a missing permission check in one of the operations, or permission granted to participants.
#[test]
fn d9_the_coordinator_and_the_hub_change_a_session_and_participants_add_to_it() {
    check(
        "alice opens s1 with bob; carol adds note to s1; bob pauses s1; bob admits carol to s1; bob completes s1; \
         carol fails s1; carol dismisses bob from s1; bob dismisses bob from s1; bob adds note to s1; \
         hub admits bob to s1; bob adds note to s1; hub pauses s1; alice resumes s1; alice opens s2 led bob; \
         alice admits nobody to s1; alice opens s3 with nobody; hub opens s4 led nobody",
        expect![[r#"
            #3 session.opened s1
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            #4 session.left s1
            refused FORBIDDEN
            #5 session.joined s1
            #6 s1 has note 1
            #7 session.paused s1
            #8 session.resumed s1
            refused FORBIDDEN
            refused NOT_FOUND
            refused NOT_FOUND
            refused NOT_FOUND"#]],
    );
}

// Fails under: deliveries that are not held at the pause, or not held when they become ready later.
#[test]
fn d9_pausing_holds_waiting_and_new_deliveries() {
    check(
        "alice opens s1; alice sends m1 to bob in s1; alice sends m2 to bob; alice pauses s1 because lunch; counts; where m1; \
         alice sends m3 to bob in s1; alice sends m4 to bob in s1 after 5s; +6s; counts; where m3; where m4; bob claims 9; \
         bob claims 9; alice resumes s1; counts; bob claims 9",
        expect![[r#"
            #3 session.opened s1
            #4 m1 sent to bob
            #5 m2 sent to bob
            #6 session.paused s1
            1 ready, 1 scheduled
            m1 of bob: held, ready since 0s, tried 0
            #7 m3 sent to bob
            #8 m4 sent to bob
            hub: nothing to write
            1 ready, 3 scheduled
            m3 of bob: held, ready since 0s, tried 0
            m4 of bob: due at 5s, tried 0
            bob claims m2 (attempt 1, token 1)
            bob: nothing to claim
            #10 session.resumed s1
            3 ready, 1 leased
            bob claims m1 (attempt 1, token 2), m3 (attempt 1, token 3), m4 (attempt 1, token 4)"#]],
    );
}

// Fails under: a lease that ends with the pause, or a returned delivery that is not held.
#[test]
fn d9_a_leased_delivery_continues_and_is_held_when_it_is_returned() {
    check(
        "alice opens s1; alice sends m1 to bob in s1; alice sends m2 to bob in s1; alice sends m3 to bob in s1; bob claims 3; \
         alice pauses s1; bob acks m1; bob retries m2; +31s; counts; where m2; bob claims 9; alice resumes s1; bob claims 9",
        expect![[r#"
            #3 session.opened s1
            #4 m1 sent to bob
            #5 m2 sent to bob
            #6 m3 sent to bob
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2), m3 (attempt 1, token 3)
            #8 session.paused s1
            #9 m1 of bob acked
            #10 m2 of bob nacked: ready
            #11 m3 of bob lapsed: ready
            2 scheduled, 1 acked
            m2 of bob: held, ready since 0s, tried 1
            bob: nothing to claim
            #12 session.resumed s1
            bob claims m2 (attempt 2, token 4), m3 (attempt 2, token 5)"#]],
    );
}

// Fails under: a resume that does not trigger dispatch, or releases in another order than that of the delivery numbers.
#[test]
fn d9_a_resume_delivers_in_order_to_waiting_consumers() {
    check(
        "alice opens s1; alice pauses s1; alice sends m1 to bob in s1; alice sends m2 to bob in s1 high; \
         alice sends m3 to bob in s1; bob stands 2 as desk; carol stands 1 as sofa; alice sends m4 to carol in s1; \
         alice resumes s1; bob acks m2 & grants 1 to desk",
        expect![[r#"
            #3 session.opened s1
            #4 session.paused s1
            #5 m1 sent to bob
            #6 m2 sent to bob
            #7 m3 sent to bob
            bob: nothing to claim
            carol: nothing to claim
            #8 m4 sent to carol
            #9 session.resumed s1
            desk receives m2 (attempt 1, token 1)
            desk receives m1 (attempt 1, token 2)
            sofa receives m4 (attempt 1, token 3)
            #10 m2 of bob acked
            desk receives m3 (attempt 1, token 4)"#]],
    );
}

// Fails under: an immediate lease although the session is paused.
#[test]
fn d9_a_held_message_is_not_leased_when_it_is_sent() {
    check(
        "alice opens s1; bob stands 5 as desk; alice sends m1 to bob in s1; alice pauses s1; alice sends m2 to bob in s1; \
         alice sends m3 to bob; alice completes s1",
        expect![[r#"
            #3 session.opened s1
            bob: nothing to claim
            #4 m1 sent to bob (leased immediately)
            desk receives m1 (attempt 1, token 1)
            #5 session.paused s1
            #6 m2 sent to bob
            #7 m3 sent to bob (leased immediately)
            desk receives m3 (attempt 1, token 2)
            #8 session.completed s1
            desk receives m2 (attempt 1, token 3)"#]],
    );
}

// Fails under: a closed session that accepts messages or contributions, or can be reopened.
#[test]
fn d9_a_closed_session_refuses_messages_additions_and_changes() {
    check(
        "alice opens s1 with bob; alice sends m1 to bob in s1; alice completes s1; alice sends m2 to bob in s1; \
         alice adds note to s1; alice pauses s1; alice resumes s1; alice fails s1; alice admits carol to s1; \
         alice dismisses bob from s1; alice completes s1; alice opens s1 on more; bob claims; session s1",
        expect![[r##"
            #3 session.opened s1
            #4 m1 sent to bob
            #5 session.completed s1
            refused SESSION_CLOSED
            refused SESSION_CLOSED
            refused SESSION_CLOSED
            refused SESSION_CLOSED
            refused SESSION_CLOSED
            refused SESSION_CLOSED
            refused SESSION_CLOSED
            alice: nothing to write
            refused DUPLICATE
            bob claims m1 (attempt 1, token 1)
            s1: "work" completed, led by alice, with bob"##]],
    );
}

// Fails under: deliveries that stay held after the session is closed: they would be stuck forever.
#[test]
fn d9_closing_a_paused_session_releases_its_messages() {
    check(
        "alice opens s1; alice sends m1 to bob in s1; alice pauses s1; alice fails s1 because lost; counts; bob claims",
        expect![[r#"
            #3 session.opened s1
            #4 m1 sent to bob
            #5 session.paused s1
            #6 session.failed s1
            1 ready
            bob claims m1 (attempt 1, token 1)"#]],
    );
}

// Fails under: labels that must be opened sessions, or generated ids that are accepted as labels.
#[test]
fn d9_an_unopened_session_id_is_only_a_label() {
    check(
        "alice sends m1 to bob in seed-session; alice sends m2 to bob in ses_1; alice sends m3 to bob in ses_0-3-0; \
         alice adds note to seed-session; timeline seed-session; alice opens seed-session; alice pauses seed-session; \
         alice sends m4 to bob in seed-session; bob claims 9; timeline seed-session",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            refused NOT_FOUND
            refused NOT_FOUND
            seed-session: #3 message.sent
            #5 session.opened seed-session
            #6 session.paused seed-session
            #7 m4 sent to bob
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)
            seed-session: #3 message.sent, #5 session.opened, #6 session.paused"#]],
    );
}

// Fails under: rows written by a pause, or held deliveries that are not restored.
#[test]
fn d9_a_pause_survives_a_restart() {
    check(
        "alice opens s1; alice sends m1 to bob in s1; alice sends m2 to bob in s1 after 5s; alice pauses s1; restart; counts; \
         where m1; +6s; counts; bob claims 9; alice sends m3 to bob in s1; restart; bob claims; hub resumes s1; restart; bob claims 9",
        expect![[r#"
            #3 session.opened s1
            #4 m1 sent to bob
            #5 m2 sent to bob
            #6 session.paused s1
            2 scheduled
            m1 of bob: held, ready since 0s, tried 0
            hub: nothing to write
            2 scheduled
            bob: nothing to claim
            #7 m3 sent to bob
            bob: nothing to claim
            #8 session.resumed s1
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2), m3 (attempt 1, token 3)"#]],
    );
}

// Fails under: a refused commit that leaves deliveries held or released.
#[test]
fn d9_a_refused_commit_holds_and_releases_nothing() {
    check(
        "alice opens s1; alice sends m1 to bob in s1; alice pauses s1 & sends m2 to nobody; counts; alice pauses s1; \
         alice resumes s1 & sends m2 to nobody; counts; alice completes s1 & sends m2 to nobody; session s1; \
         alice adds note to s1 & sends m2 to nobody; session s1; alice opens s2 & sends m2 to nobody; session s2",
        expect![[r##"
            #3 session.opened s1
            #4 m1 sent to bob
            refused UNKNOWN_RECIPIENT: there is no agent nobody
            1 ready
            #5 session.paused s1
            refused UNKNOWN_RECIPIENT: there is no agent nobody
            1 scheduled
            refused UNKNOWN_RECIPIENT: there is no agent nobody
            s1: "work" paused, led by alice
            refused UNKNOWN_RECIPIENT: there is no agent nobody
            s1: "work" paused, led by alice
            refused UNKNOWN_RECIPIENT: there is no agent nobody
            s2: nothing"##]],
    );
}

// Fails under: a held delivery that outlives its expiry, or is skipped by a purge.
#[test]
fn d9_held_deliveries_expire_and_are_purged() {
    check(
        "alice opens s1; alice pauses s1; alice sends m1 to bob in s1 expires 10s; alice sends m2 to bob in s1; +10s; counts; \
         bob purges; counts; alice resumes s1; bob claims",
        expect![[r#"
            #3 session.opened s1
            #4 session.paused s1
            #5 m1 sent to bob
            #6 m2 sent to bob
            #7 m1 of bob expired
            1 scheduled, 1 expired
            #8 m2 of bob purged
            1 purged
            1 expired, 1 purged
            #9 session.resumed s1
            bob: nothing to claim"#]],
    );
}

// Fails under: a redriven dead letter without its session.
#[test]
fn d9_a_redriven_dead_letter_keeps_its_session() {
    check(
        "alice opens s1; alice sends m1 to bob in s1; bob claims; bob drops m1; alice pauses s1; hub redrives m1; where m1; \
         bob claims; restart; bob claims; alice resumes s1; bob claims",
        expect![[r#"
            #3 session.opened s1
            #4 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #6 m1 of bob nacked: dead
            #7 session.paused s1
            #8 m1 of bob redriven
            m1 of bob: held, ready since 0s, tried 0
            bob: nothing to claim
            bob: nothing to claim
            #9 session.resumed s1
            bob claims m1 (attempt 1, token 2)"#]],
    );
}

// Fails under: a page that misses a kind, repeats a record, or has another order.
#[test]
fn d9_the_timeline_is_paginated() {
    check(
        "alice opens s1 with bob; alice sends m1 to bob in s1 & adds note to s1 & sends m2 to bob in s1; alice sends m3 to bob; \
         bob adds decision to s1; alice pauses s1; alice sends m4 to bob in s1; alice opens s2; alice adds note to s2; \
         alice resumes s1; bob adds decision to s1; timeline s1; timeline s1 after #6; timeline s1 after #10; \
         timeline s1 before #99; timeline s1 before #6; timeline s1 decision; timeline s1 message; timeline s1 change; \
         timeline s1 blocker; timeline s2; timeline s3",
        expect![[r#"
            #3 session.opened s1
            #4 m1 sent to bob
            #4 s1 has note 1
            #4 m2 sent to bob
            #5 m3 sent to bob
            #6 s1 has decision 1
            #7 session.paused s1
            #8 m4 sent to bob
            #9 session.opened s2
            #10 s2 has note 1
            #11 session.resumed s1
            #12 s1 has decision 2
            s1: #3 session.opened, #4 message.sent and session.added and message.sent, #6 session.added
            s1: #7 session.paused, #8 message.sent, #11 session.resumed
            s1: #11 session.resumed, #12 session.added
            s1: #12 session.added, #11 session.resumed, #8 message.sent
            s1: #4 message.sent and session.added and message.sent, #3 session.opened
            s1: #6 session.added, #12 session.added
            s1: #4 message.sent and session.added and message.sent, #8 message.sent
            s1: #3 session.opened, #7 session.paused, #11 session.resumed
            s1: nothing
            s2: #9 session.opened, #10 session.added
            s3: nothing"#]],
    );
}

// Fails under: parameters that are not all compared, or a repeat that opens another session.
#[test]
fn d9_reopening_succeeds_only_with_identical_parameters() {
    check(
        "alice opens s1 with bob for {}; alice opens s1 with bob for {}; alice opens s1 with bob; alice opens s1 for {}; \
         alice opens s1 with bob on other for {}; alice opens s1 with bob for []; bob opens s1 with bob for {}; \
         alice admits carol to s1; alice opens s1 with bob,bob for {}; alice completes s1; alice opens s1 with bob for {}",
        expect![[r#"
            #3 session.opened s1
            alice: nothing to write
            refused DUPLICATE
            refused DUPLICATE
            refused DUPLICATE
            refused DUPLICATE
            refused DUPLICATE
            #4 session.joined s1
            alice: nothing to write
            #5 session.completed s1
            alice: nothing to write"#]],
    );
}

// Fails under: a receipt that is not stored with the key.
#[test]
fn d9_a_repeated_addition_is_one_addition() {
    check(
        "alice opens s1; alice adds note to s1 with key k; alice adds note to s1 with key k; session s1; \
         alice adds decision to s1 with key k",
        expect![[r##"
            #3 session.opened s1
            #4 s1 has note 1
            the same receipt as #4
            s1: "work" active, led by alice, 1 note
            refused DUPLICATE"##]],
    );
}

// Fails under: a limit of an hour, or any limit.
#[test]
fn d9_a_session_has_no_time_limit() {
    check(
        "alice opens s1; alice pauses s1; alice sends m1 to bob in s1; +40d; alice adds note to s1; alice resumes s1; bob claims; session s1",
        expect![[r##"
            #3 session.opened s1
            #4 session.paused s1
            #5 m1 sent to bob
            #6 s1 has note 1
            #7 session.resumed s1
            bob claims m1 (attempt 1, token 1)
            s1: "work" active, led by alice, 1 note"##]],
    );
}

// Fails under: a space that sees the sessions of another space.
#[test]
fn d9_sessions_belong_to_one_space() {
    check(
        "alice opens s1; alice pauses s1; in team; alice sends m1 to bob in s1; bob claims; session s1; timeline s1; \
         alice adds note to s1; alice opens s1; session s1",
        expect![[r##"
            #3 session.opened s1
            #4 session.paused s1
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            s1: nothing
            s1: #3 message.sent
            refused NOT_FOUND
            #5 session.opened s1
            s1: "work" active, led by alice"##]],
    );
}

// Fails under: a kind of destination whose deliveries are not held.
#[test]
fn d9_a_pause_holds_deliveries_to_every_kind_of_destination() {
    check(
        "silently bob starts able review; silently carol subscribes news.>; alice opens s1; alice pauses s1; \
         alice sends m1 to can:review in s1; alice sends m2 to topic:news.x in s1; alice sends m3 to role:worker in s1; \
         alice sends m4 to * in s1; counts; bob claims 9; carol claims 9; restart; bob claims 9; alice resumes s1; \
         bob claims 9; carol claims 9; timeline s1 message",
        expect![[r#"
            #5 session.opened s1
            #6 session.paused s1
            #7 pool.opened can:review
            #7 m1 sent to can:review
            #8 m2 sent to carol
            #9 m3 sent to bob carol
            #10 m4 sent to bob carol
            6 scheduled
            bob: nothing to claim
            carol: nothing to claim
            bob: nothing to claim
            #11 session.resumed s1
            bob claims m1 (attempt 1, token 1), m3 (attempt 1, token 2), m4 (attempt 1, token 3)
            carol claims m2 (attempt 1, token 4), m3 (attempt 1, token 5), m4 (attempt 1, token 6)
            s1: #7 message.sent, #8 message.sent, #9 message.sent"#]],
    );
}

// Fails under: tasks created for a closed session, or an escalation that is lost with it.
#[test]
fn d9_a_closed_session_refuses_new_tasks_but_not_escalations() {
    check(
        "silently bob can cook; silently carol leads; alice opens s1; alice makes t1 of cook tries 1 in s1; bob takes; \
         alice completes s1; alice makes t2 of cook in s1; alice makes t3 of cook in ses_0-99-0; bob flunks t1 because burnt; \
         carol claims; timeline s1",
        expect![[r#"
            #5 session.opened s1
            #6 t1 created: ready
            bob claims t1 (attempt 1, token 1)
            #8 session.completed s1
            refused SESSION_CLOSED
            refused NOT_FOUND
            #9 failures/t1 is at v1
            #9 !t1 sent to carol
            #9 t1 failed (burnt): escalated
            carol claims !t1 (attempt 1, token 2)
            s1: #5 session.opened, #8 session.completed, #9 message.sent"#]],
    );
}
