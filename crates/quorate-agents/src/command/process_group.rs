//! A process and its descendants, terminated together even if the waiting future is dropped.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use crate::limits;

/// A running process that leads a process group. Dropping it terminates the whole group.
pub(super) struct ProcessGroup {
    child: Option<Child>,
    id: Option<Pid>,
}

impl ProcessGroup {
    /// Takes ownership of a process that was started in a group of its own.
    pub(super) fn new(child: Child) -> Self {
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self { child: Some(child), id }
    }

    /// Returns the process, for its pipes and exit status.
    pub(super) fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("only taken on drop")
    }

    /// Kills the remaining processes of the group after the leader has exited.
    pub(super) fn kill_remaining(&mut self) {
        if let Some(id) = self.id.take() {
            signal(id, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let (Some(id), Some(mut child)) = (self.id.take(), self.child.take()) else { return };
        signal(id, Signal::TERM);
        let kill = KillOnDrop(id);
        // Without a runtime, or if it shuts down during the grace period, `kill` is dropped and kills the group
        // immediately.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(limits::TERMINATE_GRACE, child.wait()).await;
                drop(kill);
                let _ = child.wait().await;
            });
        }
    }
}

/// Kills the remaining processes of a group when dropped.
struct KillOnDrop(Pid);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        signal(self.0, Signal::KILL);
    }
}

/// Sends a signal to the group. It is not an error if the group has already exited.
fn signal(id: Pid, signal: Signal) {
    let _ = kill_process_group(id, signal);
}
