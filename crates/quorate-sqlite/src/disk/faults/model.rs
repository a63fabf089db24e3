//! Model of a disk: the durable content of each file, and the changes since its last sync.
//!
//! Names and contents are separate, as in a real file system: a file can be synced while its name is not, and a name
//! can refer to a deleted file again after a power loss. The rules are those that SQLite relies on:
//! - A sync makes the writes of one file durable, and the name under which it was created.
//! - The first sync of a journal or a write-ahead log also syncs its directory, with all names in it.
//! - A deletion is durable once its directory was synced.
//! - A write never damages adjacent bytes (SQLite calls this powersafe overwrite).

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::disk::FileKind;

/// Identifies the file of an open handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::disk) struct FileId(u64);

impl FileId {
    /// File that never survives, or that was opened before tracking started.
    pub(in crate::disk) const UNTRACKED: FileId = FileId(0);
}

pub(super) fn path_of(name: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name.to_bytes()))
}

#[derive(Default)]
pub(super) struct Model {
    files: BTreeMap<FileId, FileModel>,
    names: BTreeMap<PathBuf, NameModel>,
    files_created: u64,
    /// Number of the newest change of any file.
    now: u64,
}

/// File that a name refers to, if any.
pub(super) struct NameModel {
    pub(super) durable: Option<FileId>,
    /// Later values, in order. Any of them may be the state after a power loss.
    pub(super) unsynced: Vec<Option<FileId>>,
}

impl NameModel {
    pub(super) fn current(&self) -> Option<FileId> {
        self.unsynced.last().copied().unwrap_or(self.durable)
    }

    fn sync(&mut self) {
        self.durable = self.current();
        self.unsynced.clear();
    }
}

pub(super) struct FileModel {
    pub(super) durable: Vec<u8>,
    /// Changes since the last sync, in order.
    pub(super) unsynced: Vec<Change>,
    /// Size with all changes applied.
    size: u64,
}

pub(super) struct Change {
    number: u64,
    /// A sync of it has failed. It may or may not be on disk, and no later sync makes it durable.
    sync_failed: bool,
    pub(super) kind: ChangeKind,
}

pub(super) enum ChangeKind {
    Write { offset: u64, bytes: Box<[u8]> },
    Resize { to: u64 },
}

impl Model {
    /// Number of the newest change. A sync covers all changes up to it.
    pub(super) fn newest_change(&self) -> u64 {
        self.now
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (&Path, &NameModel)> {
        self.names.iter().map(|(path, name)| (path.as_path(), name))
    }

    pub(super) fn file(&self, id: FileId) -> Option<&FileModel> {
        self.files.get(&id)
    }

    /// Tracks a file that was opened or created. `content` is called if it was not tracked before.
    pub(super) fn open(&mut self, path: &Path, content: impl FnOnce() -> Vec<u8>) -> FileId {
        if let Some(id) = self.names.get(path).and_then(NameModel::current) {
            return id;
        }
        self.files_created += 1;
        let id = FileId(self.files_created);
        let durable = content();
        match self.names.get_mut(path) {
            Some(name) => name.unsynced.push(Some(id)),
            // A file with content existed before. An empty file was just created.
            None if durable.is_empty() => {
                self.names.insert(path.to_owned(), NameModel { durable: None, unsynced: vec![Some(id)] });
            }
            None => {
                self.names.insert(path.to_owned(), NameModel { durable: Some(id), unsynced: Vec::new() });
            }
        }
        let size = durable.len() as u64;
        self.files.insert(id, FileModel { durable, unsynced: Vec::new(), size });
        id
    }

    pub(super) fn delete(&mut self, path: &Path) {
        if let Some(name) = self.names.get_mut(path) {
            name.unsynced.push(None);
        }
    }

    pub(super) fn write(&mut self, id: FileId, bytes: &[u8], offset: u64) {
        let end = offset + bytes.len() as u64;
        let kind = ChangeKind::Write { offset, bytes: bytes.into() };
        self.change(id, kind, |size| size.max(end));
    }

    pub(super) fn resize(&mut self, id: FileId, to: u64) {
        if self.files.get(&id).is_some_and(|file| file.size != to) {
            self.change(id, ChangeKind::Resize { to }, |_| to);
        }
    }

    fn change(&mut self, id: FileId, kind: ChangeKind, size: impl FnOnce(u64) -> u64) {
        let Some(file) = self.files.get_mut(&id) else { return };
        self.now += 1;
        file.size = size(file.size);
        file.unsynced.push(Change { number: self.now, sync_failed: false, kind });
    }

    /// Applies a successful sync that started when `started` was the newest change.
    pub(super) fn synced(&mut self, id: FileId, kind: FileKind, started: u64) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let covered = file.unsynced.partition_point(|change| change.number <= started);
        for change in file.unsynced.drain(..covered).filter(|change| !change.sync_failed) {
            change.kind.apply(&mut file.durable);
        }
        let own = self.names.iter_mut().find(|(_, name)| name.current() == Some(id));
        let Some((path, name)) = own.filter(|(_, name)| !name.unsynced.is_empty()) else { return };
        if kind == FileKind::Database {
            name.sync();
        } else {
            let path = path.clone();
            self.sync_directory_of(&path);
        }
    }

    /// Applies a failed sync that started when `started` was the newest change.
    pub(super) fn sync_failed(&mut self, id: FileId, started: u64) {
        let Some(file) = self.files.get_mut(&id) else { return };
        for change in file.unsynced.iter_mut().filter(|change| change.number <= started) {
            change.sync_failed = true;
        }
    }

    /// Makes all names in the directory of this one durable.
    pub(super) fn sync_directory_of(&mut self, path: &Path) {
        let siblings = self.names.iter_mut().filter(|(other, _)| other.parent() == path.parent());
        siblings.for_each(|(_, name)| name.sync());
        let Model { files, names, .. } = self;
        names.retain(|_, name| name.durable.is_some() || !name.unsynced.is_empty());
        files.retain(|id, _| {
            names.values().any(|name| name.durable == Some(*id) || name.unsynced.contains(&Some(*id)))
        });
    }
}

impl ChangeKind {
    pub(super) fn apply(&self, content: &mut Vec<u8>) {
        match self {
            ChangeKind::Write { offset, bytes } => overwrite(content, *offset as usize, bytes),
            ChangeKind::Resize { to } => content.resize(*to as usize, 0),
        }
    }
}

/// Writes bytes at an offset. A gap is filled with zeros, as in a sparse file.
pub(super) fn overwrite(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}
