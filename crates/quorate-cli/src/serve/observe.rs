//! Logging and tracing options of `serve`: log lines on stderr, and spans to an OpenTelemetry collector.

use std::io::IsTerminal as _;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use quorate_server::{Journal, JournalFormat, JournalLevel, OtlpSettings};
use quorate_store::Clock;

use crate::exit::{CommandError, USAGE};
use crate::terminal;

/// Logging and tracing options.
#[derive(Args, Debug)]
#[command(next_help_heading = "Observability")]
pub(crate) struct ObserveArgs {
    /// Log level: error, warn, info or debug [env: QUORATE_LOG; default: info].
    #[arg(long, value_name = "LEVEL")]
    log: Option<JournalLevel>,
    /// Log format; by default plain on a terminal, otherwise json [env: QUORATE_LOG_FORMAT].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<Format>,
    /// Export spans with OTLP over HTTP to this collector, such as http://127.0.0.1:4318 [env:
    /// OTEL_EXPORTER_OTLP_ENDPOINT]. OTEL_EXPORTER_OTLP_HEADERS and OTEL_SERVICE_NAME are supported as well.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Format {
    Json,
    Plain,
}

/// Returns an environment variable, unless it is blank.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn usage(message: String, hint: &str) -> anyhow::Error {
    CommandError { code: USAGE, message, hint: hint.to_owned() }.into()
}

impl ObserveArgs {
    /// Installs the logger, which writes to stderr. Returns the format of its lines.
    pub(crate) fn install_journal(&self, clock: Arc<dyn Clock>) -> anyhow::Result<JournalFormat> {
        let level = match (self.log, variable("QUORATE_LOG")) {
            (Some(level), _) => level,
            (None, Some(text)) => text.trim().parse().map_err(|hint: String| {
                usage(format!("QUORATE_LOG: invalid level {:?}", terminal::sanitize(&text)), &hint)
            })?,
            (None, None) => JournalLevel::Info,
        };
        let format = match (self.log_format, variable("QUORATE_LOG_FORMAT")) {
            (Some(format), _) => format,
            (None, Some(text)) => Format::from_str(text.trim(), true).map_err(|_| {
                let message = format!("QUORATE_LOG_FORMAT: invalid format {:?}", terminal::sanitize(&text));
                usage(message, "use json or plain")
            })?,
            (None, None) if std::io::stderr().is_terminal() => Format::Plain,
            (None, None) => Format::Json,
        };
        let journal_format = match format {
            Format::Json => JournalFormat::Json,
            Format::Plain => JournalFormat::Plain,
        };
        let journal = Journal::new(
            level,
            journal_format,
            move || clock.now().wall,
            Arc::new(|line| terminal::note(line)),
        );
        tracing::subscriber::set_global_default(journal)?;
        Ok(journal_format)
    }

    /// Returns the exporter settings, if an endpoint is set.
    pub(crate) fn otlp(&self) -> anyhow::Result<Option<OtlpSettings>> {
        let endpoint = self.otlp.clone().or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let Some(endpoint) = endpoint else { return Ok(None) };
        let mut otlp = OtlpSettings::new(endpoint.trim());
        let headers = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let pairs = headers.split(',').filter_map(|pair| pair.split_once('='));
        otlp.headers = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        otlp.service = variable("OTEL_SERVICE_NAME").unwrap_or(otlp.service);
        otlp.check().map_err(|reason| {
            usage(format!("invalid OTLP endpoint: {reason}"), "use --otlp http://HOST:4318, or omit it")
        })?;
        Ok(Some(otlp))
    }
}
