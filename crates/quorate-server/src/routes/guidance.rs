//! Guidance: an instruction by a person that agents read on their next run. One commit writes it to the shared
//! memory, adds a note to the session, and sends it to its recipients.

use axum::extract::Path;
use quorate_api::guidance::{Guidance, NewGuidance};
use quorate_core::{
    AddToSession, ContributionKind, Destination, Key, Message, MessageType, Op, OpResult, Payload, PutEntry,
    Receipt, Session, SessionId,
};
use quorate_engine::Error;
use serde::Serialize;

use crate::api::{Route, post, schema};
use crate::body;
use crate::call::{ApiResult, Call, ok_response};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/sessions/{id}/guidance", "sessions.guide", "Give guidance to the agents of a session.")
            .path_parameter::<schema::Id>("id", "Session ID.")
            .request_body::<NewGuidance>()
            .returns::<Guidance>(200, "The guidance is stored and sent to its recipients.")
            .handled_by(guide),
    ]
}

/// Stored content.
#[derive(Serialize)]
struct GuidanceContent<'a> {
    guidance: &'a str,
    to: &'a [String],
}

pub(crate) async fn guide(Path(id): Path<String>, call: Call) -> ApiResult {
    let id = SessionId::new(id)?;
    let key = Key::new(format!("sessions/{id}/guidance"))?;
    let guidance: NewGuidance = body::parse(&call.body)?;
    let receipt = match call.replayed_receipt().await? {
        Some(receipt) => receipt,
        None => commit_guidance(&call, &id, &key, guidance).await?,
    };
    let (mut version, mut message) = (None, None);
    for result in &receipt.results {
        match result {
            OpResult::Written { version: new_version } => version = Some(new_version.0),
            OpResult::Sent { id, .. } => message = Some(id.to_string()),
            _ => {}
        }
    }
    ok_response(&Guidance { seq: receipt.seq.map(|seq| seq.0), key: key.to_string(), version, message })
}

/// Stores the guidance and sends it to its recipients, by default to the current participants.
async fn commit_guidance(
    call: &Call,
    id: &SessionId,
    key: &Key,
    guidance: NewGuidance,
) -> Result<Receipt, Error> {
    let session: Session = call.space.item(id).await?;
    let NewGuidance { text, mut to } = guidance;
    if to.is_empty() {
        let active = session.participants.iter().filter(|participant| participant.left_at.is_none());
        let others =
            active.map(|participant| &participant.agent).filter(|agent| call.calling_agent() != Some(agent));
        to = others.map(ToString::to_string).collect();
    }
    let guidance = GuidanceContent { guidance: &text, to: &to };
    let note = AddToSession {
        session: session.id.clone(),
        kind: ContributionKind::Note,
        body: seal(call, &guidance),
        content_type: None,
        rationale: String::new(),
    };
    let entry = PutEntry {
        key: key.clone(),
        entry_type: "guidance".to_owned(),
        content: seal(call, &guidance),
        content_type: None,
        expect: None,
        depends_on: Vec::new(),
        fence: None,
    };
    let mut ops = vec![Op::Put(entry), Op::AddToSession(note)];
    if !to.is_empty() {
        let payload = seal(call, &guidance);
        let mut message = Message::new(Destination::from_texts(to.clone())?, "guidance".to_owned(), payload);
        // Guidance of a person is sent in the name of the session's coordinator.
        message.from = call.calling_agent().cloned().or_else(|| session.coordinator.clone());
        message.kind = MessageType::Event;
        message.session_id = Some(session.id.to_string());
        ops.push(Op::send(message));
    }
    call.commit_for_request(ops).await
}

fn seal(call: &Call, guidance: &GuidanceContent<'_>) -> Payload {
    call.space.seal(serde_json::to_vec(guidance).unwrap_or_default())
}
