//! A lease can be used for one commit. A lease that ended successfully may be ended again only by a commit that changes
//! nothing else: under the same idempotency key, or consisting of the same acks and completions.

use quorate_core::{Code, Commit, CompleteTask, ConsumerId, FailTask, Op, OpResult, Principal, TaskStatus};

use super::builders::{
    ack, agent, erase, idempotency_key, lease, message_to, nack_for_retry, payload, put_entry, send,
};
use super::tasks::{done, fail, task};
use super::test_bench::TestBench;

pub async fn i4_one_delivery_lease_allows_one_step(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let step = |key: &str, text: &str, ack: Op| {
        let ops = vec![ack, Op::Put(put_entry("result", text)), send("bob", message_to("alice"))];
        Commit::new(agent("bob"), ops).keyed(idempotency_key(key))
    };
    let first = bench.commit(step("k1", "1", ack(&held))).await.expect("the first step is applied");
    for round in 0..2 {
        let head = bench.published().head;
        for other in [ack(&held), Op::AckMany(vec![lease(&held)])] {
            let refused = bench.commit(step("k2", "2", other)).await.expect_err("the lease has been used");
            assert_eq!((refused.code, refused.facts.ended_by), (Code::StaleLease, first.seq), "{round}");
            let [stale] = &refused.facts.stale[..] else { panic!("one lease is stale: {refused:?}") };
            assert_eq!((stale.op, stale.token, stale.ended_by), (0, Some(held.token), first.seq));
        }
        assert_eq!(bench.published().head, head, "nothing of the second step was applied");
        assert_eq!(bench.commit(step("k1", "1", ack(&held))).await.as_ref(), Ok(&first), "the same key");
        bench.reopen().await;
    }
}

pub async fn i3_a_commit_of_only_acks_may_be_repeated(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for _ in 0..2 {
        bench.send("alice", "bob").await;
    }
    let held = bench.claim("bob", 2).await;
    let step = vec![ack(&held[0]), Op::Put(put_entry("result", "1"))];
    let first = bench.commit_ok(agent("bob"), step).await;
    let grant = Op::GrantCredit { consumer: ConsumerId(9), credit: 1 };
    let ack_both = Op::AckMany(held.iter().map(lease).collect());
    let repeated = bench.commit_ok(agent("bob"), vec![ack_both, grant]).await;
    assert_eq!(repeated.results[0], OpResult::AckedMany { earlier: vec![(0, first.seq.expect("a record"))] });
    assert_eq!(bench.counts().acked, 2);
    // A lease that was returned did not end with success: no record is named.
    bench.send("alice", "bob").await;
    let returned = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![nack_for_retry(&returned)]).await;
    let refused = bench.commit_refused(agent("bob"), vec![ack(&returned)]).await;
    assert_eq!((refused.code, refused.facts.ended_by), (Code::StaleLease, None));
    assert_eq!(refused.facts.stale[0].token, Some(returned.token));
}

pub async fn i8_one_task_lease_allows_one_step(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a"), task("b")]).await;
    let held = bench.claim_tasks("bob", 2).await;
    let ends = [done(&held[0], "1"), fail(&held[1], true)];
    let step = |end: &Op, text: &str, key: &str| {
        let ops = vec![end.clone(), Op::Put(put_entry("result", text))];
        Commit::new(agent("bob"), ops).keyed(idempotency_key(key))
    };
    for (index, end) in ends.iter().enumerate() {
        let first = bench.commit(step(end, "1", &format!("first {index}"))).await.expect("it is applied");
        for _ in 0..2 {
            let head = bench.published().head;
            let refused = bench.commit(step(end, "2", "second")).await.expect_err("the lease has been used");
            assert_eq!((refused.code, refused.facts.ended_by), (Code::StaleLease, first.seq));
            assert_eq!(refused.facts.stale[0].token, Some(held[index].lease_ref().token));
            assert_eq!(bench.published().head, head, "nothing of the second step was applied");
            bench.reopen().await;
        }
    }
}

pub async fn i8_a_repeated_completion_must_have_the_same_result(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a"), task("b")]).await;
    let held = bench.claim_tasks("bob", 2).await;
    let first = bench.commit_ok(agent("bob"), vec![done(&held[0], "1"), fail(&held[1], true)]).await;
    let completion = |change: fn(&mut CompleteTask)| {
        let mut complete = CompleteTask::done(held[0].lease_ref(), Some(payload("1")));
        change(&mut complete);
        Op::CompleteTask(complete)
    };
    let failure = |change: fn(&mut FailTask)| {
        let lease = held[1].lease_ref();
        let mut fail = FailTask { lease, reason: "no luck".into(), details: None, recoverable: true };
        change(&mut fail);
        Op::FailTask(fail)
    };
    let others = [
        completion(|complete| complete.result = Some(payload("2"))),
        completion(|complete| complete.result = None),
        completion(|complete| complete.status = TaskStatus::Partial),
        completion(|complete| complete.confidence = Some(0.5)),
        completion(|complete| complete.rationale = Some("because".into())),
        completion(|complete| complete.content_type = Some("text/plain".into())),
        failure(|fail| fail.recoverable = false),
        failure(|fail| fail.reason = "bad luck".into()),
        failure(|fail| fail.details = Some(payload("2"))),
    ];
    for other in others {
        let refused = bench.commit_refused(agent("bob"), vec![other]).await;
        assert_eq!((refused.code, refused.facts.ended_by), (Code::StaleLease, first.seq));
    }
    let repeated = bench.commit_ok(agent("bob"), vec![completion(|_| ()), failure(|_| ())]).await;
    assert_eq!((repeated.seq, repeated.results), (None, first.results));
    // A result that was erased cannot be compared.
    bench.commit_ok(Principal::System, vec![erase(first.seq.expect("a record"), 0)]).await;
    bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![completion(|_| ())]).await;
}

pub async fn i8_a_repeated_ack_does_not_complete_another_task(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a"), task("b")]).await;
    bench.send("alice", "bob").await;
    let delivery = bench.claim_one("bob").await;
    let held = bench.claim_tasks("bob", 2).await;
    let first = bench.commit_ok(agent("bob"), vec![ack(&delivery), done(&held[0], "1")]).await;
    for ops in [vec![ack(&delivery), done(&held[1], "1")], vec![done(&held[1], "1"), ack(&delivery)]] {
        let refused = bench.commit_refused(agent("bob"), ops).await;
        assert_eq!((refused.code, refused.facts.ended_by), (Code::StaleLease, first.seq));
        assert_eq!(refused.facts.stale.len(), 1);
    }
    let repeated = bench.commit_ok(agent("bob"), vec![ack(&delivery), done(&held[0], "1")]).await;
    assert_eq!((repeated.seq, repeated.results), (None, first.results));
}
