//! A naive store in memory: what every backend has to do, said in plain loops.
//!
//! It is written from the promises, not from the decisions of `quorate-core`: it shares words with core (commits,
//! results, refusals, ids) and none of its rules. Nothing is indexed, everything is scanned, and a commit works on the
//! state itself while a copy of it waits to be put back. So it is slow, and it is the judge: the contract suite runs on
//! it, and random work on a real backend is compared with it step by step. It is not for production and keeps nothing.

mod agents;
mod approvals;
mod chains;
mod eras;
mod inbox;
mod inspect;
mod leases;
mod locks;
mod memory;
mod policy;
mod pools;
mod presence;
mod procedures;
mod reach;
mod reads;
mod requests;
mod rollback;
mod send;
mod sessions;
mod space;
mod step;
mod tasks;
mod tokens;
mod topics;
mod waits;

use std::future::ready;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{Commit, Now, Record, Seq, SpaceId, SpaceName, SpaceNo, Timestamp};
use tokio::sync::watch;

use crate::read::{Read, Rows};
use crate::store::{Handover, Outcome, Position, Published, SpaceInfo, Store, Wiring};
use crate::{BoxFuture, StoreError};
use space::Space;

/// The naive store. Every answer is ready at once.
pub struct Reference {
    wiring: Wiring,
    rooms: Mutex<Vec<Room>>,
}

/// A space and who looks at it.
struct Room {
    space: Space,
    published: watch::Sender<Arc<Published>>,
}

impl Reference {
    /// A store without spaces.
    #[must_use]
    pub fn new(wiring: Wiring) -> Arc<Self> {
        Arc::new(Self { wiring, rooms: Mutex::default() })
    }

    /// What a restart does to a store that keeps everything it promised to keep: nobody waits any more, leases run
    /// their full length again, and what only memory knew is forgotten.
    pub fn restart(&self) {
        let now = self.wiring.clock.now();
        for room in self.rooms().iter_mut() {
            room.space.restart(now);
            room.publish();
        }
    }

    /// What a restore from a backup made now does, besides a restart.
    pub fn restore(&self) {
        let now = self.wiring.clock.now();
        for room in self.rooms().iter_mut() {
            room.space.restart(now);
            room.space.restore(now);
            room.publish();
        }
    }

    fn rooms(&self) -> MutexGuard<'_, Vec<Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn space_now(&self, name: SpaceName) -> SpaceNo {
        let mut rooms = self.rooms();
        if let Some(index) = rooms.iter().position(|room| room.space.name == name) {
            return number_of(index);
        }
        let Now { wall, .. } = self.wiring.clock.now();
        let space = Space::new(name, SpaceId(self.wiring.chance.sixteen()), wall);
        let published = watch::Sender::new(Arc::new(space.published()));
        rooms.push(Room { space, published });
        number_of(rooms.len() - 1)
    }

    fn transact_now(&self, number: SpaceNo, commits: &[Commit]) -> Result<Vec<Outcome>, StoreError> {
        let mut rooms = self.rooms();
        let room = find(&mut rooms, number)?;
        let mut outcomes = Vec::new();
        let mut handover = Handover::new(number);
        for commit in commits {
            outcomes.push(room.space.commit(commit, self.wiring.clock.now(), &mut handover));
        }
        room.publish();
        handover.wake = room.published.borrow().wake;
        drop(rooms);
        // As with every store: consumers have their deliveries before the commit that caused them is answered.
        (self.wiring.sink)(handover);
        Ok(outcomes)
    }
}

impl Room {
    fn publish(&self) {
        self.published.send_replace(Arc::new(self.space.published()));
    }
}

fn number_of(index: usize) -> SpaceNo {
    SpaceNo(index as u64 + 1)
}

fn find(rooms: &mut [Room], number: SpaceNo) -> Result<&mut Room, StoreError> {
    let index = usize::try_from(number.0).unwrap_or(0).wrapping_sub(1);
    rooms.get_mut(index).ok_or(StoreError::NoSpace)
}

impl Store for Reference {
    fn space(&self, name: SpaceName) -> BoxFuture<'_, Result<SpaceNo, StoreError>> {
        Box::pin(ready(Ok(self.space_now(name))))
    }

    fn spaces(&self) -> Vec<SpaceInfo> {
        let rooms = self.rooms();
        let info = |(index, room): (usize, &Room)| SpaceInfo {
            number: number_of(index),
            name: room.space.name.clone(),
            id: room.space.id,
        };
        rooms.iter().enumerate().map(info).collect()
    }

    fn transact(
        &self,
        space: SpaceNo,
        commits: Vec<Commit>,
    ) -> BoxFuture<'static, Result<Vec<Outcome>, StoreError>> {
        Box::pin(ready(self.transact_now(space, &commits)))
    }

    fn read(&self, space: SpaceNo, what: Vec<Read>) -> BoxFuture<'_, Result<Vec<Rows>, StoreError>> {
        let mut rooms = self.rooms();
        let found = find(&mut rooms, space);
        let rows = found.map(|room| what.iter().map(|one| room.space.read(one)).collect());
        Box::pin(ready(rows))
    }

    fn log(&self, space: SpaceNo, from: Seq, max: usize) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        let mut rooms = self.rooms();
        let found = find(&mut rooms, space);
        Box::pin(ready(found.map(|room| room.space.log(from, max))))
    }

    fn published(&self, space: SpaceNo) -> Option<watch::Receiver<Arc<Published>>> {
        let mut rooms = self.rooms();
        find(&mut rooms, space).ok().map(|room| room.published.subscribe())
    }

    fn backup<'a>(&'a self, _to: &'a Path) -> BoxFuture<'a, Result<Vec<Position>, StoreError>> {
        Box::pin(ready(Err(StoreError::Read("the reference model has no files".into()))))
    }

    fn failure(&self) -> BoxFuture<'static, StoreError> {
        Box::pin(std::future::pending())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
}

/// What time it is for a decision: the wall clock never goes back within a space.
fn decided_at(now: Now, newest: Timestamp) -> Now {
    Now { wall: now.wall.max(newest), ..now }
}
