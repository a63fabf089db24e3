//! `quorate vote`: ballots, counted. It needs no hub.

mod ballots;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use quorate_procedures::count::{Question, Rule, Tally, tally};
use serde::Serialize;

use crate::exit::{Ended, USAGE};
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

Equal shares are a tie; it is shown, and broken by most ballots, then the surest
ballot, then the name.")]
    Tally(TallyArgs),
}

#[derive(Args, Debug)]
struct TallyArgs {
    /// How to count.
    #[arg(long, value_name = "RULE", default_value = Rule::Confidence.as_str(), value_parser = rules())]
    rule: Rule,
    /// One JSON object a line for each question: question, choice, shares, tie.
    #[arg(long)]
    json: bool,
}

pub(crate) fn rules() -> impl clap::builder::TypedValueParser<Value = Rule> {
    let names = PossibleValuesParser::new(Rule::ALL.map(Rule::as_str));
    names.map(|name| Rule::of_name(&name).unwrap_or_default())
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
    let counted = tally(args.rule, &questions).map_err(|(index, why)| {
        let what = format!("the ballots on {} cannot be counted: {why}", questions[index].name);
        Ended::new(USAGE, what, "quorate vote tally --help shows what a ballot is")
    })?;
    if args.json {
        return as_lines(&questions, &counted);
    }
    let mut table = Table::new(["QUESTION", "CHOICE", "BALLOTS", "SHARES"]);
    for (question, counted) in questions.iter().zip(&counted) {
        let ballots = counted.ballots.len().to_string();
        table.row([question.name.clone(), outcome(counted), ballots, shares(counted)]);
    }
    table.print(Format::Table);
    Ok(())
}

/// What a program reads of a question.
#[derive(Serialize)]
struct Line<'a> {
    question: &'a str,
    choice: &'a str,
    shares: BTreeMap<&'a str, f64>,
    tie: bool,
}

fn as_lines(questions: &[Question], counted: &[Tally]) -> anyhow::Result<()> {
    for (question, counted) in questions.iter().zip(counted) {
        let line = Line {
            question: &question.name,
            choice: &counted.choice,
            shares: counted.shares.iter().map(|one| (one.choice.as_str(), rounded(one.share))).collect(),
            tie: counted.is_tie(),
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

/// What won; a tie looks like one.
fn outcome(counted: &Tally) -> String {
    let others: Vec<&str> =
        counted.tied.iter().map(String::as_str).filter(|choice| *choice != counted.choice).collect();
    if others.is_empty() {
        counted.choice.clone()
    } else {
        format!("{} (tie with {})", counted.choice, others.join(", "))
    }
}

fn shares(counted: &Tally) -> String {
    let shares = counted.shares.iter().map(|one| format!("{} {:.2}", one.choice, one.share));
    shares.collect::<Vec<_>>().join(" · ")
}
