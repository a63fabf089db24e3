//! Every limit of the kernel, in one place. Going over one is refused with a code that names it.

/// Operations in one commit.
pub const OPS_MAX: usize = 256;
/// Units of work that one commit may cost the writer: rows and kilobytes, read or written.
pub const COMMIT_WORK_MAX: u64 = 65_536;
/// Deliveries that one commit may make.
pub const DELIVERIES_PER_COMMIT_MAX: usize = 4096;
/// Bytes of one payload or one memory content.
pub const PAYLOAD_BYTES_MAX: usize = 512 * 1024;
/// Bytes of all payloads of one commit together.
pub const COMMIT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Levels of nesting in a JSON payload.
pub const JSON_DEPTH_MAX: usize = 64;
/// Bytes of an id: of an agent, a space, a client's message, an idempotency key, an action, a type.
pub const ID_BYTES_MAX: usize = 128;
/// Bytes of a memory key.
pub const KEY_BYTES_MAX: usize = 512;
/// Characters of a rationale or a reason.
pub const REASON_CHARS_MAX: usize = 1000;
/// Bytes of a message's `metadata`.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// Characters of a title.
pub const TITLE_CHARS_MAX: usize = 200;
/// Agents that take part in one session or did.
pub const SESSION_PARTICIPANTS_MAX: usize = 1000;
/// Sessions of one space that are not over.
pub const SESSIONS_OPEN_MAX: usize = 10_000;
/// Procedures of one space that are running.
pub const PROCEDURES_OPEN_MAX: usize = 10_000;
/// Approvals of one space that nobody has decided.
pub const APPROVALS_PENDING_MAX: usize = 10_000;
/// Bytes of an action to be approved: a person has to read it, and it is sent on with the decision.
pub const APPROVAL_BYTES_MAX: usize = 256 * 1024;
/// Messages that follow an approval.
pub const APPROVAL_THEN_MAX: usize = 16;
/// The shortest time for a person to decide.
pub const APPROVAL_MS_MIN: u64 = 1_000;
/// How long a person has to decide when nobody says otherwise: 72 hours.
pub const APPROVAL_MS_DEFAULT: u64 = 72 * 60 * 60 * 1000;
/// The longest time for a person to decide: 90 days.
pub const APPROVAL_MS_MAX: u64 = 90 * 24 * 60 * 60 * 1000;
/// Entries that one rollback changes.
pub const ROLLBACK_KEYS_MAX: usize = 4096;
/// Entries that the rollbacks of one commit look through.
pub const ROLLBACK_SCAN_MAX: usize = 100_000;
/// Entries that one memory entry may depend on; also capabilities and actions of one agent.
pub const LIST_MAX: usize = 256;
/// Deliveries that one claim may take.
pub const CLAIM_MAX: u32 = 256;
/// Open deliveries of one recipient.
pub const INBOX_MAX: usize = 100_000;
/// Leased deliveries of one recipient.
pub const IN_FLIGHT_MAX: usize = 4096;
/// Agents of one space, removed ones included.
pub const AGENTS_MAX: usize = 100_000;
/// Waiting claims and standing consumers of one agent.
pub const CONSUMERS_PER_AGENT_MAX: usize = 256;
/// Words of a topic or a pattern.
pub const TOPIC_WORDS_MAX: usize = 16;
/// Subscriptions of one agent.
pub const SUBSCRIPTIONS_PER_AGENT_MAX: usize = 256;
/// Subscriptions of one space.
pub const SUBSCRIPTIONS_MAX: usize = 100_000;
/// Earlier messages that a new subscriber may ask for by number.
pub const HISTORY_LAST_MAX: u32 = 4096;
/// Records that are looked through for earlier messages.
pub const HISTORY_RECORDS_MAX: u64 = 1_000_000;
/// Pools of one space: capabilities to which messages were ever sent.
pub const POOLS_MAX: usize = 10_000;
/// Deliveries that one operation may ack.
pub const ACKS_MAX: usize = 4096;
/// Messages to everybody that an agent may send in a minute when nobody says otherwise.
pub const BROADCASTS_PER_MINUTE_DEFAULT: u32 = 60;
/// Open tasks that a policy may allow.
pub const OPEN_TASKS_MAX: usize = 1_000_000;
/// The shortest lease.
pub const LEASE_MS_MIN: u64 = 1_000;
/// The lease when nobody says otherwise.
pub const LEASE_MS_DEFAULT: u64 = 30_000;
/// The longest lease: half a day.
pub const LEASE_MS_MAX: u64 = 12 * 60 * 60 * 1000;
/// The longest delay that a nack may ask for: a day.
pub const NACK_DELAY_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Tries of a delivery when nobody says otherwise: the first and three retries.
pub const ATTEMPTS_DEFAULT: u16 = 4;
/// The most tries of a delivery.
pub const ATTEMPTS_MAX: u16 = 100;
/// Deliveries that one sweep record ends or returns; the rest follows in the next record.
pub const SWEEP_MAX: usize = 1000;
/// Deliveries that one purge ends; the caller repeats it until none is left.
pub const PURGE_MAX: usize = 4096;
/// After so many deliveries of higher priority one lower goes out.
pub const STARVATION_COUNT: u32 = 64;
/// After so long a wait one lower goes out.
pub const STARVATION_MS: u64 = 60_000;
/// How long an idempotency key is remembered at least: a day.
pub const KEY_WINDOW_MS: u64 = 24 * 60 * 60 * 1000;
/// The largest version or token: the largest integer that every JSON reader keeps exact.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;
/// Locks that one operation may name.
pub const LOCK_NAMES_MAX: usize = 16;
/// How many may hold one lock at the same time.
pub const LOCK_CAPACITY_MAX: u32 = 256;
/// How many may wait for one lock.
pub const LOCK_QUEUE_MAX: usize = 10_000;
/// Waits for locks of one agent.
pub const LOCK_WAITS_PER_AGENT_MAX: usize = 1_000;
/// Locks that one agent may hold.
pub const LOCKS_PER_AGENT_MAX: usize = 10_000;
/// How often the hub looks who waits for whom, while anybody does.
pub const WAITS_LOOK_MS: u64 = 500;
/// Open tasks of one space: blocked, ready, scheduled, leased or awaiting approval.
pub const TASKS_OPEN_MAX: usize = 10_000;
/// Tasks that one operation makes: a whole graph.
pub const TASKS_PER_OP_MAX: usize = 10_000;
/// Dependencies of all tasks of one operation together.
pub const TASK_EDGES_MAX: usize = 100_000;
/// Tasks that one agent may wait for at the same time.
pub const TASK_WAITS_PER_AGENT_MAX: usize = 1_000;
/// Bytes of all words of one operation that makes tasks: ids, types, dependencies, sessions.
pub const TASK_WORDS_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The shortest time for one try of a task.
pub const TASK_TIMEOUT_MS_MIN: u64 = 1_000;
/// The longest time for one try of a task: a week.
pub const TASK_TIMEOUT_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1000;
/// The wait after the first failed try of a task when nobody says otherwise; then 2, 4, 8, 16 times as long.
pub const BACKOFF_MS_DEFAULT: u64 = 1_000;
/// The longest wait after the first failed try of a task: an hour.
pub const BACKOFF_MS_MAX: u64 = 60 * 60 * 1000;
/// Partial results that a task remembers; older ones are in the log only.
pub const PARTIALS_KEPT: usize = 8;
/// Bytes of an input that is kept in memory until its task is over; a longer one is read from the log when it is taken.
pub const INPUT_AT_HAND_BYTES: usize = 1024;
/// Messages that may have led to one message.
pub const HOPS_MAX: u16 = 32;
/// How often the same message may be sent in one chain.
pub const SAME_MAX: u32 = 2;
/// Messages over which it is noticed that a chain goes round in a circle.
pub const CHAIN_WINDOW: usize = 16_384;
/// The shortest time between two heartbeats.
pub const HEARTBEAT_MS_MIN: u64 = 100;
/// The longest time between two heartbeats: half a day.
pub const HEARTBEAT_MS_MAX: u64 = 12 * 60 * 60 * 1000;
/// So many heartbeats missed, and an agent is offline.
pub const HEARTBEATS_MISSED: u64 = 3;
/// The hub looks for missed heartbeats no more often than this.
pub const PRESENCE_LOOK_MS: u64 = 250;
/// How long a command waits for its answer when nobody says otherwise.
pub const REQUEST_COMMAND_MS: u64 = 30_000;
/// How long a query waits for its answer when nobody says otherwise.
pub const REQUEST_QUERY_MS: u64 = 5_000;
/// How long a question to several waits for their answers when nobody says otherwise.
pub const REQUEST_SEVERAL_MS: u64 = 1_000;
/// The longest wait for an answer: a day.
pub const REQUEST_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Agents that one request may ask.
pub const REQUEST_ASKED_MAX: usize = 256;
/// Calls that wait for the answers to one request at the same time: the first, and those that say it again.
pub const REQUEST_LISTENERS_MAX: usize = 16;
/// Requests of one agent that wait at the same time.
pub const REQUESTS_OPEN_MAX: usize = 10_000;
/// Records that are looked through for one look at the past.
pub const PAST_RECORDS_MAX: u64 = 1_000_000;
/// Bytes of a conduct flag: a place, and the words that show it.
pub const FLAG_BYTES_MAX: usize = 64 * 1024;
/// Tokens of one space.
pub const TOKENS_MAX: usize = 10_000;
/// Characters of the name of a token.
pub const TOKEN_NAME_CHARS_MAX: usize = 128;
/// Agents, deliveries or messages that one look at the registry shows.
pub const VIEW_MAX: usize = 1_000;
/// A page of a list ends with the item that brings it to so many bytes: 4 MB. What is left comes with the cursor.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
