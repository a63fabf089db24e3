//! Reference model: a naive in-memory store that implements the guarantees with plain loops.
//!
//! It is written from the specification, not from `quorate-core`: it shares the types of core (commits, results,
//! refusals, ids) but none of its rules. There are no indexes; every lookup is a scan. A commit modifies the state in
//! place, and a refused commit restores a copy taken before. The model is slow and serves as the test oracle: it passes
//! the conformance suite, and random workloads on a real backend are compared with it step by step. It persists nothing
//! and is not for production.

mod agents;
mod approvals;
mod deadlock;
mod dispatch;
mod grants;
mod inspect;
mod leases;
mod locks;
mod memory;
mod message_chains;
mod policy;
mod pools;
mod presence;
mod procedures;
mod reads;
mod requests;
mod restore;
mod rollback;
mod routing;
mod send;
mod sessions;
mod space;
mod stuck;
mod subscriptions;
mod tasks;
mod tokens;
mod transaction;

use std::future::ready;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{Commit, Now, Record, Seq, SpaceId, SpaceName, SpaceNo, Timestamp};
use tokio::sync::watch;

use crate::read::{ReadQuery, ReadResult};
use crate::store::{
    BackupPosition, BatchDispatch, CommitResult, PublishedState, SpaceInfo, Store, StoreContext,
};
use crate::{BoxFuture, StoreError};
use space::Space;

/// Reference model of a store. Its futures are always ready.
pub struct ReferenceStore {
    context: StoreContext,
    spaces: Mutex<Vec<HostedSpace>>,
}

/// A space and the channel that publishes its state.
struct HostedSpace {
    space: Space,
    published: watch::Sender<Arc<PublishedState>>,
}

impl ReferenceStore {
    /// Creates a store without spaces.
    #[must_use]
    pub fn new(context: StoreContext) -> Arc<Self> {
        Arc::new(Self { context, spaces: Mutex::default() })
    }

    /// Simulates a restart of a durable store: waiters are dropped, leases restart with their full duration, and
    /// in-memory state is lost.
    pub fn restart(&self) {
        let now = self.context.clock.now();
        for hosted in self.hosted().iter_mut() {
            hosted.space.restart(now);
            hosted.publish();
        }
    }

    /// Simulates a restart followed by a restore from a backup of the current state.
    pub fn restore(&self) {
        let now = self.context.clock.now();
        for hosted in self.hosted().iter_mut() {
            hosted.space.restart(now);
            hosted.space.restore(now);
            hosted.publish();
        }
    }

    fn hosted(&self) -> MutexGuard<'_, Vec<HostedSpace>> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn space_now(&self, name: SpaceName) -> SpaceNo {
        let mut spaces = self.hosted();
        if let Some(index) = spaces.iter().position(|hosted| hosted.space.name == name) {
            return number_of(index);
        }
        let Now { wall, .. } = self.context.clock.now();
        let space = Space::new(name, SpaceId(self.context.entropy.bytes_16()), wall);
        let published = watch::Sender::new(Arc::new(space.published()));
        spaces.push(HostedSpace { space, published });
        number_of(spaces.len() - 1)
    }

    fn transact_now(&self, number: SpaceNo, commits: &[Commit]) -> Result<Vec<CommitResult>, StoreError> {
        let mut spaces = self.hosted();
        let hosted = find(&mut spaces, number)?;
        let mut outcomes = Vec::new();
        let mut dispatch = BatchDispatch::new(number);
        for commit in commits {
            outcomes.push(hosted.space.commit(commit, self.context.clock.now(), &mut dispatch));
        }
        hosted.publish();
        dispatch.wake = hosted.published.borrow().wake;
        drop(spaces);
        // As in every store, consumers receive their deliveries before the commit that caused them returns.
        (self.context.sink)(dispatch);
        Ok(outcomes)
    }
}

impl HostedSpace {
    fn publish(&self) {
        self.published.send_replace(Arc::new(self.space.published()));
    }
}

fn number_of(index: usize) -> SpaceNo {
    SpaceNo(index as u64 + 1)
}

fn find(spaces: &mut [HostedSpace], number: SpaceNo) -> Result<&mut HostedSpace, StoreError> {
    let index = usize::try_from(number.0).unwrap_or(0).wrapping_sub(1);
    spaces.get_mut(index).ok_or(StoreError::UnknownSpace)
}

impl Store for ReferenceStore {
    fn space(&self, name: SpaceName) -> BoxFuture<'_, Result<SpaceNo, StoreError>> {
        Box::pin(ready(Ok(self.space_now(name))))
    }

    fn spaces(&self) -> Vec<SpaceInfo> {
        let spaces = self.hosted();
        let info = |(index, hosted): (usize, &HostedSpace)| SpaceInfo {
            number: number_of(index),
            name: hosted.space.name.clone(),
            id: hosted.space.id,
        };
        spaces.iter().enumerate().map(info).collect()
    }

    fn transact(
        &self,
        space: SpaceNo,
        commits: Vec<Commit>,
    ) -> BoxFuture<'static, Result<Vec<CommitResult>, StoreError>> {
        Box::pin(ready(self.transact_now(space, &commits)))
    }

    fn read(
        &self,
        space: SpaceNo,
        queries: Vec<ReadQuery>,
    ) -> BoxFuture<'_, Result<Vec<ReadResult>, StoreError>> {
        let mut spaces = self.hosted();
        let found = find(&mut spaces, space);
        let results = found.map(|hosted| queries.iter().map(|query| hosted.space.read(query)).collect());
        Box::pin(ready(results))
    }

    fn log(&self, space: SpaceNo, from: Seq, max: usize) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        let mut spaces = self.hosted();
        let found = find(&mut spaces, space);
        Box::pin(ready(found.map(|hosted| hosted.space.log(from, max))))
    }

    fn published(&self, space: SpaceNo) -> Option<watch::Receiver<Arc<PublishedState>>> {
        let mut spaces = self.hosted();
        find(&mut spaces, space).ok().map(|hosted| hosted.published.subscribe())
    }

    fn backup<'a>(&'a self, _to: &'a Path) -> BoxFuture<'a, Result<Vec<BackupPosition>, StoreError>> {
        Box::pin(ready(Err(StoreError::Read("the reference model does not support backups".into()))))
    }

    fn failure(&self) -> BoxFuture<'static, StoreError> {
        Box::pin(std::future::pending())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
}

/// Returns the time of a decision. The wall clock never moves backwards within a space.
fn decided_at(now: Now, newest: Timestamp) -> Now {
    Now { wall: now.wall.max(newest), ..now }
}
