//! A hub on a disk that loses its power: works under load, the power goes during one operation of the disk, and what the
//! disk could hold then is written to a fresh directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_sqlite::{Disk, How, Options, Sabotage};

use crate::aftermath::{self, notebook, noted, opened};
use crate::check::{Tally, Violation};
use crate::history::{Event, unknown};
use crate::load::{self, Load};

/// One power cut.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// The operation of the disk during which the power goes.
    pub op: u64,
    /// What becomes of all that was not synced.
    pub how: How,
    /// Which of it is kept, where that is up to chance.
    pub seed: u64,
    /// How often the hub is started and closed again in good order; the load is shared out among the starts.
    pub starts: u64,
    /// The load of each start.
    pub load: Load,
    /// A deliberate bug, to see that the check finds it.
    pub sabotage: Option<Sabotage>,
    /// The length of the write-ahead log from which on it is carried over.
    pub carry_over_bytes: u64,
}

/// Longer than any log here: it is carried over when the hub is closed.
pub const NOT_CARRIED_OVER: u64 = 1 << 30;

/// What a power cut came to.
#[derive(Debug)]
pub struct Cutting {
    /// Whether the power went before the load was done.
    pub happened: bool,
    /// Operations of the disk in all.
    pub ops: u64,
    /// Bytes written to the database itself: more than a few mean that the write-ahead log was carried over.
    pub carried_bytes: u64,
    /// The verdict.
    pub verdict: Result<Tally, Vec<Violation>>,
}

impl Cut {
    /// Runs the load, cuts the power, and checks what is left.
    ///
    /// # Panics
    /// When the image cannot be written.
    pub async fn run(&self, place: &Path) -> Cutting {
        let disk = Disk::new();
        disk.faults().track();
        disk.faults().cut_at(self.op);
        let history = self.work(&disk, &place.join("data")).await;
        let happened = disk.faults().is_cut();
        // If the load was done first, the power goes while nothing is under way.
        disk.faults().freeze();
        let image: PathBuf = place.join("image");
        disk.faults().image(self.seed, &image, self.how).expect("the image can be written");
        let ops = disk.faults().ops();
        let carried_bytes = disk.counters().database.written_bytes;
        drop(disk);
        Cutting { happened, ops, carried_bytes, verdict: aftermath::check(&image, history).await }
    }

    /// Works until the power goes, or until all starts are done.
    async fn work(&self, disk: &Arc<Disk>, directory: &Path) -> Vec<Event> {
        let mut history = Vec::new();
        if self.sabotage.is_some()
            && let Ok(space) =
                aftermath::open(directory, Options { disk: Some(Arc::clone(disk)), ..Options::default() })
                    .await
        {
            // A bug may already be in the way when the space is made; what is to be seen is the work after that.
            space.engine().close().await;
        }
        for start in 0..self.starts {
            let options = Options {
                disk: Some(Arc::clone(disk)),
                sabotage: self.sabotage,
                carry_over_bytes: self.carry_over_bytes,
                // Short, so that the power also goes while a tail is carried over, and long enough to leave one.
                tail_rows: 50,
            };
            // Without power nothing opens; nothing was acknowledged by that start either.
            let Ok(space) = aftermath::open(directory, options).await else { break };
            let (note, events) = notebook();
            note(opened(&space));
            load::repeat(&space, unknown(&history), &note).await;
            load::run(&space, Load { run: start, ..self.load }, &note).await;
            space.engine().close().await;
            history.extend(noted(&events));
        }
        history
    }
}
