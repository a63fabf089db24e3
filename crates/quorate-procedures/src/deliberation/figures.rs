//! What it took: calls, tokens and time, by phase and provider.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::spec::Spec;
use super::state::Phase;

/// The provider of agents that run here.
pub const LOCAL: &str = "local";

/// What an answer cost, as the provider says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// How many calls it took, repairs and retries by the agent itself included.
    pub calls: u64,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// What it cost, in millionths of the currency of its price list, if the agent knows that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money_micros: Option<u64>,
}

/// What a provider was used for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Used {
    /// Calls.
    pub calls: u64,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// What that cost, where prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
}

/// What a phase took.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Spent {
    /// From its beginning to its end.
    pub ms: u64,
    /// By provider; a call that did not say what it cost counts as one call.
    pub providers: BTreeMap<String, Used>,
}

/// What it took, by phase.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Looking by themselves.
    pub analysis: Spent,
    /// Talking.
    pub discussion: Spent,
}

impl Figures {
    fn of(&mut self, phase: Phase) -> Option<&mut Spent> {
        match phase {
            Phase::Analysis => Some(&mut self.analysis),
            Phase::Discussion { .. } => Some(&mut self.discussion),
            Phase::New | Phase::Finished | Phase::Failed => None,
        }
    }

    pub(super) fn end(&mut self, phase: Phase, ms: u64) {
        if let Some(spent) = self.of(phase) {
            spent.ms += ms;
        }
    }

    /// Counts an answer: at the price that it tells of, else at the one that is configured.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn spend(&mut self, phase: Phase, provider: String, usage: Option<Usage>, spec: &Spec) {
        let Some(spent) = self.of(phase) else { return };
        let usage = usage.unwrap_or(Usage { calls: 1, ..Usage::default() });
        let told = usage.money_micros.map(|micros| micros as f64 / 1e6);
        let cost = told.or_else(|| money(spec, &provider, usage.tokens_in, usage.tokens_out));
        let used = spent.providers.entry(provider).or_default();
        if let Some(cost) = cost {
            used.money = Some(crate::finding::steady(used.money.unwrap_or(0.0) + cost));
        }
        used.calls += usage.calls;
        used.tokens_in += usage.tokens_in;
        used.tokens_out += usage.tokens_out;
    }

    /// All calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        [&self.analysis, &self.discussion]
            .iter()
            .flat_map(|spent| spent.providers.values())
            .map(|one| one.calls)
            .sum()
    }
}

/// What so many tokens cost.
#[allow(clippy::cast_precision_loss)]
pub(super) fn money(spec: &Spec, provider: &str, tokens_in: u64, tokens_out: u64) -> Option<f64> {
    let known = spec.provider(provider);
    let (price_in, price_out) = (known.price_in?, known.price_out?);
    Some(crate::finding::steady((tokens_in as f64 * price_in + tokens_out as f64 * price_out) / 1e6))
}

/// Milliseconds as seconds, for people.
#[allow(clippy::cast_precision_loss)]
pub(super) fn seconds(ms: u64) -> String {
    crate::plain::number(ms as f64 / 1_000.0)
}
