//! `quorate msg`: send, look, give out again. Looking takes nothing.

mod list;

use clap::{Args, Subcommand};
use quorate_core::limits::OPS_MAX;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::exit::{Ended, NOT_FOUND, USAGE};
use crate::hub::{Content, DryRun, Fields, Hub, HubArgs, Method, Noun, segment};
use crate::shape::{Facts, Shape, field, payload, print_alone, read, time};
use crate::text;
use crate::token::moment;
use crate::why;

/// Messages: what agents tell each other.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate msg send --to bob 'hello'")]
pub(crate) struct MsgArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    shape: Shape,
    #[command(subcommand)]
    verb: MsgVerb,
}

#[derive(Subcommand, Debug)]
enum MsgVerb {
    /// Send a message; its id is printed when it is on disk. [rw]
    #[command(after_help = "Example: quorate msg send --to bob --action review --value '{\"file\":\"a.md\"}'

--to takes an agent, several (given several times), topic:NAME, role:NAME,
can:CAPABILITY, or '*' for everybody. TEXT may come through a pipe:
git log -1 | quorate msg send --to bob -")]
    Send(Box<SendArgs>),
    /// List messages: what waits for somebody, what somebody sent, what was given up. [ro]
    #[command(after_help = "Example: quorate msg list --to bob")]
    List(list::ListArgs),
    /// Show a message and where each of its deliveries is. [ro]
    #[command(after_help = "Example: quorate msg show @last

--payload prints the payload alone: into a file or a program byte for byte as it
was sent (a text without its quotes).")]
    Show {
        /// Its id, the beginning of it, the id that its sender gave, or @last.
        id: String,
        /// Print the payload alone.
        #[arg(long)]
        payload: bool,
    },
    /// Say where a message is, what it waits for, and what happens next and when. [ro]
    #[command(after_help = "Example: quorate msg why @last")]
    Why {
        /// Its id, the beginning of it, or @last.
        id: String,
    },
    /// Give out again what was given up. [rw]
    #[command(after_help = "Example: quorate msg redeliver dlv_1-3

Takes a delivery, or a message: then all of its dead deliveries.")]
    Redeliver {
        /// The delivery as `msg list --dead` shows it, or a message.
        id: String,
        #[command(flatten)]
        dry_run: DryRun,
    },
}

#[derive(Args, Debug)]
struct SendArgs {
    /// For whom; may be given several times.
    #[arg(long, required = true, value_name = "WHO")]
    to: Vec<String>,
    #[command(flatten)]
    content: Content,
    /// In whose name, for those who may; with an agent's token it is that agent.
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// What is to be done.
    #[arg(long, default_value = "")]
    action: String,
    /// What kind of message.
    #[arg(long = "type", value_name = "TYPE", value_parser = ["command", "query", "event", "response"])]
    kind: Option<String>,
    /// How urgent.
    #[arg(long, value_parser = ["low", "normal", "high", "urgent"])]
    priority: Option<String>,
    /// The session that it belongs to.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The message that this one answers.
    #[arg(long, value_name = "ID")]
    in_reply_to: Option<String>,
    /// Not before: 90s, 15m, 12h, 30d from now, or a time.
    #[arg(long, value_name = "WHEN")]
    deliver_at: Option<String>,
    /// Not after that, likewise.
    #[arg(long, value_name = "WHEN")]
    expires_at: Option<String>,
    /// An id of your own: sent again with it, the message is there once.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    dry_run: DryRun,
}

pub(crate) async fn run(args: MsgArgs) -> anyhow::Result<()> {
    let MsgArgs { hub, shape, verb } = args;
    let hub = hub.open_as(&shape)?;
    match verb {
        MsgVerb::Send(args) => send(&hub, &shape, *args).await,
        MsgVerb::List(args) => list::run(&hub, &shape, args).await,
        MsgVerb::Show { id, payload } => {
            let answer = hub.get(&path_of(&hub, &id).await?, &[]).await?;
            if payload && shape.is_said() {
                let hint =
                    "leave --payload out for the whole message, or the format for the payload as it is";
                return Err(Ended::new(USAGE, "the payload alone has no other format", hint).into());
            }
            if payload {
                print_alone(serde_json::from_str::<Sent<'_>>(&answer)?.payload);
                return Ok(());
            }
            shape.one(&answer, || Ok(facts(&read(&answer)?)))
        }
        MsgVerb::Why { id } => {
            let path = path_of(&hub, &id).await?;
            why::show(&hub.get(&format!("{path}/why"), &[]).await?, &shape)
        }
        MsgVerb::Redeliver { id, dry_run } => redeliver(&hub, &shape, &id, dry_run).await,
    }
}

/// What a message says, as it came.
#[derive(Deserialize)]
struct Sent<'a> {
    #[serde(borrow)]
    payload: &'a RawValue,
}

async fn path_of(hub: &Hub, id: &str) -> anyhow::Result<String> {
    Ok(format!("/v1/messages/{}", segment(&hub.id(Noun::Message, id).await?)))
}

async fn send(hub: &Hub, shape: &Shape, args: SendArgs) -> anyhow::Result<()> {
    // What says neither what is to be done nor anything else is a slip: `echo hello | quorate msg send --to bob`.
    let content = if args.action.is_empty() { Some(args.content.needed()?) } else { args.content.read()? };
    let body = Fields::default();
    let body = match args.to.as_slice() {
        [one] => body.set("to", one)?,
        several => body.set("to", several)?,
    };
    let body = body
        .maybe("id", args.id)?
        .maybe("from", args.from)?
        .maybe("type", args.kind)?
        .set("action", args.action)?
        .maybe("payload", content)?
        .maybe("priority", args.priority)?
        .maybe("sessionId", args.session)?
        .maybe("inReplyTo", args.in_reply_to)?
        .maybe("deliverAt", args.deliver_at.as_deref().map(moment).transpose()?)?
        .maybe("expiresAt", args.expires_at.as_deref().map(moment).transpose()?)?;
    let answer = hub.change(args.dry_run, (Method::Post, "/v1/messages"), Some(body.to_json())).await?;
    let Some(answer) = answer else { return Ok(()) };
    let sent = read(&answer)?;
    let receipt = &sent["receipts"][0];
    if receipt["received"] == true {
        shape.done(&answer, "on disk as a conduct flag, for moderators only");
        return Ok(());
    }
    let count = receipt["deliveries"].as_array().map_or(0, Vec::len);
    let many = if count == 1 { "1 delivery".to_owned() } else { format!("{count} deliveries") };
    let done = format!("on disk as record {}, {many} for {}", receipt["seq"], args.to.join(", "));
    shape.made(&answer, &field(receipt, "id"), &done);
    if count == 0 {
        text::say("nobody gets it now: nobody subscribes to that, or has that role");
    }
    Ok(())
}

async fn redeliver(hub: &Hub, shape: &Shape, id: &str, dry_run: DryRun) -> anyhow::Result<()> {
    if id.starts_with("dlv_") {
        let path = format!("/v1/dead-letters/{}/redrive", segment(id));
        let answer = hub.change(dry_run, (Method::Post, &path), None).await?;
        answer.iter().for_each(|answer| shape.done(answer, &format!("{id} is given out again")));
        return Ok(());
    }
    // However many they are: one commit, all or none, and one answer.
    let dead = dead_deliveries(hub, id).await?;
    let given = &dead[..dead.len().min(OPS_MAX)];
    let ops: Vec<Value> = given.iter().map(|one| json!({"op": "redrive", "deliveryId": one})).collect();
    let body = json!({ "ops": ops }).to_string();
    let Some(answer) = hub.change(dry_run, (Method::Post, "/v1/commit"), Some(body)).await? else {
        return Ok(());
    };
    shape.done(&answer, &format!("given out again: {}", given.join(", ")));
    if given.len() < dead.len() {
        text::say(format!("{} more are dead: say it again", dead.len() - given.len()));
    }
    Ok(())
}

/// The deliveries of a message that were given up.
async fn dead_deliveries(hub: &Hub, id: &str) -> anyhow::Result<Vec<String>> {
    let message = hub.look(&path_of(hub, id).await?, &[]).await?;
    let all = message["deliveries"].as_array().map_or(&[][..], Vec::as_slice);
    let dead: Vec<String> =
        all.iter().filter(|one| one["state"] == "dead").map(|one| field(one, "deliveryId")).collect();
    if dead.is_empty() {
        let message = format!("{} has no dead delivery", text::clean_line(id));
        return Err(
            Ended::new(NOT_FOUND, message, "`quorate msg list --dead` lists what was given up").into()
        );
    }
    Ok(dead)
}

fn facts(message: &Value) -> Facts {
    let text = |name| field(message, name);
    let states = message["deliveries"].as_array().map_or(&[][..], Vec::as_slice).iter().map(|one| {
        let attempt = one["attempt"].as_u64().filter(|attempt| *attempt > 0);
        let attempt = attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
        let due = Some(time(&one["due"])).filter(|due| !due.is_empty());
        let due = due.map(|due| format!(", due {due}")).unwrap_or_default();
        let reason = Some(field(one, "reason")).filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let who = Some(field(one, "agent")).filter(|agent| !agent.is_empty());
        let who = who.unwrap_or_else(|| "nobody yet".to_owned());
        format!("{} {who}: {}{reason}{attempt}{due}", field(one, "deliveryId"), field(one, "state"))
    });
    Facts::default()
        .add("id", text("id"))
        .add("sender's id", text("clientId"))
        .add("at", time(&message["timestamp"]))
        .add("from", if message["from"].is_null() { "the hub".to_owned() } else { text("from") })
        .add("to", text("to"))
        .add("type", text("type"))
        .add("action", text("action"))
        .add("priority", urgency(&message["priority"]))
        .add("origin", text("origin"))
        .add("session", text("sessionId"))
        .add("answers", text("inReplyTo"))
        .add("confidence", text("confidence"))
        .add("rationale", text("rationale"))
        .add("trace", text("traceparent"))
        .add("deliver at", time(&message["deliverAt"]))
        .add("expires at", time(&message["expiresAt"]))
        .add("deliveries", states.collect::<Vec<_>>().join("\n"))
        .add("payload", payload(&message["payload"]))
}

/// How urgent a message is, in a word.
pub(crate) fn urgency(level: &Value) -> String {
    let words = ["low", "normal", "high", "urgent"];
    let word = level.as_u64().and_then(|level| words.get(usize::try_from(level).ok()?));
    word.map_or_else(|| level.to_string(), |word| (*word).to_owned())
}
