//! Bulk fill of a log, with many messages per commit.

use quorate_core::limits::CLAIM_MAX;
use quorate_core::{AgentId, Commit, Destination, Message, Op, OpResult, Principal, WaitMode};
use quorate_engine::{Error, Space};
use tokio::task::JoinSet;

/// Messages per commit.
const BATCH: u64 = CLAIM_MAX as u64;
/// Concurrent commits.
const LANES: usize = 8;

/// Sends `count` messages, spread over the agents, and acks them if `acked` is set.
pub(crate) async fn fill(space: &Space, agents: &[AgentId], count: u64, acked: bool) -> anyhow::Result<()> {
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let share = count / LANES as u64 / BATCH;
        // Each lane has its own agents, so that it acks its own messages.
        let own: Vec<AgentId> = agents.iter().skip(lane).step_by(LANES).cloned().collect();
        lanes.spawn(fill_lane(space.clone(), own, share, acked));
    }
    while let Some(finished) = lanes.join_next().await {
        finished??;
    }
    Ok(())
}

async fn fill_lane(space: Space, agents: Vec<AgentId>, commits: u64, acked: bool) -> Result<(), Error> {
    let content = bytes::Bytes::from(format!("\"{}\"", "x".repeat(254)));
    for index in 0..commits {
        let agent = &agents[index as usize % agents.len()];
        let ops = (0..BATCH).map(|_| {
            let payload = space.seal(content.clone());
            Op::send(Message::new(Destination::Agent(agent.clone()), "fill", payload))
        });
        space.commit(Commit::new(Principal::System, ops.collect())).await?;
        if !acked {
            continue;
        }
        let claim =
            Op::Claim { agent: agent.clone(), max: CLAIM_MAX, lease_ms: 30_000, wait: WaitMode::NoWait };
        let receipt = space.commit(Commit::new(Principal::System, vec![claim])).await?;
        let Some(OpResult::Claimed(leased)) = receipt.results.into_iter().next() else { continue };
        let generations = space.published().generations.clone();
        let acks = leased.iter().map(|lease| {
            Op::Ack(quorate_core::LeaseRef {
                delivery: generations.delivery_id(lease.delivery),
                token: lease.token,
            })
        });
        space.commit(Commit::new(Principal::System, acks.collect())).await?;
    }
    Ok(())
}
