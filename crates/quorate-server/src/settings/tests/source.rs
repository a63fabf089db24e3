//! Limits that are constants next to their use, read from the source code: their values need not be public for the table.

use std::path::{Path, PathBuf};

use super::{Row, label_of, unit_of};

/// Crates whose constants are limits of a hub. The command line reads local files of its user, which limits no one else.
const CRATES: [&str; 5] = ["server", "engine", "sqlite", "procedures", "agents"];

/// Limits of calls, pages and buffers: `crate/file NAME`, and what happens when they are exceeded. The label is the
/// documentation of the constant.
const LIMITS: &[(&str, &str)] = &[
    ("server/routes.rs LIMIT_MAX", "`LIMIT_EXCEEDED`"),
    ("server/routes/async_requests.rs ANSWERS_MAX", "the cursor continues"),
    ("server/routes/audit/verify.rs RECORDS_PER_CALL_MAX", "the response states where to continue"),
    ("server/routes/session_document.rs ENTRIES_MAX", "the list is cut"),
    ("server/routes/session_document.rs MESSAGES_MAX", "older ones are omitted"),
    ("server/routes/shared_state.rs ITEMS_MAX", "the list is cut"),
    ("server/routes/shared_state.rs ATTEMPTS_MAX", "503 `OVERLOADED`"),
    ("server/routes/state.rs ITEMS_MAX", "the list is cut and marked"),
    ("server/routes/state.rs REPLAYED_MAX", "`LIMIT_EXCEEDED`"),
    ("server/routes/traces.rs SPANS_PER_RESPONSE_MAX", "the response is marked as incomplete"),
    ("server/observe/span_index.rs SPANS_MAX", "the oldest are dropped"),
    ("server/observe/errors.rs AGENTS_MAX", "counted as `other`"),
    ("server/space_keys.rs KEYS_MAX", "the oldest is forgotten"),
    ("server/problem.rs CONFLICTS_MAX", "the list is cut"),
    ("server/dialect/yaml.rs NODES_MAX", "`LIMIT_EXCEEDED`"),
    ("server/dialect/yaml.rs YAML_DEPTH_MAX", "`LIMIT_EXCEEDED`"),
    ("server/webhook_config.rs NAME_BYTES_MAX", "`INVALID`"),
    ("server/ws/frame.rs BATCH_MESSAGES_MAX", "a further frame is sent"),
    ("server/ws/frame.rs BATCH_BYTES_MAX", "a further frame is sent"),
    ("server/ws/receive.rs RANGES_MAX", "`LIMIT_EXCEEDED`"),
    ("server/ws/connection.rs REPLIES_MAX", "the hub stops reading from the connection"),
    ("server/ws/ledger.rs UNSENT_MAX", "no more are leased"),
    ("server/ws/ledger.rs DELIVERY_NUMBERS_MAX", "the oldest can only be acked by `deliveryId`"),
    ("server/reject.rs REJECTIONS_MAX", "the connection is dropped"),
    ("server/journal.rs WARNINGS_PER_SECOND_MAX", "counted in the log output"),
    ("server/otlp.rs QUEUE_MAX", "spans are dropped and counted"),
    ("engine/items.rs SCANNED_MAX", "the cursor continues"),
    ("engine/messages.rs SCANNED_MAX", "the cursor continues"),
    ("engine/sessions.rs TIMELINE_MAX", "the cursor continues"),
    ("engine/rollback.rs LISTED_MAX", "the list is cut"),
    ("engine/dependencies.rs ENTRIES_MAX", "the response is marked as incomplete"),
    ("engine/dependencies.rs DEPENDENCIES_MAX", "the response is marked as incomplete"),
    ("engine/consistency.rs TASKS_MAX", "the check is marked as incomplete"),
    ("engine/consistency.rs FINDINGS_MAX", "the list is cut"),
    ("engine/violations.rs VIOLATIONS_MAX", "the oldest are dropped"),
    ("engine/violations/notify.rs LISTED_MAX", "further ones are counted"),
    ("engine/task.rs CONTEXT_BYTES_MAX", "the claim is marked as truncated"),
    ("server/routes/status.rs LISTED_MAX", "the list is cut"),
    ("sqlite/queue.rs WAITING_MAX", "503 `OVERLOADED`"),
    ("sqlite/readers.rs WAITING_MAX", "503 `OVERLOADED`"),
    ("procedures/deliberation/spec.rs AGENTS_MAX", "`INVALID`"),
    ("procedures/deliberation/spec.rs COUNT_MAX", "`INVALID`"),
    ("procedures/deliberation/spec.rs TIMEOUT_MS_MAX", "`INVALID`"),
    ("procedures/deliberation/reply.rs REASON_CHARS_MAX", "it is cut"),
    ("procedures/finding.rs ANSWER_BYTES_MAX", "the answer is refused"),
    ("procedures/finding.rs TEXT_CHARS_MAX", "the answer is refused"),
    ("procedures/finding.rs NAME_CHARS_MAX", "the answer is refused"),
    ("procedures/finding.rs LIST_MAX", "the answer is refused"),
    ("procedures/pipeline/spec.rs PHASES_MAX", "`INVALID`"),
    ("procedures/pipeline/spec.rs AGENTS_MAX", "`INVALID`"),
    ("procedures/pipeline/spec.rs HANDOFF_TOKENS_MAX", "`INVALID`"),
    ("procedures/pipeline/spec.rs PARALLEL_MAX", "`INVALID`"),
    ("procedures/pipeline/spec.rs ANSWER_MS_MAX", "`INVALID`"),
    ("procedures/pipeline/state.rs ITEMS_MAX", "the procedure fails"),
    ("procedures/proposal/spec.rs REVISIONS_MAX", "`INVALID`"),
    ("procedures/proposal/spec.rs NAME_BYTES_MAX", "`INVALID`"),
    ("procedures/proposal/letter.rs FILE_NAME_BYTES_MAX", "`INVALID`"),
    ("procedures/tournament/spec.rs CONTESTANTS_MAX", "`INVALID`"),
    ("procedures/tournament/spec.rs AGENTS_MAX", "`INVALID`"),
    ("procedures/tournament/spec.rs CRITERIA_MAX", "`INVALID`"),
    ("procedures/tournament/spec.rs MATCHES_MAX", "`INVALID`"),
    ("procedures/tournament/spec.rs TURNS_MAX", "`INVALID`"),
    ("procedures/tournament/spec.rs PARALLEL_MAX", "`INVALID`"),
    ("procedures/tournament/spec.rs ANSWER_MS_MAX", "`INVALID`"),
    ("procedures/runtime/outbox.rs RETRY_MS_MAX", "the step has failed"),
    ("procedures/runtime/drive.rs FAILURES_MAX", "the procedure is stuck"),
    ("procedures/runtime/run.rs IDLE_STEPS_MAX", "the procedure is stuck"),
];

/// Constants that callers cannot exceed, with the reason.
const INTERNAL: &[(&str, &str)] = &[
    ("agents/llm/recording.rs TEMPORARY_NAMES_MAX", "names that one recording tries for its temporary file"),
    ("server/body.rs BODY_BYTES_MAX", "listed by name"),
    ("server/large_requests.rs LARGE_REQUESTS_PER_SPACE_MAX", "listed by name"),
    ("server/large_requests.rs LARGE_REQUESTS_PER_PRINCIPAL_MAX", "listed by name"),
    ("server/settings.rs CONNECTIONS_MAX", "listed with its option"),
    ("server/settings.rs HEADER_BYTES_MAX", "listed by name"),
    ("server/sign_in_codes.rs CODES_PER_PRINCIPAL_MAX", "listed by name"),
    ("server/sign_in_codes.rs CODES_PER_SPACE_MAX", "listed by name"),
    ("server/unauthenticated.rs UNAUTHENTICATED_BYTES_MAX", "listed by name"),
    ("server/uploads.rs UPLOADS_MAX", "listed by name"),
    ("server/webhook_config.rs WEBHOOKS_MAX", "listed by name"),
    ("server/webhook_config.rs WEBHOOK_SECRET_BYTES_MIN", "listed by name"),
    ("server/webhook_config.rs WEBHOOK_SECRET_BYTES_MAX", "listed by name"),
    ("server/rate_limit.rs BUCKETS_MAX", "listed by name"),
    ("server/ws/frame.rs REQUESTS_MAX", "listed by name"),
    ("engine/ephemeral.rs EPHEMERAL_MESSAGES_MAX", "listed by name"),
    ("engine/ephemeral.rs EPHEMERAL_BYTES_MAX", "listed by name"),
    ("engine/ephemeral.rs EPHEMERAL_MESSAGES_PER_SENDER_MAX", "listed by name"),
    ("engine/ephemeral.rs EPHEMERAL_BYTES_PER_SENDER_MAX", "listed by name"),
    ("server/bulk.rs THREADS_MAX", "bulk reads wait for a thread"),
    ("server/drain_body.rs UNREAD_BYTES_MAX", "of a request that was refused already"),
    ("server/reject.rs READ_BYTES_MAX", "of a connection that was refused already"),
    ("server/ws.rs WRITE_BUFFER_BYTES_MAX", "the hub waits until the client reads"),
    ("server/ws/connection.rs UNANSWERED_PINGS_MAX", "listed with the ping interval"),
    ("server/observe.rs PAGES_PER_REQUEST_MAX", "the rest is read in the background"),
    ("server/observe/span_index.rs DELIVERIES_MAX", "bounded by the number of spans"),
    ("server/observe/trace_cache.rs CACHED_MAX", "a cache"),
    ("server/wire/message_cache.rs BYTES_MAX", "a cache"),
    ("server/routes/audit/audit_text.rs OPEN_MAX", "of the export, which then names fewer messages"),
    ("server/otlp.rs BATCH_MAX", "of requests to the collector"),
    ("server/otlp.rs ATTEMPTS_MAX", "of requests to the collector"),
    ("server/otlp/send.rs RESPONSE_BYTES_MAX", "of responses of the collector"),
    ("engine/admission.rs INLINE_BYTES_MAX", "selects the thread"),
    ("engine/audit.rs NEWEST_PAYLOAD_BYTES_MAX", "selects what is audited before the hub is ready"),
    ("engine/audit.rs NEWEST_RECORDS_MIN", "selects what is audited before the hub is ready"),
    ("engine/violations/notify.rs REMEMBERED_MAX", "violations are listed, but not reported"),
    ("engine/causes/cache.rs CACHED_MAX", "a cache"),
    ("engine/causes/cache.rs RECIPIENTS_MAX", "a cache"),
    ("engine/flag_screening/marker.rs EMBEDDED_DEPTH_MAX", "deeper text is no flag"),
    ("engine/history.rs PAGE_MIN", "records read together"),
    ("engine/history.rs PAGE_MAX", "records read together"),
    ("engine/reads.rs BATCH_MIN", "entries read together"),
    ("engine/space.rs LOADED_BYTES_MAX", "the rest of a claim stays in the inbox"),
    ("engine/reads.rs BATCH_MAX", "entries read together"),
    ("engine/secrets.rs LENGTH_MIN", "of a secret"),
    ("engine/secrets/scan_pass.rs KEY_BYTES_MAX", "of a secret"),
    ("engine/secrets/scan_pass.rs REJECTED_LENGTH_MIN", "of a secret"),
    ("engine/sweep.rs INTERVAL_MAX", "a timer"),
    ("sqlite/queue.rs BATCH_OPS_MAX", "the rest is the next batch"),
    ("sqlite/queue.rs BATCH_WEIGHT_MAX", "the rest is the next batch"),
    ("sqlite/writer.rs BATCH_WORK_MAX", "the rest is the next batch"),
    ("sqlite/queue.rs FINISH_TIMES_MAX", "a cache"),
    ("sqlite/responder.rs INLINE_RESPONSES_MAX", "selects the thread"),
    ("sqlite/responder.rs PENDING_BATCHES_MAX", "the writer waits"),
    ("sqlite/read.rs ROW_NUMBER_MAX", "of the file format"),
    ("sqlite/verify/raw_rows.rs ROW_NUMBER_MAX", "of the file format"),
    ("sqlite/verify/chain_break.rs MOVED_MAX", "of the offline verification"),
    ("sqlite/read/records.rs BODIES_BYTES_MAX", "records read together"),
    ("sqlite/read/records.rs PAYLOADS_BYTES_MAX", "records read together"),
    ("sqlite/rollback_planner.rs CATCH_UP_MAX", "the rollback is refused as busy"),
    ("procedures/pipeline/handoff.rs PART_TOKENS_MIN", "a share of the budget of a handoff"),
    ("procedures/pipeline/machine.rs ATTEMPTS_MAX", "the fallback is asked"),
    ("procedures/pipeline/spec.rs HANDOFF_TOKENS_MIN", "a range of values"),
    ("procedures/proposal/letter.rs POINTS_MAX", "the letter has the most important ones"),
    ("procedures/proposal/revision.rs INPUT_BYTES_MAX", "the input is left out"),
    ("procedures/proposal/spec.rs PAYLOAD_BYTES_MAX", "that of an approval, less the name of the action"),
    ("procedures/proposal/spec.rs REVISION_MS_MAX", "a range of values"),
    ("procedures/tournament/rating.rs DISPERSION_MIN", "a range of values"),
    ("procedures/tournament/rating.rs ROUNDS_MAX", "the iteration converges earlier"),
    ("procedures/tournament/rating.rs STEPS_MAX", "the iteration converges earlier"),
    ("procedures/tournament/state.rs ATTEMPTS_MAX", "the match is void"),
    ("procedures/runtime/run.rs OWN_RECORDS_MAX", "a cache"),
    ("procedures/machine.rs OPS_PER_COMMIT_MAX", "the rest is the next commit"),
    ("procedures/runtime/run.rs SLEEP_MAX", "a timer"),
    ("procedures/finding.rs SCORE_MAX", "a range of values"),
    ("procedures/tally/pivotal.rs TALLIES_MAX", "the result is marked as approximate"),
    ("procedures/tally/reliability.rs ITERATIONS_MAX", "the iteration converges earlier"),
    ("procedures/tally/score.rs CONFIDENCE_MAX", "a range of values"),
    ("agents/answer_schema.rs ERRORS_MAX", "errors in one text"),
    ("agents/limits.rs PLAYBOOK_BYTES_MAX", "a local file of its user"),
    ("agents/limits.rs INPUT_BYTES_MAX", "a local file of its user"),
    ("agents/limits.rs PROGRAM_BYTES_MAX", "a local file of its user"),
    ("agents/playbook/agents.rs PRICE_MAX", "a local file of its user"),
    ("agents/playbook/approval.rs HOURS_MAX", "a local file of its user"),
    ("agents/worker/requests.rs TIMEOUT_MIN", "for clocks that differ"),
    ("agents/limits.rs ANSWER_BYTES_MAX", "listed by name"),
    ("agents/limits.rs QUOTED_CHARS_MAX", "listed by name"),
    ("agents/limits.rs RETRIES_MAX", "listed by name"),
    ("agents/limits.rs RETRY_DELAY_MAX", "listed by name"),
    ("agents/limits.rs ANSWER_TOKENS_MAX", "listed by name"),
];

/// A constant whose name ends in `_MAX` or `_MIN`.
struct Constant {
    /// `crate/file NAME`.
    place: String,
    name: String,
    /// The expression of its value.
    expression: String,
    doc: String,
}

fn sources(directory: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        let stem = path.file_stem().unwrap_or_default();
        // The constants of the compressor are thresholds of its heuristics; what limits it is the budget of its caller.
        if stem == "tests" || stem == "compression" {
            continue;
        }
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn constants() -> Vec<Constant> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for krate in CRATES {
        let root = crates.join(format!("quorate-{krate}/src"));
        let mut files = Vec::new();
        sources(&root, &mut files);
        for file in files {
            let path = file.strip_prefix(&root).expect("below the root").display().to_string();
            let text = std::fs::read_to_string(&file).expect("a source file");
            found.extend(constants_of(&text, &format!("{krate}/{path}")));
        }
    }
    found
}

fn constants_of(text: &str, path: &str) -> Vec<Constant> {
    let (mut found, mut doc) = (Vec::new(), String::new());
    for line in text.lines().map(str::trim) {
        if let Some(sentence) = line.strip_prefix("/// ") {
            doc = format!("{doc} {sentence}");
            continue;
        }
        let declaration = line
            .strip_prefix("pub")
            .map_or(line, |rest| rest.trim_start_matches("(crate)").trim_start_matches("(super)"));
        if let Some(rest) = declaration.trim_start().strip_prefix("const ")
            && let Some((name, rest)) = rest.split_once(':')
            && let Some((_, value)) = rest.split_once(" = ")
            && (name.ends_with("_MAX") || name.ends_with("_MIN"))
        {
            found.push(Constant {
                place: format!("{path} {name}"),
                name: name.to_owned(),
                expression: value.trim_end_matches(';').to_owned(),
                doc: std::mem::take(&mut doc),
            });
        }
        doc.clear();
    }
    found
}

/// Evaluates a product of numbers.
fn evaluate(expression: &str) -> u128 {
    let factors = expression.split('*').map(|factor| factor.trim().replace('_', ""));
    factors.map(|factor| factor.parse::<u128>().expect("a number")).product()
}

/// Returns the first sentence.
fn summary(doc: &str) -> &str {
    doc.split_once(". ").map_or(doc, |(first, _)| first)
}

pub(super) fn source_rows() -> Vec<Row> {
    let constants = constants();
    let row = |(place, when_exceeded): &(&str, &'static str)| {
        let constant = constants.iter().find(|constant| constant.place == *place);
        let constant = constant.unwrap_or_else(|| panic!("{place} does not exist"));
        let unit = unit_of(&constant.name);
        Row {
            label: label_of(summary(&constant.doc)),
            value: evaluate(&constant.expression),
            unit,
            when_exceeded,
        }
    };
    LIMITS.iter().map(row).collect()
}

// Fails under: a new constant next to its use that is in neither list; one that was removed.
#[test]
fn i21_every_constant_of_a_hub_is_a_row_or_internal() {
    let mut listed: Vec<_> = LIMITS.iter().chain(INTERNAL).map(|(place, _)| (*place).to_owned()).collect();
    let mut found: Vec<_> = constants().into_iter().map(|constant| constant.place).collect();
    listed.sort_unstable();
    found.sort_unstable();
    let missing: Vec<_> = found.iter().filter(|place| !listed.contains(place)).collect();
    let stale: Vec<_> = listed.iter().filter(|place| !found.contains(place)).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "neither a row nor internal: {missing:#?}; removed: {stale:#?}"
    );
}
