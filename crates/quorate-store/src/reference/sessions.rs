//! Sessions: the coordinator changes a session, participants add to it, and a paused session holds its deliveries.

use quorate_core::{
    AddToSession, AgentId, AgentRole, ChangeSession, Code, ContributionKind, Item, ItemKey, ItemKind, Key,
    Message, OpResult, OpenSession, Participant, Principal, ProcedureId, ProcedureStatus, QueueId, Recipient,
    Refused, ScopeNo, Seq, Session, SessionChange, SessionId, SessionStatus, TimelineKind, TimelinePage,
    Version, limits,
};

use crate::reference::agents::unknown_agent;
use crate::reference::space::{Delivery, Space};
use crate::reference::transaction::Transaction;

/// Request that opened a session, kept to detect repeated openings.
#[derive(Clone)]
pub(super) struct SessionOpening {
    id: SessionId,
    principal: Principal,
    request: OpenSession,
    /// Record that contains the task.
    seq: Seq,
    part: u32,
}

/// Entry in the timeline of a session.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct TimelineEntry {
    session: String,
    kind: TimelineKind,
    seq: Seq,
}

impl Space {
    pub(super) fn session(&self, id: &str) -> Option<&Session> {
        match self.items.get(&ItemKey::new(ItemKind::Session, id)) {
            Some(Item::Session(session)) => Some(session),
            _ => None,
        }
    }

    /// Returns the session or procedure that a delivery belongs to.
    pub(super) fn scope(&self, delivery: &Delivery) -> Option<&Item> {
        let key = match (&delivery.procedure, &delivery.session) {
            (Some(procedure), _) => ItemKey::new(ItemKind::Procedure, procedure.as_str()),
            (None, Some(session)) => ItemKey::new(ItemKind::Session, session.as_str()),
            (None, None) => return None,
        };
        self.items.get(&key)
    }

    /// Whether the session or procedure that a delivery belongs to is paused.
    pub(super) fn is_paused(&self, delivery: &Delivery) -> bool {
        match self.scope(delivery) {
            Some(Item::Session(session)) => session.status == SessionStatus::Paused,
            Some(Item::Procedure(procedure)) => {
                matches!(procedure.status, ProcedureStatus::Paused | ProcedureStatus::Stuck)
            }
            _ => false,
        }
    }

    /// Returns the procedure of a message to its driver, unless the hub notifies the driver of a change by others.
    pub(super) fn procedure_of(&self, message: &Message, to: Recipient) -> Option<ProcedureId> {
        let controls = ["procedure.paused", "procedure.resumed", "procedure.cancelled"];
        if message.from.is_none() && controls.contains(&message.action.as_str()) {
            return None;
        }
        self.driven_procedure(message.correlation_id.as_deref(), to)
    }

    /// Returns the procedure with this id if it has not ended and the recipient drives it.
    pub(super) fn driven_procedure(&self, id: Option<&str>, to: Recipient) -> Option<ProcedureId> {
        let procedure = self.procedure(&ProcedureId::new(id?).ok()?)?;
        let driver = self.agent_number(procedure.driver.as_ref()?)?;
        let is_driven = !procedure.status.has_ended() && to.queue() == QueueId::Agent(driver);
        is_driven.then(|| procedure.id.clone())
    }

    /// Returns the session of a message if it is open.
    pub(super) fn session_of(&self, message: &Message) -> Option<String> {
        self.open_session_id(message.session_id.as_deref())
    }

    /// Returns the session with this id if it is open.
    pub(super) fn open_session_id(&self, id: Option<&str>) -> Option<String> {
        let session = self.session(id?)?;
        (!is_closed(session)).then(|| session.id.to_string())
    }

    pub(super) fn timeline(
        &self,
        session: &str,
        kind: Option<TimelineKind>,
        page: TimelinePage,
        limit: usize,
    ) -> Vec<Seq> {
        let matches =
            |entry: &&TimelineEntry| entry.session == session && kind.is_none_or(|kind| entry.kind == kind);
        let mut seqs: Vec<_> = self.timeline_entries.iter().filter(matches).map(|entry| entry.seq).collect();
        seqs.dedup();
        match page {
            TimelinePage::After(seq) => seqs.retain(|found| *found > seq),
            TimelinePage::Before(seq) => {
                seqs.retain(|found| *found < seq);
                seqs.reverse();
            }
        }
        seqs.truncate(limit);
        seqs
    }
}

fn is_closed(session: &Session) -> bool {
    matches!(session.status, SessionStatus::Completed | SessionStatus::Failed)
}

fn participates(session: &Session, agent: &AgentId) -> bool {
    session
        .participants
        .iter()
        .any(|participant| participant.agent == *agent && participant.left_at.is_none())
}

impl Transaction<'_> {
    pub(super) fn open_session(&mut self, request: &OpenSession) -> Result<OpResult, Refused> {
        let coordinator = match (&self.commit.principal, &request.coordinator) {
            (Principal::Agent(actor), None) => Some(actor.clone()),
            (Principal::Agent(actor), Some(named)) if actor != named => {
                return Err(Refused::new(
                    Code::Forbidden,
                    "an agent may only open sessions that it coordinates",
                ));
            }
            (_, named) => named.clone(),
        };
        self.all_known(coordinator.iter())?;
        if let Some(id) = &request.id
            && self.space.session(id.as_str()).is_some()
        {
            return self.opened_again(id, request);
        }
        let open = |item: &&Item| matches!(item, Item::Session(session) if !is_closed(session));
        if self.space.items.values().filter(open).count() >= limits::SESSIONS_OPEN_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many sessions")
                .limit(limits::SESSIONS_OPEN_MAX as u64));
        }
        let is_own = |item: &&Item| matches!(item, Item::Session(session) if !is_closed(session) && session.coordinator == coordinator);
        if self.actor.is_some()
            && self.space.items.values().filter(is_own).count() >= limits::SESSIONS_PER_AGENT_MAX
        {
            return Err(Refused::new(Code::LimitExceeded, "too many sessions of the agent")
                .limit(limits::SESSIONS_PER_AGENT_MAX as u64));
        }
        self.all_known(request.participants.iter())?;
        let index = self.space.openings.iter().filter(|opening| opening.seq == self.seq).count() as u64;
        let generated = format!("ses_0-{}-{index}", self.seq);
        let id = request.id.clone().unwrap_or_else(|| SessionId::new(&generated).expect("valid id"));
        let (now, part) = (self.now.wall, self.parts.len() as u32);
        self.parts.extend(request.task.clone());
        let mut participants: Vec<Participant> = Vec::new();
        for agent in &request.participants {
            if participants.iter().all(|participant| participant.agent != *agent) {
                participants.push(Participant { agent: agent.clone(), joined_at: now, left_at: None });
            }
        }
        let principal = self.commit.principal.clone();
        let opening =
            SessionOpening { id: id.clone(), principal, request: request.clone(), seq: self.seq, part };
        self.space.openings.push(opening);
        self.set_session(Session {
            id: id.clone(),
            number: ScopeNo(self.seq.0 * 256 + index),
            coordinator,
            participants,
            title: request.title.clone(),
            task: request.task.as_ref().map(|_| part),
            status: SessionStatus::Active,
            since: now,
            reason: String::new(),
            opened_at: now,
            contributions: [0; 5],
        });
        Ok(OpResult::SessionOpened { id })
    }

    fn all_known<'a>(&self, agents: impl Iterator<Item = &'a AgentId>) -> Result<(), Refused> {
        for agent in agents {
            self.space.agent_number(agent).ok_or_else(|| unknown_agent(agent))?;
        }
        Ok(())
    }

    /// Accepts an identical opening by the same principal and refuses any other one with the same id.
    fn opened_again(&self, id: &SessionId, request: &OpenSession) -> Result<OpResult, Refused> {
        let first = self.space.openings.iter().find(|opening| opening.id == *id);
        let same = first.is_some_and(|first| {
            let coordinator = |open: &OpenSession| match &self.commit.principal {
                Principal::Agent(actor) => Some(actor.clone()),
                Principal::System | Principal::Holder { .. } => open.coordinator.clone(),
            };
            let distinct = |open: &OpenSession| {
                let mut agents: Vec<AgentId> = Vec::new();
                for agent in &open.participants {
                    if !agents.contains(agent) {
                        agents.push(agent.clone());
                    }
                }
                agents
            };
            first.principal == self.commit.principal
                && coordinator(&first.request) == coordinator(request)
                && distinct(&first.request) == distinct(request)
                && first.request.title == request.title
                && self.task_of(first) == request.task.as_ref().map(|task| task.bytes.clone())
        });
        if same {
            Ok(OpResult::SessionOpened { id: id.clone() })
        } else {
            Err(Refused::new(Code::Duplicate, format!("session {id} exists with different content")))
        }
    }

    /// Returns the stored bytes of a task. Erased bytes match no request.
    fn task_of(&self, opening: &SessionOpening) -> Option<bytes::Bytes> {
        let request = opening.request.task.as_ref()?;
        let stored = self.space.records.get(opening.seq.0 as usize - 1);
        match stored.map(|record| &record.parts[opening.part as usize]) {
            Some(part) if part.salt == [0; 16] => Some(bytes::Bytes::from_static(b"\0 erased")),
            Some(part) => Some(part.bytes.clone()),
            None => Some(request.bytes.clone()),
        }
    }

    pub(super) fn change_session(&mut self, request: &ChangeSession) -> Result<OpResult, Refused> {
        let mut session = self.find_session(&request.session)?;
        let is_own_leave = match (&request.change, &self.commit.principal) {
            (SessionChange::Leave(agent), Principal::Agent(actor)) => agent == actor,
            _ => false,
        };
        if !is_own_leave {
            self.require_coordinator(&session)?;
        }
        let now = self.now.wall;
        let status = match &request.change {
            SessionChange::Join(agent) => {
                require_open(&session)?;
                self.space.agent_number(agent).ok_or_else(|| unknown_agent(agent))?;
                if participates(&session, agent) {
                    return Ok(OpResult::Done);
                }
                session.participants.retain(|participant| participant.agent != *agent);
                let agent = agent.clone();
                session.participants.push(Participant { agent, joined_at: now, left_at: None });
                if session.participants.len() > limits::SESSION_PARTICIPANTS_MAX {
                    return Err(Refused::new(Code::LimitExceeded, "too many participants")
                        .limit(limits::SESSION_PARTICIPANTS_MAX as u64));
                }
                self.set_session(session);
                return Ok(OpResult::Done);
            }
            SessionChange::Leave(agent) => {
                require_open(&session)?;
                let is_present =
                    |participant: &Participant| participant.agent == *agent && participant.left_at.is_none();
                if let Some(index) = session.participants.iter().position(is_present) {
                    let mut participant = session.participants.remove(index);
                    participant.left_at = Some(now);
                    session.participants.push(participant);
                    self.set_session(session);
                }
                return Ok(OpResult::Done);
            }
            SessionChange::Pause => SessionStatus::Paused,
            SessionChange::Resume => SessionStatus::Active,
            SessionChange::Complete => SessionStatus::Completed,
            SessionChange::Fail => SessionStatus::Failed,
        };
        if session.status == status {
            return Ok(OpResult::Done);
        }
        require_open(&session)?;
        let key = ItemKey::new(ItemKind::Session, session.id.as_str());
        self.set_session(Session { status, since: now, reason: request.reason.clone(), ..session });
        if status != SessionStatus::Paused {
            self.release_held(&key);
        }
        Ok(OpResult::Done)
    }

    /// Makes the held deliveries of a session or procedure available to waiting consumers, oldest first.
    pub(super) fn release_held(&mut self, key: &ItemKey) {
        let is_waiting = |delivery: &Delivery| {
            delivery.is_waiting() && self.space.scope(delivery).is_some_and(|item| item.key() == *key)
        };
        for number in self.space.deliveries_where(is_waiting) {
            let queue = self.space.delivery_mut(number).to.queue();
            self.space.queue_dispatch(queue);
        }
    }

    pub(super) fn add_to_session(&mut self, add: &AddToSession) -> Result<OpResult, Refused> {
        let mut session = self.session_to_add_to(&add.session)?;
        let index = ContributionKind::ALL.iter().position(|kind| *kind == add.kind).expect("a known kind");
        session.contributions[index] += 1;
        let n = session.contributions[index];
        self.parts.push(add.body.clone());
        self.add_timeline_entry(session.id.to_string(), TimelineKind::Contribution(add.kind));
        self.set_item(Item::Session(session));
        Ok(OpResult::ContributionAdded { n })
    }

    /// Checks a write of `sessions/ID/state` or `sessions/ID/guidance` by an agent: it may add to the session, and names
    /// the version of the state that it changes.
    pub(super) fn check_session_entry(&self, key: &Key, expect: Option<Version>) -> Result<(), Refused> {
        if !matches!(self.commit.principal, Principal::Agent(_)) {
            return Ok(());
        }
        let words: Vec<&str> = key.as_str().split('/').collect();
        let [root, id @ .., entry] = words.as_slice() else { return Ok(()) };
        if *root != "sessions" || !["state", "guidance"].contains(entry) {
            return Ok(());
        }
        let Ok(id) = SessionId::new(id.join("/")) else { return Ok(()) };
        self.session_to_add_to(&id)?;
        if *entry == "state" && expect.is_none() {
            return Err(Refused::new(Code::VersionConflict, format!("{key} needs an expected version"))
                .current_version(self.live_version(key).0));
        }
        Ok(())
    }

    /// Returns an open session that the principal may add to.
    fn session_to_add_to(&self, id: &SessionId) -> Result<Session, Refused> {
        let session = self.find_session(id)?;
        require_open(&session)?;
        let participant = match &self.commit.principal {
            Principal::Agent(actor) => {
                participates(&session, actor)
                    || self.space.role_of(Some(actor)) == Some(AgentRole::Coordinator)
            }
            Principal::System | Principal::Holder { .. } => false,
        };
        if !participant {
            self.require_coordinator(&session)?;
        }
        Ok(session)
    }

    /// Refuses references to closed sessions, and to unknown ids in the format that is reserved for the hub.
    pub(super) fn check_session(&self, name: Option<&str>) -> Result<(), Refused> {
        let Some(name) = name else { return Ok(()) };
        match self.space.session(name) {
            Some(session) => require_open(session),
            None => {
                let reserved = name.strip_prefix("ses_").is_some_and(|rest| {
                    let parts: Vec<_> = rest.split('-').collect();
                    let plain = |part: &&str| part.parse::<u64>().is_ok_and(|n| n.to_string() == **part);
                    parts.len() == 3 && parts.iter().all(plain)
                });
                if reserved {
                    Err(Refused::new(Code::NotFound, format!("unknown session {name}")))
                } else {
                    Ok(())
                }
            }
        }
    }

    pub(super) fn add_timeline_entry(&mut self, session: String, kind: TimelineKind) {
        self.space.timeline_entries.push(TimelineEntry { session, kind, seq: self.seq });
    }

    fn set_session(&mut self, session: Session) {
        self.add_timeline_entry(session.id.to_string(), TimelineKind::Change);
        self.set_item(Item::Session(session));
    }

    fn find_session(&self, id: &SessionId) -> Result<Session, Refused> {
        let found = self.space.session(id.as_str()).cloned();
        found.ok_or_else(|| Refused::new(Code::NotFound, format!("unknown session {id}")))
    }

    fn require_coordinator(&self, session: &Session) -> Result<(), Refused> {
        match &self.commit.principal {
            Principal::Agent(actor) if session.coordinator.as_ref() != Some(actor) => Err(Refused::new(
                Code::Forbidden,
                format!("{actor} is not the coordinator of session {}", session.id),
            )),
            Principal::Agent(_) | Principal::System | Principal::Holder { .. } => Ok(()),
        }
    }
}

fn require_open(session: &Session) -> Result<(), Refused> {
    if is_closed(session) {
        return Err(Refused::new(Code::SessionClosed, format!("session {} is closed", session.id)));
    }
    Ok(())
}
