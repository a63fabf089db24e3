//! Task status without data, and the number of tasks by status.

/// The status of a task. The numbers never change: they are hashed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TaskStatus {
    /// Waits for its dependencies.
    Blocked,
    /// Can be claimed.
    Ready,
    /// Waits for its scheduled time.
    Scheduled,
    /// Claimed by an agent.
    Leased,
    /// Waits for an approval.
    AwaitingApproval,
    /// Ended with a result.
    Done,
    /// Ended with a partial result.
    Partial,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Failed and escalated.
    Escalated,
}

crate::text_serde::serde_names!(TaskStatus);

impl TaskStatus {
    /// All values: first those of open tasks, then those of ended tasks.
    pub const ALL: [Self; 10] = [
        Self::Blocked,
        Self::Ready,
        Self::Scheduled,
        Self::Leased,
        Self::AwaitingApproval,
        Self::Done,
        Self::Partial,
        Self::Failed,
        Self::Cancelled,
        Self::Escalated,
    ];

    /// The stored number. Never changes.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Blocked => 0,
            Self::Ready => 1,
            Self::Scheduled => 2,
            Self::Leased => 3,
            Self::AwaitingApproval => 4,
            Self::Done => 5,
            Self::Partial => 6,
            Self::Failed => 7,
            Self::Cancelled => 8,
            Self::Escalated => 9,
        }
    }

    /// The status with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.number() == number)
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Ready => "ready",
            Self::Scheduled => "scheduled",
            Self::Leased => "leased",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Done => "done",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Escalated => "escalated",
        }
    }

    /// Whether a task with this status has ended.
    #[must_use]
    pub fn has_ended(self) -> bool {
        match self {
            Self::Blocked | Self::Ready | Self::Scheduled | Self::Leased | Self::AwaitingApproval => false,
            Self::Done | Self::Partial | Self::Failed | Self::Cancelled | Self::Escalated => true,
        }
    }
}

/// Number of tasks by status. They add up to all tasks ever created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskCounts([u64; TaskStatus::ALL.len()]);

impl FromIterator<(TaskStatus, u64)> for TaskCounts {
    fn from_iter<T: IntoIterator<Item = (TaskStatus, u64)>>(entries: T) -> Self {
        let mut counts = Self::default();
        for (status, count) in entries {
            counts.0[usize::from(status.number())] = count;
        }
        counts
    }
}

impl TaskCounts {
    /// Number of tasks with this status.
    #[must_use]
    pub fn get(&self, status: TaskStatus) -> u64 {
        self.0[usize::from(status.number())]
    }

    /// All statuses with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (TaskStatus, u64)> {
        TaskStatus::ALL.into_iter().map(|status| (status, self.get(status)))
    }

    /// Number of open tasks.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.iter().filter(|(status, _)| !status.has_ended()).map(|(_, count)| count).sum()
    }

    /// Number of ended tasks.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.iter().filter(|(status, _)| status.has_ended()).map(|(_, count)| count).sum()
    }

    /// Increments the count of a status.
    pub fn add(&mut self, status: TaskStatus) {
        self.0[usize::from(status.number())] += 1;
    }

    /// Decrements the count of a status.
    pub(crate) fn subtract(&mut self, status: TaskStatus) {
        self.0[usize::from(status.number())] -= 1;
    }
}
