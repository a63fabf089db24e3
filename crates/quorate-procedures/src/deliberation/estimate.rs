//! Cost estimate of a deliberation, before it starts.
//!
//! Calls and seconds are bounds: the actual values lie between `least` and `most`, whatever the agents answer and
//! however many requests are repeated. (An agent that calls its model several times for one answer counts those calls
//! itself.) Tokens are estimated: those of requests are counted, a finding is assumed to have [`FINDING_TOKENS`] and a
//! reply the maximum of a message.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::schema;
use super::spec::Spec;
use super::usage::{LOCAL_PROVIDER, token_cost};
use crate::tokens::TokenCounter;

/// Assumed length of a finding in tokens.
pub const FINDING_TOKENS: u64 = 1_500;
/// Tokens of a request about a conflict, in addition to the input and the positions.
const DISCUSS_REQUEST_TOKENS: u64 = 400;

/// Lower and upper bound.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Bounds<T> {
    /// Lower bound.
    pub least: T,
    /// Upper bound.
    pub most: T,
}

/// Estimate for one provider in one phase.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ProviderEstimate {
    /// Number of calls.
    pub calls: Bounds<u64>,
    /// Input tokens.
    pub tokens_in: Bounds<u64>,
    /// Output tokens.
    pub tokens_out: Bounds<u64>,
    /// Cost, if prices are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<Bounds<f64>>,
}

/// Estimate for one phase.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PhaseEstimate {
    /// Estimates by provider.
    pub providers: BTreeMap<String, ProviderEstimate>,
    /// Duration in seconds.
    pub seconds: Bounds<f64>,
}

/// Estimate for a deliberation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// Analysis phase.
    pub analysis: PhaseEstimate,
    /// Discussion phase. The upper bound assumes full rounds and two attempts per answer.
    pub discussion: PhaseEstimate,
    /// Sum of both phases.
    pub total: PhaseEstimate,
    /// Rate limits of providers that may delay agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Estimates calls, tokens, duration and cost of a deliberation.
#[must_use]
pub fn estimate(spec: &Spec, count: TokenCounter) -> Estimate {
    let mut agents: BTreeMap<String, u64> = BTreeMap::new();
    for member in &spec.agents {
        *agents.entry(member.provider.clone().unwrap_or_else(|| LOCAL_PROVIDER.to_owned())).or_default() += 1;
    }
    let input = json!({"subject": spec.subject, "input": spec.input}).to_string();
    let input_tokens = tokens(&input, count);
    let analyse_request_tokens =
        input_tokens + tokens(&schema::finding_schema(&spec.vocabulary).to_string(), count);
    let limits = &spec.limits;
    let (rounds, messages) = (u64::from(limits.rounds), u64::from(limits.messages));
    let message_tokens = u64::from(limits.message_tokens);
    let conflicts = u64::from(limits.conflicts);
    let has_discussion = rounds > 0 && conflicts > 0 && spec.agents.len() > 1;
    let mut estimate = Estimate::default();
    for (provider, agents) in agents {
        let calls = Bounds { least: agents, most: 2 * agents };
        let analysis = estimate_provider(spec, &provider, calls, analyse_request_tokens, FINDING_TOKENS);
        let requests = if has_discussion { rounds * messages.min(agents * conflicts) } else { 0 };
        let calls = Bounds { least: 0, most: 2 * requests };
        // Each request contains the positions of all other agents with their reasons.
        let others = u64::try_from(spec.agents.len()).unwrap_or(u64::MAX).saturating_sub(1).min(messages);
        let discussion = estimate_provider(
            spec,
            &provider,
            calls,
            input_tokens + DISCUSS_REQUEST_TOKENS + others * message_tokens,
            message_tokens,
        );
        let per_round = if has_discussion { messages.min(agents * conflicts).max(agents) } else { agents };
        if let Some(limit) =
            spec.provider(&provider).calls_per_minute.filter(|limit| u64::from(*limit) < per_round)
        {
            let warning = format!(
                "{provider} allows {limit} calls per minute, but up to {per_round} may be made at the same time"
            );
            estimate.warnings.push(warning);
        }
        // A provider accepts a full minute's quota immediately and further calls a minute later. A call that would wait
        // until the timeout or longer fails at once and does not prolong the phase.
        let minutes = spec
            .provider(&provider)
            .calls_per_minute
            .map_or(0, |limit| (agents - 1) / u64::from(limit.max(1)))
            .min(limits.analysis_ms.saturating_sub(1) / 60_000);
        estimate.analysis.seconds.least = estimate.analysis.seconds.least.max(seconds(minutes * 60_000));
        estimate.total.providers.insert(provider.clone(), sum(&analysis, &discussion));
        estimate.analysis.providers.insert(provider.clone(), analysis);
        estimate.discussion.providers.insert(provider, discussion);
    }
    estimate.analysis.seconds.most = seconds(2 * limits.analysis_ms);
    estimate.discussion.seconds.most =
        if has_discussion { seconds(2 * rounds * limits.message_ms) } else { 0.0 };
    estimate.total.seconds.least = estimate.analysis.seconds.least;
    estimate.total.seconds.most = estimate.analysis.seconds.most + estimate.discussion.seconds.most;
    estimate
}

fn tokens(text: &str, count: TokenCounter) -> u64 {
    u64::try_from(count(text)).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_precision_loss)]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn estimate_provider(
    spec: &Spec,
    provider: &str,
    calls: Bounds<u64>,
    tokens_in_per_call: u64,
    tokens_out_per_call: u64,
) -> ProviderEstimate {
    let times = |per_call: u64| Bounds { least: calls.least * per_call, most: calls.most * per_call };
    let (tokens_in, tokens_out) = (times(tokens_in_per_call), times(tokens_out_per_call));
    let least = token_cost(spec, provider, tokens_in.least, tokens_out.least);
    let most = token_cost(spec, provider, tokens_in.most, tokens_out.most);
    let money = least.zip(most).map(|(least, most)| Bounds { least, most });
    ProviderEstimate { calls, tokens_in, tokens_out, money }
}

fn sum(a: &ProviderEstimate, b: &ProviderEstimate) -> ProviderEstimate {
    let add = |a: Bounds<u64>, b: Bounds<u64>| Bounds { least: a.least + b.least, most: a.most + b.most };
    let money = a.money.zip(b.money).map(|(a, b)| Bounds { least: a.least + b.least, most: a.most + b.most });
    ProviderEstimate {
        calls: add(a.calls, b.calls),
        tokens_in: add(a.tokens_in, b.tokens_in),
        tokens_out: add(a.tokens_out, b.tokens_out),
        money,
    }
}
