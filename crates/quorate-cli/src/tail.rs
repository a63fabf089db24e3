//! `quorate tail`: follows the events of a space. Reconnects after a broken connection without missing events.

mod effect_summary;

use std::time::Duration;

use clap::Args;
use quorate_api::event::Event;
use quorate_client::Error;
use quorate_core::Code;
use quorate_store::{Clock as _, SystemClock};

use crate::exit::{CommandError, USAGE};
use crate::hub::{Hub, HubArgs, until_interrupted};
use crate::output::{OutputArgs, OutputFormat, format_time};
use crate::terminal;

/// Initial and maximum backoff before reconnecting.
const BACKOFF_MS: (u64, u64) = (250, 5_000);
/// Keys of filters.
const FILTERS: [&str; 3] = ["kind", "agent", "session"];

/// Arguments of `quorate tail`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate tail --where kind=message.sent --where agent=bob

Prints one line per effect; with --jsonl one record per line, as the hub sends it. Runs until \
^C (exit code 130) or --limit, and reconnects after a broken connection without missing records. To print \
everything: quorate tail --from 1")]
#[command(mut_arg("json", |arg| arg.help("Same as --jsonl")))]
pub(crate) struct TailArgs {
    /// Filter: kind=EFFECT[,EFFECT…], agent=ID or session=ID; can be repeated.
    #[arg(long = "where", value_name = "FILTER")]
    filters: Vec<String>,
    /// First record; by default, only new records.
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Stop after N records.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl TailArgs {
    /// Creates arguments to follow effects of these kinds, with a first record and a limit.
    pub(crate) fn for_kinds(
        kinds: &str,
        hub: HubArgs,
        output: OutputArgs,
        (from, limit): (Option<u64>, Option<u64>),
    ) -> Self {
        Self { filters: vec![format!("kind={kinds}")], from, limit, hub, output }
    }
}

pub(crate) async fn run(args: TailArgs) -> anyhow::Result<()> {
    let mut query = vec![];
    for filter in &args.filters {
        query.push(parse_filter(filter)?);
    }
    let hub = args.hub.open()?;
    let mut tail = Tail { hub, query, format: args.output.format(), next: args.from, remaining: args.limit };
    let mut backoff = 0;
    loop {
        let before = tail.next;
        let result = until_interrupted(tail.follow()).await;
        if before != tail.next {
            backoff = 0;
        }
        match result {
            Ok(Followed::Enough) => return Ok(()),
            Ok(Followed::Broken) => {}
            // Before the first line there is no position to resume from.
            Err(error) if tail.next.is_none() || !is_unavailable(&error) => return Err(error),
            Err(_) => {}
        }
        let from = tail.next.map_or_else(|| "now".to_owned(), |next| format!("record {next}"));
        terminal::note(format!("connection lost; resuming from {from}"));
        // The hub is resolved again: another process may listen there now, which must not get the token.
        loop {
            backoff = (backoff * 2).clamp(BACKOFF_MS.0, BACKOFF_MS.1);
            until_interrupted(async {
                SystemClock::new().wait(Duration::from_millis(backoff)).await;
                Ok(())
            })
            .await?;
            if let Ok(hub) = args.hub.open() {
                tail.hub = hub;
                break;
            }
        }
    }
}

fn is_unavailable(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_some_and(|error| error.code() == Code::Unavailable)
}

fn parse_filter(text: &str) -> anyhow::Result<(&'static str, String)> {
    let find_key = |name: &str| FILTERS.into_iter().find(|key| *key == name);
    let pair = text.split_once('=').and_then(|(name, value)| Some((find_key(name.trim())?, value.trim())));
    match pair {
        Some((name, value)) if !value.is_empty() => Ok((name, value.to_owned())),
        _ => {
            let message = format!("invalid filter --where {:?}", terminal::sanitize_line(text));
            Err(CommandError::new(USAGE, message, "use kind=EFFECT, agent=ID or session=ID").into())
        }
    }
}

enum Followed {
    /// The limit is reached, or the reader closed the pipe.
    Enough,
    Broken,
}

struct Tail {
    hub: Hub,
    query: Vec<(&'static str, String)>,
    format: OutputFormat,
    next: Option<u64>,
    remaining: Option<u64>,
}

impl Tail {
    async fn follow(&mut self) -> anyhow::Result<Followed> {
        let mut query: Vec<(&str, Option<String>)> =
            self.query.iter().map(|(name, value)| (*name, Some(value.clone()))).collect();
        query.push(("from", self.next.map(|next| next.to_string())));
        let mut lines = self.hub.lines("/v1/events", &query).await?;
        while let Some(line) = lines.next().await? {
            let line = String::from_utf8_lossy(&line);
            if let Some(from) = line.strip_prefix(": from ").and_then(|from| from.trim().parse().ok()) {
                // The first line has the start position, so that nothing is lost if the connection breaks before the
                // first event.
                self.next = Some(from);
            }
            let Some(data) = line.strip_prefix("data: ") else { continue };
            if self.remaining == Some(0) {
                return Ok(Followed::Enough);
            }
            let event: Event = serde_json::from_str(data)?;
            if !self.print(data, &event)? {
                return Ok(Followed::Enough);
            }
            self.next = Some(event.seq.0.saturating_add(1));
            self.remaining = self.remaining.map(|remaining| remaining - 1);
            if self.remaining == Some(0) {
                return Ok(Followed::Enough);
            }
        }
        Ok(Followed::Broken)
    }

    /// Prints an event; returns whether the output is still open.
    fn print(&self, data: &str, event: &Event) -> anyhow::Result<bool> {
        if matches!(self.format, OutputFormat::Json | OutputFormat::Jsonl) {
            return terminal::print_streaming(terminal::sanitize_json(data));
        }
        for effect in &event.effects {
            let cells = [
                event.seq.to_string(),
                format_time(&event.at.to_string().into()),
                event.principal.clone(),
                effect.name().to_owned(),
                effect_summary::render(effect),
            ];
            let cells = cells.map(|cell| terminal::sanitize_line(&cell));
            let line = match (self.format, &cells) {
                (OutputFormat::Compact, cells) => cells.join("\t"),
                // Streamed lines cannot be aligned with later ones, so the columns have widths that usually suffice.
                (_, [seq, at, principal, effect, summary]) => {
                    format!("{seq:>6}  {at}  {principal:<18}  {effect:<20}  {summary}").trim_end().to_owned()
                }
            };
            if !terminal::print_streaming(line)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
