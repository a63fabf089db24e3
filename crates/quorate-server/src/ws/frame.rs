//! JSON frames: numbered requests of the client, and replies and deliveries of the hub.

use bytes::Bytes;
use quorate_api::delivery::EndedRequest;
use quorate_api::message::NewMessage;
use quorate_api::op::Commit;
use quorate_api::result::OperationResult;
use quorate_api::task::LostTask;
use quorate_core::{
    AgentId, Code, Extend, HolderEvent, LeaseLoss, LeaseRef, Nack, NackAction, Op, Receipt, Refused,
    RequestEnd,
};
use quorate_engine::Space;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Session;
use super::ledger::{Credit, DELIVERY_NUMBERS_MAX, Range, UNSENT_MAX};
use crate::body::{self, RequestFields};
use crate::problem::Problem;
use crate::settings::Durations;
use crate::wire::time;

/// Maximum number of deliveries in one WebSocket frame.
pub(super) const BATCH_MESSAGES_MAX: usize = 64;
/// Maximum size of a WebSocket frame with several deliveries. A larger delivery is sent in a frame of its own.
pub(super) const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of calls of one connection that wait: requests, claims of tasks and acquisitions of locks.
pub(crate) const REQUESTS_MAX: usize = 256;

/// A frame sent by a client: a number and exactly one operation.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FrameIn<'a> {
    pub(super) n: u64,
    #[serde(borrow)]
    commit: Option<Commit<'a>>,
    credit: Option<Credit>,
    ack: Option<Vec<Range>>,
    nack: Option<NackIn>,
    extend: Option<ExtendIn>,
    #[serde(borrow)]
    send: Option<NewMessage<'a>>,
    #[serde(borrow)]
    request: Option<RequestFields<'a>>,
    #[serde(borrow)]
    claim_tasks: Option<RequestFields<'a>>,
    #[serde(borrow)]
    acquire_locks: Option<RequestFields<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NackIn {
    pub(super) deliveries: Vec<Range>,
    delay_ms: Option<u64>,
    reason: Option<String>,
    #[serde(default)]
    untried: bool,
    #[serde(default)]
    hopeless: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExtendIn {
    pub(super) deliveries: Vec<Range>,
    lease_ms: Option<u64>,
}

/// Operation of a frame.
pub(super) enum FrameRequest<'a> {
    Commit(Commit<'a>),
    Credit(Credit),
    Ack(Vec<Range>),
    Nack(NackIn),
    Extend(ExtendIn),
    Send(Box<NewMessage<'a>>),
    Request(RequestFields<'a>),
    ClaimTasks(RequestFields<'a>),
    AcquireLocks(RequestFields<'a>),
}

/// A frame that could not be parsed, with its number if that could be read.
pub(super) struct FrameError {
    pub(super) n: Option<u64>,
    pub(super) refused: Refused,
}

/// Parses a frame.
pub(super) fn parse(bytes: &Bytes) -> Result<(u64, FrameRequest<'_>), FrameError> {
    let frame: FrameIn<'_> = body::parse(bytes).map_err(|refused| {
        // Reply by number even if the frame is invalid. This works for frames that are nested too deep as well:
        // fields are skipped without recursion.
        let fields = serde_json::from_slice::<RequestFields<'_>>(bytes).ok();
        let n = fields.and_then(|mut fields| fields.take_number("n").ok().flatten());
        FrameError { n, refused }
    })?;
    let FrameIn { n, commit, credit, ack, nack, extend, send, request, claim_tasks, acquire_locks } = frame;
    let operations = [
        commit.map(FrameRequest::Commit),
        credit.map(FrameRequest::Credit),
        ack.map(FrameRequest::Ack),
        nack.map(FrameRequest::Nack),
        extend.map(FrameRequest::Extend),
        send.map(|message| FrameRequest::Send(Box::new(message))),
        request.map(FrameRequest::Request),
        claim_tasks.map(FrameRequest::ClaimTasks),
        acquire_locks.map(FrameRequest::AcquireLocks),
    ];
    let mut operations = operations.into_iter().flatten();
    match (operations.next(), operations.next()) {
        (Some(operation), None) => Ok((n, operation)),
        _ => {
            let refused = Refused::new(Code::Invalid, "a frame must contain exactly one operation").hint(
                "use one of commit, credit, ack, nack, extend, send, request, claimTasks, acquireLocks",
            );
            Err(FrameError { n: Some(n), refused })
        }
    }
}

impl NackIn {
    pub(super) fn op(&self, lease: LeaseRef) -> Op {
        let action = match (self.hopeless, self.untried) {
            (true, _) => NackAction::DeadLetter,
            (false, true) => NackAction::Release,
            (false, false) => NackAction::Retry { delay_ms: self.delay_ms },
        };
        Op::Nack(Nack { lease, action, reason: self.reason.clone().unwrap_or_default() })
    }
}

impl ExtendIn {
    pub(super) fn op(&self, lease: LeaseRef, durations: &Durations) -> Op {
        Op::Extend(Extend { lease, lease_ms: self.lease_ms.unwrap_or(durations.lease_ms()) })
    }
}

/// Refusal of binary frames.
pub(super) fn binary_refused() -> Refused {
    Refused::new(Code::Invalid, "binary frames are not supported").hint("send text frames with JSON")
}

/// Returns the success reply to the frame with this number.
pub(super) fn ok(n: u64, value: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Frame<'a, T> {
        n: u64,
        ok: &'a T,
    }
    // Only a bug in one of our own Serialize types could fail here.
    serde_json::to_string(&Frame { n, ok: value }).unwrap_or_default()
}

/// Returns the result of a commit.
pub(super) fn commit_result(space: &Space, receipt: &Receipt) -> Value {
    let generations = &space.published().generations;
    let results: Vec<_> =
        receipt.results.iter().map(|result| OperationResult::new(generations, result)).collect();
    json!({"seq": receipt.effective_seq().map(|seq| seq.0), "results": results})
}

/// Returns the frame about work that is no longer needed.
pub(super) fn holder_event(space: &Space, event: &HolderEvent) -> String {
    let frame = match event {
        HolderEvent::TaskLost { task, token, loss, reason } => {
            let code = match loss {
                LeaseLoss::Cancelled => Code::Cancelled,
                LeaseLoss::TimedOut => Code::Timeout,
                LeaseLoss::LeaseExpired | LeaseLoss::HolderGone => Code::StaleLease,
            };
            let (task, code, reason) = (task.clone(), code.as_str().to_owned(), reason.clone());
            json!({"taskLost": LostTask { task, lease_token: *token, code, reason }})
        }
        HolderEvent::RequestEnded { request, delivery, code } => {
            let delivery = space.published().generations.delivery_id(*delivery);
            let ended = RequestEnd { delivery, request: *request, code: *code };
            json!({"requestEnded": EndedRequest::from(&ended)})
        }
    };
    frame.to_string()
}

/// Returns an error reply; without a number the error concerns the connection, which is closed.
pub(super) fn problem(n: Option<u64>, problem: &Problem) -> String {
    let text = problem.to_text();
    match n {
        Some(n) => format!("{{\"n\":{n},\"problem\":{text}}}"),
        None => format!("{{\"problem\":{text}}}"),
    }
}

/// Returns the reply to hello.
pub(super) fn welcome(session: &Session, agent: Option<&AgentId>, resumed: usize, lease_ms: u64) -> String {
    let head = session.space.published().head;
    let hash = quorate_core::hex::encode(&head.hash);
    let timeouts = session.app.settings().timeouts;
    json!({"welcome": {
        "head": {"seq": head.seq.0, "hash": hash, "at": time::format(head.at)},
        "agent": agent.map(AgentId::as_str),
        "epoch": session.epoch.map(|epoch| epoch.0),
        "resumed": resumed,
        "limits": {
            "frameBytes": session.frame_bytes_max(),
            "batchMessages": BATCH_MESSAGES_MAX,
            "batchBytes": BATCH_BYTES_MAX,
            "inHand": UNSENT_MAX,
            "numbers": DELIVERY_NUMBERS_MAX,
            "requests": REQUESTS_MAX,
            "leaseMs": lease_ms,
            "readWithinMs": timeouts.write.as_millis() as u64,
            "pingMs": timeouts.ping.as_millis() as u64,
        },
    }})
    .to_string()
}
