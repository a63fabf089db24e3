//! All limits of this crate.

use std::time::Duration;

/// Maximum size of a playbook.
pub const PLAYBOOK_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of the input that agents read, and of a prompt.
pub const INPUT_BYTES_MAX: u64 = 256 * 1024;
/// Maximum size of a program whose content is a part of its declaration.
pub const PROGRAM_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of an answer of a command or a server.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Number of bytes of a command's stderr that are retained; the end is kept.
pub const STDERR_TAIL_BYTES: usize = 4 << 10;
/// Maximum length of foreign text quoted in an error.
pub const QUOTED_CHARS_MAX: usize = 300;
/// Grace period of a process between SIGTERM and SIGKILL. Cancelled work ends within 1 s.
pub const TERMINATE_GRACE: Duration = Duration::from_millis(500);
/// Time to drain the output of a process after its exit.
pub const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout for establishing a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Upper bound of the duration of one call; the deadline of the question is usually earlier.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Maximum number of retries of a failed call.
pub const RETRIES_MAX: u32 = 3;
/// Delay before the first retry; doubled for each further one.
pub const RETRY_DELAY_FIRST: Duration = Duration::from_secs(1);
/// Maximum delay between retries.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(4);
/// Window of the limits per minute.
pub const RATE_WINDOW: Duration = Duration::from_secs(60);
/// Default time for an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Default maximum number of tokens of an answer.
pub const ANSWER_TOKENS_MAX: u32 = 2_000;
