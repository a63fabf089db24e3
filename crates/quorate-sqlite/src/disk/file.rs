//! The table of functions that SQLite calls on an open file: ours first, then those that hand on.
//!
//! The memory that SQLite gives for a file holds our `File` and, behind it, the real one.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods};

use super::clock::timed;
use super::{Core, FileId, FileKind};

/// An open file. The real one follows at `REAL_AT`.
#[repr(C)]
struct File {
    /// What SQLite sees. It must be the first field.
    head: sqlite3_file,
    /// The table of this very file: it has an entry where the real file has one.
    methods: sqlite3_io_methods,
    core: &'static Core,
    kind: FileKind,
    id: FileId,
    /// For a write-ahead log: how far the file is known to reach.
    reaches: AtomicU64,
}

/// How far a write-ahead log is filled with zeros ahead of what SQLite appends. To sync a file that has grown means to
/// write its size to the disk as well, and takes twice as long; so it grows rarely, in large steps. Zeros are no valid
/// frame: recovery ends at the first one, as it does at the end of the file.
///
/// Not before the header of a new log is synced, which SQLite does before it writes the first frame: until then the old
/// header may come back after a power failure, and zeros over old frames would make recovery end among them, at a state
/// that is older than the database.
const AHEAD: u64 = 1 << 20;
/// Written at once: the real VFS takes less than 128 KiB.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// SQLite aligns files to eight bytes and expects no more from us.
const REAL_AT: usize = size_of::<File>().next_multiple_of(8);
const _: () = assert!(align_of::<File>() <= 8);

/// How much memory a file takes when the real one takes `real`.
pub(super) fn size_with(real: c_int) -> c_int {
    c_int::try_from(REAL_AT).expect("a small struct") + real
}

/// Opens the real file with `open` and puts our own before it.
///
/// # Safety
///
/// `file` points to `size_with(real)` writable bytes, aligned to eight, that SQLite keeps until it has closed
/// the file. `open` obeys the rules of `xOpen`.
pub(super) unsafe fn open(
    core: &'static Core,
    name: Option<&CStr>,
    file: *mut sqlite3_file,
    flags: c_int,
    open: impl FnOnce(*mut sqlite3_file) -> c_int,
) -> c_int {
    let real = real_of(file);
    // SAFETY: both lie within the memory for this file. Without methods SQLite takes a file as not open, which
    // stays true if `open` is never called.
    unsafe {
        (*file).pMethods = ptr::null();
        (*real).pMethods = ptr::null();
    }
    // SAFETY: the content is asked for only after `open` has succeeded, and before any other use of the file.
    let (code, id) = core.gate.open(name, || open(real), || unsafe { content(real) });
    // SAFETY: `open` has set the methods of the real file, or has left them null. If they are set, SQLite
    // will call `close`, even when `code` is an error, and then ours must be set too.
    unsafe {
        if !(*real).pMethods.is_null() {
            let methods = methods_over(&*(*real).pMethods);
            let ours = file.cast::<File>();
            let head = sqlite3_file { pMethods: &raw const (*ours).methods };
            ours.write(File { head, methods, core, kind: kind_of(flags), id, reaches: AtomicU64::new(0) });
        }
    }
    code
}

fn kind_of(flags: c_int) -> FileKind {
    if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
        FileKind::Database
    } else if flags & ffi::SQLITE_OPEN_WAL != 0 {
        FileKind::Wal
    } else {
        FileKind::Other
    }
}

/// What the real file lacks must be lacking in ours, because SQLite asks by looking: without `xShmMap` there
/// is no write-ahead log.
fn methods_over(real: &sqlite3_io_methods) -> sqlite3_io_methods {
    let second = real.iVersion >= 2;
    let third = real.iVersion >= 3;
    sqlite3_io_methods {
        iVersion: real.iVersion.min(3),
        xClose: Some(close),
        xRead: Some(read),
        xWrite: Some(write),
        xTruncate: Some(truncate),
        xSync: Some(sync),
        xFileSize: Some(file_size),
        xLock: Some(lock),
        xUnlock: Some(unlock),
        xCheckReservedLock: Some(check_reserved_lock),
        xFileControl: Some(file_control),
        xSectorSize: real.xSectorSize.and(Some(sector_size)),
        xDeviceCharacteristics: real.xDeviceCharacteristics.and(Some(device_characteristics)),
        xShmMap: if second { real.xShmMap.and(Some(shm_map)) } else { None },
        xShmLock: if second { real.xShmLock.and(Some(shm_lock)) } else { None },
        xShmBarrier: if second { real.xShmBarrier.and(Some(shm_barrier)) } else { None },
        xShmUnmap: if second { real.xShmUnmap.and(Some(shm_unmap)) } else { None },
        xFetch: if third { real.xFetch.and(Some(fetch)) } else { None },
        xUnfetch: if third { real.xUnfetch.and(Some(unfetch)) } else { None },
    }
}

fn real_of(file: *mut sqlite3_file) -> *mut sqlite3_file {
    file.wrapping_byte_add(REAL_AT)
}

/// # Safety
///
/// `file` was opened by `open` and is not closed yet.
unsafe fn ours<'a>(file: *mut sqlite3_file) -> &'a File {
    // SAFETY: `open` wrote a `File` there, and nothing changes it until it is closed.
    unsafe { &*file.cast::<File>() }
}

/// Calls a method of the real file behind `$file`. To be used in an unsafe block, for an open file.
macro_rules! real {
    ($file:ident.$field:ident($($arg:expr),*), or $missing:expr) => {{
        let real = real_of($file);
        match (*(*real).pMethods).$field {
            Some(f) => f(real, $($arg),*),
            None => $missing,
        }
    }};
}

/// # Safety
///
/// `file` is open.
unsafe fn real_size(file: *mut sqlite3_file) -> u64 {
    let mut size = 0;
    // SAFETY: the real file is open, and `size` is there to be written to.
    let code = unsafe { real!(file.xFileSize(&raw mut size), or ffi::SQLITE_IOERR_FSTAT) };
    if code == ffi::SQLITE_OK { u64::try_from(size).unwrap_or(0) } else { 0 }
}

/// The whole content of the real file.
///
/// It is read through the file itself: to open it a second time and close it again would drop every lock that
/// this process holds on it.
///
/// # Safety
///
/// `real` is an open file of the real VFS.
unsafe fn content(real: *mut sqlite3_file) -> Vec<u8> {
    let mut size = 0;
    // SAFETY: the file is open, the methods are those of the real VFS, and the buffer is as long as it says.
    unsafe {
        let methods = &*(*real).pMethods;
        let (Some(file_size), Some(read)) = (methods.xFileSize, methods.xRead) else { return Vec::new() };
        file_size(real, &raw mut size);
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        for (index, part) in bytes.chunks_mut(1 << 20).enumerate() {
            read(real, part.as_mut_ptr().cast(), part.len() as c_int, (index << 20) as sqlite3_int64);
        }
        bytes
    }
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    out: *mut c_void,
    amount: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this on an open file, and gives `amount` bytes to read into.
    unsafe { ours(file).core.gate.read(|| real!(file.xRead(out, amount, at), or ffi::SQLITE_IOERR_READ)) }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    amount: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this on an open file, and gives `amount` bytes to write, at least one.
    let (this, bytes) = unsafe { (ours(file), slice::from_raw_parts(data.cast::<u8>(), amount as usize)) };
    let code = this.core.gate.write(
        this.id,
        this.kind,
        bytes,
        at as u64,
        // SAFETY: the file is open.
        || unsafe { real_size(file) },
        // SAFETY: the arguments of this call, handed on.
        || unsafe { real!(file.xWrite(data, amount, at), or ffi::SQLITE_IOERR_WRITE) },
    );
    if code == ffi::SQLITE_OK {
        this.core.tally.of(this.kind).wrote(bytes.len() as u64);
        let end = at as u64 + bytes.len() as u64;
        if this.kind == FileKind::Wal && at > 0 && end > this.reaches.load(Ordering::Relaxed) {
            // SAFETY: the file is open.
            unsafe { grow_ahead(file, this, end) };
        }
    }
    code
}

/// Fills a write-ahead log with zeros behind what was just appended. If that fails, nothing is lost: the log grows
/// write by write, as it would have.
///
/// # Safety
///
/// `file` is open, and `this` is ours.
unsafe fn grow_ahead(file: *mut sqlite3_file, this: &File, end: u64) {
    // SAFETY: the file is open.
    let size = unsafe { real_size(file) };
    let mut reaches = size.max(end);
    while this.core.gate.grows_ahead() && end >= size && reaches < end + AHEAD {
        let code = this.core.gate.write(
            this.id,
            this.kind,
            &ZEROS,
            reaches,
            || reaches,
            // SAFETY: the file is open, and the zeros are as many as is said.
            || unsafe {
                let (zeros, amount) = (ZEROS.as_ptr().cast(), ZEROS.len() as c_int);
                real!(file.xWrite(zeros, amount, reaches as sqlite3_int64), or ffi::SQLITE_IOERR_WRITE)
            },
        );
        if code != ffi::SQLITE_OK {
            break;
        }
        this.core.tally.of(this.kind).grew(ZEROS.len() as u64);
        reaches += ZEROS.len() as u64;
    }
    this.reaches.store(reaches, Ordering::Relaxed);
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, to: sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls this on an open file.
    let this = unsafe { ours(file) };
    this.reaches.store(0, Ordering::Relaxed);
    this.core.gate.truncate(
        this.id,
        to as u64,
        // SAFETY: the file is open.
        || unsafe { real_size(file) },
        // SAFETY: the arguments of this call, handed on.
        || unsafe { real!(file.xTruncate(to), or ffi::SQLITE_IOERR_TRUNCATE) },
    )
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls this on an open file.
    let this = unsafe { ours(file) };
    this.core.gate.sync(this.id, this.kind, || {
        // SAFETY: the arguments of this call, handed on.
        let (code, took) = timed(|| unsafe { real!(file.xSync(flags), or ffi::SQLITE_IOERR_FSYNC) });
        this.core.tally.of(this.kind).synced(took);
        code
    })
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: SQLite calls this on an open file, and the argument is what `op` says.
    let (this, code) = unsafe { (ours(file), real!(file.xFileControl(op, arg), or ffi::SQLITE_NOTFOUND)) };
    if op == ffi::SQLITE_FCNTL_SIZE_HINT {
        // The one control that can make a file grow without a write.
        // SAFETY: the file is open.
        this.core.gate.resized(this.id, || unsafe { real_size(file) });
    }
    code
}

/// Declares functions that only hand their arguments to the real file.
macro_rules! hand_on {
    ($($name:ident => $field:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?, or $missing:expr;)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file, $($arg: $kind),*) $(-> $out)? {
            // SAFETY: SQLite calls this on an open file, and the arguments are meant for this very function of
            // the real one.
            unsafe { real!(file.$field($($arg),*), or $missing) }
        }
    )*};
}

hand_on! {
    close => xClose() -> c_int, or ffi::SQLITE_IOERR_CLOSE;
    file_size => xFileSize(out: *mut sqlite3_int64) -> c_int, or ffi::SQLITE_IOERR_FSTAT;
    lock => xLock(level: c_int) -> c_int, or ffi::SQLITE_IOERR_LOCK;
    unlock => xUnlock(level: c_int) -> c_int, or ffi::SQLITE_IOERR_UNLOCK;
    check_reserved_lock => xCheckReservedLock(out: *mut c_int) -> c_int, or ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    sector_size => xSectorSize() -> c_int, or 0;
    device_characteristics => xDeviceCharacteristics() -> c_int, or 0;
    shm_map => xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int,
        or ffi::SQLITE_IOERR_SHMMAP;
    shm_lock => xShmLock(offset: c_int, n: c_int, flags: c_int) -> c_int, or ffi::SQLITE_IOERR_SHMLOCK;
    shm_barrier => xShmBarrier(), or ();
    shm_unmap => xShmUnmap(delete: c_int) -> c_int, or ffi::SQLITE_OK;
    fetch => xFetch(at: sqlite3_int64, amount: c_int, out: *mut *mut c_void) -> c_int, or ffi::SQLITE_OK;
    unfetch => xUnfetch(at: sqlite3_int64, page: *mut c_void) -> c_int, or ffi::SQLITE_OK;
}
