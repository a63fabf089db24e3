//! `quorate msg ack`, `msg nack` and `msg extend`: end or extend the lease of a delivery.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::exit::{CONFLICT, CommandError};
use crate::hub::{ActingAgentArgs, DryRunArgs, Hub, JsonFields, Method, percent_encode};
use crate::output::{ListResponse, OutputArgs, field, parse_response};
use crate::terminal;
use crate::token::parse_duration;

/// Maximum number of pages of an inbox to search for a delivery.
const PAGES_MAX: usize = 20;

/// A leased delivery.
#[derive(Args, Clone, Debug)]
pub(super) struct LeaseArgs {
    /// Delivery id, as printed by `msg receive`, or the id of its message.
    pub(super) id: String,
    /// Lease token, as printed by `msg receive`.
    pub(super) lease: u64,
    #[command(flatten)]
    pub(super) agent: ActingAgentArgs,
}

/// Arguments of `quorate msg ack`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate msg ack dlv_0-7 3

The exit code is 5 if the lease has ended: the message has been redelivered, or will be.")]
pub(super) struct AckArgs {
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// Arguments of `quorate msg nack`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate msg nack dlv_0-7 3 --reason 'disk full' --delay 10s")]
pub(super) struct NackArgs {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Reason, for the log and for a dead letter.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Delay before the redelivery: 500ms, 90s, 15m or 12h.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with_all = ["permanent", "untried"])]
    delay: Option<Duration>,
    /// Processing was not attempted: the attempt does not count.
    #[arg(long, conflicts_with = "permanent")]
    untried: bool,
    /// Another attempt would not help: the delivery becomes a dead letter.
    #[arg(long)]
    permanent: bool,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// Arguments of `quorate msg extend`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate msg extend dlv_0-7 3 --lease 5m

The exit code is 5 if the lease has ended, for example because the request was cancelled: stop working on it.")]
pub(super) struct ExtendArgs {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Duration of the lease from now: 500ms, 90s, 15m or 12h; 30 s by default.
    #[arg(long = "lease", id = "duration", value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

pub(super) async fn ack(hub: &Hub, output: &OutputArgs, args: AckArgs) -> anyhow::Result<()> {
    let lease = Lease::find(hub, &args.lease).await?;
    let fields = lease.fields()?;
    lease.settle(hub, output, ("ack", "acked"), fields, args.dry_run).await
}

pub(super) async fn nack(hub: &Hub, output: &OutputArgs, args: NackArgs) -> anyhow::Result<()> {
    let lease = Lease::find(hub, &args.lease).await?;
    let fields = lease
        .fields()?
        .set_if_some("delayMs", args.delay.map(|delay| delay.as_millis()))?
        .set_if_some("reason", args.reason)?
        .set_if_some("untried", args.untried.then_some(true))?
        .set_if_some("hopeless", args.permanent.then_some(true))?;
    lease.settle(hub, output, ("nack", "nacked"), fields, args.dry_run).await
}

pub(super) async fn extend(hub: &Hub, output: &OutputArgs, args: ExtendArgs) -> anyhow::Result<()> {
    let lease = Lease::find(hub, &args.lease).await?;
    let duration = args.duration.map(|duration| duration.as_millis());
    let fields = lease.fields()?.set_if_some("leaseMs", duration)?;
    lease.settle(hub, output, ("extend", "extended the lease of"), fields, args.dry_run).await
}

/// A delivery with its lease token and its agent.
pub(super) struct Lease {
    pub(super) agent: String,
    pub(super) delivery: String,
    token: u64,
}

impl Lease {
    /// Finds the delivery that the command line names.
    async fn find(hub: &Hub, args: &LeaseArgs) -> anyhow::Result<Self> {
        let agent = args.agent.resolve(hub).await?;
        let delivery = match args.id.starts_with("dlv_") {
            true => args.id.clone(),
            false => delivery_of(&message(hub, &args.id).await?, &agent)?,
        };
        Ok(Self { agent, delivery, token: args.lease })
    }

    /// Same as [`Lease::find`], with the message.
    pub(super) async fn find_with_message(hub: &Hub, args: &LeaseArgs) -> anyhow::Result<(Self, Value)> {
        let agent = args.agent.resolve(hub).await?;
        let message = match args.id.starts_with("dlv_") {
            true => message(hub, &message_of(hub, &agent, &args.id).await?).await?,
            false => message(hub, &args.id).await?,
        };
        let delivery = delivery_of(&message, &agent)?;
        Ok((Self { agent, delivery, token: args.lease }, message))
    }

    /// Returns the fields that name the lease in a request.
    pub(super) fn fields(&self) -> anyhow::Result<JsonFields> {
        JsonFields::default().set("deliveryId", &self.delivery)?.set("leaseToken", self.token)
    }

    /// Calls the inbox of the agent.
    async fn settle(
        &self,
        hub: &Hub,
        output: &OutputArgs,
        (call, done): (&str, &str),
        fields: JsonFields,
        dry_run: DryRunArgs,
    ) -> anyhow::Result<()> {
        let path = format!("/v1/agents/{}/inbox/{call}", percent_encode(&self.agent));
        let body = format!("{{\"deliveries\":[{}]}}", fields.to_json());
        let response = hub.write(dry_run, (Method::Post, &path), Some(body)).await?;
        let Some(response) = response else { return Ok(()) };
        if let Some(ended) = parse_response(&response)?["endedRequests"].get(0) {
            return Err(self.request_ended(ended).into());
        }
        output.done(&response, &format!("{done} {}", self.delivery));
        Ok(())
    }

    /// Returns the error for a delivery that ended together with its request.
    fn request_ended(&self, ended: &Value) -> CommandError {
        let request = terminal::sanitize_line(&field(ended, "messageId"));
        let code = terminal::sanitize_line(&field(ended, "code"));
        let message = format!(
            "lease {} of {} has ended: request {request} ended with {code}",
            self.token, self.delivery
        );
        CommandError::new(CONFLICT, message, "discard this work: its answer is not needed".to_owned())
    }
}

async fn message(hub: &Hub, id: &str) -> anyhow::Result<Value> {
    hub.get_json(&format!("/v1/messages/{}", percent_encode(id)), &[]).await
}

/// Returns the open delivery of a message for this agent.
fn delivery_of(message: &Value, agent: &str) -> anyhow::Result<String> {
    let is_open = |delivery: &&Value| {
        delivery["agent"] == agent
            && ["leased", "ready", "scheduled"].iter().any(|state| delivery["state"] == *state)
    };
    let delivery = message["deliveries"].as_array().and_then(|all| all.iter().find(is_open));
    delivery.map(|delivery| field(delivery, "deliveryId")).ok_or_else(|| {
        let id = terminal::sanitize_line(&field(message, "id"));
        let hint = format!("see the state of its deliveries: quorate msg show {id}");
        CommandError::new(CONFLICT, format!("{id} has no open delivery for {agent}"), hint).into()
    })
}

/// Returns the message of an open delivery.
async fn message_of(hub: &Hub, agent: &str, delivery: &str) -> anyhow::Result<String> {
    let path = format!("/v1/agents/{}/inbox", percent_encode(agent));
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let query = [("limit", Some("1000".to_owned())), ("cursor", cursor.take())];
        let page = ListResponse::parse(&hub.get(&path, &query).await?, "deliveries")?;
        let found = page.values().into_iter().find(|item| item["deliveryId"] == delivery);
        if let Some(found) = found {
            return Ok(field(&found, "messageId"));
        }
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    // Usually it was settled already, or another consumer has settled it.
    let message = format!("{} is not open in the inbox of {agent}", terminal::sanitize_line(delivery));
    let hint = format!("discard this work; to list the open deliveries: quorate msg list --to {agent}");
    Err(CommandError::new(CONFLICT, message, hint).into())
}
