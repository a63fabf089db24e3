//! `quorate msg receive`: claims deliveries of an inbox under a lease.

use clap::Args;
use serde_json::Value;

use crate::hub::{ActingAgentArgs, ClaimArgs, Hub, percent_encode};
use crate::output::{Column, ListResponse, OutputArgs, OutputFormat, field, or_dash, payload_line};
use crate::terminal;

/// Arguments of `quorate msg receive`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate msg receive --wait 60s --json

Each delivery is leased for 30 s by default. Answer it with `msg reply`, finish it with `msg ack`, or return it with `msg nack`, before the lease ends; `msg extend` extends it. If the lease ends, the message is redelivered. It is no error if there is no message: the list is empty.

The first columns are those that the other commands take: with --format compact, `read -r delivery lease message rest` reads them. Columns are shortened to 500 characters; the complete payload: quorate msg show MESSAGE --payload")]
pub(super) struct ReceiveArgs {
    #[command(flatten)]
    agent: ActingAgentArgs,
    #[command(flatten)]
    claim: ClaimArgs,
}

// The first columns are never empty, so that a shell can split the lines of `--format compact`.
const COLUMNS: &[Column] = &[
    ("DELIVERY", |row| or_dash(field(row, "deliveryId"))),
    ("LEASE", |row| or_dash(field(row, "leaseToken"))),
    ("MESSAGE", |row| field(&row["message"], "id")),
    ("FROM", |row| or_dash(field(&row["message"], "from"))),
    ("TYPE", |row| field(&row["message"], "type")),
    ("ACTION", |row| or_dash(field(&row["message"], "action"))),
    ("ATTEMPT", |row| field(row, "attempt")),
    ("PAYLOAD", |row| payload_line(&row["message"]["payload"])),
];

pub(super) async fn run(hub: &Hub, output: &OutputArgs, args: ReceiveArgs) -> anyhow::Result<()> {
    let agent = args.agent.resolve(hub).await?;
    let path = format!("/v1/agents/{}/inbox/claim", percent_encode(&agent));
    let response = args.claim.claim(hub, (&path, "deliveries"), || Ok(Default::default())).await?;
    let Some(response) = response else { return Ok(()) };
    output.list(&response, "deliveries", COLUMNS)?;
    if output.format() == OutputFormat::Table {
        let first = ListResponse::parse(&response, "deliveries")?.values().into_iter().next();
        first.iter().for_each(|delivery| print_next(delivery, args.agent.named()));
    }
    Ok(())
}

/// Prints the commands that settle a delivery.
fn print_next(delivery: &Value, agent: Option<&str>) {
    let (id, lease) = (field(delivery, "deliveryId"), field(delivery, "leaseToken"));
    if lease.is_empty() {
        return;
    }
    let option = agent.map_or(String::new(), |agent| format!(" --agent {agent}"));
    let lines = format!(
        "answer it:  quorate msg reply {id} {lease} TEXT{option}\nfinish it:  quorate msg ack {id} {lease}{option}"
    );
    terminal::note(terminal::sanitize(&lines));
}
