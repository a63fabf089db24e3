//! The table of limits in the security guide. It is generated here; `cargo xtask openapi` writes it.

mod source;

use std::time::Duration;

use quorate_agents::limits as agent_limits;
use quorate_core::limits;
use quorate_engine::{
    EPHEMERAL_BYTES_MAX, EPHEMERAL_BYTES_PER_SENDER_MAX, EPHEMERAL_MESSAGES_MAX,
    EPHEMERAL_MESSAGES_PER_SENDER_MAX,
};

use super::{Durations, HEADER_BYTES_MAX, Limits, Timeouts};
use crate::body::{BODY_BYTES_DEFAULT, BODY_BYTES_MAX, DEPTH_MAX};
use crate::large_requests::{LARGE_REQUESTS_PER_PRINCIPAL_MAX, LARGE_REQUESTS_PER_SPACE_MAX};
use crate::sign_in_codes::{CODES_PER_PRINCIPAL_MAX, CODES_PER_SPACE_MAX};
use crate::unauthenticated::UNAUTHENTICATED_BYTES_MAX;
use crate::webhook_config::{WEBHOOK_SECRET_BYTES_MAX, WEBHOOK_SECRET_BYTES_MIN, WEBHOOKS_MAX};

/// A row of the table.
struct Row {
    label: String,
    value: u128,
    unit: &'static str,
    when_exceeded: &'static str,
}

fn row(label: &str, value: u128, unit: &'static str, when_exceeded: &'static str) -> Row {
    Row { label: label.to_owned(), value, unit, when_exceeded }
}

fn count(count: usize) -> u128 {
    count as u128
}

/// Connections and sizes, with their command-line options.
fn connection_rows() -> Vec<Row> {
    let limits = Limits::default();
    let dropped = "503 `OVERLOADED`; under TLS the connection is dropped";
    let too_large = "413 `TOO_LARGE`; a WebSocket is closed with 1009";
    let unauthenticated = "concurrent connections per address without an authenticated request (`--unauthenticated-connections`)";
    let waits = "the next one waits; a request gets 503 `OVERLOADED` after 30 s";
    let first = "size of a sign-in or a `hello` frame, whose sender is not authenticated yet";
    vec![
        row("concurrent connections (`--connections`)", count(limits.connections), "", dropped),
        row(unauthenticated, count(limits.unauthenticated_connections), "", dropped),
        row("size of request headers", count(HEADER_BYTES_MAX), "bytes", "431"),
        row(
            "size of a request or a WebSocket frame, by default",
            count(BODY_BYTES_DEFAULT),
            "bytes",
            too_large,
        ),
        row(
            "size of a request or a WebSocket frame, by the policy of the space",
            count(BODY_BYTES_MAX),
            "bytes",
            too_large,
        ),
        row(
            "concurrent requests and frames of a space above the default size",
            count(LARGE_REQUESTS_PER_SPACE_MAX),
            "",
            waits,
        ),
        row(
            "concurrent requests and frames of a principal above the default size",
            count(LARGE_REQUESTS_PER_PRINCIPAL_MAX),
            "",
            waits,
        ),
        row(first, count(UNAUTHENTICATED_BYTES_MAX), "bytes", too_large),
        row("pending requests per WebSocket", count(crate::ws::REQUESTS_MAX), "", "`LIMIT_EXCEEDED`"),
    ]
}

/// Rates of calls, and bulk reads.
fn rate_rows() -> Vec<Row> {
    let limits = Limits::default();
    let (agents, others, failures) = (limits.agents, limits.other_principals, limits.failures);
    let mut rows: Vec<_> = [
        ("call rate per agent (`--agent-rate`)", agents.per_second, "calls/s"),
        ("call burst per agent (`--agent-burst`)", agents.burst, "calls"),
        ("call rate per principal that is not an agent (`--user-rate`)", others.per_second, "calls/s"),
        ("call burst per principal that is not an agent (`--user-burst`)", others.burst, "calls"),
        (
            "rate of authentication failures per address (`--auth-failure-rate`)",
            failures.per_second,
            "failures/s",
        ),
        ("burst of authentication failures per address (`--auth-failure-burst`)", failures.burst, "failures"),
        (
            "open bulk reads per principal: lists, exports, event streams (`--bulk-reads`)",
            limits.bulk_reads as u32,
            "",
        ),
    ]
    .map(|(label, value, unit)| row(label, value.into(), unit, "429 `LIMIT_EXCEEDED` with `Retry-After`"))
    .into();
    let evicted = "idle ones (refilled completely) are evicted";
    rows.push(row("rate limit buckets in memory", count(crate::rate_limit::BUCKETS_MAX), "", evicted));
    rows
}

/// Sign-in codes and webhooks.
fn sign_in_and_webhook_rows() -> Vec<Row> {
    let does_not_start = "the hub does not start";
    let (uploads, slow) = (crate::uploads::UPLOADS_MAX, crate::uploads::SLOW_UPLOAD_MS);
    let evicted = "503 `OVERLOADED` for one of the webhook or address with the most, or one that is slow";
    vec![
        row("sign-in codes per person", count(CODES_PER_PRINCIPAL_MAX), "", "the oldest is dropped"),
        row("sign-in codes per space", count(CODES_PER_SPACE_MAX), "", "`LIMIT_EXCEEDED`"),
        row("webhook events whose signature is not checked yet", count(uploads), "", evicted),
        row("time after which such an event is slow", slow.into(), "ms", "it makes room for others"),
        row("webhooks per hub", count(WEBHOOKS_MAX), "", does_not_start),
        row("minimum size of a webhook secret", count(WEBHOOK_SECRET_BYTES_MIN), "bytes", does_not_start),
        row("maximum size of a webhook secret", count(WEBHOOK_SECRET_BYTES_MAX), "bytes", does_not_start),
    ]
}

/// Timeouts and intervals of the network server.
fn time_rows() -> Vec<Row> {
    let (timeouts, durations) = (Timeouts::default(), Durations::default());
    let closed = "the connection is closed";
    [
        ("TLS handshake timeout (`--handshake-timeout-ms`)", timeouts.handshake, closed),
        ("header timeout and keep-alive timeout (`--headers-timeout-ms`)", timeouts.headers, closed),
        ("body timeout (`--body-timeout-ms`)", timeouts.body, "408 `TIMEOUT`"),
        (
            "timeout of the first WebSocket frame, `hello` (`--hello-timeout-ms`)",
            timeouts.hello,
            "4408 `TIMEOUT`",
        ),
        (
            "write timeout: a client that does not read (`--write-timeout-ms`)",
            timeouts.write,
            "the connection is closed; leased deliveries are redelivered",
        ),
        (
            "ping interval of an idle WebSocket (`--ping-ms`)",
            timeouts.ping,
            "after three without a response it is closed",
        ),
        ("maximum `waitMs` of a call (`--long-poll-max-ms`)", durations.wait_max, "`LIMIT_EXCEEDED`"),
        (
            "drain time of requests in progress at shutdown (`--drain-ms`)",
            timeouts.drain,
            "calls that only wait get 503 `UNAVAILABLE` after half of it",
        ),
        ("token check interval of open connections (`--token-check-ms`)", durations.token_check, ""),
        ("certificate check interval (`--cert-check-ms`)", durations.certificate_check, ""),
        ("lifetime of a sign-in code (`--sign-in-code-ms`)", durations.sign_in_code, "401 `UNAUTHENTICATED`"),
        ("lifetime of a web session (`--web-session-ms`)", durations.web_session, "401 `UNAUTHENTICATED`"),
    ]
    .map(|(label, time, when_exceeded)| row(label, time.as_millis(), "ms", when_exceeded))
    .into()
}

/// Buffers of ephemeral messages.
fn ephemeral_rows() -> Vec<Row> {
    let messages = "ephemeral messages buffered for one recipient";
    let bytes = "size of the ephemeral messages buffered for one recipient";
    let own_messages = "ephemeral messages of one agent that are buffered for one recipient";
    let own_bytes = "size of the ephemeral messages of one agent that are buffered for one recipient";
    vec![
        row(messages, count(EPHEMERAL_MESSAGES_MAX), "", "`QUEUE_FULL`"),
        row(bytes, count(EPHEMERAL_BYTES_MAX), "bytes", "`QUEUE_FULL`"),
        row(own_messages, count(EPHEMERAL_MESSAGES_PER_SENDER_MAX), "", "`QUEUE_FULL`"),
        row(own_bytes, count(EPHEMERAL_BYTES_PER_SENDER_MAX), "bytes", "`QUEUE_FULL`"),
    ]
}

/// Declared agents of `quorate run` and `quorate deliberate`.
fn declared_agent_rows() -> Vec<Row> {
    let failed = "the call fails";
    let killed = "the process group is killed";
    let sizes = [
        ("answer of a declared agent", agent_limits::ANSWER_BYTES_MAX, "bytes", failed),
        (
            "retained end of a command's stderr",
            agent_limits::STDERR_TAIL_BYTES,
            "bytes",
            "the start is dropped",
        ),
        (
            "text of a program or server in an error",
            agent_limits::QUOTED_CHARS_MAX,
            "characters",
            "it is cut",
        ),
        ("retries of a failed call of an agent", agent_limits::RETRIES_MAX as usize, "", failed),
        ("default tokens of a model's answer", agent_limits::ANSWER_TOKENS_MAX as usize, "", failed),
    ];
    let times: [(&str, Duration, &'static str); 6] = [
        ("default time for the answer of a declared agent", agent_limits::ANSWER_TIMEOUT, failed),
        ("maximum time for one call of a declared agent", agent_limits::CALL_TIMEOUT, failed),
        (
            "time to connect to an agent's server or model",
            agent_limits::CONNECT_TIMEOUT,
            "the call is retried",
        ),
        ("maximum delay between retries of a call", agent_limits::RETRY_DELAY_MAX, ""),
        ("time of a command to exit after SIGTERM", agent_limits::TERMINATE_GRACE, killed),
        (
            "time to read the output of a command after its exit",
            agent_limits::DRAIN_TIMEOUT,
            "the rest is dropped",
        ),
    ];
    let sizes = sizes.map(|(label, value, unit, exceeded)| row(label, count(value), unit, exceeded));
    let times = times.map(|(label, time, exceeded)| row(label, time.as_millis(), "ms", exceeded));
    sizes.into_iter().chain(times).collect()
}

/// Lists constants of `quorate_core::limits` with what happens when they are exceeded.
macro_rules! constants {
    ($($name:ident => $when_exceeded:literal,)*) => {
        &[$((stringify!($name), limits::$name as u128, $when_exceeded)),*]
    };
}

/// The limits of the kernel, in the order of `limits.rs`: of one call, one agent, or one space.
const KERNEL_LIMITS: &[(&str, u128, &str)] = constants! {
    OPS_MAX => "`LIMIT_EXCEEDED`",
    COMMIT_WORK_MAX => "[`LIMIT_EXCEEDED`](../errors/LIMIT_EXCEEDED.md)",
    DELIVERIES_PER_COMMIT_MAX => "`LIMIT_EXCEEDED`",
    PAYLOAD_BYTES_DEFAULT => "`TOO_LARGE`",
    PAYLOAD_BYTES_MAX => "`INVALID`",
    COMMIT_BYTES_DEFAULT => "`TOO_LARGE`",
    COMMIT_BYTES_MAX => "`INVALID`",
    JSON_DEPTH_MAX => "`LIMIT_EXCEEDED`",
    ID_BYTES_MAX => "`INVALID`",
    KEY_BYTES_MAX => "`INVALID`",
    REASON_CHARS_MAX => "`TOO_LARGE`",
    METADATA_BYTES_MAX => "`TOO_LARGE`",
    TITLE_CHARS_MAX => "`INVALID`",
    SESSION_PARTICIPANTS_MAX => "`LIMIT_EXCEEDED`",
    SESSIONS_OPEN_MAX => "`LIMIT_EXCEEDED`",
    SESSIONS_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    PROCEDURES_OPEN_MAX => "`LIMIT_EXCEEDED`",
    PROCEDURES_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    SIGNAL_BYTES_MAX => "`TOO_LARGE`",
    PROCEDURE_CANCEL_MAX => "repeat the cancellation",
    APPROVALS_PENDING_MAX => "`LIMIT_EXCEEDED`",
    APPROVALS_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    APPROVAL_BYTES_MAX => "`TOO_LARGE`",
    APPROVAL_FOLLOW_UPS_MAX => "`LIMIT_EXCEEDED`",
    APPROVAL_MS_MIN => "`LIMIT_EXCEEDED`",
    APPROVAL_MS_MAX => "`LIMIT_EXCEEDED`",
    SNAPSHOTS_MAX => "`LIMIT_EXCEEDED`",
    SNAPSHOTS_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    ROLLBACK_KEYS_MAX => "`LIMIT_EXCEEDED`",
    ROLLBACK_SCAN_MAX => "`LIMIT_EXCEEDED`",
    LIST_MAX => "`LIMIT_EXCEEDED`",
    CLAIM_MAX => "`LIMIT_EXCEEDED`",
    INBOX_MAX => "`QUEUE_FULL`",
    INBOX_SHARED_FROM => "each sender has a share",
    INBOX_PER_SENDER_MAX => "`QUEUE_FULL`",
    IN_FLIGHT_MAX => "nothing more is delivered",
    AGENTS_MAX => "`LIMIT_EXCEEDED`",
    CONSUMERS_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    TOPIC_WORDS_MAX => "`INVALID`",
    SUBSCRIPTIONS_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    SUBSCRIPTIONS_MAX => "`LIMIT_EXCEEDED`",
    HISTORY_LAST_MAX => "`LIMIT_EXCEEDED`",
    HISTORY_RECORDS_MAX => "`LIMIT_EXCEEDED`",
    POOLS_MAX => "`LIMIT_EXCEEDED`",
    POOLS_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    ACKS_MAX => "`LIMIT_EXCEEDED`",
    BROADCASTS_PER_MINUTE_DEFAULT => "`LIMIT_EXCEEDED`",
    OPEN_TASKS_MAX => "`INVALID`",
    LEASE_MS_MIN => "`LIMIT_EXCEEDED`",
    LEASE_MS_MAX => "`LIMIT_EXCEEDED`",
    NACK_DELAY_MS_MAX => "`LIMIT_EXCEEDED`",
    ATTEMPTS_DEFAULT => "the delivery becomes a dead letter",
    ATTEMPTS_MAX => "`INVALID`",
    PURGE_MAX => "repeat the purge",
    KEY_WINDOW_MS => "the key may be forgotten",
    NUMBER_MAX => "`INVALID`",
    LOCK_NAMES_MAX => "`LIMIT_EXCEEDED`",
    LOCK_CAPACITY_MAX => "`LIMIT_EXCEEDED`",
    LOCK_QUEUE_MAX => "`QUEUE_FULL`",
    LOCK_WAITS_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    LOCKS_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    OPEN_TASKS_DEFAULT => "`QUEUE_FULL`",
    OPEN_TASKS_PER_AGENT_MAX => "`QUEUE_FULL`",
    TASKS_PER_OP_MAX => "`LIMIT_EXCEEDED`",
    TASK_EDGES_MAX => "`LIMIT_EXCEEDED`",
    TASK_WAITS_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    TASK_TEXT_BYTES_MAX => "`TOO_LARGE`",
    TASK_TIMEOUT_MS_MIN => "`LIMIT_EXCEEDED`",
    TASK_TIMEOUT_MS_MAX => "`LIMIT_EXCEEDED`",
    BACKOFF_MS_MAX => "`LIMIT_EXCEEDED`",
    PARTIALS_MAX => "older ones are in the log only",
    FAILURE_DETAILS_BYTES_MAX => "larger ones are in the task only",
    HOPS_DEFAULT => "`LOOP_REFUSED`",
    HOPS_MAX => "`INVALID`",
    CHAIN_REPEATS_MAX => "`LOOP_REFUSED`",
    BUDGETS_MAX => "`LIMIT_EXCEEDED`",
    BUDGETS_PER_AGENT_MAX => "`LIMIT_EXCEEDED`",
    HEARTBEAT_MS_MIN => "`INVALID`",
    HEARTBEAT_MS_MAX => "`INVALID`",
    HEARTBEATS_MISSED_MAX => "the agent is offline",
    REQUEST_DELEGATES_MAX => "further agents cannot answer",
    REQUEST_RETRIES_MAX => "`INVALID`",
    REQUEST_MS_MAX => "`INVALID`",
    REQUEST_RECIPIENTS_MAX => "`LIMIT_EXCEEDED`",
    REQUEST_LISTENERS_MAX => "`CONFLICT`",
    REQUESTS_OPEN_MAX => "`LIMIT_EXCEEDED`",
    AS_OF_RECORDS_MAX => "`LIMIT_EXCEEDED`",
    FLAG_BYTES_MAX => "`TOO_LARGE`",
    TOKENS_MAX => "`LIMIT_EXCEEDED`",
    WEB_SESSIONS_PER_TOKEN_MAX => "the oldest is signed out",
    TOKEN_NAME_CHARS_MAX => "`INVALID`",
    PAGE_BYTES_MAX => "the cursor continues",
};

/// Constants that are no limits: defaults, intervals, and sizes of internal steps.
const NO_LIMITS: [&str; 14] = [
    "APPROVAL_MS_DEFAULT",
    "LEASE_MS_DEFAULT",
    "SWEEP_MAX",
    "STARVATION_COUNT",
    "STARVATION_MS",
    "DEADLOCK_CHECK_MS",
    "BACKOFF_MS_DEFAULT",
    "INPUT_IN_MEMORY_BYTES_MAX",
    "CHAIN_WINDOW",
    "PRESENCE_CHECK_MS",
    "REQUEST_COMMAND_MS_DEFAULT",
    "REQUEST_QUERY_MS_DEFAULT",
    "REQUEST_MULTI_MS_DEFAULT",
    "INSPECT_MAX",
];

/// Returns the documentation of each constant of `limits.rs`, in order.
fn documented_constants() -> Vec<(&'static str, String)> {
    let (mut constants, mut doc) = (Vec::new(), String::new());
    for line in include_str!("../../../quorate-core/src/limits.rs").lines() {
        if let Some(text) = line.strip_prefix("/// ") {
            doc = format!("{doc} {text}");
        } else if let Some(rest) = line.strip_prefix("pub const ") {
            let name = rest.split(':').next().expect("a name");
            constants.push((name, std::mem::take(&mut doc)));
        } else {
            doc.clear();
        }
    }
    constants
}

/// Returns the documentation as a label: the first letter in lower case, without the full stop and links.
fn label_of(doc: &str) -> String {
    let text = doc.trim().trim_end_matches('.').replace("[`INBOX_SHARED_FROM`]", "that many");
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn unit_of(name: &str) -> &'static str {
    let words: Vec<_> = name.split('_').collect();
    [("BYTES", "bytes"), ("MS", "ms"), ("CHARS", "characters")]
        .into_iter()
        .find_map(|(word, unit)| words.contains(&word).then_some(unit))
        .unwrap_or_default()
}

fn kernel_rows() -> Vec<Row> {
    let documented = documented_constants();
    let row = |(name, value, when_exceeded): (&str, u128, &'static str)| {
        let (_, doc) = documented.iter().find(|(documented, _)| *documented == name).expect("a constant");
        Row { label: label_of(doc), value, unit: unit_of(name), when_exceeded }
    };
    KERNEL_LIMITS.iter().copied().map(row).collect()
}

/// Formats a number with a comma before each group of three digits.
fn grouped(value: u128) -> String {
    let digits = value.to_string();
    let groups: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}

fn table() -> String {
    let mut table = "| limit | value | unit | when exceeded |\n|---|---|---|---|\n".to_owned();
    let rows = [
        connection_rows(),
        rate_rows(),
        sign_in_and_webhook_rows(),
        kernel_rows(),
        ephemeral_rows(),
        time_rows(),
        declared_agent_rows(),
        source::source_rows(),
    ];
    for Row { label, value, unit, when_exceeded } in rows.into_iter().flatten() {
        let cells = [label, grouped(value), unit.to_owned(), when_exceeded.to_owned()];
        table += &format!("| {} |\n", cells.join(" | "));
    }
    table.replace(" |  |", " | |")
}

// Fails under: a changed or new limit without its row.
#[test]
fn i21_the_guide_lists_every_limit() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/security.md");
    let guide = std::fs::read_to_string(path).expect("the guide");
    let (before, rest) = guide.split_once("<!-- limits -->\n").expect("the start of the table");
    let (_, after) = rest.split_once("<!-- end of limits -->\n").expect("the end of the table");
    let expected = format!("{before}<!-- limits -->\n\n{}\n<!-- end of limits -->\n{after}", table());
    if std::env::var_os("QUORATE_WRITE_LIMITS").is_some() {
        return std::fs::write(path, expected).expect("written");
    }
    assert!(guide == expected, "run `cargo xtask openapi` to update the table of limits in {path}");
}

// Fails under: a new constant in `limits.rs` that is in neither list.
#[test]
fn i21_every_constant_of_the_kernel_is_a_row_or_no_limit() {
    let mut listed: Vec<_> = KERNEL_LIMITS.iter().map(|(name, _, _)| *name).chain(NO_LIMITS).collect();
    let mut constants: Vec<_> = documented_constants().iter().map(|(name, _)| *name).collect();
    listed.sort_unstable();
    constants.sort_unstable();
    assert_eq!(listed, constants);
    assert_eq!(DEPTH_MAX, limits::JSON_DEPTH_MAX, "requests have the same limit as payloads");
}
