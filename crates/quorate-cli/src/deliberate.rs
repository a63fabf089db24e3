//! `quorate deliberate`: runs a deliberation from options, without a playbook file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use quorate::Hub;
use quorate::deliberation::{Member, Spec, estimate};
use quorate_agents::playbook::{Playbook, provider_name};
use quorate_agents::{AgentContext, AgentSettings, DeclaredAgent};
use quorate_core::AgentId;
use quorate_procedures::tally::{TieBreak, VotingRule};
use quorate_procedures::tokens;
use serde_json::{Value, json};

use crate::exit::{CommandError, USAGE};
use crate::hub::{HubArgs, until_interrupted};
use crate::playbook::{ProgramArgs, read_input_file};
use crate::report::{self, ReportFormatArgs};
use crate::vote;

/// Ask agents one question and report their decision, without a playbook. [rw]
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate deliberate 'May we sign?' --input contract.txt \\
           --agent law=heuristic:risk --agent money=heuristic:financial

NAME=USE declares an agent like `use:` in a playbook: cmd:COMMAND, http://…, llm:PROVIDER/MODEL, \
heuristic:NAME. NAME alone is an agent of the running hub. The result is stored: quorate deliberation \
show @last. The exit code is 8 if there is no decision: a tie, or no recommendations.")]
#[command(mut_arg("data", |arg| arg.help(crate::hub::EMBEDDED_DATA_HELP)))]
pub(crate) struct DeliberateArgs {
    /// Question to ask.
    question: String,
    /// Agent to ask; can be repeated.
    #[arg(long, value_name = "NAME[=USE]", required = true)]
    agent: Vec<String>,
    /// Text file that the agents read.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Allowed answers, separated by commas, in order (such as no,maybe,yes); by default any.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    options: Vec<String>,
    /// Rule to tally the votes with.
    #[arg(long, value_name = "RULE", default_value = VotingRule::Confidence.as_str(), value_parser = vote::rules())]
    rule: VotingRule,
    /// Tie-break: most-voters, highest-confidence, first-listed or last-listed of --options. By default a tie is no decision.
    #[arg(long, value_name = "HOW", value_parser = vote::tie_breaks(), hide_possible_values = true)]
    tie_break: Option<TieBreak>,
    /// Maximum number of discussion rounds.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Print the estimated calls, tokens and cost, without asking any agent.
    #[arg(long = "estimate", visible_alias = "dry-run")]
    dry_run: bool,
    #[command(flatten)]
    programs: ProgramArgs,
    #[command(flatten)]
    format: ReportFormatArgs,
    #[command(flatten)]
    hub: HubArgs,
}

pub(crate) async fn run(args: DeliberateArgs) -> anyhow::Result<()> {
    let format = args.format.selected();
    let (playbook, registered) = playbook(&args)?;
    if args.dry_run {
        return report::print_estimate(&estimate(&playbook.spec, tokens::count_o200k), format);
    }
    let hub = args.hub.open_library().await?;
    let result = until_interrupted(deliberate(&hub, playbook, &registered)).await;
    hub.close().await;
    let (id, outcome) = result?;
    report::print(&outcome, &id, format, None)?;
    crate::run::require_decision(&outcome)
}

async fn deliberate(
    hub: &Hub,
    playbook: Playbook,
    registered: &[String],
) -> anyhow::Result<(String, quorate::deliberation::Outcome)> {
    for name in registered {
        if hub.space().is_some() {
            let message = format!("--agent {name}: no hub is running that could have this agent");
            let hint = "start one with `quorate serve`, or declare the agent: --agent NAME=cmd:COMMAND";
            return Err(CommandError::new(USAGE, message, hint).into());
        }
        // Fails early if the agent is not registered.
        hub.agent_info(name).await?;
    }
    crate::run::deliberate(hub, playbook).await
}

/// Builds the playbook, and returns the agents that must be registered in the hub already.
fn playbook(args: &DeliberateArgs) -> anyhow::Result<(Playbook, Vec<String>)> {
    let input = args.input.as_deref().map(read_input_file).transpose()?;
    let input = input.map_or(Value::Null, |text| json!({ "text": text }));
    let (mut agents, mut registered, mut members) = (Vec::new(), Vec::new(), Vec::<Member>::new());
    let mut context = AgentContext::new(Path::new("."));
    context.env_inheritance = args.programs.env_inheritance();
    for flag in &args.agent {
        let (name, line) =
            flag.split_once('=').map_or((flag.as_str(), None), |(name, line)| (name, Some(line)));
        let agent_error =
            |detail: &str, hint: &str| CommandError::new(USAGE, format!("--agent {flag}: {detail}"), hint);
        AgentId::new(name).map_err(|refused| agent_error(&refused.detail, &refused.hint))?;
        match line {
            Some(line) => {
                let declared = DeclaredAgent::declare(name, line, &AgentSettings::default(), &context);
                let agent = declared.map_err(|refused| agent_error(&refused.detail, &refused.hint))?;
                members.push(Member { id: name.to_owned(), provider: provider_name(&agent.declared) });
                agents.push(agent);
            }
            None => {
                members.push(Member { id: name.to_owned(), provider: None });
                registered.push(name.to_owned());
            }
        }
    }
    let names: BTreeSet<&str> = members.iter().map(|member| member.id.as_str()).collect();
    if names.len() < members.len() {
        let hint = "give each agent a different name: --agent NAME=USE";
        return Err(CommandError::new(USAGE, "--agent: two agents have the same name", hint).into());
    }
    let mut spec = Spec::new(args.question.clone(), input, members);
    spec.rule = args.rule;
    spec.tie_break = args.tie_break;
    spec.vocabulary.recommendations = args.options.iter().map(|option| option.trim().to_owned()).collect();
    spec.limits.rounds = args.rounds.unwrap_or(spec.limits.rounds);
    spec.check()
        .map_err(|error| CommandError::new(USAGE, error.to_string(), "see `quorate deliberate --help`"))?;
    Ok((Playbook { path: PathBuf::from("deliberate"), spec, agents, approval: None }, registered))
}
