//! Subscriptions, and the backfill of earlier messages for new subscribers.
//!
//! A subscription starts with a record; later messages are delivered automatically. Earlier ones are searched in the
//! log outside the writer, strictly before that record, so that no message is missed or delivered twice. The progress
//! of the backfill is part of the subscription, so it survives a crash.

use quorate_core::limits::HISTORY_RECORDS_MAX;
use quorate_core::{
    AgentId, Backfill, Code, Commit, Destination, EarlierMessage, Effect, Epoch, History, Item, ItemKind,
    ItemRange, Op, OpResult, Pattern, Principal, Record, RecordedMessage, Refused, Seq, Subscribe,
    Subscription, Timestamp, codec,
};
use quorate_store::{ReadQuery, ReadResult, StoreError};

use crate::error::Error;
use crate::idempotent_wait::CommitBuilder;
use crate::space::Space;
use crate::yielder::Yielder;

/// Number of records read together, including payloads.
const RECORDS_PER_READ: usize = 64;
/// Number of messages backfilled per commit.
const MESSAGES_PER_COMMIT: usize = 512;
/// Number of subscriptions read together.
const SUBSCRIPTIONS_PER_READ: usize = 256;

impl Space {
    /// Subscribes an agent to a topic pattern, optionally with history. Returns the record from which on messages are
    /// delivered automatically. Subscribing again changes nothing.
    ///
    /// # Errors
    /// The refusal, or a storage failure. If only the backfill failed, the subscription exists, and subscribing again
    /// resumes the backfill.
    pub async fn subscribe(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        agent: &AgentId,
        pattern: &Pattern,
        history: Option<History>,
    ) -> Result<Seq, Error> {
        let request = Subscribe { agent: agent.clone(), pattern: pattern.clone(), history };
        let build_commit = |ops| Commit { epoch, ..Commit::new(principal.clone(), ops) };
        self.subscribe_idempotent(&build_commit, request).await
    }

    /// Like [`Space::subscribe`], in a commit that can carry an idempotency key.
    ///
    /// # Errors
    /// As [`Space::subscribe`].
    pub async fn subscribe_idempotent(
        &self,
        build_commit: CommitBuilder<'_>,
        request: Subscribe,
    ) -> Result<Seq, Error> {
        if let Some(history) = request.history {
            self.history_start(history, self.published().head.seq).await?;
        }
        let (agent, pattern) = (&request.agent.clone(), &request.pattern.clone());
        let receipt = self.commit(build_commit(vec![Op::Subscribe(request)])).await?;
        let Some(OpResult::Subscribed { since, backfill }) = receipt.results.first() else {
            return Err(StoreError::Read("unexpected result of a subscription".into()).into());
        };
        let since = *since;
        if backfill.is_some() {
            let (space, agent, pattern) = (self.clone(), agent.clone(), pattern.clone());
            // Spawned, so that it is not cancelled with the caller.
            let backfill = tokio::spawn(async move { space.catch_up(&agent, &pattern).await });
            backfill.await.map_err(|_| StoreError::Closed)??;
        }
        Ok(since)
    }

    /// Ends a subscription. Queued deliveries remain.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is none, or a storage failure.
    pub async fn unsubscribe(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        agent: &AgentId,
        pattern: &Pattern,
    ) -> Result<(), Error> {
        let op = Op::Unsubscribe { agent: agent.clone(), pattern: pattern.clone() };
        self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await.map(drop)
    }

    /// Returns the subscriptions of an agent, by pattern.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn subscriptions(&self, agent: &AgentId) -> Result<Vec<Subscription>, Error> {
        self.subscriptions_after(format!("{agent} "), |subscription| subscription.agent == *agent).await
    }

    /// Resumes all backfills that were unfinished when the hub stopped.
    pub(crate) async fn resume_backfills(&self) -> Result<(), Error> {
        let subscriptions = self.subscriptions_after(String::new(), |_| true).await?;
        for subscription in
            subscriptions.iter().filter(|subscription| subscription.pending_backfill().is_some())
        {
            self.catch_up(&subscription.agent, &subscription.pattern).await?;
        }
        Ok(())
    }

    async fn subscriptions_after(
        &self,
        mut after: String,
        filter: impl Fn(&Subscription) -> bool,
    ) -> Result<Vec<Subscription>, Error> {
        let mut found = Vec::new();
        loop {
            let read = ReadQuery::Items {
                kind: ItemKind::Subscription,
                range: ItemRange::ById(Some(after.into())),
                limit: SUBSCRIPTIONS_PER_READ,
            };
            let ReadResult::Items(page) = self.read_one(read).await? else {
                return Err(StoreError::Read("unexpected result of a read".into()).into());
            };
            let subscription = |listed: quorate_store::ListedItem| match listed.item {
                Item::Subscription(subscription) => Some(*subscription),
                _ => None,
            };
            let page: Vec<_> = page.into_iter().filter_map(subscription).collect();
            let Some(last) = page.last().map(Subscription::id) else { return Ok(found) };
            let before = found.len();
            let count = page.len();
            found.extend(page.into_iter().take_while(&filter));
            if found.len() - before < count || count < SUBSCRIPTIONS_PER_READ {
                return Ok(found);
            }
            after = last;
        }
    }

    /// Backfills the history of a subscription.
    async fn catch_up(&self, agent: &AgentId, pattern: &Pattern) -> Result<(), Error> {
        let subscriptions = self.subscriptions(agent).await?;
        let Some(own) = subscriptions.iter().find(|subscription| subscription.pattern == *pattern) else {
            return Ok(());
        };
        let Some(history) = own.pending_backfill() else { return Ok(()) };
        let search = Search { space: self, own, others: &subscriptions };
        match history {
            History::Last(last) => {
                let messages = search.newest(last as usize).await?;
                search.commit_backfill(history, messages, own.since).await
            }
            History::Seq(_) | History::Time(_) => {
                let from = self.history_start(history, own.since).await?;
                search.all_from(history, from).await
            }
        }
    }

    /// Returns the first record to search for history before `since`. Refuses to scan too many records.
    async fn history_start(&self, history: History, since: Seq) -> Result<Seq, Error> {
        let from = match history {
            History::Last(_) => return Ok(since),
            History::Seq(seq) => seq,
            History::Time(time) => {
                let before = Timestamp(time.0.saturating_sub(1));
                match self.read_one(ReadQuery::SeqAt(before)).await? {
                    ReadResult::Seq(seq) => Seq(seq.0 + 1),
                    _ => {
                        return Err(StoreError::Read("unexpected result of a read".into()).into());
                    }
                }
            }
        };
        let records = since.0.saturating_sub(from.0);
        if records > HISTORY_RECORDS_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("the requested history spans {records} records"),
            )
            .limit(HISTORY_RECORDS_MAX)
            .hint("request a later record or time, or only the last messages")
            .into());
        }
        Ok(from)
    }
}

/// Search for the earlier messages of a subscription.
struct Search<'a> {
    space: &'a Space,
    own: &'a Subscription,
    /// All subscriptions of the agent: messages delivered through another one are skipped.
    others: &'a [Subscription],
}

impl Search<'_> {
    async fn all_from(&self, mut expected: History, from: Seq) -> Result<(), Error> {
        let mut next = Seq(from.0.max(1));
        let (mut messages, mut yielder) = (Vec::new(), Yielder::default());
        while next < self.own.since {
            let records = self.space.log(next, RECORDS_PER_READ).await?;
            if records.is_empty() {
                break;
            }
            for record in records.iter().take_while(|record| record.seq < self.own.since) {
                messages.extend(self.missing_messages(record)?);
                yielder.after_record(record).await;
                // Commit between two records, so that a crash neither loses nor repeats a message.
                if messages.len() >= MESSAGES_PER_COMMIT {
                    let after = Seq(record.seq.0 + 1);
                    self.commit_backfill(expected, std::mem::take(&mut messages), after).await?;
                    expected = History::Seq(after);
                }
            }
            next = Seq(next.0 + records.len() as u64);
        }
        self.commit_backfill(expected, messages, self.own.since).await
    }

    /// Returns the newest messages before the subscription, oldest first.
    async fn newest(&self, count: usize) -> Result<Vec<EarlierMessage>, Error> {
        let (mut found, mut yielder) = (Vec::<EarlierMessage>::new(), Yielder::default());
        let mut end = self.own.since.0;
        let floor = end.saturating_sub(HISTORY_RECORDS_MAX).max(1);
        while end > floor && found.len() < count {
            let start = end.saturating_sub(RECORDS_PER_READ as u64).max(floor);
            let (mut page, mut next) = (Vec::new(), start);
            // Large records are read in several parts.
            while next < end {
                let records = self.space.log(Seq(next), (end - next) as usize).await?;
                let Some(last) = records.last() else { break };
                next = last.seq.0 + 1;
                for record in &records {
                    page.extend(self.missing_messages(record)?);
                    yielder.after_record(record).await;
                }
            }
            page.append(&mut found);
            found = page;
            end = start;
        }
        Ok(found.split_off(found.len().saturating_sub(count)))
    }

    /// Returns the messages of a record that are to be backfilled.
    fn missing_messages(&self, record: &Record) -> Result<Vec<EarlierMessage>, Error> {
        let body = codec::read_body(record)
            .map_err(|error| StoreError::Corrupt(format!("record {}: {error}", record.seq).into()))?;
        let mut found = Vec::new();
        let sent = body.effects.into_iter().filter_map(|effect| match effect {
            Effect::Sent { message, .. } => Some(message),
            _ => None,
        });
        for (message, n) in sent.zip(0..) {
            let Destination::Topic(topic) = &message.to else { continue };
            let delivered_by = |subscription: &Subscription| {
                subscription.pattern != self.own.pattern
                    && subscription.since < record.seq
                    && subscription.pattern.matches(topic)
            };
            let is_own = message.from.as_ref() == Some(&self.own.agent);
            if is_own || !self.own.pattern.matches(topic) || self.others.iter().any(delivered_by) {
                continue;
            }
            let recorded = RecordedMessage {
                seq: record.seq,
                n,
                priority: message.priority,
                attempts_max: message.attempts_max,
                expires_at: message.expires_at,
                scope: None,
            };
            found.push(EarlierMessage {
                from: message.from.clone(),
                session_id: message.session_id.clone(),
                correlation_id: message.correlation_id.clone(),
                message: recorded,
            });
        }
        Ok(found)
    }

    async fn commit_backfill(
        &self,
        expected: History,
        messages: Vec<EarlierMessage>,
        next: Seq,
    ) -> Result<(), Error> {
        let (agent, pattern) = (self.own.agent.clone(), self.own.pattern.clone());
        let op = Op::Backfill(Backfill { agent, pattern, expected, messages, next });
        match self.space.commit_system(vec![op]).await {
            // The agent unsubscribed meanwhile, or another call finished the backfill.
            Err(error) if error.code() == Code::NotFound => Ok(()),
            other => other.map(drop),
        }
    }
}
