//! `quorate msg list`: messages, the inbox or outbox of an agent, and dead letters.

use clap::Args;
use serde_json::json;

use crate::hub::{Hub, PageArgs, percent_encode};
use crate::output::{
    Column, ListResponse, OutputArgs, OutputFormat, Table, cells, field, format_time, parse_response,
    payload_line,
};
use crate::terminal;

/// Arguments of `quorate msg list`.
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// Open deliveries in the inbox of this agent.
    #[arg(long, value_name = "AGENT", conflicts_with = "from")]
    to: Option<String>,
    /// Messages sent by this agent, newest first.
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// Dead letters; with --to, only of that agent.
    #[arg(long, conflicts_with = "from")]
    dead: bool,
    #[command(flatten)]
    page: PageArgs,
}

const MESSAGES: &[Column] = &[
    ("ID", |message| field(message, "id")),
    ("AT", |message| format_time(&message["timestamp"])),
    ("FROM", |message| field(message, "from")),
    ("TO", |message| field(message, "to")),
    ("ACTION", |message| field(message, "action")),
    ("PAYLOAD", |message| payload_line(&message["payload"])),
];

const INBOX: &[Column] = &[
    ("DELIVERY", |row| field(&row["item"], "deliveryId")),
    ("MESSAGE", |row| field(&row["item"], "messageId")),
    ("ATTEMPTS", |row| field(&row["item"], "attempt")),
    ("LEASED UNTIL", |row| format_time(&row["item"]["leaseUntil"])),
    ("FROM", |row| field(&row["message"], "from")),
    ("ACTION", |row| field(&row["message"], "action")),
    ("PAYLOAD", |row| payload_line(&row["message"]["payload"])),
];

const OUTBOX: &[Column] = &[
    ("MESSAGE", |row| field(&row["item"], "messageId")),
    ("AT", |row| format_time(&row["message"]["timestamp"])),
    ("TO", |row| field(&row["message"], "to")),
    ("ACTION", |row| field(&row["message"], "action")),
    ("PAYLOAD", |row| payload_line(&row["message"]["payload"])),
];

const DEAD: &[Column] = &[
    ("DELIVERY", |row| field(row, "deliveryId")),
    ("MESSAGE", |row| field(row, "messageId")),
    ("AGENT", |row| field(row, "agent")),
    ("ATTEMPTS", |row| field(row, "attempts")),
    ("AT", |row| format_time(&row["at"])),
    ("REASON", |row| field(row, "reason")),
];

pub(super) async fn run(hub: &Hub, output: &OutputArgs, args: ListArgs) -> anyhow::Result<()> {
    let ListArgs { to, from, dead, page } = args;
    let mailbox_path = |agent: &str, mailbox: &str| format!("/v1/agents/{}/{mailbox}", percent_encode(agent));
    let (path, name, columns, ids_only) = match (&to, &from, dead) {
        (_, _, true) => ("/v1/dead-letters".to_owned(), "deadLetters", DEAD, false),
        (Some(agent), _, _) => (mailbox_path(agent, "inbox"), "deliveries", INBOX, true),
        (_, Some(agent), _) => (mailbox_path(agent, "outbox"), "messages", OUTBOX, true),
        (None, None, false) => ("/v1/messages".to_owned(), "messages", MESSAGES, false),
    };
    let query = [("agent", to.filter(|_| dead)), ("limit", page.limit()), ("cursor", page.cursor())];
    let response = hub.get(&path, &query).await?;
    if !ids_only {
        return output.list(&response, name, columns);
    }
    // Inbox and outbox contain only ids, so the messages are fetched as well.
    let listed = ListResponse::parse(&response, name)?;
    let mut table = Table::new(columns.iter().map(|column| column.0));
    let mut documents = Vec::new();
    for (raw, item) in listed.items.iter().zip(listed.values()) {
        let path = format!("/v1/messages/{}", percent_encode(&field(&item, "messageId")));
        // The permission to list a mailbox does not include every message in it.
        let message = hub.get(&path, &[]).await.unwrap_or_else(|_| "null".to_owned());
        let row = json!({"item": item, "message": parse_response(&message)?});
        table.row(cells(columns, &row));
        let unclosed = raw.get().trim_end().trim_end_matches('}');
        documents.push(format!("{unclosed},\"message\":{message}}}"));
    }
    match output.format() {
        OutputFormat::Json => {
            let cursor = json!(listed.cursor);
            let document = format!("{{\"{name}\":[{}],\"cursor\":{cursor}}}", documents.join(","));
            terminal::print(terminal::sanitize_json(&document));
            return Ok(());
        }
        OutputFormat::Jsonl => {
            documents.iter().for_each(|document| terminal::print(terminal::sanitize_json(document)))
        }
        format => table.print(format),
    }
    if documents.is_empty() {
        terminal::note("no messages");
    }
    listed.cursor.iter().for_each(|cursor| terminal::note(format!("more results: --cursor {cursor}")));
    Ok(())
}
