//! Runs steps and external commands. A step prints its name before it starts and its duration afterwards; a failure aborts
//! the run.
//!
//! The output of commands is not captured: it goes to the terminal unchanged.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Returns a cargo command. It uses the cargo that started this program, so that `cargo +beta xtask` applies to every
/// step.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(args);
    // CI builds once, from nothing: files for incremental builds and debuggers would only cost time and disk.
    if std::env::var_os("CI").is_some() {
        command.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    }
    command
}

/// Returns the target directory of cargo.
pub(crate) fn target_directory(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Runs a step and prints a line before and after it.
pub(crate) fn run(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("── {name}");
    let start = Instant::now();
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    match &result {
        Ok(()) => eprintln!("   {name}: ok, {seconds:.1} s"),
        Err(_) => eprintln!("   {name}: FAILED, {seconds:.1} s"),
    }
    result.with_context(|| format!("step `{name}` failed"))
}

/// Runs a command with inherited standard streams and fails if it does not succeed.
pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    let command_line = command_line(command);
    eprintln!("   $ {command_line}");
    let status = command.status().with_context(|| format!("cannot start `{command_line}`"))?;
    if !status.success() {
        bail!("`{command_line}`: {status}");
    }
    Ok(())
}

/// Runs a command and returns its stdout; stderr is inherited.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let command_line = command_line(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{command_line}`"))?;
    if !output.status.success() {
        bail!("`{command_line}`: {}", output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{command_line}` printed text that is not UTF-8"))
}

/// Whether a command starts and succeeds. Its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Formats a command as typed in a shell: program name without its directory, then the arguments.
fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_stem().unwrap_or(program.as_os_str());
    let mut words = vec![name.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}
