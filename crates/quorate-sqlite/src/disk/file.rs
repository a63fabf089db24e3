//! File methods of the VFS (`sqlite3_io_methods`): first those with logic of their own, then those that forward.
//!
//! The memory that SQLite allocates for a file contains our `File`, followed by the file of the real VFS.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods};

use super::clock::timed;
use super::page_checksum::{self, CHECKSUM_BYTES, DamagedPage, RESERVED_AT};
use super::{FileId, FileKind, VfsContext};

/// Open file. The real file follows at `REAL_AT`.
#[repr(C)]
struct File {
    /// Header that SQLite accesses. Must be the first field.
    base: sqlite3_file,
    /// Method table of this file, with an entry wherever the real file has one.
    methods: sqlite3_io_methods,
    context: &'static VfsContext,
    kind: FileKind,
    id: FileId,
    /// Name of the file; SQLite keeps it until the file is closed. Null if the file has no name.
    name: *const c_char,
    /// Whether its pages have checksums.
    has_checksums: bool,
    /// For a write-ahead log: end of the preallocated range, in bytes.
    allocated_end: AtomicU64,
}

/// Number of zero bytes that are preallocated after the end of the write-ahead log. Syncing a file that has grown also
/// writes its size and takes twice as long, so the file grows rarely and in large steps. Zeros are not a valid frame:
/// recovery stops at the first one, as it does at the end of the file.
///
/// Preallocation starts only after the header of a new log is synced, which SQLite does before it writes the first
/// frame. Until then a power loss may bring back the old header, and zeros over old frames would make recovery stop
/// among them, at a state older than the database.
const PREALLOCATE_BYTES: u64 = 1 << 20;
/// Zeros for one write: the real VFS accepts less than 128 KiB.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Offset of the real file. SQLite aligns files to eight bytes.
const REAL_AT: usize = size_of::<File>().next_multiple_of(8);
const _: () = assert!(align_of::<File>() <= 8);

/// Returns the memory that a file needs if the real one needs `real` bytes.
pub(super) fn size_with(real: c_int) -> c_int {
    c_int::try_from(REAL_AT).expect("a small struct") + real
}

/// Opens the real file with `open` and initialises our own in front of it.
///
/// # Safety
///
/// `file` points to `size_with(real)` writable bytes, aligned to eight, that SQLite keeps until it has closed
/// the file. `open` obeys the rules of `xOpen`.
pub(super) unsafe fn open(
    context: &'static VfsContext,
    name: Option<&CStr>,
    file: *mut sqlite3_file,
    flags: c_int,
    open: impl FnOnce(*mut sqlite3_file) -> c_int,
) -> c_int {
    let real = real_of(file);
    // SAFETY: both are within the memory for this file. SQLite treats a file without methods as not open, which
    // stays true if `open` is never called.
    unsafe {
        (*file).pMethods = ptr::null();
        (*real).pMethods = ptr::null();
    }
    // SAFETY: the content is read only after `open` has succeeded, and before any other use of the file.
    let (code, id) = context.faults.open(name, || open(real), || unsafe { content(real) });
    // SAFETY: `open` has set the methods of the real file, or has left them null. If they are set, SQLite
    // will call `close`, even when `code` is an error, and then ours must be set too.
    unsafe {
        if !(*real).pMethods.is_null() {
            let methods = methods_over(&*(*real).pMethods);
            let ours = file.cast::<File>();
            let base = sqlite3_file { pMethods: &raw const (*ours).methods };
            let kind = kind_of(flags);
            let has_checksums =
                code == ffi::SQLITE_OK && kind == FileKind::Database && has_checksums(real, context);
            ours.write(File {
                base,
                methods,
                context,
                kind,
                id,
                name: name.map_or(ptr::null(), CStr::as_ptr),
                has_checksums,
                allocated_end: AtomicU64::new(0),
            });
        }
    }
    code
}

/// Whether the pages of a database have checksums: its header reserves the bytes for them.
///
/// # Safety
///
/// `real` is an open file of the real VFS.
unsafe fn has_checksums(real: *mut sqlite3_file, context: &VfsContext) -> bool {
    let mut header = [0u8; RESERVED_AT + 1];
    // SAFETY: the file is open, the methods are those of the real VFS, and the buffer has the given length.
    let code = unsafe {
        let Some(read) = (*(*real).pMethods).xRead else { return false };
        read(real, header.as_mut_ptr().cast(), header.len() as c_int, 0)
    };
    match code {
        ffi::SQLITE_OK => usize::from(header[RESERVED_AT]) == CHECKSUM_BYTES,
        _ => context.checksums_new_files.load(Ordering::Relaxed),
    }
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

/// Returns our method table for a real file. A method that the real file lacks must be missing in ours too, because
/// SQLite checks for its presence: without `xShmMap` there is no WAL mode.
fn methods_over(real: &sqlite3_io_methods) -> sqlite3_io_methods {
    let second = real.iVersion >= 2;
    sqlite3_io_methods {
        // Version 3 adds memory-mapped reads.
        iVersion: real.iVersion.min(2),
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
        xFetch: None,
        xUnfetch: None,
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

/// Calls a method of the real file of `$file`. Must be used in an unsafe block, with an open file.
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
    // SAFETY: the real file is open, and `size` is writable.
    let code = unsafe { real!(file.xFileSize(&raw mut size), or ffi::SQLITE_IOERR_FSTAT) };
    if code == ffi::SQLITE_OK { u64::try_from(size).unwrap_or(0) } else { 0 }
}

/// Reads the whole content of the real file.
///
/// It is read through the open file: opening and closing it a second time would drop all POSIX locks that this
/// process holds on it.
///
/// # Safety
///
/// `real` is an open file of the real VFS.
unsafe fn content(real: *mut sqlite3_file) -> Vec<u8> {
    let mut size = 0;
    // SAFETY: the file is open, the methods are those of the real VFS, and the buffer has the given length.
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
    // SAFETY: SQLite calls this on an open file, with a buffer of `amount` bytes.
    let (this, code) = unsafe {
        let this = ours(file);
        let read = || real!(file.xRead(out, amount, at), or ffi::SQLITE_IOERR_READ);
        (this, this.context.faults.read(read))
    };
    // The rest of a page that is not completely in the file is read as zeros.
    let is_read = code == ffi::SQLITE_OK || code == ffi::SQLITE_IOERR_SHORT_READ;
    if this.has_checksums && is_read && page_checksum::is_page(amount as usize, at as u64) {
        // SAFETY: the call above has filled the buffer.
        let page = unsafe { slice::from_raw_parts(out.cast::<u8>(), amount as usize) };
        if !page_checksum::matches(page, at as u64) {
            let page = at as u64 / amount as u64 + 1;
            this.context.report_damage(DamagedPage { file: this.file_name(), page });
            return ffi::SQLITE_CORRUPT;
        }
    }
    code
}

impl File {
    /// Name of the file without its directory.
    fn file_name(&self) -> String {
        if self.name.is_null() {
            return String::new();
        }
        // SAFETY: SQLite keeps the name, a C string, until the file is closed.
        let name = unsafe { CStr::from_ptr(self.name) }.to_string_lossy();
        name.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    amount: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this on an open file, with `amount` bytes to write, at least one.
    let (this, bytes) = unsafe { (ours(file), slice::from_raw_parts(data.cast::<u8>(), amount as usize)) };
    // A copy: SQLite may still use the page, and it is not ours.
    let page = (this.has_checksums && page_checksum::is_page(bytes.len(), at as u64))
        .then(|| page_checksum::with_checksum(bytes, at as u64));
    let bytes = page.as_deref().unwrap_or(bytes);
    let data = bytes.as_ptr().cast();
    let code = this.context.faults.write(
        this.id,
        this.kind,
        bytes,
        at as u64,
        // SAFETY: the file is open.
        || unsafe { real_size(file) },
        // SAFETY: forwards the arguments of this call.
        || unsafe { real!(file.xWrite(data, amount, at), or ffi::SQLITE_IOERR_WRITE) },
    );
    if code == ffi::SQLITE_OK {
        this.context.counters.for_kind(this.kind).add_written(bytes.len() as u64);
        let end = at as u64 + bytes.len() as u64;
        if this.kind == FileKind::Wal && at > 0 && end > this.allocated_end.load(Ordering::Relaxed) {
            // SAFETY: the file is open.
            unsafe { preallocate(file, this, end) };
        }
    }
    code
}

/// Preallocates the write-ahead log after the frame that was just appended. A failure is harmless: the log then grows
/// with each write.
///
/// # Safety
///
/// `file` is open, and `this` is ours.
unsafe fn preallocate(file: *mut sqlite3_file, this: &File, end: u64) {
    // SAFETY: the file is open.
    let size = unsafe { real_size(file) };
    let mut allocated_end = size.max(end);
    while this.context.faults.preallocates() && end >= size && allocated_end < end + PREALLOCATE_BYTES {
        let code = this.context.faults.write(
            this.id,
            this.kind,
            &ZEROS,
            allocated_end,
            || allocated_end,
            // SAFETY: the file is open, and `amount` is the length of `zeros`.
            || unsafe {
                let (zeros, amount) = (ZEROS.as_ptr().cast(), ZEROS.len() as c_int);
                real!(file.xWrite(zeros, amount, allocated_end as sqlite3_int64), or ffi::SQLITE_IOERR_WRITE)
            },
        );
        if code != ffi::SQLITE_OK {
            break;
        }
        this.context.counters.for_kind(this.kind).add_preallocated(ZEROS.len() as u64);
        allocated_end += ZEROS.len() as u64;
    }
    this.allocated_end.store(allocated_end, Ordering::Relaxed);
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, to: sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls this on an open file.
    let this = unsafe { ours(file) };
    this.allocated_end.store(0, Ordering::Relaxed);
    this.context.faults.truncate(
        this.id,
        to as u64,
        // SAFETY: the file is open.
        || unsafe { real_size(file) },
        // SAFETY: forwards the arguments of this call.
        || unsafe { real!(file.xTruncate(to), or ffi::SQLITE_IOERR_TRUNCATE) },
    )
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls this on an open file.
    let this = unsafe { ours(file) };
    this.context.faults.sync(this.id, this.kind, || {
        // SAFETY: forwards the arguments of this call.
        let (code, took) = timed(|| unsafe { real!(file.xSync(flags), or ffi::SQLITE_IOERR_FSYNC) });
        this.context.counters.for_kind(this.kind).add_sync(took);
        code
    })
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: SQLite calls this on an open file, and the argument has the type that `op` requires.
    let (this, code) = unsafe { (ours(file), real!(file.xFileControl(op, arg), or ffi::SQLITE_NOTFOUND)) };
    if op == ffi::SQLITE_FCNTL_SIZE_HINT {
        // The only control that can grow a file without a write.
        // SAFETY: the file is open.
        this.context.faults.resized(this.id, || unsafe { real_size(file) });
    }
    code
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this on an open file.
    let (this, found) = unsafe { (ours(file), real!(file.xDeviceCharacteristics(), or 0)) };
    // Reads of a part of a page could not be verified.
    if this.has_checksums { found & !ffi::SQLITE_IOCAP_SUBPAGE_READ } else { found }
}

/// Declares functions that forward their arguments to the real file.
macro_rules! forward {
    ($($name:ident => $field:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?, or $missing:expr;)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file, $($arg: $kind),*) $(-> $out)? {
            // SAFETY: SQLite calls this on an open file, and the arguments are valid for the same method of the real
            // file.
            unsafe { real!(file.$field($($arg),*), or $missing) }
        }
    )*};
}

forward! {
    close => xClose() -> c_int, or ffi::SQLITE_IOERR_CLOSE;
    file_size => xFileSize(out: *mut sqlite3_int64) -> c_int, or ffi::SQLITE_IOERR_FSTAT;
    lock => xLock(level: c_int) -> c_int, or ffi::SQLITE_IOERR_LOCK;
    unlock => xUnlock(level: c_int) -> c_int, or ffi::SQLITE_IOERR_UNLOCK;
    check_reserved_lock => xCheckReservedLock(out: *mut c_int) -> c_int, or ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    sector_size => xSectorSize() -> c_int, or 0;
    shm_map => xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int,
        or ffi::SQLITE_IOERR_SHMMAP;
    shm_lock => xShmLock(offset: c_int, n: c_int, flags: c_int) -> c_int, or ffi::SQLITE_IOERR_SHMLOCK;
    shm_barrier => xShmBarrier(), or ();
    shm_unmap => xShmUnmap(delete: c_int) -> c_int, or ffi::SQLITE_OK;
}
