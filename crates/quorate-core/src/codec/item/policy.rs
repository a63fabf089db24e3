//! Encoding of policies: the preset, then numbered fields; fields with their default value are omitted.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::Seq;
use crate::policy::{ActivePolicy, Policy, Preset};

pub(super) fn write(out: &mut Writer, policy: &ActivePolicy) {
    let ActivePolicy { policy, supervised_since } = policy;
    out.number(match policy.preset {
        Preset::Mesh => 0,
        Preset::Supervised => 1,
    });
    let default = Policy::default();
    let mut field = |number: u64, value: u64, default: u64| {
        if value != default {
            out.numbers(&[number, value]);
        }
    };
    let wide = |number: u32| u64::from(number);
    field(1, wide(policy.payload_bytes_max), wide(default.payload_bytes_max));
    field(2, wide(policy.rationale_chars_max), wide(default.rationale_chars_max));
    field(3, policy.actions_max.map_or(0, |max| wide(max) + 1), 0);
    field(4, wide(policy.broadcasts_per_minute), wide(default.broadcasts_per_minute));
    field(5, u64::from(policy.structured), 0);
    field(6, u64::from(policy.confidence), 0);
    field(7, u64::from(policy.rationale), 0);
    field(8, wide(policy.open_tasks_max), wide(default.open_tasks_max));
    field(9, supervised_since.0, 0);
    field(10, wide(policy.commit_bytes_max), wide(default.commit_bytes_max));
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<ActivePolicy, DecodeError> {
    let mut policy = ActivePolicy::default();
    let rules = &mut policy.policy;
    rules.preset = match input.number()? {
        0 => Preset::Mesh,
        1 => Preset::Supervised,
        _ => return input.expected("a preset"),
    };
    while !input.is_done() {
        match input.number()? {
            1 => rules.payload_bytes_max = input.narrow()?,
            2 => rules.rationale_chars_max = input.narrow()?,
            3 => {
                let max: u64 = input.number()?;
                let max = max.checked_sub(1).and_then(|max| u32::try_from(max).ok());
                rules.actions_max = Some(max.map_or_else(|| input.expected("a number of actions"), Ok)?);
            }
            4 => rules.broadcasts_per_minute = input.narrow()?,
            5 => rules.structured = input.number()? == 1,
            6 => rules.confidence = input.number()? == 1,
            7 => rules.rationale = input.number()? == 1,
            8 => rules.open_tasks_max = input.narrow()?,
            9 => policy.supervised_since = Seq(input.number()?),
            10 => rules.commit_bytes_max = input.narrow()?,
            _ => return input.expected("a known rule"),
        }
    }
    Ok(policy)
}
