//! A token in words and numbers. The digest is left out: it is in the body, and helps nobody who reads.

use crate::AccessToken;

use super::{Fields, text, time};

pub(super) fn fields(token: &AccessToken) -> Fields {
    let mut fields = vec![("token", text(token.id)), ("role", text(token.bearer.role()))];
    fields.extend(token.bearer.agent().map(|agent| ("agent", text(agent))));
    fields.push(("name", text(&token.name)));
    fields.extend(token.expires_at.map(|at| ("expiresAt", time(at))));
    fields.extend([("by", text(&token.created_by)), ("at", time(token.created_at))]);
    fields
}
