//! Golden tests of the encoding of approvals.

use super::*;
use crate::approval::{ActionDigest, Approval, ApprovalFollowUp, ApprovalState, Decision};
use crate::commit::OpResult;
use crate::ids::ApprovalId;
use crate::item::{Item, ItemKind, Verb};
use crate::task::PartRef;

fn decision() -> Decision {
    Decision {
        by: "approver:anna".into(),
        at: Timestamp(1_800_000_060_000),
        seq: Seq(21),
        reason: "as agreed".into(),
    }
}

fn approval(state: ApprovalState) -> Approval {
    Approval {
        id: "letter-7".parse().unwrap(),
        agent: Some(AgentNo(2)),
        requested_by: "agent:alice".into(),
        requested_at: Timestamp(1_800_000_000_000),
        seq: Seq(17),
        action: "letter.send".into(),
        document: PartRef { seq: Seq(17), part: 1 },
        digest: ActionDigest::of(b"letter"),
        rationale: "the term ends".into(),
        confidence: Some(0.75),
        priority: Priority { level: 2, rank: 5 },
        expires_at: Timestamp(1_800_259_200_000),
        default: "keep the draft".into(),
        session: Some("s1".into()),
        follow_ups: vec![ApprovalFollowUp { to: AgentNo(3), action: "letter.send".into() }],
        state,
    }
}

/// Effect 15 with each verb of an approval.
fn effects() -> Vec<Effect> {
    let changed = |verb, state| Effect::Changed { verb, item: Item::Approval(Box::new(approval(state))) };
    let requested = Approval {
        id: ApprovalId::generated(Generation(0), Seq(17), 1),
        agent: None,
        requested_by: "operator:olga".into(),
        confidence: None,
        session: None,
        follow_ups: Vec::new(),
        ..approval(ApprovalState::Pending)
    };
    let modified = ApprovalState::Modified {
        decision: decision(),
        patch: PartRef { seq: Seq(21), part: 0 },
        action: PartRef { seq: Seq(21), part: 1 },
        digest: ActionDigest::of(b"other"),
    };
    let expired = ApprovalState::Expired { seq: Seq(30), at: Timestamp(1_800_259_200_000) };
    vec![
        Effect::Changed { verb: Verb::ApprovalRequested, item: Item::Approval(Box::new(requested)) },
        changed(Verb::ApprovalApproved, ApprovalState::Approved(decision())),
        changed(Verb::ApprovalRejected, ApprovalState::Rejected(decision())),
        changed(Verb::ApprovalModified, modified),
        changed(Verb::ApprovalExpired, expired),
    ]
}

#[test]
fn the_bytes_of_approvals_never_change() {
    expect!["0104f5f2034cf3d210549347a5415012de4215634d758b95bccaecc1782c51d38b7b050f7a780b0a6170725f302d31372d31000d6f70657261746f723a6f6c676180a0f1c2b134110b6c65747465722e73656e641101f80105efab6d863fd8fc243d269094469e2277e8f12e5a0a9f401e88494f7b4b0d746865207465726d20656e647300020580c8bdbeb2340e6b656570207468652064726166740000000fac01790b086c65747465722d37030b6167656e743a616c69636580a0f1c2b134110b6c65747465722e73656e641101f80105efab6d863fd8fc243d269094469e2277e8f12e5a0a9f401e88494f7b4b0d746865207465726d20656e6473083fe8000000000000020580c8bdbeb2340e6b6565702074686520647261667402733101030b6c65747465722e73656e64010d617070726f7665723a616e6e61e0f4f4c2b13415096173206167726565640fac017a0b086c65747465722d37030b6167656e743a616c69636580a0f1c2b134110b6c65747465722e73656e641101f80105efab6d863fd8fc243d269094469e2277e8f12e5a0a9f401e88494f7b4b0d746865207465726d20656e6473083fe8000000000000020580c8bdbeb2340e6b6565702074686520647261667402733101030b6c65747465722e73656e64020d617070726f7665723a616e6e61e0f4f4c2b13415096173206167726565640fd0017b0b086c65747465722d37030b6167656e743a616c69636580a0f1c2b134110b6c65747465722e73656e641101f80105efab6d863fd8fc243d269094469e2277e8f12e5a0a9f401e88494f7b4b0d746865207465726d20656e6473083fe8000000000000020580c8bdbeb2340e6b6565702074686520647261667402733101030b6c65747465722e73656e64030d617070726f7665723a616e6e61e0f4f4c2b134150961732061677265656415001501d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa0f94017c0b086c65747465722d37030b6167656e743a616c69636580a0f1c2b134110b6c65747465722e73656e641101f80105efab6d863fd8fc243d269094469e2277e8f12e5a0a9f401e88494f7b4b0d746865207465726d20656e6473083fe8000000000000020580c8bdbeb2340e6b6565702074686520647261667402733101030b6c65747465722e73656e64041e80c8bdbeb234"].assert_eq(&hex(&write_body(&[payload("\"hi\"")], &effects())));
}

#[test]
fn approvals_round_trip() {
    let record = record_of(&[payload("\"hi\"")], &effects());
    assert_eq!(read_body(&record).unwrap().effects, effects());
    let item = Item::Approval(Box::new(approval(ApprovalState::Pending)));
    assert_eq!(read_item(ItemKind::Approval, &write_item(&item)).unwrap(), item);
    let digest = ActionDigest::of(b"letter");
    let results = vec![
        OpResult::ApprovalRequested {
            id: "letter-7".parse().unwrap(),
            digest,
            expires_at: Timestamp(1_800_259_200_000),
        },
        OpResult::ApprovalDecided { seq: Seq(21), state: "modified", digest },
    ];
    assert_eq!(read_results(&write_results(&results)).unwrap(), results);
    assert_eq!(digest.to_string().parse::<ActionDigest>().unwrap(), digest);
    assert!("12".parse::<ActionDigest>().is_err() && "zz".repeat(32).parse::<ActionDigest>().is_err());
}

#[test]
fn the_numbers_of_approvals_never_change() {
    let verbs = [
        (Verb::ApprovalRequested, 120),
        (Verb::ApprovalApproved, 121),
        (Verb::ApprovalRejected, 122),
        (Verb::ApprovalModified, 123),
        (Verb::ApprovalExpired, 124),
    ];
    for (verb, number) in verbs {
        assert_eq!((verb.number(), Verb::from_number(number)), (number, Some(verb)));
    }
    assert_eq!(ItemKind::Approval.number(), 11);
}

proptest! {
    #[test]
    fn corrupt_approvals_do_not_panic(at in 0usize..1200, with: u8, cut in 0usize..1200) {
        let mut record = record_of(&[payload("\"hi\"")], &effects());
        if let Some(byte) = record.body.get_mut(at) {
            *byte = with;
        }
        record.body.truncate(cut);
        let _ = read_body(&record);
        let _ = read_item(ItemKind::Approval, &record.body);
    }
}
