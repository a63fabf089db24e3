//! D4, D5: requests, answers, and the ways a request ends without an answer.

use expect_test::expect;

use super::check;

// Fails under: an answer that is put into an inbox; a waiting consumer that is not notified.
#[test]
fn d4_an_answer_goes_to_the_waiting_consumer() {
    check(
        "alice asks q1 to bob notifying a; bob claims; bob answers q1 saying 42 & acks q1; request q1; inbox alice; where q1",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            bob claims q1 (attempt 1, token 1)
            #5 answer from bob
            #5 request.answered q1: answered; bob answered
            #5 q1 of bob acked
            a receives answer 42 from bob (#5)
            q1: answered; bob answered; chain msg_0-3-0
            inbox of alice: 
            q1 of bob: acked by #5"#]],
    );
}

// Fails under: an answer from another agent accepted; an answer to another agent than the requester counted.
#[test]
fn d4_only_recipients_of_a_request_can_answer() {
    check(
        "alice asks q1 to bob notifying a; carol answers q1 saying no; bob answers q1 to carol saying yes; request q1; inbox alice; inbox carol",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            #4 ? sent to alice
            #5 ? sent to carol
            q1: waiting; bob; chain msg_0-3-0
            inbox of alice: ? ready
            inbox of carol: ? ready"#]],
    );
}

// Fails under: a change of any of the three default timeouts.
#[test]
fn d5_default_timeouts_are_30_s_for_commands_5_s_for_queries_1_s_for_broadcasts() {
    check(
        "alice asks q1 to bob notifying a; alice asks q2 to bob query notifying b; alice asks q3 to bob,carol notifying c; \
         +999ms; +1ms; +3999ms; +1ms; +24s; +999ms; +1ms",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            #4 q2 sent to bob
            #4 request.made q2: waiting; bob
            #5 q3 sent to bob carol
            #5 request.made q3: waiting; bob, carol
            #6 q3 of bob expired
            #6 q3 of carol expired
            #6 request.timedOut q3: timed out; bob, carol
            c is refused TIMEOUT
            #7 q2 of bob expired
            #7 request.timedOut q2: timed out; bob
            #7 bob is idle, unavailable
            b is refused TIMEOUT
            #8 q1 of bob expired
            #8 request.timedOut q1: timed out; bob
            a is refused TIMEOUT"#]],
    );
}

// Fails under: a late answer that is delivered as if in time, or refused and lost, or not marked as late.
#[test]
fn d5_a_late_answer_is_recorded_but_not_delivered() {
    check(
        "alice asks q1 to bob within 1s notifying a; bob claims; silently +1s; bob answers q1 saying late & acks q1; \
         bob answers q1 saying late; request q1; inbox alice; hub sends m2 to alice; alice claims",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            bob claims q1 (attempt 1, token 1)
            refused STALE_LEASE
            #6 bob is idle
            #6 answer from bob
            the answer is late
            q1: timed out; bob; chain msg_0-3-0
            inbox of alice: 
            #7 m2 sent to alice
            alice claims m2 (attempt 1, token 2)"#]],
    );
}

// Fails under: a second answer of the same agent that is accepted.
#[test]
fn d4_each_recipient_answers_once() {
    check(
        "alice asks q1 to bob,carol notifying a; bob answers q1 saying 1; bob answers q1 saying 2; carol answers q1 saying 3; request q1",
        expect![[r#"
            #3 q1 sent to bob carol
            #3 request.made q1: waiting; bob, carol
            #4 answer from bob
            #4 request.answered q1: waiting; bob answered, carol
            a receives answer 1 from bob (#4), more may come
            #5 answer from bob
            the answer is late
            #6 answer from carol
            #6 request.answered q1: answered; bob answered, carol answered
            a receives answer 3 from carol (#6)
            q1: answered; bob answered, carol answered; chain msg_0-3-0"#]],
    );
}

// Fails under: answers that are discarded when the request times out.
#[test]
fn d5_answers_before_the_timeout_count_if_others_are_missing() {
    check(
        "alice asks q1 to bob,carol notifying a; bob answers q1 saying 1; +1s; request q1; agents",
        expect![[r#"
            #3 q1 sent to bob carol
            #3 request.made q1: waiting; bob, carol
            #4 answer from bob
            #4 request.answered q1: waiting; bob answered, carol
            a receives answer 1 from bob (#4), more may come
            #5 q1 of bob expired
            #5 q1 of carol expired
            #5 request.timedOut q1: timed out; bob answered, carol
            a is refused TIMEOUT
            q1: timed out; bob answered, carol; chain msg_0-3-0
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: idle, 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending"#]],
    );
}

// Fails under: a correlation id that is not inherited; a request without one that does not start its own conversation.
#[test]
fn d4_a_chain_of_requests_keeps_its_correlation_id() {
    check(
        "alice asks q1 to bob notifying a; bob claims; bob asks q2 to carol notifying b upon q1 chain msg_0-3-0 hops 1; carol claims; \
         carol answers q2 saying c & acks q2; bob answers q1 saying b+c & acks q1; request q1; request q2",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            bob claims q1 (attempt 1, token 1)
            #5 q2 sent to carol
            #5 request.made q2: waiting; carol
            carol claims q2 (attempt 1, token 2)
            #7 answer from carol
            #7 request.answered q2: answered; carol answered
            #7 q2 of carol acked
            b receives answer c from carol (#7)
            #8 answer from bob
            #8 request.answered q1: answered; bob answered
            #8 q1 of bob acked
            a receives answer b+c from bob (#8)
            q1: answered; bob answered; chain msg_0-3-0
            q2: answered; carol answered; chain msg_0-3-0"#]],
    );
}

// Fails under: an unclaimed delivery left in the inbox; a cancellation of another agent's request.
#[test]
fn d4_a_cancelled_request_is_removed_from_inboxes() {
    check(
        "alice asks q1 to bob notifying a; bob withdraws q1; alice withdraws q1; alice withdraws q1; bob claims; \
         bob answers q1 saying late; request q1",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            refused NOT_FOUND
            #4 request.cancelled q1: cancelled; bob
            #4 q1 of bob purged
            a is refused CANCELLED
            alice: nothing to write
            bob: nothing to claim
            #5 answer from bob
            the answer is late
            q1: cancelled; bob; chain msg_0-3-0"#]],
    );
}

// Fails under: a delivery that stays leased, or is redelivered to the next epoch of its holder or after a restart.
#[test]
fn m16_a_leased_delivery_ends_with_its_request() {
    check(
        "alice asks q1 to bob notifying a; bob claims; alice withdraws q1; bob acks q1; bob extends q1 to 1m; \
         alice withdraws q1; alice asks q2 to bob within 5s notifying a; bob claims; silently +5s; bob acks q2; \
         bob starts; restart; +1h; bob claims; where q1; where q2; request q2",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            bob claims q1 (attempt 1, token 1)
            #5 request.cancelled q1: cancelled; bob
            #5 q1 of bob purged
            a is refused CANCELLED
            bob is notified: request q1 ended with CANCELLED
            refused STALE_LEASE
            refused STALE_LEASE
            alice: nothing to write
            #6 q2 sent to bob
            #6 request.made q2: waiting; bob
            bob claims q2 (attempt 1, token 2)
            refused STALE_LEASE
            #9 bob is idle
            #9 bob starts epoch 9
            bob: nothing to claim
            q1 of bob: purged by #5
            q2 of bob: expired by #8
            q2: timed out; bob; chain msg_0-6-0"#]],
    );
}

// Fails under: a recipient that works on a request that its delegate has answered.
#[test]
fn m16_a_delivery_ends_when_another_agent_answers_it() {
    check(
        "alice asks q1 to bob notifying a chain c; bob claims; bob sends m2 to carol upon q1 chain c hops 1; \
         carol answers q1 saying 1; bob acks q1; where q1; request q1",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            bob claims q1 (attempt 1, token 1)
            #5 m2 sent to carol
            #5 request.delegated q1: waiting; bob, or carol
            #6 answer from carol
            #6 request.answered q1: answered; bob answered, or carol
            #6 q1 of bob purged
            a receives answer 1 from carol (#6)
            bob is notified: request q1 ended with CONFLICT
            refused STALE_LEASE
            q1 of bob: purged by #6
            q1: answered; bob answered, or carol; chain c"#]],
    );
}

// Fails under: a delivery of a pool that stays with its holder after another agent of the pool answered.
#[test]
fn m16_a_delivery_of_a_pool_ends_when_another_agent_answers_it() {
    check(
        "bob starts able review; carol starts able review; alice asks q1 to can:review notifying a; bob claims; \
         carol answers q1 saying 1; bob acks q1; where q1",
        expect![[r#"
            #3 bob starts epoch 5
            #4 carol starts epoch 6
            #5 pool.opened can:review
            #5 q1 sent to can:review
            #5 request.made q1: waiting; the pool
            bob claims q1 (attempt 1, token 1)
            #7 answer from carol
            #7 request.answered q1: answered; carol answered
            #7 q1 of can:review purged
            a receives answer 1 from carol (#7)
            bob is notified: request q1 ended with CONFLICT
            refused STALE_LEASE
            q1 of can:review: purged by #7"#]],
    );
}

// Fails under: a dead-lettered request that keeps its sender waiting until the timeout.
#[test]
fn d4_a_dead_lettered_request_fails_immediately() {
    check(
        "alice asks q1 to bob notifying a; bob claims; bob drops q1 because no_idea; request q1",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            bob claims q1 (attempt 1, token 1)
            #5 q1 of bob nacked (no idea): dead
            #5 request.failed q1: failed CANCELLED (bob gave it up: no idea); bob lost
            a is refused CANCELLED
            q1: failed CANCELLED (bob gave it up: no idea); bob lost; chain msg_0-3-0"#]],
    );
}

// Fails under: a repeated client id that sends a second request; a new consumer that is not notified.
#[test]
fn d4_a_repeated_request_waits_for_the_same_answer() {
    check(
        "alice asks q1 to bob notifying a id x; alice asks q1 to bob notifying b id x; bob answers q1 saying 1; \
         alice asks q1 to bob notifying c id x; restart; alice asks q1 to bob notifying d id x",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            requested already by #3, open
            #4 answer from bob
            #4 request.answered q1: answered; bob answered
            a receives answer 1 from bob (#4)
            b receives answer 1 from bob (#4)
            requested already by #3, closed
            requested already by #3, closed"#]],
    );
}

// Fails under: a request that a restart ends, or that restarts with a shorter timeout.
#[test]
fn d5_a_request_survives_a_restart() {
    check(
        "alice asks q1 to bob notifying a; +20s; restart; alice rejoins q1 notifying b; +29s; bob answers q1 saying 1; request q1",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            requested already by #3, open
            #4 q1 of bob expired
            #5 answer from bob
            #5 request.answered q1: answered; bob answered
            b receives answer 1 from bob (#5)
            q1: answered; bob answered; chain msg_0-3-0"#]],
    );
}

// Fails under: answers that go to the consumer of the previous epoch.
#[test]
fn d4_a_new_epoch_of_the_requester_rejoins_its_request() {
    check(
        "alice asks q1 to bob notifying a; alice starts; bob answers q1 saying 1; alice asks q2 to bob notifying b; \
         alice rejoins q2 notifying c; bob answers q2 saying 2",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            #4 alice starts epoch 5
            a is dismissed
            #5 answer from bob
            #5 request.answered q1: answered; bob answered
            #6 q2 sent to bob
            #6 request.made q2: waiting; bob
            requested already by #6, open
            #7 answer from bob
            #7 request.answered q2: answered; bob answered
            b receives answer 2 from bob (#7)
            c receives answer 2 from bob (#7)"#]],
    );
}

// Fails under: an answer from the agent that claimed the request from the pool refused; an answer from an agent outside
// the pool counted.
#[test]
fn d4_one_agent_answers_for_its_capability_pool() {
    check(
        "bob starts able review; carol starts able cook; alice asks q1 to can:review notifying a; carol answers q1 saying no; bob claims; bob answers q1 saying ok & acks q1; request q1",
        expect![[r#"
            #3 bob starts epoch 5
            #4 carol starts epoch 6
            #5 pool.opened can:review
            #5 q1 sent to can:review
            #5 request.made q1: waiting; the pool
            #6 ? sent to alice
            bob claims q1 (attempt 1, token 1)
            #8 answer from bob
            #8 request.answered q1: answered; bob answered
            #8 q1 of can:review acked
            a receives answer ok from bob (#8)
            q1: answered; bob answered; chain msg_0-5-0"#]],
    );
}

// Fails under: a retry that counts as a repetition in the chain; any repetition accepted.
#[test]
fn d7_retrying_an_unanswered_request_is_not_a_loop() {
    check(
        "alice asks q1 to bob within 1s notifying a hops 1 chain c; silently +1s; alice asks q2 to bob within 1s again q1 notifying a hops 2 chain c; \
         silently +1s; alice asks q3 to bob within 1s again q2 notifying a hops 3 chain c; silently +1s; \
         alice asks q4 to bob within 1s again q3 notifying a hops 4 chain c; bob answers q4 saying 1; \
         alice asks q5 to bob again q4 notifying a hops 5 chain c; alice asks q6 to bob notifying a hops 6 chain c",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            #5 q2 sent to bob
            #5 request.made q2: waiting; bob
            #7 q3 sent to bob
            #7 request.made q3: waiting; bob
            #9 q4 sent to bob
            #9 request.made q4: waiting; bob
            #10 bob is idle
            #10 answer from bob
            #10 request.answered q4: answered; bob answered
            a receives answer 1 from bob (#10)
            refused LOOP_REFUSED, limit 2
            refused LOOP_REFUSED, limit 2"#]],
    );
}

// Fails under: a request without a sender; a request without recipients.
#[test]
fn d4_a_request_needs_a_sender_and_recipients() {
    check(
        "hub asks q1 to bob; alice asks q2 to topic:nobody; alice asks q3 to dora",
        expect![[r#"
            refused INVALID
            refused UNAVAILABLE
            refused UNKNOWN_RECIPIENT: there is no agent dora"#]],
    );
}

// Fails under: `why` without the request, without its timeout, or with the wrong state.
#[test]
fn d4_why_shows_the_pending_request_and_its_timeout() {
    check(
        "alice asks q1 to bob notifying a; why q1; bob claims; why q1; bob answers q1 saying 1 & acks q1; \
         alice sends m2 to bob after 1m; why m2; alice sends m3 to bob; alice sends m4 to bob; why m4",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            q1: ready for bob since 08:00:00 (attempts used 0 of 4); delivered with the next claim by bob; expires at 08:00:30
            q1 awaits answers until 30s
            bob claims q1 (attempt 1, token 1)
            q1: leased to bob since 08:00:00 (attempt 1 of 4); if not acked by 08:00:30 it expires
            q1 awaits answers until 30s
            #5 answer from bob
            #5 request.answered q1: answered; bob answered
            #5 q1 of bob acked
            a receives answer 1 from bob (#5)
            #6 m2 sent to bob
            m2: scheduled for bob (attempts used 0 of 4); available from 08:01:00
            #7 m3 sent to bob
            #8 m4 sent to bob
            m4: ready for bob since 08:00:00 (attempts used 0 of 4); 1 delivery ahead of it"#]],
    );
}
