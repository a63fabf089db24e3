//! Options and errors of commands that read playbooks. Playbooks are parsed by quorate-agents.

use std::path::Path;

use clap::Args;
use quorate_agents::EnvInheritance;
use quorate_agents::playbook::{
    FileAccess, InputSource, Playbook, PlaybookAccess, PlaybookAgents, PlaybookError, read_input, read_text,
};

use crate::exit::{CommandError, USAGE};

/// Options that give a playbook and its programs more access.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct AccessArgs {
    #[command(flatten)]
    programs: ProgramArgs,
    /// Allow the playbook to name files outside its directory.
    #[arg(long)]
    allow_outside_files: bool,
}

/// Options of the programs that are declared with `cmd:`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ProgramArgs {
    /// Pass all environment variables to `cmd:` agents, except for QUORATE_* and API keys.
    #[arg(long)]
    inherit_env: bool,
}

impl ProgramArgs {
    pub(crate) fn env_inheritance(self) -> EnvInheritance {
        if self.inherit_env { EnvInheritance::All } else { EnvInheritance::Allowlist }
    }
}

impl AccessArgs {
    fn access(self) -> PlaybookAccess {
        let files = if self.allow_outside_files { FileAccess::Anywhere } else { FileAccess::BelowPlaybook };
        PlaybookAccess { files, env_inheritance: self.env_inheritance() }
    }

    pub(crate) fn env_inheritance(self) -> EnvInheritance {
        self.programs.env_inheritance()
    }
}

/// Reads the agents of a playbook, which may have no procedure.
pub(crate) fn read_playbook_agents(path: &Path, access: AccessArgs) -> anyhow::Result<PlaybookAgents> {
    PlaybookAgents::read(path, access.access()).map_err(to_command_error)
}

/// Reads a playbook file; `input` can override its input.
pub(crate) fn read_playbook(
    path: &Path,
    input: InputSource<'_>,
    access: AccessArgs,
) -> anyhow::Result<Playbook> {
    Playbook::read(path, input, access.access()).map_err(to_command_error)
}

/// Parses a playbook that is not a file; `path` is used for errors and relative paths.
pub(crate) fn parse_playbook(
    path: &Path,
    playbook: &str,
    input: InputSource<'_>,
) -> anyhow::Result<Playbook> {
    Playbook::parse(path, playbook, input, PlaybookAccess::default()).map_err(to_command_error)
}

/// Reads the input of agents, which must be text and not empty.
pub(crate) fn read_input_file(path: &Path) -> anyhow::Result<String> {
    read_input(path).map_err(to_command_error)
}

/// Reads a text file up to a size limit. The error calls the file `kind`.
pub(crate) fn read_text_file(path: &Path, bytes_max: u64, kind: &str) -> anyhow::Result<String> {
    read_text(path, bytes_max, kind).map_err(to_command_error)
}

/// Converts an error, with its exit code. That of a file which cannot be read depends on the error of the operating system.
fn to_command_error(error: PlaybookError) -> anyhow::Error {
    match &error {
        PlaybookError::Invalid { .. } => CommandError::new(USAGE, error.to_string(), error.hint()).into(),
        PlaybookError::Read { .. } => error.into(),
    }
}
