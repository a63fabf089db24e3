//! Witness: a small file that states what is durable. It exists because SQLite cannot tell a write-ahead log that was
//! cut, flipped or deleted from one that an interrupted write left behind: recovery stops at the first invalid frame and
//! starts with what is before it, as if nothing had followed.
//!
//! `quorate.witness` has two slots for each of the two stores of a data directory. They are written alternately, each in
//! one sector with a checksum, so that an interrupted write leaves the other one intact. A thread writes them shortly
//! after the sync of a batch and never before it: otherwise an honest power loss would look like lost data.
//!
//! Not a copy of the data: with it, lost data is detected and not repaired.

mod check;
mod thread;

#[cfg(test)]
#[cfg(feature = "faults")]
mod tests;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use quorate_core::{Seq, SpaceNo};
use rusqlite::{Connection, OptionalExtension as _};

use crate::checksum::checksum;
use crate::directory::{
    OpenError, create_private_file, database_path, is_private_name, private_directory, sync_directory,
};
use crate::disk::{Disk, PlainFile};
use crate::{incomplete, schema};
pub(crate) use check::{check, check_missing_database};
pub(crate) use thread::{WitnessSignal, WitnessThread};

/// Name of the file.
pub(crate) const WITNESS: &str = "quorate.witness";

/// A disk writes whole sectors.
const SLOT_BYTES: usize = 512;
/// Slots of both stores.
const FILE_BYTES: usize = 4 * SLOT_BYTES;
const MAGIC: [u8; 8] = *b"QUORWIT1";

/// One of the two stores of a data directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoreRole {
    Main,
    /// The nested store of conduct flags.
    Private,
}

impl StoreRole {
    /// Offset of the first slot.
    fn offset(self) -> usize {
        match self {
            Self::Main => 0,
            Self::Private => 2 * SLOT_BYTES,
        }
    }
}

/// Newest durable batch of a store, and the head of a space after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Position {
    /// Identity of the store; zeros before its schema has one.
    pub(crate) store: [u8; 16],
    pub(crate) batch: u64,
    pub(crate) space: SpaceNo,
    pub(crate) seq: Seq,
    pub(crate) hash: [u8; 32],
}

impl Position {
    /// Reads the position of a database.
    pub(crate) fn stored(connection: &Connection) -> rusqlite::Result<Self> {
        let store = connection.query_row("SELECT id FROM store", [], |row| row.get(0))?;
        let newest =
            "SELECT batch, number, seq, hash FROM spaces WHERE batch > 0 ORDER BY batch DESC, number LIMIT 1";
        let newest = connection.query_row(newest, [], |row| {
            let (batch, space, seq, hash) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(Self { store, batch, space: SpaceNo(space), seq: Seq(seq), hash })
        });
        Ok(newest.optional()?.unwrap_or(Self { store, ..Self::default() }))
    }

    fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        let numbers = [self.batch, self.space.0, self.seq.0].map(u64::to_be_bytes).concat();
        let content = [&MAGIC[..], &self.store, &numbers, &self.hash].concat();
        slot[..content.len()].copy_from_slice(&content);
        let sum = checksum(&slot[..SLOT_BYTES - 8], 0).to_be_bytes();
        slot[SLOT_BYTES - 8..].copy_from_slice(&sum);
        slot
    }

    fn decode(slot: &[u8]) -> Option<Self> {
        let (content, sum) = slot.split_at_checked(SLOT_BYTES - 8)?;
        if !content.starts_with(&MAGIC) || sum != checksum(content, 0).to_be_bytes() {
            return None;
        }
        let number = |at: usize| content[at..at + 8].try_into().map_or(0, u64::from_be_bytes);
        Some(Self {
            store: content[8..24].try_into().ok()?,
            batch: number(24),
            space: SpaceNo(number(32)),
            seq: Seq(number(40)),
            hash: content[48..80].try_into().ok()?,
        })
    }
}

/// What a witness states about a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Statement {
    /// Nothing was ever written for it.
    Absent,
    /// Both slots are invalid. An interrupted write damages only one.
    Damaged,
    /// This position is durable.
    Durable(Position),
}

/// Witness of a store.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    /// Path of the file; absolute.
    pub(crate) file: PathBuf,
    pub(crate) role: StoreRole,
}

impl Location {
    /// Returns the witness of the store in a directory: the private store has its slots in the witness of the outer one.
    pub(crate) fn of(directory: &Path) -> Self {
        // Absolute, as SQLite opens its own files; and `.` has no name.
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let parent = directory.parent().filter(|_| is_private_name(&directory));
        let is_nested = |parent: &&Path| {
            [database_path(parent), parent.join(WITNESS), incomplete::marker(parent)]
                .iter()
                .any(|file| file.exists())
        };
        match parent.filter(is_nested) {
            Some(parent) => Self { file: parent.join(WITNESS), role: StoreRole::Private },
            None => Self { file: directory.join(WITNESS), role: StoreRole::Main },
        }
    }

    /// Reads what the witness states about the store; `None` if the file does not exist.
    pub(crate) fn read(&self) -> io::Result<Option<Statement>> {
        self.read_about(self.role)
    }

    /// Reads what the witness states about a store; `None` if the file does not exist.
    fn read_about(&self, role: StoreRole) -> io::Result<Option<Statement>> {
        let mut bytes = match fs::read(&self.file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        bytes.resize(FILE_BYTES, 0);
        let slots = &bytes[role.offset()..][..2 * SLOT_BYTES];
        let newest = slots.chunks(SLOT_BYTES).filter_map(Position::decode).max_by_key(|found| found.batch);
        Ok(Some(match newest {
            Some(position) => Statement::Durable(position),
            None if slots.iter().all(|byte| *byte == 0) => Statement::Absent,
            None => Statement::Damaged,
        }))
    }

    /// States `position` for a store that is not in use yet: before its database gets its name, or its current format.
    /// Creates the file if it does not exist.
    pub(crate) fn create(&self, disk: &Disk, position: &Position) -> Result<(), OpenError> {
        let io = |source| self.io_error("create", source);
        let sqlite =
            |source| OpenError::Sqlite { action: "write the witness", path: self.file.clone(), source };
        let is_new = match create_private_file(&self.file) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(io(error)),
        };
        let mut file = PlainFile::open(disk, &self.file).map_err(sqlite)?;
        if is_new {
            file.write_at(&[0; FILE_BYTES], 0).map_err(sqlite)?;
        }
        // Both slots: an older one could state more than a new database has.
        let slots = [position.encode(), position.encode()].concat();
        file.write_at(&slots, self.role.offset() as u64).map_err(sqlite)?;
        file.sync().map_err(sqlite)?;
        self.file.parent().map_or(Ok(()), sync_directory).map_err(io)
    }

    fn io_error(&self, action: &'static str, source: io::Error) -> OpenError {
        OpenError::Io { action, path: self.file.clone(), source }
    }
}

/// Writes the witness of a copy that is complete except for it: it names both stores of the directory. A copy of data of an
/// earlier release has none.
pub(crate) fn write_for_copy(directory: &Path) -> Result<(), CopyError> {
    let open = |directory: &Path| {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        Connection::open_with_flags(database_path(directory), flags)
    };
    if !schema::has_witness(&open(directory)?)? {
        return Ok(());
    }
    let mut bytes = [0; FILE_BYTES];
    let private = private_directory(directory);
    let mut state = |role: StoreRole, directory: &Path| {
        let slot = Position::stored(&open(directory)?)?.encode();
        bytes[role.offset()..][..2 * SLOT_BYTES].copy_from_slice(&[slot, slot].concat());
        Ok::<_, rusqlite::Error>(())
    };
    state(StoreRole::Main, directory)?;
    if database_path(&private).exists() {
        state(StoreRole::Private, &private)?;
    }
    let mut file = create_private_file(&directory.join(WITNESS))?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    Ok(sync_directory(directory)?)
}

/// Error of writing the witness of a copy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Open witness, for the thread that writes it.
pub(crate) struct WitnessFile {
    file: PlainFile,
    role: StoreRole,
    /// Slot that is overwritten next: never the one with the newest position.
    next_slot: usize,
    /// Batch that the file states.
    pub(crate) stated: u64,
}

impl WitnessFile {
    /// Opens the witness of a store that was checked.
    pub(crate) fn open(disk: &Disk, location: &Location) -> Result<Self, OpenError> {
        let io = |source| location.io_error("read", source);
        let sqlite =
            |source| OpenError::Sqlite { action: "open the witness", path: location.file.clone(), source };
        let bytes = fs::read(&location.file).map_err(io)?;
        let batch = |slot: usize| {
            let start = location.role.offset() + slot * SLOT_BYTES;
            bytes.get(start..start + SLOT_BYTES).and_then(Position::decode).map(|found| found.batch)
        };
        Ok(Self {
            file: PlainFile::open(disk, &location.file).map_err(sqlite)?,
            role: location.role,
            next_slot: usize::from(batch(0) > batch(1)),
            stated: batch(0).max(batch(1)).unwrap_or(0),
        })
    }

    /// States that a position is durable. After an error the same slot is written again.
    pub(crate) fn write(&mut self, position: &Position) -> rusqlite::Result<()> {
        let offset = self.role.offset() + self.next_slot * SLOT_BYTES;
        self.file.write_at(&position.encode(), offset as u64)?;
        self.file.sync()?;
        (self.next_slot, self.stated) = (1 - self.next_slot, position.batch);
        Ok(())
    }
}
