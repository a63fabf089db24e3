//! Access tokens, and the permissions of principals.

use std::sync::Arc;

use quorate_core::{
    AccessToken, AgentId, Bearer, Code, CreateToken, Item, Message, Op, OpResult, Principal, Refused,
    Timestamp, TokenId, TokenRole, TokenState, limits,
};

use crate::reference::agents::unknown_agent;
use crate::reference::space::Space;
use crate::reference::transaction::Transaction;

impl Space {
    pub(super) fn tokens(&self) -> impl Iterator<Item = &Arc<AccessToken>> {
        self.items.values().filter_map(|item| match item {
            Item::Token(token) => Some(token),
            _ => None,
        })
    }

    /// Returns the earliest expiry of a token.
    pub(super) fn earliest_token_expiry(&self) -> Option<Timestamp> {
        self.tokens().filter_map(|token| token.expires_at).min()
    }
}

/// Whether the origin of a message is reserved for the hub.
fn is_from_webhook(message: &Message) -> bool {
    let origin = message.origin.as_deref().unwrap_or_default();
    origin.trim_start().to_lowercase().starts_with("webhook:")
}

impl Transaction<'_> {
    /// Checks the permission for an operation. Agents act for themselves. Operators also redrive, purge pools and create
    /// tokens of agents. Admins may do everything except run timers, which only the hub does. Approvers decide
    /// approvals. Other roles are read-only.
    pub(super) fn check_permission(&self, op: &Op) -> Result<(), Refused> {
        let hub_only = match op {
            Op::Sweep | Op::Backfill(_) | Op::HeartbeatBatch { .. } | Op::ConnectionClosed { .. } => true,
            Op::Send { message, .. } => is_from_webhook(message),
            Op::Request(request) => is_from_webhook(&request.message),
            _ => false,
        };
        let reads = matches!(op, Op::Inspect(_));
        let operates = match op {
            Op::Redrive { .. } => true,
            Op::Purge { agent } => agent.as_str().starts_with("can:"),
            Op::CreateToken(new) => matches!(new.bearer, Bearer::Agent(_)),
            _ => false,
        };
        let decides = matches!(op, Op::DecideApproval(_));
        let administers = match op {
            Op::SetPolicy(_) | Op::ErasePayload(_) | Op::RevokeToken { .. } => true,
            Op::CreateToken(_) => !operates,
            Op::Send { message, .. } => message.from.is_none(),
            Op::Request(request) => request.message.from.is_none(),
            _ => false,
        };
        let allowed = match &self.commit.principal {
            Principal::System => true,
            Principal::Agent(_) => !(hub_only || reads || operates || administers || decides),
            Principal::Holder { role: TokenRole::Admin, .. } => !hub_only,
            Principal::Holder { role: TokenRole::Operator, .. } => !(hub_only || administers || decides),
            Principal::Holder { role: TokenRole::Approver, .. } => reads || decides,
            Principal::Holder { .. } => reads,
        };
        if allowed {
            Ok(())
        } else {
            Err(Refused::new(Code::Forbidden, "the principal lacks the permission"))
        }
    }

    pub(super) fn create_token(&mut self, new: &CreateToken) -> Result<OpResult, Refused> {
        if let Bearer::Agent(agent) = &new.bearer
            && self.space.agent_number(agent).is_none()
        {
            return Err(unknown_agent(agent));
        }
        if new.expires_at.is_some_and(|at| at <= self.now.wall) {
            return Err(Refused::new(Code::Invalid, "the expiry is in the past"));
        }
        if self.space.tokens().any(|token| token.digest == new.digest) {
            return Err(Refused::new(Code::Duplicate, "the secret is already in use"));
        }
        if self.space.tokens().count() >= limits::TOKENS_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many tokens").limit(limits::TOKENS_MAX as u64));
        }
        if let Some(parent) = new.parent {
            match self.space.tokens().find(|token| token.id == parent).map(|token| token.parent) {
                None => return Err(Refused::new(Code::NotFound, format!("unknown token {parent}"))),
                Some(Some(_)) => return Err(Refused::new(Code::Forbidden, "the parent is a web session")),
                Some(None) => {}
            }
            let sessions = self.space.tokens().filter(|token| token.parent == Some(parent));
            let mut sessions: Vec<_> = sessions.map(|token| token.id).collect();
            sessions.sort();
            if sessions.len() >= limits::WEB_SESSIONS_PER_TOKEN_MAX {
                self.remove_tokens(|token| token.id == sessions[0]);
            }
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
            parent: new.parent,
            grants: self.new_grants(new),
        })));
        Ok(OpResult::TokenCreated { id, digest: new.digest })
    }

    pub(super) fn revoke_token(&mut self, id: TokenId) -> Result<OpResult, Refused> {
        if !self.space.tokens().any(|token| token.id == id) {
            return Err(Refused::new(Code::NotFound, format!("unknown token {id}")));
        }
        self.remove_tokens(|token| token.id == id);
        Ok(OpResult::Done)
    }

    pub(super) fn revoke_tokens_of(&mut self, agent: &AgentId) {
        self.remove_tokens(|token| token.bearer.agent() == Some(agent));
    }

    pub(super) fn sweep_tokens(&mut self) {
        let now = self.now.wall;
        self.remove_tokens(|token| token.is_expired(now));
    }

    /// Removes tokens, and the web sessions that were created with them.
    fn remove_tokens(&mut self, matches: impl Fn(&AccessToken) -> bool) {
        let ended: Vec<_> =
            self.space.tokens().filter(|token| matches(token)).map(|token| token.id).collect();
        let ends = |token: &&Arc<AccessToken>| {
            ended.contains(&token.id) || token.parent.is_some_and(|parent| ended.contains(&parent))
        };
        let ended: Vec<_> =
            self.space.tokens().filter(ends).map(|token| Item::Token(Arc::clone(token)).key()).collect();
        self.changed |= !ended.is_empty();
        ended.iter().for_each(|key| drop(self.space.remove_item(key)));
    }
}
