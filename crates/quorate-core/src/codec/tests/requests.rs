//! Golden tests of the encoding of requests and presence.

use super::*;
use crate::commit::OpResult;
use crate::ids::MessageId;
use crate::item::{Item, ItemKind, Verb};
use crate::message::IfUnavailable;
use crate::presence::{AgentStatus, Health};
use crate::refused::Code;
use crate::request::{
    AnswerFrom, Delegate, DelegatedDelivery, RecipientOutcome, ReplyState, Request, RequestState,
};

fn request(state: RequestState) -> Item {
    let replies = [ReplyState::Pending, ReplyState::Answered { seq: Seq(7), n: 1 }, ReplyState::Lost];
    let replies = replies.into_iter().enumerate();
    Item::Request(Request {
        id: MessageId { generation: Generation(0), seq: Seq(5), n: 2 },
        from: AgentNo(1),
        reply_to: Some(AgentNo(4)),
        correlation: "c".into(),
        timeout_ms: 30_000,
        first_delivery: DeliveryNo(17),
        recipients: replies
            .map(|(at, reply)| RecipientOutcome { recipient: AgentNo(at as u64 + 2).into(), reply })
            .collect(),
        answer_from: AnswerFrom::Chain,
        delegates: Vec::new(),
        delegated: Vec::new(),
        state,
    })
}

// Fails under: fields that are lost, or written for the requests of earlier logs.
#[test]
fn delegates_of_a_request_are_optional_fields() {
    let plain = request(RequestState::Waiting);
    let Item::Request(mut delegated) = plain.clone() else { panic!("not a request") };
    let pool = Delegate { recipient: Recipient::pool(PoolNo(3)), index: 2 };
    delegated.delegates = vec![Delegate { recipient: AgentNo(9).into(), index: 0 }, pool];
    delegated.answer_from = AnswerFrom::Asked;
    delegated.delegated = vec![DelegatedDelivery { delivery: DeliveryNo(18), index: 1 }];
    let delegated = Item::Request(delegated);
    let bytes = write_item(&delegated);
    expect!["010209008080808030020203011201"]
        .assert_eq(hex(&bytes).strip_prefix(&hex(&write_item(&plain))).unwrap());
    assert_eq!(read_item(ItemKind::Request, &bytes).unwrap(), delegated);
}

fn effects() -> Vec<Effect> {
    let bob = Agent {
        id: "bob".parse().unwrap(),
        name: "Bob".into(),
        role: AgentRole::Worker,
        capabilities: Vec::new(),
        supported_actions: Vec::new(),
        epoch: Epoch(9),
        removed: false,
        heartbeat_ms: 10_000,
        declaration: None,
        presence: Presence::default(),
    };
    let to = Destination::Agent("bob".parse().unwrap());
    let message =
        Message { if_unavailable: IfUnavailable::Redirect, ..Message::new(to, "review", payload("\"hi\"")) };
    let returned = |next| Effect::Returned {
        delivery: DeliveryNo(17),
        token: LeaseToken(0),
        cause: ReturnCause::Offline,
        reason: String::new(),
        next,
        origin: DeliveryOrigin { to: AgentNo(2).into(), seq: Seq(5), n: 0 },
    };
    let degraded = Health::Degraded("slow disk".into());
    let unreachable = RequestState::Failed { code: Code::Unavailable, reason: "offline".into() };
    vec![
        Effect::AgentRegistered { number: AgentNo(2), agent: bob },
        Effect::PresenceChanged { number: AgentNo(2), presence: Presence::default() },
        Effect::PresenceChanged {
            number: AgentNo(300),
            presence: Presence { status: AgentStatus::Offline, health: degraded, available: false },
        },
        Effect::Sent { message: Arc::new(message), part: 0, first: DeliveryNo(17), deliveries: Vec::new() },
        returned(ReturnOutcome::Redirected(AgentNo(3))),
        returned(ReturnOutcome::Dead),
        Effect::Changed { verb: Verb::RequestMade, item: request(RequestState::Waiting) },
        Effect::Changed { verb: Verb::RequestAnswered, item: request(RequestState::Answered) },
        Effect::Changed { verb: Verb::RequestTimedOut, item: request(RequestState::TimedOut) },
        Effect::Changed { verb: Verb::RequestCancelled, item: request(RequestState::Cancelled) },
        Effect::Changed { verb: Verb::RequestFailed, item: request(unreachable) },
        Effect::Changed { verb: Verb::RequestRedirected, item: request(RequestState::Waiting) },
    ]
}

#[test]
fn the_bytes_of_requests_and_presence_never_change() {
    let body = write_body(&[payload("\"hi\"")], &effects());
    expect!["0104f5f2034cf3d210549347a5415012de4215634d758b95bccaecc1782c51d38b7b0c030f0203626f620903426f62010000904e11050200000100110fac0203010009736c6f77206469736b05140011000303626f6206067265766965770b0428010809110004000403020500080811000400020205000f171e0300050201050163b0ea0111030200030107010402000f171f0300050201050163b0ea0111030200030107010402010f17200300050201050163b0ea0111030200030107010402020f17210300050201050163b0ea0111030200030107010402030f2b220300050201050163b0ea0111030200030107010402040b554e415641494c41424c45076f66666c696e650f17230300050201050163b0ea011103020003010701040200"].assert_eq(&hex(&body));
}

#[test]
fn requests_and_presence_round_trip() {
    let record = record_of(&[payload("\"hi\"")], &effects());
    assert_eq!(read_body(&record).unwrap().effects, effects());
    for presence in
        [Presence::default(), Presence { health: Health::Error("x".into()), ..Presence::default() }]
    {
        assert_eq!(read_presence(&write_presence(&presence)).unwrap(), presence);
    }
}

#[test]
fn results_of_requests_round_trip() {
    let id = MessageId { generation: Generation(1), seq: Seq(2), n: 3 };
    let results = vec![
        OpResult::Requested { id, first: DeliveryNo(9), count: 2, is_open: true },
        OpResult::Requested { id, first: DeliveryNo(9), count: 2, is_open: false },
        OpResult::Replied { id, late: false },
        OpResult::Replied { id, late: true },
    ];
    assert_eq!(read_results(&write_results(&results)).unwrap(), results);
}

proptest! {
    #[test]
    fn corrupt_requests_do_not_panic(at in 0usize..700, with: u8, cut in 0usize..700) {
        let mut record = record_of(&[payload("\"hi\"")], &effects());
        if let Some(byte) = record.body.get_mut(at) {
            *byte = with;
        }
        record.body.truncate(cut);
        let _ = read_body(&record);
        let _ = read_presence(&record.body);
    }
}
