//! Agents and providers of a playbook: declarations, conditions, rate limits and prices.

use std::collections::BTreeMap;

use quorate_core::RegisterAgent;
use quorate_procedures::deliberation::{ExcludedAgent, LOCAL_PROVIDER, Member, ProviderSpec};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{OrderedMap, PlaybookAccess, PlaybookError, PlaybookPath, read_text};
use crate::agent::{AgentContext, AgentSettings, DeclaredAgent, RecordMode, TokenPrice};
use crate::limits::INPUT_BYTES_MAX;
use crate::llm::Provider;
use crate::spelling::closest_match;
use crate::use_spec::UseSpec;

/// Maximum price of a million tokens; a higher one is a typing error.
const PRICE_MAX: f64 = 1e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentEntry {
    r#use: Spanned<String>,
    when: Option<When>,
    prompt: Option<Spanned<String>>,
    key_env: Option<String>,
    calls_per_minute: Option<u32>,
    tokens_per_minute: Option<u64>,
    record: Option<String>,
    replay: Option<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    hub: bool,
    tasks: Option<Spanned<Vec<String>>>,
}

/// Condition for asking an agent.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum When {
    /// Regardless of the input.
    Always,
    /// Only if the input has something in the agent's field. This is the default for heuristics.
    Concerned,
}

/// Agents that take part, and agents that are not asked.
pub(super) struct Participants {
    pub(super) members: Vec<Member>,
    pub(super) not_asked: Vec<ExcludedAgent>,
}

impl PlaybookPath<'_> {
    /// Returns the declared agents, and which of them take part for this input.
    pub(super) fn agents(
        &self,
        entries: Vec<(String, AgentEntry)>,
        providers: &BTreeMap<String, ProviderSpec>,
        text: Option<&str>,
        access: PlaybookAccess,
    ) -> Result<(Vec<DeclaredAgent>, Participants), PlaybookError> {
        let mut context = AgentContext::new(self.directory());
        context.env_inheritance = access.env_inheritance;
        context.key_variables = entries.iter().filter_map(|(_, entry)| entry.key_env.clone()).collect();
        let (mut agents, mut participants) =
            (Vec::new(), Participants { members: Vec::new(), not_asked: Vec::new() });
        for (name, entry) in entries {
            let (when, line) = (entry.when, entry.r#use.referenced.line());
            let agent = self.agent(&name, entry, providers, &context, access)?;
            match (when, &agent.declared, text) {
                (None | Some(When::Concerned), UseSpec::Heuristic(reader), Some(text))
                    if !reader.is_relevant_to(text) =>
                {
                    let reason = "nothing in the text concerns it".to_owned();
                    participants.not_asked.push(ExcludedAgent { agent: name, why: reason });
                }
                (Some(When::Concerned), declared, _) if !matches!(declared, UseSpec::Heuristic(_)) => {
                    let message = format!("agents.{name}.when: `concerned` is only available for heuristics");
                    return Err(self.error_at(line, &message, "omit it, or use `when: always`"));
                }
                _ => participants.members.push(Member { provider: provider_name(&agent.declared), id: name }),
            }
            agents.push(agent);
        }
        Ok((agents, participants))
    }

    fn agent(
        &self,
        name: &str,
        entry: AgentEntry,
        providers: &BTreeMap<String, ProviderSpec>,
        context: &AgentContext,
        access: PlaybookAccess,
    ) -> Result<DeclaredAgent, PlaybookError> {
        let line = entry.r#use.referenced.line();
        quorate_core::AgentId::for_registration(name).map_err(|refused| {
            self.error_at(line, &format!("agents.{name}: {}", refused.detail), &refused.hint)
        })?;
        let resolve = |key: &str, line: u64, file: &str| {
            self.resolve((&format!("agents.{name}.{key}"), line), file, access.files)
        };
        let instructions = match &entry.prompt {
            Some(prompt) => {
                let line = prompt.referenced.line();
                let read = read_text(&resolve("prompt", line, &prompt.value)?, INPUT_BYTES_MAX, "a prompt");
                read.map_err(|error| {
                    let message = format!("agents.{name}.prompt: {}", error.with_cause());
                    self.error_at(line, &message, "name a text file; the path is relative to the playbook")
                })?
            }
            None => String::new(),
        };
        let record_mode = match (entry.record, entry.replay) {
            (None, None) => RecordMode::Live,
            (Some(file), None) => RecordMode::Record(resolve("record", line, &file)?),
            (None, Some(file)) => RecordMode::Replay(resolve("replay", line, &file)?),
            (Some(_), Some(_)) => {
                let message = format!("agents.{name}: record and replay cannot be combined");
                return Err(self.error_at(line, &message, "keep one of them"));
            }
        };
        let tasks = self.tasks(name, entry.tasks)?;
        let limits = UseSpec::parse(&entry.r#use.value).ok().and_then(|declared| provider_name(&declared));
        let limits = limits.and_then(|name| providers.get(&name)).cloned().unwrap_or_default();
        let settings = AgentSettings {
            instructions,
            key_env: entry.key_env,
            calls_per_minute: entry.calls_per_minute.or(limits.calls_per_minute),
            tokens_per_minute: entry.tokens_per_minute,
            price: price(&limits),
            record_mode,
            env: entry.env,
            hub: entry.hub,
            tasks,
        };
        DeclaredAgent::declare(name, &entry.r#use.value, &settings, context)
            .map_err(|refused| self.error_at(line, &refused.detail, &refused.hint))
    }

    /// Validates the task types of an agent.
    fn tasks(&self, name: &str, tasks: Option<Spanned<Vec<String>>>) -> Result<Vec<String>, PlaybookError> {
        let Some(tasks) = tasks else { return Ok(Vec::new()) };
        let invalid = |message: &str, hint: &str| {
            let message = format!("agents.{name}.tasks: {message}");
            Err(self.error_at(tasks.referenced.line(), &message, hint))
        };
        let example = "name the types of tasks, as in `tasks: [review, summarize]`";
        match tasks.value.as_slice() {
            [] => return invalid("the list is empty", "name a type of task, or omit the key"),
            types if types.iter().any(|task_type| task_type.trim().is_empty()) => {
                return invalid("a type is empty", example);
            }
            _ => {}
        }
        // They become its capabilities.
        let registration = quorate_core::AgentId::new(name)
            .map(|id| RegisterAgent { capabilities: tasks.value.clone(), ..RegisterAgent::named(id) });
        match registration.and_then(|registration| registration.check()) {
            Ok(()) => Ok(tasks.value),
            Err(refused) => invalid(&refused.detail, &refused.hint),
        }
    }

    /// Validates the provider settings: known names, and prices for both directions.
    pub(super) fn providers(
        &self,
        entries: Option<OrderedMap<Spanned<ProviderSpec>>>,
    ) -> Result<BTreeMap<String, ProviderSpec>, PlaybookError> {
        let names: Vec<&str> =
            Provider::ALL.iter().map(|provider| provider.name()).chain([LOCAL_PROVIDER]).collect();
        let mut valid = BTreeMap::new();
        for (name, provider) in entries.map(|entries| entries.0).unwrap_or_default() {
            let line = provider.referenced.line();
            let provider = provider.value;
            if !names.contains(&name.as_str()) {
                let hint = match closest_match(&name, names.iter().copied()) {
                    Some(closest) => format!("did you mean {closest:?}?"),
                    None => format!("the providers are {}", names.join(", ")),
                };
                return Err(self.error_at(line, &format!("providers: unknown provider {name:?}"), &hint));
            }
            let invalid = |message: &str, hint: &str| {
                Err(self.error_at(line, &format!("providers.{name}{message}"), hint))
            };
            if provider.price_in.is_some() != provider.price_out.is_some() {
                return invalid(
                    ": one of price_in and price_out is missing",
                    "set both; use 0 if it is free",
                );
            }
            for (field, price) in [("price_in", provider.price_in), ("price_out", provider.price_out)] {
                if price.is_some_and(|price| !(0.0..=PRICE_MAX).contains(&price)) {
                    let hint = format!("use the price of a million tokens, 0 to {PRICE_MAX}");
                    return invalid(&format!(".{field}: invalid price"), &hint);
                }
            }
            if provider.calls_per_minute == Some(0) {
                return invalid(".calls_per_minute: must not be 0", "use 1 or more, or omit it");
            }
            valid.insert(name, provider);
        }
        Ok(valid)
    }
}

/// Returns the LLM provider of an agent; `None` for a local agent.
#[must_use]
pub fn provider_name(declared: &UseSpec) -> Option<String> {
    match declared {
        UseSpec::Model { provider, .. } => Some(provider.name().to_owned()),
        _ => None,
    }
}

/// Returns the prices of a provider in millionths, the unit of usage accounting.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be 0 to PRICE_MAX")]
fn price(provider: &ProviderSpec) -> Option<TokenPrice> {
    let micros = |price: f64| (price * 1e6).round() as u64;
    Some(TokenPrice { input_micros: micros(provider.price_in?), output_micros: micros(provider.price_out?) })
}
