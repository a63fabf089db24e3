//! Subscriptions, and bringing earlier messages to those who ask for them.
//!
//! A subscription begins with a record, and from then on messages come by themselves. Earlier ones are looked for in the
//! log, beside the writer, strictly before that record: so nothing is missed and nothing comes twice. How far the
//! looking has got is part of the subscription, so that a crash on the way loses nothing either.

use quorate_core::limits::HISTORY_RECORDS_MAX;
use quorate_core::{
    AgentId, BringHistory, Code, Commit, Destination, Earlier, Effect, Epoch, History, Item, ItemKind,
    ItemRange, Letter, Op, OpResult, Pattern, Principal, Record, Refused, Seq, Subscribe, Subscription,
    Timestamp, codec,
};
use quorate_store::{Read, Rows, StoreError};

use crate::error::Error;
use crate::once::Asker;
use crate::pace::Pace;
use crate::space::Space;

/// Records that are read at once: their payloads come with them.
const PAGE: usize = 64;
/// Messages that are brought in one commit.
const AT_ONCE: usize = 512;
/// Subscriptions that are read at once.
const LISTED: usize = 256;

impl Space {
    /// Subscribes an agent to the topics of a pattern: from now on, and with the history that it asks for. Returns the
    /// record since which messages come by themselves. Who subscribes already changes nothing by asking again.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage. If only the history could not be brought, the subscription stands, and
    /// asking again goes on where it stopped.
    pub async fn subscribe(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        agent: &AgentId,
        pattern: &Pattern,
        history: Option<History>,
    ) -> Result<Seq, Error> {
        let asked = Subscribe { agent: agent.clone(), pattern: pattern.clone(), history };
        let commit = |ops| Commit { epoch, ..Commit::new(principal.clone(), ops) };
        self.subscribe_once(&commit, asked).await
    }

    /// The same, in a commit that may bear a key.
    ///
    /// # Errors
    /// As [`Space::subscribe`].
    pub async fn subscribe_once(&self, asker: Asker<'_>, asked: Subscribe) -> Result<Seq, Error> {
        if let Some(history) = asked.history {
            self.history_start(history, self.published().head.seq).await?;
        }
        let (agent, pattern) = (&asked.agent.clone(), &asked.pattern.clone());
        let receipt = self.commit(asker(vec![Op::Subscribe(asked)])).await?;
        let Some(OpResult::Subscribed { since, wanted }) = receipt.results.first() else {
            return Err(StoreError::Read("a subscription was not answered".into()).into());
        };
        let since = *since;
        if wanted.is_some() {
            let (space, agent, pattern) = (self.clone(), agent.clone(), pattern.clone());
            // By itself, so that a caller that goes away does not stop it half-way.
            let brought = tokio::spawn(async move { space.catch_up(&agent, &pattern).await });
            brought.await.map_err(|_| StoreError::Closed)??;
        }
        Ok(since)
    }

    /// Ends a subscription. What waits for the agent already stays.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is none, or a failure of the storage.
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

    /// The subscriptions of an agent, by pattern.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn subscriptions(&self, agent: &AgentId) -> Result<Vec<Subscription>, Error> {
        self.subscriptions_after(format!("{agent} "), |one| one.agent == *agent).await
    }

    /// Goes on with every history that was not brought to its end when the hub stopped.
    pub(crate) async fn catch_up_all(&self) -> Result<(), Error> {
        let all = self.subscriptions_after(String::new(), |_| true).await?;
        for one in all.iter().filter(|one| one.wanted().is_some()) {
            self.catch_up(&one.agent, &one.pattern).await?;
        }
        Ok(())
    }

    async fn subscriptions_after(
        &self,
        mut after: String,
        wanted: impl Fn(&Subscription) -> bool,
    ) -> Result<Vec<Subscription>, Error> {
        let mut found = Vec::new();
        loop {
            let read = Read::Items {
                kind: ItemKind::Subscription,
                range: ItemRange::ById(Some(after.into())),
                limit: LISTED,
            };
            let Rows::Items(page) = self.read_one(read).await? else {
                return Err(StoreError::Read("the store did not answer with items".into()).into());
            };
            let subscription = |listed: quorate_store::ListedItem| match listed.item {
                Item::Subscription(subscription) => Some(*subscription),
                _ => None,
            };
            let page: Vec<_> = page.into_iter().filter_map(subscription).collect();
            let Some(last) = page.last().map(Subscription::id) else { return Ok(found) };
            let before = found.len();
            let count = page.len();
            found.extend(page.into_iter().take_while(&wanted));
            if found.len() - before < count || count < LISTED {
                return Ok(found);
            }
            after = last;
        }
    }

    /// Brings what a subscription is still owed.
    async fn catch_up(&self, agent: &AgentId, pattern: &Pattern) -> Result<(), Error> {
        let all = self.subscriptions(agent).await?;
        let Some(own) = all.iter().find(|one| one.pattern == *pattern) else { return Ok(()) };
        let Some(history) = own.wanted() else { return Ok(()) };
        let search = Search { space: self, own, others: &all };
        match history {
            History::Last(last) => {
                let messages = search.newest(last as usize).await?;
                search.bring(history, messages, own.since).await
            }
            History::Seq(_) | History::Time(_) => {
                let from = self.history_start(history, own.since).await?;
                search.all_from(history, from).await
            }
        }
    }

    /// Where to begin looking for earlier messages than this record; refuses to look through too much.
    async fn history_start(&self, history: History, since: Seq) -> Result<Seq, Error> {
        let from = match history {
            History::Last(_) => return Ok(since),
            History::Seq(seq) => seq,
            History::Time(time) => {
                let before = Timestamp(time.0.saturating_sub(1));
                match self.read_one(Read::SeqAt(before)).await? {
                    Rows::Seq(seq) => Seq(seq.0 + 1),
                    _ => {
                        return Err(
                            StoreError::Read("the store did not answer with a position".into()).into()
                        );
                    }
                }
            }
        };
        let records = since.0.saturating_sub(from.0);
        if records > HISTORY_RECORDS_MAX {
            return Err(Refused::new(Code::LimitExceeded, format!("a history of {records} records"))
                .limit(HISTORY_RECORDS_MAX)
                .hint("ask from a later record or time on, or for the last messages only")
                .into());
        }
        Ok(from)
    }
}

/// Looking for the earlier messages of a subscription.
struct Search<'a> {
    space: &'a Space,
    own: &'a Subscription,
    /// All subscriptions of the agent: what another one brought already is not brought again.
    others: &'a [Subscription],
}

impl Search<'_> {
    async fn all_from(&self, mut wanted: History, from: Seq) -> Result<(), Error> {
        let mut next = Seq(from.0.max(1));
        let (mut messages, mut pace) = (Vec::new(), Pace::default());
        while next < self.own.since {
            let records = self.space.log(next, PAGE).await?;
            if records.is_empty() {
                break;
            }
            for record in records.iter().take_while(|record| record.seq < self.own.since) {
                messages.extend(self.owed(record)?);
                pace.after(record).await;
                // Between two records, so that a crash on the way neither loses nor repeats one.
                if messages.len() >= AT_ONCE {
                    let after = Seq(record.seq.0 + 1);
                    self.bring(wanted, std::mem::take(&mut messages), after).await?;
                    wanted = History::Seq(after);
                }
            }
            next = Seq(next.0 + records.len() as u64);
        }
        self.bring(wanted, messages, self.own.since).await
    }

    /// The newest messages before the subscription, oldest first.
    async fn newest(&self, count: usize) -> Result<Vec<Earlier>, Error> {
        let (mut found, mut pace) = (Vec::<Earlier>::new(), Pace::default());
        let mut end = self.own.since.0;
        let floor = end.saturating_sub(HISTORY_RECORDS_MAX).max(1);
        while end > floor && found.len() < count {
            let start = end.saturating_sub(PAGE as u64).max(floor);
            let records = self.space.log(Seq(start), (end - start) as usize).await?;
            let mut page = Vec::new();
            for record in &records {
                page.extend(self.owed(record)?);
                pace.after(record).await;
            }
            page.append(&mut found);
            found = page;
            end = start;
        }
        Ok(found.split_off(found.len().saturating_sub(count)))
    }

    /// The messages of a record that are owed.
    fn owed(&self, record: &Record) -> Result<Vec<Earlier>, Error> {
        let body = codec::read_body(record)
            .map_err(|error| StoreError::Damaged(format!("record {}: {error}", record.seq).into()))?;
        let mut found = Vec::new();
        let sent = body.effects.into_iter().filter_map(|effect| match effect {
            Effect::Sent { message, .. } => Some(message),
            _ => None,
        });
        for (message, n) in sent.zip(0..) {
            let Destination::Topic(topic) = &message.to else { continue };
            let came = |one: &Subscription| {
                one.pattern != self.own.pattern && one.since < record.seq && one.pattern.matches(topic)
            };
            let own = message.from.as_ref() == Some(&self.own.agent);
            if own || !self.own.pattern.matches(topic) || self.others.iter().any(came) {
                continue;
            }
            let letter = Letter {
                seq: record.seq,
                n,
                priority: message.priority,
                attempts_max: message.attempts_max,
                expires_at: message.expires_at,
                session: None,
            };
            let (from, session_id) = (message.from.clone(), message.session_id.clone());
            found.push(Earlier { from, session_id, letter });
        }
        Ok(found)
    }

    async fn bring(&self, wanted: History, messages: Vec<Earlier>, next: Seq) -> Result<(), Error> {
        let (agent, pattern) = (self.own.agent.clone(), self.own.pattern.clone());
        let op = Op::BringHistory(BringHistory { agent, pattern, wanted, messages, next });
        match self.space.commit_system(vec![op]).await {
            // It unsubscribed meanwhile, or somebody else was faster.
            Err(error) if error.code() == Code::NotFound => Ok(()),
            other => other.map(drop),
        }
    }
}
