//! Lists of messages: what was sent in a space, newest first, page by page.

use std::sync::Arc;

use quorate_core::{
    AgentId, Effect, LineKind, Message, MessageId, MessageType, Record, Seq, SessionId, Timestamp, codec,
};
use quorate_store::{Page, Read, Rows, StoreError};

use crate::error::Error;
use crate::reads::unexpected;
use crate::space::Space;

/// Records read at once.
const READ_AT_ONCE: u64 = 500;
/// Records looked at for one page; the cursor leads on.
const LOOKED_AT_MAX: u64 = 10_000;
/// Records of a session that are looked at for one page.
const OF_SESSION_MAX: usize = 256;

/// Which messages.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    /// Only those that this agent sent.
    pub from: Option<AgentId>,
    /// Only those that went to this agent.
    pub to: Option<AgentId>,
    /// Only those of this type.
    pub kind: Option<MessageType>,
    /// Only those that name this session.
    pub session: Option<SessionId>,
    /// Only those that this agent sent or got.
    pub of: Option<AgentId>,
}

/// A message of a list.
#[derive(Clone, Debug)]
pub struct ListedMessage {
    /// Its id.
    pub id: MessageId,
    /// When it was sent.
    pub at: Timestamp,
    /// The message.
    pub message: Arc<Message>,
}

/// A page of messages, newest first.
#[derive(Clone, Debug, Default)]
pub struct MessagesPage {
    /// The messages.
    pub messages: Vec<ListedMessage>,
    /// Look before this record for older ones; `None` if there are none.
    pub cursor: Option<Seq>,
}

impl Space {
    /// The messages before a record, newest first. A page may be short and still have a cursor: it looked at many
    /// records without one. All messages of one record are on the same page.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn messages(
        &self,
        filter: &MessageFilter,
        before: Option<Seq>,
        limit: usize,
    ) -> Result<MessagesPage, Error> {
        let head = Seq(self.published().head.seq.0 + 1);
        let mut before = before.unwrap_or(head).min(head);
        let last = Seq(before.0.saturating_sub(LOOKED_AT_MAX)).max(Seq(1));
        let mut page = MessagesPage::default();
        while page.messages.len() < limit {
            let records = match &filter.session {
                Some(session) => self.of_session(session, before).await?,
                None if before <= last => break,
                None => self.before(before, last).await?,
            };
            let Some(oldest) = records.last().map(|record| record.seq) else {
                before = Seq(1);
                break;
            };
            let is_last_of_session = filter.session.is_some() && records.len() < OF_SESSION_MAX;
            before = oldest;
            for record in records {
                if page.messages.len() >= limit {
                    break;
                }
                before = record.seq;
                page.messages.extend(self.sent_in(&record, filter)?);
            }
            if is_last_of_session && page.messages.len() < limit {
                before = Seq(1);
                break;
            }
        }
        page.cursor = (before > Seq(1)).then_some(before);
        Ok(page)
    }

    /// The records before this one, newest first.
    async fn before(&self, before: Seq, last: Seq) -> Result<Vec<Record>, Error> {
        let from = Seq(before.0.saturating_sub(READ_AT_ONCE)).max(last);
        let mut records = self.log(from, (before.0 - from.0) as usize).await?;
        records.reverse();
        Ok(records)
    }

    /// The records before this one in which a message names a session, newest first: by the index of timelines.
    async fn of_session(&self, session: &SessionId, before: Seq) -> Result<Vec<Record>, Error> {
        let (session, kind) = (session.as_str().into(), Some(LineKind::Message));
        let wanted = Read::Timeline { session, kind, page: Page::Before(before), limit: OF_SESSION_MAX };
        let seqs = match self.read_one(wanted).await? {
            Rows::Timeline(seqs) => seqs,
            other => return Err(unexpected(&other)),
        };
        let rows = seqs.into_iter().map(Read::Record).collect();
        let rows = self.engine().store().read(self.number(), rows).await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| match row {
                Rows::Record(record) => record,
                _ => None,
            })
            .collect())
    }

    /// The messages of a record that are wanted, newest first.
    fn sent_in(&self, record: &Record, filter: &MessageFilter) -> Result<Vec<ListedMessage>, Error> {
        let body = codec::read_body(record).map_err(|why| StoreError::Damaged(why.to_string().into()))?;
        let published = self.published();
        let mut found = Vec::new();
        let mut n = 0;
        for effect in body.effects {
            let Effect::Sent { message, deliveries, .. } = effect else { continue };
            let id = published.eras.message_id(record.seq, n);
            n += 1;
            let went_to = |agent: &AgentId| {
                let number = published.agents.number(agent);
                deliveries.iter().any(|one| number.is_some() && one.to.agent_no() == number)
            };
            let sent_by = |agent: &AgentId| message.from.as_ref() == Some(agent);
            let wanted = filter.from.as_ref().is_none_or(&sent_by)
                && filter.to.as_ref().is_none_or(&went_to)
                && filter.kind.is_none_or(|kind| message.kind == kind)
                && filter
                    .session
                    .as_ref()
                    .is_none_or(|id| message.session_id.as_deref() == Some(id.as_str()))
                && filter.of.as_ref().is_none_or(|agent| sent_by(agent) || went_to(agent));
            if wanted && !message.payload.is_intact() {
                return Err(StoreError::damaged_payload(record.seq).into());
            }
            if wanted {
                found.push(ListedMessage { id, at: record.at, message });
            }
        }
        found.reverse();
        Ok(found)
    }
}
