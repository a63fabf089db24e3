//! `quorate version`: prints the version and the platform.

use clap::Args;
use serde_json::json;

use crate::output::{Details, OutputArgs};

/// Arguments of `quorate version`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate version --json")]
pub(crate) struct VersionArgs {
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &VersionArgs) -> anyhow::Result<()> {
    let (version, platform) =
        (env!("CARGO_PKG_VERSION"), format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH));
    let document = json!({"name": "quorate", "version": version, "machine": platform});
    args.output.item(&document.to_string(), || {
        Ok(Details::default().add("quorate", version).add("machine", platform))
    })
}
