//! `quorate request`: sends requests and reads their answers.

use std::time::Duration;

use clap::{Args, Subcommand};
use quorate_core::limits::REQUEST_RETRIES_MAX;
use quorate_core::retry;
use serde_json::Value;

use crate::hub::{DryRunArgs, Hub, HubArgs, Method, OrderedPageArgs, Resource, percent_encode};
use crate::msg::compose::MessageArgs;
use crate::output::{
    Column, Details, OutputArgs, field, or_dash, parse_response, payload_line, print_raw_field,
};
use crate::terminal;
use crate::token::parse_duration;

/// Longest default timeout of a request.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of `quorate request`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate request send --to bob 'Which port is free?'")]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: RequestVerb,
}

#[derive(Subcommand, Debug)]
enum RequestVerb {
    /// Send a request, wait for the answer, and print it. [rw]
    #[command(after_help = "Example: quorate request send --to bob --type query 'Which port is free?'

Prints only the payload of the answer; to a file or a pipe byte for byte as it was sent (a JSON string without its quotes). The exit code is 6 if there is no answer in time. If the command is interrupted, the request is cancelled.

With --no-wait, prints the id of the request; read the answers with `request answers`.")]
    Send(Box<SendArgs>),
    /// Print the answers to a request. [ro]
    #[command(after_help = "Example: quorate request answers @last --wait 20s")]
    Answers {
        /// Request id, a unique prefix of it, or @last.
        id: String,
        /// How long to wait if there is no answer yet, at most 60s; by default, do not wait.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        wait: Option<Duration>,
        /// Cursor printed with the previous answers.
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// List requests, newest first; an agent sees its own. [ro]
    #[command(after_help = "Example: quorate request list")]
    List {
        #[command(flatten)]
        page: OrderedPageArgs,
    },
    /// Show the state of a request. [ro]
    #[command(after_help = "Example: quorate request show @last")]
    Show {
        /// Request id, a unique prefix of it, or @last.
        id: String,
    },
    /// Cancel a request. [rw]
    #[command(after_help = "Example: quorate request cancel @last")]
    Cancel {
        /// Request id, a unique prefix of it, or @last.
        id: String,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
}

#[derive(Args, Debug)]
struct SendArgs {
    #[command(flatten)]
    message: MessageArgs,
    /// How long to wait: 500ms, 90s or 15m; by default 30 s for a command, 5 s for a query, 1 s for several recipients.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// How often to send it again after TIMEOUT, UNAVAILABLE or OVERLOADED, after 1, 2, 4, 8, then 16 s; at most 10 times.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, conflicts_with = "no_wait",
        value_parser = clap::value_parser!(u32).range(..=i64::from(REQUEST_RETRIES_MAX)))]
    retries: u32,
    /// Which agents may answer: `chain` are the recipients and the agents to which they delegate the answer (the default), `asked`
    /// only the recipients.
    #[arg(long, value_name = "WHO", value_parser = ["chain", "asked"])]
    answer_from: Option<String>,
    /// Print the id of the request, without waiting for answers.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

const COLUMNS: &[Column] = &[
    ("ID", |request| field(request, "id")),
    ("FROM", |request| or_dash(field(request, "from"))),
    ("STATE", |request| field(request, "state")),
    ("CODE", |request| or_dash(field(request, "code"))),
    ("ANSWERS", |request| or_dash(field(request, "answers"))),
];

const ANSWERS: &[Column] = &[
    ("ID", |answer| field(answer, "id")),
    ("FROM", |answer| or_dash(field(answer, "from"))),
    ("CONFIDENCE", |answer| or_dash(field(answer, "confidence"))),
    ("PAYLOAD", |answer| payload_line(&answer["payload"])),
];

pub(crate) async fn run(args: RequestArgs) -> anyhow::Result<()> {
    let RequestArgs { hub, output, verb } = args;
    let hub = hub.open_with_output(&output)?;
    match verb {
        RequestVerb::Send(args) => send(&hub, &output, *args).await,
        RequestVerb::Answers { id, wait, cursor } => {
            let path = format!("{}/answers", path_of(&hub, &id).await?);
            let query = [("cursor", cursor), ("waitMs", wait.map(|wait| wait.as_millis().to_string()))];
            let response = hub.get_waiting(&path, &query, wait.unwrap_or_default()).await?;
            output.rows(&response, "answers", ANSWERS)?;
            let answers = parse_response(&response)?;
            let cursor = Some(field(&answers, "cursor")).filter(|cursor| !cursor.is_empty());
            let next = cursor.map(|cursor| format!("; wait for more: --wait 20s --cursor {cursor}"));
            let state = format!("the request is {}", state_text(&answers));
            terminal::note(terminal::sanitize_line(&format!("{state}{}", next.unwrap_or_default())));
            Ok(())
        }
        RequestVerb::List { page } => {
            output.list(&hub.get("/v1/requests", &page.query(&[])).await?, "requests", COLUMNS)
        }
        RequestVerb::Show { id } => {
            let response = hub.get(&path_of(&hub, &id).await?, &[]).await?;
            output.item(&response, || Ok(details(&parse_response(&response)?)))
        }
        RequestVerb::Cancel { id, dry_run } => {
            let id = hub.resolve_id(Resource::Request, &id).await?;
            let path = format!("/v1/requests/{}/cancel", percent_encode(&id));
            let response = hub.write(dry_run, (Method::Post, &path), None).await?;
            response.iter().for_each(|response| output.done(response, &format!("cancelled request {id}")));
            Ok(())
        }
    }
}

async fn path_of(hub: &Hub, id: &str) -> anyhow::Result<String> {
    Ok(format!("/v1/requests/{}", percent_encode(&hub.resolve_id(Resource::Request, id).await?)))
}

async fn send(hub: &Hub, output: &OutputArgs, args: SendArgs) -> anyhow::Result<()> {
    let timeout = args.timeout.map(|timeout| timeout.as_millis());
    let recipients = args.message.to.join(", ");
    let retries = Some(args.retries).filter(|retries| *retries > 0);
    let body = args
        .message
        .into_fields()?
        .set_if_some("timeoutMs", timeout)?
        .set_if_some("retries", retries)?
        .set_if_some("answerFrom", args.answer_from)?
        .to_json();
    let path = if args.no_wait { "/v1/requests" } else { "/v1/request" };
    if args.no_wait || args.dry_run.is_set() {
        let response = hub.write(args.dry_run, (Method::Post, path), Some(body)).await?;
        let Some(response) = response else { return Ok(()) };
        let id = field(&parse_response(&response)?, "id");
        output.created(
            &response,
            &id,
            &format!("sent to {recipients}; read the answers: quorate request answers {id}"),
        );
        return Ok(());
    }
    // The call takes as long as all attempts and the pauses between them.
    let pauses = (0..args.retries).map(retry::backoff_ms).sum();
    let timeout =
        args.timeout.unwrap_or(DEFAULT_TIMEOUT) * (args.retries + 1) + Duration::from_millis(pauses);
    let response = hub.request(body, timeout).await?;
    if output.is_explicit() {
        return output.item(&response, || Ok(answer_details(&parse_response(&response)?)));
    }
    print_raw_field(&response, "payload")?;
    let answer = parse_response(&response)?;
    let confidence = Some(field(&answer, "confidence")).filter(|confidence| !confidence.is_empty());
    let confidence = confidence.map_or(String::new(), |confidence| format!(", confidence {confidence}"));
    if !terminal::stdout_is_terminal() {
        return Ok(());
    }
    terminal::note(terminal::sanitize_line(&format!(
        "answered by {}{confidence}: {}",
        field(&answer, "from"),
        field(&answer, "id")
    )));
    Ok(())
}

/// Returns the state of a request in lower-case words.
fn state_text(request: &Value) -> String {
    match field(request, "state").as_str() {
        "timedOut" => "timed out".to_owned(),
        state => state.to_owned(),
    }
}

fn details(request: &Value) -> Details {
    Details::default()
        .add("id", field(request, "id"))
        .add("from", field(request, "from"))
        .add("state", state_text(request))
        .add("code", field(request, "code"))
        .add("reason", field(request, "reason"))
        .add("answers", field(request, "answers"))
}

fn answer_details(answer: &Value) -> Details {
    Details::default()
        .add("id", field(answer, "id"))
        .add("from", field(answer, "from"))
        .add("confidence", field(answer, "confidence"))
        .add("rationale", field(answer, "rationale"))
        .add("payload", payload_line(&answer["payload"]))
}
