//! Who is let in, and what whoever came in may do.

use std::sync::Arc;

use quorate_core::{
    AccessToken, AgentId, Bearer, Code, CreateToken, Item, ItemKey, ItemKind, Op, OpResult, Principal,
    Refused, Timestamp, TokenId, TokenRole, TokenState, limits,
};

use crate::reference::agents::unknown;
use crate::reference::space::Space;
use crate::reference::step::Step;

impl Space {
    pub(super) fn tokens(&self) -> impl Iterator<Item = &Arc<AccessToken>> {
        self.items.values().filter_map(|item| match item {
            Item::Token(token) => Some(token),
            _ => None,
        })
    }

    /// When the next token expires.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.tokens().filter_map(|token| token.expires_at).min()
    }
}

impl Step<'_> {
    /// Agents work for themselves; operators keep the work going, admins lay down the rules, the hub alone does what time
    /// brings about, and everybody else looks.
    pub(super) fn may(&self, op: &Op) -> Result<(), Refused> {
        let by_itself = matches!(op, Op::Sweep | Op::BringHistory(_) | Op::Heard { .. });
        let looks = matches!(op, Op::Inspect(_));
        let keeps_going = match op {
            Op::Redrive { .. } => true,
            Op::Purge { agent } => agent.as_str().starts_with("can:"),
            Op::CreateToken(new) => matches!(new.bearer, Bearer::Agent(_)),
            _ => false,
        };
        let decides = matches!(op, Op::DecideApproval(_));
        let rules = match op {
            Op::SetPolicy(_) | Op::Erase(_) | Op::RevokeToken { .. } => true,
            Op::CreateToken(_) => !keeps_going,
            Op::Send { message, .. } => message.from.is_none(),
            Op::Request(ask) => ask.message.from.is_none(),
            _ => false,
        };
        let may = match &self.commit.principal {
            Principal::System => true,
            Principal::Agent(_) => !(by_itself || looks || keeps_going || rules || decides),
            Principal::Holder { role: TokenRole::Admin, .. } => !by_itself,
            Principal::Holder { role: TokenRole::Operator, .. } => !(by_itself || rules || decides),
            Principal::Holder { role: TokenRole::Approver, .. } => looks || decides,
            Principal::Holder { .. } => looks,
        };
        if may { Ok(()) } else { Err(Refused::new(Code::Forbidden, "this is for others")) }
    }

    pub(super) fn create_token(&mut self, new: &CreateToken) -> Result<OpResult, Refused> {
        if let Bearer::Agent(agent) = &new.bearer
            && self.space.agent_number(agent).is_none()
        {
            return Err(unknown(agent));
        }
        if new.expires_at.is_some_and(|at| at <= self.now.wall) {
            return Err(Refused::new(Code::Invalid, "it is expired already"));
        }
        if self.space.tokens().any(|token| token.digest == new.digest) {
            return Err(Refused::new(Code::Duplicate, "the secret is in use"));
        }
        if self.space.tokens().count() >= limits::TOKENS_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many tokens").limit(limits::TOKENS_MAX as u64));
        }
        let id = TokenId { generation: self.space.generation(), seq: self.seq, n: self.tokens };
        self.tokens += 1;
        self.set_item(Item::Token(Arc::new(AccessToken {
            id,
            digest: new.digest,
            bearer: new.bearer.clone(),
            name: new.name.clone(),
            expires_at: new.expires_at,
            created_by: self.commit.principal.to_string(),
            created_at: self.now.wall,
            state: TokenState::Active,
        })));
        Ok(OpResult::TokenCreated { id, digest: new.digest })
    }

    pub(super) fn revoke_token(&mut self, id: TokenId) -> Result<OpResult, Refused> {
        if self.space.remove_item(&ItemKey::new(ItemKind::Token, id.to_string())).is_none() {
            return Err(Refused::new(Code::NotFound, format!("there is no {id}")));
        }
        self.changed = true;
        Ok(OpResult::Done)
    }

    pub(super) fn revoke_tokens_of(&mut self, agent: &AgentId) {
        self.forget_tokens(|token| token.bearer.agent() == Some(agent));
    }

    pub(super) fn sweep_tokens(&mut self) {
        let now = self.now.wall;
        self.forget_tokens(|token| token.is_expired(now));
    }

    fn forget_tokens(&mut self, is: impl Fn(&AccessToken) -> bool) {
        let tokens = self.space.tokens().filter(|token| is(token));
        let ended: Vec<_> = tokens.map(|token| Item::Token(Arc::clone(token)).key()).collect();
        self.changed |= !ended.is_empty();
        ended.iter().for_each(|key| drop(self.space.remove_item(key)));
    }
}
