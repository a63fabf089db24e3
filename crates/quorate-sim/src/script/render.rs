//! Rendering of commits, effects, refusals and query results as text.

use quorate_core::{
    Budget, Code, DeliveryNo, Effect, EndState, Generation, Item, ItemKey, ItemKind, LeasedDelivery,
    MessageId, OpResult, OpenDeliveryState, Payload, Receipt, Refused, ReturnOutcome, Seq, Timestamp, codec,
};
use quorate_store::{ReadQuery, ReadResult, Store as _, StoredDeliveryState, StoredEntry};

use super::runner::{START_MS, ScriptRunner};

/// Renders a timestamp as the time since the start of the script.
pub(super) fn since_start(at: Timestamp) -> String {
    let ms = at.0 as i64 - START_MS as i64;
    if ms % 1000 == 0 { format!("{}s", ms / 1000) } else { format!("{ms}ms") }
}

impl ScriptRunner {
    /// Renders an accepted commit: the effects of its record, results that no effect shows, and dispatches to
    /// consumers.
    pub(super) async fn render_receipt(&mut self, actor: &str, receipt: &Receipt, before: Seq) {
        match receipt.seq {
            Some(seq) if seq > before => self.render_record(seq).await,
            Some(seq) => self.push_line(format!("the same receipt as #{seq}")),
            None => {}
        }
        let lines: Vec<_> =
            receipt.results.iter().filter_map(|result| self.result_line(actor, result, receipt)).collect();
        if receipt.seq.is_none() && lines.is_empty() {
            self.push_line(format!("{actor}: nothing to write"));
        }
        lines.into_iter().for_each(|line| self.push_line(line));
        for dispatch in self.take_dispatches() {
            for (consumer, delivery) in dispatch.dispatched {
                self.names_mut().record_lease(&delivery);
                let line = format!(
                    "{} receives {}",
                    self.names().consumer_name(consumer),
                    self.lease_line(&delivery)
                );
                self.push_line(line);
            }
            for (consumer, event) in dispatch.consumer_events {
                let name = self.names().consumer_name(consumer).to_owned();
                let line = self.event_line(&name, &event);
                self.push_line(line);
            }
            for (holder, event) in dispatch.holder_events {
                let line = self.holder_event_line(holder, &event);
                self.push_line(line);
            }
            for consumer in dispatch.dismissed_consumers {
                let line = format!("{} is dismissed", self.names().consumer_name(consumer));
                self.push_line(line);
            }
        }
    }

    /// Renders the part of a result that no effect of its record shows.
    fn result_line(&self, actor: &str, result: &OpResult, receipt: &Receipt) -> Option<String> {
        match result {
            OpResult::Claimed(deliveries) if deliveries.is_empty() => {
                Some(format!("{actor}: nothing to claim"))
            }
            OpResult::Claimed(deliveries) if deliveries.len() > 9 => {
                let (first, last) =
                    (self.lease_line(&deliveries[0]), self.lease_line(&deliveries[deliveries.len() - 1]));
                Some(format!("{actor} claims {} from {first} to {last}", deliveries.len()))
            }
            OpResult::Claimed(deliveries) => {
                let lines: Vec<_> = deliveries.iter().map(|delivery| self.lease_line(delivery)).collect();
                Some(format!("{actor} claims {}", lines.join(", ")))
            }
            OpResult::Acked { seq } if Some(*seq) != receipt.seq => Some(format!("acked already by #{seq}")),
            OpResult::Sent { id, .. } if Some(id.seq) != receipt.seq => {
                Some(format!("sent already by #{}", id.seq))
            }
            OpResult::Purged { count } => Some(format!("{count} purged")),
            OpResult::AckedMany { earlier } if !earlier.is_empty() => {
                let lines: Vec<_> = earlier.iter().map(|(index, seq)| format!("{index} by #{seq}")).collect();
                Some(format!("acked already: {}", lines.join(", ")))
            }
            OpResult::Subscribed { since, .. } if Some(*since) != receipt.seq => {
                Some(format!("subscribed since #{since}"))
            }
            OpResult::Subscribed { .. } | OpResult::AckedMany { .. } => None,
            OpResult::Registered { .. } | OpResult::Done | OpResult::Received | OpResult::Acked { .. } => {
                None
            }
            OpResult::Sent { .. } | OpResult::Written { .. } | OpResult::LocksGranted(_) => None,
            OpResult::Queued => Some(format!("{actor} is queued")),
            OpResult::SessionOpened { .. } | OpResult::ContributionAdded { .. } => None,
            OpResult::TasksCreated { seq, .. } | OpResult::TaskAccepted { seq, .. } => {
                self.task_result_line(actor, result, Some(*seq) == receipt.seq)
            }
            OpResult::TasksClaimed(_) => self.task_result_line(actor, result, true),
            OpResult::SnapshotMade { .. } => None,
            OpResult::RolledBack { to, written, deleted } => {
                Some(format!("rolled back to #{to}: {written} written, {deleted} deleted"))
            }
            OpResult::Requested { id, is_open, .. } if Some(id.seq) != receipt.seq => Some(format!(
                "requested already by #{}, {}",
                id.seq,
                if *is_open { "open" } else { "closed" }
            )),
            OpResult::Replied { late: true, .. } => Some("the answer is late".into()),
            OpResult::Requested { .. } | OpResult::Replied { .. } | OpResult::Inspected(_) => None,
            OpResult::TokenCreated { .. } => None,
            OpResult::ProcedureStarted { .. }
            | OpResult::ProcedureStepped { .. }
            | OpResult::ProcedureChanged { .. } => None,
            OpResult::ApprovalRequested { .. } | OpResult::ApprovalDecided { .. } => None,
        }
    }

    fn lease_line(&self, delivery: &LeasedDelivery) -> String {
        let (name, _) = self.names().delivery_name(delivery.delivery);
        format!("{name} (attempt {}, token {})", delivery.attempt, delivery.token)
    }

    async fn render_record(&mut self, seq: Seq) {
        let records = self.store().log(self.space(), seq, 1).await.expect("read succeeds");
        let body = codec::read_body(&records[0]).expect("record decodes");
        let mut n = 0;
        for effect in &body.effects {
            if let Effect::Written { key, version, part, restores, .. } = effect {
                let position = (restores.map_or(seq, |restored| restored.seq), *part);
                self.names_mut().record_version(key, *version, position);
            }
            if let Effect::Sent { message, first, .. } = effect {
                // Messages that the hub sends about a task or a budget are named after it.
                let subject = match message.action.as_str() {
                    "task.escalated" => message.correlation_id.clone(),
                    "budget.warned" => Some("warning".to_owned()),
                    _ => None,
                };
                if let Some(subject) = subject {
                    let name = format!("!{subject}");
                    let id = MessageId { generation: Generation(0), seq, n };
                    let names = message.to.agents().iter().map(ToString::to_string).collect();
                    self.names_mut().name_message(&name, id, *first, names);
                }
            }
            if let Effect::Backfilled { agent, first, messages } = effect {
                let recipient = self.agent_name(*agent);
                for (message, number) in messages.iter().zip(first.0..) {
                    self.names_mut().name_backfilled(DeliveryNo(number), message, &recipient);
                }
            }
            if let Some(line) = self.effect(effect, seq, &mut n) {
                self.push_line(format!("#{seq} {line}"));
            }
        }
    }

    /// Renders an effect. `n` counts the messages of the record.
    fn effect(&self, effect: &Effect, seq: Seq, n: &mut u32) -> Option<String> {
        let delivery_name = |number: DeliveryNo| {
            let (name, recipient) = self.names().delivery_name(number);
            format!("{name} of {recipient}")
        };
        Some(match effect {
            Effect::AgentRegistered { agent, .. } => format!("{} starts epoch {}", agent.id, agent.epoch),
            Effect::AgentRemoved { number } => format!("agent {number} removed"),
            Effect::Sent { message, deliveries, .. }
                if deliveries.is_empty() && message.to.names_agents() =>
            {
                *n += 1;
                let from = message.from.as_ref().map_or("the hub", |from| from.as_str());
                format!("answer from {from}")
            }
            Effect::Sent { first, deliveries, .. } => {
                let id = MessageId { generation: Generation(0), seq, n: *n };
                *n += 1;
                let none = if deliveries.is_empty() { " no recipient" } else { "" };
                let mut line = format!("{} sent to{none}", self.names().message_name(id));
                for (index, delivery) in deliveries.iter().enumerate() {
                    let (_, recipient) = self.names().delivery_name(DeliveryNo(first.0 + index as u64));
                    let leased = if delivery.lease.is_some() { " (leased immediately)" } else { "" };
                    line.push_str(&format!(" {recipient}{leased}"));
                }
                line
            }
            // Rendered from the result and the dispatch, which also contain the attempt and the token.
            Effect::Leased { .. } | Effect::LeasedFromPool { .. } => return None,
            Effect::Acked { delivery, .. } => format!("{} acked", delivery_name(*delivery)),
            Effect::Returned { delivery, cause, reason, next, .. } => {
                let suffix = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
                format!("{} {}{suffix}: {}", delivery_name(*delivery), cause.as_str(), self.next_line(*next))
            }
            Effect::Expired { delivery, .. } => format!("{} expired", delivery_name(*delivery)),
            Effect::Redriven { delivery, .. } => format!("{} redriven", delivery_name(*delivery)),
            Effect::Purged { delivery, .. } => format!("{} purged", delivery_name(*delivery)),
            Effect::Written { key, version, restores: Some(restored), .. } => {
                format!("{key} is at v{version}, restored from v{}", restored.version)
            }
            Effect::Written { key, version, .. } => format!("{key} is at v{version}"),
            Effect::Deleted { key, version } => format!("{key} deleted at v{version}"),
            Effect::Erased { seq, part } => format!("part {part} of #{seq} erased"),
            Effect::Changed { verb, item: Item::Lock(lock) } => self.lock_line(*verb, lock),
            Effect::Changed { verb, item: Item::Budget(budget) } => budget_line(verb.as_str(), budget),
            Effect::WaitAborted { cycle } => self.cycle_line(cycle),
            Effect::Changed { verb, item: Item::Task(task) } => return self.task_effect_line(*verb, task),
            Effect::Changed { verb, item: Item::Request(request) } => self.request_line(*verb, request),
            Effect::Changed { verb, item } => format!("{} {}", verb.as_str(), item.key().id),
            Effect::ContributionAdded { session, kind, n, .. } => {
                format!("{session} has {} {n}", kind.as_str())
            }
            Effect::AckedMany { deliveries } => {
                let names: Vec<_> = deliveries.iter().map(|held| delivery_name(held.delivery)).collect();
                format!("{} acked", names.join(", "))
            }
            Effect::Backfilled { agent, first, messages } => {
                let numbers = (first.0..).zip(messages).map(|(number, _)| DeliveryNo(number));
                let names: Vec<_> =
                    numbers.map(|number| self.names().delivery_name(number).0.to_owned()).collect();
                format!("{} backfilled to {}", names.join(", "), self.agent_name(*agent))
            }
            Effect::DeniedByPolicy { delivery, .. } => {
                format!("{} denied by policy: dead", delivery_name(*delivery))
            }
            Effect::SpaceCreated { name, .. } => format!("space {name} created"),
            Effect::PresenceChanged { number, presence } => self.status_line(*number, presence),
            Effect::SpaceRestored { generation } => format!("restored as generation {generation}"),
        })
    }

    fn next_line(&self, next: ReturnOutcome) -> String {
        match next {
            ReturnOutcome::Ready => "ready".into(),
            ReturnOutcome::Scheduled(due) => format!("due at {}", since_start(due)),
            ReturnOutcome::Dead => "dead".into(),
            ReturnOutcome::Expired => "expired".into(),
            ReturnOutcome::Redirected(agent) => format!("redirected to {}", self.agent_name(agent)),
        }
    }

    pub(super) fn render_refusal(&mut self, refused: &Refused) {
        let facts = &refused.facts;
        let mut line = format!("refused {}", refused.code);
        if let Some(version) = facts.current_version {
            line.push_str(&format!(", now at v{version}"));
        }
        if let Some(limit) = facts.limit {
            line.push_str(&format!(", limit {limit}"));
        }
        if let (Some(rule), Some(field)) = (&facts.rule, &facts.field) {
            line.push_str(&format!(" by {rule} at {field}"));
        }
        if facts.stale.len() > 1 {
            let stale =
                facts.stale.iter().map(|entry| format!(", op {} {} {}", entry.op, entry.item, entry.code));
            line.extend(stale);
        }
        if !facts.cycle.is_empty() {
            let cycle: Vec<_> =
                facts.cycle.iter().map(|edge| format!("{} for {}", edge.agent, edge.waits_for)).collect();
            line.push_str(&format!(", cycle: {}", cycle.join(", ")));
        }
        if refused.code == Code::UnknownRecipient {
            line.push_str(&format!(": {}", refused.detail));
        }
        self.push_line(line);
    }

    pub(super) async fn render_entry(&mut self, name: &str, query: ReadQuery) {
        let line = match self.read(query).await {
            ReadResult::Entry(Some(entry)) => entry_line(&entry),
            _ => format!("{name}: nothing"),
        };
        self.push_line(line);
    }

    pub(super) async fn render_rows(&mut self, query: ReadQuery) {
        let lines: Vec<String> = match self.read(query).await {
            ReadResult::Entries(entries) => entries.iter().map(entry_line).collect(),
            ReadResult::DeadLetters(dead_letters) => {
                let line = |dead_letter: &quorate_store::StoredDeadLetter| {
                    let (name, recipient) = self.names().delivery_name(dead_letter.delivery);
                    format!(
                        "dead: {name} of {recipient} after {} ({})",
                        dead_letter.attempts, dead_letter.reason
                    )
                };
                dead_letters.iter().map(line).collect()
            }
            ReadResult::Items(items) => items.iter().map(|listed| listed.item.key().id.to_string()).collect(),
            other => panic!("cannot render {other:?}"),
        };
        if lines.is_empty() {
            self.push_line("none");
        }
        lines.into_iter().for_each(|line| self.push_line(line));
    }

    pub(super) async fn render_budget(&mut self, id: &str) {
        let line = match self.read(ReadQuery::Item(ItemKey::new(ItemKind::Budget, id))).await {
            ReadResult::Item(Some(Item::Budget(budget))) => budget_line("budget", &budget),
            _ => format!("budget {id}: nothing"),
        };
        self.push_line(line);
    }

    pub(super) async fn render_deliveries(&mut self, name: &str) {
        for (first, recipient) in self.names().deliveries(name) {
            let rows = self.read(ReadQuery::Deliveries { first, count: 1 }).await;
            let ReadResult::Deliveries(states) = rows else { panic!("expected deliveries: {rows:?}") };
            let state = match states[0] {
                Some(StoredDeliveryState::Open { state: OpenDeliveryState::Ready { since }, attempt }) => {
                    format!("ready since {}, tried {attempt}", since_start(since))
                }
                Some(StoredDeliveryState::Open { state: OpenDeliveryState::Scheduled { due }, attempt }) => {
                    format!("due at {}, tried {attempt}", since_start(due))
                }
                Some(StoredDeliveryState::Open { state: OpenDeliveryState::Held { since }, attempt }) => {
                    format!("held, ready since {}, tried {attempt}", since_start(since))
                }
                Some(StoredDeliveryState::Open { state: OpenDeliveryState::Leased { token }, attempt }) => {
                    format!("leased under token {token}, attempt {attempt}")
                }
                Some(StoredDeliveryState::Ended { state, seq }) => {
                    let end: &str = EndState::as_str(state);
                    format!("{end} by #{seq}")
                }
                None => "does not exist".into(),
            };
            self.push_line(format!("{name} of {recipient}: {state}"));
        }
    }

    pub(super) async fn render_payload(&mut self, name: &str) {
        let id = self.names().message(name);
        let ReadResult::Message(Some(found)) = self.read(ReadQuery::Message { seq: id.seq, n: id.n }).await
        else {
            return self.push_line(format!("{name}: nothing"));
        };
        let from = found.message.from.as_ref().map_or("the hub", |from| from.as_str());
        self.push_line(format!("{name} from {from}: {}", text(&found.message.payload)));
    }

    pub(super) fn render_counts(&mut self) {
        let published = self.store().published(self.space()).expect("space exists");
        let counts = published.borrow().counts;
        let all = [
            ("ready", counts.ready),
            ("scheduled", counts.scheduled),
            ("leased", counts.leased),
            ("acked", counts.acked),
            ("dead", counts.dead),
            ("expired", counts.expired),
            ("purged", counts.purged),
        ];
        let some: Vec<_> = all
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        self.push_line(some.join(", "));
    }
}

fn text(payload: &Payload) -> String {
    if payload.is_erased() {
        let zeroed = payload.bytes.iter().all(|byte| *byte == 0);
        return format!("erased, {}", if zeroed { "zeroed" } else { "but not zeroed" });
    }
    String::from_utf8_lossy(&payload.bytes).into_owned()
}

fn entry_line(entry: &StoredEntry) -> String {
    let StoredEntry { key, version, content } = entry;
    let content = content.as_ref().map_or_else(|| "deleted".into(), text);
    let dependencies = version.depends_on.iter().map(|(key, version)| format!(", on {key} v{version}"));
    let dependencies: String = dependencies.collect();
    format!(
        "{key} v{} = {content}, by {} at {}{dependencies}",
        version.head.version,
        version.author,
        since_start(version.at)
    )
}

fn budget_line(label: &str, budget: &Budget) -> String {
    let warned = if budget.warned { ", warned" } else { "" };
    format!("{label} {}: {} of {} messages{warned}", budget.id, budget.messages_used, budget.messages_max)
}
