//! D1, D2, D6: presence and load of agents, and messages to unavailable recipients.

use expect_test::expect;

use super::check;

// Fails under: deliveries of a pool that count as leased, but not as open.
#[test]
fn d2_the_load_counts_deliveries_of_pools_as_open_while_leased() {
    check(
        "bob can review; alice sends m1 to can:review; alice sends m2 to can:review; alice sends m3 to bob; \
         agents can review; bob claims 9; agents can review; bob acks m1; bob retries m2; agents can review",
        expect![[r#"
            #3 bob starts epoch 3
            #4 pool.opened can:review
            #4 m1 sent to can:review
            #5 m2 sent to can:review
            #6 m3 sent to bob
            bob: idle, 1 open, 0 leased, 0 requests pending
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2), m3 (attempt 1, token 3)
            bob: working, 3 open, 3 leased, 0 requests pending
            #8 m1 of can:review acked
            #9 m2 of can:review nacked: ready
            bob: working, 1 open, 1 leased, 0 requests pending"#]],
    );
}

// Fails under: a limit of two or four heartbeats; a heartbeat that writes a record.
#[test]
fn d6_an_agent_is_offline_after_three_missed_heartbeats() {
    check(
        "bob starts beating 10s; +10s; bob heartbeats; +29s; +999ms; +1ms; agents; bob heartbeats; agents",
        expect![[r#"
            #3 bob starts epoch 5
            bob: nothing to write
            #4 bob is offline, unavailable
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: offline (unavailable), 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            #5 bob is idle
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: idle, 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending"#]],
    );
}

// Fails under: a commit that does not count as activity; a waiting claim taken for silence.
#[test]
fn d6_a_commit_or_a_wait_counts_as_activity() {
    check(
        "bob starts beating 10s; carol starts beating 10s; alice starts beating 10s; +20s; bob puts k=1; carol waits as c; \
         alice asks q1 to dave; alice asks q1 to bob within 10m notifying a; +29s; +31s; agents",
        expect![[r#"
            #3 bob starts epoch 5
            #4 carol starts epoch 6
            #5 alice starts epoch 7
            #6 k is at v1
            carol: nothing to claim
            refused UNKNOWN_RECIPIENT: there is no agent dave
            #7 q1 sent to bob
            #7 request.made q1: waiting; bob
            #8 bob is offline, unavailable
            alice: waiting, 0 open, 0 leased, 1 requests pending
            bob: offline (unavailable), 1 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending"#]],
    );
}

// Fails under: a delivery, a task or a lock that silence alone takes from an agent.
#[test]
fn i13_silence_alone_takes_nothing_away() {
    check(
        "bob starts able w beating 10s; alice sends m1 to bob; bob claims for 10m; bob locks x for 10m; hub makes t1 of w lease 10m; \
         bob takes; +30s; where m1; locks; task t1; agents; bob acks m1; bob finishes t1; bob unlocks x; agents",
        expect![[r#"
            #3 bob starts epoch 5
            #4 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #6 lock.granted x: held by bob with fence 1
            #7 t1 created: ready
            bob claims t1 (attempt 1, token 2)
            #9 bob is offline, unavailable
            m1 of bob: leased under token 1, attempt 1
            lock x for 1: held by bob with fence 1
            t1 leased by bob under token 2, tried 1
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: offline (unavailable), 1 open, 1 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            #10 bob is idle
            #10 m1 of bob acked
            #11 t1 done
            #12 lock.released x: free
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: idle, 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending"#]],
    );
}

// Fails under: leases of an offline agent that do not end at their own time.
#[test]
fn i13_leases_of_an_offline_agent_end_at_their_own_time() {
    check(
        "bob starts able w beating 10s; alice sends m1 to bob; bob claims for 1m; bob locks x for 1m; hub makes t1 of w lease 1m; \
         bob takes; +30s; +30s; where m1; locks; task t1",
        expect![[r#"
            #3 bob starts epoch 5
            #4 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #6 lock.granted x: held by bob with fence 1
            #7 t1 created: ready
            bob claims t1 (attempt 1, token 2)
            #9 bob is offline, unavailable
            #10 m1 of bob lapsed: ready
            #10 t1 lapsed: ready
            #10 lock.expired x: free
            m1 of bob: ready since 60s, tried 1
            lock x for 1: free
            t1 ready since 60s, tried 1, last lapsed by bob"#]],
    );
}

// Fails under: a closed connection that shows only after three heartbeats, or that releases anything; a resumed
// connection or another call that leaves it marked; a claim that is taken for a connection.
#[test]
fn n5_a_closed_connection_shows_at_once_and_releases_nothing() {
    check(
        "bob starts beating 10s; bob stands 1 as b; alice sends m1 to bob; alice sends m2 to bob; bob locks x for 10m; quietly +5s; hub closes b; \
         quietly +4s; agents; why m2; why m1; stuck; where m1; locks; bob stands 0 as b; agents; hub closes b; agents; bob heartbeats; agents; \
         bob claims; bob waits as c; hub closes c; agents; hub closes b; +30s; stuck; agents",
        expect![[r#"
            #3 bob starts epoch 5
            bob: nothing to claim
            #4 m1 sent to bob (leased immediately)
            b receives m1 (attempt 1, token 1)
            #5 m2 sent to bob
            #6 lock.granted x: held by bob with fence 1
            hub: nothing to write
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: working (disconnected since 5s), 2 open, 1 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            m2: ready for bob since 08:00:00 (attempts used 0 of 4); bob disconnected at 08:00:05, so it stays queued
            m1: leased to bob since 08:00:00 (attempt 1 of 4); if not acked by 08:00:30 it is redelivered; bob disconnected at 08:00:05
            stuck: bob: bob disconnected 4 s ago, 1 message waits
            stuck: held by bob: bob disconnected 4 s ago, holds 1 message and lock x, the first until 08:00:30
            m1 of bob: leased under token 1, attempt 1
            lock x for 1: held by bob with fence 1
            bob: nothing to claim
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: working, 2 open, 1 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            hub: nothing to write
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: working (disconnected since 9s), 2 open, 1 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            bob: nothing to write
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: working, 2 open, 1 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            bob claims m2 (attempt 1, token 2)
            bob: nothing to claim
            hub: nothing to write
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: working, 2 open, 2 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            hub: nothing to write
            #8 m1 of bob lapsed: ready
            #8 m2 of bob lapsed: ready
            #8 bob is offline, unavailable
            stuck: bob: bob is offline, 2 messages wait
            stuck: held by bob: bob is offline, holds lock x until 08:10:00
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: offline (unavailable), 2 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending"#]],
    );
}

// Fails under: stuck work without its reason; a worker that waits, or an agent that is present, taken for a gone one.
#[test]
fn n5_work_that_no_agent_can_do_is_stuck_with_its_reason() {
    check(
        "hub makes t1 of review + t2 of review; stuck; bob starts able review beating 10s; stuck; +30s; stuck; bob awaits on review as b; \
         hub makes t3 of cook; carol awaits on cook,fry as c; hub makes t4 of cook; hub makes t5 for carol; stuck; \
         carol starts able dig beating 10s; alice sends m1 to can:dig; alice sends m2 to carol; stuck; +30s; stuck; \
         hub removes carol; stuck",
        expect![[r#"
            #3 t1 created: ready
            #3 t2 created: ready
            stuck: task type review: no agent has the capability review, 2 tasks wait
            #4 bob starts epoch 5
            nothing is stuck
            #5 bob is offline, unavailable
            stuck: task type review: bob is offline, 2 tasks wait
            #6 bob is idle
            bob claims t1 (attempt 1, token 1)
            #7 t3 created: ready
            carol claims t3 (attempt 1, token 2)
            #9 t4 created: ready
            #10 t5 created: ready
            stuck: task type cook: no agent has the capability cook, 1 task waits
            #11 t3 holder gone: ready
            #11 carol starts epoch 11
            #12 pool.opened can:dig
            #12 m1 sent to can:dig
            #13 m2 sent to carol
            stuck: task type cook: no agent has the capability cook, 2 tasks wait
            #14 t1 lapsed: ready
            #14 bob is offline, unavailable
            #14 carol is offline, unavailable
            stuck: task type cook: no agent has the capability cook, 2 tasks wait
            stuck: task type review: bob is offline, 2 tasks wait
            stuck: tasks of carol: carol is offline, 1 task waits
            stuck: can:dig: carol is offline, 1 message waits
            stuck: carol: carol is offline, 1 message waits
            refused CONFLICT
            stuck: task type cook: no agent has the capability cook, 2 tasks wait
            stuck: task type review: bob is offline, 2 tasks wait
            stuck: tasks of carol: carol is offline, 1 task waits
            stuck: can:dig: carol is offline, 1 message waits
            stuck: carol: carol is offline, 1 message waits"#]],
    );
}

// Fails under: a queue behind a holder that is gone which is not reported, or one behind a holder that is present.
#[test]
fn n5_a_lock_queue_behind_a_gone_holder_is_stuck() {
    check(
        "bob starts beating 10s; bob locks x for 10m; alice locks x as a; carol locks x as c; stuck; quietly +30s; hub sweeps; stuck; \
         bob renews x; stuck",
        expect![[r#"
            #3 bob starts epoch 5
            #4 lock.granted x: held by bob with fence 1
            alice is queued
            carol is queued
            nothing is stuck
            #5 bob is offline, unavailable
            stuck: lock x: its holder bob is offline, 2 requests wait; its grant ends at 08:10:00 unless it is renewed
            #6 bob is idle
            nothing is stuck"#]],
    );
}

// Fails under: work that stays invisible while a gone agent holds it; work of an agent that is present; a lock that is
// reported twice; a recorded end in place of the extended one.
#[test]
fn n5_work_held_by_a_gone_agent_is_stuck_with_the_end_of_its_lease() {
    check(
        "bob starts able w beating 10s; carol starts beating 10s; alice sends m1 to bob; bob claims for 10m; bob locks x for 8m; \
         bob locks y for 20m; hub makes t1 of w lease 12m + t2 of w lease 15m; bob takes 2; carol locks z for 20m; stuck; +30s; \
         carol heartbeats; stuck; why m1; why task t1; alice locks x as a; stuck; bob beats t1; stuck; quietly +40s; hub sweeps; \
         carol heartbeats; bob releases m1; stuck; +30s; carol heartbeats; stuck; why task t1",
        expect![[r#"
            #3 bob starts epoch 5
            #4 carol starts epoch 6
            #5 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #7 lock.granted x: held by bob with fence 1
            #8 lock.granted y: held by bob with fence 1
            #9 t1 created: ready
            #9 t2 created: ready
            bob claims t1 (attempt 1, token 2), t2 (attempt 1, token 3)
            #11 lock.granted z: held by carol with fence 1
            nothing is stuck
            #12 bob is offline, unavailable
            #12 carol is offline, unavailable
            #13 carol is idle
            stuck: held by bob: bob is offline, holds 2 tasks, 1 message and 2 locks, the first until 08:08:00
            m1: leased to bob since 08:00:00 (attempt 1 of 4); if not acked by 08:10:00 it is redelivered; bob is offline
            t1: leased to bob since 08:00:00 (attempt 1 of 4); without a heartbeat by 08:12:00 it is redelivered; bob is offline
            alice is queued
            stuck: lock x: its holder bob is offline, 1 request waits; its grant ends at 08:08:00 unless it is renewed
            stuck: held by bob: bob is offline, holds 2 tasks, 1 message and lock y, the first until 08:10:00
            #14 bob is idle
            nothing is stuck
            #15 bob is offline, unavailable
            #15 carol is offline, unavailable
            #16 carol is idle
            #17 bob is idle
            #17 m1 of bob released: ready
            nothing is stuck
            #18 bob is offline, unavailable
            #18 carol is offline, unavailable
            #19 carol is idle
            stuck: bob: bob is offline, 1 message waits
            stuck: lock x: its holder bob is offline, 1 request waits; its grant ends at 08:08:00 unless it is renewed
            stuck: held by bob: bob is offline, holds 2 tasks and lock y, the first until 08:12:30
            t1: leased to bob since 08:00:00 (attempt 1 of 4); without a heartbeat by 08:12:30 it is redelivered; bob is offline"#]],
    );
}

// Fails under: a closed connection of a waiting call that shows nothing; one that marks an agent which waits elsewhere; a mark
// that a later call does not clear.
#[test]
fn n5_a_closed_connection_of_a_call_shows_unless_the_agent_waits_elsewhere() {
    check(
        "bob starts able w beating 10s; bob waits as c; hub disconnects bob; agents; hub closes c; agents; hub disconnects bob; agents; \
         +29s; bob heartbeats; agents; bob awaits on w as d; hub disconnects bob; hub closes d; hub disconnects bob; quietly +3s; \
         alice sends m1 to bob; why m1; +27s; agents; bob disconnects bob",
        expect![[r#"
            #3 bob starts epoch 5
            bob: nothing to claim
            hub: nothing to write
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: idle, 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            hub: nothing to write
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: idle, 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            hub: nothing to write
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: idle (disconnected since 0s), 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            bob: nothing to write
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: idle, 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            bob: no task to claim
            hub: nothing to write
            hub: nothing to write
            hub: nothing to write
            #4 m1 sent to bob
            m1: ready for bob since 08:00:32 (attempts used 0 of 4); bob disconnected at 08:00:29, so it stays queued
            #5 bob is offline, unavailable
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: offline (unavailable), 1 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            refused FORBIDDEN"#]],
    );
}

// Fails under: a restart that counts as activity; a closed connection that a restart forgets; an agent that has acted and
// stays marked.
#[test]
fn n21_agents_are_not_seen_after_a_restart_until_they_act() {
    check(
        "bob starts able w beating 10s; bob stands 1 as b; alice sends m1 to bob; alice sends m2 to bob; hub makes t1 of w; hub closes b; \
         quietly +5s; restart; quietly +2s; agents; why m1; why m2; why task t1; stuck; bob heartbeats; agents; why m2; stuck; \
         restart; +30s; stuck",
        expect![[r#"
            #3 bob starts epoch 5
            bob: nothing to claim
            #4 m1 sent to bob (leased immediately)
            b receives m1 (attempt 1, token 1)
            #5 m2 sent to bob
            #6 t1 created: ready
            hub: nothing to write
            alice: idle (not seen since 5s), 0 open, 0 leased, 0 requests pending
            bob: working (not seen since 5s), 2 open, 1 leased, 0 requests pending
            carol: idle (not seen since 5s), 0 open, 0 leased, 0 requests pending
            m1: leased to bob (attempt 1 of 4); if not acked by 08:00:35 it is redelivered; bob has not been seen since the restart at 08:00:05
            m2: ready for bob since 08:00:00 (attempts used 0 of 4); bob has not been seen since the restart at 08:00:05, so it stays queued
            t1: ready since 08:00:00 (attempts used 0 of 4); bob has not been seen since the restart at 08:00:05, so it stays queued
            stuck: task type w: bob has not been seen since the restart at 08:00:05, 1 task waits
            stuck: bob: bob has not been seen since the restart at 08:00:05, 1 message waits
            stuck: held by bob: bob has not been seen since the restart at 08:00:05, holds 1 message until 08:00:35
            bob: nothing to write
            alice: idle (not seen since 5s), 0 open, 0 leased, 0 requests pending
            bob: working, 2 open, 1 leased, 0 requests pending
            carol: idle (not seen since 5s), 0 open, 0 leased, 0 requests pending
            m2: ready for bob since 08:00:00 (attempts used 0 of 4); delivered with the next claim by bob
            nothing is stuck
            #7 m1 of bob lapsed: ready
            #7 bob is offline, unavailable
            stuck: task type w: bob is offline, 1 task waits
            stuck: bob: bob is offline, 2 messages wait"#]],
    );
}

// Fails under: a claim expected where no agent can make one; an agent that is present left out.
#[test]
fn n5_an_explanation_names_the_missing_capability_or_the_gone_agents() {
    check(
        "bob starts able rare beating 10s; carol starts able rare beating 10s; alice sends m1 to can:rare; hub makes t1 of rare + t2 of dig + t3 for bob; \
         why m1; why task t1; why task t2; why task t3; +29s; carol heartbeats; +1s; why m1; why task t3; +29s; why m1; why task t1; \
         bob can dig; carol can dig; why m1; why task t1; why task t2; bob stands 0 as b; hub closes b; why task t3",
        expect![[r#"
            #3 bob starts epoch 5
            #4 carol starts epoch 6
            #5 pool.opened can:rare
            #5 m1 sent to can:rare
            #6 t1 created: ready
            #6 t2 created: ready
            #6 t3 created: ready
            m1: ready for can:rare since 08:00:00 (attempts used 0 of 4); delivered with the next claim by can:rare
            t1: ready since 08:00:00 (attempts used 0 of 4); waiting for a claim by can:rare
            t2: ready since 08:00:00 (attempts used 0 of 4); no agent has the capability dig, so it stays queued
            t3: ready since 08:00:00 (attempts used 0 of 4); waiting for a claim by bob
            carol: nothing to write
            #7 bob is offline, unavailable
            m1: ready for can:rare since 08:00:00 (attempts used 0 of 4); delivered with the next claim by can:rare
            t3: ready since 08:00:00 (attempts used 0 of 4); bob is offline, so it stays queued
            #8 carol is offline, unavailable
            m1: ready for can:rare since 08:00:00 (attempts used 0 of 4); bob is offline, carol is offline, so it stays queued
            t1: ready since 08:00:00 (attempts used 0 of 4); bob is offline, carol is offline, so it stays queued
            #9 bob is idle
            #9 bob starts epoch 5
            #10 carol is idle
            #10 carol starts epoch 6
            m1: ready for can:rare since 08:00:00 (attempts used 0 of 4); no agent has the capability rare, so it stays queued
            t1: ready since 08:00:00 (attempts used 0 of 4); no agent has the capability rare, so it stays queued
            t2: ready since 08:00:00 (attempts used 0 of 4); waiting for a claim by can:dig
            bob: nothing to claim
            hub: nothing to write
            t3: ready since 08:00:00 (attempts used 0 of 4); bob disconnected at 08:00:59, so it stays queued"#]],
    );
}

// Fails under: a task that waits forever without being reported, or one that still can start.
#[test]
fn n5_tasks_that_stay_blocked_until_cancelled_are_stuck() {
    check(
        "carol starts able w; hub makes t1 of w + t2 of w; hub makes t3 of w needs t1,t2 waiting + t4 of w needs t1 waiting + t5 of w needs t2 waiting; \
         hub cancels t1; stuck; hub cancels t2; stuck; why task t3; hub cancels t3; hub cancels t5; restart; carol heartbeats; stuck; \
         hub cancels t4; stuck",
        expect![[r#"
            #3 carol starts epoch 5
            #4 t1 created: ready
            #4 t2 created: ready
            #5 t3 created: blocked
            #5 t4 created: blocked
            #5 t5 created: blocked
            #6 t1 cancelled
            #6 t4 blocked, held by t1
            stuck: dependency t1: t1 did not succeed, 1 task stays blocked until cancelled
            #7 t2 cancelled
            #7 t3 blocked, held by t1,t2
            #7 t5 blocked, held by t2
            stuck: dependency t1: t1 did not succeed, 2 tasks stay blocked until cancelled
            stuck: dependency t2: t2 did not succeed, 1 task stays blocked until cancelled
            t3: blocked by failed dependencies: t1, t2; stays blocked until cancelled
            #8 t3 cancelled
            #9 t5 cancelled
            carol: nothing to write
            stuck: dependency t1: t1 did not succeed, 1 task stays blocked until cancelled
            #10 t4 cancelled
            nothing is stuck"#]],
    );
}

// Fails under: leases that wait for their expiry after a new epoch.
#[test]
fn d7_a_new_epoch_releases_everything_immediately() {
    check(
        "bob starts able w; alice sends m1 to bob; bob claims for 10m; bob locks x for 10m; hub makes t1 of w; bob takes for 10m; \
         bob asks q1 to alice notifying b; bob starts; where m1; locks; task t1; old bob acks m1",
        expect![[r#"
            #3 bob starts epoch 5
            #4 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #6 lock.granted x: held by bob with fence 1
            #7 t1 created: ready
            bob claims t1 (attempt 1, token 2)
            #9 q1 sent to alice
            #9 request.made q1: waiting; alice
            #10 m1 of bob epoch ended: ready
            #10 lock.returned x: free
            #10 t1 holder gone: ready
            #10 bob starts epoch 10
            b is dismissed
            m1 of bob: ready since 0s, tried 1
            lock x for 1: free
            t1 ready since 0s, tried 1, last holder gone by bob
            refused STALE_EPOCH"#]],
    );
}

// Fails under: a timeout without consequence; all recipients of one request marked unavailable.
#[test]
fn d6_a_request_timeout_marks_the_agent_unavailable() {
    check(
        "alice asks q1 to bob within 1s notifying a; +1s; agents; alice asks q2 to bob else fail; bob claims; agents; \
         alice asks q3 to bob else fail",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            #4 q1 of bob expired
            #4 request.timedOut q1: timed out; bob
            #4 bob is idle, unavailable
            a is refused TIMEOUT
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: idle (unavailable), 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            refused UNAVAILABLE
            #5 bob is idle
            bob: nothing to claim
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: idle, 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            #6 q3 sent to bob
            #6 request.made q3: waiting; bob"#]],
    );
}

// Fails under: a heartbeat that does not restore availability.
#[test]
fn d6_a_heartbeat_makes_the_agent_available_again() {
    check(
        "alice asks q1 to bob within 1s notifying a; silently +1s; bob heartbeats; agents being offline; alice sends m2 to bob else fail",
        expect![[r#"
            #3 q1 sent to bob
            #3 request.made q1: waiting; bob
            #5 bob is idle
            no agents
            #6 m2 sent to bob"#]],
    );
}

// Fails under: `queue` that refuses or redirects.
#[test]
fn d6_queue_keeps_messages_for_an_unavailable_agent() {
    check(
        "bob starts beating 10s; +30s; alice sends m1 to bob; why m1; bob claims",
        expect![[r#"
        #3 bob starts epoch 5
        #4 bob is offline, unavailable
        #5 m1 sent to bob
        m1: ready for bob since 08:00:30 (attempts used 0 of 4); bob is unavailable, so it stays queued
        #6 bob is idle
        bob claims m1 (attempt 1, token 1)"#]],
    );
}

// Fails under: `fail` that queues; a refusal that sends to some recipients.
#[test]
fn d6_fail_refuses_if_any_recipient_is_unavailable() {
    check(
        "bob starts beating 10s; silently +30s; alice sends m1 to bob,carol else fail; inbox carol",
        expect![[r#"
            #3 bob starts epoch 5
            refused UNAVAILABLE
            inbox of carol: "#]],
    );
}

// Fails under: a redirect to an agent that is not capable, not available, or has more load.
#[test]
fn d6_redirect_selects_the_capable_agent_with_the_least_load() {
    check(
        "hub registers dora able cook; hub registers eve able cook; bob starts able cook beating 10s; alice sends m0 to dora; \
         silently +30s; alice sends m1 to bob else redirect; alice sends m2 to bob else redirect; carol starts does fry; \
         alice sends m3 to bob doing fry else redirect",
        expect![[r#"
            #3 dora starts epoch 5
            #4 eve starts epoch 6
            #5 bob starts epoch 7
            #6 m0 sent to dora
            #8 m1 sent to eve
            #9 m2 sent to dora
            #10 carol starts epoch 10
            #11 m3 sent to carol"#]],
    );
}

// Fails under: a message that is queued although no alternative exists.
#[test]
fn d6_redirect_without_an_alternative_is_refused() {
    check(
        "bob starts able cook beating 10s; silently +30s; alice sends m1 to bob else redirect",
        expect![[r#"
            #3 bob starts epoch 5
            refused UNAVAILABLE"#]],
    );
}

// Fails under: messages sent before the agent went offline that stay in its inbox.
#[test]
fn d6_queued_messages_are_redirected_or_dead_lettered_when_the_agent_goes_offline() {
    check(
        "bob starts able cook beating 10s; carol starts able cook; alice sends m1 to bob else redirect; \
         alice sends m2 to bob else fail; alice sends m3 to bob; alice asks q1 to bob within 10m notifying a else redirect; \
         alice asks q2 to bob within 10m notifying a else fail; +30s; inbox carol; inbox bob; carol answers q1 saying 1; dead",
        expect![[r#"
            #3 bob starts epoch 5
            #4 carol starts epoch 6
            #5 m1 sent to bob
            #6 m2 sent to bob
            #7 m3 sent to bob
            #8 q1 sent to bob
            #8 request.made q1: waiting; bob
            #9 q2 sent to bob
            #9 request.made q2: waiting; bob
            #10 bob is offline, unavailable
            #10 m1 of bob offline: redirected to carol
            #10 m2 of bob offline (unavailable: agent bob is offline): dead
            #10 q1 of bob offline: redirected to carol
            #10 request.redirected q1: waiting; carol
            #10 q2 of bob offline (unavailable: agent bob is offline): dead
            #10 request.failed q2: failed UNAVAILABLE (bob is offline); bob lost
            a is refused UNAVAILABLE
            inbox of carol: m1 ready, q1 ready
            inbox of bob: m3 ready
            #11 answer from carol
            #11 request.answered q1: answered; carol answered
            a receives answer 1 from carol (#11)
            dead: m2 of bob after 0 (unavailable: agent bob is offline)
            dead: q2 of bob after 0 (unavailable: agent bob is offline)"#]],
    );
}

// Fails under: an alternative selected without the policy: a worker would reach another worker.
#[test]
fn c1_redirect_respects_the_policy() {
    check(
        "hub registers carol as coordinator able cook; hub registers dora able cook; hub registers lead as coordinator able cook beating 10s; \
         silently +30s; hub sets supervised; alice sends m1 to lead else redirect; carol claims; carol acks m1; hub removes carol; \
         alice sends m2 to lead else redirect",
        expect![[r#"
            #3 carol starts epoch 5
            #4 dora starts epoch 6
            #5 lead starts epoch 7
            #7 policy.set policy
            #8 m1 sent to carol
            carol claims m1 (attempt 1, token 1)
            #10 m1 of carol acked
            #11 agent 3 removed
            refused UNAVAILABLE"#]],
    );
}

// Fails under: a missing load, or a filter by capability, action or status that is ignored.
#[test]
fn d2_agents_are_listed_by_capability_action_and_status_with_their_load() {
    check(
        "bob starts able cook does fry; carol starts able cook; alice sends m1 to bob,carol; bob claims; alice sends m2 to bob; \
         alice asks q1 to carol notifying a; agents; agents can cook; agents does fry; agents being working; agents being waiting; \
         hub makes t1 of cook; carol takes; agents being working",
        expect![[r#"
            #3 bob starts epoch 5
            #4 carol starts epoch 6
            #5 m1 sent to bob carol
            bob claims m1 (attempt 1, token 1)
            #7 m2 sent to bob
            #8 q1 sent to carol
            #8 request.made q1: waiting; carol
            alice: waiting, 0 open, 0 leased, 1 requests pending
            bob: working, 2 open, 1 leased, 0 requests pending
            carol: idle, 2 open, 0 leased, 0 requests pending
            bob: working, 2 open, 1 leased, 0 requests pending
            carol: idle, 2 open, 0 leased, 0 requests pending
            bob: working, 2 open, 1 leased, 0 requests pending
            bob: working, 2 open, 1 leased, 0 requests pending
            alice: waiting, 0 open, 0 leased, 1 requests pending
            #9 t1 created: ready
            carol claims t1 (attempt 1, token 2)
            bob: working, 2 open, 1 leased, 0 requests pending
            carol: working, 2 open, 0 leased, 0 requests pending"#]],
    );
}

// Fails under: an inbox without leased or scheduled deliveries.
#[test]
fn d2_an_inbox_lists_all_open_deliveries() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob after 1m; alice sends m3 to bob; bob claims; inbox bob; bob acks m1; inbox bob",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            #5 m3 sent to bob
            bob claims m1 (attempt 1, token 1)
            inbox of bob: m1 leased until 30s, m2 due at 60s, m3 ready
            #7 m1 of bob acked
            inbox of bob: m2 due at 60s, m3 ready"#]],
    );
}

// Fails under: a reported status that is lost; an unchanged health that is recorded again.
#[test]
fn d2_an_agent_reports_its_status_and_health() {
    check(
        "bob heartbeats working; bob heartbeats working; bob heartbeats working degraded slow; bob heartbeats working degraded slower; agents; \
         alice heartbeats for bob; restart; agents being working",
        expect![[r#"
            #3 bob is working
            bob: nothing to write
            #4 bob is working, degraded: slow
            bob: nothing to write
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: working, 0 open, 0 leased, 0 requests pending
            carol: idle, 0 open, 0 leased, 0 requests pending
            refused FORBIDDEN
            bob: working (not seen since 0s), 0 open, 0 leased, 0 requests pending"#]],
    );
}

// Fails under: a batched heartbeat that does not count, or does not restore availability.
#[test]
fn d6_heartbeats_can_be_batched() {
    check(
        "bob starts beating 10s; carol starts beating 10s; +29s; hub relays bob,carol; bob relays carol; +29s; +1s; hub relays bob; agents",
        expect![[r#"
            #3 bob starts epoch 5
            #4 carol starts epoch 6
            hub: nothing to write
            refused FORBIDDEN
            #5 bob is offline, unavailable
            #5 carol is offline, unavailable
            #6 bob is idle
            alice: idle, 0 open, 0 leased, 0 requests pending
            bob: idle, 0 open, 0 leased, 0 requests pending
            carol: offline (unavailable), 0 open, 0 leased, 0 requests pending"#]],
    );
}
