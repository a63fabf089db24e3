//! Golden tests of the encoding of access tokens.

use super::*;
use crate::access_token::{AccessToken, Bearer, CreateToken, TokenDigest, TokenRole, TokenState};
use crate::commit::{Commit, Op, OpResult, Principal};
use crate::grants::{Granted, Grants};
use crate::ids::TokenId;
use crate::item::{Item, ItemKind, Verb};
use crate::registry::AgentRole;

const ID: TokenId = TokenId { generation: Generation(1), seq: Seq(300), n: 2 };

fn token(bearer: Bearer, expires_at: Option<Timestamp>, state: TokenState) -> Item {
    Item::Token(Arc::new(AccessToken {
        id: ID,
        digest: TokenDigest([0xab; 32]),
        bearer,
        name: "ci@example.com".parse().unwrap(),
        expires_at,
        created_by: "admin:anna".into(),
        created_at: Timestamp(1_800_000_000_000),
        state,
        parent: None,
        grants: Grants::default(),
    }))
}

fn effects() -> Vec<Effect> {
    let bob = Bearer::Agent("bob".parse().unwrap());
    let until = Some(Timestamp(1_800_000_060_000));
    let changed = |verb, item| Effect::Changed { verb, item };
    { TokenRole::ALL.iter() }
        .map(|role| changed(Verb::TokenCreated, token(Bearer::Holder(*role), None, TokenState::Active)))
        .chain([
            changed(Verb::TokenCreated, token(bob.clone(), until, TokenState::Active)),
            changed(Verb::TokenRevoked, token(bob.clone(), until, TokenState::Ended)),
            changed(Verb::TokenExpired, token(bob, until, TokenState::Ended)),
        ])
        .collect()
}

#[test]
fn i19_the_bytes_of_tokens_never_change() {
    expect!["00080f49640901ac0202abababababababababababababababababababababababababababababababab020e6369406578616d706c652e636f6d000a61646d696e3a616e6e6180a0f1c2b134000f49640901ac0202abababababababababababababababababababababababababababababababab030e6369406578616d706c652e636f6d000a61646d696e3a616e6e6180a0f1c2b134000f49640901ac0202abababababababababababababababababababababababababababababababab040e6369406578616d706c652e636f6d000a61646d696e3a616e6e6180a0f1c2b134000f49640901ac0202abababababababababababababababababababababababababababababababab050e6369406578616d706c652e636f6d000a61646d696e3a616e6e6180a0f1c2b134000f49640901ac0202abababababababababababababababababababababababababababababababab060e6369406578616d706c652e636f6d000a61646d696e3a616e6e6180a0f1c2b134000f52640901ac0202abababababababababababababababababababababababababababababababab0103626f620e6369406578616d706c652e636f6de1f4f4c2b1340a61646d696e3a616e6e6180a0f1c2b134000f52650901ac0202abababababababababababababababababababababababababababababababab0103626f620e6369406578616d706c652e636f6de1f4f4c2b1340a61646d696e3a616e6e6180a0f1c2b134010f52660901ac0202abababababababababababababababababababababababababababababababab0103626f620e6369406578616d706c652e636f6de1f4f4c2b1340a61646d696e3a616e6e6180a0f1c2b13401"].assert_eq(&hex(&write_body(&[], &effects())));
    let verbs = [Verb::TokenCreated, Verb::TokenRevoked, Verb::TokenExpired].map(Verb::number);
    assert_eq!((ItemKind::Token.number(), verbs), (9, [100, 101, 102]));
}

#[test]
fn i19_the_bytes_of_web_sessions_never_change() {
    let Item::Token(token) = token(Bearer::Holder(TokenRole::Viewer), None, TokenState::Active) else {
        panic!("a token")
    };
    let parent = Some(TokenId { generation: Generation(1), seq: Seq(299), n: 1 });
    let session = Item::Token(Arc::new(AccessToken { parent, ..AccessToken::clone(&token) }));
    let bytes = write_item(&session);
    let (own, optional) = bytes.split_at(write_item(&Item::Token(token.clone())).len());
    assert_eq!(own, write_item(&Item::Token(token)));
    assert_eq!(hex(optional), "0101ab0201");
    assert_eq!(read_item(ItemKind::Token, &bytes).unwrap(), session);
    assert!(read_item(ItemKind::Token, &[own, &[3, 0]].concat()).is_err(), "an unknown field");
}

fn recorded_grants() -> Grants {
    Grants {
        roles: Granted::Only(vec![AgentRole::Worker, AgentRole::Coordinator]),
        capabilities: Granted::Only(vec!["sum".into()]),
    }
}

// Fails under: a token without grants that gets other bytes than before there were grants; a changed number of the field.
#[test]
fn i19_the_bytes_of_grants_never_change() {
    let Item::Token(token) = token(Bearer::Agent("bob".parse().unwrap()), None, TokenState::Active) else {
        panic!("a token")
    };
    let own = write_item(&Item::Token(token.clone()));
    let parent = Some(TokenId { generation: Generation(1), seq: Seq(299), n: 1 });
    let all = Grants { roles: Granted::All, ..Grants::default() };
    for (parent, grants, expected) in [
        (None, recorded_grants(), "02020201000201 0373756d"),
        (None, all.clone(), "020100"),
        (None, Grants { capabilities: Granted::Only(vec![]), ..Grants::default() }, "02000200"),
        (parent, all, "0101ab0201 020100"),
    ] {
        let item = Item::Token(Arc::new(AccessToken { parent, grants, ..AccessToken::clone(&token) }));
        let bytes = write_item(&item);
        assert_eq!(hex(&bytes[own.len()..]), expected.replace(' ', ""));
        assert_eq!((&bytes[..own.len()], read_item(ItemKind::Token, &bytes)), (&own[..], Ok(item)));
    }
    for wrong in [&[2][..], &[2, 3, 0], &[2, 2, 1, 9, 0], &[2, 0, 2, 200, 1]] {
        assert!(read_item(ItemKind::Token, &[&own[..], wrong].concat()).is_err(), "{wrong:?}");
    }
}

#[test]
fn i19_tokens_round_trip() {
    assert_eq!(read_body(&record_of(&[], &effects())).unwrap().effects, effects());
    let results = vec![OpResult::TokenCreated { id: ID, digest: TokenDigest([0xab; 32]) }];
    assert_eq!(read_results(&write_results(&results)).unwrap(), results);
    assert_eq!(ID.to_string().parse::<TokenId>().unwrap(), ID);
}

// Fails under: a fingerprint that covers the secret, or omits another field.
#[test]
fn i19_a_retried_commit_may_differ_only_in_its_secret() {
    let key = |ops| Commit::new(Principal::System, ops).keyed("k".parse().unwrap()).key;
    let create = CreateToken {
        digest: TokenDigest([1; 32]),
        bearer: Bearer::Agent("bob".parse().unwrap()),
        name: "ci".parse().unwrap(),
        expires_at: None,
        parent: None,
        grants: Grants::default(),
    };
    let first = key(vec![Op::CreateToken(create.clone())]);
    let retry = CreateToken { digest: TokenDigest([2; 32]), ..create.clone() };
    assert_eq!(key(vec![Op::CreateToken(retry)]), first);
    let others = [
        CreateToken { bearer: Bearer::Agent("eve".parse().unwrap()), ..create.clone() },
        CreateToken { bearer: Bearer::Holder(TokenRole::Admin), ..create.clone() },
        CreateToken { name: "cd".parse().unwrap(), ..create.clone() },
        CreateToken { expires_at: Some(Timestamp(0)), ..create.clone() },
        CreateToken { parent: Some(ID), ..create.clone() },
        CreateToken { grants: recorded_grants(), ..create },
    ];
    for other in others {
        assert_ne!(key(vec![Op::CreateToken(other)]), first);
    }
    assert_ne!(
        key(vec![Op::RevokeToken { token: ID }]),
        key(vec![Op::RevokeToken { token: TokenId { n: 3, ..ID } }])
    );
}

proptest! {
    #[test]
    fn corrupt_tokens_do_not_panic(at in 0usize..700, with: u8, cut in 0usize..700) {
        let mut record = record_of(&[], &effects());
        if let Some(byte) = record.body.get_mut(at) {
            *byte = with;
        }
        record.body.truncate(cut);
        let _ = read_body(&record);
        let _ = read_item(ItemKind::Token, &record.body);
        let _ = read_results(&record.body);
    }
}
