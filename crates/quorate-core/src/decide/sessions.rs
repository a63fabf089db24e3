//! Sessions: opening, changing and adding to them, and the permissions for that. A closed session refuses changes.

use std::collections::HashSet;

use crate::codec;
use crate::commit::{OpResult, Principal};
use crate::decide::{DecideError, Draft};
use crate::effect::Effect;
use crate::entry::EntryHead;
use crate::ids::{AgentId, Key, ScopeNo, SessionId, Version};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::{SESSION_PARTICIPANTS_MAX, SESSIONS_OPEN_MAX, SESSIONS_PER_AGENT_MAX};
use crate::message::Payload;
use crate::refused::{Code, Refused};
use crate::registry::AgentRole;
use crate::session::{
    AddToSession, ChangeSession, ContributionKind, OpenSession, Session, SessionChange, SessionEntry,
    SessionStatus, too_many_participants,
};

impl Draft<'_> {
    pub(super) fn open_session(&mut self, open: &OpenSession) -> Result<OpResult, DecideError> {
        self.lookup.add_steps(open.participants.len());
        let coordinator = self.coordinator(open)?;
        if let Some(id) = &open.id
            && let Some(session) = self.find_session(id.as_str())?
        {
            return self.repeated_open(open, coordinator, &session);
        }
        if self.working.items().sessions.len() >= SESSIONS_OPEN_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                "the space has reached its maximum number of open sessions",
            )
            .limit(SESSIONS_OPEN_MAX as u64)
            .retryable()
            .hint("complete or fail sessions that are no longer used")
            .into());
        }
        if let Principal::Agent(actor) = &self.commit.principal {
            let own = self.working.items().sessions.count_of(actor);
            let hint = "complete or fail sessions that are no longer used";
            self.check_share("open sessions", own, SESSIONS_PER_AGENT_MAX, hint)
                .map_err(Refused::retryable)?;
        }
        let (now, opened) = (self.now.wall, self.opened_in_commit());
        let number = ScopeNo::of_session(self.seq, opened);
        let id = open.id.clone().unwrap_or_else(|| number.session_id(self.working.head.generation));
        let mut session = Session {
            id: id.clone(),
            number,
            coordinator,
            participants: Vec::new(),
            title: open.title.clone(),
            task: open.task.as_ref().map(|task| self.push_part(task)),
            status: SessionStatus::Active,
            since: now,
            reason: String::new(),
            opened_at: now,
            contributions: [0; ContributionKind::ALL.len()],
        };
        for agent in each_once(&open.participants) {
            self.require_agent(agent)?;
            session.join(agent.clone(), now);
        }
        self.change_item(Verb::SessionOpened, Item::Session(session));
        Ok(OpResult::SessionOpened { id })
    }

    pub(super) fn change_session(&mut self, request: &ChangeSession) -> Result<OpResult, DecideError> {
        let session = self.require_session(&request.session)?;
        let own = matches!(&request.change, SessionChange::Leave(agent) if self.is_principal(agent));
        if !own {
            self.require_coordinator(&session)?;
        }
        let (verb, status) = match &request.change {
            SessionChange::Join(agent) => return self.join(session, agent),
            SessionChange::Leave(agent) => return Ok(self.leave(session, agent)?),
            SessionChange::Pause => (Verb::SessionPaused, SessionStatus::Paused),
            SessionChange::Resume => (Verb::SessionResumed, SessionStatus::Active),
            SessionChange::Complete => (Verb::SessionCompleted, SessionStatus::Completed),
            SessionChange::Fail => (Verb::SessionFailed, SessionStatus::Failed),
        };
        // The session already has this status, open or closed: nothing changes, and no record is written.
        if session.status != status {
            let session = require_open(session)?;
            let reason = request.reason.clone();
            self.change_item(
                verb,
                Item::Session(Session { status, since: self.now.wall, reason, ..session }),
            );
        }
        Ok(OpResult::Done)
    }

    fn join(&mut self, session: Session, agent: &AgentId) -> Result<OpResult, DecideError> {
        let mut session = require_open(session)?;
        self.require_agent(agent)?;
        if !session.has_participant(agent) {
            session.join(agent.clone(), self.now.wall);
            if session.participants.len() > SESSION_PARTICIPANTS_MAX {
                return Err(too_many_participants(session.participants.len()).into());
            }
            self.change_item(Verb::SessionJoined, Item::Session(session));
        }
        Ok(OpResult::Done)
    }

    fn leave(&mut self, session: Session, agent: &AgentId) -> Result<OpResult, Refused> {
        let mut session = require_open(session)?;
        if session.has_participant(agent) {
            session.leave(agent, self.now.wall);
            self.change_item(Verb::SessionLeft, Item::Session(session));
        }
        Ok(OpResult::Done)
    }

    pub(super) fn add_to_session(&mut self, add: &AddToSession) -> Result<OpResult, DecideError> {
        let session = self.require_contributor(&add.session)?;
        let n = session.contribution_count(add.kind) + 1;
        let part = self.push_part(&add.body);
        self.emit(Effect::ContributionAdded {
            session: add.session.clone(),
            kind: add.kind,
            n,
            part,
            content_type: add.content_type.clone(),
            rationale: add.rationale.clone(),
        });
        Ok(OpResult::ContributionAdded { n })
    }

    /// Refuses a write of an entry that belongs to a session, unless the agent may add to the session. A write of its
    /// state also needs the version that the change is based on, so that no change is lost.
    pub(super) fn check_session_entry(&self, key: &Key, expect: Option<Version>) -> Result<(), DecideError> {
        let Principal::Agent(_) = &self.commit.principal else { return Ok(()) };
        let Some((id, entry)) = SessionEntry::of(key) else { return Ok(()) };
        self.require_contributor(&id)?;
        match (entry, expect) {
            (SessionEntry::State, None) => {
                let current = EntryHead::expected(self.entry(key)?.as_ref());
                let detail = format!("a change of {key} has to state the version that it is based on");
                Err(Refused::new(Code::VersionConflict, detail)
                    .current_version(current)
                    .hint("read the entry, and send its version in expect; roll it back by its key")
                    .into())
            }
            (SessionEntry::State, Some(_)) | (SessionEntry::Guidance, _) => Ok(()),
        }
    }

    /// Returns an open session that the principal may add to: as a participant, as its coordinator, or with the agent
    /// role coordinator.
    fn require_contributor(&self, id: &SessionId) -> Result<Session, DecideError> {
        let session = require_open(self.require_session(id)?)?;
        let is_participant = session
            .participants
            .iter()
            .any(|participant| participant.left_at.is_none() && self.is_principal(&participant.agent));
        if !is_participant && !self.is_coordinator() {
            self.require_coordinator(&session)?;
        }
        Ok(session)
    }

    /// Refuses a reference to a closed session. A name that was never opened as a session is accepted as a plain
    /// label. An unknown id in the hub's own format is refused: it may stem from a history that a restore replaced.
    pub(super) fn check_session(&self, name: Option<&str>) -> Result<(), DecideError> {
        let Some(name) = name else { return Ok(()) };
        if self.working.items().sessions.get(name).is_some() {
            return Ok(());
        }
        match self.find_session(name)? {
            Some(session) => Ok(require_open(session).map(drop)?),
            None => match SessionId::new(name) {
                Ok(id) if id.is_generated() => Err(no_session(&id).into()),
                _ => Ok(()),
            },
        }
    }

    fn find_session(&self, id: &str) -> Result<Option<Session>, DecideError> {
        match self.item(&ItemKey::new(ItemKind::Session, id))? {
            Some(Item::Session(session)) => Ok(Some(session)),
            _ => Ok(None),
        }
    }

    fn require_session(&self, id: &SessionId) -> Result<Session, DecideError> {
        self.find_session(id.as_str())?.ok_or_else(|| no_session(id).into())
    }

    /// Whether the acting agent has the role coordinator. It may add to every session, including those of others.
    fn is_coordinator(&self) -> bool {
        match &self.commit.principal {
            Principal::Agent(actor) => {
                self.working.agents().by_id(actor).is_some_and(|agent| agent.role == AgentRole::Coordinator)
            }
            Principal::System | Principal::Holder { .. } => false,
        }
    }

    /// Refuses agents other than the coordinator of the session.
    fn require_coordinator(&self, session: &Session) -> Result<(), Refused> {
        match &self.commit.principal {
            Principal::Agent(actor) if session.coordinator.as_ref() != Some(actor) => {
                let detail = format!("agent {actor} is not the coordinator of session {}", session.id);
                let hint = if session.has_participant(actor) {
                    "participants may only add to a session and leave it; other changes need its coordinator"
                } else {
                    "ask its coordinator to let you join"
                };
                Err(Refused::new(Code::Forbidden, detail).hint(hint))
            }
            Principal::Agent(_) | Principal::System | Principal::Holder { .. } => Ok(()),
        }
    }

    /// Returns the coordinator of a new session: the agent that opens it, or the agent that another principal names.
    fn coordinator(&self, open: &OpenSession) -> Result<Option<AgentId>, Refused> {
        match (&self.commit.principal, &open.coordinator) {
            (Principal::Agent(actor), None) => self.require_agent(actor).map(|_| Some(actor.clone())),
            (Principal::Agent(actor), Some(coordinator)) if coordinator != actor => Err(Refused::new(
                Code::Forbidden,
                format!("agent {actor} may not open a session for {coordinator}"),
            )
            .hint("omit the coordinator: the agent that opens a session is its coordinator")),
            (_, Some(coordinator)) => self.require_agent(coordinator).map(|_| Some(coordinator.clone())),
            (Principal::System | Principal::Holder { .. }, None) => Ok(None),
        }
    }

    /// Handles a repeated id: returns the same result if the principal and the content are the same.
    fn repeated_open(
        &self,
        open: &OpenSession,
        coordinator: Option<AgentId>,
        session: &Session,
    ) -> Result<OpResult, DecideError> {
        let same = match self.opening(session)? {
            Some((principal, opened, task)) => {
                let participants: Vec<_> =
                    opened.participants.iter().map(|participant| &participant.agent).collect();
                let requested: Vec<_> = each_once(&open.participants).collect();
                principal == self.commit.principal.to_text()
                    && opened.coordinator == coordinator
                    && opened.title == open.title
                    && participants == requested
                    && opened.task.is_some() == open.task.is_some()
                    && same_task(task.as_ref(), open.task.as_ref())
            }
            None => false,
        };
        if same {
            return Ok(OpResult::SessionOpened { id: session.id.clone() });
        }
        let detail = format!("the session id {} was used for another session", session.id);
        Err(Refused::new(Code::Duplicate, detail)
            .hint("use a new id for each session; retry an id only with identical content")
            .into())
    }

    /// Returns the principal, the session and the task payload as of its opening.
    fn opening(&self, session: &Session) -> Result<Option<(String, Session, Option<Payload>)>, DecideError> {
        let opened = |effects: &[Effect]| {
            effects.iter().find_map(|effect| match effect {
                Effect::Changed { verb: Verb::SessionOpened, item: Item::Session(opened) }
                    if opened.number == session.number =>
                {
                    Some(opened.clone())
                }
                _ => None,
            })
        };
        if session.number.record() == self.seq {
            let found = opened(&self.effects);
            let task = |opened: &Session| Some(self.parts.get(opened.task? as usize)?.clone());
            return Ok(found.map(|found| (self.commit.principal.to_text(), found.clone(), task(&found))));
        }
        let Some(record) = self.lookup.record(session.number.record())? else { return Ok(None) };
        let readable = codec::read_body(&record).ok().and_then(|body| opened(&body.effects));
        let Some(found) = readable else { return Ok(None) };
        let not_erased = |part: &u32| !self.erased_in_commit.contains(&(record.seq, *part));
        let task =
            found.task.filter(not_erased).and_then(|part| codec::payload_part(&record, part).ok().flatten());
        Ok(Some((record.principal, found, task)))
    }

    /// Returns the number of sessions that this commit has opened so far.
    fn opened_in_commit(&self) -> u32 {
        let opened = |effect: &&Effect| matches!(effect, Effect::Changed { verb: Verb::SessionOpened, .. });
        self.effects.iter().filter(opened).count() as u32
    }

    fn push_part(&mut self, payload: &Payload) -> u32 {
        self.parts.push(payload.clone());
        self.parts.len() as u32 - 1
    }
}

/// Returns the agents in order, without duplicates.
fn each_once(agents: &[AgentId]) -> impl Iterator<Item = &AgentId> {
    let mut seen = HashSet::new();
    agents.iter().filter(move |agent| seen.insert(*agent))
}

/// Whether two task payloads are identical. An erased one is identical to none.
fn same_task(opened: Option<&Payload>, requested: Option<&Payload>) -> bool {
    match (opened, requested) {
        (None, None) => true,
        (Some(opened), Some(requested)) => !opened.is_erased() && opened.bytes == requested.bytes,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn require_open(session: Session) -> Result<Session, Refused> {
    if !session.status.is_closed() {
        return Ok(session);
    }
    let reason = if session.reason.is_empty() { String::new() } else { format!(": {}", session.reason) };
    let detail = format!("session {} is {}{reason}", session.id, session.status.as_str());
    Err(Refused::new(Code::SessionClosed, detail).hint("open a new session; this one stays readable"))
}

fn no_session(id: &SessionId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no session {id}")).hint("open it first, or check the id")
}
