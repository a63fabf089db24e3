//! What is left after a power failure: one of the states that the model allows.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use super::chance::Chance;
use super::model::{FileId, FileModel, Model, NameModel, What, overwrite};

/// A disk writes whole sectors, so this is where a write can be torn.
const SECTOR: u64 = 512;

/// What becomes of all that was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// All of it is lost.
    LoseAll,
    /// All of it is kept.
    KeepAll,
    /// Each write is kept, lost or torn on its own; each truncation and each name is the old or the new one.
    Random,
}

pub(super) fn write(model: &Model, seed: u64, into: &Path, how: How) -> io::Result<()> {
    let mut chance = Chance::new(seed);
    fs::create_dir_all(into)?;
    // Files may lie in directories below the outermost one; they do so in the image, too.
    let parents = model.names().filter_map(|(path, _)| path.parent());
    let outermost = parents.min_by_key(|parent| parent.components().count()).map(Path::to_owned);
    for (path, name) in model.names() {
        let found = led_to(name, how, &mut chance).and_then(|id| model.file(id));
        let below = outermost.as_deref().and_then(|outermost| path.strip_prefix(outermost).ok());
        let (Some(file), Some(below)) = (found, below) else { continue };
        let content = content(file, how, &mut chance);
        let path = into.join(below);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::File::create_new(path)?.write_all(&content)?;
    }
    Ok(())
}

fn led_to(name: &NameModel, how: How, chance: &mut Chance) -> Option<FileId> {
    match how {
        How::LoseAll => name.durable,
        How::KeepAll => name.current(),
        How::Random => match chance.below(name.unsynced.len() as u64 + 1) {
            0 => name.durable,
            later => name.unsynced[later as usize - 1],
        },
    }
}

fn content(file: &FileModel, how: How, chance: &mut Chance) -> Vec<u8> {
    let mut content = file.durable.clone();
    // With many writes, fair coins would never show a disk that kept nearly all or nearly nothing.
    let kept_of_8 = [1, 4, 7][chance.below(3) as usize];
    for change in &file.unsynced {
        let whole = match how {
            How::LoseAll => false,
            How::KeepAll => true,
            How::Random => chance.below(8) < kept_of_8,
        };
        if whole {
            change.what.apply(&mut content);
        } else if how == How::Random
            && chance.coin()
            && let What::Write { offset, bytes } = &change.what
        {
            tear(&mut content, *offset, bytes, chance);
        }
    }
    content
}

/// Keeps some sectors of a write: the first ones, or any.
fn tear(content: &mut Vec<u8>, offset: u64, bytes: &[u8], chance: &mut Chance) {
    let sectors = sectors(offset, bytes.len() as u64);
    let in_order = chance.coin();
    let first_lost = chance.below(sectors.len().max(1) as u64) as usize;
    for (index, (from, to)) in sectors.into_iter().enumerate() {
        let kept = if in_order { index < first_lost } else { chance.coin() };
        if kept {
            let part = &bytes[(from - offset) as usize..(to - offset) as usize];
            overwrite(content, from as usize, part);
        }
    }
}

/// Cuts a range at the sector boundaries of the file.
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
