//! Last activity of agents, stored apart from the registry: a heartbeat writes one number and copies nothing.
//!
//! There is no timer per agent. The state has one check time; the check scans all watched agents and sets the next one.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{AgentNo, DeliveryNo};
use crate::limits::{HEARTBEATS_MISSED_MAX, PRESENCE_CHECK_MS};
use crate::message::IfUnavailable;
use crate::presence::AgentStatus;
use crate::recipient::QueueId;
use crate::registry::Agent;
use crate::time::{Mono, Now};
use crate::working::{OpenDelivery, Undo, WorkingState};

/// Last activity of all agents.
#[derive(Debug, Default)]
pub(super) struct ActivityTracker {
    /// By agent number.
    agents: Vec<Activity>,
    /// Time of the next check. Never later than the earliest possible timeout; too early does no harm.
    pub(super) check_at: Option<Mono>,
    /// Agents whose last connection was closed and that have not acted since, with the time at which it was closed.
    disconnected: BTreeMap<AgentNo, Mono>,
    /// Offline agents with waiting deliveries that must not be queued.
    displaced: BTreeSet<AgentNo>,
}

/// Last activity of one agent.
#[derive(Clone, Copy, Debug, Default)]
struct Activity {
    last_seen: LastActivity,
    /// The silence timeout. 0 = not watched, or already offline.
    silence_ms: u64,
}

/// Time of the last activity of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LastActivity {
    /// Its last activity.
    At(Mono),
    /// The start of the hub: the agent has not acted since.
    BeforeStart(Mono),
}

impl Default for LastActivity {
    fn default() -> Self {
        Self::BeforeStart(Mono(0))
    }
}

impl LastActivity {
    /// The time from which the silence timeout counts.
    fn time(self) -> Mono {
        match self {
            Self::At(at) | Self::BeforeStart(at) => at,
        }
    }
}

impl ActivityTracker {
    pub(super) fn wake(&self) -> Option<Mono> {
        if self.displaced.is_empty() { self.check_at } else { Some(Mono(0)) }
    }

    pub(super) fn set_last_seen(&mut self, agent: AgentNo, last_seen: LastActivity) {
        if let Some(activity) = self.agents.get_mut(agent.0 as usize - 1) {
            activity.last_seen = last_seen;
        }
    }

    pub(super) fn set_disconnected(&mut self, agent: AgentNo, at: Option<Mono>) {
        match at {
            Some(at) => self.disconnected.insert(agent, at),
            None => self.disconnected.remove(&agent),
        };
    }

    fn check_by(&mut self, at: Mono) {
        self.check_at = Some(self.check_at.map_or(at, |current| current.min(at)));
    }
}

impl WorkingState {
    /// Records activity of an agent.
    pub(crate) fn record_activity(&mut self, agent: AgentNo, now: Now) {
        let Some(Activity { last_seen, silence_ms }) =
            self.activity.agents.get(agent.0 as usize - 1).copied()
        else {
            return;
        };
        self.journal.push(Undo::Activity(agent, last_seen));
        self.activity.set_last_seen(agent, LastActivity::At(now.mono));
        if silence_ms > 0 {
            self.activity.check_by(now.mono.plus_ms(silence_ms));
        }
    }

    /// Records that the last connection of an agent was closed, or that it is back.
    pub(crate) fn set_disconnected(&mut self, agent: AgentNo, at: Option<Mono>) {
        let before = self.activity.disconnected.get(&agent).copied();
        if before != at {
            self.journal.push(Undo::Disconnected(agent, before));
            self.activity.set_disconnected(agent, at);
        }
    }

    /// Returns the time at which the last connection of an agent was closed, unless it has acted since.
    pub(crate) fn disconnected_since(&self, agent: AgentNo) -> Option<Mono> {
        self.activity.disconnected.get(&agent).copied()
    }

    /// Restarts all silence timeouts after a hub start. The start times of leases, closed connections and the last activity
    /// of agents are unknown from then on.
    pub fn reset_activity(&mut self, now: Now) {
        self.leases.values_mut().for_each(|lease| lease.since = None);
        self.activity.disconnected.clear();
        for Activity { last_seen, silence_ms } in &mut self.activity.agents {
            *last_seen = LastActivity::BeforeStart(now.mono);
            if *silence_ms > 0 {
                let deadline = now.mono.plus_ms(*silence_ms);
                self.activity.check_at =
                    Some(self.activity.check_at.map_or(deadline, |check_at| check_at.min(deadline)));
            }
        }
    }

    /// Returns the last activity of an agent, and the time at which it goes offline without further activity.
    pub(crate) fn last_activity(&self, agent: AgentNo) -> (LastActivity, Option<Mono>) {
        let Activity { last_seen, silence_ms } =
            self.activity.agents.get(agent.0 as usize - 1).copied().unwrap_or_default();
        (last_seen, (silence_ms > 0).then(|| last_seen.time().plus_ms(silence_ms)))
    }

    /// Returns up to `max` agents whose silence timeout has passed, if a check is due, and schedules the next check. An
    /// agent with a waiting client counts as active.
    pub(crate) fn take_silent_agents(&mut self, now: Mono, max: usize) -> Vec<AgentNo> {
        if self.activity.check_at.is_none_or(|check_at| check_at > now) {
            return Vec::new();
        }
        let mut silent = Vec::new();
        let mut next: Option<Mono> = None;
        for (index, Activity { last_seen, silence_ms }) in self.activity.agents.iter().enumerate() {
            if *silence_ms == 0 {
                continue;
            }
            let is_waiting = self.has_waiting_client(AgentNo(index as u64 + 1));
            let offline_at = if is_waiting { now } else { last_seen.time() }.plus_ms(*silence_ms);
            if offline_at > now {
                next = Some(next.map_or(offline_at, |next| next.min(offline_at)));
            } else if silent.len() < max {
                silent.push(AgentNo(index as u64 + 1));
            } else {
                next = Some(now);
            }
        }
        let earliest = if next == Some(now) { now } else { now.plus_ms(PRESENCE_CHECK_MS) };
        self.activity.check_at = next.map(|next| next.max(earliest));
        silent
    }

    /// Whether a client of an agent waits for deliveries, tasks, replies or locks.
    pub(crate) fn has_waiting_client(&self, agent: AgentNo) -> bool {
        let requests = &self.items.requests;
        self.inbox(agent).consumers > 0
            || self.tasks().claimers().count_of(agent) > 0
            || self.tasks().waiters().count_of(agent) > 0
            || self.locks().count_waits_of(agent) > 0
            || requests.of_requester(agent).any(|request| requests.listener(request.id).is_some())
    }

    /// Returns up to `max` deliveries of offline agents that must not be queued, by agent and number.
    pub(crate) fn displaced_deliveries(&self, max: usize) -> Vec<DeliveryNo> {
        let agents = self.activity.displaced.iter();
        agents.flat_map(|agent| self.inbox(*agent).needs_online.iter().copied()).take(max).collect()
    }

    /// Updates the silence timeout of an agent after a change of the registry.
    pub(super) fn track_agent(&mut self, number: AgentNo, agent: Option<&Agent>, count: usize) {
        self.activity.agents.resize_with(count, Default::default);
        let Some(agent) = agent else {
            self.activity.displaced.remove(&number);
            return;
        };
        let is_offline = agent.presence.status == AgentStatus::Offline;
        let watched = !agent.removed && !is_offline;
        let silence_ms = if watched { HEARTBEATS_MISSED_MAX * agent.heartbeat_ms } else { 0 };
        self.activity.agents[number.0 as usize - 1].silence_ms = silence_ms;
        self.update_displaced(number, is_offline);
    }

    /// Updates the index of deliveries that must not be queued for an offline agent.
    pub(super) fn track_delivery(&mut self, open: &OpenDelivery, number: DeliveryNo, present: bool) {
        if open.if_unavailable == IfUnavailable::Queue || open.token().is_some() {
            return;
        }
        let QueueId::Agent(agent) = open.to.queue() else { return };
        let needs_online = &mut self.inbox_mut(agent).needs_online;
        if present {
            needs_online.insert(number);
        } else {
            needs_online.remove(&number);
        }
        let is_offline =
            self.agents.get(agent).is_some_and(|agent| agent.presence.status == AgentStatus::Offline);
        self.update_displaced(agent, is_offline);
    }

    fn update_displaced(&mut self, agent: AgentNo, is_offline: bool) {
        if is_offline && !self.inbox(agent).needs_online.is_empty() {
            self.activity.displaced.insert(agent);
        } else {
            self.activity.displaced.remove(&agent);
        }
    }
}
