//! `quorate approval`: what agents may do only if a person lets them. No payload, no decision: what is decided about is
//! printed as it is, and bound to its digest.

mod change;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::hub::{DryRun, Fields, Hub, HubArgs, Listing, Method, Noun, segment};
use crate::shape::{Column, Facts, Shape, field, read, time};
use crate::{tail, text, why};

/// What is watched.
const KINDS: &str =
    "approval.requested,approval.approved,approval.rejected,approval.modified,approval.expired";

/// What agents may do only if a person lets them.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate approval list")]
pub(crate) struct ApprovalArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    shape: Shape,
    #[command(subcommand)]
    verb: ApprovalVerb,
}

#[derive(Subcommand, Debug)]
enum ApprovalVerb {
    /// List what waits for a decision, or all approvals, newest first. [ro]
    #[command(after_help = "Example: quorate approval list --state all")]
    List {
        /// pending, approved, rejected, modified, expired, or all.
        #[arg(long, default_value = "pending")]
        state: String,
        #[command(flatten)]
        page: Listing,
    },
    /// Show an approval with the exact bytes that it is about. [ro]
    #[command(after_help = "Example: quorate approval show @last

The digest is the SHA-256 of the bytes in the last line, and of nothing else.")]
    Show {
        /// Its id, the beginning of it, or @last.
        id: String,
        /// As it was after this record.
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
    },
    /// Say where an approval is, who waits, and what happens next. [ro]
    #[command(after_help = "Example: quorate approval why @last")]
    Why {
        /// Its id, the beginning of it, or @last.
        id: String,
    },
    /// Let the action happen as it is. [rw]
    #[command(after_help = "Example: quorate approval approve apr_0-17-0 --digest 9f2c…41

Without --digest the action is fetched, printed, and approved as it was printed.")]
    Approve(DecideArgs),
    /// Do not let it happen. [rw]
    #[command(after_help = "Example: quorate approval reject @last --reason 'the address is wrong'")]
    Reject(DecideArgs),
    /// Let it happen with a change. [rw]
    #[command(after_help = "Example: quorate approval modify @last --set to=legal@example.com

--set PATH=VALUE names a member of the payload: to, to.0, /to/0. The value is JSON,
or else text. --patch FILE is a JSON patch (RFC 6902) of the payload.")]
    Modify(ModifyArgs),
    /// Follow what is asked for and decided. [ro]
    #[command(after_help = "Example: quorate approval watch --jsonl")]
    Watch {
        /// From this record on; without, from now on.
        #[arg(long, value_name = "SEQ")]
        from: Option<u64>,
        /// End after so many records.
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
}

#[derive(Args, Debug)]
struct DecideArgs {
    /// Its id, the beginning of it, or @last.
    id: String,
    /// The digest of what was looked at; anything else is refused.
    #[arg(long, value_name = "SHA256")]
    digest: Option<String>,
    /// Why; needed to reject.
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    dry_run: DryRun,
}

#[derive(Args, Debug)]
struct ModifyArgs {
    #[command(flatten)]
    decide: DecideArgs,
    /// A member of the payload and what it shall be; may be given several times.
    #[arg(long, value_name = "PATH=VALUE", required_unless_present = "patch")]
    set: Vec<String>,
    /// A file with a JSON patch; - is the standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "set")]
    patch: Option<PathBuf>,
}

const COLUMNS: &[Column] = &[
    ("ID", |approval| field(approval, "id")),
    ("STATE", |approval| field(approval, "state")),
    ("PRIORITY", |approval| field(approval, "priority")),
    ("ACTION", |approval| field(approval, "action")),
    ("ASKED BY", asker),
    ("EXPIRES", |approval| time(&approval["expiresAt"])),
    ("WHY", |approval| field(approval, "rationale")),
];

fn asker(approval: &Value) -> String {
    let agent = field(approval, "agent");
    if agent.is_empty() { field(approval, "askedBy") } else { agent }
}

/// An approval as the hub told it, with the bytes of the action as they are.
struct Looked {
    id: String,
    approval: Value,
    /// The canonical bytes.
    document: String,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    document: Option<&'a RawValue>,
}

impl Looked {
    fn read(answer: &str) -> anyhow::Result<Self> {
        let approval = read(answer)?;
        let document = serde_json::from_str::<Document<'_>>(answer)?.document.map_or("", RawValue::get);
        Ok(Self { id: field(&approval, "id"), document: document.to_owned(), approval })
    }
}

pub(crate) async fn run(args: ApprovalArgs) -> anyhow::Result<()> {
    let ApprovalArgs { hub: hub_args, shape, verb } = args;
    let hub = hub_args.open_as(&shape)?;
    match verb {
        ApprovalVerb::List { state, page } => {
            let state = Some(state).filter(|state| state != "all");
            shape.list(
                &hub.get("/v1/approvals", &page.query(&[("state", state)])).await?,
                "approvals",
                COLUMNS,
            )
        }
        ApprovalVerb::Show { id, at } => {
            let query = [("at", at.map(|at| at.to_string()))];
            let answer = hub.get(&path_of(&hub, &id).await?, &query).await?;
            shape.one(&answer, || Ok(facts(&Looked::read(&answer)?)))
        }
        ApprovalVerb::Why { id } => {
            why::show(&hub.get(&format!("{}/why", path_of(&hub, &id).await?), &[]).await?, &shape)
        }
        ApprovalVerb::Approve(args) => decide(&hub, &shape, "approve", args, None).await,
        ApprovalVerb::Reject(args) => decide(&hub, &shape, "reject", args, None).await,
        ApprovalVerb::Modify(args) => {
            let change = change::Change::read(&args.set, args.patch)?;
            decide(&hub, &shape, "modify", args.decide, Some(change)).await
        }
        ApprovalVerb::Watch { from, limit } => {
            tail::run(tail::TailArgs::about(KINDS, hub_args, shape, (from, limit))).await
        }
    }
}

async fn path_of(hub: &Hub, id: &str) -> anyhow::Result<String> {
    Ok(format!("/v1/approvals/{}", segment(&hub.id(Noun::Approval, id).await?)))
}

async fn decide(
    hub: &Hub,
    shape: &Shape,
    decision: &str,
    args: DecideArgs,
    change: Option<change::Change>,
) -> anyhow::Result<()> {
    let path = path_of(hub, &args.id).await?;
    let looked = Looked::read(&hub.get(&path, &[]).await?)?;
    // Nobody decides about what was not shown: without a digest from before, it is shown here.
    let digest = args.digest.unwrap_or_else(|| field(&looked.approval, "digest"));
    let pending = field(&looked.approval, "digest");
    text::say(text::clean_line(&format!("{decision} {} (sha256 {pending})", looked.id)));
    text::say(text::clean_line(&looked.document));
    let patch = change.map(|change| change.patch(&looked.document)).transpose()?;
    if let Some(change::Patch { lines, .. }) = &patch {
        lines.iter().for_each(|line| text::say(text::clean_line(line)));
    }
    let body = Fields::default()
        .set("decision", decision)?
        .set("digest", &digest)?
        .set("reason", args.reason)?
        .maybe("modification", patch.map(|patch| patch.json))?;
    let way = format!("{path}/decision");
    let answer = hub.change(args.dry_run, (Method::Post, &way), Some(body.to_json())).await?;
    let Some(answer) = answer else { return Ok(()) };
    let over = read(&answer)?;
    let told = match asker(&over) {
        agent if over["agent"].is_null() => format!("{agent} asked"),
        agent => format!("{agent} is told"),
    };
    let now = field(&over, "approvedDigest");
    let digest = if now.is_empty() { String::new() } else { format!(" (sha256 {now})") };
    let (id, state, seq) = (field(&over, "id"), field(&over, "state"), field(&over, "seq"));
    shape.done(&answer, &format!("{id} is {state}{digest} by record {seq}; {told}"));
    Ok(())
}

fn facts(looked: &Looked) -> Facts {
    let approval = &looked.approval;
    let text = |name| field(approval, name);
    let then = approval["then"].as_array().map_or(&[][..], Vec::as_slice);
    let then = then.iter().map(|one| format!("{} to {}", field(one, "action"), field(one, "to")));
    let changed = if approval["approvedDocument"].is_null() { "" } else { "approved as" };
    Facts::default()
        .add("id", text("id"))
        .add("state", text("state"))
        .add("action", text("action"))
        .add("asked by", asker(approval))
        .add("at", time(&approval["askedAt"]))
        .add("why", text("rationale"))
        .add("confidence", text("confidence"))
        .add("priority", text("priority"))
        .add("expires", time(&approval["expiresAt"]))
        .add("if nobody decides", text("default"))
        .add("session", text("sessionId"))
        .add("then sends", then.collect::<Vec<_>>().join(", "))
        .add("decided by", text("decidedBy"))
        .add("decided", time(&approval["decidedAt"]))
        .add("reason", text("reason"))
        .add(changed, if changed.is_empty() { String::new() } else { text("approvedDocument") })
        .add("its sha256", if changed.is_empty() { String::new() } else { text("approvedDigest") })
        .add("sha256", text("digest"))
        .add("exact bytes", looked.document.clone())
}
