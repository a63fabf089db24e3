//! Generates plans: mostly valid operations, so that a plan makes progress, mixed with all kinds of mistakes.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::TokenRole;

use super::plan::{
    AGENTS, Actor, KEYS, LeaseDefect, LeaseSelector, MessageSpec, NackChoice, Plan, PlannedCommit, PlannedOp,
    RedriveTarget, StatedEpoch, Step, VersionChoice, WaitChoice,
};
use super::{approvals, requests};
use super::{lease_reuse, locks, message_chains, procedures, rollback, sessions, tasks, tokens, topics};

/// Generates plans of up to `steps_max` steps.
pub fn plans(steps_max: usize) -> impl Strategy<Value = Plan> {
    vec(step(), 1..=steps_max).prop_map(Plan)
}

fn step() -> BoxedStrategy<Step> {
    let space = || prop_oneof![7 => Just(0), 1 => Just(1)];
    prop_oneof![
        80 => (space(), vec(commit(), 1..=1)).prop_map(|(space, planned)| Step::Commit { space, planned }),
        6 => (space(), vec(commit(), 2..=3)).prop_map(|(space, planned)| Step::Commit { space, planned }),
        4 => (space(), 0..3usize).prop_map(|(space, back)| Step::RepeatKeyed { space, back }),
        5 => (space(), 0..4usize, lease_reuse::reuse_extra())
            .prop_map(|(space, back, extra)| Step::ReuseLeases { space, back, extra }),
        14 => advance().prop_map(|ms| Step::AdvanceClock { ms }),
        3 => wall_jump().prop_map(|ms| Step::MoveWallClock { ms }),
        2 => Just(Step::Restart),
    ]
    .boxed()
}

fn advance() -> BoxedStrategy<u64> {
    prop_oneof![
        Just(1),
        Just(999),
        Just(1_000),
        Just(5_000),
        Just(29_999),
        Just(30_000),
        Just(31_000),
        Just(60_000),
        Just(7_200_000),
    ]
    .boxed()
}

fn wall_jump() -> BoxedStrategy<i64> {
    prop_oneof![Just(-86_400_000), Just(86_400_000), Just(-5_000), Just(61_000)].boxed()
}

/// Generates a commit. The hub and the agents have typical operations; some commits mix all of them.
fn commit() -> BoxedStrategy<PlannedCommit> {
    let agent = || prop_oneof![20 => 0..3usize, 1 => Just(3usize)];
    let by_agent = agent().prop_flat_map(|agent| {
        let ops = prop_oneof![
            5 => vec(agent_op(agent), 1..=1),
            3 => vec(agent_op(agent), 2..=4),
        ];
        (Just(Actor::Agent(agent)), ops)
    });
    let by_hub = prop_oneof![
        4 => vec(Just(PlannedOp::Sweep), 1..=1),
        3 => vec(hub_op(), 1..=3),
        2 => vec(any_op(), 1..=5),
    ]
    .prop_map(|ops| (Actor::Hub, ops));
    let mixed = (agent(), vec(any_op(), 1..=5)).prop_map(|(agent, ops)| (Actor::Agent(agent), ops));
    let by_holder = (0..TokenRole::ALL.len(), prop_oneof![vec(any_op(), 1..=1), vec(hub_op(), 1..=3)])
        .prop_map(|(role, ops)| (Actor::Holder(role), ops));
    let ops = prop_oneof![12 => by_agent, 6 => by_hub, 1 => mixed, 2 => by_holder];
    (ops, epoch(), weighted(0.4, 0..2usize), weighted(0.12, 0..3u8))
        .prop_map(|((actor, ops), epoch, token, key)| PlannedCommit { actor, epoch, token, key, ops })
        .boxed()
}

fn epoch() -> BoxedStrategy<StatedEpoch> {
    prop_oneof![
        20 => Just(StatedEpoch::Omitted),
        8 => Just(StatedEpoch::Current),
        1 => Just(StatedEpoch::Earlier),
        1 => Just(StatedEpoch::Unknown),
    ]
    .boxed()
}

/// Generates operations of an agent.
fn agent_op(agent: usize) -> BoxedStrategy<PlannedOp> {
    prop_oneof![
        22 => message_spec().prop_map(PlannedOp::Send),
        10 => claim(Just(agent).boxed()),
        6 => lease().prop_map(PlannedOp::Ack),
        6 => nack(),
        2 => prop_oneof![3 => extend(), 1 => resume(agent)],
        4 => put(),
        5 => sessions::session_ops().prop_map(PlannedOp::Session),
        3 => rollback::rollback_ops(expect()).prop_map(PlannedOp::Rollback),
        2 => delete(),
        2 => (Just(agent), 0..2u64, 0..3u32).prop_map(|(agent, slot, credit)| PlannedOp::Grant { agent, slot, credit }),
        1 => (Just(agent), 0..2u64).prop_map(|(agent, slot)| PlannedOp::Close { agent, slot }),
        1 => (Just(agent), epoch(), 0..5usize)
            .prop_map(|(agent, epoch, variant)| PlannedOp::Register { agent, epoch, variant }),
        3 => topics::agent_ops(agent).prop_map(PlannedOp::Subscription),
        2 => vec(lease(), 1..=3).prop_map(PlannedOp::AckMany),
        1 => prop_oneof![Just(PlannedOp::Remove { agent }), Just(PlannedOp::Purge { agent })],
        11 => locks::agent_ops(agent),
        30 => tasks::agent_ops(agent).prop_map(PlannedOp::Task),
        2 => message_chains::budget_op(),
        5 => procedures::procedure_ops(expect()).prop_map(PlannedOp::Procedure),
        5 => approvals::request_ops().prop_map(PlannedOp::Approval),
        14 => requests::agent_ops(agent).prop_map(PlannedOp::Request),
    ]
    .boxed()
}

fn hub_op() -> BoxedStrategy<PlannedOp> {
    let agent = || 0..AGENTS.len();
    prop_oneof![
        3 => Just(PlannedOp::Sweep),
        4 => target().prop_map(PlannedOp::Redrive),
        1 => agent().prop_map(|agent| PlannedOp::Purge { agent }),
        2 => (0..4usize, prop_oneof![3 => Just(0u32), 1 => Just(1)]).prop_map(|(back, part)| PlannedOp::Erase { back, part }),
        2 => message_spec().prop_map(PlannedOp::Send),
        3 => sessions::session_ops().prop_map(PlannedOp::Session),
        1 => rollback::rollback_ops(expect()).prop_map(PlannedOp::Rollback),
        2 => claim(agent().boxed()),
        1 => agent().prop_map(|agent| PlannedOp::Remove { agent }),
        2 => (agent(), 0..5usize)
            .prop_map(|(agent, variant)| PlannedOp::Register { agent, epoch: StatedEpoch::Omitted, variant }),
        4 => topics::hub_ops().prop_map(PlannedOp::Subscription),
        5 => requests::hub_ops().prop_map(PlannedOp::Request),
        4 => tokens::token_ops().prop_map(PlannedOp::Token),
        2 => procedures::procedure_ops(expect()).prop_map(PlannedOp::Procedure),
        5 => approvals::decision_ops().prop_map(PlannedOp::Approval),
        1 => approvals::request_ops().prop_map(PlannedOp::Approval),
    ]
    .boxed()
}

fn any_op() -> BoxedStrategy<PlannedOp> {
    prop_oneof![(0..AGENTS.len()).prop_flat_map(agent_op), hub_op()].boxed()
}

pub(super) fn message_spec() -> BoxedStrategy<MessageSpec> {
    let level = prop_oneof![4 => Just(1u8), 1 => 0..4u8];
    let after = weighted(0.15, prop_oneof![Just(1u64), Just(1_000), Just(5_000), Just(60_000)]);
    let expires = weighted(0.15, prop_oneof![Just(-1i64), Just(0), Just(1_000), Just(30_000), Just(61_000)]);
    (
        (topics::destination(), topics::message_style()),
        weighted(0.15, 0..3u8),
        0..2u8,
        level,
        prop_oneof![5 => Just(0u8), 1 => Just(1u8)],
        prop_oneof![Just(1u16), Just(2), Just(4)],
        after,
        expires,
        proptest::bool::weighted(0.03),
        sessions::session_reference(),
        message_chains::chain_fields(),
    )
        .prop_map(
            |(
                (to, style),
                client_id,
                content,
                level,
                rank,
                attempts,
                after_ms,
                expires_ms,
                as_another,
                session,
                chain,
            )| {
                MessageSpec {
                    as_another,
                    to,
                    style,
                    client_id,
                    content,
                    level,
                    rank,
                    attempts,
                    after_ms,
                    expires_ms,
                    session,
                    chain,
                }
            },
        )
        .boxed()
}

fn claim(agent: BoxedStrategy<usize>) -> BoxedStrategy<PlannedOp> {
    let wait = prop_oneof![
        5 => Just(WaitChoice::No),
        2 => (0..2u64).prop_map(WaitChoice::Once),
        2 => (0..2u64).prop_map(WaitChoice::Standing),
    ];
    let lease = prop_oneof![3 => Just(30_000u64), 1 => Just(1_000), 1 => Just(60_000)];
    (agent, prop_oneof![Just(1u32), Just(2), Just(5)], lease, wait)
        .prop_map(|(agent, max, lease_ms, wait)| PlannedOp::Claim { agent, max, lease_ms, wait })
        .boxed()
}

fn lease() -> BoxedStrategy<LeaseSelector> {
    let defect = prop_oneof![
        20 => Just(LeaseDefect::None),
        2 => Just(LeaseDefect::NextToken),
        1 => Just(LeaseDefect::WrongToken),
        1 => Just(LeaseDefect::OtherGeneration),
        1 => Just(LeaseDefect::UnknownDelivery),
    ];
    let back = prop_oneof![4 => Just(0usize), 1 => 1..4usize];
    let likely = || proptest::bool::weighted(0.9);
    (likely(), likely(), back, defect)
        .prop_map(|(own, held, back, defect)| LeaseSelector { own, held, back, defect })
        .boxed()
}

fn nack() -> BoxedStrategy<PlannedOp> {
    let then = prop_oneof![
        3 => Just(NackChoice::Retry(Some(0))),
        2 => prop_oneof![Just(None), Just(Some(1)), Just(Some(1_000)), Just(Some(60_000))]
            .prop_map(NackChoice::Retry),
        2 => Just(NackChoice::Release),
        3 => Just(NackChoice::Dead),
    ];
    let reason = prop_oneof![Just(""), Just("no use"), Just("later")];
    (lease(), then, reason).prop_map(|(lease, then, reason)| PlannedOp::Nack { lease, then, reason }).boxed()
}

fn extend() -> BoxedStrategy<PlannedOp> {
    (lease(), prop_oneof![Just(1_000u64), Just(60_000), Just(3_600_000)])
        .prop_map(|(lease, ms)| PlannedOp::Extend { lease, ms })
        .boxed()
}

fn resume(agent: usize) -> BoxedStrategy<PlannedOp> {
    prop_oneof![Just(1_000u64), Just(60_000)].prop_map(move |ms| PlannedOp::Resume { agent, ms }).boxed()
}

fn target() -> BoxedStrategy<RedriveTarget> {
    prop_oneof![5 => (0..3usize).prop_map(RedriveTarget::Dead), 1 => (0..9u64).prop_map(RedriveTarget::Delivery)].boxed()
}

fn expect() -> BoxedStrategy<VersionChoice> {
    prop_oneof![
        3 => Just(VersionChoice::Anything),
        1 => Just(VersionChoice::Nothing),
        4 => Just(VersionChoice::Current),
        1 => Just(VersionChoice::Older),
        1 => Just(VersionChoice::Future),
    ]
    .boxed()
}

fn put() -> BoxedStrategy<PlannedOp> {
    (0..KEYS.len(), expect(), 0..3u8, weighted(0.2, 0..KEYS.len()), weighted(0.3, locks::fence_selector()))
        .prop_map(|(key, expect, content, depends, fence)| PlannedOp::Put {
            key,
            expect,
            content,
            depends,
            fence,
        })
        .boxed()
}

fn delete() -> BoxedStrategy<PlannedOp> {
    (0..KEYS.len(), expect(), weighted(0.3, locks::fence_selector()))
        .prop_map(|(key, expect, fence)| PlannedOp::Delete { key, expect, fence })
        .boxed()
}
