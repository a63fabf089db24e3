//! `quorate vote`: tallies ballots from stdin, without a hub.

mod ballots;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use quorate_procedures::tally::{
    Agreement, Question, Tally, TallyMethod, TieBreak, VotingRule, tally_questions,
};
use serde::Serialize;

use crate::exit::{CommandError, NO_DECISION, USAGE};
use crate::output::{OutputFormat, Table};
use crate::terminal;

/// Arguments of `quorate vote`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate vote tally --rule log-odds < ballots.jsonl")]
pub(crate) struct VoteArgs {
    #[command(subcommand)]
    verb: VoteVerb,
}

#[derive(Subcommand, Debug)]
enum VoteVerb {
    /// Tally ballots from stdin, separately for each question. [ro]
    #[command(after_help = "Example: quorate vote tally --rule confidence --json < ballots.jsonl

Each line is a ballot in JSON:

  {\"question\": \"sign\", \"voter\": \"risk\", \"choice\": \"no\", \"confidence\": 0.8}

`confidence` (0 to 1) is optional: a ballot without it counts with the mean of those stated on its question, \
or with weight 1 if none is stated. `ranking`, best first, is used by borda.

  majority     one vote per ballot
  confidence   votes weighted by confidence
  log-odds     confidences as probabilities of being right
  borda        points by rank
  reliability  votes weighted by how often the voter is right, as estimated
               from the ballots on all questions; confidences are ignored

Equal shares are a tie, and a tie is no decision: the exit code is 8. Use --tie-break to break ties:

  most-voters         the tied choice with the most ballots
  highest-confidence  the tied choice with the highest single confidence
  first-listed        the tied choice that is first alphabetically (in a
                      deliberation: first in its options)
  last-listed         the tied choice that is last in that order")]
    Tally(TallyArgs),
}

#[derive(Args, Debug)]
struct TallyArgs {
    /// Rule to tally the ballots with.
    #[arg(long, value_name = "RULE", default_value = VotingRule::Confidence.as_str(), value_parser = rules())]
    rule: VotingRule,
    /// Tie-break. By default a tie is no decision.
    #[arg(long, value_name = "HOW", value_parser = tie_breaks())]
    tie_break: Option<TieBreak>,
    /// Print one JSON object per question: question, choice, shares, tie, agreement.
    #[arg(long)]
    json: bool,
}

pub(crate) fn rules() -> impl clap::builder::TypedValueParser<Value = VotingRule> {
    let names = PossibleValuesParser::new(VotingRule::ALL.map(VotingRule::as_str));
    names.map(|name| VotingRule::from_name(&name).unwrap_or_default())
}

pub(crate) fn tie_breaks() -> impl clap::builder::TypedValueParser<Value = TieBreak> {
    let names = PossibleValuesParser::new(TieBreak::ALL.map(TieBreak::as_str));
    names.try_map(|name| TieBreak::from_name(&name).ok_or("not a tie-break"))
}

pub(crate) fn run(args: VoteArgs) -> anyhow::Result<()> {
    let VoteVerb::Tally(args) = args.verb;
    if std::io::stdin().is_terminal() {
        terminal::note("reading ballots from stdin, one JSON object per line; end with ^D");
    }
    let questions = ballots::read(std::io::stdin().lock())?;
    if questions.is_empty() {
        terminal::note("no ballots");
    }
    let method = TallyMethod { rule: args.rule, tie_break: args.tie_break };
    let tallies = tally_questions(method, &questions).map_err(|(index, error)| {
        let message = format!("cannot tally the ballots on {}: {error}", questions[index].name);
        CommandError::new(USAGE, message, "see `quorate vote tally --help` for the format of ballots")
    })?;
    if args.json {
        print_json_lines(&questions, &tallies)?;
    } else {
        let mut table = Table::new(["QUESTION", "CHOICE", "AGREEMENT", "BALLOTS", "SHARES"]);
        for (question, tally) in questions.iter().zip(&tallies) {
            let (ballots, agreement) = (tally.ballots.len().to_string(), Agreement::of(Some(tally)));
            let choice = tally.choice.clone().unwrap_or_else(|| "no decision".to_owned());
            table.row([question.name.clone(), choice, agreement.to_string(), ballots, shares(tally)]);
        }
        table.print(OutputFormat::Table);
    }
    let tied = tallies.iter().filter(|tally| tally.choice.is_none()).count();
    if tied == 0 {
        return Ok(());
    }
    let message = format!("no decision: {tied} of {} questions tied", tallies.len());
    Err(CommandError::new(
        NO_DECISION,
        message,
        "use --tie-break HOW to break ties; see `quorate vote tally --help`",
    )
    .into())
}

/// JSON output for a question.
#[derive(Serialize)]
struct Line<'a> {
    question: &'a str,
    /// Winning choice; `null` for an unbroken tie.
    choice: Option<&'a str>,
    shares: BTreeMap<&'a str, f64>,
    /// Whether several choices have the highest share.
    tie: bool,
    agreement: Agreement,
}

fn print_json_lines(questions: &[Question], tallies: &[Tally]) -> anyhow::Result<()> {
    for (question, tally) in questions.iter().zip(tallies) {
        let line = Line {
            question: &question.name,
            choice: tally.choice.as_deref(),
            shares: tally.shares.iter().map(|share| (share.choice.as_str(), rounded(share.share))).collect(),
            tie: tally.is_tie(),
            agreement: Agreement::of(Some(tally)),
        };
        if !terminal::print_streaming(terminal::sanitize_json(&serde_json::to_string(&line)?))? {
            break;
        }
    }
    Ok(())
}

/// Rounds a share to 9 digits, to hide floating-point noise.
fn rounded(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}

fn shares(tally: &Tally) -> String {
    let shares = tally.shares.iter().map(|share| format!("{} {:.2}", share.choice, share.share));
    shares.collect::<Vec<_>>().join(" · ")
}
