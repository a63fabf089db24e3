//! Work that a space has under way once at a time, because it holds a lot of memory. Other spaces have their own.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::SpaceNo;

/// What is under way: a kind of work, and the space.
type Running = Arc<Mutex<HashSet<(&'static str, SpaceNo)>>>;

#[derive(Default)]
pub(crate) struct Exclusive(Running);

/// Ends the work when it is dropped.
pub(crate) struct Underway {
    running: Running,
    what: (&'static str, SpaceNo),
}

impl Exclusive {
    /// Begins, unless the same is under way in this space.
    pub(crate) fn begin(&self, kind: &'static str, space: SpaceNo) -> Option<Underway> {
        let what = (kind, space);
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(what);
        is_new.then(|| Underway { running: Arc::clone(&self.0), what })
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.what);
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::SpaceNo;

    use super::Exclusive;

    #[test]
    fn i16_one_space_does_not_keep_another_from_it() {
        let exclusive = Exclusive::default();
        let first = exclusive.begin("verify", SpaceNo(1));
        assert!(first.is_some() && exclusive.begin("verify", SpaceNo(1)).is_none());
        assert!(exclusive.begin("verify", SpaceNo(2)).is_some());
        assert!(exclusive.begin("fold", SpaceNo(1)).is_some());
        drop(first);
        assert!(exclusive.begin("verify", SpaceNo(1)).is_some());
    }
}
