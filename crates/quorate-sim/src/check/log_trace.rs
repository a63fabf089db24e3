//! Trace of each delivery and each entry through the log.

use std::collections::BTreeMap;

use quorate_core::{Body, Effect, EndState, Message, NewDelivery, Payload, Record, ReturnOutcome, codec};

use crate::check::{StoreContents, ViolationReport};
use crate::history::{digest, parse_origin};

/// Trace of one delivery through the log.
#[derive(Clone, Debug)]
pub struct DeliveryTrace {
    /// Record of the message.
    pub seq: u64,
    /// Recipient.
    pub agent: String,
    /// Sender.
    pub from: String,
    /// Priority level.
    pub level: u8,
    /// Id of the sending call and index of the payload.
    pub origin: (String, u32),
    /// Digest of the payload.
    pub digest: String,
    /// Lease tokens, in order.
    pub tokens: Vec<u64>,
    /// End state, lease token and record.
    pub end: Option<(EndState, u64, u64)>,
}

/// One version of an entry.
#[derive(Clone, Debug)]
pub struct EntryWrite {
    /// Version number.
    pub version: u64,
    /// Id of the writing call.
    pub call: String,
    /// Digest of the content.
    pub digest: String,
    /// Record of the write.
    pub seq: u64,
}

/// Traces of all deliveries and entries.
#[derive(Debug, Default)]
pub struct LogTrace {
    /// Deliveries by number.
    pub deliveries: BTreeMap<u64, DeliveryTrace>,
    /// Versions by key.
    pub writes: BTreeMap<String, Vec<EntryWrite>>,
    /// Records that contain a payload of each call.
    pub calls: BTreeMap<String, Vec<u64>>,
    last_token: u64,
}

impl LogTrace {
    pub(crate) fn from_log(contents: &StoreContents, report: &mut ViolationReport<'_>) -> Self {
        let mut log = Self::default();
        for record in &contents.records {
            match codec::read_body(record) {
                Ok(body) => log.add_record(contents, record, &body, report),
                Err(error) => {
                    report.add("I17 every record decodes", format!("record {}: {error}", record.seq))
                }
            }
        }
        log
    }

    fn add_record(
        &mut self,
        contents: &StoreContents,
        record: &Record,
        body: &Body,
        report: &mut ViolationReport<'_>,
    ) {
        let seq = record.seq.0;
        for effect in &body.effects {
            match effect {
                Effect::Sent { message, first, deliveries, .. } => {
                    self.sent(contents, seq, (message, first.0, deliveries), report);
                }
                Effect::Leased { deliveries, .. } | Effect::LeasedFromPool { deliveries, .. } => {
                    for held in deliveries {
                        self.lease(held.delivery.0, held.token.0, seq, report);
                    }
                }
                Effect::Acked { delivery, token, .. } => {
                    self.end(delivery.0, EndState::Acked, Some(token.0), seq, report);
                }
                Effect::Returned { delivery, token, next: ReturnOutcome::Dead, .. } => {
                    self.end(delivery.0, EndState::Dead, Some(token.0), seq, report);
                }
                Effect::Returned { delivery, next: ReturnOutcome::Expired, .. }
                | Effect::Expired { delivery, .. } => {
                    self.end(delivery.0, EndState::Expired, None, seq, report);
                }
                Effect::Purged { delivery, .. } => self.end(delivery.0, EndState::Purged, None, seq, report),
                Effect::AckedMany { deliveries } => {
                    for held in deliveries {
                        self.end(held.delivery.0, EndState::Acked, Some(held.token.0), seq, report);
                    }
                }
                Effect::DeniedByPolicy { delivery, .. } => {
                    self.end(delivery.0, EndState::Dead, None, seq, report)
                }
                Effect::Written { key, version, part, .. } => {
                    let content = codec::payload_part(record, *part).ok().flatten();
                    let (call, digest) = match &content {
                        Some(content) => (self.origin_of(content, seq).0, digest(&content.bytes)),
                        None => (String::new(), String::new()),
                    };
                    let write = EntryWrite { version: version.0, call, digest, seq };
                    self.writes.entry(key.to_string()).or_default().push(write);
                }
                Effect::SpaceCreated { .. }
                | Effect::SpaceRestored { .. }
                | Effect::AgentRegistered { .. }
                | Effect::AgentRemoved { .. }
                | Effect::PresenceChanged { .. }
                | Effect::Returned { .. }
                | Effect::Redriven { .. }
                | Effect::ContributionAdded { .. }
                | Effect::Deleted { .. }
                | Effect::Erased { .. }
                | Effect::Changed { .. }
                | Effect::WaitAborted { .. }
                | Effect::Backfilled { .. } => {}
            }
        }
    }

    fn sent(
        &mut self,
        contents: &StoreContents,
        seq: u64,
        (message, first, deliveries): (&Message, u64, &[NewDelivery]),
        report: &mut ViolationReport<'_>,
    ) {
        let trace = DeliveryTrace {
            seq,
            agent: String::new(),
            from: message.from.as_ref().map_or(String::new(), ToString::to_string),
            level: message.priority.level,
            origin: self.origin_of(&message.payload, seq),
            digest: digest(&message.payload.bytes),
            tokens: Vec::new(),
            end: None,
        };
        for (number, delivery) in (first..).zip(deliveries) {
            let recipient = delivery.to.agent_no().and_then(|number| contents.published.agents.get(number));
            let agent = recipient.map_or(String::new(), |agent| agent.id.to_string());
            let before = self.deliveries.insert(number, DeliveryTrace { agent, ..trace.clone() });
            report.require(before.is_none(), "I7 delivery numbers are unique", || {
                format!("delivery {number} was created twice, again by record {seq}")
            });
            if let Some((token, _)) = delivery.lease {
                self.lease(number, token.0, seq, report);
            }
        }
    }

    fn origin_of(&mut self, payload: &Payload, seq: u64) -> (String, u32) {
        let origin = parse_origin(&payload.bytes);
        let records = self.calls.entry(origin.0.clone()).or_default();
        if records.last() != Some(&seq) {
            records.push(seq);
        }
        origin
    }

    fn lease(&mut self, number: u64, token: u64, seq: u64, report: &mut ViolationReport<'_>) {
        report.require(token > self.last_token, "I8 tokens always increase", || {
            format!("record {seq} issues token {token} after {}", self.last_token)
        });
        self.last_token = self.last_token.max(token);
        match self.deliveries.get_mut(&number) {
            Some(trace) => {
                if let Some((state, _, end)) = &trace.end {
                    let detail =
                        format!("delivery {number} was {} by record {end}, leased by {seq}", state.as_str());
                    report.add("I4 an ended delivery is never leased", detail);
                }
                trace.tokens.push(token);
            }
            None => report.add(
                "I2 no invention",
                format!("record {seq} leases delivery {number}, which was never sent"),
            ),
        }
    }

    fn end(
        &mut self,
        number: u64,
        state: EndState,
        token: Option<u64>,
        seq: u64,
        report: &mut ViolationReport<'_>,
    ) {
        let Some(trace) = self.deliveries.get_mut(&number) else {
            return report.add(
                "I2 no invention",
                format!("record {seq} ends delivery {number}, which was never sent"),
            );
        };
        let last = trace.tokens.last().copied().unwrap_or_default();
        report.require(token.is_none_or(|token| token == last), "I4 only the current token", || {
            format!("record {seq} ends delivery {number} under token {token:?}, its lease token is {last}")
        });
        if let Some((_, _, end)) = trace.end {
            report.add(
                "I7 a delivery ends once",
                format!("delivery {number} ended by record {end} and again by {seq}"),
            );
        }
        trace.end = Some((state, last, seq));
    }
}
