//! `quorate procedure`: starts, follows, pauses, resumes, cancels and signals procedures of any kind.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use quorate_core::ProcedureStatus;
use serde_json::Value;

use crate::hub::{
    ContentArgs, DryRunArgs, Hub, HubArgs, JsonFields, Method, OrderedPageArgs, Resource, percent_encode,
};
use crate::output::{Column, Details, OutputArgs, field, format_time, parse_response, payload_text};
use crate::token::parse_duration;
use crate::why;

/// Longest wait of one call; a longer one is repeated.
const POLL_MAX: Duration = Duration::from_secs(20);

/// Arguments of `quorate procedure`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate procedure list --status stuck")]
pub(crate) struct ProcedureArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: ProcedureVerb,
}

#[derive(Subcommand, Debug)]
enum ProcedureVerb {
    /// List procedures, newest first. [ro]
    #[command(after_help = "Example: quorate procedure list --status running")]
    List {
        /// Only procedures with this status.
        #[arg(long, value_name = "STATUS", value_parser = statuses())]
        status: Option<String>,
        #[command(flatten)]
        page: OrderedPageArgs,
    },
    /// Show a procedure with its state and result. [ro]
    #[command(after_help = "Example: quorate procedure show @last --wait 10s")]
    Show {
        /// Procedure id, a unique prefix of it, or @last.
        id: String,
        /// Wait at most this long until it ends, is paused or is stuck.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        wait: Option<Duration>,
    },
    /// Explain the state of a procedure: what it waits for, and since when. [ro]
    #[command(after_help = "Example: quorate procedure why @last")]
    Why {
        /// Procedure id, a unique prefix of it, or @last.
        id: String,
    },
    /// Start a procedure. [rw]
    #[command(after_help = "Example: quorate procedure start invoice --driver billing --file spec.json")]
    Start(StartArgs),
    /// Pause a procedure: it takes no step until it is resumed. [rw]
    #[command(after_help = "Example: quorate procedure pause @last --reason 'until Monday'")]
    Pause(ChangeArgs),
    /// Resume a procedure that is paused or stuck. [rw]
    #[command(after_help = "Example: quorate procedure resume @last")]
    Resume(ChangeArgs),
    /// Cancel a procedure with its open requests and tasks. [rw]
    #[command(after_help = "Example: quorate procedure cancel @last --reason 'not needed'")]
    Cancel(ChangeArgs),
    /// Send a signal to the driver of a procedure. [rw]
    #[command(after_help = "Example: quorate procedure signal @last paid --value '{\"amount\": 100}'")]
    Signal(SignalArgs),
}

#[derive(Args, Debug)]
#[command(mut_arg("text", |arg| arg.help("Specification as text; - reads stdin")))]
#[command(mut_arg("value", |arg| arg.help("Specification as JSON")))]
#[command(mut_arg("file", |arg| arg.help("File with the specification as JSON; - reads stdin")))]
struct StartArgs {
    /// Kind of the procedure, such as deliberation.
    kind: String,
    #[command(flatten)]
    spec: ContentArgs,
    /// Agent that drives the procedure; required for a kind that the hub does not know.
    #[arg(long, value_name = "AGENT")]
    driver: Option<String>,
    /// Custom procedure id.
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

#[derive(Args, Debug)]
struct ChangeArgs {
    /// Procedure id, a unique prefix of it, or @last.
    id: String,
    /// Reason for the change.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

#[derive(Args, Debug)]
#[command(mut_arg("text", |arg| arg.help("Payload as text; - reads stdin")))]
#[command(mut_arg("value", |arg| arg.help("Payload as JSON")))]
#[command(mut_arg("file", |arg| arg.help("File with the payload as JSON; - reads stdin")))]
struct SignalArgs {
    /// Procedure id, a unique prefix of it, or @last.
    id: String,
    /// Name of the signal.
    name: String,
    #[command(flatten)]
    payload: ContentArgs,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

fn statuses() -> PossibleValuesParser {
    PossibleValuesParser::new(ProcedureStatus::ALL.map(ProcedureStatus::as_str))
}

const COLUMNS: &[Column] = &[
    ("ID", |procedure| field(procedure, "id")),
    ("KIND", |procedure| field(procedure, "kind")),
    ("STATUS", |procedure| field(procedure, "status")),
    ("PHASE", |procedure| field(procedure, "phase")),
    ("DRIVER", |procedure| field(procedure, "driver")),
    ("SINCE", |procedure| format_time(&procedure["since"])),
    ("REASON", |procedure| field(procedure, "reason")),
];

pub(crate) async fn run(args: ProcedureArgs) -> anyhow::Result<()> {
    let ProcedureArgs { hub, output, verb } = args;
    let hub = hub.open_with_output(&output)?;
    match verb {
        ProcedureVerb::List { status, page } => {
            let query = page.query(&[("status", status)]);
            output.list(&hub.get("/v1/procedures", &query).await?, "procedures", COLUMNS)
        }
        ProcedureVerb::Show { id, wait } => {
            let response = show(&hub, &path_of(&hub, &id).await?, wait).await?;
            output.item(&response, || Ok(details(&parse_response(&response)?)))
        }
        ProcedureVerb::Why { id } => {
            let path = format!("{}/why", path_of(&hub, &id).await?);
            why::show(&hub.get(&path, &[]).await?, &output)
        }
        ProcedureVerb::Start(args) => start(&hub, &output, args).await,
        ProcedureVerb::Pause(args) => change(&hub, &output, "pause", args).await,
        ProcedureVerb::Resume(args) => change(&hub, &output, "resume", args).await,
        ProcedureVerb::Cancel(args) => change(&hub, &output, "cancel", args).await,
        ProcedureVerb::Signal(args) => signal(&hub, &output, args).await,
    }
}

async fn path_of(hub: &Hub, id: &str) -> anyhow::Result<String> {
    Ok(format!("/v1/procedures/{}", percent_encode(&hub.resolve_id(Resource::Procedure, id).await?)))
}

/// Returns a procedure; waits for it to stop running, if requested.
async fn show(hub: &Hub, path: &str, wait: Option<Duration>) -> anyhow::Result<String> {
    let mut left = wait.unwrap_or_default();
    loop {
        let poll = left.min(POLL_MAX);
        let wait_ms = (!poll.is_zero()).then(|| poll.as_millis().to_string());
        let response = hub.get(path, &[("waitMs", wait_ms)]).await?;
        left -= poll;
        if left.is_zero() || parse_response(&response)?["status"] != ProcedureStatus::Running.as_str() {
            return Ok(response);
        }
    }
}

async fn start(hub: &Hub, output: &OutputArgs, args: StartArgs) -> anyhow::Result<()> {
    let body = JsonFields::default()
        .set_if_some("id", args.id)?
        .set("kind", args.kind)?
        .set_if_some("driver", args.driver)?
        .set_if_some("spec", args.spec.read()?)?;
    let response = hub.write(args.dry_run, (Method::Post, "/v1/procedures"), Some(body.to_json())).await?;
    let Some(response) = response else { return Ok(()) };
    let id = field(&parse_response(&response)?, "id");
    output.created(&response, &id, &format!("started procedure {id}"));
    Ok(())
}

async fn change(hub: &Hub, output: &OutputArgs, verb: &str, args: ChangeArgs) -> anyhow::Result<()> {
    let path = format!("{}/{verb}", path_of(hub, &args.id).await?);
    let body = JsonFields::default().set("reason", args.reason)?;
    let response = hub.write(args.dry_run, (Method::Post, &path), Some(body.to_json())).await?;
    let Some(response) = response else { return Ok(()) };
    let procedure = parse_response(&response)?;
    let (id, status) = (field(&procedure, "id"), field(&procedure, "status"));
    output.done(&response, &format!("procedure {id} is {status}"));
    Ok(())
}

async fn signal(hub: &Hub, output: &OutputArgs, args: SignalArgs) -> anyhow::Result<()> {
    let path = format!("{}/signal", path_of(hub, &args.id).await?);
    let name = args.name;
    let body = JsonFields::default().set("name", &name)?.set_if_some("payload", args.payload.read()?)?;
    let response = hub.write(args.dry_run, (Method::Post, &path), Some(body.to_json())).await?;
    let Some(response) = response else { return Ok(()) };
    let procedure = parse_response(&response)?;
    let (id, driver) = (field(&procedure, "id"), field(&procedure, "driver"));
    output.done(&response, &format!("sent signal {name} to {driver}, which drives procedure {id}"));
    Ok(())
}

fn details(procedure: &Value) -> Details {
    let text = |name| field(procedure, name);
    let payload = |name: &str| match &procedure[name] {
        Value::Null => String::new(),
        payload => payload_text(payload),
    };
    Details::default()
        .add("id", text("id"))
        .add("kind", text("kind"))
        .add("status", text("status"))
        .add("phase", text("phase"))
        .add("since", format_time(&procedure["since"]))
        .add("reason", text("reason"))
        .add("driver", text("driver"))
        .add("version", text("version"))
        .add("started by", text("startedBy"))
        .add("started", format_time(&procedure["startedAt"]))
        .add("spec", payload("spec"))
        .add("state", payload("state"))
        .add("result", payload("result"))
}
