//! `quorate deliberate`: one question, some agents, an answer with its dissent; a playbook that nobody had to write.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use quorate::Hub;
use quorate::deliberation::{Member, Spec, estimate};
use quorate_agents::{Agent, Settings, Surroundings};
use quorate_core::AgentId;
use quorate_procedures::count::{Rule, TieBreak};
use quorate_procedures::tokens;
use serde_json::{Value, json};

use crate::exit::{Ended, USAGE};
use crate::hub::HubArgs;
use crate::playbook::{Playbook, provider, read_input};
use crate::report::{self, FormatArgs};
use crate::vote;

/// Put one question to agents and tell what they decided, without a playbook. [rw]
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate deliberate 'May we sign?' --input contract.txt \\
           --agent law=heuristic:risk --agent money=heuristic:financial

NAME=USE declares an agent as `use:` in a playbook does: cmd:COMMAND, http://…,
llm:PROVIDER/MODEL, heuristic:NAME. NAME alone is an agent of the hub that runs.
It is kept on record: quorate deliberation show @last
The exit code is 8 if there is no decision: a tie, or no recommendation given.")]
pub(crate) struct DeliberateArgs {
    /// The question.
    question: String,
    /// Who is asked; may be given several times.
    #[arg(long, value_name = "NAME[=USE]", required = true)]
    agent: Vec<String>,
    /// What agents read: a file with text.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The answers that may be given, between commas, from one end to the other; any if nothing is said.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    options: Vec<String>,
    /// How votes are counted.
    #[arg(long, value_name = "RULE", default_value = Rule::Confidence.as_str(), value_parser = vote::rules())]
    rule: Rule,
    /// How to break a tie: most-voters, highest-confidence, first-listed or last-listed of --options. By default a tie is no decision.
    #[arg(long, value_name = "HOW", value_parser = vote::tie_breaks(), hide_possible_values = true)]
    tie_break: Option<TieBreak>,
    /// Rounds of discussion at most.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Say what it would take, and ask nobody.
    #[arg(long = "estimate", visible_alias = "dry-run")]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    hub: HubArgs,
}

pub(crate) async fn run(args: DeliberateArgs) -> anyhow::Result<()> {
    let format = args.format.wanted();
    let (playbook, here) = playbook(&args)?;
    if args.dry_run {
        return report::print_estimate(&estimate(&playbook.spec, tokens::o200k), format);
    }
    let hub = args.hub.library().await?;
    let ran = deliberate(&hub, playbook, &here).await;
    hub.close().await;
    let (id, outcome) = ran?;
    report::print(&outcome, &id, format, None)?;
    crate::run::decided(&outcome)
}

async fn deliberate(
    hub: &Hub,
    playbook: Playbook,
    here: &[String],
) -> anyhow::Result<(String, quorate::deliberation::Outcome)> {
    for name in here {
        if hub.space().is_some() {
            let message = format!("--agent {name}: no hub runs in which it could be");
            let hint = "start one with `quorate serve`, or say what it is: --agent NAME=cmd:COMMAND";
            return Err(Ended::new(USAGE, message, hint).into());
        }
        // Nobody waits for somebody who never was there.
        hub.agent_state(name).await?;
    }
    crate::run::deliberate(hub, playbook).await
}

/// The playbook in memory, and who of it is in the hub already.
fn playbook(args: &DeliberateArgs) -> anyhow::Result<(Playbook, Vec<String>)> {
    let input = args.input.as_deref().map(read_input).transpose()?;
    let input = input.map_or(Value::Null, |text| json!({ "text": text }));
    let (mut agents, mut here, mut members) = (Vec::new(), Vec::new(), Vec::<Member>::new());
    let surroundings = Surroundings::new(Path::new("."));
    for said in &args.agent {
        let (name, line) =
            said.split_once('=').map_or((said.as_str(), None), |(name, line)| (name, Some(line)));
        let wrong = |detail: &str, hint: &str| Ended::new(USAGE, format!("--agent {said}: {detail}"), hint);
        AgentId::new(name).map_err(|refused| wrong(&refused.detail, &refused.hint))?;
        match line {
            Some(line) => {
                let declared = Agent::declare(name, line, &Settings::default(), &surroundings);
                let agent = declared.map_err(|refused| wrong(&refused.detail, &refused.hint))?;
                members.push(Member { id: name.to_owned(), provider: provider(&agent.declared) });
                agents.push(agent);
            }
            None => {
                members.push(Member { id: name.to_owned(), provider: None });
                here.push(name.to_owned());
            }
        }
    }
    let names: BTreeSet<&str> = members.iter().map(|one| one.id.as_str()).collect();
    if names.len() < members.len() {
        let hint = "give each agent a name of its own: --agent NAME=USE";
        return Err(Ended::new(USAGE, "--agent: two have the same name", hint).into());
    }
    let mut spec = Spec::new(args.question.clone(), input, members);
    spec.rule = args.rule;
    spec.tie_break = args.tie_break;
    spec.words.recommendations = args.options.iter().map(|option| option.trim().to_owned()).collect();
    spec.limits.rounds = args.rounds.unwrap_or(spec.limits.rounds);
    spec.check().map_err(|wrong| Ended::new(USAGE, wrong.to_string(), "see quorate deliberate --help"))?;
    Ok((Playbook { path: PathBuf::from("deliberate"), spec, agents, approval: None }, here))
}
