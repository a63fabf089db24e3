//! Checks of the machine: data directory, disk, fsync latency and open-file limit.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use quorate_store::{Clock as _, SystemClock};
use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};

use super::Check;
use crate::hub::running_hub_url;

/// Minimum free disk space.
const FREE_MB_MIN: u64 = 500;
/// Maximum duration of an fsync, which every commit waits for.
const SYNC_MS_MAX: u64 = 50;
/// Open files for the default connection limit of a hub and its own files.
const FILES_MIN: u64 = 10_240;

/// Checks the data directory.
pub(super) fn check_data_directory(data: &Path) -> Vec<Check> {
    let shown = data.display();
    if !data.exists() {
        return vec![Check::passed("data", format!("{shown} does not exist: no hub was started here yet"))];
    }
    let mut checks = vec![check_private("data", data, "700")];
    if !data.join("quorate.db").exists() {
        let fix = "pass the data directory of a hub: --data DIR";
        checks.push(Check::failed("data", format!("{shown} is not a Quorate data directory"), fix));
        return checks;
    }
    checks.push(disk(data));
    checks.extend(fsync_latency(data));
    if running_hub_url(data).is_none() {
        checks.push(Check::passed(
            "running",
            format!("no hub is running on {shown}; start one with `quorate serve`"),
        ));
    }
    checks
}

/// Checks that a path is accessible only by its owner.
pub(super) fn check_private(name: &'static str, path: &Path, mode_fix: &str) -> Check {
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) => Check::failed(name, format!("{shown}: {error}"), "check the path"),
        Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
            let mode = metadata.permissions().mode() & 0o777;
            let fix = format!("chmod {mode_fix} {shown}");
            Check::warning(name, format!("{shown} is accessible by other users ({mode:03o})"), fix)
        }
        Ok(_) => Check::passed(name, format!("{shown}, accessible only by its owner")),
    }
}

/// Checks the size of the data and the free disk space.
fn disk(data: &Path) -> Check {
    let files = fs::read_dir(data).into_iter().flatten().flatten();
    let used: u64 = files.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum();
    let Ok(stats) = statvfs(data) else { return Check::passed("disk", format!("{} MB of data", used >> 20)) };
    let free = (stats.f_bavail * stats.f_frsize) >> 20;
    let found = format!("{} MB of data, {free} MB free", used >> 20);
    match free {
        ..FREE_MB_MIN => Check::warning("disk", found, "free disk space: a full disk stops all writes"),
        _ => Check::passed("disk", found),
    }
}

/// Measures the duration of an fsync, on an anonymous temporary file.
fn fsync_latency(data: &Path) -> Option<Check> {
    let mut file = tempfile::tempfile_in(data).ok()?;
    let clock = SystemClock::new();
    let start = clock.now().mono.0;
    let synced = file.write_all(&[7; 4096]).and_then(|()| file.sync_data());
    let ms = clock.now().mono.0 - start;
    Some(match synced {
        Err(error) => {
            Check::failed("fsync", format!("failed: {error}"), "check the disk before anything else")
        }
        Ok(()) if ms > SYNC_MS_MAX => {
            let fix = "use a faster disk: every commit waits for an fsync";
            Check::warning("fsync", format!("{ms} ms"), fix)
        }
        Ok(()) => Check::passed("fsync", format!("{ms} ms")),
    })
}

/// Checks the limit of open files, which includes connections.
pub(super) fn check_open_files() -> Check {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < FILES_MIN => Check::warning(
            "file limit",
            format!("{limit} open files and connections"),
            format!("for many agents, run `ulimit -n {}` before `quorate serve`", FILES_MIN * 2),
        ),
        Some(limit) => Check::passed("file limit", format!("{limit} open files and connections")),
        None => Check::passed("file limit", "none"),
    }
}
