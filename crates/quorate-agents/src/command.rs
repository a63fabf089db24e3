//! Agents that are programs: one JSON object on stdin, the answer on stdout.
//!
//! No shell is involved. The program runs in the directory of the playbook with the environment of this process, in a
//! process group of its own that is terminated as a whole. A program that leaves its group on purpose (`setsid`) is not
//! tracked.

mod group;
mod run;

use std::path::{Path, PathBuf};

use crate::clock::Instant;
use crate::question::{Failure, Kind, Question, Reply, Usage};
use crate::shape::{self, Shape, Unfit};

/// An agent that is a program.
pub(crate) struct Program {
    argv: Vec<String>,
    directory: PathBuf,
}

impl Program {
    pub(crate) fn new(argv: Vec<String>, directory: &Path) -> Self {
        Self { argv, directory: directory.to_owned() }
    }

    /// Label of the agent, for errors.
    pub(crate) fn place(&self) -> String {
        format!("cmd:{}", shell_words::join(&self.argv))
    }

    /// Runs the program; if the answer does not match the schema, runs it once more with the error.
    pub(crate) async fn answer(&self, question: &Question, until: Instant) -> Result<Reply, Failure> {
        let shape = Shape::new(question.schema.as_ref())?;
        let mut usage = Usage::default();
        let mut asked = crate::ask::question(question, None);
        for last in [false, true] {
            usage.calls += 1;
            let text = self.run(&asked, until).await.map_err(|failure| failure.after(usage))?;
            if text.trim().is_empty() {
                let what = "exited successfully but wrote nothing to stdout";
                return Err(Failure::new(Kind::WrongShape, self.place(), what)
                    .hint("write the answer to stdout, as JSON or as text")
                    .after(usage));
            }
            let unfit = match shape.read(&text) {
                Ok(fits) => {
                    return Ok(Reply { body: fits.body, usage, notes: fits.note.into_iter().collect() });
                }
                Err(unfit) => unfit,
            };
            if matches!(unfit, Unfit::Text) && (last || !shape.is_asked_for()) {
                let notes = vec!["answered in plain text: confidence unknown".to_owned()];
                return Ok(Reply { body: shape::plain(&text), usage, notes });
            }
            if last {
                return Err(crate::ask::wrong_shape(&self.place(), &unfit).after(usage));
            }
            asked = crate::ask::question(question, Some((&unfit, &text)));
        }
        unreachable!("the last attempt returns")
    }

    /// Finds the executable file.
    ///
    /// # Errors
    /// If it does not exist or is not executable.
    pub(crate) fn find(&self) -> Result<PathBuf, Failure> {
        let name = &self.argv[0];
        let found = if name.contains('/') {
            Some(self.directory.join(name)).filter(|path| is_executable(path))
        } else {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_executable(path))
        };
        found.ok_or_else(|| {
            let (what, hint) = if name.contains('/') {
                (
                    format!("`{name}` is not an executable file in {}", self.directory.display()),
                    "fix the path, or make the file executable",
                )
            } else {
                (format!("`{name}` not found on PATH"), "install it, or use its full path")
            };
            Failure::new(Kind::NotFound, self.place(), what).hint(hint)
        })
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
