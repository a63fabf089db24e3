//! `quorate msg`: sends, receives, answers and lists messages, and redrives dead letters. Listing does not lease deliveries.

pub(crate) mod compose;
mod list;
mod receive;
mod reply;
mod settle;

use clap::{Args, Subcommand};
use quorate_core::limits::OPS_MAX;
use serde_json::{Value, json};

use crate::exit::{CommandError, NOT_FOUND};
use crate::hub::{DryRunArgs, Hub, HubArgs, Method, Resource, percent_encode};
use crate::output::{Details, OutputArgs, field, format_time, parse_response, payload_text, print_raw_field};
use crate::terminal;
use crate::token::parse_time;
use crate::why;

/// Arguments of `quorate msg`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate msg send --to bob 'hello'")]
pub(crate) struct MsgArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: MsgVerb,
}

#[derive(Subcommand, Debug)]
enum MsgVerb {
    /// Send a message, and print its id once it is durable. [rw]
    #[command(after_help = "Example: quorate msg send --to bob --action review --value '{\"file\":\"a.md\"}'

--to takes an agent (can be repeated), topic:NAME, role:NAME, can:CAPABILITY, or '*' for all agents. \
TEXT can be read from stdin:

  git log -1 | quorate msg send --to bob -")]
    Send(Box<SendArgs>),
    /// Receive messages: claim deliveries of your inbox under a lease. [rw]
    Receive(receive::ReceiveArgs),
    /// Answer a received message and ack it, in one commit. [rw]
    Reply(Box<reply::ReplyArgs>),
    /// Ack a received message: it is done and is not redelivered. [rw]
    Ack(settle::AckArgs),
    /// Nack a received message: return it for redelivery, or as a dead letter. [rw]
    Nack(settle::NackArgs),
    /// Extend the lease of a received message. [rw]
    Extend(settle::ExtendArgs),
    /// List messages, the inbox or outbox of an agent, or dead letters. [ro]
    #[command(after_help = "Example: quorate msg list --to bob")]
    List(list::ListArgs),
    /// Show a message and the state of its deliveries. [ro]
    #[command(after_help = "Example: quorate msg show @last

--payload prints only the payload; to a file or a pipe byte for byte as it was sent (a JSON string \
without its quotes).")]
    Show {
        /// Message id, a unique prefix of it, the client id given with `msg send --id`, or @last.
        id: String,
        /// Print only the payload.
        #[arg(long)]
        payload: bool,
    },
    /// Explain the state of a message: what it waits for, and what happens next. [ro]
    #[command(after_help = "Example: quorate msg why @last")]
    Why {
        /// Message id, a unique prefix of it, or @last.
        id: String,
    },
    /// Redrive a dead letter: return it to its inbox with a full set of attempts. [rw]
    #[command(after_help = "Example: quorate msg redrive dlv_1-3

With a message id, all dead deliveries of the message are redriven.")]
    Redrive {
        /// Delivery id, as listed by `msg list --dead`, or message id.
        id: String,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
}

#[derive(Args, Debug)]
struct SendArgs {
    #[command(flatten)]
    message: compose::MessageArgs,
    /// Message that this one answers.
    #[arg(long, value_name = "ID")]
    in_reply_to: Option<String>,
    /// Earliest delivery: 90s, 15m, 12h or 30d from now, or a time such as 2026-01-31T09:30:00Z.
    #[arg(long, value_name = "WHEN")]
    deliver_at: Option<String>,
    /// Expiry, in the same format.
    #[arg(long, value_name = "WHEN")]
    expires_at: Option<String>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

pub(crate) async fn run(args: MsgArgs) -> anyhow::Result<()> {
    let MsgArgs { hub, output, verb } = args;
    let hub = hub.open_with_output(&output)?;
    match verb {
        MsgVerb::Send(args) => send(&hub, &output, *args).await,
        MsgVerb::Receive(args) => receive::run(&hub, &output, args).await,
        MsgVerb::Reply(args) => reply::run(&hub, &output, *args).await,
        MsgVerb::Ack(args) => settle::ack(&hub, &output, args).await,
        MsgVerb::Nack(args) => settle::nack(&hub, &output, args).await,
        MsgVerb::Extend(args) => settle::extend(&hub, &output, args).await,
        MsgVerb::List(args) => list::run(&hub, &output, args).await,
        MsgVerb::Show { id, payload } => {
            let response = hub.get(&path_of(&hub, &id).await?, &[]).await?;
            if payload {
                output.reject_with("--payload")?;
                return print_raw_field(&response, "payload");
            }
            output.item(&response, || Ok(details(&parse_response(&response)?)))
        }
        MsgVerb::Why { id } => {
            let path = path_of(&hub, &id).await?;
            why::show(&hub.get(&format!("{path}/why"), &[]).await?, &output)
        }
        MsgVerb::Redrive { id, dry_run } => redrive(&hub, &output, &id, dry_run).await,
    }
}

async fn path_of(hub: &Hub, id: &str) -> anyhow::Result<String> {
    Ok(format!("/v1/messages/{}", percent_encode(&hub.resolve_id(Resource::Message, id).await?)))
}

async fn send(hub: &Hub, output: &OutputArgs, args: SendArgs) -> anyhow::Result<()> {
    let to = args.message.to.join(", ");
    let body = args
        .message
        .into_fields()?
        .set_if_some("inReplyTo", args.in_reply_to)?
        .set_if_some("deliverAt", args.deliver_at.as_deref().map(parse_time).transpose()?)?
        .set_if_some("expiresAt", args.expires_at.as_deref().map(parse_time).transpose()?)?;
    let response = hub.write(args.dry_run, (Method::Post, "/v1/messages"), Some(body.to_json())).await?;
    let Some(response) = response else { return Ok(()) };
    let sent = parse_response(&response)?;
    let receipt = &sent["receipts"][0];
    if receipt["received"] == true {
        output.done(&response, "stored as a conduct flag; only moderators can read it");
        return Ok(());
    }
    let count = receipt["deliveries"].as_array().map_or(0, Vec::len);
    let deliveries = if count == 1 { "1 delivery".to_owned() } else { format!("{count} deliveries") };
    let message = format!("stored as record {}, {deliveries} for {to}", receipt["seq"]);
    output.created(&response, &field(receipt, "id"), &message);
    if count == 0 {
        terminal::note(
            "no agent receives it: there is no subscriber to the topic, or no agent with the role",
        );
    }
    Ok(())
}

async fn redrive(hub: &Hub, output: &OutputArgs, id: &str, dry_run: DryRunArgs) -> anyhow::Result<()> {
    if id.starts_with("dlv_") {
        let path = format!("/v1/dead-letters/{}/redrive", percent_encode(id));
        let response = hub.write(dry_run, (Method::Post, &path), None).await?;
        response.iter().for_each(|response| output.done(response, &format!("redriven: {id}")));
        return Ok(());
    }
    // One commit, so that all or none are redriven.
    let dead = dead_deliveries(hub, id).await?;
    let redriven = &dead[..dead.len().min(OPS_MAX)];
    let ops: Vec<Value> =
        redriven.iter().map(|delivery_id| json!({"op": "redrive", "deliveryId": delivery_id})).collect();
    let body = json!({ "ops": ops }).to_string();
    let Some(response) = hub.write(dry_run, (Method::Post, "/v1/commit"), Some(body)).await? else {
        return Ok(());
    };
    output.done(&response, &format!("redriven: {}", redriven.join(", ")));
    if redriven.len() < dead.len() {
        terminal::note(format!(
            "{} more dead deliveries: run the command again",
            dead.len() - redriven.len()
        ));
    }
    Ok(())
}

/// Returns the dead deliveries of a message.
async fn dead_deliveries(hub: &Hub, id: &str) -> anyhow::Result<Vec<String>> {
    let message = hub.get_json(&path_of(hub, id).await?, &[]).await?;
    let all = message["deliveries"].as_array().map_or(&[][..], Vec::as_slice);
    let dead: Vec<String> = all
        .iter()
        .filter(|delivery| delivery["state"] == "dead")
        .map(|delivery| field(delivery, "deliveryId"))
        .collect();
    if dead.is_empty() {
        let message = format!("{} has no dead delivery", terminal::sanitize_line(id));
        return Err(CommandError::new(
            NOT_FOUND,
            message,
            "run `quorate msg list --dead` to list dead letters",
        )
        .into());
    }
    Ok(dead)
}

fn details(message: &Value) -> Details {
    let text = |name| field(message, name);
    let states = message["deliveries"].as_array().map_or(&[][..], Vec::as_slice).iter().map(|delivery| {
        let attempt = delivery["attempt"].as_u64().filter(|attempt| *attempt > 0);
        let attempt = attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
        let due = Some(format_time(&delivery["due"])).filter(|due| !due.is_empty());
        let due = due.map(|due| format!(", due {due}")).unwrap_or_default();
        let reason = Some(field(delivery, "reason")).filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let agent = Some(field(delivery, "agent")).filter(|agent| !agent.is_empty());
        let agent = agent.unwrap_or_else(|| "unassigned".to_owned());
        format!(
            "{} {agent}: {}{reason}{attempt}{due}",
            field(delivery, "deliveryId"),
            field(delivery, "state")
        )
    });
    Details::default()
        .add("id", text("id"))
        .add("sender's id", text("clientId"))
        .add("at", format_time(&message["timestamp"]))
        .add("from", if message["from"].is_null() { "the hub".to_owned() } else { text("from") })
        .add("to", text("to"))
        .add("type", text("type"))
        .add("action", text("action"))
        .add("priority", priority_name(&message["priority"]))
        .add("origin", text("origin"))
        .add("session", text("sessionId"))
        .add("in reply to", text("inReplyTo"))
        .add("confidence", text("confidence"))
        .add("rationale", text("rationale"))
        .add("trace", text("traceparent"))
        .add("deliver at", format_time(&message["deliverAt"]))
        .add("expires at", format_time(&message["expiresAt"]))
        .add("deliveries", states.collect::<Vec<_>>().join("\n"))
        .add("payload", payload_text(&message["payload"]))
}

/// Returns the name of a priority.
pub(crate) fn priority_name(level: &Value) -> String {
    let names = ["low", "normal", "high", "urgent"];
    let name = level.as_u64().and_then(|level| names.get(usize::try_from(level).ok()?));
    name.map_or_else(|| level.to_string(), |name| (*name).to_owned())
}
