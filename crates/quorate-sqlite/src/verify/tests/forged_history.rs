//! Forged histories with an intact hash chain that no hub could have written. They are detected without a panic.

use quorate_core::{
    AccessToken, Agent, AgentNo, AgentRole, Bearer, DeliveryNo, DeliveryOrigin, Destination, Effect, Epoch,
    Generation, Grants, Item, Key, LeaseToken, LoggedLease, Message, NewDelivery, Payload, Pool, PoolAccess,
    PoolNo, Presence, Priority, Recipient, RecordedMessage, ReturnCause, ReturnOutcome, SpaceName,
    Subscription, SubscriptionState, Timestamp, TokenDigest, TokenId, TokenRole, TokenState, Verb, Version,
    codec,
};

use super::*;

/// Replaces the effects of the last record and recomputes the chain.
fn with_last(effects: &[Effect]) -> TempDir {
    damaged_copy(|connection| {
        let payload = Payload::seal(bytes::Bytes::from_static(b"{}"), [1; 16]);
        let body = codec::write_body(std::slice::from_ref(&payload), effects);
        let end = head(connection);
        connection
            .execute(
                "UPDATE log SET body = ?2, salts = ?3, payload = ?4 WHERE id = ?1",
                (row(end), body, payload.salt, &payload.bytes[..]),
            )
            .unwrap();
        rechain(connection, end);
    })
}

fn message() -> std::sync::Arc<Message> {
    let payload = Payload::seal(bytes::Bytes::from_static(b"{}"), [1; 16]);
    std::sync::Arc::new(Message::new(Destination::Agent(fixture::agent("bob")), "do", payload))
}

fn registered(number: u64) -> Effect {
    let agent = Agent {
        id: fixture::agent("eve"),
        name: "Eve".into(),
        role: AgentRole::Observer,
        capabilities: Vec::new(),
        supported_actions: Vec::new(),
        epoch: Epoch(1),
        removed: false,
        heartbeat_ms: 0,
        declaration: None,
        presence: Presence::default(),
    };
    Effect::AgentRegistered { number: AgentNo(number), agent }
}

fn recipient(number: u64) -> Recipient {
    Recipient::from_number(number).unwrap()
}

fn sent(first: u64, agent: u64) -> Effect {
    let deliveries = vec![NewDelivery { to: recipient(agent), lease: None }];
    Effect::Sent { message: message(), part: 0, first: DeliveryNo(first), deliveries }
}

fn recorded_message() -> RecordedMessage {
    RecordedMessage {
        seq: Seq(1),
        n: 0,
        priority: Priority::NORMAL,
        attempts_max: 1,
        expires_at: None,
        scope: None,
    }
}

fn pool(number: u64) -> Effect {
    let capability = "review".parse().unwrap();
    let access = PoolAccess::AnyCapable;
    let pool = Pool { number: PoolNo(number), capability, access, opened_by: None };
    Effect::Changed { verb: Verb::PoolOpened, item: Item::Pool(pool) }
}

fn subscribed(number: u64) -> Effect {
    let subscription = Subscription {
        agent: fixture::agent("eve"),
        agent_number: AgentNo(number),
        pattern: "a.>".parse().unwrap(),
        since: Seq(1),
        state: SubscriptionState::Active,
    };
    Effect::Changed { verb: Verb::Subscribed, item: Item::Subscription(Box::new(subscription)) }
}

/// Creates an access token with this digest.
fn token_created(n: u32, digest: [u8; 32]) -> Effect {
    let token = AccessToken {
        id: TokenId { generation: Generation(0), seq: Seq(900), n },
        digest: TokenDigest(digest),
        bearer: Bearer::Holder(TokenRole::Admin),
        name: "mallory".parse().unwrap(),
        expires_at: None,
        created_by: "system".into(),
        created_at: Timestamp(0),
        state: TokenState::Active,
        parent: None,
        grants: Grants::default(),
    };
    Effect::Changed { verb: Verb::TokenCreated, item: Item::Token(std::sync::Arc::new(token)) }
}

#[test]
fn i19_two_tokens_with_one_secret_are_forked() {
    for effects in [
        vec![token_created(0, fixture::tokens::DIGEST)],
        vec![token_created(0, [9; 32]), token_created(1, [9; 32])],
    ] {
        let defect = report(with_last(&effects).path()).first_defect.unwrap();
        assert_eq!(defect.damage, Damage::Forked, "{defect:?}");
        assert!(defect.detail.contains("the secret belongs to another token"), "{defect:?}");
    }
    // A different secret is allowed; only the tables reveal the forgery.
    let defect = report(with_last(&[token_created(0, [9; 32])]).path()).first_defect.unwrap();
    assert_eq!(defect.damage, Damage::Tables, "{defect:?}");
}

/// Lease that was never granted.
fn lease() -> LoggedLease {
    let origin = DeliveryOrigin { to: recipient(1), seq: Seq(1), n: 0 };
    LoggedLease { delivery: DeliveryNo(900), token: LeaseToken(1), origin }
}

fn returned(cause: ReturnCause, next: ReturnOutcome) -> Effect {
    let LoggedLease { delivery, token, origin } = lease();
    Effect::Returned { delivery, token, cause, reason: String::new(), next, origin }
}

#[test]
fn impossible_effects_are_forked() {
    let LoggedLease { delivery, token, origin } = lease();
    let deliveries = vec![lease()];
    let written = |version, part| Effect::Written {
        key: Key::new("plan/a").unwrap(),
        version: Version(version),
        entry_type: String::new(),
        content_type: None,
        part,
        depends_on: Vec::new(),
        restores: None,
    };
    let forged = [
        registered(0),
        registered(99),
        registered(u64::MAX),
        Effect::AgentRemoved { number: AgentNo(0) },
        sent(1, 1),
        sent(u64::MAX, 1),
        sent(21, 77),
        sent(21, 1 << 32),
        sent(21, (1 << 32) | 1),
        Effect::Leased { lease_ms: 1, deliveries: deliveries.clone() },
        Effect::Acked { delivery, token, origin },
        returned(ReturnCause::Released, ReturnOutcome::Ready),
        returned(ReturnCause::Nacked, ReturnOutcome::Dead),
        Effect::Expired { delivery, origin },
        Effect::Purged { delivery, origin },
        Effect::Redriven {
            delivery,
            to: recipient(77),
            seq: Seq(1),
            n: 0,
            priority: Priority::NORMAL,
            attempts_max: 1,
            expires_at: None,
            scope: None,
        },
        written(1, 0),
        written(u64::MAX, 0),
        written(100, 9),
        Effect::Deleted { key: Key::new("plan/a").unwrap(), version: Version(1) },
        Effect::Erased { seq: Seq(u64::MAX), part: 0 },
        Effect::AckedMany { deliveries: deliveries.clone() },
        Effect::LeasedFromPool { agent: AgentNo(1), lease_ms: 1, deliveries },
        Effect::LeasedFromPool { agent: AgentNo(u64::MAX), lease_ms: 1, deliveries: vec![] },
        Effect::Backfilled { agent: AgentNo(u64::MAX), first: DeliveryNo(21), messages: vec![] },
        Effect::Backfilled { agent: AgentNo(1), first: DeliveryNo(1), messages: vec![recorded_message()] },
        Effect::DeniedByPolicy { delivery, origin },
        pool(0),
        pool(9),
        subscribed(0),
        subscribed(77),
        Effect::SpaceRestored { generation: Generation(0) },
        Effect::SpaceRestored { generation: Generation(u64::MAX) },
        Effect::SpaceCreated {
            name: SpaceName::new("default").unwrap(),
            id: SpaceId([0; 16]),
            generation: Generation(0),
        },
    ];
    for effect in forged {
        let dir = with_last(std::slice::from_ref(&effect));
        let defect = report(dir.path()).first_defect.unwrap();
        assert_eq!(defect.damage, Damage::Forked, "{effect:?}: {defect:?}");
        assert!(defect.detail.contains("no hub wrote this record"), "{effect:?}: {defect:?}");
    }
}

#[test]
fn a_plausible_record_is_only_detected_by_a_checkpoint_or_the_tables() {
    // The next delivery number is plausible, so the log alone does not reveal the forgery; the tables do.
    let next: u64 = open_database(populated_directory().path())
        .query_row("SELECT next_delivery FROM spaces WHERE number = 1", [], |row| row.get(0))
        .unwrap();
    let dir = with_last(&[sent(next, 2)]);
    assert_eq!(report(dir.path()).first_defect.unwrap().damage, Damage::Tables);
}

#[test]
fn an_undecodable_body_is_forked() {
    let dir = damaged_copy(|connection| {
        let end = head(connection);
        connection.execute("UPDATE log SET body = x'ffffff' WHERE id = ?1", [row(end)]).unwrap();
        rechain(connection, end);
    });
    let end = report(dir.path()).spaces[0].head_seq.0;
    assert_defect(dir.path(), None, end, Damage::Forked);
}

#[test]
fn decreasing_times_and_unknown_kinds_are_forked() {
    for edit in ["at = 5", "kind = 9", "format = 9"] {
        let dir = damaged_copy(|connection| {
            connection.execute(&format!("UPDATE log SET {edit} WHERE id = ?1"), [row(10)]).unwrap();
            rechain(connection, 10);
        });
        assert_defect(dir.path(), None, 10, Damage::Forked);
    }
}
