//! Golden tests of the encoding of sessions and their contributions.

use super::*;
use crate::commit::OpResult;
use crate::ids::ScopeNo;
use crate::item::{Item, ItemKind, Verb};
use crate::session::{ContributionKind, Participant, Session, SessionStatus};

fn session(status: SessionStatus) -> Session {
    Session {
        id: "release-7".parse().unwrap(),
        number: ScopeNo(17 << 8 | 1),
        coordinator: Some("alice".parse().unwrap()),
        participants: vec![
            Participant {
                agent: "carol".parse().unwrap(),
                joined_at: Timestamp(1_800_000_000_000),
                left_at: Some(Timestamp(1_800_000_060_000)),
            },
            Participant {
                agent: "bob".parse().unwrap(),
                joined_at: Timestamp(1_800_000_000_000),
                left_at: None,
            },
        ],
        title: "Release 7".into(),
        task: Some(2),
        status,
        since: Timestamp(1_800_000_061_000),
        reason: "waiting for the audit".into(),
        opened_at: Timestamp(1_800_000_000_000),
        contributions: [1, 0, 300, 2, 5],
    }
}

/// Effect 16, and effect 15 with each verb of a session; a redrive that names a session.
fn effects() -> Vec<Effect> {
    let changed = |verb, status| Effect::Changed { verb, item: Item::Session(session(status)) };
    let hub = Session {
        id: crate::ids::SessionId::generated(Generation(0), Seq(17), 0),
        coordinator: None,
        participants: Vec::new(),
        task: None,
        ..session(SessionStatus::Failed)
    };
    vec![
        changed(Verb::SessionOpened, SessionStatus::Active),
        changed(Verb::SessionPaused, SessionStatus::Paused),
        changed(Verb::SessionCompleted, SessionStatus::Completed),
        Effect::Changed { verb: Verb::SessionFailed, item: Item::Session(hub) },
        Effect::ContributionAdded {
            session: "release-7".parse().unwrap(),
            kind: ContributionKind::Blocker,
            n: 3,
            part: 0,
            content_type: Some("text/plain".into()),
            rationale: "the build is red".into(),
        },
        Effect::Redriven {
            delivery: DeliveryNo(17),
            to: AgentNo(2).into(),
            seq: Seq(5),
            n: 1,
            priority: Priority::NORMAL,
            attempts_max: 4,
            expires_at: None,
            scope: Some(ScopeNo(17 << 8 | 1)),
        },
    ]
}

#[test]
fn the_bytes_of_sessions_never_change() {
    expect!["0104f5f2034cf3d210549347a5415012de4215634d758b95bccaecc1782c51d38b7b060f6646060972656c656173652d37812205616c6963650952656c6561736520370300c8fcf4c2b1341577616974696e6720666f722074686520617564697480a0f1c2b1340100ac02020502056361726f6c80a0f1c2b134e1f4f4c2b13403626f6280a0f1c2b134000f6649060972656c656173652d37812205616c6963650952656c6561736520370301c8fcf4c2b1341577616974696e6720666f722074686520617564697480a0f1c2b1340100ac02020502056361726f6c80a0f1c2b134e1f4f4c2b13403626f6280a0f1c2b134000f664b060972656c656173652d37812205616c6963650952656c6561736520370302c8fcf4c2b1341577616974696e6720666f722074686520617564697480a0f1c2b1340100ac02020502056361726f6c80a0f1c2b134e1f4f4c2b13403626f6280a0f1c2b134000f454c060a7365735f302d31372d308122000952656c6561736520370003c8fcf4c2b1341577616974696e6720666f722074686520617564697480a0f1c2b1340100ac0202050010290972656c656173652d370303000a746578742f706c61696e10746865206275696c64206973207265640a0a11020501010004008122"].assert_eq(&hex(&write_body(&[payload("\"hi\"")], &effects())));
}

#[test]
fn sessions_round_trip() {
    let record = record_of(&[payload("\"hi\"")], &effects());
    assert_eq!(read_body(&record).unwrap().effects, effects());
    let item = Item::Session(session(SessionStatus::Paused));
    assert_eq!(read_item(ItemKind::Session, &write_item(&item)).unwrap(), item);
    let results = vec![
        OpResult::SessionOpened { id: "release-7".parse().unwrap() },
        OpResult::ContributionAdded { n: 300 },
    ];
    assert_eq!(read_results(&write_results(&results)).unwrap(), results);
}

#[test]
fn the_numbers_of_sessions_never_change() {
    let verbs = [
        (Verb::SessionOpened, 70),
        (Verb::SessionJoined, 71),
        (Verb::SessionLeft, 72),
        (Verb::SessionPaused, 73),
        (Verb::SessionResumed, 74),
        (Verb::SessionCompleted, 75),
        (Verb::SessionFailed, 76),
    ];
    for (verb, number) in verbs {
        assert_eq!((verb.number(), Verb::from_number(number)), (number, Some(verb)));
    }
    assert_eq!(ItemKind::Session.number(), 6);
    assert_eq!(ContributionKind::ALL.map(ContributionKind::number), [0, 1, 2, 3, 4]);
}

proptest! {
    #[test]
    fn corrupt_sessions_do_not_panic(at in 0usize..700, with: u8, cut in 0usize..700) {
        let mut record = record_of(&[payload("\"hi\"")], &effects());
        if let Some(byte) = record.body.get_mut(at) {
            *byte = with;
        }
        record.body.truncate(cut);
        let _ = read_body(&record);
        let _ = read_item(ItemKind::Session, &record.body);
    }
}
