//! The table of functions that makes a disk known to SQLite: opening and deleting files, paths, time.
//!
//! Only `open` and `delete` do anything here; the others hand their arguments to the real VFS.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_vfs};

use super::{Core, file};

/// The VFS underneath, which does the work.
#[derive(Clone, Copy)]
pub(super) struct RealVfs(*mut sqlite3_vfs);

// SAFETY: SQLite calls the functions of a VFS from any thread, so they are made for that. The pointer itself
// never changes, and the default VFS is a static of SQLite that lives as long as the process.
unsafe impl Send for RealVfs {}
// SAFETY: as above.
unsafe impl Sync for RealVfs {}

impl RealVfs {
    pub(super) fn find_default() -> RealVfs {
        // SAFETY: a null name asks for the default VFS. SQLite initialises itself in this call if it has to.
        let vfs = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        assert!(!vfs.is_null(), "SQLite has no VFS");
        RealVfs(vfs)
    }
}

/// Makes `core` known to SQLite under its name, until the process ends.
pub(super) fn register(core: &'static Core) {
    let real = core.real.0;
    // SAFETY: the default VFS is never freed. Only fields that never change are read, one by one: SQLite may
    // change `pNext` at this moment.
    let vfs = unsafe {
        sqlite3_vfs {
            iVersion: (*real).iVersion.min(3),
            szOsFile: file::size_with((*real).szOsFile),
            mxPathname: (*real).mxPathname,
            pNext: ptr::null_mut(),
            zName: core.name.as_ptr(),
            pAppData: ptr::from_ref(core).cast_mut().cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            // What the real VFS lacks must be lacking here, because SQLite asks by looking.
            xAccess: (*real).xAccess.and(Some(access)),
            xFullPathname: (*real).xFullPathname.and(Some(full_pathname)),
            xDlOpen: (*real).xDlOpen.and(Some(dl_open)),
            xDlError: (*real).xDlError.and(Some(dl_error)),
            xDlSym: (*real).xDlSym.and(Some(dl_sym)),
            xDlClose: (*real).xDlClose.and(Some(dl_close)),
            xRandomness: (*real).xRandomness.and(Some(randomness)),
            xSleep: (*real).xSleep.and(Some(sleep)),
            xCurrentTime: (*real).xCurrentTime.and(Some(current_time)),
            xGetLastError: (*real).xGetLastError.and(Some(get_last_error)),
            xCurrentTimeInt64: (*real).xCurrentTimeInt64.and(Some(current_time_int64)),
            xSetSystemCall: (*real).xSetSystemCall.and(Some(set_system_call)),
            xGetSystemCall: (*real).xGetSystemCall.and(Some(get_system_call)),
            xNextSystemCall: (*real).xNextSystemCall.and(Some(next_system_call)),
        }
    };
    // SAFETY: the table is leaked, and so is the core that it points to: SQLite may keep both for ever.
    let code = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0) };
    assert_eq!(code, ffi::SQLITE_OK, "SQLite does not take the VFS");
}

/// # Safety
///
/// `vfs` is one that `register` made.
unsafe fn core_of(vfs: *mut sqlite3_vfs) -> &'static Core {
    // SAFETY: `register` put a `&'static Core` there, and nobody writes to the field.
    unsafe { &*(*vfs).pAppData.cast::<Core>() }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this with our own table; a name that is not null is a C string.
    let (core, named) = unsafe { (core_of(vfs), (!name.is_null()).then(|| CStr::from_ptr(name))) };
    let real_open = |real_file| {
        let real = core.real.0;
        // SAFETY: these are the arguments that SQLite gave for exactly this call, but for the VFS and the
        // file, which are the real ones. The name must be the same pointer: URI parameters lie behind it.
        unsafe { (*real).xOpen.map_or(ffi::SQLITE_CANTOPEN, |f| f(real, name, real_file, flags, flags_out)) }
    };
    // A file that is deleted when it is closed is of no interest to the faults: it never survives.
    let kept = named.filter(|_| flags & ffi::SQLITE_OPEN_DELETEONCLOSE == 0);
    // SAFETY: SQLite gives `szOsFile` bytes for the file, and that is what `file::size_with` asked for.
    unsafe { file::open(core, kept, file, flags, real_open) }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: SQLite calls this with our own table and a C string.
    let (core, named) = unsafe { (core_of(vfs), CStr::from_ptr(name)) };
    core.gate.delete(named, sync_dir != 0, || {
        let real = core.real.0;
        // SAFETY: the arguments of this call, handed on.
        unsafe { (*real).xDelete.map_or(ffi::SQLITE_IOERR_DELETE, |f| f(real, name, sync_dir)) }
    })
}

/// Declares functions that only hand their arguments to the real VFS.
macro_rules! hand_on {
    ($($name:ident => $field:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?, or $missing:expr;)*) => {$(
        unsafe extern "C" fn $name(vfs: *mut sqlite3_vfs, $($arg: $kind),*) $(-> $out)? {
            // SAFETY: SQLite calls this with our own table, and the arguments are meant for this very function
            // of the real one.
            unsafe {
                let real = core_of(vfs).real.0;
                match (*real).$field {
                    Some(f) => f(real, $($arg),*),
                    None => $missing,
                }
            }
        }
    )*};
}

type Symbol = unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char);

hand_on! {
    access => xAccess(name: *const c_char, flags: c_int, out: *mut c_int) -> c_int, or ffi::SQLITE_IOERR_ACCESS;
    full_pathname => xFullPathname(name: *const c_char, size: c_int, out: *mut c_char) -> c_int,
        or ffi::SQLITE_CANTOPEN;
    dl_open => xDlOpen(name: *const c_char) -> *mut c_void, or ptr::null_mut();
    dl_error => xDlError(size: c_int, out: *mut c_char), or ();
    dl_sym => xDlSym(library: *mut c_void, symbol: *const c_char) -> Option<Symbol>, or None;
    dl_close => xDlClose(library: *mut c_void), or ();
    randomness => xRandomness(size: c_int, out: *mut c_char) -> c_int, or 0;
    sleep => xSleep(microseconds: c_int) -> c_int, or 0;
    current_time => xCurrentTime(out: *mut f64) -> c_int, or ffi::SQLITE_ERROR;
    get_last_error => xGetLastError(size: c_int, out: *mut c_char) -> c_int, or 0;
    current_time_int64 => xCurrentTimeInt64(out: *mut ffi::sqlite3_int64) -> c_int, or ffi::SQLITE_ERROR;
    set_system_call => xSetSystemCall(name: *const c_char, call: ffi::sqlite3_syscall_ptr) -> c_int,
        or ffi::SQLITE_NOTFOUND;
    get_system_call => xGetSystemCall(name: *const c_char) -> ffi::sqlite3_syscall_ptr, or None;
    next_system_call => xNextSystemCall(name: *const c_char) -> *const c_char, or ptr::null();
}
