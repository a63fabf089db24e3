//! What a deliberation will take, before it begins.
//!
//! Calls and seconds are bounds: it takes no less than `least` and no more than `most`, whatever the agents answer and whoever has to be
//! asked again. (An agent that calls its model several times for one answer counts them itself.) Tokens are reckoned: what is
//! asked is counted, a finding is taken to be [`FINDING_TOKENS`] long and an answer in the discussion as long as a message may be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::figures::{LOCAL, money};
use super::schema;
use super::spec::Spec;
use crate::tokens::Count;

/// How long a finding is taken to be.
pub const FINDING_TOKENS: u64 = 1_500;
/// What stands around the input and the positions in a question on a conflict.
const QUESTION_TOKENS: u64 = 400;

/// From the least to the most.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Range<T> {
    /// At least.
    pub least: T,
    /// At most.
    pub most: T,
}

/// What is expected of a provider in a phase.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Expected {
    /// Calls.
    pub calls: Range<u64>,
    /// Tokens read.
    pub tokens_in: Range<u64>,
    /// Tokens written.
    pub tokens_out: Range<u64>,
    /// What that costs, where prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<Range<f64>>,
}

/// What a phase is expected to take.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ExpectedPhase {
    /// By provider.
    pub providers: BTreeMap<String, Expected>,
    /// Seconds.
    pub seconds: Range<f64>,
}

/// What a deliberation is expected to take.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// Looking by themselves.
    pub analysis: ExpectedPhase,
    /// Talking. The most is all rounds full, and every answer asked for twice.
    pub discussion: ExpectedPhase,
    /// Both.
    pub total: ExpectedPhase,
    /// Where a provider's limit may make agents late.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What it will take.
#[must_use]
pub fn estimate(spec: &Spec, count: Count) -> Estimate {
    let mut agents: BTreeMap<String, u64> = BTreeMap::new();
    for member in &spec.agents {
        *agents.entry(member.provider.clone().unwrap_or_else(|| LOCAL.to_owned())).or_default() += 1;
    }
    let input = json!({"subject": spec.subject, "input": spec.input}).to_string();
    let input = tokens(&input, count);
    let asked = input + tokens(&schema::finding(&spec.words).to_string(), count);
    let limits = &spec.limits;
    let (rounds, messages) = (u64::from(limits.rounds), u64::from(limits.messages));
    let message = u64::from(limits.message_tokens);
    let conflicts = u64::from(limits.conflicts);
    let discussed = rounds > 0 && conflicts > 0 && spec.agents.len() > 1;
    let mut found = Estimate::default();
    for (provider, agents) in agents {
        let calls = Range { least: agents, most: 2 * agents };
        let analysis = expected(spec, &provider, calls, asked, FINDING_TOKENS);
        let turns = if discussed { rounds * messages.min(agents * conflicts) } else { 0 };
        let calls = Range { least: 0, most: 2 * turns };
        // Each question holds the positions of all others, each with its reason.
        let others = u64::try_from(spec.agents.len()).unwrap_or(u64::MAX).saturating_sub(1).min(messages);
        let discussion =
            expected(spec, &provider, calls, input + QUESTION_TOKENS + others * message, message);
        let a_round = if discussed { messages.min(agents * conflicts).max(agents) } else { agents };
        if let Some(limit) =
            spec.provider(&provider).calls_a_minute.filter(|limit| u64::from(*limit) < a_round)
        {
            let warning =
                format!("{provider} takes {limit} calls a minute, and up to {a_round} may be made at once");
            found.warnings.push(warning);
        }
        // A provider takes so many calls at once, and the next after a minute.
        let minutes =
            spec.provider(&provider).calls_a_minute.map_or(0, |limit| (agents - 1) / u64::from(limit.max(1)));
        found.analysis.seconds.least = found.analysis.seconds.least.max(seconds(minutes * 60_000));
        found.total.providers.insert(provider.clone(), sum(&analysis, &discussion));
        found.analysis.providers.insert(provider.clone(), analysis);
        found.discussion.providers.insert(provider, discussion);
    }
    found.analysis.seconds.most = seconds(2 * limits.analysis_ms);
    found.discussion.seconds.most = if discussed { seconds(2 * rounds * limits.message_ms) } else { 0.0 };
    found.total.seconds.least = found.analysis.seconds.least;
    found.total.seconds.most = found.analysis.seconds.most + found.discussion.seconds.most;
    found
}

fn tokens(text: &str, count: Count) -> u64 {
    u64::try_from(count(text)).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_precision_loss)]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn expected(spec: &Spec, provider: &str, calls: Range<u64>, each_in: u64, each_out: u64) -> Expected {
    let times = |each: u64| Range { least: calls.least * each, most: calls.most * each };
    let (tokens_in, tokens_out) = (times(each_in), times(each_out));
    let least = money(spec, provider, tokens_in.least, tokens_out.least);
    let most = money(spec, provider, tokens_in.most, tokens_out.most);
    let money = least.zip(most).map(|(least, most)| Range { least, most });
    Expected { calls, tokens_in, tokens_out, money }
}

fn sum(a: &Expected, b: &Expected) -> Expected {
    let add = |a: Range<u64>, b: Range<u64>| Range { least: a.least + b.least, most: a.most + b.most };
    let money = a.money.zip(b.money).map(|(a, b)| Range { least: a.least + b.least, most: a.most + b.most });
    Expected {
        calls: add(a.calls, b.calls),
        tokens_in: add(a.tokens_in, b.tokens_in),
        tokens_out: add(a.tokens_out, b.tokens_out),
        money,
    }
}
