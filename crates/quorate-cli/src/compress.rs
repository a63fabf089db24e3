//! `quorate compress`: compresses a context to a budget of tokens, and expands what was left out. Needs no hub, unless the original
//! is stored in or read from the shared memory.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use quorate_procedures::compression::{Compressed, StoredContext, UnknownPart, compress, expand};
use serde::Deserialize;
use serde_json::json;

use crate::exit::{CommandError, NOT_FOUND, USAGE};
use crate::hub::{DryRunArgs, HubArgs, JsonFields, Method, percent_encode};
use crate::terminal;

/// Maximum size of a context.
const CONTEXT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Type of the memory entries that hold originals.
const ENTRY_TYPE: &str = "context";

/// Compress a context to a budget of tokens, and expand what was left out. [rw]
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate compress notes.md --budget 500 --json
         quorate compress notes.md --expand T3
         quorate compress notes.md --store handoff/1
         quorate compress --from handoff/1 --expand full

FILE is Markdown, plain text, or a JSON object with fields such as objective, findings, analysis and next_action. Objective, \
findings and next action are kept, the analysis is summarised by its most informative sentences, large outputs are referenced, \
and reasoning is dropped. The output never exceeds the budget, counted in tokens of o200k_base.

Without --store and --from, no hub is needed. With --store, the original becomes a memory entry, so that other agents can \
expand it with --from, or with GET /v1/context/KEY.")]
pub(crate) struct CompressArgs {
    /// File with the context; - reads stdin.
    #[arg(value_name = "FILE", required_unless_present = "from")]
    file: Option<PathBuf>,
    /// Maximum number of tokens of the output.
    #[arg(long, value_name = "TOKENS", default_value_t = 500)]
    budget: usize,
    /// Print a part of the original instead: T3, T3-T5, or full.
    #[arg(long, value_name = "PART", conflicts_with_all = ["budget", "store"])]
    expand: Option<String>,
    /// Store the original as this new memory entry.
    #[arg(long, value_name = "KEY", conflicts_with = "from")]
    store: Option<String>,
    /// Read the original from this memory entry.
    #[arg(long, value_name = "KEY", conflicts_with = "file")]
    from: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    hub: HubArgs,
}

/// A memory entry that holds an original.
#[derive(Deserialize)]
struct Entry {
    content: StoredContext,
}

pub(crate) async fn run(args: CompressArgs) -> anyhow::Result<()> {
    let source = match (&args.store, &args.from, &args.file) {
        (Some(key), ..) | (_, Some(key), _) => format!("memory:{key}"),
        (_, _, Some(file)) => file.display().to_string(),
        (None, None, None) => String::new(),
    };
    let stored = match &args.from {
        Some(key) => Some(read_entry(&args.hub, key).await?),
        None => None,
    };
    let text = match (&stored, &args.file) {
        (Some(stored), _) => stored.original(),
        (None, file) => read_context(file.as_deref().unwrap_or(Path::new("-")))?,
    };
    if let Some(reference) = &args.expand {
        let part = match &stored {
            Some(stored) => stored.expand(reference),
            None => expand(&text, reference).map(str::to_owned),
        };
        print_part(reference, &part.map_err(unknown_part)?, args.json);
        return Ok(());
    }
    let compressed = compress(&text, &source, args.budget).map_err(|error| {
        CommandError::new(USAGE, error.to_string(), format!("use --budget {} or more", error.minimum))
    })?;
    if let Some(key) = &args.store {
        let body = JsonFields::default()
            .set("type", ENTRY_TYPE)?
            .set("content", StoredContext::new(&text))?
            .set("expect", 0)?;
        let call = (Method::Put, &*format!("/v1/context/{}", percent_encode(key)));
        if args.hub.open()?.write(args.dry_run, call, Some(body.to_json())).await?.is_none() {
            return Ok(());
        }
    }
    print_compressed(&compressed, args.json);
    Ok(())
}

fn print_compressed(compressed: &Compressed, as_json: bool) {
    let text = if as_json { terminal::sanitize_json(&compressed.to_json()) } else { compressed.to_yaml() };
    terminal::print(text.trim_end());
    let Compressed { original_tokens, tokens, .. } = compressed;
    let percent = 100.0 * compressed.ratio();
    terminal::note(format!("{original_tokens} tokens compressed to {tokens} ({percent:.0} %)"));
}

/// Prints a part byte for byte, except on a terminal.
fn print_part(reference: &str, part: &str, as_json: bool) {
    if as_json {
        let document = json!({"reference": reference, "text": part}).to_string();
        terminal::print(terminal::sanitize_json(&document));
    } else if terminal::stdout_is_terminal() {
        terminal::print(terminal::sanitize(part));
    } else {
        terminal::write_raw(part);
    }
}

fn unknown_part(error: UnknownPart) -> CommandError {
    CommandError::new(
        NOT_FOUND,
        error.to_string(),
        "use a reference from `expandable` or `refs` of the compressed context",
    )
}

fn read_context(file: &Path) -> anyhow::Result<String> {
    let name = || if file == Path::new("-") { "stdin".to_owned() } else { file.display().to_string() };
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(CONTEXT_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .context("failed to read stdin")?;
    } else {
        let opened = std::fs::File::open(file).with_context(|| format!("failed to read {}", name()))?;
        opened
            .take(CONTEXT_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("failed to read {}", name()))?;
    }
    if bytes.len() as u64 > CONTEXT_BYTES_MAX {
        let message = format!("{} is larger than {} MB", name(), CONTEXT_BYTES_MAX / (1024 * 1024));
        return Err(CommandError::new(USAGE, message, "split the context, and compress its pieces").into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let message = format!("{} is no UTF-8 text: invalid byte at offset {offset}", name());
        CommandError::new(USAGE, message, "convert it to UTF-8, for example with iconv").into()
    })
}

/// Reads the memory entry with an original.
async fn read_entry(hub: &HubArgs, key: &str) -> anyhow::Result<StoredContext> {
    let response = hub.open()?.get(&format!("/v1/context/{}", percent_encode(key)), &[]).await?;
    match serde_json::from_str::<Entry>(&response) {
        Ok(entry) => Ok(entry.content),
        Err(_) => {
            let message = format!("the memory entry {key} holds no compressed context");
            let hint = format!("read it with `quorate memory get {key}`");
            Err(CommandError::new(USAGE, message, hint).into())
        }
    }
}
