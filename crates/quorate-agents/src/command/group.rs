//! A process and everybody it started: they are ended together, whatever happens to whoever waits for them.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use crate::limits;

/// A running process that leads a group of its own. Dropped, the whole group is ended.
pub(super) struct Group {
    child: Option<Child>,
    id: Option<Pid>,
}

impl Group {
    /// Takes charge of a process that was started with a group of its own.
    pub(super) fn of(child: Child) -> Self {
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self { child: Some(child), id }
    }

    /// The process, to talk to.
    pub(super) fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("it is taken on drop only")
    }

    /// Ends whoever is left after the leader has ended by itself.
    pub(super) fn sweep(&mut self) {
        if let Some(id) = self.id.take() {
            signal(id, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let (Some(id), Some(mut child)) = (self.id.take(), self.child.take()) else { return };
        signal(id, Signal::TERM);
        let last = Last(id);
        // Without a runtime, or when it ends before the time is over, `last` is dropped and ends them at once.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(limits::GRACE, child.wait()).await;
                drop(last);
                let _ = child.wait().await;
            });
        }
    }
}

/// Whoever is left of a group when this is dropped is ended.
struct Last(Pid);

impl Drop for Last {
    fn drop(&mut self) {
        signal(self.0, Signal::KILL);
    }
}

/// A group that is gone already is what was wanted.
fn signal(id: Pid, signal: Signal) {
    let _ = kill_process_group(id, signal);
}
