//! `quorate msg reply`: answers a received message, and acks it in the same commit.

use clap::Args;

use super::compose::AssessmentArgs;
use super::settle::{Lease, LeaseArgs};
use crate::exit::{CommandError, USAGE};
use crate::hub::{ContentArgs, DryRunArgs, Hub, JsonFields, Method};
use crate::output::{OutputArgs, field, parse_response};
use crate::terminal;

/// Arguments of `quorate msg reply`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate msg reply dlv_0-7 3 --value 42 --confidence 0.9

The answer and the ack are one commit: either both take effect, or none. The exit code is 5 if the lease has ended.")]
#[command(mut_arg("text", |arg| arg.help("Answer as text; - reads stdin")))]
#[command(mut_arg("value", |arg| arg.help("Answer as JSON; stored byte for byte")))]
#[command(mut_arg("file", |arg| arg.help("File with the answer as JSON; - reads stdin")))]
pub(super) struct ReplyArgs {
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    content: ContentArgs,
    /// Action of the answer.
    #[arg(long)]
    action: Option<String>,
    #[command(flatten)]
    assessment: AssessmentArgs,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

pub(super) async fn run(hub: &Hub, output: &OutputArgs, args: ReplyArgs) -> anyhow::Result<()> {
    let content = args.content.required("answer")?;
    let (lease, message) = Lease::find_with_message(hub, &args.lease).await?;
    let id = field(&message, "id");
    let to =
        [field(&message, "replyTo"), field(&message, "from")].into_iter().find(|agent| !agent.is_empty());
    let Some(to) = to else {
        let message = format!(
            "{} was not sent by an agent, so an answer has no recipient",
            terminal::sanitize_line(&id)
        );
        let hint =
            format!("finish it without an answer: quorate msg ack {} {}", lease.delivery, args.lease.lease);
        return Err(CommandError::new(USAGE, message, hint).into());
    };
    let send = JsonFields::default()
        .set("op", "send")?
        .set_if_some("from", args.lease.agent.named())?
        .set("to", &to)?
        .set("type", "response")?
        .set_if_some("action", args.action)?
        .set("inReplyTo", &id)?
        .set("payload", content)?;
    let send = args.assessment.add_to(send)?.to_json();
    let ack = lease.fields()?.set("op", "ack")?.to_json();
    let body = format!("{{\"ops\":[{ack},{send}]}}");
    let response = hub.write(args.dry_run, (Method::Post, "/v1/commit"), Some(body)).await?;
    let Some(response) = response else { return Ok(()) };
    let receipt = parse_response(&response)?;
    let sent = &receipt["results"][1];
    output.created(&response, &field(sent, "id"), &format!("acked {} and answered {to}", lease.delivery));
    if sent["late"] == true {
        terminal::note("the request had ended before: the answer is stored, but nothing waits for it");
    }
    Ok(())
}
