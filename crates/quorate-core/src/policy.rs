//! The rules of a space: who may reach whom.

/// Who may reach whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preset {
    /// Everybody reaches everybody.
    #[default]
    Mesh,
    /// Agents reach the coordinators only, whatever the way.
    Supervised,
}

impl Preset {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
            Self::Supervised => "supervised",
        }
    }
}

/// The rules of a space.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// Who may reach whom.
    pub preset: Preset,
}

impl Policy {
    /// A space has one policy, so its id is always the same.
    pub const ID: &'static str = "policy";
}
