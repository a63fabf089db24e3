//! Which spaces were made under which key. A new space begins with a record of its own, which no other space may know of: so
//! there is no commit that could bear the key, and the hub remembers it for as long as it runs.

use std::collections::VecDeque;

use quorate_core::limits::KEY_WINDOW_MS;
use quorate_core::{Code, IdempotencyKey, Mono, Principal, Refused, SpaceName};

/// Keys that are remembered; the oldest is forgotten first.
const KEYS_MAX: usize = 1_024;

/// Spaces that were made under a key, oldest first.
#[derive(Default)]
pub(crate) struct Made(VecDeque<Making>);

/// That somebody made a space.
pub(crate) struct Making {
    pub(crate) by: Principal,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) name: SpaceName,
    pub(crate) is_new: bool,
    pub(crate) at: Mono,
}

impl Made {
    /// What was said under a key before.
    pub(crate) fn answered(
        &mut self,
        by: &Principal,
        key: Option<&IdempotencyKey>,
        name: &SpaceName,
        now: Mono,
    ) -> Result<Option<bool>, Refused> {
        self.0.retain(|one| one.at.plus_ms(KEY_WINDOW_MS) > now);
        let known = self.0.iter().find(|one| key.is_some() && one.key.as_ref() == key && one.by == *by);
        match known {
            Some(known) if known.name != *name => Err(Refused::new(
                Code::Duplicate,
                format!("this idempotency key was used for the space {}", known.name),
            )
            .hint("use a new key for a new space")),
            known => Ok(known.map(|known| known.is_new)),
        }
    }

    pub(crate) fn note(&mut self, making: Making) {
        if making.key.is_some() {
            while self.0.len() >= KEYS_MAX {
                self.0.pop_front();
            }
            self.0.push_back(making);
        }
    }
}
