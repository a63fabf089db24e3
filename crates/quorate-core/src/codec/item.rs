//! Encoding of items, identical in the log and in their rows.

mod approval;
mod budget;
mod lock;
mod policy;
mod pool;
mod procedure;
mod request;
mod session;
mod snapshot;
mod subscription;
mod task;
mod token;

use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Writer};
use crate::item::{Item, ItemKind};

pub(super) use token::{read_id as read_token_id, write_bearer, write_grants, write_id as write_token_id};

/// Encodes the state of an item.
pub(super) fn write(out: &mut Writer, item: &Item) {
    match item {
        Item::Policy(policy) => policy::write(out, policy),
        Item::Lock(lock) => lock::write(out, lock),
        Item::Session(session) => session::write(out, session),
        Item::Task(task) => task::write(out, task),
        Item::Snapshot(snapshot) => snapshot::write(out, snapshot),
        Item::Budget(budget) => budget::write(out, budget),
        Item::Subscription(subscription) => subscription::write(out, subscription),
        Item::Pool(pool) => pool::write(out, pool),
        Item::Request(request) => request::write(out, request),
        Item::Token(token) => token::write(out, token),
        Item::Procedure(procedure) => procedure::write(out, procedure),
        Item::Approval(approval) => approval::write(out, approval),
    }
}

/// Decodes the state of an item.
pub(super) fn read(kind: ItemKind, input: &mut Reader<'_>) -> Result<Item, DecodeError> {
    Ok(match kind {
        ItemKind::Policy => Item::Policy(policy::read(input)?),
        ItemKind::Lock => Item::Lock(lock::read(input)?),
        ItemKind::Session => Item::Session(session::read(input)?),
        ItemKind::Task => Item::Task(task::read(input)?),
        ItemKind::Snapshot => Item::Snapshot(snapshot::read(input)?),
        ItemKind::Budget => Item::Budget(budget::read(input)?),
        ItemKind::Subscription => Item::Subscription(Box::new(subscription::read(input)?)),
        ItemKind::Pool => Item::Pool(pool::read(input)?),
        ItemKind::Request => Item::Request(request::read(input)?),
        ItemKind::Token => Item::Token(Arc::new(token::read(input)?)),
        ItemKind::Procedure => Item::Procedure(procedure::read(input)?),
        ItemKind::Approval => Item::Approval(Box::new(approval::read(input)?)),
    })
}

/// Encodes an item for its row.
#[must_use]
pub fn write_item(item: &Item) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(128));
    write(&mut out, item);
    out.0
}

/// Decodes an item from its row.
///
/// # Errors
/// If the bytes cannot be decoded by this release.
pub fn read_item(kind: ItemKind, bytes: &[u8]) -> Result<Item, DecodeError> {
    let mut input = Reader::new(bytes);
    let item = read(kind, &mut input)?;
    input.end()?;
    Ok(item)
}
