//! One iteration checked by hand, then voters with a planted confusion.

use super::*;
use crate::tally::{Ballot, VotingRule, tally_questions};

fn question(name: &str, answers: &[&str]) -> Question {
    let ballot = |(index, choice): (usize, &&str)| Ballot {
        voter: format!("v{index}"),
        choice: (*choice).to_owned(),
        ..Ballot::default()
    };
    let ballots = answers.iter().enumerate().map(ballot).collect();
    Question { name: name.to_owned(), ballots, ..Question::default() }
}

#[test]
fn a5_one_iteration_matches_a_manual_calculation() {
    let questions = [question("q", &["a", "a", "b"])];
    let data = BallotMatrix::of(&questions);
    let shares = data.vote_shares(&questions);
    assert_eq!(shares, [[2.0 / 3.0, 1.0 / 3.0]]);
    let model = data.maximise(&shares);
    let near =
        |actual: f64, expected: f64| assert!((actual - expected).abs() < 1e-6, "{actual}, not {expected}");
    // (2/3 + 8·0.7) / (1 + 8) and (1/3 + 8·0.7) / (1 + 8).
    near(model.accuracy[0], 0.696_296_296);
    near(model.accuracy[2], 0.659_259_259);
    // v0 answers a where a is correct: (2/3 + 4·0.696296) / (2/3 + 4); where b is correct: (1/3 + 4·0.303704) / (1/3 +
    // 4).
    near(model.cells[0].exp(), 0.739_682_540);
    near(model.cells[1].exp(), 0.357_264_957);
    // v2 answers b where a is correct: (2/3 + 4·0.340741) / (2/3 + 4); where b is correct: (1/3 + 4·0.659259) / (1/3 +
    // 4).
    let a = 5.0 / 9.0 * 0.739_682_540 * 0.739_682_540 * 0.434_920_635;
    let b = 4.0 / 9.0 * 0.357_264_957 * 0.357_264_957 * 0.685_470_085;
    near(data.expect(&model)[0][0], a / (a + b));
}

/// A small deterministic random number generator.
struct TestRng(u64);

impl TestRng {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 32).expect("32 bits")) / f64::from(u32::MAX)
    }

    fn pick(&mut self, of: usize) -> usize {
        (0..of)
            .find(|index| self.next() < 1.0 / f64::from(u32::try_from(of - index).expect("small")))
            .unwrap_or(of - 1)
    }
}

const LABELS: [&str; 3] = ["high", "low", "medium"];

/// Two reliable voters, one who answers `medium` for every `low`, four who guess two times in three.
fn planted(seed: u64, count: usize) -> (Vec<&'static str>, Vec<Question>) {
    let mut rng = TestRng(seed);
    let mut truths = Vec::new();
    let mut questions = Vec::new();
    for index in 0..count {
        let truth = rng.pick(3);
        let mut answers = Vec::new();
        for voter in 0..7 {
            let accuracy = if voter < 2 { 0.92 } else { 0.38 };
            let confused = voter == 2 && LABELS[truth] == "low";
            let accuracy = if voter == 2 { 0.95 } else { accuracy };
            answers.push(if confused {
                "medium"
            } else if rng.next() < accuracy {
                LABELS[truth]
            } else {
                LABELS[(truth + 1 + rng.pick(2)) % 3]
            });
        }
        truths.push(LABELS[truth]);
        questions.push(question(&format!("q{index:05}"), &answers));
    }
    (truths, questions)
}

fn hits(rule: VotingRule, truths: &[&str], questions: &[Question]) -> usize {
    let tallies = tally_questions(rule, questions).expect("countable");
    tallies.iter().zip(truths).filter(|(tallies, truth)| tallies.choice.as_deref() == Some(**truth)).count()
}

#[test]
fn a5_reliability_finds_the_planted_confusion_and_beats_the_majority() {
    for seed in 1..=3 {
        let (truths, questions) = planted(seed, 400);
        let (majority, reliability) = (
            hits(VotingRule::Majority, &truths, &questions),
            hits(VotingRule::Reliability, &truths, &questions),
        );
        assert!(reliability >= majority + 40, "seed {seed}: {reliability} against {majority} of 400");
        let estimate = estimate_reliability(&questions);
        assert!(estimate.converged, "seed {seed}: {} iterations", estimate.iterations);
        let cell = |voter: usize, truth: &str, answer: &str| {
            let cells = &estimate.voters[voter].confusion;
            cells.iter().find(|cell| cell.0 == truth && cell.1 == answer).map_or(0.0, |cell| cell.2)
        };
        assert!(cell(0, "high", "high") > 0.8, "a reliable voter: {:?}", estimate.voters[0]);
        assert!(cell(2, "low", "medium") > 0.8, "the confused voter: {:?}", estimate.voters[2]);
        assert!(estimate.voters[5].accuracy < 0.55, "a guessing voter: {:?}", estimate.voters[5]);
    }
}

#[test]
fn a5_reliability_is_estimated_over_choices_that_never_repeat() {
    let mut rng = TestRng(9);
    let mut correct = [0, 0];
    let mut questions = Vec::new();
    for index in 0..200 {
        // v0 is reliable; v1 and v2 guess, each among five.
        let choices: Vec<String> = (0..5).map(|choice| format!("w{index}-{choice}")).collect();
        let mut answers = vec![choices[0].as_str()];
        for _ in 0..2 {
            answers.push(choices[if rng.next() < 0.3 { 0 } else { 1 + rng.pick(4) }].as_str());
        }
        questions.push(question(&format!("q{index:03}"), &answers));
    }
    for (rule, correct) in [VotingRule::Majority, VotingRule::Reliability].into_iter().zip(&mut correct) {
        let tallies = tally_questions(rule, &questions).expect("countable");
        *correct = tallies
            .iter()
            .enumerate()
            .filter(|(index, tally)| tally.choice == Some(format!("w{index}-0")))
            .count();
    }
    assert!(correct[1] > 190 && correct[1] > correct[0], "{correct:?} of 200");
}
