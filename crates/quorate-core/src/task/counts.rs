//! In which state tasks are, as words and as counts.

/// Where a task is, as a word. The numbers are frozen: they are hashed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TaskStatus {
    /// Waits for others.
    Blocked,
    /// Waiting to be taken.
    Ready,
    /// Waiting for its time.
    Scheduled,
    /// Worked on.
    Leased,
    /// Waits for a person.
    AwaitingApproval,
    /// Done.
    Done,
    /// Ended with a part of the result.
    Partial,
    /// Given up.
    Failed,
    /// Called off.
    Cancelled,
    /// Given up, and somebody was told.
    Escalated,
}

crate::text_serde::serde_words!(TaskStatus);

impl TaskStatus {
    /// All of them: first those of open tasks, then those of tasks that are over.
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

    /// The frozen number.
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

    /// The one with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.number() == number)
    }

    /// The word on the wire.
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

    /// Whether a task in this state is over.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Blocked | Self::Ready | Self::Scheduled | Self::Leased | Self::AwaitingApproval => false,
            Self::Done | Self::Partial | Self::Failed | Self::Cancelled | Self::Escalated => true,
        }
    }
}

/// How many tasks are in each state. They add up to all that were ever made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskCounts([u64; TaskStatus::ALL.len()]);

impl FromIterator<(TaskStatus, u64)> for TaskCounts {
    fn from_iter<T: IntoIterator<Item = (TaskStatus, u64)>>(all: T) -> Self {
        let mut counts = Self::default();
        for (status, count) in all {
            counts.0[usize::from(status.number())] = count;
        }
        counts
    }
}

impl TaskCounts {
    /// How many are in this state.
    #[must_use]
    pub fn of(&self, status: TaskStatus) -> u64 {
        self.0[usize::from(status.number())]
    }

    /// All states with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (TaskStatus, u64)> {
        TaskStatus::ALL.into_iter().map(|status| (status, self.of(status)))
    }

    /// How many are not over.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.iter().filter(|(status, _)| !status.is_over()).map(|(_, count)| count).sum()
    }

    /// How many are over.
    #[must_use]
    pub fn over(&self) -> u64 {
        self.iter().filter(|(status, _)| status.is_over()).map(|(_, count)| count).sum()
    }

    /// One more in this state.
    pub fn add(&mut self, status: TaskStatus) {
        self.0[usize::from(status.number())] += 1;
    }

    /// One fewer in this state.
    pub(crate) fn take(&mut self, status: TaskStatus) {
        self.0[usize::from(status.number())] -= 1;
    }
}
