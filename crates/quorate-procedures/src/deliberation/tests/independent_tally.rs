//! Random deliberations, verified by an independent tally: integer arithmetic, and brute force over all sets of voters.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::conflict::Position;
use crate::tally::{Agreement, VotingRule};

const CHOICES: [&str; 3] = ["yes", "no", "later"];

/// Behaviour of an agent in a round: keep its position or adopt a peer's, and whether it states agreement.
type Turn = (Option<usize>, bool);

#[derive(Clone, Debug)]
struct Panelist {
    choice: &'static str,
    percent: u32,
    turns: [Turn; 2],
}

fn panel() -> impl Strategy<Value = Vec<Panelist>> {
    let turn = || (prop::option::weighted(0.4, 0_usize..5), any::<bool>());
    let panelist = (prop::sample::select(CHOICES.to_vec()), 1_u32..=100, turn(), turn());
    let panelist = panelist.prop_map(|(choice, percent, first, second)| Panelist {
        choice,
        percent,
        turns: [first, second],
    });
    prop::collection::vec(panelist, 2..6)
}

/// Reply of a panelist in the discussion. It states agreement only if a peer holds the same position.
fn answer(ask: &Ask, panelist: &Panelist) -> Value {
    let payload: Value = serde_json::from_str(&ask.payload).expect("JSON");
    let (own, others) = (&payload["your_position"], payload["other_positions"].as_array().expect("a list"));
    let round = payload["round"].as_u64().expect("a number");
    let (moves_to, agrees) = panelist.turns[usize::from(round > 1)];
    let position = moves_to.map_or(&own["position"], |index| &others[index % others.len()]["position"]);
    let is_held = others.iter().any(|other| other["position"] == *position);
    json!({"revised_position": position, "confidence": own["confidence"], "agrees_with_peer": agrees && is_held, "reasoning": "r"})
}

/// A ballot with integer weights.
type Ballot = (String, u32);

fn ballots(positions: &[Position]) -> Vec<Ballot> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let percent = |position: &Position| (position.confidence.expect("stated") * 100.0).round() as u32;
    positions.iter().map(|position| (position.position.to_string(), percent(position))).collect()
}

/// The winner by majority or confidence; `None` for a tie.
fn recount(rule: VotingRule, ballots: &[Ballot]) -> Option<String> {
    let mut sums: BTreeMap<&str, u32> = BTreeMap::new();
    for (choice, percent) in ballots {
        *sums.entry(choice).or_default() += if rule == VotingRule::Majority { 1 } else { *percent };
    }
    let greatest = sums.values().max()?;
    let mut leaders = sums.iter().filter(|(_, sum)| *sum == greatest);
    leaders.next().filter(|_| leaders.next().is_none()).map(|(choice, _)| (*choice).to_owned())
}

/// Number of voters needed to make another choice win.
fn fewest_to_change(rule: VotingRule, ballots: &[Ballot]) -> Option<usize> {
    let winner = recount(rule, ballots);
    let mut sizes = Vec::new();
    for set in 1_u32..(1 << ballots.len()) {
        for rival in
            ballots.iter().map(|(choice, _)| choice).filter(|choice| Some(*choice) != winner.as_ref())
        {
            let mut moved = ballots.to_vec();
            let movers = moved.iter_mut().enumerate().filter(|(index, _)| set & (1 << index) != 0);
            movers.for_each(|(_, ballot)| rival.clone_into(&mut ballot.0));
            if recount(rule, &moved).as_ref() == Some(rival) {
                sizes.push(set.count_ones() as usize);
            }
        }
    }
    sizes.into_iter().min()
}

/// The same cases in every run.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(11),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn v1_every_outcome_matches_its_ballots(panel in panel(), by_majority in any::<bool>()) {
        let names: Vec<String> = (0..panel.len()).map(|index| format!("a{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut spec = Spec::new("Shall we?", Value::Null, members(&names));
        spec.rule = if by_majority { VotingRule::Majority } else { VotingRule::Confidence };
        let run = run_script(&spec, |ask| {
            let panelist = &panel[spec.agent_index(&ask.agent)];
            if ask.action == ANALYSE {
                return Reaction::Answer(recommends(panelist.choice, f64::from(panelist.percent) / 100.0));
            }
            Reaction::Answer(answer(ask, panelist))
        });
        let outcome = run.outcome();
        let Some(decision) = outcome.recommendation_decision() else {
            prop_assert_eq!(outcome.synthesis.recommendation.as_deref(), Some(panel[0].choice));
            let unanimous = Agreement::Unanimous { held: panel.len(), of: panel.len() };
            prop_assert_eq!(&outcome.synthesis.agreement, &unanimous);
            return Ok(());
        };
        let (first, last) = (ballots(&decision.conflict.positions), ballots(&decision.ballots));
        let winner = recount(spec.rule, &last);
        prop_assert_eq!(decision.position.as_ref().map(ToString::to_string), winner.clone());
        prop_assert_eq!(decision.before.as_ref().map(ToString::to_string), recount(spec.rule, &first));
        prop_assert_eq!(&outcome.synthesis.recommendation, &winner);
        let found = decision.would_change.as_ref().map(|pivotal| pivotal.voters.len());
        prop_assert_eq!(found, fewest_to_change(spec.rule, &last));
        let held = last.iter().filter(|(choice, _)| Some(choice) == winner.as_ref()).count();
        match &outcome.synthesis.agreement {
            Agreement::Unanimous { .. } => prop_assert_eq!(held, last.len()),
            Agreement::Majority { .. } => prop_assert!(2 * held > last.len() && held < last.len()),
            Agreement::Contested { .. } => prop_assert!(2 * held <= last.len()),
            Agreement::Tied { .. } => prop_assert!(winner.is_none() && decision.how == ResolutionMethod::Tied),
            Agreement::NotComparable { .. } => prop_assert!(false, "there are at least two"),
        }
        if let ResolutionMethod::Agreed { .. } = decision.how {
            let moved = first.iter().zip(&last).any(|(old, new)| old.0 != new.0 && Some(&new.0) == winner.as_ref());
            prop_assert!(moved, "the initial positions differed, so an agent moved");
            prop_assert!(held + 1 >= last.len(), "all but at most one hold it");
        }
    }
}
