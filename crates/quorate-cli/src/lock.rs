//! `quorate lock`: acquires, renews, releases and lists locks.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use crate::hub::{ActingAgentArgs, DryRunArgs, Hub, HubArgs, JsonFields, Method, PageArgs, percent_encode};
use crate::output::{Column, Details, OutputArgs, field, format_time, or_dash, parse_response};
use crate::terminal;
use crate::token::parse_duration;

/// Arguments of `quorate lock`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate lock list")]
pub(crate) struct LockArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: LockVerb,
}

#[derive(Subcommand, Debug)]
enum LockVerb {
    /// Acquire a lock, or several atomically, and print the fencing token. [rw]
    #[command(after_help = "Example: quorate lock acquire report --ttl 2m --wait 10s

For one lock, stdout is the fencing token alone; for several, one line per lock: its name and fencing token. The exit code is 6 if the locks are not available in time, and 5 if waiting for them would be a deadlock.")]
    Acquire(AcquireArgs),
    /// Renew a lock, starting from now. [rw]
    #[command(after_help = "Example: quorate lock renew report 7 --ttl 2m

The exit code is 5 if the lock is not held under this fencing token.")]
    Renew {
        #[command(flatten)]
        held: HeldArgs,
        /// How long it is held from now: 90s, 15m or 12h; by default as long as it was acquired for.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        ttl: Option<Duration>,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// Release a lock. [rw]
    #[command(after_help = "Example: quorate lock release report 7")]
    Release {
        #[command(flatten)]
        held: HeldArgs,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// List locks by name. [ro]
    #[command(after_help = "Example: quorate lock list")]
    List {
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show a lock, its holders, and the agents that wait for it. [ro]
    #[command(after_help = "Example: quorate lock show report")]
    Show {
        /// Name of the lock.
        name: String,
    },
}

#[derive(Args, Debug)]
struct AcquireArgs {
    /// Name of the lock; several are acquired all or none.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// How long it is held without renewal: 90s, 15m or 12h; 30 s by default.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// How long to wait if it is held, at most 60s; by default, do not wait.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Number of agents that can hold it at the same time; 1 by default.
    #[arg(long, value_name = "N")]
    capacity: Option<u32>,
    /// Priority among the waiting agents.
    #[arg(long, value_parser = ["low", "normal", "high", "urgent"])]
    priority: Option<String>,
    #[command(flatten)]
    agent: ActingAgentArgs,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// A lock that is held.
#[derive(Args, Debug)]
struct HeldArgs {
    /// Name of the lock.
    name: String,
    /// Fencing token, as printed by `lock acquire`.
    fence: u64,
}

/// A lock and its fencing token, written `LOCK=FENCE`, for a write that requires the lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct FenceArg {
    lock: String,
    fence: u64,
}

impl FromStr for FenceArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected LOCK=FENCE, such as report=7";
        let (lock, fence) = text.rsplit_once('=').ok_or(expected)?;
        Ok(Self { lock: lock.to_owned(), fence: fence.parse().map_err(|_| expected)? })
    }
}

const COLUMNS: &[Column] = &[
    ("NAME", |lock| field(lock, "name")),
    ("HELD BY", |lock| or_dash(holders(lock, |holder| field(holder, "agent")).join(", "))),
    ("FENCE", |lock| or_dash(holders(lock, |holder| field(holder, "fence")).join(", "))),
    ("CAPACITY", |lock| field(lock, "capacity")),
    ("WAITING", |lock| field(lock, "waitingCount")),
    ("SINCE", |lock| format_time(&lock["holders"][0]["since"])),
];

fn holders(lock: &Value, text: impl Fn(&Value) -> String) -> Vec<String> {
    lock["holders"].as_array().into_iter().flatten().map(text).collect()
}

pub(crate) async fn run(args: LockArgs) -> anyhow::Result<()> {
    let LockArgs { hub, output, verb } = args;
    let hub = hub.open_with_output(&output)?;
    match verb {
        LockVerb::Acquire(args) => acquire(&hub, &output, args).await,
        LockVerb::Renew { held, ttl, dry_run } => {
            let body = held.fields()?.set_if_some("ttlMs", ttl.map(|ttl| ttl.as_millis()))?;
            let Some(response) = held.change(&hub, "renew", body, dry_run).await? else { return Ok(()) };
            let until = format_time(&parse_response(&response)?["until"]);
            output.done(&response, &format!("lock {} is held until {until}", held.name));
            Ok(())
        }
        LockVerb::Release { held, dry_run } => {
            let response = held.change(&hub, "release", held.fields()?, dry_run).await?;
            response
                .iter()
                .for_each(|response| output.done(response, &format!("released lock {}", held.name)));
            Ok(())
        }
        LockVerb::List { page } => {
            let query = [("limit", page.limit()), ("cursor", page.cursor())];
            output.list(&hub.get("/v1/locks", &query).await?, "locks", COLUMNS)
        }
        LockVerb::Show { name } => {
            let response = hub.get(&format!("/v1/locks/{}", percent_encode(&name)), &[]).await?;
            output.item(&response, || Ok(details(&parse_response(&response)?)))
        }
    }
}

impl HeldArgs {
    fn fields(&self) -> anyhow::Result<JsonFields> {
        JsonFields::default().set("fence", self.fence)
    }

    async fn change(
        &self,
        hub: &Hub,
        call: &str,
        body: JsonFields,
        dry_run: DryRunArgs,
    ) -> anyhow::Result<Option<String>> {
        let path = format!("/v1/locks/{}/{call}", percent_encode(&self.name));
        hub.write(dry_run, (Method::Post, &path), Some(body.to_json())).await
    }
}

async fn acquire(hub: &Hub, output: &OutputArgs, args: AcquireArgs) -> anyhow::Result<()> {
    let [first, more @ ..] = args.names.as_slice() else { return Ok(()) };
    let wait = args.wait.unwrap_or_default();
    let body = JsonFields::default()
        .set_if_some("agent", args.agent.named())?
        .list("names", more)?
        .set_if_some("ttlMs", args.ttl.map(|ttl| ttl.as_millis()))?
        .set_if_some("waitMs", args.wait.map(|wait| wait.as_millis()))?
        .set_if_some("capacity", args.capacity)?
        .set_if_some("priority", args.priority)?;
    let path = format!("/v1/locks/{}/acquire", percent_encode(first));
    let call = (Method::Post, path.as_str());
    let Some(response) = hub.write_waiting(args.dry_run, call, Some(body.to_json()), wait).await? else {
        return Ok(());
    };
    let acquired = parse_response(&response)?;
    let until = format_time(&acquired["until"]);
    let locks = acquired["locks"].as_array().cloned().unwrap_or_default();
    let message = format!("acquired {}, held until {until} unless renewed", args.names.join(", "));
    if output.is_json() {
        output.done(&response, &message);
        return Ok(());
    }
    match locks.as_slice() {
        [lock] => terminal::print(field(lock, "fence")),
        several => several.iter().for_each(|lock| {
            terminal::print(format!(
                "{}\t{}",
                terminal::sanitize_line(&field(lock, "lock")),
                field(lock, "fence")
            ));
        }),
    }
    terminal::note(terminal::sanitize_line(&message));
    Ok(())
}

fn details(lock: &Value) -> Details {
    let held = holders(lock, |holder| {
        let agent = or_dash(field(holder, "agent"));
        let since = format_time(&holder["since"]);
        format!(
            "{agent}, fence {}, since {since}, for {} ms without renewal",
            holder["fence"], holder["ttlMs"]
        )
    });
    let waiting = lock["waiting"].as_array().into_iter().flatten().map(|waiter| {
        let since = format_time(&waiter["since"]);
        let locks = waiter["locks"].as_array().map_or(0, Vec::len);
        let several =
            if locks > 1 { format!(", for {} together", field(waiter, "locks")) } else { String::new() };
        format!("{}, since {since}, priority {}{several}", field(waiter, "agent"), field(waiter, "priority"))
    });
    let waiting: Vec<_> = waiting.collect();
    Details::default()
        .add("name", field(lock, "name"))
        .add("state", if held.is_empty() { "free" } else { "held" })
        .add("held by", held.join("\n"))
        .add("waiting", waiting.join("\n"))
        .add("capacity", field(lock, "capacity"))
        .add("last fence", field(lock, "lastFence"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_a_lock_and_a_number() {
        let fence = |lock: &str, fence| Ok(FenceArg { lock: lock.to_owned(), fence });
        assert_eq!("report=7".parse(), fence("report", 7));
        assert_eq!("a=b=7".parse(), fence("a=b", 7));
        for invalid in ["", "report", "report=", "report=x", "7"] {
            assert!(invalid.parse::<FenceArg>().is_err(), "{invalid}");
        }
    }
}
