//! D4, D5: asking and answering, and the ways in which a wait ends without an answer.

use expect_test::expect;

use super::check;

// Fails under: the answer put into an inbox; the waiter not told.
#[test]
fn d4_an_answer_goes_to_whoever_waits() {
    check(
        "alice asks q1 to bob told a; bob claims; bob answers q1 saying 42 & acks q1; request q1; inbox alice; where q1",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            bob takes q1 (try 1, token 1)
            #5 an answer by bob
            #5 request.answered q1: answered; bob answered
            #5 q1 of bob acked
            a hears 42 from bob (#5)
            q1: answered; bob answered; chain msg_0-3-0
            inbox of alice: 
            q1 of bob: acked by #5"#]],
    );
}

// Fails under: another's answer accepted; an answer to another than the asker taken for one.
#[test]
fn d4_only_those_who_were_asked_can_answer() {
    check(
        "alice asks q1 to bob told a; carol answers q1 saying no; bob answers q1 to carol saying yes; request q1; inbox alice; inbox carol",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            #4 ? goes to alice
            #5 ? goes to carol
            q1: waiting; bob; chain msg_0-3-0
            inbox of alice: ? ready
            inbox of carol: ? ready"#]],
    );
}

// Fails under: any of the three lengths changed.
#[test]
fn d5_a_command_waits_30_s_a_query_5_s_a_broadcast_1_s() {
    check(
        "alice asks q1 to bob told a; alice asks q2 to bob query told b; alice asks q3 to bob,carol told c; \
         +999ms; +1ms; +3999ms; +1ms; +24s; +999ms; +1ms",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            #4 q2 goes to bob
            #4 request.made q2: waiting; bob
            #5 q3 goes to bob carol
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

// Fails under: a late answer delivered as fresh, or refused and lost; one that says that it was in time.
#[test]
fn d5_a_late_answer_is_on_record_and_nothing_else() {
    check(
        "alice asks q1 to bob within 1s told a; bob claims; silently +1s; bob answers q1 saying late & acks q1; \
         request q1; inbox alice; hub sends m2 to alice; alice claims",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            bob takes q1 (try 1, token 1)
            #6 bob is idle
            #6 an answer by bob
            #6 q1 of bob acked
            the answer is late
            q1: timed out; bob; chain msg_0-3-0
            inbox of alice: 
            #7 m2 goes to alice
            alice takes m2 (try 1, token 2)"#]],
    );
}

// Fails under: a second answer of the same agent accepted.
#[test]
fn d4_each_answers_once() {
    check(
        "alice asks q1 to bob,carol told a; bob answers q1 saying 1; bob answers q1 saying 2; carol answers q1 saying 3; request q1",
        expect![[r#"
            #3 q1 goes to bob carol
            #3 request.made q1: waiting; bob, carol
            #4 an answer by bob
            #4 request.answered q1: waiting; bob answered, carol
            a hears 1 from bob (#4), more may come
            #5 an answer by bob
            the answer is late
            #6 an answer by carol
            #6 request.answered q1: answered; bob answered, carol answered
            a hears 3 from carol (#6)
            q1: answered; bob answered, carol answered; chain msg_0-3-0"#]],
    );
}

// Fails under: the answers of a part thrown away when the time is over.
#[test]
fn d5_some_may_answer_in_time_and_others_not() {
    check(
        "alice asks q1 to bob,carol told a; bob answers q1 saying 1; +1s; request q1; agents",
        expect![[r#"
            #3 q1 goes to bob carol
            #3 request.made q1: waiting; bob, carol
            #4 an answer by bob
            #4 request.answered q1: waiting; bob answered, carol
            a hears 1 from bob (#4), more may come
            #5 q1 of bob expired
            #5 q1 of carol expired
            #5 request.timedOut q1: timed out; bob answered, carol
            a is refused TIMEOUT
            q1: timed out; bob answered, carol; chain msg_0-3-0
            alice: idle, 0 open, 0 held, 0 asked
            bob: idle, 0 open, 0 held, 0 asked
            carol: idle, 0 open, 0 held, 0 asked"#]],
    );
}

// Fails under: the correlation not kept; a question without one not starting its own conversation.
#[test]
fn d4_a_chain_of_questions_keeps_its_correlation() {
    check(
        "alice asks q1 to bob told a; bob claims; bob asks q2 to carol told b upon q1 chain msg_0-3-0 hops 1; carol claims; \
         carol answers q2 saying c & acks q2; bob answers q1 saying b+c & acks q1; request q1; request q2",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            bob takes q1 (try 1, token 1)
            #5 q2 goes to carol
            #5 request.made q2: waiting; carol
            carol takes q2 (try 1, token 2)
            #7 an answer by carol
            #7 request.answered q2: answered; carol answered
            #7 q2 of carol acked
            b hears c from carol (#7)
            #8 an answer by bob
            #8 request.answered q1: answered; bob answered
            #8 q1 of bob acked
            a hears b+c from bob (#8)
            q1: answered; bob answered; chain msg_0-3-0
            q2: answered; carol answered; chain msg_0-3-0"#]],
    );
}

// Fails under: what nobody took left in the inbox; a cancel of another's request let through.
#[test]
fn d4_a_cancelled_question_is_withdrawn() {
    check(
        "alice asks q1 to bob told a; bob withdraws q1; alice withdraws q1; alice withdraws q1; bob claims; \
         bob answers q1 saying late; request q1",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            refused FORBIDDEN
            #4 request.cancelled q1: cancelled; bob
            #4 q1 of bob purged
            a is refused CANCELLED
            alice: nothing to write
            bob: nothing to claim
            #5 an answer by bob
            the answer is late
            q1: cancelled; bob; chain msg_0-3-0"#]],
    );
}

// Fails under: a question in somebody's hands taken away.
#[test]
fn d4_a_cancelled_question_that_was_taken_stays_with_its_holder() {
    check(
        "alice asks q1 to bob told a; bob claims; alice withdraws q1; bob acks q1; alice withdraws q1",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            bob takes q1 (try 1, token 1)
            #5 request.cancelled q1: cancelled; bob
            a is refused CANCELLED
            #6 q1 of bob acked
            alice: nothing to write"#]],
    );
}

// Fails under: a question that was given up keeping its asker waiting until the time is over.
#[test]
fn d4_a_question_that_is_given_up_fails_at_once() {
    check(
        "alice asks q1 to bob told a; bob claims; bob drops q1 because no_idea; request q1",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            bob takes q1 (try 1, token 1)
            #5 q1 of bob nacked (no idea): dead
            #5 request.failed q1: failed CANCELLED (bob gave it up: no idea); bob lost
            a is refused CANCELLED
            q1: failed CANCELLED (bob gave it up: no idea); bob lost; chain msg_0-3-0"#]],
    );
}

// Fails under: asking again with the same id asking twice; the new waiter not told.
#[test]
fn d4_the_same_question_again_waits_for_the_same_answer() {
    check(
        "alice asks q1 to bob told a id x; alice asks q1 to bob told b id x; bob answers q1 saying 1; \
         alice asks q1 to bob told c id x; restart; alice asks q1 to bob told d id x",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            asked already by #3, open
            #4 an answer by bob
            #4 request.answered q1: answered; bob answered
            a hears 1 from bob (#4)
            b hears 1 from bob (#4)
            asked already by #3, over
            asked already by #3, over"#]],
    );
}

// Fails under: a wait that a restart ends, or that begins anew with a shorter time.
#[test]
fn d5_a_request_outlives_a_restart() {
    check(
        "alice asks q1 to bob told a; +20s; restart; alice rejoins q1 told b; +29s; bob answers q1 saying 1; request q1",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            asked already by #3, open
            #4 q1 of bob expired
            #5 an answer by bob
            #5 request.answered q1: answered; bob answered
            b hears 1 from bob (#5)
            q1: answered; bob answered; chain msg_0-3-0"#]],
    );
}

// Fails under: a new start of the asker hearing answers through the old one's ear.
#[test]
fn d4_a_new_start_of_the_asker_asks_again() {
    check(
        "alice asks q1 to bob told a; alice starts; bob answers q1 saying 1; alice asks q2 to bob told b; \
         alice rejoins q2 told c; bob answers q2 saying 2",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            #4 alice starts epoch 5
            a is sent away
            #5 an answer by bob
            #5 request.answered q1: answered; bob answered
            #6 q2 goes to bob
            #6 request.made q2: waiting; bob
            asked already by #6, open
            #7 an answer by bob
            #7 request.answered q2: answered; bob answered
            b hears 2 from bob (#7)
            c hears 2 from bob (#7)"#]],
    );
}

// Fails under: the answer of whoever took the question from a pool not accepted; that of another one of the pool refused.
#[test]
fn d4_one_who_can_answers_for_all_who_can() {
    check(
        "bob starts able review; carol starts able cook; alice asks q1 to can:review told a; carol answers q1 saying no; bob claims; bob answers q1 saying ok & acks q1; request q1",
        expect![[r#"
            #3 bob starts epoch 5
            #4 carol starts epoch 6
            #5 pool.opened can:review
            #5 q1 goes to can:review
            #5 request.made q1: waiting; the pool
            #6 ? goes to alice
            bob takes q1 (try 1, token 1)
            #8 an answer by bob
            #8 request.answered q1: answered; bob answered
            #8 q1 of can:review acked
            a hears ok from bob (#8)
            q1: answered; bob answered; chain msg_0-5-0"#]],
    );
}

// Fails under: a retry counted as going round in a circle; any repetition let through.
#[test]
fn d7_asking_again_what_was_not_answered_is_no_circle() {
    check(
        "alice asks q1 to bob within 1s told a hops 1 chain c; silently +1s; alice asks q2 to bob within 1s again q1 told a hops 1 chain c; \
         silently +1s; alice asks q3 to bob within 1s again q2 told a hops 1 chain c; silently +1s; \
         alice asks q4 to bob within 1s again q3 told a hops 1 chain c; bob answers q4 saying 1; \
         alice asks q5 to bob again q4 told a hops 1 chain c; alice asks q6 to bob told a hops 1 chain c",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            #5 q2 goes to bob
            #5 request.made q2: waiting; bob
            #7 q3 goes to bob
            #7 request.made q3: waiting; bob
            #9 q4 goes to bob
            #9 request.made q4: waiting; bob
            #10 bob is idle
            #10 an answer by bob
            #10 request.answered q4: answered; bob answered
            a hears 1 from bob (#10)
            refused LOOP_REFUSED, limit 2
            refused LOOP_REFUSED, limit 2"#]],
    );
}

// Fails under: asking in the name of nobody; asking nobody.
#[test]
fn d4_a_question_needs_somebody_who_can_hear_the_answer() {
    check(
        "hub asks q1 to bob; alice asks q2 to topic:nobody; alice asks q3 to dora",
        expect![[r#"
            refused INVALID
            refused UNAVAILABLE
            refused UNKNOWN_RECIPIENT: there is no agent dora"#]],
    );
}

// Fails under: `why` without the wait, without the time, or with the wrong state.
#[test]
fn d4_why_says_who_waits_and_until_when() {
    check(
        "alice asks q1 to bob told a; why q1; bob claims; why q1; bob answers q1 saying 1 & acks q1; \
         alice sends m2 to bob after 1m; why m2; alice sends m3 to bob; alice sends m4 to bob; why m4",
        expect![[r#"
            #3 q1 goes to bob
            #3 request.made q1: waiting; bob
            q1: ready for bob since 08:00:00 (attempts used 0 of 4); delivered with the next claim by bob; expires at 08:00:30
            q1 is waited for until 30s
            bob takes q1 (try 1, token 1)
            q1: leased to bob since 08:00:00 (attempt 1 of 4); if not acked by 08:00:30 it expires
            q1 is waited for until 30s
            #5 an answer by bob
            #5 request.answered q1: answered; bob answered
            #5 q1 of bob acked
            a hears 1 from bob (#5)
            #6 m2 goes to bob
            m2: scheduled for bob (attempts used 0 of 4); available from 08:01:00
            #7 m3 goes to bob
            #8 m4 goes to bob
            m4: ready for bob since 08:00:00 (attempts used 0 of 4); 1 delivery ahead of it"#]],
    );
}
