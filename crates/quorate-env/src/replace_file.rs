//! Writes files atomically: to a temporary file next to them, which is then renamed. Neither step follows a symbolic link:
//! one with the name of the temporary file is removed, and one with the name of the file is replaced.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Creates or replaces a file. `mode` are its permissions whatever the umask; by default the umask applies.
///
/// # Errors
/// The error of the operating system. The file is then unchanged.
pub fn replace_file(path: &Path, content: &[u8], mode: Option<u32>) -> io::Result<()> {
    let temporary = temporary_of(path);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if let Some(mode) = mode {
        // Restricted before the first byte is written.
        options.mode(mode & 0o600);
    }
    let mut file = options.open(&temporary)?;
    file.write_all(content)?;
    if let Some(mode) = mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".part");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    // Fails under: a temporary file or a file that is opened through a symbolic link; permissions that depend on the umask.
    #[test]
    fn i18_a_symbolic_link_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, victim) = (directory.path().join("letter.txt"), directory.path().join("victim"));
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, directory.path().join("letter.txt.part")).expect("linked");
        symlink(&victim, &file).expect("linked");
        for mode in [0o600, 0o644] {
            replace_file(&file, b"new", Some(mode)).expect("written");
            let metadata = fs::symlink_metadata(&file).expect("it exists");
            assert!(metadata.is_file());
            assert_eq!(metadata.permissions().mode() & 0o777, mode);
            assert_eq!(fs::read_to_string(&file).expect("read"), "new");
        }
        assert_eq!(fs::read_to_string(&victim).expect("read"), "precious");
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 2, "no temporary file is left");
    }
}
