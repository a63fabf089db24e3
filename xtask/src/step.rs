//! A step: a command that prints its name before and its duration after, and ends the run when it fails.
//!
//! What the command itself prints goes to the terminal as it is; nothing is captured or reworded.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The cargo that started us, so that a toolchain named on the command line (`cargo +beta xtask`) holds for every step.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(args);
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Runs one step and prints a line before and after it.
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

/// Runs a command to its end with our own standard streams.
pub(crate) fn call(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    eprintln!("   $ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}`: {status}");
    }
    Ok(())
}

/// Runs a command to its end and returns what it printed; its errors go to our own.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}`: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed text that is not UTF-8"))
}

/// Whether a command starts and succeeds; its output is dropped.
pub(crate) fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The command as a person would type it: program name without its folder, then the arguments.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_stem().unwrap_or(program.as_os_str());
    let mut words = vec![name.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}
