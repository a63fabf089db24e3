//! Memory-intensive jobs that run at most once per space at a time. Spaces do not affect each other.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::SpaceNo;

/// Running jobs by kind and space.
type Running = Arc<Mutex<HashSet<(&'static str, SpaceNo)>>>;

#[derive(Default)]
pub(crate) struct ExclusiveJobs(Running);

/// Marks the job as finished when dropped.
pub(crate) struct RunningJob {
    running: Running,
    job: (&'static str, SpaceNo),
}

impl ExclusiveJobs {
    /// Starts a job, unless one of the same kind is running in this space.
    pub(crate) fn try_start(&self, kind: &'static str, space: SpaceNo) -> Option<RunningJob> {
        let job = (kind, space);
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(job);
        is_new.then(|| RunningJob { running: Arc::clone(&self.0), job })
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.job);
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::SpaceNo;

    use super::ExclusiveJobs;

    #[test]
    fn i16_jobs_of_one_space_do_not_block_another_space() {
        let exclusive = ExclusiveJobs::default();
        let first = exclusive.try_start("verify", SpaceNo(1));
        assert!(first.is_some() && exclusive.try_start("verify", SpaceNo(1)).is_none());
        assert!(exclusive.try_start("verify", SpaceNo(2)).is_some());
        assert!(exclusive.try_start("fold", SpaceNo(1)).is_some());
        drop(first);
        assert!(exclusive.try_start("verify", SpaceNo(1)).is_some());
    }
}
