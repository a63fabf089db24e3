//! Every bound of this crate, in one place.

use std::time::Duration;

/// The most bytes that a command or a server may answer.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How much of what a command wrote to stderr is kept: its end.
pub const STDERR_BYTES_KEPT: usize = 4 << 10;
/// How much of somebody else's text goes into an error.
pub const QUOTED_CHARS_MAX: usize = 300;
/// How long a process has between SIGTERM and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(2);
/// How long what a process has written may still arrive after its end.
pub const AFTER_EXIT: Duration = Duration::from_millis(500);
/// How long making a connection may take.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long one call may take at the very most; the question's own deadline is earlier.
pub const CALL_WITHIN: Duration = Duration::from_secs(60 * 60);
/// How often a failed call is repeated.
pub const RETRIES: u32 = 3;
/// How long to wait before the first retry; twice as long before each further one.
pub const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest of these waits.
pub const RETRY_LONGEST: Duration = Duration::from_secs(4);
/// The window of "a minute".
pub const MINUTE: Duration = Duration::from_secs(60);
/// How long an answer may take, unless the question says otherwise.
pub const WITHIN: Duration = Duration::from_secs(60);
/// How many tokens an answer may have, unless the question says otherwise.
pub const ANSWER_TOKENS_MAX: u32 = 2_000;
