//! Generates plans: mostly valid operations, so that a plan makes progress, mixed with all kinds of mistakes.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::TokenRole;

use super::plan::{
    AGENTS, Act, Do, Expect, KEYS, Lease, Letter, Named, Plan, Step, Target, Then, Twist, Wait, Who,
};
use super::{approvals, asking};
use super::{chains, lease_reuse, locks, procedures, rollback, sessions, tasks, tokens, topics};

/// Generates plans of up to `steps_max` steps.
pub fn plans(steps_max: usize) -> impl Strategy<Value = Plan> {
    vec(step(), 1..=steps_max).prop_map(Plan)
}

fn step() -> BoxedStrategy<Step> {
    let space = || prop_oneof![7 => Just(0), 1 => Just(1)];
    prop_oneof![
        80 => (space(), vec(act(), 1..=1)).prop_map(|(space, acts)| Step::Act { space, acts }),
        6 => (space(), vec(act(), 2..=3)).prop_map(|(space, acts)| Step::Act { space, acts }),
        4 => (space(), 0..3usize).prop_map(|(space, back)| Step::Repeat { space, back }),
        5 => (space(), 0..4usize, lease_reuse::beside())
            .prop_map(|(space, back, beside)| Step::Reuse { space, back, beside }),
        14 => advance().prop_map(|ms| Step::Pass { ms }),
        3 => wall_jump().prop_map(|ms| Step::Jump { ms }),
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
fn act() -> BoxedStrategy<Act> {
    let agent = || prop_oneof![20 => 0..3usize, 1 => Just(3usize)];
    let by_agent = agent().prop_flat_map(|agent| {
        let ops = prop_oneof![
            5 => vec(work(agent), 1..=1),
            3 => vec(work(agent), 2..=4),
        ];
        (Just(Who::Agent(agent)), ops)
    });
    let by_hub = prop_oneof![
        4 => vec(Just(Do::Sweep), 1..=1),
        3 => vec(hub_work(), 1..=3),
        2 => vec(anything(), 1..=5),
    ]
    .prop_map(|ops| (Who::Hub, ops));
    let mixed = (agent(), vec(anything(), 1..=5)).prop_map(|(agent, ops)| (Who::Agent(agent), ops));
    let by_holder = (0..TokenRole::ALL.len(), prop_oneof![vec(anything(), 1..=1), vec(hub_work(), 1..=3)])
        .prop_map(|(role, ops)| (Who::Holder(role), ops));
    let ops = prop_oneof![12 => by_agent, 6 => by_hub, 1 => mixed, 2 => by_holder];
    (ops, epoch(), weighted(0.12, 0..3u8))
        .prop_map(|((who, ops), epoch, key)| Act { who, epoch, key, ops })
        .boxed()
}

fn epoch() -> BoxedStrategy<Named> {
    prop_oneof![
        20 => Just(Named::Nothing),
        8 => Just(Named::Current),
        1 => Just(Named::Earlier),
        1 => Just(Named::Never),
    ]
    .boxed()
}

/// Generates operations of an agent.
fn work(agent: usize) -> BoxedStrategy<Do> {
    prop_oneof![
        22 => letter().prop_map(Do::Send),
        10 => claim(Just(agent).boxed()),
        6 => lease().prop_map(Do::Ack),
        6 => nack(),
        2 => prop_oneof![3 => extend(), 1 => resume(agent)],
        4 => put(),
        5 => sessions::acts().prop_map(Do::Session),
        3 => rollback::acts(expect()).prop_map(Do::Memory),
        2 => delete(),
        2 => (Just(agent), 0..2u64, 0..3u32).prop_map(|(agent, slot, credit)| Do::Grant { agent, slot, credit }),
        1 => (Just(agent), 0..2u64).prop_map(|(agent, slot)| Do::Close { agent, slot }),
        1 => (Just(agent), epoch(), 0..5usize)
            .prop_map(|(agent, epoch, shape)| Do::Register { agent, epoch, shape }),
        3 => topics::by_agent(agent).prop_map(Do::Topical),
        2 => vec(lease(), 1..=3).prop_map(Do::AckMany),
        1 => prop_oneof![Just(Do::Remove { agent }), Just(Do::Purge { agent })],
        11 => locks::work(agent),
        30 => tasks::work(agent).prop_map(Do::Task),
        2 => chains::spend(),
        5 => procedures::acts(expect()).prop_map(Do::Procedure),
        5 => approvals::asks().prop_map(Do::Approval),
        14 => asking::work(agent).prop_map(Do::Asking),
    ]
    .boxed()
}

fn hub_work() -> BoxedStrategy<Do> {
    let agent = || 0..AGENTS.len();
    prop_oneof![
        3 => Just(Do::Sweep),
        4 => target().prop_map(Do::Redrive),
        1 => agent().prop_map(|agent| Do::Purge { agent }),
        2 => (0..4usize, prop_oneof![3 => Just(0u32), 1 => Just(1)]).prop_map(|(back, part)| Do::Erase { back, part }),
        2 => letter().prop_map(Do::Send),
        3 => sessions::acts().prop_map(Do::Session),
        1 => rollback::acts(expect()).prop_map(Do::Memory),
        2 => claim(agent().boxed()),
        1 => agent().prop_map(|agent| Do::Remove { agent }),
        2 => (agent(), 0..5usize)
            .prop_map(|(agent, shape)| Do::Register { agent, epoch: Named::Nothing, shape }),
        4 => topics::by_hub().prop_map(Do::Topical),
        5 => asking::hub_work().prop_map(Do::Asking),
        4 => tokens::acts().prop_map(Do::Token),
        2 => procedures::acts(expect()).prop_map(Do::Procedure),
        5 => approvals::decisions().prop_map(Do::Approval),
        1 => approvals::asks().prop_map(Do::Approval),
    ]
    .boxed()
}

fn anything() -> BoxedStrategy<Do> {
    prop_oneof![(0..AGENTS.len()).prop_flat_map(work), hub_work()].boxed()
}

pub(super) fn letter() -> BoxedStrategy<Letter> {
    let level = prop_oneof![4 => Just(1u8), 1 => 0..4u8];
    let after = weighted(0.15, prop_oneof![Just(1u64), Just(1_000), Just(5_000), Just(60_000)]);
    let expires = weighted(0.15, prop_oneof![Just(-1i64), Just(0), Just(1_000), Just(30_000), Just(61_000)]);
    (
        (topics::address(), topics::manner()),
        weighted(0.15, 0..3u8),
        0..2u8,
        level,
        prop_oneof![5 => Just(0u8), 1 => Just(1u8)],
        prop_oneof![Just(1u16), Just(2), Just(4)],
        after,
        expires,
        proptest::bool::weighted(0.03),
        sessions::named(),
        chains::chain(),
    )
        .prop_map(
            |(
                (to, manner),
                client_id,
                content,
                level,
                rank,
                tries,
                after_ms,
                expires_ms,
                as_another,
                session,
                chain,
            )| {
                Letter {
                    as_another,
                    to,
                    manner,
                    client_id,
                    content,
                    level,
                    rank,
                    tries,
                    after_ms,
                    expires_ms,
                    session,
                    chain,
                }
            },
        )
        .boxed()
}

fn claim(agent: BoxedStrategy<usize>) -> BoxedStrategy<Do> {
    let wait = prop_oneof![
        5 => Just(Wait::No),
        2 => (0..2u64).prop_map(Wait::Once),
        2 => (0..2u64).prop_map(Wait::Standing),
    ];
    let lease = prop_oneof![3 => Just(30_000u64), 1 => Just(1_000), 1 => Just(60_000)];
    (agent, prop_oneof![Just(1u32), Just(2), Just(5)], lease, wait)
        .prop_map(|(agent, max, lease_ms, wait)| Do::Claim { agent, max, lease_ms, wait })
        .boxed()
}

fn lease() -> BoxedStrategy<Lease> {
    let twist = prop_oneof![
        20 => Just(Twist::None),
        2 => Just(Twist::NextToken),
        1 => Just(Twist::WrongToken),
        1 => Just(Twist::OtherGeneration),
        1 => Just(Twist::NeverMade),
    ];
    let back = prop_oneof![4 => Just(0usize), 1 => 1..4usize];
    let likely = || proptest::bool::weighted(0.9);
    (likely(), likely(), back, twist)
        .prop_map(|(own, held, back, twist)| Lease { own, held, back, twist })
        .boxed()
}

fn nack() -> BoxedStrategy<Do> {
    let then = prop_oneof![
        3 => Just(Then::Retry(0)),
        2 => prop_oneof![Just(1u64), Just(1_000), Just(60_000)].prop_map(Then::Retry),
        2 => Just(Then::Release),
        3 => Just(Then::Dead),
    ];
    let reason = prop_oneof![Just(""), Just("no use"), Just("later")];
    (lease(), then, reason).prop_map(|(lease, then, reason)| Do::Nack { lease, then, reason }).boxed()
}

fn extend() -> BoxedStrategy<Do> {
    (lease(), prop_oneof![Just(1_000u64), Just(60_000), Just(3_600_000)])
        .prop_map(|(lease, ms)| Do::Extend { lease, ms })
        .boxed()
}

fn resume(agent: usize) -> BoxedStrategy<Do> {
    prop_oneof![Just(1_000u64), Just(60_000)].prop_map(move |ms| Do::Resume { agent, ms }).boxed()
}

fn target() -> BoxedStrategy<Target> {
    prop_oneof![5 => (0..3usize).prop_map(Target::Dead), 1 => (0..9u64).prop_map(Target::Delivery)].boxed()
}

fn expect() -> BoxedStrategy<Expect> {
    prop_oneof![
        3 => Just(Expect::Anything),
        1 => Just(Expect::Nothing),
        4 => Just(Expect::Current),
        1 => Just(Expect::Older),
        1 => Just(Expect::Future),
    ]
    .boxed()
}

fn put() -> BoxedStrategy<Do> {
    (0..KEYS.len(), expect(), 0..3u8, weighted(0.2, 0..KEYS.len()), weighted(0.3, locks::fenced()))
        .prop_map(|(key, expect, content, depends, under)| Do::Put { key, expect, content, depends, under })
        .boxed()
}

fn delete() -> BoxedStrategy<Do> {
    (0..KEYS.len(), expect(), weighted(0.3, locks::fenced()))
        .prop_map(|(key, expect, under)| Do::Delete { key, expect, under })
        .boxed()
}
