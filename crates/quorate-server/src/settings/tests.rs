//! The table of limits in the guide says what the program does.

use quorate_core::limits;

use super::{HEADER_BYTES_MAX, Limits, Patience, Times};
use crate::body::{BODY_BYTES_MAX, DEPTH_MAX};
use crate::routes::PAGES_PER_PERSON_MAX;
use crate::sign_in::{CODES_MAX, CODES_PER_PERSON_MAX};
use crate::webhook::{WEBHOOK_SECRET_BYTES_MAX, WEBHOOK_SECRET_BYTES_MIN, WEBHOOKS_MAX};

/// The rows of the table, in its order.
fn true_limits() -> Vec<(&'static str, u128)> {
    let Limits { connections, agents, people, failures, bulk_reads } = Limits::default();
    let (patience, times) = (Patience::default(), Times::default());
    vec![
        ("connections at a time", connections as u128),
        ("bytes of a request's headers", HEADER_BYTES_MAX as u128),
        ("bytes of a request or a WebSocket frame", BODY_BYTES_MAX as u128),
        ("bytes of one message's payload", limits::PAYLOAD_BYTES_MAX as u128),
        ("levels of JSON", DEPTH_MAX as u128),
        ("operations in a commit", limits::OPS_MAX as u128),
        ("units of work of a commit", u128::from(limits::COMMIT_WORK_MAX)),
        ("deliveries that a commit makes", limits::DELIVERIES_PER_COMMIT_MAX as u128),
        ("deliveries of one claim", limits::CLAIM_MAX.into()),
        ("leased deliveries of one agent", limits::IN_FLIGHT_MAX as u128),
        ("open deliveries of one agent", limits::INBOX_MAX as u128),
        ("waiting claims and consumers of one agent", limits::CONSUMERS_PER_AGENT_MAX as u128),
        ("requests of one WebSocket that wait", crate::ws::REQUESTS_MAX as u128),
        ("agents of a space", limits::AGENTS_MAX as u128),
        ("tokens of a space", limits::TOKENS_MAX as u128),
        ("calls a second of one agent", agents.per_second.into()),
        ("calls at once of one agent", agents.burst.into()),
        ("calls a second of one person or tool", people.per_second.into()),
        ("calls at once of one person or tool", people.burst.into()),
        ("failures a second of one address", failures.per_second.into()),
        ("failures at once of one address", failures.burst.into()),
        ("lists, exports and event streams that one principal has open", bulk_reads as u128),
        ("buckets that are remembered", crate::rate::BUCKETS_MAX as u128),
        ("sign-in codes of one person", CODES_PER_PERSON_MAX as u128),
        ("sign-in codes of everybody", CODES_MAX as u128),
        ("pages of one person", PAGES_PER_PERSON_MAX as u128),
        ("webhooks of a hub", WEBHOOKS_MAX as u128),
        ("bytes of the secret of a webhook, at least", WEBHOOK_SECRET_BYTES_MIN as u128),
        ("bytes of the secret of a webhook, at most", WEBHOOK_SECRET_BYTES_MAX as u128),
        ("ms for a TLS handshake", patience.handshake.as_millis()),
        ("ms for the headers of a request", patience.headers.as_millis()),
        ("ms for the body of a request", patience.body.as_millis()),
        ("ms for the first frame of a WebSocket", patience.hello.as_millis()),
        ("ms that a reader may take nothing", patience.reader.as_millis()),
        ("ms between two pings of a silent WebSocket", patience.ping.as_millis()),
        ("ms of the longest wait of a claim", times.wait_max.as_millis()),
        ("ms for requests under way when the hub stops", patience.drain.as_millis()),
        ("ms between two looks at the token of what is open", times.look.as_millis()),
        ("ms between two looks at the certificate", times.certificate_look.as_millis()),
        ("ms that a sign-in code is good", times.sign_in_code.as_millis()),
        ("ms that the token of a page is good", times.page_token.as_millis()),
    ]
}

#[test]
fn i21_the_guide_names_every_limit_as_it_is() {
    let guide = include_str!("../../../../docs/guides/security.md");
    let (_, table) = guide.split_once("## All limits").expect("the table");
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (what, limit) = (cells.next()?, cells.next()?);
        limit.replace(',', "").parse::<u128>().ok().map(|limit| (what, limit))
    });
    let rows: Vec<_> = rows.collect();
    let known = true_limits();
    assert_eq!(rows.len(), known.len());
    for ((what, limit), (begins, known)) in rows.into_iter().zip(known) {
        assert!(what.starts_with(begins) && limit == known, "{what}: {limit}, but {begins} is {known}");
    }
}
