//! All limits and timing constants of the kernel. Requests over a limit are refused with the limit in the response.

/// Operations in one commit.
pub const OPS_MAX: usize = 256;
/// Cost of one commit for the writer, in rows and kilobytes read or written.
pub const COMMIT_WORK_MAX: u64 = 65_536;
/// Deliveries created by one commit.
pub const DELIVERIES_PER_COMMIT_MAX: usize = 4096;
/// Default limit of the bytes of one payload or memory entry, which the policy of the space can change.
pub const PAYLOAD_BYTES_DEFAULT: usize = 512 * 1024;
/// Maximum that a policy may set for the bytes of one payload or memory entry.
pub const PAYLOAD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Default limit of the bytes of all payloads of one commit, which the policy of the space can change.
pub const COMMIT_BYTES_DEFAULT: usize = 2 * 1024 * 1024;
/// Maximum that a policy may set for the bytes of all payloads of one commit.
pub const COMMIT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Levels of nesting in a JSON payload.
pub const JSON_DEPTH_MAX: usize = 64;
/// Bytes of an id or label: agent, space, client message id, idempotency key, action, type.
pub const ID_BYTES_MAX: usize = 128;
/// Bytes of a memory key.
pub const KEY_BYTES_MAX: usize = 512;
/// Characters of a rationale or a reason.
pub const REASON_CHARS_MAX: usize = 1000;
/// Bytes of a message's `metadata`.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// Characters of a title.
pub const TITLE_CHARS_MAX: usize = 200;
/// Current and former participants of one session.
pub const SESSION_PARTICIPANTS_MAX: usize = 1000;
/// Open sessions of one space.
pub const SESSIONS_OPEN_MAX: usize = 10_000;
/// Open sessions that one agent coordinates.
pub const SESSIONS_PER_AGENT_MAX: usize = 1_000;
/// Running procedures of one space.
pub const PROCEDURES_OPEN_MAX: usize = 10_000;
/// Running procedures that one agent started.
pub const PROCEDURES_PER_AGENT_MAX: usize = 1_000;
/// Bytes of the payload of a signal.
pub const SIGNAL_BYTES_MAX: usize = 64 * 1024;
/// Requests, tasks and children of a procedure that one operation cancels; the caller repeats it until none is left.
pub const PROCEDURE_CANCEL_MAX: usize = 1_000;
/// Units of work after which an operation cancels no further requests, tasks and children of a procedure.
pub(crate) const PROCEDURE_CANCEL_WORK_MAX: u64 = COMMIT_WORK_MAX / 8;
/// Pending approvals of one space.
pub const APPROVALS_PENDING_MAX: usize = 10_000;
/// Pending approvals that one agent requested.
pub const APPROVALS_PER_AGENT_MAX: usize = 1_000;
/// Bytes of an action to be approved: a person has to read it, and it is included in the follow-up messages.
pub const APPROVAL_BYTES_MAX: usize = 256 * 1024;
/// Follow-up messages of one approval.
pub const APPROVAL_FOLLOW_UPS_MAX: usize = 16;
/// Minimum timeout of an approval.
pub const APPROVAL_MS_MIN: u64 = 1_000;
/// Default timeout of an approval: 72 hours.
pub const APPROVAL_MS_DEFAULT: u64 = 72 * 60 * 60 * 1000;
/// Maximum timeout of an approval: 90 days.
pub const APPROVAL_MS_MAX: u64 = 90 * 24 * 60 * 60 * 1000;
/// Snapshots of one space.
pub const SNAPSHOTS_MAX: usize = 10_000;
/// Snapshots that one agent made.
pub const SNAPSHOTS_PER_AGENT_MAX: usize = 1_000;
/// Entries changed by one rollback.
pub const ROLLBACK_KEYS_MAX: usize = 4096;
/// Entries scanned by the rollbacks of one commit.
pub const ROLLBACK_SCAN_MAX: usize = 100_000;
/// Dependencies of one memory entry; also capabilities and actions of one agent, and capabilities granted by one token.
pub const LIST_MAX: usize = 256;
/// Deliveries per claim.
pub const CLAIM_MAX: u32 = 256;
/// Open deliveries per recipient.
pub const INBOX_MAX: usize = 100_000;
/// Open deliveries of a recipient from which on each sender has a share of the rest.
pub const INBOX_SHARED_FROM: usize = 50_000;
/// Deliveries that one agent may add to those of a recipient while it has more than [`INBOX_SHARED_FROM`].
pub const INBOX_PER_SENDER_MAX: u32 = 5_000;
/// Leased deliveries per recipient.
pub const IN_FLIGHT_MAX: usize = 4096;
/// Agents of one space, including removed ones.
pub const AGENTS_MAX: usize = 100_000;
/// Waiting claims and streaming consumers per agent.
pub const CONSUMERS_PER_AGENT_MAX: usize = 256;
/// Words of a topic or a pattern.
pub const TOPIC_WORDS_MAX: usize = 16;
/// Subscriptions per agent.
pub const SUBSCRIPTIONS_PER_AGENT_MAX: usize = 256;
/// Subscriptions per space.
pub const SUBSCRIPTIONS_MAX: usize = 100_000;
/// Earlier messages that a new subscriber may request by count.
pub const HISTORY_LAST_MAX: u32 = 4096;
/// Records scanned for earlier messages.
pub const HISTORY_RECORDS_MAX: u64 = 1_000_000;
/// Pools per space, that is, capabilities to which messages were ever sent.
pub const POOLS_MAX: usize = 10_000;
/// Pools that one agent opened with its messages.
pub const POOLS_PER_AGENT_MAX: usize = 1_000;
/// Deliveries acked by one operation.
pub const ACKS_MAX: usize = 4096;
/// Default rate limit of broadcasts per agent and minute.
pub const BROADCASTS_PER_MINUTE_DEFAULT: u32 = 60;
/// Maximum that a policy may set for open tasks.
pub const OPEN_TASKS_MAX: usize = 1_000_000;
/// Minimum lease duration.
pub const LEASE_MS_MIN: u64 = 1_000;
/// Default lease duration.
pub const LEASE_MS_DEFAULT: u64 = 30_000;
/// Maximum lease duration: 12 hours.
pub const LEASE_MS_MAX: u64 = 12 * 60 * 60 * 1000;
/// Maximum redelivery delay of a nack: 24 hours.
pub const NACK_DELAY_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Default number of delivery attempts: the first and three retries.
pub const ATTEMPTS_DEFAULT: u16 = 4;
/// Maximum number of delivery attempts.
pub const ATTEMPTS_MAX: u16 = 100;
/// Deliveries ended or returned by one sweep record; the rest follows in the next record.
pub const SWEEP_MAX: usize = 1000;
/// Deliveries ended by one purge; the caller repeats it until none is left.
pub const PURGE_MAX: usize = 4096;
/// Starvation protection: after this many deliveries of higher priority, one of lower priority is delivered.
pub const STARVATION_COUNT: u32 = 64;
/// Starvation protection: after waiting this long, a delivery of lower priority is delivered.
pub const STARVATION_MS: u64 = 60_000;
/// Minimum retention of idempotency keys: 24 hours.
pub const KEY_WINDOW_MS: u64 = 24 * 60 * 60 * 1000;
/// Maximum version or token: the largest integer that JSON parsers represent exactly.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;
/// Locks per operation.
pub const LOCK_NAMES_MAX: usize = 16;
/// Concurrent holders of one lock.
pub const LOCK_CAPACITY_MAX: u32 = 256;
/// Waiters for one lock.
pub const LOCK_QUEUE_MAX: usize = 10_000;
/// Concurrent lock waits per agent.
pub const LOCK_WAITS_PER_AGENT_MAX: usize = 1_000;
/// Locks held per agent.
pub const LOCKS_PER_AGENT_MAX: usize = 10_000;
/// Interval of deadlock detection while agents wait.
pub const DEADLOCK_CHECK_MS: u64 = 500;
/// Default limit of open tasks per space: blocked, ready, scheduled, leased or awaiting approval.
pub const OPEN_TASKS_DEFAULT: usize = 100_000;
/// Open tasks that one agent created.
pub const OPEN_TASKS_PER_AGENT_MAX: usize = 10_000;
/// Tasks created by one operation.
pub const TASKS_PER_OP_MAX: usize = 10_000;
/// Dependencies of all tasks of one operation.
pub const TASK_EDGES_MAX: usize = 100_000;
/// Concurrent task waits per agent.
pub const TASK_WAITS_PER_AGENT_MAX: usize = 1_000;
/// Bytes of all ids and labels of one operation that creates tasks: ids, types, dependencies, sessions.
pub const TASK_TEXT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Minimum timeout of a task attempt.
pub const TASK_TIMEOUT_MS_MIN: u64 = 1_000;
/// Maximum timeout of a task attempt: 7 days.
pub const TASK_TIMEOUT_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1000;
/// Default backoff after the first failed attempt of a task; then 2, 4, 8, 16 times as long.
pub const BACKOFF_MS_DEFAULT: u64 = 1_000;
/// Maximum backoff after the first failed attempt of a task: 1 hour.
pub const BACKOFF_MS_MAX: u64 = 60 * 60 * 1000;
/// Partial results retained per task; older ones are in the log only.
pub const PARTIALS_MAX: usize = 8;
/// Bytes of a task input that is held in memory until the task ends; larger inputs are read from the log when claimed.
pub const INPUT_IN_MEMORY_BYTES_MAX: usize = 1024;
/// Bytes of failure details that the entry `failures/TASK` contains; larger ones are in the task only.
pub const FAILURE_DETAILS_BYTES_MAX: usize = 64 * 1024;
/// Default hop limit of a message chain.
pub const HOPS_DEFAULT: u16 = 100;
/// Maximum hop limit that the first message of a chain may set.
pub const HOPS_MAX: u16 = 10_000;
/// Occurrences of the same message in one chain.
pub const CHAIN_REPEATS_MAX: u32 = 2;
/// Budgets of one space. They are retained permanently.
pub const BUDGETS_MAX: usize = 1_000_000;
/// Budgets that one agent created.
pub const BUDGETS_PER_AGENT_MAX: usize = 100_000;
/// Number of recent messages considered by loop detection.
pub const CHAIN_WINDOW: usize = 16_384;
/// Minimum heartbeat interval.
pub const HEARTBEAT_MS_MIN: u64 = 100;
/// Maximum heartbeat interval: 12 hours.
pub const HEARTBEAT_MS_MAX: u64 = 12 * 60 * 60 * 1000;
/// Missed heartbeats after which an agent is offline.
pub const HEARTBEATS_MISSED_MAX: u64 = 3;
/// Minimum interval between checks for missed heartbeats.
pub const PRESENCE_CHECK_MS: u64 = 250;
/// Default timeout of a command.
pub const REQUEST_COMMAND_MS_DEFAULT: u64 = 30_000;
/// Default timeout of a query.
pub const REQUEST_QUERY_MS_DEFAULT: u64 = 5_000;
/// Default timeout of a request to several recipients.
pub const REQUEST_MULTI_MS_DEFAULT: u64 = 1_000;
/// Maximum timeout of a request: 24 hours.
pub const REQUEST_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Recipients of one request.
pub const REQUEST_RECIPIENTS_MAX: usize = 256;
/// Agents and pools to which the recipients of one request delegated the answer, and open deliveries of such messages.
pub const REQUEST_DELEGATES_MAX: usize = 32;
/// Concurrent calls waiting for the replies to one request: the first, and its idempotent replays.
pub const REQUEST_LISTENERS_MAX: usize = 16;
/// Open requests per agent.
pub const REQUESTS_OPEN_MAX: usize = 10_000;
/// Retries of one request.
pub const REQUEST_RETRIES_MAX: u32 = 10;
/// Records scanned by one as-of read.
pub const AS_OF_RECORDS_MAX: u64 = 1_000_000;
/// Bytes of a conduct flag.
pub const FLAG_BYTES_MAX: usize = 64 * 1024;
/// Access tokens per space.
pub const TOKENS_MAX: usize = 10_000;
/// Web sessions of one access token; a new one ends the oldest.
pub const WEB_SESSIONS_PER_TOKEN_MAX: usize = 32;
/// Characters of an access token's name.
pub const TOKEN_NAME_CHARS_MAX: usize = 128;
/// Names that the text of one refusal lists.
pub(crate) const REFUSAL_NAMES_MAX: usize = 16;
/// Requests and tasks of one procedure that are searched for absent agents.
pub(crate) const PROCEDURE_WAITS_MAX: usize = 64;
/// Tasks, messages and locks of one absent agent up to which the first end of a lease is determined.
pub(crate) const HELD_SCANNED_MAX: usize = 256;
/// Agents, deliveries or messages returned by one inspection.
pub const INSPECT_MAX: usize = 1_000;
/// Size limit of a page of results: it ends with the item that reaches 4 MB; the cursor continues after it.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
