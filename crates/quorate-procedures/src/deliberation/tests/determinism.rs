//! Determinism: the outcome depends neither on restarts nor on response times.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const AGENTS: [&str; 5] = ["clause_extractor", "b", "c", "d", "e"];

/// Pseudo-random answers, deterministic for a question and seed: contradictory findings, changes of position,
/// questions, invalid answers, failures, timeouts.
fn react(ask: &Ask, seed: u64) -> Reaction {
    let mut hash = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xcbf2_9ce4_8422_2325;
    for byte in ask.id.0.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut pick = |of: u64| {
        hash = hash.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (hash >> 33) % of
    };
    match pick(12) {
        0 => return Reaction::Silence,
        1 => return Reaction::Fail("gone"),
        2 => return Reaction::Raw("{\"summary\": 1}"),
        _ => {}
    }
    #[allow(clippy::cast_precision_loss)]
    let confidence = pick(100) as f64 / 100.0;
    let severity = ["low", "medium", "high", "critical"][usize::try_from(pick(4)).expect("small")];
    let recommendation = ["sign as is", "do not sign"][usize::try_from(pick(2)).expect("small")];
    if ask.action == ANALYSE {
        return Reaction::Answer(json!({
            "summary": "Two sentences. Or one.", "confidence": confidence, "recommendation": recommendation,
            "scores": {"overall_risk_score": pick(100)},
            "issues": [{"topic": "cap", "severity": severity}, {"topic": "term", "severity": "low", "advice": "shorter"}],
            "facts": {"fee": format!("${}", pick(2)), "start": "2027-01-01"},
            "relies_on": ["indemnity"], "found": ["governing law"],
        }));
    }
    let payload: Value = serde_json::from_str(&ask.payload).expect("JSON");
    let others = payload["other_positions"].as_array().expect("a list");
    let other = &others[usize::try_from(pick(others.len() as u64)).expect("small")];
    let moves = pick(2) == 0;
    let position = if moves { &other["position"] } else { &payload["your_position"]["position"] };
    let mut answer = reply(position.clone(), confidence, moves, "Because. That is why.");
    if pick(3) == 0 {
        answer["question"] = json!({"to": other["agent"], "text": "Why?"});
        answer["evidence"] = json!("Clause 9.");
        answer["clarification"] = json!("Therefore.");
    }
    Reaction::Answer(answer)
}

fn comparable_result(run: ScriptedRun) -> (Option<Outcome>, Option<FailedDeliberation>, Vec<String>) {
    // Durations vary; the outcome must not.
    let clear_times = |record: &mut DeliberationRecord| {
        record.actual.analysis.ms = 0;
        record.actual.discussion.ms = 0;
        record.messages.iter_mut().for_each(|message| message.timestamp = 0);
    };
    let mut asks: Vec<String> = run.asks.iter().map(|ask| format!("{} {}", ask.id, ask.payload)).collect();
    asks.sort();
    let (mut outcome, mut failure) = (run.outcome, run.failure);
    outcome.iter_mut().for_each(|outcome| clear_times(&mut outcome.record));
    failure.iter_mut().for_each(|failure| clear_times(&mut failure.record));
    (outcome, failure, asks)
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
    #![proptest_config(cases(30))]

    #[test]
    fn a1_serialising_the_state_after_every_step_changes_nothing(seed in 0_u64..1_000_000) {
        let spec = spec(&AGENTS);
        let in_memory = run_script(&spec, |ask| react(ask, seed));
        let stored = run_script_with(&spec, Variation { stored: true, ..Variation::default() }, |ask| react(ask, seed));
        prop_assert_eq!(in_memory.lines, stored.lines);
        prop_assert_eq!(in_memory.asks, stored.asks);
        prop_assert_eq!(in_memory.outcome, stored.outcome);
        prop_assert_eq!(in_memory.failure, stored.failure);
    }

    #[test]
    fn a1_the_order_of_answers_does_not_matter(seed in 0_u64..1_000_000, turn in 1_usize..20) {
        let spec = spec(&AGENTS);
        let in_order = comparable_result(run_script(&spec, |ask| react(ask, seed)));
        let reordered = comparable_result(run_script_with(&spec, Variation { turn, ..Variation::default() }, |ask| react(ask, seed)));
        prop_assert_eq!(in_order, reordered);
    }

    #[test]
    fn a1_duplicate_events_are_ignored(seed in 0_u64..1_000_000) {
        let spec = spec(&AGENTS);
        let once = comparable_result(run_script(&spec, |ask| react(ask, seed)));
        let twice = comparable_result(run_script_with(&spec, Variation { twice: true, ..Variation::default() }, |ask| react(ask, seed)));
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a6_limits_hold_for_any_answers(seed in 0_u64..1_000_000) {
        let spec = spec(&AGENTS);
        let run = run_script(&spec, |ask| react(ask, seed));
        let mut ids: Vec<&AskId> = run.asks.iter().map(|ask| &ask.id).collect();
        ids.sort();
        let count = ids.len();
        ids.dedup();
        prop_assert_eq!(ids.len(), count, "no question is asked twice");
        if let Some(outcome) = &run.outcome {
            prop_assert!(outcome.decisions.len() <= 5);
            for round in 1..=3 {
                let messages = outcome.record.messages.iter().filter(|message| message.round == round).count();
                let limit = if round < 3 { 10 } else { 0 };
                prop_assert!(messages <= limit);
            }
            let messages = outcome.record.messages.iter().map(|message| message.id.as_str());
            let conflicts = outcome.all_decisions().map(|decision| decision.id.as_str());
            let known: Vec<&str> = messages.chain(conflicts).collect();
            let synthesis = &outcome.synthesis;
            for sentence in synthesis.summary.iter().chain(synthesis.strategy.iter().map(|demand| &demand.sentence)) {
                prop_assert!(!sentence.sources.is_empty(), "{} has no source", sentence.text);
                let is_known = |source: &String| known.contains(&source.as_str()) || source.contains(':');
                prop_assert!(sentence.sources.iter().all(is_known), "{:?}", sentence);
            }
            prop_assert!(outcome.decisions.iter().all(|decision| decision.ballots.iter().any(|position| {
                decision.conflict.is_numeric() || decision.position.as_ref().is_none_or(|winner| position.position == *winner)
            })), "the decided position is held by an agent");
        }
    }
}

/// JSON of any structure, including the field names of answers.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,30}".prop_map(Value::from),
        "[0-9$€%,. a-z-]{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["sign as is", "critical", "present", "62", "1 Jan 2027", "a", "b"])
            .prop_map(Value::from),
    ];
    let names = vec![
        "summary",
        "confidence",
        "scores",
        "recommendation",
        "issues",
        "facts",
        "relies_on",
        "found",
        "details",
        "topic",
        "severity",
        "revised_position",
        "agrees_with_peer",
        "reasoning",
        "evidence",
        "question",
        "clarification",
        "ranking",
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        let name = prop::sample::select(names.clone()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a8_the_deliberation_ends_for_any_answers(noise in prop::collection::vec(any_json(), 1..6), noise_fields in 0_usize..4) {
        let spec = spec(&["a", "b"]);
        let facts = |agent: &str| json!({"fee": if agent == "a" { "$5" } else { "€5" }, "n": noise.len()});
        let base = |agent: &str| json!({"summary": "s", "recommendation": if agent == "a" { "sign as is" } else { "do not sign" },
            "facts": facts(agent), "scores": {"overall_risk_score": if agent == "a" { 1 } else { 90 }}});
        let run = run_script_with(&spec, Variation { stored: true, ..Variation::default() }, |ask| {
            let noisy = noise[ask.id.0.len() % noise.len()].clone();
            let mut answer = if ask.action == ANALYSE { base(&ask.agent) } else { stay(ask) };
            // A valid answer with one invalid field.
            if let (Value::Object(fields), Value::Object(more)) = (&mut answer, &noisy)
                && noise_fields > 0
            {
                fields.extend(more.clone().into_iter().take(noise_fields));
                return Reaction::Answer(answer);
            }
            Reaction::Answer(if noise_fields == 0 { noisy } else { answer })
        });
        prop_assert!(run.outcome.is_some() || run.failure.is_some());
    }
}

#[test]
fn a1_numbers_survive_serialisation_unchanged() {
    let details = json!({"tiny": 4.9e-324, "far": -7.369_466_047_186_348e59, "third": 1.0 / 3.0});
    let spec = spec(&["a", "b"]);
    let run = run_script_with(&spec, Variation { stored: true, ..Variation::default() }, |_| {
        Reaction::Answer(json!({"summary": "s", "details": details.clone(), "facts": {"third": 1.0 / 3.0}}))
    });
    assert_eq!(run.outcome().record.findings["a"].details.as_ref(), Some(&details));
}

#[test]
fn a1_after_a_restart_the_full_timeout_applies_and_no_question_is_repeated() {
    let spec = spec(&["a", "b"]);
    let machine = Deliberation::new(&spec, words);
    let mut state = DeliberationState::default();
    machine.step(&mut state, Input::Start, 0);
    assert_eq!(state.next_wakeup(), Some(60_000));
    assert_eq!(machine.step(&mut state, Input::Resumed, 500_000), []);
    assert_eq!(state.next_wakeup(), Some(560_000));
    assert_eq!(machine.step(&mut state, Input::DeadlineReached, 559_999), [], "the deadline is not reached");
    assert_eq!(machine.step(&mut state, Input::DeadlineReached, 560_000).len(), 2);
}
