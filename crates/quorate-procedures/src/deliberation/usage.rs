//! Usage: calls, tokens and time, by phase and provider.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::spec::Spec;
use super::state::Phase;

/// Provider name of agents that run locally.
pub const LOCAL_PROVIDER: &str = "local";

/// Usage of one answer, as reported by the agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReportedUsage {
    /// Number of calls, including repairs and retries by the agent itself.
    pub calls: u64,
    /// Input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Cost in millionths of the currency unit, if the agent reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money_micros: Option<u64>,
}

/// Accumulated usage of a provider.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ProviderUsage {
    /// Number of calls.
    pub calls: u64,
    /// Input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Cost, if it is reported or prices are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
}

/// Usage of a phase.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PhaseUsage {
    /// Duration of the phase in milliseconds.
    pub ms: u64,
    /// Usage by provider. An answer that reports no usage, and a request without an answer, count as one call.
    pub providers: BTreeMap<String, ProviderUsage>,
}

/// Usage by phase.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct UsageStats {
    /// Analysis phase.
    pub analysis: PhaseUsage,
    /// Discussion phase.
    pub discussion: PhaseUsage,
}

impl UsageStats {
    fn phase_mut(&mut self, phase: Phase) -> Option<&mut PhaseUsage> {
        match phase {
            Phase::Analysis => Some(&mut self.analysis),
            Phase::Discussion { .. } => Some(&mut self.discussion),
            Phase::New | Phase::Finished | Phase::Failed => None,
        }
    }

    pub(super) fn add_duration(&mut self, phase: Phase, ms: u64) {
        if let Some(phase_usage) = self.phase_mut(phase) {
            phase_usage.ms += ms;
        }
    }

    /// Adds the usage of an answer: at the reported cost, else at the configured price.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn add_answer(
        &mut self,
        phase: Phase,
        provider: String,
        usage: Option<ReportedUsage>,
        spec: &Spec,
    ) {
        let Some(phase_usage) = self.phase_mut(phase) else { return };
        let usage = usage.unwrap_or(ReportedUsage { calls: 1, ..ReportedUsage::default() });
        let reported = usage.money_micros.map(|micros| micros as f64 / 1e6);
        let cost = reported.or_else(|| token_cost(spec, &provider, usage.tokens_in, usage.tokens_out));
        let provider_usage = phase_usage.providers.entry(provider).or_default();
        if let Some(cost) = cost {
            provider_usage.money =
                Some(crate::finding::round_to_micros(provider_usage.money.unwrap_or(0.0) + cost));
        }
        provider_usage.calls += usage.calls;
        provider_usage.tokens_in += usage.tokens_in;
        provider_usage.tokens_out += usage.tokens_out;
    }

    /// Total number of calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        [&self.analysis, &self.discussion]
            .iter()
            .flat_map(|phase_usage| phase_usage.providers.values())
            .map(|provider_usage| provider_usage.calls)
            .sum()
    }
}

/// Cost of the tokens at the configured prices; `None` if none are configured.
#[allow(clippy::cast_precision_loss)]
pub(super) fn token_cost(spec: &Spec, provider: &str, tokens_in: u64, tokens_out: u64) -> Option<f64> {
    let provider_spec = spec.provider(provider);
    let (price_in, price_out) = (provider_spec.price_in?, provider_spec.price_out?);
    Some(crate::finding::round_to_micros((tokens_in as f64 * price_in + tokens_out as f64 * price_out) / 1e6))
}

/// Formats milliseconds as seconds.
#[allow(clippy::cast_precision_loss)]
pub(super) fn format_seconds(ms: u64) -> String {
    crate::normalise::format_number(ms as f64 / 1_000.0)
}
