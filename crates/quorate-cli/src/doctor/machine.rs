//! What the machine says: the data directory, its disk, and how many files may be open.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use quorate_store::{Clock as _, SystemClock};
use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};

use super::Check;
use crate::hub::runs;

/// Less room than this is too little to go on for long.
const FREE_MB_MIN: u64 = 500;
/// A disk that takes longer makes every commit slow.
const SYNC_MS_MAX: u64 = 50;
/// Connections that a hub allows, and what it needs besides.
const FILES_MIN: u64 = 10_240;

/// The data directory.
pub(super) fn look(data: &Path) -> Vec<Check> {
    let shown = data.display();
    if !data.exists() {
        return vec![Check::good("data", format!("{shown} is not there: no hub was started here yet"))];
    }
    let mut checks = vec![private("data", data, "700")];
    if !data.join("quorate.db").exists() {
        let fix = "give the directory that a hub was started with: --data DIR";
        checks.push(Check::wrong("data", format!("{shown} holds no data of Quorate"), fix));
        return checks;
    }
    checks.push(disk(data));
    checks.extend(synced(data));
    if runs(data).is_none() {
        checks.push(Check::good(
            "running",
            format!("no hub says that it runs on {shown}; quorate serve starts one"),
        ));
    }
    checks
}

/// Only its owner may read it.
pub(super) fn private(about: &'static str, path: &Path, wanted: &str) -> Check {
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) => Check::wrong(about, format!("{shown}: {error}"), "check the path"),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            let mode = found.permissions().mode() & 0o777;
            let fix = format!("chmod {wanted} {shown}");
            Check::warning(about, format!("{shown} is open to others ({mode:03o})"), fix)
        }
        Ok(_) => Check::good(about, format!("{shown}, closed to others")),
    }
}

/// How much is there, and how much room is left.
fn disk(data: &Path) -> Check {
    let files = fs::read_dir(data).into_iter().flatten().flatten();
    let used: u64 = files.filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).sum();
    let Ok(room) = statvfs(data) else { return Check::good("disk", format!("{} MB of data", used >> 20)) };
    let free = (room.f_bavail * room.f_frsize) >> 20;
    let found = format!("{} MB of data, {free} MB free", used >> 20);
    match free {
        ..FREE_MB_MIN => Check::warning("disk", found, "make room: a full disk stops all writes"),
        _ => Check::good("disk", found),
    }
}

/// How long a sync takes, in a file without a name that is gone with the check.
fn synced(data: &Path) -> Option<Check> {
    let mut file = tempfile::tempfile_in(data).ok()?;
    let clock = SystemClock::new();
    let start = clock.now().mono.0;
    let synced = file.write_all(&[7; 4096]).and_then(|()| file.sync_data());
    let took = clock.now().mono.0 - start;
    Some(match synced {
        Err(error) => {
            Check::wrong("sync", format!("a sync failed: {error}"), "look at the disk before anything else")
        }
        Ok(()) if took > SYNC_MS_MAX => {
            let fix = "use a faster disk: every commit waits for one sync";
            Check::warning("sync", format!("a sync took {took} ms"), fix)
        }
        Ok(()) => Check::good("sync", format!("a sync took {took} ms")),
    })
}

/// How many files and connections may be open.
pub(super) fn files() -> Check {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < FILES_MIN => Check::warning(
            "files",
            format!("{limit} files and connections may be open at once"),
            format!("ulimit -n {} before quorate serve, for many agents", FILES_MIN * 2),
        ),
        Some(limit) => Check::good("files", format!("{limit} files and connections may be open at once")),
        None => Check::good("files", "as many files and connections as there are"),
    }
}
