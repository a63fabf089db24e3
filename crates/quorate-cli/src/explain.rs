//! `quorate explain CODE`: prints the documentation page of an error code, offline.

use clap::Args;
use quorate_core::Code;
use serde_json::json;

use crate::exit::CommandError;
use crate::terminal;

/// Arguments of `quorate explain`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate explain STALE_LEASE")]
pub(crate) struct ExplainArgs {
    /// Error code, as printed in `error[CODE]`; by default all codes are listed.
    code: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

macro_rules! pages {
    ($($code:ident => $file:literal),* $(,)?) => {
        /// Returns the page of a code.
        fn page(code: Code) -> &'static str {
            match code {
                $(Code::$code => include_str!(concat!("../../../docs/errors/", $file, ".md")),)*
            }
        }
    };
}

pages! {
    Invalid => "INVALID",
    Unauthenticated => "UNAUTHENTICATED",
    Forbidden => "FORBIDDEN",
    PolicyViolation => "POLICY_VIOLATION",
    NotFound => "NOT_FOUND",
    UnknownRecipient => "UNKNOWN_RECIPIENT",
    Timeout => "TIMEOUT",
    Conflict => "CONFLICT",
    VersionConflict => "VERSION_CONFLICT",
    StaleLease => "STALE_LEASE",
    StaleEpoch => "STALE_EPOCH",
    Duplicate => "DUPLICATE",
    SessionClosed => "SESSION_CLOSED",
    Cancelled => "CANCELLED",
    Expired => "EXPIRED",
    TooLarge => "TOO_LARGE",
    SecretDetected => "SECRET_DETECTED",
    LimitExceeded => "LIMIT_EXCEEDED",
    QueueFull => "QUEUE_FULL",
    StorageFailed => "STORAGE_FAILED",
    Unavailable => "UNAVAILABLE",
    Overloaded => "OVERLOADED",
    StorageFull => "STORAGE_FULL",
    StaleFence => "STALE_FENCE",
    Deadlock => "DEADLOCK",
    LoopRefused => "LOOP_REFUSED",
    BudgetExceeded => "BUDGET_EXCEEDED",
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    let Some(code) = &args.code else {
        if args.json {
            let all =
                Code::ALL.iter().map(|code| json!({"code": code.as_str(), "summary": summary(page(*code))}));
            terminal::print(json!({"codes": all.collect::<Vec<_>>()}).to_string());
            return Ok(());
        }
        for code in Code::ALL.iter().copied() {
            terminal::print(format!("{code:<18} {}", summary(page(code))));
        }
        return Ok(());
    };
    let upper = code.to_uppercase().replace('-', "_");
    match Code::ALL.iter().copied().find(|code| code.as_str() == upper) {
        Some(code) if args.json => {
            let (summary, page) = (summary(page(code)), page(code).trim_end());
            terminal::print(json!({"code": code.as_str(), "summary": summary, "page": page}).to_string());
            Ok(())
        }
        Some(code) => {
            terminal::print(page(code).trim_end());
            Ok(())
        }
        None => Err(CommandError {
            code: 3,
            message: format!("unknown error code {}", terminal::sanitize(code)),
            hint: "run `quorate explain` to list all codes".into(),
        }
        .into()),
    }
}

/// Returns the first sentence below the title.
fn summary(page: &str) -> String {
    let below = page.lines().skip(1).skip_while(|line| line.trim().is_empty());
    let paragraph: Vec<_> = below.take_while(|line| !line.trim().is_empty()).collect();
    let text = paragraph.join(" ");
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a summary that ends with the first line of a wrapped sentence.
    #[test]
    fn every_code_has_a_page_with_a_summary() {
        for code in Code::ALL.iter().copied() {
            assert!(page(code).starts_with(&format!("# {code}")), "{code}");
            let summary = summary(page(code));
            assert!(summary.len() > 10 && summary.ends_with('.'), "{code}: {summary}");
        }
    }
}
