//! A disk that can run out of space, fail, and lose its power: for tests only.
//!
//! The C functions of the VFS ask here before they do anything. One mutex makes every operation one instant,
//! so that an image of the disk is what a power failure at one instant leaves. Only the sync of the operating
//! system runs outside it: other threads may write meanwhile, and a power failure may come before it ends.
#![forbid(unsafe_code)]

mod chance;
mod image;
mod model;
mod plan;

use std::ffi::{CStr, c_int};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

pub use self::image::How;
pub(super) use self::model::FileId;
use self::model::{Model, path_of};
pub use self::plan::Repeat;
use self::plan::{Plan, Power, Supply};
use super::FileKind;

/// What can go wrong with one disk.
///
/// Operations are counted: each write, truncation, sync and deletion is one, starting with 1.
#[derive(Default)]
pub struct Faults {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    plan: Plan,
    supply: Supply,
    /// There is one once `track` was called.
    model: Option<Model>,
    never_grow_ahead: bool,
}

impl Faults {
    /// Starts to remember what would survive a power failure.
    ///
    /// Call it before the first connection is opened: what is in a file at its first opening counts as
    /// durable, and files that are open already are not followed.
    pub fn track(&self) {
        self.lock().model.get_or_insert_default();
    }

    /// Lets a write-ahead log grow only as far as it is written: then a full disk refuses the very next commit.
    pub fn never_grow_ahead(&self) {
        self.lock().never_grow_ahead = true;
    }

    /// How many operations there were so far.
    pub fn ops(&self) -> u64 {
        self.lock().supply.ops()
    }

    /// Cuts the power during the operation with this number, or during the next one if that is past.
    ///
    /// The operation fails and its effect is uncertain, like that of all that was not synced. From then on
    /// everything fails with an I/O error.
    pub fn cut_at(&self, op: u64) {
        self.lock().supply.cut_at(op);
    }

    /// Cuts the power now: from here on everything fails with an I/O error, so nothing more is acknowledged.
    pub fn freeze(&self) {
        self.lock().supply.cut();
    }

    /// Whether the power is off.
    pub fn is_cut(&self) -> bool {
        self.lock().supply.is_cut()
    }

    /// Cuts the power and writes the image of this very instant: [`Faults::freeze`] and [`Faults::image`] with
    /// nothing in between.
    pub fn cut(&self, seed: u64, into: &Path, how: How) -> io::Result<()> {
        let mut state = self.lock();
        state.supply.cut();
        state.image(seed, into, how)
    }

    /// Writes the files as the disk could hold them after a power failure now, or at the cut if there was one.
    ///
    /// The files go into the directory `into`, which is made if need be, under their own names, whatever
    /// directories they came from. Shared memory is never among them. The same seed gives the same choices.
    /// Fails if one of the files is there already, or if nothing was tracked.
    pub fn image(&self, seed: u64, into: &Path, how: How) -> io::Result<()> {
        self.lock().image(seed, into, how)
    }

    /// Lets the disk be full once files have grown by this many bytes more: then writes that would make a file
    /// grow get `SQLITE_FULL`, while bytes that are there can still be overwritten.
    pub fn fail_writes_full(&self, after_bytes: u64) {
        self.lock().plan.space = Some(after_bytes);
    }

    /// Ends what [`Faults::fail_writes_full`] began.
    pub fn free_space(&self) {
        self.lock().plan.space = None;
    }

    /// Lets the `nth` write from now on, the next one being 1, fail with `SQLITE_IOERR_WRITE`, on files of one
    /// kind or on any. It replaces an earlier plan for writes.
    pub fn fail_write(&self, on: Option<FileKind>, nth: u64, repeat: Repeat) {
        self.lock().plan.fail_write(on, nth, repeat);
    }

    /// Lets the `nth` sync from now on fail with `SQLITE_IOERR_FSYNC`, as [`Faults::fail_write`] does.
    ///
    /// What was to be synced stays uncertain, and a later sync that succeeds does not save it: it is lost, for
    /// that is what Linux does with pages that it could not write.
    pub fn fail_sync(&self, on: Option<FileKind>, nth: u64, repeat: Repeat) {
        self.lock().plan.fail_sync(on, nth, repeat);
    }

    /// Ends what [`Faults::fail_write`] and [`Faults::fail_sync`] began.
    pub fn heal(&self) {
        self.lock().plan.heal();
    }

    /// Drops what was tracked.
    pub(super) fn forget(&self) {
        self.lock().model = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panics has said what it had to say; the others go on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The contents of all files would drown whatever is to be read.
        let state = self.lock();
        f.debug_struct("Faults")
            .field("supply", &state.supply)
            .field("plan", &state.plan)
            .finish_non_exhaustive()
    }
}

impl State {
    fn image(&self, seed: u64, into: &Path, how: How) -> io::Result<()> {
        let model = self.model.as_ref().ok_or_else(|| io::Error::other("the disk was not tracked"))?;
        image::write(model, seed, into, how)
    }
}

/// What the C functions of the VFS call, each with the real operation to be done.
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
        if self.is_cut() { ffi::SQLITE_IOERR_READ } else { read() }
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

    pub(super) fn grows_ahead(&self) -> bool {
        !self.lock().never_grow_ahead
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
            // The real VFS may round up, so the size is asked for, if it was done at all.
            model.resize(file, if power == Power::On { size() } else { to });
        }
        code
    }

    pub(super) fn sync(&self, file: FileId, kind: FileKind, sync: impl FnOnce() -> c_int) -> c_int {
        let begun = {
            let mut state = self.lock();
            let State { plan, supply, model, .. } = &mut *state;
            if supply.next_op() != Power::On {
                return ffi::SQLITE_IOERR_FSYNC;
            }
            let now = model.as_ref().map_or(0, Model::now);
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
            // The power went before the sync came back, so nobody may rely on it.
            return ffi::SQLITE_IOERR_FSYNC;
        }
        if let Some(model) = &mut state.model {
            if code == ffi::SQLITE_OK {
                model.synced(file, kind, begun);
            } else {
                model.sync_failed(file, begun);
            }
        }
        code
    }

    /// A file may have another size now, without a write.
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
