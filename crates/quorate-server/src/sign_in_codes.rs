//! Sign-in codes: a principal gets a code with its token, and the web UI exchanges the code for a token of its own. A
//! code is valid for a minute and can be used once.
//!
//! Codes are kept in memory only: after a restart of the hub, request a new one. The token issued for a code is
//! created by a commit like any other token.

use std::sync::{Mutex, MutexGuard, PoisonError};

use quorate_core::{Code, IdempotencyKey, Mono, Now, Principal, Refused, Timestamp};
use subtle::ConstantTimeEq as _;

use crate::call::{Authenticated, Credential};

/// Maximum number of pending codes of one principal; a new code replaces the oldest.
pub(crate) const CODES_PER_PRINCIPAL_MAX: usize = 8;
/// Maximum number of pending codes of one space.
pub(crate) const CODES_PER_SPACE_MAX: usize = 1_024;

/// Characters of a code: 80 random bits.
const CHARS: usize = 16;
/// Crockford's base32 alphabet, which has no ambiguous characters.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Pending codes.
#[derive(Default)]
pub(crate) struct SignInCodes(Mutex<Vec<PendingCode>>);

struct PendingCode {
    text: [u8; CHARS],
    expires_at: Now,
    owner: CodeOwner,
}

/// Principal that requested a code.
pub(crate) struct CodeOwner {
    pub(crate) authenticated: Authenticated,
    pub(crate) credential: Credential,
    /// Idempotency key of the request for the code.
    pub(crate) key: Option<IdempotencyKey>,
}

impl CodeOwner {
    fn is_same_principal(&self, other: &Authenticated) -> bool {
        self.authenticated.token_space == other.token_space && self.authenticated.principal == other.principal
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.authenticated.principal
    }
}

impl SignInCodes {
    fn lock(&self) -> MutexGuard<'_, Vec<PendingCode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a code from random bits. Returns it with its expiry. A replay with the same idempotency key returns
    /// the same code.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if too many codes are pending.
    pub(crate) fn add(
        &self,
        bits: [u8; 16],
        owner: CodeOwner,
        now: Mono,
        expires_at: Now,
    ) -> Result<(String, Timestamp), Refused> {
        let mut pending = self.lock();
        pending.retain(|code| code.expires_at.mono > now);
        let is_replay = |code: &&PendingCode| {
            owner.key.is_some()
                && code.owner.key == owner.key
                && code.owner.is_same_principal(&owner.authenticated)
        };
        if let Some(code) = pending.iter().find(is_replay) {
            return Ok((format_code(&code.text), code.expires_at.wall));
        }
        let own = pending.iter().filter(|code| code.owner.is_same_principal(&owner.authenticated)).count();
        if own >= CODES_PER_PRINCIPAL_MAX
            && let Some(oldest) =
                pending.iter().position(|code| code.owner.is_same_principal(&owner.authenticated))
        {
            pending.remove(oldest);
        }
        let space = owner.authenticated.token_space;
        let of_space = pending.iter().filter(|code| code.owner.authenticated.token_space == space).count();
        if of_space >= CODES_PER_SPACE_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many pending sign-in codes in this space")
                .limit(CODES_PER_SPACE_MAX as u64)
                .retryable()
                .hint("try again in a minute; unused codes expire"));
        }
        let text = encode(bits);
        pending.push(PendingCode { text, expires_at, owner });
        Ok((format_code(&text), expires_at.wall))
    }

    /// Redeems a code, which can be used once. Compares all pending codes in constant time.
    pub(crate) fn redeem(&self, input: &str, now: Mono) -> Option<CodeOwner> {
        let text = parse(input)?;
        let mut pending = self.lock();
        pending.retain(|code| code.expires_at.mono > now);
        let mut found = None;
        for (index, code) in pending.iter().enumerate() {
            if bool::from(code.text.ct_eq(&text)) {
                found = Some(index);
            }
        }
        found.map(|index| pending.remove(index).owner)
    }
}

fn encode(bits: [u8; 16]) -> [u8; CHARS] {
    bits.map(|byte| ALPHABET[usize::from(byte % 32)])
}

fn format_code(text: &[u8; CHARS]) -> String {
    let groups: Vec<_> = text.chunks(4).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    groups.join("-")
}

/// Parses a code as typed by a person: lower case, without hyphens, O for 0.
fn parse(input: &str) -> Option<[u8; CHARS]> {
    // Bounds the work for a hostile input.
    if input.len() > 4 * CHARS {
        return None;
    }
    let chars = input.bytes().filter(|byte| !matches!(byte, b'-' | b' '));
    let chars = chars.map(|byte| match byte.to_ascii_uppercase() {
        b'O' => b'0',
        b'I' | b'L' => b'1',
        other => other,
    });
    chars.collect::<Vec<_>>().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{encode, format_code, parse};

    #[test]
    fn a_code_is_parsed_leniently() {
        let text = encode([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 32, 63, 255, 254]);
        let formatted = format_code(&text);
        assert_eq!(formatted, "0123-4567-89AB-0ZZY");
        for input in ["0123-4567-89AB-0ZZY", "o123456789ab0zzy", "OI23 4567 89ab OZZY"] {
            assert_eq!(parse(input), Some(text), "{input}");
        }
        for input in ["", "0123", "0123-4567-89AB-0ZZYY"] {
            assert_eq!(parse(input), None, "{input}");
        }
        assert_eq!(parse(&"0".repeat(1_000_000)), None);
    }
}
