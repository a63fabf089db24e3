//! The rules against hand-calculated sums, and properties that hold for all ballots.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

fn ballot(text: &str) -> Ballot {
    let mut words = text.split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (voter, choices, confidence) = (next(), next(), next());
    let ranking: Vec<String> = choices.split('>').map(str::to_owned).collect();
    Ballot {
        voter: voter.to_owned(),
        choice: ranking[0].clone(),
        confidence: confidence.parse().ok(),
        ranking: if ranking.len() > 1 { ranking } else { Vec::new() },
        reason: String::new(),
    }
}

fn question(text: &str) -> Question {
    Question { ballots: text.split(", ").map(ballot).collect(), ..Question::default() }
}

fn tally_of(rule: VotingRule, text: &str) -> Tally {
    tally_questions(rule, &[question(text)]).expect("valid ballots").remove(0)
}

fn assert_near(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-9, "{actual}, not {expected}");
}

#[test]
fn a5_majority_counts_one_vote_per_ballot() {
    let tally = tally_of(VotingRule::Majority, "x a 0.1, y a 0.1, z b 0.9");
    assert_eq!((tally.choice.as_deref(), tally.is_tie()), (Some("a"), false));
    assert_near(tally.share(), 2.0 / 3.0);
    assert_eq!(tally.minority().map(|ballot| ballot.voter.as_str()).collect::<Vec<_>>(), ["z"]);
}

#[test]
fn a5_confidence_weights_ballots() {
    let tally = tally_of(VotingRule::Confidence, "x a 0.9, y b 0.5, z b 0.3");
    assert_eq!(tally.choice.as_deref(), Some("a"), "two unsure voters do not outvote a confident one");
    assert_near(tally.share(), 0.9 / 1.7);
    assert_near(tally.margin(), 0.1 / 1.7);
}

#[test]
fn a5_a_ballot_without_confidence_has_the_mean_weight() {
    assert_near(tally_of(VotingRule::Confidence, "x a 0.8, y a, z b 0.6").share(), 1.5 / 2.1);
    assert_near(tally_of(VotingRule::Confidence, "x a, y a, z b").share(), 2.0 / 3.0);
    assert_near(tally_of(VotingRule::Confidence, "x a 0, y b 0, z b 0").share(), 0.5);
}

#[test]
fn a5_log_odds_are_probabilities() {
    // 9 : (7/3)² = 9 : 49/9.
    let tally = tally_of(VotingRule::LogOdds, "x a 0.9, y b 0.7, z b 0.7");
    assert_eq!(tally.choice.as_deref(), Some("a"));
    assert_near(tally.share(), 9.0 / (9.0 + 49.0 / 9.0));
    // Three choices: 0.5·2/0.5 = 2, 0.4·2/0.6 = 4/3, 0.3·2/0.7 = 6/7.
    assert_near(
        tally_of(VotingRule::LogOdds, "x a 0.5, y b 0.4, z c 0.3").share(),
        2.0 / (2.0 + 4.0 / 3.0 + 6.0 / 7.0),
    );
    // Confidence is capped at 0.99.
    assert_near(tally_of(VotingRule::LogOdds, "x a 1, y b 0.5").share(), 0.99);
}

#[test]
fn a5_borda_prefers_the_compromise() {
    let tally = tally_of(VotingRule::Borda, "v a>b>c, w a>b>c, x a>b>c, y b>c>a, z b>c>a");
    assert_eq!(tally.choice.as_deref(), Some("b"), "a has the majority, but is the last choice of two");
    let shares: Vec<(&str, f64)> =
        tally.shares.iter().map(|share| (share.choice.as_str(), share.share * 15.0)).collect();
    assert_eq!(shares, [("b", 7.0), ("a", 6.0), ("c", 2.0)]);
    // y ranks only b: a and c share the 1 and the 0 that are left.
    let partial = tally_of(VotingRule::Borda, "x a>b>c, y b");
    assert_near(partial.shares.iter().find(|share| share.choice == "c").map_or(0.0, |c| c.share), 0.5 / 6.0);
}

#[test]
fn n18_a_tie_has_no_winner() {
    // 0.7 + 0.2 is not exactly 0.9 in binary; it is a tie nevertheless.
    let tally = tally_of(VotingRule::Confidence, "x a 0.9, y b 0.7, z b 0.2");
    assert_eq!((tally.tied.as_slice(), tally.choice), (&["b".into(), "a".into()][..], None));
    for rule in VotingRule::ALL {
        let tally = tally_of(rule, "x b 0.5, y a 0.5");
        assert_eq!(
            (tally.choice.as_deref(), tally.tied),
            (None, vec!["a".to_owned(), "b".to_owned()]),
            "{rule:?}"
        );
    }
    assert!(!tally_of(VotingRule::Majority, "x a, y a").is_tie());
}

#[test]
fn n18_only_a_declared_tie_break_breaks_a_tie_and_is_reported() {
    let winner_of = |tie_break: TieBreak, rule: VotingRule, text: &str| {
        let mut question = question(text);
        question.options = ["z", "b", "a"].map(str::to_owned).to_vec();
        let method = TallyMethod { rule, tie_break: Some(tie_break) };
        let tally = tally_questions(method, &[question]).expect("valid ballots").remove(0);
        assert_eq!(tally.tie_break.is_some(), tally.choice.is_some(), "reported if and only if it decides");
        assert!(
            tally.choice.is_none()
                || tally.choice.as_ref() == tally.shares.first().map(|share| &share.choice)
        );
        assert!(tally.is_tie(), "a broken tie is still reported as a tie");
        tally.choice.unwrap_or_default()
    };
    let three = "x a 0.9, y b 0.7, z b 0.2";
    assert_eq!(winner_of(TieBreak::MostVoters, VotingRule::Confidence, three), "b");
    assert_eq!(winner_of(TieBreak::HighestConfidence, VotingRule::Confidence, three), "a");
    assert_eq!(winner_of(TieBreak::FirstListed, VotingRule::Confidence, three), "b");
    assert_eq!(winner_of(TieBreak::LastListed, VotingRule::Confidence, three), "a");
    assert_eq!(
        winner_of(TieBreak::MostVoters, VotingRule::Majority, "x a 0.5, y b 0.6"),
        "",
        "one ballot each"
    );
    assert_eq!(winner_of(TieBreak::HighestConfidence, VotingRule::Majority, "x a 0.5, y b 0.5"), "");
    let method = TallyMethod { rule: VotingRule::Majority, tie_break: Some(TieBreak::LastListed) };
    let clear = tally_questions(method, &[question("x a, y a, z b")]).expect("valid ballots").remove(0);
    assert_eq!((clear.choice.as_deref(), clear.tie_break), (Some("a"), None), "there was no tie to break");
    assert_eq!(
        TieBreak::ALL.map(|tie_break| TieBreak::from_name(tie_break.as_str())),
        TieBreak::ALL.map(Some)
    );
}

#[test]
fn n2_the_text_of_an_agreement_matches_its_numbers() {
    let agreement_text = |method: TallyMethod, text: &str| {
        let tally = tally_questions(method, &[question(text)]).expect("valid ballots").remove(0);
        Agreement::of(Some(&tally)).to_string()
    };
    let agreement_by = |rule: VotingRule, text: &str| agreement_text(rule.into(), text);
    assert_eq!(agreement_by(VotingRule::Confidence, "x a 0.9, y a 0.1"), "unanimous");
    assert_eq!(
        agreement_by(VotingRule::Confidence, "v a 0.9, w a 0.9, x a 0.9, y a 0.9, z b 1"),
        "majority 4 of 5"
    );
    assert_eq!(
        agreement_by(VotingRule::Confidence, "x yes 1, y no 0.4, z no 0.4"),
        "contested: 1 of 3, by weight"
    );
    assert_eq!(
        agreement_by(VotingRule::Confidence, "w a 0.9, x a 0.9, y b 0.4, z b 0.4"),
        "contested: 2 of 4, by weight"
    );
    assert_eq!(
        agreement_by(VotingRule::Majority, "v a, w a, x b, y c, z d"),
        "contested: 2 of 5, by plurality"
    );
    assert_eq!(
        agreement_by(VotingRule::Borda, "v a>b>c, w a>b>c, x a>b>c, y b>c>a, z b>c>a"),
        "contested: 2 of 5, by points"
    );
    assert_eq!(agreement_by(VotingRule::Majority, "x a, y b"), "tied");
    assert_eq!(agreement_by(VotingRule::Majority, "x a"), "not comparable (only one position given)");
    assert_eq!(Agreement::of(None).to_string(), "not comparable (no recommendations given)");
    let first = TallyMethod { rule: VotingRule::Majority, tie_break: Some(TieBreak::FirstListed) };
    assert_eq!(agreement_text(first, "x a, y b"), "contested: 1 of 2, by tie-break first-listed");
    let most = TallyMethod { rule: VotingRule::Confidence, tie_break: Some(TieBreak::MostVoters) };
    assert_eq!(
        agreement_text(most, "x a 0.9, y b 0.7, z b 0.2"),
        "majority 2 of 3, by tie-break most-voters"
    );
}

#[test]
fn a5_numbers_merge_to_the_weighted_median() {
    let merged = |values: &[(f64, f64)]| weighted_median(values).map(|merged| merged.value);
    assert_eq!(merged(&[(90.0, 0.3), (10.0, 0.2), (20.0, 0.5)]), Some(20.0));
    assert_eq!(merged(&[(10.0, 0.5), (20.0, 0.5)]), Some(15.0), "half on each side");
    assert_eq!(
        merged(&[(10.0, 0.7), (20.0, 0.2), (30.0, 0.5)]),
        Some(15.0),
        "exactly half, except for rounding"
    );
    assert_eq!(merged(&[(10.0, 0.0), (20.0, 0.0), (90.0, 0.0)]), Some(20.0));
    assert_eq!(merged(&[(10.0, 0.5), (15.0, 0.0), (20.0, 0.5)]), Some(15.0), "a weight of 0 is ignored");
    assert_eq!(merged(&[]), None);
    assert_eq!(
        weighted_median(&[(5.0, 1.0), (1.0, 0.1)]),
        Some(WeightedMedian { value: 5.0, low: 1.0, high: 5.0 })
    );
}

#[test]
fn a5_pivotal_voters_are_the_smallest_set() {
    let of = |rule: VotingRule, text| pivotal_voters(rule, &[question(text)], 0);
    let expected = |to: &str, voters: &[&str]| {
        let voters = voters.iter().map(|voter| (*voter).to_owned()).collect();
        Some(PivotalVoters { to: to.into(), voters, smallest: true })
    };
    assert_eq!(of(VotingRule::Confidence, "w a 0.9, x a 0.2, y b 0.5, z b 0.1"), expected("b", &["w"]));
    // One of three would leave a tie of 2 : 2, which is not a decision; two are needed.
    assert_eq!(of(VotingRule::Majority, "v a, w a, x a, y b"), expected("b", &["v", "w"]));
    assert_eq!(of(VotingRule::Majority, "u a, v a, w a, x c, y c, z b"), expected("c", &["u"]));
    assert_eq!(of(VotingRule::Majority, "x a, y a"), None);
    assert_eq!(of(VotingRule::Borda, "w a>b, x a>b, y b>a"), expected("b", &["w"]));
    // A tie has no winner to defend: a single voter who changes sides decides.
    assert_eq!(of(VotingRule::Majority, "x a 0.4, y b 0.6"), expected("b", &["x"]));
    // One voter of a third choice suffices, where three of the winner's would be needed.
    let text = "p c 0.55, q b 0.5, r a 0.2, s a 0.2, t a 0.2, u a 0.2, v a 0.2";
    assert_eq!(of(VotingRule::Confidence, text), expected("c", &["q"]));
}

#[test]
fn a5_pivotal_voters_of_a_large_panel_suffice_but_may_not_be_minimal() {
    let ballots = (0..60).map(|index| format!("v{index:02} {} 0.5", if index < 40 { "a" } else { "b" }));
    let questions = [question(&ballots.collect::<Vec<_>>().join(", "))];
    let pivotal = pivotal_voters(VotingRule::Majority, &questions, 0).expect("b was named");
    assert_eq!((pivotal.to.as_str(), pivotal.voters.len(), pivotal.smallest), ("b", 11, false));
}

#[test]
fn invalid_ballots_are_rejected() {
    let error_of = |text: &str| {
        tally_questions(VotingRule::Confidence, &[question("x a"), question(text)])
            .expect_err("invalid ballots")
    };
    assert_eq!(error_of("x a 7").1.to_string(), "invalid confidence 7 of voter x: must be between 0 and 1");
    assert_eq!(
        error_of("x a NaN").1.to_string(),
        "invalid confidence NaN of voter x: must be between 0 and 1"
    );
    assert_eq!(error_of("x a, x b"), (1, BallotError::DuplicateVoter { voter: "x".into() }));
    assert!(matches!(error_of("x a>b>a").1, BallotError::DuplicateRank { .. }));
    let mut other = question("x a>b");
    other.ballots[0].choice = "b".into();
    assert!(matches!(other.check(), Err(BallotError::RankMismatch { .. })));
    assert_eq!(
        tally_questions(VotingRule::Majority, &[Question::default()]),
        Err((0, BallotError::NoBallots))
    );
}

fn ballots() -> impl Strategy<Value = Vec<Ballot>> {
    let choice = prop::sample::select(vec!["a", "b", "c", "d"]);
    let confidence = prop::option::of((0_u32..=100).prop_map(|percent| f64::from(percent) / 100.0));
    prop::collection::vec((choice, confidence), 1..9).prop_map(|votes| {
        let ballot = |(index, (choice, confidence)): (usize, (&str, Option<f64>))| Ballot {
            voter: format!("v{index}"),
            choice: choice.to_owned(),
            confidence,
            ..Ballot::default()
        };
        votes.into_iter().enumerate().map(ballot).collect()
    })
}

/// Few enough ballots to try every set of voters.
fn few_ballots() -> impl Strategy<Value = Vec<Ballot>> {
    ballots().prop_map(|mut ballots| {
        ballots.truncate(6);
        ballots
    })
}

fn tie_breaks() -> impl Strategy<Value = Option<TieBreak>> {
    prop::option::of(prop::sample::select(TieBreak::ALL.to_vec()))
}

fn questions() -> impl Strategy<Value = Vec<Question>> {
    let named = |(index, ballots): (usize, Vec<Ballot>)| Question {
        name: format!("q{index}"),
        ballots,
        ..Question::default()
    };
    prop::collection::vec(ballots(), 1..6)
        .prop_map(move |ballot_lists| ballot_lists.into_iter().enumerate().map(named).collect())
}

/// The same cases in every run.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(5),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn a5_the_order_of_ballots_and_questions_changes_nothing(questions in questions(), rotation in 0_usize..8) {
        for rule in VotingRule::ALL {
            let original = tally_questions(rule, &questions).expect("valid ballots");
            let mut reordered = questions.clone();
            for question in &mut reordered {
                let by = rotation % question.ballots.len();
                question.ballots.rotate_left(by);
                question.ballots.reverse();
            }
            reordered.reverse();
            let mut tally = tally_questions(rule, &reordered).expect("valid ballots");
            tally.reverse();
            prop_assert_eq!(original, tally);
        }
    }

    #[test]
    fn a5_shares_add_up_and_the_winner_has_the_most(questions in questions()) {
        for rule in VotingRule::ALL {
            for tally in tally_questions(rule, &questions).expect("valid ballots") {
                let sum: f64 = tally.shares.iter().map(|share| share.share).sum();
                prop_assert!((sum - 1.0).abs() < 1e-9);
                prop_assert!(tally.shares.iter().all(|share| tally.share() >= share.share - TIE_TOLERANCE));
                let votes: usize = tally.shares.iter().map(|share| share.votes).sum();
                prop_assert_eq!(votes, tally.ballots.len());
            }
        }
    }

    #[test]
    fn a5_a_unanimous_choice_wins_under_every_rule(mut ballots in ballots()) {
        ballots.iter_mut().for_each(|ballot| ballot.choice = "same".into());
        for rule in VotingRule::ALL {
            let tally = tally_questions(rule, &[Question { ballots: ballots.clone(), ..Question::default() }]).expect("valid ballots");
            prop_assert_eq!(tally[0].choice.as_deref(), Some("same"));
            prop_assert!((tally[0].share() - 1.0).abs() < 1e-9 && !tally[0].is_tie());
        }
    }

    #[test]
    fn a5_only_the_ratios_of_confidences_matter(ballots in ballots(), scale in 1_u32..100) {
        let scale = f64::from(scale) / 100.0;
        let mut scaled = ballots.clone();
        scaled.iter_mut().for_each(|ballot| ballot.confidence = ballot.confidence.map(|confidence| confidence * scale));
        prop_assume!(ballots.iter().any(|ballot| ballot.confidence.is_some()));
        let of = |ballots| tally_questions(VotingRule::Confidence, &[Question { ballots, ..Question::default() }]).expect("valid ballots").remove(0);
        let (original, rescaled) = (of(ballots), of(scaled));
        prop_assert_eq!(original.choice, rescaled.choice);
        prop_assert_eq!(original.tied.len(), rescaled.tied.len());
    }

    #[test]
    fn a5_pivotal_voters_match_a_brute_force_search(ballots in few_ballots(), tie_break in tie_breaks()) {
        let options = ["d", "b", "a", "c"].map(str::to_owned).to_vec();
        let questions = [Question { options, ballots, ..Question::default() }];
        for rule in VotingRule::ALL {
            let method = TallyMethod { rule, tie_break };
            let winner = |questions: &[Question]| tally_questions(method, questions).expect("valid ballots").remove(0);
            let tally = winner(&questions);
            // Brute force: every set of voters, moved to every other choice.
            let mut smallest: Option<usize> = None;
            for set in 1_u32..(1 << questions[0].ballots.len()) {
                for rival in tally.shares.iter().filter(|share| Some(&share.choice) != tally.choice.as_ref()) {
                    let mut moved = questions.clone();
                    let movers = moved[0].ballots.iter_mut().enumerate().filter(|(index, _)| set & (1 << index) != 0);
                    movers.for_each(|(_, ballot)| rival.choice.clone_into(&mut ballot.choice));
                    if winner(&moved).choice.as_ref() == Some(&rival.choice) {
                        let size = set.count_ones() as usize;
                        smallest = Some(smallest.map_or(size, |least| least.min(size)));
                    }
                }
            }
            let pivotal = pivotal_voters(method, &questions, 0);
            prop_assert_eq!(pivotal.as_ref().map(|pivotal| pivotal.voters.len()), smallest);
            if let Some(pivotal) = pivotal {
                let mut moved = questions.clone();
                let movers = moved[0].ballots.iter_mut().filter(|ballot| pivotal.voters.contains(&ballot.voter));
                movers.for_each(|ballot| pivotal.to.clone_into(&mut ballot.choice));
                prop_assert_eq!(winner(&moved).choice, Some(pivotal.to));
                prop_assert!(pivotal.smallest);
            }
        }
    }

    #[test]
    fn n2_an_agreement_matches_the_ballots(ballots in ballots(), tie_break in tie_breaks()) {
        let question = Question { ballots, ..Question::default() };
        for rule in VotingRule::ALL {
            let tally = tally_questions(TallyMethod { rule, tie_break }, std::slice::from_ref(&question)).expect("valid ballots").remove(0);
            let voters = |choice: &str| question.ballots.iter().filter(|ballot| ballot.choice == choice).count();
            let all = question.ballots.len();
            let held = tally.choice.as_deref().map(voters);
            match Agreement::of(Some(&tally)) {
                Agreement::Unanimous { held: found, of } => prop_assert!(all > 1 && held == Some(all) && (found, of) == (all, all)),
                Agreement::Majority { held: found, of, .. } => {
                    prop_assert!(held == Some(found) && of == all && 2 * found > of && found < of);
                }
                Agreement::Contested { held: found, of, .. } => {
                    prop_assert!(held == Some(found) && of == all && 2 * found <= of);
                }
                Agreement::Tied { between, of } => {
                    prop_assert!(held.is_none() && between.len() > 1 && of == all && between == tally.tied);
                }
                Agreement::NotComparable { reason } => {
                    prop_assert!(all == 1 && reason == Incomparable::OnePosition);
                }
            }
        }
    }
}
