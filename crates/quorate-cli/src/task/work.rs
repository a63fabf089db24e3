//! Work on tasks as an agent: claim one, extend its lease, and complete, fail or release it.

use clap::Args;
use serde_json::Value;

use crate::hub::{
    ActingAgentArgs, ClaimArgs, ContentArgs, DryRunArgs, Hub, JsonFields, Method, percent_encode,
};
use crate::lock::FenceArg;
use crate::msg::compose::AssessmentArgs;
use crate::output::{
    Column, ListResponse, OutputArgs, OutputFormat, field, format_time, parse_response, payload_line,
};
use crate::terminal;

/// Arguments of `quorate task claim`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate task claim --wait 60s --json

By default, claims tasks whose type is a capability of the agent, and tasks that are assigned to it. It is no error if there is no task: the list is empty.

The first columns are those that the other commands take: with --format compact, `read -r task lease rest` reads them. Columns are shortened to 500 characters; the complete input: quorate task show ID --input")]
pub(super) struct ClaimTasksArgs {
    /// Claim tasks of this type instead of the capabilities; can be repeated.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    #[command(flatten)]
    agent: ActingAgentArgs,
    #[command(flatten)]
    claim: ClaimArgs,
}

/// A claimed task.
#[derive(Args, Clone, Debug)]
pub(super) struct TaskLeaseArgs {
    /// Task id.
    id: String,
    /// Lease token, as printed by `task claim`.
    lease: u64,
}

/// Arguments of `quorate task heartbeat`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate task heartbeat t1 3 --value '{\"pages\": 3}'

Send about three per lease. The exit code is 5 if the lease has ended: stop working on the task.")]
#[command(mut_arg("text", |arg| arg.help("Intermediate result as text; - reads stdin")))]
#[command(mut_arg("value", |arg| arg.help("Intermediate result as JSON; stored byte for byte")))]
#[command(mut_arg("file", |arg| arg.help("File with the intermediate result as JSON; - reads stdin")))]
pub(super) struct HeartbeatArgs {
    #[command(flatten)]
    lease: TaskLeaseArgs,
    #[command(flatten)]
    content: ContentArgs,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// Arguments of `quorate task complete`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate task complete t1 3 --value 42 --confidence 0.9

A task is completed once. The exit code is 5 if the lease has ended: the result is not stored.")]
#[command(mut_arg("text", |arg| arg.help("Result as text; - reads stdin")))]
#[command(mut_arg("value", |arg| arg.help("Result as JSON; stored byte for byte")))]
#[command(mut_arg("file", |arg| arg.help("File with the result as JSON; - reads stdin")))]
pub(super) struct CompleteArgs {
    #[command(flatten)]
    lease: TaskLeaseArgs,
    #[command(flatten)]
    content: ContentArgs,
    /// The result is incomplete: the task ends as `partial`, which its dependents treat as failed.
    #[arg(long)]
    incomplete: bool,
    #[command(flatten)]
    assessment: AssessmentArgs,
    /// Fail unless the lock is still held under this fencing token.
    #[arg(long, value_name = "LOCK=FENCE")]
    fence: Option<FenceArg>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// Arguments of `quorate task fail`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate task fail t1 3 --reason 'site down'

The task is attempted again after its backoff, unless it was the last attempt or --permanent is set.")]
pub(super) struct FailArgs {
    #[command(flatten)]
    lease: TaskLeaseArgs,
    /// Reason of the failure.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Details of the failure as JSON, for the next attempt.
    #[arg(long, value_name = "JSON")]
    details: Option<String>,
    /// Another attempt would not help: the task fails, and is escalated.
    #[arg(long)]
    permanent: bool,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// Arguments of `quorate task release`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate task release t1 3")]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    lease: TaskLeaseArgs,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

// The first columns are never empty, so that a shell can split the lines of `--format compact`.
const CLAIMED: &[Column] = &[
    ("ID", |task| field(task, "id")),
    ("LEASE", |task| field(task, "leaseToken")),
    ("TYPE", |task| crate::output::or_dash(field(task, "type"))),
    ("ATTEMPT", |task| format!("{}/{}", task["attempt"], task["maxAttempts"])),
    ("LEASED UNTIL", |task| format_time(&task["leaseUntil"])),
    ("INPUT", |task| payload_line(&task["input"])),
];

pub(super) async fn claim(hub: &Hub, output: &OutputArgs, args: ClaimTasksArgs) -> anyhow::Result<()> {
    let fields =
        || JsonFields::default().set_if_some("agent", args.agent.named())?.list("types", &args.types);
    let response = args.claim.claim(hub, ("/v1/tasks/claim", "tasks"), fields).await?;
    let Some(response) = response else { return Ok(()) };
    output.list(&response, "tasks", CLAIMED)?;
    if output.format() == OutputFormat::Table {
        let first = ListResponse::parse(&response, "tasks")?.values().into_iter().next();
        first.iter().for_each(print_next);
    }
    Ok(())
}

/// Prints the commands that settle a task.
fn print_next(task: &Value) {
    let (id, lease) = (field(task, "id"), field(task, "leaseToken"));
    let lines = format!(
        "complete it:  quorate task complete {id} {lease} RESULT\nor fail it:   quorate task fail {id} {lease} --reason TEXT"
    );
    terminal::note(terminal::sanitize(&lines));
}

pub(super) async fn heartbeat(hub: &Hub, output: &OutputArgs, args: HeartbeatArgs) -> anyhow::Result<()> {
    let fields = args.lease.fields()?.set_if_some("partial", args.content.read()?)?;
    let Some(response) = args.lease.change(hub, "heartbeat", fields, args.dry_run).await? else {
        return Ok(());
    };
    let until = format_time(&parse_response(&response)?["leaseUntil"]);
    output.done(&response, &format!("task {} is leased until {until}", args.lease.id));
    Ok(())
}

pub(super) async fn complete(hub: &Hub, output: &OutputArgs, args: CompleteArgs) -> anyhow::Result<()> {
    let fields = args
        .lease
        .fields()?
        .set_if_some("result", args.content.read()?)?
        .set_if_some("status", args.incomplete.then_some("partial"))?
        .set_if_some("fence", args.fence)?;
    let fields = args.assessment.add_to(fields)?;
    args.lease.end(hub, output, "complete", fields, args.dry_run).await
}

pub(super) async fn fail(hub: &Hub, output: &OutputArgs, args: FailArgs) -> anyhow::Result<()> {
    let fields = args
        .lease
        .fields()?
        .set_if_some("reason", args.reason)?
        .set_if_some("details", ContentArgs::json(args.details).read()?)?
        .set_if_some("recoverable", args.permanent.then_some(false))?;
    args.lease.end(hub, output, "fail", fields, args.dry_run).await
}

pub(super) async fn release(hub: &Hub, output: &OutputArgs, args: ReleaseArgs) -> anyhow::Result<()> {
    let fields = args.lease.fields()?;
    args.lease.end(hub, output, "release", fields, args.dry_run).await
}

impl TaskLeaseArgs {
    fn fields(&self) -> anyhow::Result<JsonFields> {
        JsonFields::default().set("leaseToken", self.lease)
    }

    async fn change(
        &self,
        hub: &Hub,
        call: &str,
        fields: JsonFields,
        dry_run: DryRunArgs,
    ) -> anyhow::Result<Option<String>> {
        let path = format!("/v1/tasks/{}/{call}", percent_encode(&self.id));
        hub.write(dry_run, (Method::Post, &path), Some(fields.to_json())).await
    }

    /// Ends the lease, and prints the status of the task.
    async fn end(
        &self,
        hub: &Hub,
        output: &OutputArgs,
        call: &str,
        fields: JsonFields,
        dry_run: DryRunArgs,
    ) -> anyhow::Result<()> {
        let Some(response) = self.change(hub, call, fields, dry_run).await? else { return Ok(()) };
        let task = parse_response(&response)?;
        let due = Some(format_time(&task["due"])).filter(|due| !due.is_empty());
        let due = due.map_or(String::new(), |due| format!("; next attempt at {due}"));
        output.done(&response, &format!("task {} is {}{due}", self.id, field(&task, "status")));
        Ok(())
    }
}
