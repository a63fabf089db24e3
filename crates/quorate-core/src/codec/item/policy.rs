//! The bytes of a policy.

use crate::codec::{Reader, Unreadable, Writer};
use crate::policy::{Policy, Preset};

pub(super) fn write(out: &mut Writer, policy: &Policy) {
    out.number(match policy.preset {
        Preset::Mesh => 0,
        Preset::Supervised => 1,
    });
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Policy, Unreadable> {
    let preset = match input.number()? {
        0 => Preset::Mesh,
        1 => Preset::Supervised,
        _ => return input.wrong("a preset"),
    };
    Ok(Policy { preset })
}
