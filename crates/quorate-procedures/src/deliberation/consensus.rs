//! Decides whether a discussion has settled a conflict. All three conditions are necessary:
//!
//! 1. At least two agents answered, all but at most one agree with a peer, and all but at most one hold the same
//!    position.
//! 2. An agent moved to that position in the discussion, or all agents hold it. Agents that held it from the start were
//!    not convinced by the discussion, and their opponents may outweigh them.
//! 3. The voting rule determines the same winner from the current positions.
//!
//! Otherwise the conflict is voted on. Numbers agree when they differ by at most the spread of their rule. The result
//! is their weighted median, which must lie within the range of the agreeing agents.

use std::collections::BTreeMap;

use super::Step;
use super::reply::Reply;
use super::state::Dispute;
use super::vote;
use crate::conflict::{Position, PositionValue};
use crate::finding::round_to_micros;

impl Step<'_> {
    /// Returns the position that the replies of a round agreed on, if any.
    pub(super) fn agreed_position(
        &self,
        index: usize,
        replies: &BTreeMap<String, Reply>,
    ) -> Option<PositionValue> {
        let dispute = &self.state.disputes[index];
        if dispute.conflict.is_numeric() {
            return agreed_number(dispute, replies, vote::allowed_spread(self.spec, &dispute.conflict));
        }
        let position = agreed_choice(dispute, replies)?;
        let tally = self.tallies().into_iter().nth(index).flatten()?;
        tally.choice.is_some_and(|winner| position == *winner).then_some(position)
    }
}

/// Whether at least two agents answered and all but at most one agree with a peer.
fn mostly_agree(replies: &BTreeMap<String, Reply>) -> bool {
    replies.len() >= 2 && replies.values().filter(|reply| reply.agrees).count() + 1 >= replies.len()
}

fn answered<'a>(dispute: &'a Dispute, replies: &BTreeMap<String, Reply>) -> Vec<&'a Position> {
    dispute.positions.iter().filter(|position| replies.contains_key(&position.agent)).collect()
}

/// Whether an agent has changed its position since the start.
fn has_moved(dispute: &Dispute, current: &Position) -> bool {
    let initial = dispute.conflict.positions.iter().find(|position| position.agent == current.agent);
    initial.is_some_and(|initial| initial.position != current.position)
}

fn agreed_choice(dispute: &Dispute, replies: &BTreeMap<String, Reply>) -> Option<PositionValue> {
    let first = &dispute.positions.first()?.position;
    if replies.len() >= 2 && dispute.positions.iter().all(|position| position.position == *first) {
        return Some(first.clone());
    }
    let answered = answered(dispute, replies);
    let holders =
        |value: &PositionValue| answered.iter().filter(|position| position.position == *value).count();
    let most_common = answered
        .iter()
        .max_by_key(|position| holders(&position.position))
        .map(|position| &position.position)?;
    let is_shared = holders(most_common) >= 2 && holders(most_common) + 1 >= answered.len();
    let was_moved_to = dispute
        .positions
        .iter()
        .any(|position| position.position == *most_common && has_moved(dispute, position));
    (mostly_agree(replies) && is_shared && was_moved_to).then(|| most_common.clone())
}

fn agreed_number(dispute: &Dispute, replies: &BTreeMap<String, Reply>, spread: f64) -> Option<PositionValue> {
    let value = vote::merge_positions(&dispute.positions)?.value;
    let all: Vec<&Position> = dispute.positions.iter().collect();
    let (least, most) = vote::value_range(&all);
    if replies.len() >= 2 && most - least <= spread {
        return Some(round_to_micros(value).into());
    }
    let answered = answered(dispute, replies);
    let (least, most) = vote::value_range(&answered);
    let has_mover = answered.iter().any(|position| has_moved(dispute, position));
    let is_in_range = (least..=most).contains(&value);
    (mostly_agree(replies) && most - least <= spread && has_mover && is_in_range)
        .then(|| round_to_micros(value).into())
}
