//! Fault injection for tests: disk full, I/O errors and power loss.
//!
//! The C functions of the VFS call [`Faults`] for every operation. One mutex makes each operation atomic, so that an
//! image of the disk is the state after a power loss at one point in time. Only the real sync runs outside the mutex:
//! other threads may write meanwhile, and the power may be cut before it returns.
#![forbid(unsafe_code)]

mod fault_plan;
mod image;
mod model;
mod rng;

use std::ffi::{CStr, c_int};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

pub use self::fault_plan::Repeat;
use self::fault_plan::{FaultPlan, Power, PowerSupply};
pub use self::image::UnsyncedData;
pub(super) use self::model::FileId;
use self::model::{Model, path_of};
use super::FileKind;

/// Injected faults of one disk.
///
/// Operations are numbered, starting at 1: each write, truncation, sync and deletion is one.
#[derive(Default)]
pub struct Faults {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    plan: FaultPlan,
    supply: PowerSupply,
    /// Set once `track` was called.
    model: Option<Model>,
    no_preallocation: bool,
}

impl Faults {
    /// Starts to track what would survive a power loss.
    ///
    /// Call it before the first connection is opened: the content of a file when it is first opened counts as
    /// durable, and files that are already open are not tracked.
    pub fn track(&self) {
        self.lock().model.get_or_insert_default();
    }

    /// Disables the preallocation of the write-ahead log, so that a full disk fails the next commit.
    pub fn disable_preallocation(&self) {
        self.lock().no_preallocation = true;
    }

    /// Number of operations so far.
    pub fn ops(&self) -> u64 {
        self.lock().supply.ops()
    }

    /// Cuts the power during the operation with this number, or during the next one if that number has passed.
    ///
    /// The operation fails and its effect is uncertain, like everything that was not synced. All later operations
    /// fail with an I/O error.
    pub fn cut_power_at(&self, op: u64) {
        self.lock().supply.cut_at(op);
    }

    /// Cuts the power now: all later operations fail with an I/O error, so nothing more is acknowledged.
    pub fn cut_power(&self) {
        self.lock().supply.cut();
    }

    /// Whether the power is off.
    pub fn is_power_cut(&self) -> bool {
        self.lock().supply.is_cut()
    }

    /// Cuts the power and writes the image of the disk atomically, with no operation in between.
    pub fn cut_power_and_image(&self, seed: u64, into: &Path, unsynced: UnsyncedData) -> io::Result<()> {
        let mut state = self.lock();
        state.supply.cut();
        state.image(seed, into, unsynced)
    }

    /// Writes the files as they could be on disk after a power loss now, or at the cut if there was one.
    ///
    /// The files are written to the directory `into`, which is created if necessary, with their paths relative to
    /// their outermost common directory. Shared memory is not included. The same seed gives the same choices.
    /// Fails if one of the files exists already, or if the disk is not tracked.
    pub fn image(&self, seed: u64, into: &Path, unsynced: UnsyncedData) -> io::Result<()> {
        self.lock().image(seed, into, unsynced)
    }

    /// Makes the disk full once files have grown by this many more bytes: writes that would grow a file then fail
    /// with `SQLITE_FULL`, while existing bytes can still be overwritten.
    pub fn limit_free_space(&self, after_bytes: u64) {
        self.lock().plan.space = Some(after_bytes);
    }

    /// Ends the simulation of a full disk.
    pub fn lift_space_limit(&self) {
        self.lock().plan.space = None;
    }

    /// Makes the `nth` write from now on (the next one is 1) fail with `SQLITE_IOERR_WRITE`, on files of one kind or
    /// on any file. Replaces an earlier plan for writes.
    pub fn fail_write(&self, on: Option<FileKind>, nth: u64, repeat: Repeat) {
        self.lock().plan.fail_write(on, nth, repeat);
    }

    /// Makes the `nth` sync from now on fail with `SQLITE_IOERR_FSYNC`, like [`Faults::fail_write`].
    ///
    /// The unsynced changes stay uncertain, and a later successful sync does not make them durable: Linux marks pages
    /// that it failed to write as clean.
    pub fn fail_sync(&self, on: Option<FileKind>, nth: u64, repeat: Repeat) {
        self.lock().plan.fail_sync(on, nth, repeat);
    }

    /// Ends the effects of [`Faults::fail_write`] and [`Faults::fail_sync`].
    pub fn clear_errors(&self) {
        self.lock().plan.clear_errors();
    }

    /// Stops tracking and frees the model.
    pub(super) fn stop_tracking(&self) {
        self.lock().model = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in one test thread is reported there; the other threads continue.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the model: the contents of all files would make the output unreadable.
        let state = self.lock();
        f.debug_struct("Faults")
            .field("supply", &state.supply)
            .field("plan", &state.plan)
            .finish_non_exhaustive()
    }
}

impl State {
    fn image(&self, seed: u64, into: &Path, unsynced: UnsyncedData) -> io::Result<()> {
        let model = self.model.as_ref().ok_or_else(|| io::Error::other("the disk is not tracked"))?;
        image::write(model, seed, into, unsynced)
    }
}

/// Hooks of the C functions. Each gets the real operation as a closure.
impl Faults {
    pub(super) fn open(
        &self,
        name: Option<&CStr>,
        open: impl FnOnce() -> c_int,
        content: impl FnOnce() -> Vec<u8>,
    ) -> (c_int, FileId) {
        let mut state = self.lock();
        if state.supply.is_cut() {
            return (ffi::SQLITE_IOERR, FileId::UNTRACKED);
        }
        let code = open();
        let id = match (&mut state.model, name) {
            (Some(model), Some(name)) if code == ffi::SQLITE_OK => model.open(&path_of(name), content),
            _ => FileId::UNTRACKED,
        };
        (code, id)
    }

    pub(super) fn delete(&self, name: &CStr, sync_dir: bool, delete: impl FnOnce() -> c_int) -> c_int {
        let mut state = self.lock();
        let State { supply, model, .. } = &mut *state;
        let power = supply.next_op();
        let code = if power == Power::On { delete() } else { ffi::SQLITE_IOERR_DELETE };
        if let Some(model) = model
            && power.reaches_disk(code)
        {
            let path = path_of(name);
            model.delete(&path);
            if sync_dir && power == Power::On {
                model.sync_directory_of(&path);
            }
        }
        code
    }

    pub(super) fn read(&self, read: impl FnOnce() -> c_int) -> c_int {
        if self.is_power_cut() { ffi::SQLITE_IOERR_READ } else { read() }
    }

    pub(super) fn write(
        &self,
        file: FileId,
        kind: FileKind,
        bytes: &[u8],
        offset: u64,
        size: impl FnOnce() -> u64,
        write: impl FnOnce() -> c_int,
    ) -> c_int {
        let mut state = self.lock();
        let State { plan, supply, model, .. } = &mut *state;
        let power = supply.next_op();
        let code = if power != Power::On || plan.write_fails(kind) {
            ffi::SQLITE_IOERR_WRITE
        } else if !plan.has_space_for(offset, bytes.len() as u64, size) {
            ffi::SQLITE_FULL
        } else {
            write()
        };
        if let Some(model) = model
            && power.reaches_disk(code)
        {
            model.write(file, bytes, offset);
        }
        code
    }

    pub(super) fn preallocates(&self) -> bool {
        !self.lock().no_preallocation
    }

    pub(super) fn truncate(
        &self,
        file: FileId,
        to: u64,
        size: impl FnOnce() -> u64,
        truncate: impl FnOnce() -> c_int,
    ) -> c_int {
        let mut state = self.lock();
        let State { supply, model, .. } = &mut *state;
        let power = supply.next_op();
        let code = if power == Power::On { truncate() } else { ffi::SQLITE_IOERR_TRUNCATE };
        if let Some(model) = model
            && power.reaches_disk(code)
        {
            // The real VFS may round up, so the actual size is queried, if the truncation was done at all.
            model.resize(file, if power == Power::On { size() } else { to });
        }
        code
    }

    pub(super) fn sync(&self, file: FileId, kind: FileKind, sync: impl FnOnce() -> c_int) -> c_int {
        let newest_change = {
            let mut state = self.lock();
            let State { plan, supply, model, .. } = &mut *state;
            if supply.next_op() != Power::On {
                return ffi::SQLITE_IOERR_FSYNC;
            }
            let now = model.as_ref().map_or(0, Model::newest_change);
            if plan.sync_fails(kind) {
                if let Some(model) = model {
                    model.sync_failed(file, now);
                }
                return ffi::SQLITE_IOERR_FSYNC;
            }
            now
        };
        let code = sync();
        let mut state = self.lock();
        if state.supply.is_cut() {
            // The power was cut before the sync returned, so it must not be relied on.
            return ffi::SQLITE_IOERR_FSYNC;
        }
        if let Some(model) = &mut state.model {
            if code == ffi::SQLITE_OK {
                model.synced(file, kind, newest_change);
            } else {
                model.sync_failed(file, newest_change);
            }
        }
        code
    }

    /// Updates the size of a file that may have changed without a write.
    pub(super) fn resized(&self, file: FileId, size: impl FnOnce() -> u64) {
        let mut state = self.lock();
        if state.supply.is_cut() {
            return;
        }
        if let Some(model) = &mut state.model {
            model.resize(file, size());
        }
    }
}
