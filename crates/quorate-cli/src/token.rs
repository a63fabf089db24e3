//! `quorate token`: who is let in.

mod at_rest;

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use quorate_store::{Clock as _, SystemClock};

use crate::exit::{Ended, USAGE};
use crate::hub::{DryRun, Fields, HubArgs, Listing, Method, Noun, segment};
use crate::shape::{Column, Shape, field, read, time};
use crate::text;

/// Tokens of agents, people and tools.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate token create --role viewer --name dashboard > dashboard.token")]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    shape: Shape,
    #[command(subcommand)]
    verb: TokenVerb,
}

#[derive(Subcommand, Debug)]
enum TokenVerb {
    /// Make a token and print it, alone on stdout and this once. [rw]
    #[command(
        after_help = "Example: quorate token create --role agent --agent bob --name laptop --expires 30d > bob.token

Whoever owns the data directory needs no token: if no hub runs there, it is made
in the directory itself. A hub that starts makes its own admin's token (in
admin-token) if that is missing."
    )]
    Create(CreateArgs),
    /// List tokens, newest first; none of them is shown. [ro]
    #[command(after_help = "Example: quorate token list")]
    List {
        #[command(flatten)]
        page: Listing,
    },
    /// End a token: within 5 s nobody gets in with it any more. [rw]
    #[command(after_help = "Example: quorate token revoke tok_1-4-0")]
    Revoke {
        /// Its id, the beginning of it, or @last.
        id: String,
        #[command(flatten)]
        dry_run: DryRun,
    },
}

#[derive(Args, Debug)]
struct CreateArgs {
    /// What it lets its bearer do.
    #[arg(long, value_parser = ["agent", "operator", "approver", "moderator", "viewer", "admin"])]
    role: String,
    /// For the role agent: which one.
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// What it is for, to know it again.
    #[arg(long)]
    name: String,
    /// When it ends: 12h, 30d, or a time like 2026-01-31T09:30:00Z. Without, it does not end by itself.
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
    #[command(flatten)]
    dry_run: DryRun,
}

const COLUMNS: &[Column] = &[
    ("ID", |token| field(token, "id")),
    ("ROLE", |token| field(token, "role")),
    ("AGENT", |token| field(token, "agent")),
    ("NAME", |token| field(token, "name")),
    ("CREATED", |token| time(&token["createdAt"])),
    ("EXPIRES", |token| time(&token["expiresAt"])),
    ("BY", |token| field(token, "createdBy")),
];

pub(crate) async fn run(args: TokenArgs) -> anyhow::Result<()> {
    let TokenArgs { hub, shape, verb } = args;
    if let (TokenVerb::Create(args), Some(data)) = (&verb, hub.resting()?) {
        return at_rest::create(&data, hub.space.as_deref(), args, &shape).await;
    }
    let hub = hub.open_as(&shape)?;
    match verb {
        TokenVerb::Create(args) => {
            let answer = hub.change(args.dry_run, (Method::Post, "/v1/tokens"), Some(args.body()?)).await?;
            answer.map_or(Ok(()), |answer| made(&args, &answer, &shape, "to end it"))
        }
        TokenVerb::List { page } => {
            shape.list(&hub.get("/v1/tokens", &page.query(&[])).await?, "tokens", COLUMNS)
        }
        TokenVerb::Revoke { id, dry_run } => {
            let id = hub.id(Noun::Token, &id).await?;
            let path = format!("/v1/tokens/{}", segment(&id));
            let answer = hub.change(dry_run, (Method::Delete, &path), None).await?;
            answer.iter().for_each(|answer| shape.done(answer, &format!("token {id} is revoked")));
            Ok(())
        }
    }
}

impl CreateArgs {
    /// What the hub is asked for.
    fn body(&self) -> anyhow::Result<String> {
        let body = Fields::default()
            .set("role", &self.role)?
            .maybe("agent", self.agent.as_ref())?
            .set("name", &self.name)?
            .maybe("expiresAt", self.expires.as_deref().map(moment).transpose()?)?;
        Ok(body.to_json())
    }
}

/// Tells of a new token; `to_end_it` says when the command for that works.
fn made(args: &CreateArgs, answer: &str, shape: &Shape, to_end_it: &str) -> anyhow::Result<()> {
    let made = read(answer)?;
    let (id, CreateArgs { role, name, .. }) = (field(&made, "id"), args);
    let done = format!("token {id} of role {role}, {name}: it is on stdout, this once");
    let again =
        format!("token {id} was made and is lost; end it, and make another: quorate token revoke {id}");
    shape.made_once(answer, &field(&made, "token"), &done, &again)?;
    text::say(format!("{to_end_it}: quorate token revoke {id}"));
    Ok(())
}

/// A time that was written, or one that is so far from now.
pub(crate) fn moment(text: &str) -> anyhow::Result<String> {
    let wrong = || {
        let hint = "write 90s, 15m, 12h, 30d, or a time like 2026-01-31T09:30:00Z";
        anyhow::Error::from(Ended::new(USAGE, format!("{:?} is no time", text::clean_line(text)), hint))
    };
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(format!("{time:.3}"));
    }
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let number: i64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let far = SignedDuration::from_secs(number.checked_mul(seconds).ok_or_else(wrong)?);
    let now = i64::try_from(SystemClock::new().now().wall.0)?;
    let time = Timestamp::from_millisecond(now)?.checked_add(far).map_err(|_| wrong())?;
    Ok(format!("{time:.3}"))
}
