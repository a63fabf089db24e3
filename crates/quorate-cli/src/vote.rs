//! `quorate vote`: ballots, counted. It needs no hub.

mod ballots;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use quorate_procedures::count::{Agreement, Counting, Question, Rule, Tally, TieBreak, tally};
use serde::Serialize;

use crate::exit::{Ended, NO_DECISION, USAGE};
use crate::shape::{Format, Table};
use crate::text;

/// Ballots, counted by the rules that deliberations use.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate vote tally --rule log-odds < ballots.jsonl")]
pub(crate) struct VoteArgs {
    #[command(subcommand)]
    verb: VoteVerb,
}

#[derive(Subcommand, Debug)]
enum VoteVerb {
    /// Count ballots from the standard input, for each question by itself. [ro]
    #[command(after_help = "Example: quorate vote tally --rule confidence --json < ballots.jsonl

A ballot is a line of JSON:
  {\"question\": \"sign\", \"voter\": \"risk\", \"choice\": \"no\", \"confidence\": 0.8}
`confidence` (0 to 1) may be left out; `ranking`, best first, is for borda.

  majority     one ballot, one vote
  confidence   a ballot weighs its confidence
  log-odds     confidences are probabilities of being right
  borda        rankings give points
  reliability  voters are judged by their answers to all questions

Equal shares are a tie, and a tie is no decision: the exit code is 8. Only
--tie-break breaks it:
  most-voters         the tied choice with the most ballots
  highest-confidence  the tied choice with the highest single confidence
  first-listed        the first of the tied choices by name
  last-listed         the last of the tied choices by name")]
    Tally(TallyArgs),
}

#[derive(Args, Debug)]
struct TallyArgs {
    /// How to count.
    #[arg(long, value_name = "RULE", default_value = Rule::Confidence.as_str(), value_parser = rules())]
    rule: Rule,
    /// How to break ties. By default a tie is no decision.
    #[arg(long, value_name = "HOW", value_parser = tie_breaks())]
    tie_break: Option<TieBreak>,
    /// One JSON object a line for each question: question, choice, shares, tie, agreement.
    #[arg(long)]
    json: bool,
}

pub(crate) fn rules() -> impl clap::builder::TypedValueParser<Value = Rule> {
    let names = PossibleValuesParser::new(Rule::ALL.map(Rule::as_str));
    names.map(|name| Rule::of_name(&name).unwrap_or_default())
}

pub(crate) fn tie_breaks() -> impl clap::builder::TypedValueParser<Value = TieBreak> {
    let names = PossibleValuesParser::new(TieBreak::ALL.map(TieBreak::as_str));
    names.try_map(|name| TieBreak::of_name(&name).ok_or("not a tie-break"))
}

pub(crate) fn run(args: VoteArgs) -> anyhow::Result<()> {
    let VoteVerb::Tally(args) = args.verb;
    if std::io::stdin().is_terminal() {
        text::say("reads ballots, one JSON object a line; ^D ends");
    }
    let questions = ballots::read(std::io::stdin().lock())?;
    if questions.is_empty() {
        text::say("no ballots");
    }
    let counting = Counting { rule: args.rule, tie_break: args.tie_break };
    let counted = tally(counting, &questions).map_err(|(index, why)| {
        let what = format!("the ballots on {} cannot be counted: {why}", questions[index].name);
        Ended::new(USAGE, what, "quorate vote tally --help shows what a ballot is")
    })?;
    if args.json {
        as_lines(&questions, &counted)?;
    } else {
        let mut table = Table::new(["QUESTION", "CHOICE", "AGREEMENT", "BALLOTS", "SHARES"]);
        for (question, counted) in questions.iter().zip(&counted) {
            let (ballots, agreement) = (counted.ballots.len().to_string(), Agreement::of(Some(counted)));
            let choice = counted.choice.clone().unwrap_or_else(|| "no decision".to_owned());
            table.row([question.name.clone(), choice, agreement.to_string(), ballots, shares(counted)]);
        }
        table.print(Format::Table);
    }
    let tied = counted.iter().filter(|one| one.choice.is_none()).count();
    if tied == 0 {
        return Ok(());
    }
    let what = format!("no decision: {tied} of {} questions tied", counted.len());
    Err(Ended::new(NO_DECISION, what, "--tie-break HOW breaks ties: quorate vote tally --help").into())
}

/// What a program reads of a question.
#[derive(Serialize)]
struct Line<'a> {
    question: &'a str,
    /// What won; `null` for a tie that no tie-break decided.
    choice: Option<&'a str>,
    shares: BTreeMap<&'a str, f64>,
    /// Whether several choices share the first place.
    tie: bool,
    agreement: Agreement,
}

fn as_lines(questions: &[Question], counted: &[Tally]) -> anyhow::Result<()> {
    for (question, counted) in questions.iter().zip(counted) {
        let line = Line {
            question: &question.name,
            choice: counted.choice.as_deref(),
            shares: counted.shares.iter().map(|one| (one.choice.as_str(), rounded(one.share))).collect(),
            tie: counted.is_tie(),
            agreement: Agreement::of(Some(counted)),
        };
        if !text::print_on(text::clean_json(&serde_json::to_string(&line)?))? {
            break;
        }
    }
    Ok(())
}

/// Without the noise of binary fractions in the last digits.
fn rounded(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}

fn shares(counted: &Tally) -> String {
    let shares = counted.shares.iter().map(|one| format!("{} {:.2}", one.choice, one.share));
    shares.collect::<Vec<_>>().join(" · ")
}
