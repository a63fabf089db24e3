//! Sign-in codes: somebody who holds a token gets a code, and a page turns the code into a token of its own. A code is good
//! for a minute and once.
//!
//! They live in memory only: a hub that starts again has forgotten them, and whoever wants in asks for another one. The
//! token that comes of a code is made by a commit like every other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use quorate_core::{Code, IdempotencyKey, Mono, Now, Principal, Refused, Timestamp};
use subtle::ConstantTimeEq as _;

use crate::call::{Known, Pass};

/// Codes of one person that wait; a newer one takes the place of the oldest.
pub(crate) const CODES_PER_PERSON_MAX: usize = 8;
/// Codes of everybody that wait.
pub(crate) const CODES_MAX: usize = 1_024;

/// Characters of a code: 80 random bits.
const CHARS: usize = 16;
/// Crockford's letters: none looks like another.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Codes that wait.
#[derive(Default)]
pub(crate) struct Codes(Mutex<Vec<Waiting>>);

struct Waiting {
    text: [u8; CHARS],
    until: Now,
    whose: Whose,
}

/// Who asked for a code.
pub(crate) struct Whose {
    pub(crate) known: Known,
    pub(crate) pass: Pass,
    /// Under which the code was asked for, if any.
    pub(crate) key: Option<IdempotencyKey>,
}

impl Whose {
    fn is(&self, known: &Known) -> bool {
        self.known.home == known.home && self.known.principal == known.principal
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.known.principal
    }
}

impl Codes {
    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a code, made of random bits, and shows it and how long it is good. Asked again under the same key it
    /// shows the same one.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if too many wait.
    pub(crate) fn add(
        &self,
        bits: [u8; 16],
        whose: Whose,
        now: Mono,
        until: Now,
    ) -> Result<(String, Timestamp), Refused> {
        let mut waiting = self.lock();
        waiting.retain(|code| code.until.mono > now);
        let again = |code: &&Waiting| {
            whose.key.is_some() && code.whose.key == whose.key && code.whose.is(&whose.known)
        };
        if let Some(code) = waiting.iter().find(again) {
            return Ok((in_groups(&code.text), code.until.wall));
        }
        let own = waiting.iter().filter(|code| code.whose.is(&whose.known)).count();
        if own >= CODES_PER_PERSON_MAX
            && let Some(oldest) = waiting.iter().position(|code| code.whose.is(&whose.known))
        {
            waiting.remove(oldest);
        }
        if waiting.len() >= CODES_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many sign-in codes wait to be used")
                .limit(CODES_MAX as u64)
                .passes()
                .hint("try again in a minute: codes that are not used go by themselves"));
        }
        let text = text_of(bits);
        waiting.push(Waiting { text, until, whose });
        Ok((in_groups(&text), until.wall))
    }

    /// Takes a code: it is good once. All of them are looked at, each in the same time whatever it is like.
    pub(crate) fn take(&self, shown: &str, now: Mono) -> Option<Whose> {
        let text = read(shown)?;
        let mut waiting = self.lock();
        waiting.retain(|code| code.until.mono > now);
        let mut found = None;
        for (at, code) in waiting.iter().enumerate() {
            if bool::from(code.text.ct_eq(&text)) {
                found = Some(at);
            }
        }
        found.map(|at| waiting.remove(at).whose)
    }
}

fn text_of(bits: [u8; 16]) -> [u8; CHARS] {
    bits.map(|byte| LETTERS[usize::from(byte % 32)])
}

fn in_groups(text: &[u8; CHARS]) -> String {
    let groups: Vec<_> = text.chunks(4).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    groups.join("-")
}

/// A code as people write it: in small letters, without hyphens, with O for 0.
fn read(shown: &str) -> Option<[u8; CHARS]> {
    // No code is longer, however it is written.
    if shown.len() > 4 * CHARS {
        return None;
    }
    let letters = shown.bytes().filter(|byte| !matches!(byte, b'-' | b' '));
    let letters = letters.map(|byte| match byte.to_ascii_uppercase() {
        b'O' => b'0',
        b'I' | b'L' => b'1',
        letter => letter,
    });
    letters.collect::<Vec<_>>().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{in_groups, read, text_of};

    #[test]
    fn a_code_is_read_as_people_write_it() {
        let text = text_of([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 32, 63, 255, 254]);
        let shown = in_groups(&text);
        assert_eq!(shown, "0123-4567-89AB-0ZZY");
        for written in ["0123-4567-89AB-0ZZY", "o123456789ab0zzy", "OI23 4567 89ab OZZY"] {
            assert_eq!(read(written), Some(text), "{written}");
        }
        for wrong in ["", "0123", "0123-4567-89AB-0ZZYY"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(read(&"0".repeat(1_000_000)), None);
    }
}
