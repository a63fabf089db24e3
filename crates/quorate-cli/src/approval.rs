//! `quorate approval`: lists and decides approvals. A decision always applies to exact bytes: the action is printed before it
//! is decided, and the decision is bound to its digest.

mod modification;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::hub::{DryRunArgs, Hub, HubArgs, JsonFields, Method, OrderedPageArgs, Resource, percent_encode};
use crate::output::{Column, Details, OutputArgs, field, format_time, parse_response};
use crate::{tail, terminal, why};

/// Effects that `quorate approval watch` follows.
const KINDS: &str =
    "approval.requested,approval.approved,approval.rejected,approval.modified,approval.expired";

/// Arguments of `quorate approval`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate approval list")]
pub(crate) struct ApprovalArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: ApprovalVerb,
}

#[derive(Subcommand, Debug)]
enum ApprovalVerb {
    /// List approval requests: pending ones by default, newest first. [ro]
    #[command(after_help = "Example: quorate approval list --status all")]
    List {
        /// Only requests with this status.
        #[arg(long, default_value = "pending")]
        #[arg(value_parser = ["pending", "approved", "rejected", "modified", "expired", "all"])]
        status: String,
        #[command(flatten)]
        page: OrderedPageArgs,
    },
    /// Show an approval with the exact bytes of its action. [ro]
    #[command(after_help = "Example: quorate approval show @last

The digest is the SHA-256 of exactly the bytes in the last line.")]
    Show {
        /// Approval id, a unique prefix of it, or @last.
        id: String,
        /// Show the state as of this record.
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
    },
    /// Explain the state of an approval, and what happens next. [ro]
    #[command(after_help = "Example: quorate approval why @last")]
    Why {
        /// Approval id, a unique prefix of it, or @last.
        id: String,
    },
    /// Approve an action unchanged. [rw]
    #[command(after_help = "Example: quorate approval approve apr_0-17-0 --digest 9f2c…41

Without --digest, the current action is fetched, printed, and approved as printed.")]
    Approve(DecideArgs),
    /// Reject an action. [rw]
    #[command(after_help = "Example: quorate approval reject @last --reason 'the address is wrong'")]
    Reject(RejectArgs),
    /// Approve an action with a modified payload. [rw]
    #[command(after_help = "Example: quorate approval modify @last --set to=legal@example.com

--set PATH=VALUE sets a member of the payload; PATH is dotted (to, to.0) or a JSON pointer (/to/0), \
VALUE is JSON or plain text. --patch FILE is a JSON patch (RFC 6902) for the payload.")]
    Modify(ModifyArgs),
    /// Follow approval requests and decisions. [ro]
    #[command(after_help = "Example: quorate approval watch --jsonl

--json is the same as --jsonl.")]
    Watch {
        /// First record; by default, only new records.
        #[arg(long, value_name = "SEQ")]
        from: Option<u64>,
        /// Stop after N records.
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
}

#[derive(Args, Debug)]
struct DecideArgs {
    /// Approval id, a unique prefix of it, or @last.
    id: String,
    /// Expected digest of the action; the decision fails if it differs.
    #[arg(long, value_name = "SHA256")]
    digest: Option<String>,
    /// Reason for the decision.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

#[derive(Args, Debug)]
#[command(mut_arg("reason", |arg| arg.required(true).default_value(None::<&str>)))]
struct RejectArgs {
    #[command(flatten)]
    decide: DecideArgs,
}

#[derive(Args, Debug)]
struct ModifyArgs {
    #[command(flatten)]
    decide: DecideArgs,
    /// Payload member and its new value; can be repeated.
    #[arg(long, value_name = "PATH=VALUE", required_unless_present = "patch")]
    set: Vec<String>,
    /// File with a JSON patch; - reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "set")]
    patch: Option<PathBuf>,
}

const COLUMNS: &[Column] = &[
    ("ID", |approval| field(approval, "id")),
    ("STATUS", |approval| field(approval, "state")),
    ("PRIORITY", |approval| field(approval, "priority")),
    ("ACTION", |approval| field(approval, "action")),
    ("REQUESTED BY", requester),
    ("EXPIRES", |approval| format_time(&approval["expiresAt"])),
    ("RATIONALE", |approval| field(approval, "rationale")),
];

fn requester(approval: &Value) -> String {
    let agent = field(approval, "agent");
    if agent.is_empty() { field(approval, "askedBy") } else { agent }
}

/// An approval from the hub, with the exact bytes of its action.
struct FetchedApproval {
    id: String,
    approval: Value,
    /// Canonical JSON of the action.
    document: String,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    document: Option<&'a RawValue>,
}

impl FetchedApproval {
    fn read(response: &str) -> anyhow::Result<Self> {
        let approval = parse_response(response)?;
        let document = serde_json::from_str::<Document<'_>>(response)?.document.map_or("", RawValue::get);
        Ok(Self { id: field(&approval, "id"), document: document.to_owned(), approval })
    }
}

pub(crate) async fn run(args: ApprovalArgs) -> anyhow::Result<()> {
    let ApprovalArgs { hub: hub_args, output, verb } = args;
    let hub = hub_args.open_with_output(&output)?;
    match verb {
        ApprovalVerb::List { status, page } => {
            let state = Some(status).filter(|state| state != "all");
            output.list(
                &hub.get("/v1/approvals", &page.query(&[("state", state)])).await?,
                "approvals",
                COLUMNS,
            )
        }
        ApprovalVerb::Show { id, at } => {
            let query = [("at", at.map(|at| at.to_string()))];
            let response = hub.get(&path_of(&hub, &id).await?, &query).await?;
            output.item(&response, || Ok(details(&FetchedApproval::read(&response)?)))
        }
        ApprovalVerb::Why { id } => {
            why::show(&hub.get(&format!("{}/why", path_of(&hub, &id).await?), &[]).await?, &output)
        }
        ApprovalVerb::Approve(args) => decide(&hub, &output, "approve", args, None).await,
        ApprovalVerb::Reject(args) => decide(&hub, &output, "reject", args.decide, None).await,
        ApprovalVerb::Modify(args) => {
            let modification = modification::Modification::from_options(&args.set, args.patch)?;
            decide(&hub, &output, "modify", args.decide, Some(modification)).await
        }
        ApprovalVerb::Watch { from, limit } => {
            tail::run(tail::TailArgs::for_kinds(KINDS, hub_args, output, (from, limit))).await
        }
    }
}

async fn path_of(hub: &Hub, id: &str) -> anyhow::Result<String> {
    Ok(format!("/v1/approvals/{}", percent_encode(&hub.resolve_id(Resource::Approval, id).await?)))
}

async fn decide(
    hub: &Hub,
    output: &OutputArgs,
    decision: &str,
    args: DecideArgs,
    modification: Option<modification::Modification>,
) -> anyhow::Result<()> {
    let path = path_of(hub, &args.id).await?;
    let fetched = FetchedApproval::read(&hub.get(&path, &[]).await?)?;
    // The action is always printed before it is decided; without --digest, the decision binds to the printed digest.
    let digest = args.digest.unwrap_or_else(|| field(&fetched.approval, "digest"));
    let current_digest = field(&fetched.approval, "digest");
    terminal::note(terminal::sanitize_line(&format!("{decision} {} (sha256 {current_digest})", fetched.id)));
    terminal::note(terminal::sanitize_line(&fetched.document));
    let patch = modification.map(|modification| modification.prepare(&fetched.document)).transpose()?;
    if let Some(modification::PreparedPatch { lines, .. }) = &patch {
        lines.iter().for_each(|line| terminal::note(terminal::sanitize_line(line)));
    }
    let body = JsonFields::default()
        .set("decision", decision)?
        .set("digest", &digest)?
        .set("reason", args.reason)?
        .set_if_some("modification", patch.map(|patch| patch.json))?;
    let path = format!("{path}/decision");
    let response = hub.write(args.dry_run, (Method::Post, &path), Some(body.to_json())).await?;
    let Some(response) = response else { return Ok(()) };
    let decided = parse_response(&response)?;
    let notified = match requester(&decided) {
        principal if decided["agent"].is_null() => format!("requested by {principal}"),
        agent => format!("{agent} is notified"),
    };
    let approved_digest = field(&decided, "approvedDigest");
    let digest =
        if approved_digest.is_empty() { String::new() } else { format!(" (sha256 {approved_digest})") };
    let (id, state, seq) = (field(&decided, "id"), field(&decided, "state"), field(&decided, "seq"));
    output.done(&response, &format!("{id} is {state}{digest} in record {seq}; {notified}"));
    Ok(())
}

fn details(fetched: &FetchedApproval) -> Details {
    let approval = &fetched.approval;
    let text = |name| field(approval, name);
    let follow_ups = approval["then"].as_array().map_or(&[][..], Vec::as_slice);
    let follow_ups = follow_ups
        .iter()
        .map(|follow_up| format!("{} to {}", field(follow_up, "action"), field(follow_up, "to")));
    let label = if approval["approvedDocument"].is_null() { "" } else { "approved as" };
    Details::default()
        .add("id", text("id"))
        .add("status", text("state"))
        .add("action", text("action"))
        .add("requested by", requester(approval))
        .add("at", format_time(&approval["askedAt"]))
        .add("rationale", text("rationale"))
        .add("confidence", text("confidence"))
        .add("priority", text("priority"))
        .add("expires", format_time(&approval["expiresAt"]))
        .add("default", text("default"))
        .add("session", text("sessionId"))
        .add("follow-ups", follow_ups.collect::<Vec<_>>().join(", "))
        .add("decided by", text("decidedBy"))
        .add("decided", format_time(&approval["decidedAt"]))
        .add("reason", text("reason"))
        .add(label, if label.is_empty() { String::new() } else { text("approvedDocument") })
        .add("approved sha256", if label.is_empty() { String::new() } else { text("approvedDigest") })
        .add("sha256", text("digest"))
        .add("exact bytes", fetched.document.clone())
}
