//! Replacement of `Faults` in production builds: every operation is forwarded directly.
#![forbid(unsafe_code)]

use std::ffi::{CStr, c_int};

use super::FileKind;

/// Empty: files are not tracked.
#[derive(Clone, Copy)]
pub(super) struct FileId;

/// Has the same methods as `Faults`, so that the C functions need only one version.
#[derive(Default)]
pub(super) struct NoFaults {}

impl NoFaults {
    #[inline]
    pub(super) fn open(
        &self,
        _name: Option<&CStr>,
        open: impl FnOnce() -> c_int,
        _content: impl FnOnce() -> Vec<u8>,
    ) -> (c_int, FileId) {
        (open(), FileId)
    }

    #[inline]
    pub(super) fn delete(&self, _name: &CStr, _sync_dir: bool, delete: impl FnOnce() -> c_int) -> c_int {
        delete()
    }

    #[inline]
    pub(super) fn read(&self, read: impl FnOnce() -> c_int) -> c_int {
        read()
    }

    #[inline]
    pub(super) fn write(
        &self,
        _file: FileId,
        _kind: FileKind,
        _bytes: &[u8],
        _offset: u64,
        _size: impl FnOnce() -> u64,
        write: impl FnOnce() -> c_int,
    ) -> c_int {
        write()
    }

    #[inline]
    pub(super) fn preallocates(&self) -> bool {
        true
    }

    #[inline]
    pub(super) fn truncate(
        &self,
        _file: FileId,
        _to: u64,
        _size: impl FnOnce() -> u64,
        truncate: impl FnOnce() -> c_int,
    ) -> c_int {
        truncate()
    }

    #[inline]
    pub(super) fn sync(&self, _file: FileId, _kind: FileKind, sync: impl FnOnce() -> c_int) -> c_int {
        sync()
    }

    #[inline]
    pub(super) fn resized(&self, _file: FileId, _size: impl FnOnce() -> u64) {}
}
