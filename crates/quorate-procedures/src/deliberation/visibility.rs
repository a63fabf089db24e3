//! What an agent may see of a running deliberation. Agents answer independently of each other: nobody sees the answers
//! of others before it has answered itself, or before all have answered.

use super::state::{DeliberationState, Phase};

impl DeliberationState {
    /// Returns the state as an agent may see it while the deliberation runs.
    ///
    /// - In the analysis, an agent that has not reported a finding sees only its own requests.
    /// - In a round of the discussion, it sees the replies to the conflicts that it has replied to.
    ///
    /// An agent that is not asked at all sees findings and replies when the phase or round is over.
    #[must_use]
    pub fn visible_to(&self, agent: &str) -> Self {
        match self.phase {
            Phase::New | Phase::Analysis if !self.findings.contains_key(agent) => {
                let is_own = |ask: &super::state::PendingAsk| ask.agent == agent;
                let own_asks = self.asks.iter().filter(|(_, ask)| is_own(ask));
                Self {
                    phase: self.phase,
                    phase_started_at_ms: self.phase_started_at_ms,
                    asks: own_asks.map(|(id, ask)| (id.clone(), ask.clone())).collect(),
                    ..Self::default()
                }
            }
            Phase::New | Phase::Analysis | Phase::Finished | Phase::Failed => self.clone(),
            Phase::Discussion { .. } => {
                let mut state = self.clone();
                state.replies.retain(|_, replies| replies.contains_key(agent));
                state
            }
        }
    }
}

/// Converts a stored state to what an agent may see of it while the deliberation runs. `None` if it cannot be parsed,
/// so that nothing of it is shown.
#[must_use]
pub fn visible_state(stored: &[u8], agent: &str) -> Option<Vec<u8>> {
    let state: DeliberationState = serde_json::from_slice(stored).ok()?;
    serde_json::to_vec(&state.visible_to(agent)).ok()
}
