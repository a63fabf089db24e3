//! VFS methods (`sqlite3_vfs`) and the registration of a disk with SQLite.
//!
//! Only `open` and `delete` have logic of their own; the others forward their arguments to the real VFS.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_vfs};

use super::{VfsContext, file};

/// Underlying VFS that performs the operations.
#[derive(Clone, Copy)]
pub(super) struct RealVfs(*mut sqlite3_vfs);

// SAFETY: SQLite calls the functions of a VFS from any thread, so they are thread-safe. The pointer itself
// never changes, and the default VFS is a static of SQLite that lives as long as the process.
unsafe impl Send for RealVfs {}
// SAFETY: as above.
unsafe impl Sync for RealVfs {}

impl RealVfs {
    pub(super) fn find_default() -> RealVfs {
        // SAFETY: a null name returns the default VFS. SQLite initialises itself in this call if necessary.
        let vfs = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        assert!(!vfs.is_null(), "SQLite has no default VFS");
        RealVfs(vfs)
    }
}

/// Registers `context` with SQLite under its name, until the process ends.
pub(super) fn register(context: &'static VfsContext) {
    let real = context.real.0;
    // SAFETY: the default VFS is never freed. Only fields that never change are read, one by one: SQLite may
    // change `pNext` at this moment.
    let vfs = unsafe {
        sqlite3_vfs {
            iVersion: (*real).iVersion.min(3),
            szOsFile: file::size_with((*real).szOsFile),
            mxPathname: (*real).mxPathname,
            pNext: ptr::null_mut(),
            zName: context.name.as_ptr(),
            pAppData: ptr::from_ref(context).cast_mut().cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            // A method that the real VFS lacks must be missing here too, because SQLite checks for its presence.
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
    // SAFETY: the table and the context that it points to are leaked, so SQLite may keep both forever.
    let code = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0) };
    assert_eq!(code, ffi::SQLITE_OK, "SQLite rejected the VFS");
}

/// # Safety
///
/// `vfs` was created by `register`.
unsafe fn context_of(vfs: *mut sqlite3_vfs) -> &'static VfsContext {
    // SAFETY: `register` stored a `&'static` context there, and the field is never written again.
    unsafe { &*(*vfs).pAppData.cast::<VfsContext>() }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this with our own table; a name that is not null is a C string.
    let (context, path) = unsafe { (context_of(vfs), (!name.is_null()).then(|| CStr::from_ptr(name))) };
    let real_open = |real_file| {
        let real = context.real.0;
        // SAFETY: these are the arguments of this call, except for the VFS and the file, which are the real ones.
        // The name must be the same pointer: URI parameters are stored after it.
        unsafe { (*real).xOpen.map_or(ffi::SQLITE_CANTOPEN, |f| f(real, name, real_file, flags, flags_out)) }
    };
    // A file that is deleted on close never survives a power loss, so it is not tracked.
    let tracked = path.filter(|_| flags & ffi::SQLITE_OPEN_DELETEONCLOSE == 0);
    // SAFETY: SQLite allocates `szOsFile` bytes for the file, which is the size from `file::size_with`.
    unsafe { file::open(context, tracked, file, flags, real_open) }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: SQLite calls this with our own table and a C string.
    let (context, path) = unsafe { (context_of(vfs), CStr::from_ptr(name)) };
    context.faults.delete(path, sync_dir != 0, || {
        let real = context.real.0;
        // SAFETY: forwards the arguments of this call.
        unsafe { (*real).xDelete.map_or(ffi::SQLITE_IOERR_DELETE, |f| f(real, name, sync_dir)) }
    })
}

/// Declares functions that forward their arguments to the real VFS.
macro_rules! forward {
    ($($name:ident => $field:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?, or $missing:expr;)*) => {$(
        unsafe extern "C" fn $name(vfs: *mut sqlite3_vfs, $($arg: $kind),*) $(-> $out)? {
            // SAFETY: SQLite calls this with our own table, and the arguments are valid for the same method of the
            // real VFS.
            unsafe {
                let real = context_of(vfs).real.0;
                match (*real).$field {
                    Some(f) => f(real, $($arg),*),
                    None => $missing,
                }
            }
        }
    )*};
}

type Symbol = unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char);

forward! {
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
