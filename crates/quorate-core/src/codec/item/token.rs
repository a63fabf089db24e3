//! Encoding of access tokens: fixed fields, then numbered optional ones. The secret is not part of it.

use crate::access_token::{AccessToken, Bearer, TokenDigest, TokenRole, TokenState};
use crate::codec::effect::{read_role, role_number};
use crate::codec::{DecodeError, Reader, Writer};
use crate::grants::{Granted, Grants};
use crate::ids::{Generation, Seq, TokenId};
use crate::time::Timestamp;

/// The number of role `agent`; the others are [`TokenRole::number`].
const AGENT: u64 = 1;

/// The number of the optional field `parent`.
const PARENT: u64 = 1;
/// The number of the optional field `grants`.
const GRANTS: u64 = 2;

pub(super) fn write(out: &mut Writer, token: &AccessToken) {
    write_id(out, token.id);
    out.0.extend_from_slice(&token.digest.0);
    write_bearer(out, &token.bearer);
    out.text(&token.name);
    out.option(token.expires_at.map(|at| at.0));
    out.text(&token.created_by);
    out.number(token.created_at.0);
    out.number(match token.state {
        TokenState::Active => 0,
        TokenState::Ended => 1,
    });
    if let Some(parent) = token.parent {
        out.number(PARENT);
        write_id(out, parent);
    }
    if token.grants != Grants::default() {
        out.number(GRANTS);
        write_grants(out, &token.grants);
    }
}

pub(in crate::codec) fn write_id(out: &mut Writer, id: TokenId) {
    out.numbers(&[id.generation.0, id.seq.0, u64::from(id.n)]);
}

pub(in crate::codec) fn write_bearer(out: &mut Writer, bearer: &Bearer) {
    match bearer {
        Bearer::Agent(agent) => {
            out.number(AGENT);
            out.text(agent);
        }
        Bearer::Holder(role) => out.number(u64::from(role.number())),
    }
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<AccessToken, DecodeError> {
    let mut token = AccessToken {
        id: read_id(input)?,
        digest: TokenDigest(input.array()?),
        bearer: match input.number()? {
            AGENT => Bearer::Agent(input.id()?),
            number => match u8::try_from(number).ok().and_then(TokenRole::from_number) {
                Some(role) => Bearer::Holder(role),
                None => return input.expected("the role of a token"),
            },
        },
        name: input.id()?,
        expires_at: input.option()?.map(Timestamp),
        created_by: input.text()?.into(),
        created_at: Timestamp(input.number()?),
        state: match input.number()? {
            0 => TokenState::Active,
            1 => TokenState::Ended,
            _ => return input.expected("the state of a token"),
        },
        parent: None,
        grants: Grants::default(),
    };
    while !input.is_done() {
        match input.number()? {
            PARENT => token.parent = Some(read_id(input)?),
            GRANTS => token.grants = read_grants(input)?,
            _ => return input.expected("a known field of a token"),
        }
    }
    Ok(token)
}

pub(in crate::codec) fn read_id(input: &mut Reader<'_>) -> Result<TokenId, DecodeError> {
    Ok(TokenId { generation: Generation(input.number()?), seq: Seq(input.number()?), n: input.narrow()? })
}

pub(in crate::codec) fn write_grants(out: &mut Writer, grants: &Grants) {
    write_granted(out, &grants.roles, |out, role| out.number(role_number(*role)));
    write_granted(out, &grants.capabilities, |out, capability| out.text(capability));
}

fn write_granted<T>(out: &mut Writer, granted: &Granted<T>, write_one: impl Fn(&mut Writer, &T)) {
    match granted {
        Granted::ByPolicy => out.number(0),
        Granted::All => out.number(1),
        Granted::Only(list) => {
            out.numbers(&[2, list.len() as u64]);
            list.iter().for_each(|one| write_one(out, one));
        }
    }
}

fn read_grants(input: &mut Reader<'_>) -> Result<Grants, DecodeError> {
    let roles = read_granted(input, read_role)?;
    Ok(Grants { roles, capabilities: read_granted(input, |input| Ok(input.text()?.to_owned()))? })
}

fn read_granted<'a, T>(
    input: &mut Reader<'a>,
    read_one: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Granted<T>, DecodeError> {
    Ok(match input.number()? {
        0 => Granted::ByPolicy,
        1 => Granted::All,
        2 => {
            let count = input.count(1)?;
            Granted::Only((0..count).map(|_| read_one(input)).collect::<Result<_, _>>()?)
        }
        _ => return input.expected("the grants of a token"),
    })
}
