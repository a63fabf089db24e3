//! Idempotency keys of `POST /v1/spaces`. The commit that creates a space belongs to the new space and must not
//! reveal callers of other spaces, so no commit exists that could store the key. It is kept in memory until the hub
//! stops.

use std::collections::VecDeque;

use quorate_core::limits::KEY_WINDOW_MS;
use quorate_core::{Code, IdempotencyKey, Mono, Principal, Refused, SpaceName};

/// Maximum number of idempotency keys of `POST /v1/spaces`. The oldest is evicted first.
const KEYS_MAX: usize = 1_024;

/// Spaces created with an idempotency key, oldest first.
#[derive(Default)]
pub(crate) struct CreatedSpaces(VecDeque<CreatedSpace>);

/// A created space.
pub(crate) struct CreatedSpace {
    pub(crate) principal: Principal,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) name: SpaceName,
    pub(crate) is_new: bool,
    pub(crate) at: Mono,
}

impl CreatedSpaces {
    /// Returns the result of an earlier call with the same key.
    pub(crate) fn replayed(
        &mut self,
        principal: &Principal,
        key: Option<&IdempotencyKey>,
        name: &SpaceName,
        now: Mono,
    ) -> Result<Option<bool>, Refused> {
        self.0.retain(|created| created.at.plus_ms(KEY_WINDOW_MS) > now);
        let previous = self
            .0
            .iter()
            .find(|created| key.is_some() && created.key.as_ref() == key && created.principal == *principal);
        match previous {
            Some(previous) if previous.name != *name => Err(Refused::new(
                Code::Duplicate,
                format!("this idempotency key was already used for space {}", previous.name),
            )
            .hint("use a new idempotency key")),
            previous => Ok(previous.map(|previous| previous.is_new)),
        }
    }

    pub(crate) fn record(&mut self, created: CreatedSpace) {
        if created.key.is_some() {
            while self.0.len() >= KEYS_MAX {
                self.0.pop_front();
            }
            self.0.push_back(created);
        }
    }
}
