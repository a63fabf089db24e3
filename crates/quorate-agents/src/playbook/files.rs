//! Files that a playbook names. They stay below the directory of the playbook, so that a playbook from someone else
//! cannot send any file of the user to a model.

use std::path::{Path, PathBuf};

use serde_saphyr::Spanned;

use super::{InputSource, PlaybookError, PlaybookPath, read_input};

/// Files that a playbook may name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileAccess {
    /// Only files below its directory, after symbolic links are resolved.
    #[default]
    BelowPlaybook,
    /// Any file.
    Anywhere,
}

/// Flag that allows other files.
const ALLOW_FLAG: &str = "--allow-outside-files";

impl PlaybookPath<'_> {
    /// Reads the input of the agents: the caller's, or the file that the playbook names.
    ///
    /// # Errors
    /// If the file may not be read, cannot be read or is empty.
    pub(super) fn input_text(
        &self,
        input: InputSource<'_>,
        named: Option<&Spanned<String>>,
        access: FileAccess,
    ) -> Result<Option<String>, PlaybookError> {
        match (input, named) {
            (InputSource::Text(text), _) => Ok(Some(text)),
            (InputSource::File(given), _) => read_input(given).map(Some),
            (InputSource::FromPlaybook, Some(named)) => {
                let position = ("input", named.referenced.line());
                read_input(&self.resolve(position, &named.value, access)?).map(Some)
            }
            (InputSource::FromPlaybook, None) => Ok(None),
        }
    }

    /// Returns the path of a file or directory that the playbook names in `field`.
    ///
    /// # Errors
    /// If it is outside the directory of the playbook and the access does not allow that.
    pub(super) fn resolve(
        &self,
        (field, line): (&str, u64),
        name: &str,
        access: FileAccess,
    ) -> Result<PathBuf, PlaybookError> {
        let path = self.directory().join(name);
        if access == FileAccess::Anywhere || is_below(&path, self.directory()) {
            return Ok(path);
        }
        let message = format!("{field}: {name} is outside the directory of the playbook");
        let hint = match field {
            "input" => {
                format!("move the file there, pass it with --input FILE, or allow it with {ALLOW_FLAG}")
            }
            _ => format!("move the file there, or allow it with {ALLOW_FLAG}"),
        };
        Err(self.error_at(line, &message, &hint))
    }
}

/// Reads a text file up to a size limit. The error calls the file `kind`.
///
/// # Errors
/// If the file cannot be read, is too long, or not text.
pub fn read_text(path: &Path, bytes_max: u64, kind: &str) -> Result<String, PlaybookError> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let failed = |error| PlaybookError::read(path, error);
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("{} is longer than {bytes_max} bytes, the limit for {kind}", path.display());
        return Err(PlaybookError::new(message, "shorten the file, or use a part of it"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count();
        let message = format!("{}:{line}: not a text file: byte {offset} is not valid UTF-8", path.display());
        PlaybookError::new(message, "use plain text; convert a PDF or other document to text first")
    })
}

/// Whether a path is below a directory. What does not exist yet is judged by the deepest part that does.
fn is_below(path: &Path, directory: &Path) -> bool {
    // `..` after a missing part cannot be resolved.
    let has_parent = |rest: &Path| rest.components().any(|part| part == std::path::Component::ParentDir);
    let Ok(directory) = directory.canonicalize() else { return false };
    let existing = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    existing.is_some_and(|(ancestor, resolved)| {
        let is_resolved = path.strip_prefix(ancestor).is_ok_and(|rest| !has_parent(rest));
        is_resolved && resolved.starts_with(&directory)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a check of the text of the path only; a check that does not resolve symbolic links.
    #[test]
    fn s14_a_path_below_a_directory_is_recognized_after_links_are_resolved() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("playbook"), root.path().join("outside"));
        std::fs::create_dir_all(inside.join("prompts")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        for file in [inside.join("a.txt"), inside.join("prompts/b.md"), outside.join("secret.txt")] {
            std::fs::write(file, "x").unwrap();
        }
        std::os::unix::fs::symlink(outside.join("secret.txt"), inside.join("link.txt")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("folder")).unwrap();
        std::os::unix::fs::symlink(inside.join("a.txt"), inside.join("own.txt")).unwrap();
        let below = |name: &str| is_below(&inside.join(name), &inside);
        for name in ["a.txt", "prompts/b.md", "./prompts/../a.txt", "own.txt", "missing.txt", "new/tape"] {
            assert!(below(name), "{name}");
        }
        let absolute = inside.join("a.txt");
        assert!(below(absolute.to_str().unwrap()), "an absolute path is allowed if it is below");
        let outside = outside.join("secret.txt");
        for name in [
            "../outside/secret.txt",
            "/etc/passwd",
            outside.to_str().unwrap(),
            "link.txt",
            "folder/secret.txt",
            "folder/missing",
            "missing/../../outside/secret.txt",
            "..",
        ] {
            assert!(!below(name), "{name}");
        }
    }
}
