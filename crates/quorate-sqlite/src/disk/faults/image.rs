//! Writes an image of the disk after a power loss: one of the states that the model allows.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use super::model::{ChangeKind, FileId, FileModel, Model, NameModel, overwrite};
use super::rng::Rng;

/// Sector size. Disks write whole sectors, so a write can be torn at these boundaries.
const SECTOR: u64 = 512;

/// Fate of unsynced changes in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsyncedData {
    /// All unsynced changes are lost.
    LoseAll,
    /// All unsynced changes are kept.
    KeepAll,
    /// Each write is independently kept, lost or torn; each truncation and each
    /// creation or deletion of a name is kept or lost.
    Random,
}

pub(super) fn write(model: &Model, seed: u64, into: &Path, unsynced: UnsyncedData) -> io::Result<()> {
    let mut rng = Rng::new(seed);
    fs::create_dir_all(into)?;
    // Paths are relative to the outermost directory, so that subdirectories are preserved.
    let parents = model.names().filter_map(|(path, _)| path.parent());
    let outermost = parents.min_by_key(|parent| parent.components().count()).map(Path::to_owned);
    for (path, name) in model.names() {
        let found = resolve_name(name, unsynced, &mut rng).and_then(|id| model.file(id));
        let relative = outermost.as_deref().and_then(|outermost| path.strip_prefix(outermost).ok());
        let (Some(file), Some(relative)) = (found, relative) else { continue };
        let content = content(file, unsynced, &mut rng);
        let path = into.join(relative);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::File::create_new(path)?.write_all(&content)?;
    }
    Ok(())
}

fn resolve_name(name: &NameModel, unsynced: UnsyncedData, rng: &mut Rng) -> Option<FileId> {
    match unsynced {
        UnsyncedData::LoseAll => name.durable,
        UnsyncedData::KeepAll => name.current(),
        UnsyncedData::Random => match rng.below(name.unsynced.len() as u64 + 1) {
            0 => name.durable,
            later => name.unsynced[later as usize - 1],
        },
    }
}

fn content(file: &FileModel, unsynced: UnsyncedData, rng: &mut Rng) -> Vec<u8> {
    let mut content = file.durable.clone();
    // With many writes, probability 1/2 would never produce an image that keeps nearly all or nearly nothing.
    let kept_of_8 = [1, 4, 7][rng.below(3) as usize];
    for change in &file.unsynced {
        let whole = match unsynced {
            UnsyncedData::LoseAll => false,
            UnsyncedData::KeepAll => true,
            UnsyncedData::Random => rng.below(8) < kept_of_8,
        };
        if whole {
            change.kind.apply(&mut content);
        } else if unsynced == UnsyncedData::Random
            && rng.coin()
            && let ChangeKind::Write { offset, bytes } = &change.kind
        {
            tear(&mut content, *offset, bytes, rng);
        }
    }
    content
}

/// Applies some sectors of a write: a prefix, or a random subset.
fn tear(content: &mut Vec<u8>, offset: u64, bytes: &[u8], rng: &mut Rng) {
    let sectors = sectors(offset, bytes.len() as u64);
    let in_order = rng.coin();
    let first_lost = rng.below(sectors.len().max(1) as u64) as usize;
    for (index, (from, to)) in sectors.into_iter().enumerate() {
        let kept = if in_order { index < first_lost } else { rng.coin() };
        if kept {
            let part = &bytes[(from - offset) as usize..(to - offset) as usize];
            overwrite(content, from as usize, part);
        }
    }
}

/// Splits a range at the sector boundaries of the file.
fn sectors(offset: u64, length: u64) -> Vec<(u64, u64)> {
    let end = offset + length;
    let mut sectors = Vec::new();
    let mut from = offset;
    while from < end {
        let to = end.min((from / SECTOR + 1) * SECTOR);
        sectors.push((from, to));
        from = to;
    }
    sectors
}
