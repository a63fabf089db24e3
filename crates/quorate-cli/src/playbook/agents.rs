//! The agents of a playbook: how each is declared, when it is asked, and what its provider takes and costs.

use std::collections::BTreeMap;

use quorate_agents::{Agent, Price, Settings, Surroundings, Tape, Use};
use quorate_procedures::deliberation::{LOCAL, Member, NotAsked, Provider};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{INPUT_BYTES_MAX, Place, read_text};
use crate::config::nearest;

/// What a million tokens cost at the most; more is a slip of the pen.
const PRICE_MAX: f64 = 1e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentIn {
    r#use: Spanned<String>,
    when: Option<When>,
    prompt: Option<Spanned<String>>,
    key_env: Option<String>,
    calls_a_minute: Option<u32>,
    tokens_a_minute: Option<u64>,
    record: Option<String>,
    replay: Option<String>,
}

/// When an agent is asked.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum When {
    /// Whatever there is to read.
    Always,
    /// If there is something in its field. What else would a heuristic say than that there is not?
    Concerned,
}

/// Who takes part, and who does not.
pub(super) struct Taking {
    pub(super) members: Vec<Member>,
    pub(super) not_asked: Vec<NotAsked>,
}

impl Place<'_> {
    /// The agents as declared, and who of them takes part in looking at a text.
    pub(super) fn agents(
        &self,
        said: Vec<(String, AgentIn)>,
        providers: &BTreeMap<String, Provider>,
        text: Option<&str>,
    ) -> anyhow::Result<(Vec<Agent>, Taking)> {
        let surroundings = Surroundings::new(self.directory());
        let (mut agents, mut taking) = (Vec::new(), Taking { members: Vec::new(), not_asked: Vec::new() });
        for (name, said) in said {
            let (when, line) = (said.when, said.r#use.referenced.line());
            let agent = self.agent(&name, said, providers, &surroundings)?;
            match (when, &agent.declared, text) {
                (None | Some(When::Concerned), Use::Heuristic(reader), Some(text))
                    if !reader.is_concerned_by(text) =>
                {
                    let why = "nothing in the text concerns it".to_owned();
                    taking.not_asked.push(NotAsked { agent: name, why });
                }
                (Some(When::Concerned), declared, _) if !matches!(declared, Use::Heuristic(_)) => {
                    let what = format!("agents.{name}.when: only a heuristic can tell what concerns it");
                    return Err(self.ended(line, &what, "leave it out, or say `when: always`"));
                }
                _ => taking.members.push(Member { provider: provider(&agent.declared), id: name }),
            }
            agents.push(agent);
        }
        Ok((agents, taking))
    }

    fn agent(
        &self,
        name: &str,
        said: AgentIn,
        providers: &BTreeMap<String, Provider>,
        surroundings: &Surroundings,
    ) -> anyhow::Result<Agent> {
        let (line, directory) = (said.r#use.referenced.line(), self.directory());
        quorate_core::AgentId::new(name).map_err(|refused| {
            self.ended(line, &format!("agents.{name}: {}", refused.detail), &refused.hint)
        })?;
        let instructions = match &said.prompt {
            Some(prompt) => {
                let read = read_text(&directory.join(&prompt.value), INPUT_BYTES_MAX, "a prompt");
                let line = prompt.referenced.line();
                read.map_err(|error| {
                    let what = format!("agents.{name}.prompt: {error:#}");
                    self.ended(line, &what, "name a text file; the path begins where the playbook lies")
                })?
            }
            None => String::new(),
        };
        let tape = match (said.record, said.replay) {
            (None, None) => Tape::Live,
            (Some(at), None) => Tape::Record(directory.join(at)),
            (None, Some(at)) => Tape::Replay(directory.join(at)),
            (Some(_), Some(_)) => {
                let what = format!("agents.{name}: record and replay at once");
                return Err(self.ended(line, &what, "say one of them"));
            }
        };
        let known = Use::parse(&said.r#use.value).ok().and_then(|declared| provider(&declared));
        let known = known.and_then(|name| providers.get(&name)).cloned().unwrap_or_default();
        let settings = Settings {
            instructions,
            key_env: said.key_env,
            calls_per_minute: said.calls_a_minute.or(known.calls_a_minute),
            tokens_per_minute: said.tokens_a_minute,
            price: price(&known),
            tape,
        };
        Agent::declare(name, &said.r#use.value, &settings, surroundings)
            .map_err(|refused| self.ended(line, &refused.detail, &refused.hint))
    }

    /// What is said of providers: of those that there are, and prices in pairs.
    pub(super) fn providers(
        &self,
        said: Vec<(String, Spanned<Provider>)>,
    ) -> anyhow::Result<BTreeMap<String, Provider>> {
        let names: Vec<&str> =
            quorate_agents::Provider::ALL.iter().map(|one| one.name()).chain([LOCAL]).collect();
        let mut known = BTreeMap::new();
        for (name, provider) in said {
            let line = provider.referenced.line();
            let provider = provider.value;
            if !names.contains(&name.as_str()) {
                let hint = match nearest(&name, names.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("there are {}", names.join(", ")),
                };
                return Err(self.ended(line, &format!("providers: there is no {name:?}"), &hint));
            }
            let wrong =
                |what: &str, hint: &str| Err(self.ended(line, &format!("providers.{name}{what}"), hint));
            if provider.price_in.is_some() != provider.price_out.is_some() {
                return wrong(": one of price_in and price_out is missing", "say both, 0 for what is free");
            }
            for (field, price) in [("price_in", provider.price_in), ("price_out", provider.price_out)] {
                if price.is_some_and(|price| !(0.0..=PRICE_MAX).contains(&price)) {
                    let hint = format!("what a million tokens cost, 0 to {PRICE_MAX}");
                    return wrong(&format!(".{field}: is no price"), &hint);
                }
            }
            if provider.calls_a_minute == Some(0) {
                return wrong(".calls_a_minute: is 0, so nobody could be asked", "say 1 or more, or nothing");
            }
            known.insert(name, provider);
        }
        Ok(known)
    }
}

/// Who does the thinking; nobody for an agent that runs here.
pub(crate) fn provider(declared: &Use) -> Option<String> {
    match declared {
        Use::Model { provider, .. } => Some(provider.name().to_owned()),
        _ => None,
    }
}

/// The price list of a provider in millionths, as what is spent is counted.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be 0 to PRICE_MAX")]
fn price(known: &Provider) -> Option<Price> {
    let micros = |price: f64| (price * 1e6).round() as u64;
    Some(Price { input_micros: micros(known.price_in?), output_micros: micros(known.price_out?) })
}
