//! When a discussion has settled a conflict. Three conditions, all of them necessary:
//!
//! 1. At least two agents answered, all of them but one at most agree with a peer, and all but one at most hold the same.
//! 2. An agent moved to that position in the discussion, or all hold it. Agents that held the same from the start have not been convinced
//!    of anything, and those who are against it may outweigh them.
//! 3. The counting rule in force names the same winner over the positions as they are now.
//!
//! Otherwise the conflict is voted on. Numbers agree when they are no further apart than the spread of their rule; what they come to is
//! their weighted median, which must then lie among the numbers of those who agree.

use std::collections::BTreeMap;

use super::Step;
use super::reply::Reply;
use super::state::Dispute;
use super::vote;
use crate::conflict::{Position, PositionValue};
use crate::finding::steady;

impl Step<'_> {
    /// The position that the replies of a round agreed on, if they did.
    pub(super) fn agreed(&self, place: usize, replies: &BTreeMap<String, Reply>) -> Option<PositionValue> {
        let dispute = &self.state.disputes[place];
        if dispute.conflict.is_numeric() {
            return number(dispute, replies, vote::spread(self.spec, &dispute.conflict));
        }
        let position = choice(dispute, replies)?;
        let tally = self.tallies().into_iter().nth(place).flatten()?;
        tally.choice.is_some_and(|winner| position == *winner).then_some(position)
    }
}

/// Whether at least two answered, and all of them but one at most agree with a peer.
fn is_willing(replies: &BTreeMap<String, Reply>) -> bool {
    replies.len() >= 2 && replies.values().filter(|reply| reply.agrees).count() + 1 >= replies.len()
}

fn answered<'a>(dispute: &'a Dispute, replies: &BTreeMap<String, Reply>) -> Vec<&'a Position> {
    dispute.positions.iter().filter(|one| replies.contains_key(&one.agent)).collect()
}

/// Whether an agent holds something else than at the start.
fn has_moved(dispute: &Dispute, now: &Position) -> bool {
    let before = dispute.conflict.positions.iter().find(|one| one.agent == now.agent);
    before.is_some_and(|before| before.position != now.position)
}

fn choice(dispute: &Dispute, replies: &BTreeMap<String, Reply>) -> Option<PositionValue> {
    let first = &dispute.positions.first()?.position;
    if replies.len() >= 2 && dispute.positions.iter().all(|one| one.position == *first) {
        return Some(first.clone());
    }
    let answered = answered(dispute, replies);
    let holders = |position: &PositionValue| answered.iter().filter(|one| one.position == *position).count();
    let most = answered.iter().max_by_key(|one| holders(&one.position)).map(|one| &one.position)?;
    let is_shared = holders(most) >= 2 && holders(most) + 1 >= answered.len();
    let convinced = dispute.positions.iter().any(|one| one.position == *most && has_moved(dispute, one));
    (is_willing(replies) && is_shared && convinced).then(|| most.clone())
}

fn number(dispute: &Dispute, replies: &BTreeMap<String, Reply>, spread: f64) -> Option<PositionValue> {
    let value = vote::merged(&dispute.positions)?.value;
    let all: Vec<&Position> = dispute.positions.iter().collect();
    let (least, most) = vote::range(&all);
    if replies.len() >= 2 && most - least <= spread {
        return Some(steady(value).into());
    }
    let answered = answered(dispute, replies);
    let (least, most) = vote::range(&answered);
    let convinced = answered.iter().any(|one| has_moved(dispute, one));
    let is_among = (least..=most).contains(&value);
    (is_willing(replies) && most - least <= spread && convinced && is_among).then(|| steady(value).into())
}
