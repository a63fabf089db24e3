//! `quorate msg list`: what waits for somebody, what somebody sent, what was given up.

use clap::Args;
use serde_json::json;

use crate::hub::{Hub, Page, segment};
use crate::shape::{Column, Format, Listed, Shape, Table, cells, field, plain, read, time};
use crate::text;

/// Which messages.
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// What lies in this agent's inbox and has not ended.
    #[arg(long, value_name = "AGENT", conflicts_with = "from")]
    to: Option<String>,
    /// What this agent sent, newest first.
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// What was given up: dead letters; with --to, of that agent.
    #[arg(long, conflicts_with = "from")]
    dead: bool,
    #[command(flatten)]
    page: Page,
}

const MESSAGES: &[Column] = &[
    ("ID", |message| field(message, "id")),
    ("AT", |message| time(&message["timestamp"])),
    ("FROM", |message| field(message, "from")),
    ("TO", |message| field(message, "to")),
    ("ACTION", |message| field(message, "action")),
    ("PAYLOAD", |message| plain(&message["payload"])),
];

const INBOX: &[Column] = &[
    ("DELIVERY", |letter| field(&letter["item"], "deliveryId")),
    ("MESSAGE", |letter| field(&letter["item"], "messageId")),
    ("TRIES", |letter| field(&letter["item"], "attempt")),
    ("HELD UNTIL", |letter| time(&letter["item"]["leaseUntil"])),
    ("FROM", |letter| field(&letter["message"], "from")),
    ("ACTION", |letter| field(&letter["message"], "action")),
    ("PAYLOAD", |letter| plain(&letter["message"]["payload"])),
];

const OUTBOX: &[Column] = &[
    ("MESSAGE", |letter| field(&letter["item"], "messageId")),
    ("AT", |letter| time(&letter["message"]["timestamp"])),
    ("TO", |letter| field(&letter["message"], "to")),
    ("ACTION", |letter| field(&letter["message"], "action")),
    ("PAYLOAD", |letter| plain(&letter["message"]["payload"])),
];

const DEAD: &[Column] = &[
    ("DELIVERY", |letter| field(letter, "deliveryId")),
    ("MESSAGE", |letter| field(letter, "messageId")),
    ("AGENT", |letter| field(letter, "agent")),
    ("TRIES", |letter| field(letter, "attempts")),
    ("AT", |letter| time(&letter["at"])),
    ("REASON", |letter| field(letter, "reason")),
];

pub(super) async fn run(hub: &Hub, shape: &Shape, args: ListArgs) -> anyhow::Result<()> {
    let ListArgs { to, from, dead, page } = args;
    let of = |agent: &str, what: &str| format!("/v1/agents/{}/{what}", segment(agent));
    let (path, name, columns, letters) = match (&to, &from, dead) {
        (_, _, true) => ("/v1/dead-letters".to_owned(), "deadLetters", DEAD, false),
        (Some(agent), _, _) => (of(agent, "inbox"), "deliveries", INBOX, true),
        (_, Some(agent), _) => (of(agent, "outbox"), "messages", OUTBOX, true),
        (None, None, false) => ("/v1/messages".to_owned(), "messages", MESSAGES, false),
    };
    let query = [("agent", to.filter(|_| dead)), ("limit", page.limit()), ("cursor", page.cursor())];
    let answer = hub.get(&path, &query).await?;
    if !letters {
        return shape.list(&answer, name, columns);
    }
    // Boxes hold ids only; people and programs want to see what is in the letters.
    let listed = Listed::read(&answer, name)?;
    let mut table = Table::new(columns.iter().map(|column| column.0));
    let mut documents = Vec::new();
    for (raw, item) in listed.items.iter().zip(listed.values()) {
        let path = format!("/v1/messages/{}", segment(&field(&item, "messageId")));
        // Whoever may look into a box may not look at every letter in it.
        let message = hub.get(&path, &[]).await.unwrap_or_else(|_| "null".to_owned());
        let letter = json!({"item": item, "message": read(&message)?});
        table.row(cells(columns, &letter));
        let open = raw.get().trim_end().trim_end_matches('}');
        documents.push(format!("{open},\"message\":{message}}}"));
    }
    match shape.format() {
        Format::Json => {
            let cursor = json!(listed.cursor);
            let all = format!("{{\"{name}\":[{}],\"cursor\":{cursor}}}", documents.join(","));
            text::print(text::clean_json(&all));
            return Ok(());
        }
        Format::Jsonl => documents.iter().for_each(|one| text::print(text::clean_json(one))),
        format => table.print(format),
    }
    if documents.is_empty() {
        text::say("no messages");
    }
    listed.cursor.iter().for_each(|cursor| text::say(format!("there are more: --cursor {cursor}")));
    Ok(())
}
