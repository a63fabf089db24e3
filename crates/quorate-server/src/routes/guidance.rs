//! Guidance: a person's sentence that agents read on their next run. It is written down in the shared memory, noted in the
//! session, and told to those whom it is for, in one commit.

use axum::extract::Path;
use quorate_core::{
    AddKind, AddToSession, Destination, Key, Message, MessageType, Op, OpResult, Payload, PutEntry, Receipt,
    Session, SessionId,
};
use quorate_engine::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Route, post, words};
use crate::body;
use crate::call::{Answer, Call, ok};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/sessions/{id}/guidance", "sessions.guide", "Tells agents what to heed from now on.")
            .path::<words::Id>("id")
            .body::<GuidanceIn>()
            .answers::<GuidanceOut>(200, "It is written down, and those whom it is for are told.")
            .to(guide),
    ]
}

/// A person's sentence.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewGuidance")]
struct GuidanceIn {
    #[schemars(with = "words::Sentence")]
    text: String,
    /// For whom; everybody who takes part, if nothing is said.
    #[serde(default)]
    #[schemars(length(max = 256), with = "Vec<words::Id>")]
    to: Vec<String>,
}

/// What guidance came to.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Guidance")]
struct GuidanceOut {
    seq: Option<u64>,
    /// Where it is to be read: an entry of the shared memory, whose history is all guidance of the session.
    key: String,
    version: Option<u64>,
    /// The message that tells of it; `null` if there is nobody to be told.
    message: Option<String>,
}

/// What is written down.
#[derive(Serialize)]
struct Guidance<'a> {
    guidance: &'a str,
    to: &'a [String],
}

pub(crate) async fn guide(Path(id): Path<String>, call: Call) -> Answer {
    let id = SessionId::new(id)?;
    let key = Key::new(format!("sessions/{id}/guidance"))?;
    let said: GuidanceIn = body::parse(&call.body)?;
    let receipt = match call.answered().await? {
        Some(receipt) => receipt,
        None => told(&call, &id, &key, said).await?,
    };
    let (mut version, mut message) = (None, None);
    for result in &receipt.results {
        match result {
            OpResult::Written { version: now } => version = Some(now.0),
            OpResult::Sent { id, .. } => message = Some(id.to_string()),
            _ => {}
        }
    }
    ok(&GuidanceOut { seq: receipt.seq.map(|seq| seq.0), key: key.to_string(), version, message })
}

/// Writes it down and tells it to those whom it is for: if nobody is named, to those who take part now.
async fn told(call: &Call, id: &SessionId, key: &Key, said: GuidanceIn) -> Result<Receipt, Error> {
    let session: Session = call.space.item(id).await?;
    let GuidanceIn { text, mut to } = said;
    if to.is_empty() {
        let there = session.participants.iter().filter(|one| one.left_at.is_none());
        let others = there.map(|one| &one.agent).filter(|agent| call.by() != Some(agent));
        to = others.map(ToString::to_string).collect();
    }
    let said = Guidance { guidance: &text, to: &to };
    let note = AddToSession {
        session: session.id.clone(),
        kind: AddKind::Note,
        body: sealed(call, &said),
        content_type: None,
        rationale: String::new(),
    };
    let entry = PutEntry {
        key: key.clone(),
        entry_type: "guidance".to_owned(),
        content: sealed(call, &said),
        content_type: None,
        expect: None,
        depends_on: Vec::new(),
        fence: None,
    };
    let mut ops = vec![Op::Put(entry), Op::AddToSession(note)];
    if !to.is_empty() {
        let payload = sealed(call, &said);
        let mut message = Message::new(Destination::of_texts(to.clone())?, "guidance".to_owned(), payload);
        // A person speaks through whoever leads the session.
        message.from = call.by().cloned().or_else(|| session.coordinator.clone());
        message.kind = MessageType::Event;
        message.session_id = Some(session.id.to_string());
        ops.push(Op::send(message));
    }
    call.commit_asked(ops).await
}

fn sealed(call: &Call, said: &Guidance<'_>) -> Payload {
    call.space.seal(serde_json::to_vec(said).unwrap_or_default())
}
