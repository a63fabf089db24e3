//! Limits, estimates and usage.

use expect_test::expect;

use super::*;
use crate::tokens::TRUNCATION_MARK;

/// A finding with `count` issues on different topics.
fn issues(count: usize, severity: &str) -> Value {
    let issues: Vec<Value> = (0..count)
        .map(|index| json!({"topic": format!("t{index}"), "severity": severity, "detail": "d"}))
        .collect();
    json!({"summary": "s", "confidence": 0.5, "issues": issues})
}

fn two_with_issues(ask: &Ask, count: usize) -> Reaction {
    Reaction::Answer(match ask.id.0.as_str() {
        "analyse:a" => issues(count, "low"),
        "analyse:b" => issues(count, "critical"),
        _ => stay(ask),
    })
}

#[test]
fn a6_five_conflicts_are_discussed_and_the_rest_are_listed() {
    let run = run_script(&spec(&["a", "b"]), |ask| two_with_issues(ask, 7));
    let outcome = run.outcome();
    assert_eq!((outcome.decisions.len(), outcome.further.len()), (5, 2));
    assert_eq!(outcome.further[0].undiscussed.as_deref(), Some("beyond the 5 most critical conflicts"));
    assert_eq!((outcome.further[1].id.as_str(), outcome.further[1].how), ("C7", ResolutionMethod::Tied));
    assert!(
        outcome.decisions.iter().all(|decision| decision.rounds == 2),
        "10 messages are enough for 5 times 2"
    );
    assert!(run.asks.iter().all(|ask| !ask.id.0.contains("C6")));
}

#[test]
fn a6_ten_messages_a_round_go_to_the_most_critical_conflicts() {
    let names = ["a", "b", "c", "d"];
    let run = run_script(&spec(&names), |ask| match (ask.action, ask.agent.as_str()) {
        (ANALYSE, "a") => Reaction::Answer(issues(5, "low")),
        (ANALYSE, _) => Reaction::Answer(issues(5, "critical")),
        _ => {
            let mut answer = stay(ask);
            answer["evidence"] = json!("It is written.");
            Reaction::Answer(answer)
        }
    });
    let outcome = run.outcome();
    for round in 1..=2 {
        let request_count =
            run.asks.iter().filter(|ask| ask.id.0.starts_with(&format!("discuss:{round}:"))).count();
        assert_eq!(request_count, 8, "two conflicts of four agents");
        let messages = outcome.record.messages.iter().filter(|message| message.round == round).count();
        assert_eq!(messages, 10, "and two pieces of evidence");
    }
    let rounds: Vec<u32> = outcome.decisions.iter().map(|decision| decision.rounds).collect();
    assert_eq!(rounds, [2, 2, 0, 0, 0]);
    let reason = outcome.decisions[2].undiscussed.as_deref().unwrap_or_default();
    assert!(reason.starts_with("limit of 10 messages per round reached"), "{reason}");
    assert!(
        outcome.record.notes[0].starts_with("round 1: 6 questions, clarifications"),
        "{:?}",
        outcome.record.notes
    );
}

#[test]
fn a6_a_conflict_of_more_agents_than_messages_is_discussed_by_the_most_confident() {
    let names: Vec<String> = (0..12).map(|index| format!("a{index:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let spec = spec(&names);
    let run = run_script(&spec, |ask| {
        let index = spec.agent_index(&ask.agent);
        let recommendation = if index == 0 { "sign as is" } else { "do not sign" };
        let confidence = if index < 2 { 0.1 } else { 0.9 };
        if ask.action == ANALYSE {
            Reaction::Answer(recommends(recommendation, confidence))
        } else {
            Reaction::Answer(stay(ask))
        }
    });
    let asked_agents: Vec<&str> = run
        .asks
        .iter()
        .filter(|ask| ask.id.0.starts_with("discuss:1:"))
        .map(|ask| ask.agent.as_str())
        .collect();
    assert_eq!(asked_agents.len(), 10);
    assert!(!asked_agents.contains(&"a00") && !asked_agents.contains(&"a01"));
}

#[test]
fn a6_limits_have_defaults_and_can_be_set() {
    let run = run_script(&spec(&["a", "b"]), |ask| two_with_issues(ask, 1));
    assert_eq!(run.asks.last().map(|ask| ask.id.0.as_str()), Some("discuss:2:C1:b"));
    let mut other = spec(&["a", "b"]);
    other.limits =
        serde_json::from_value(json!({"rounds": 3, "conflicts": 1, "messages": 4})).expect("limits");
    let run = run_script(&other, |ask| two_with_issues(ask, 3));
    assert_eq!(run.asks.last().map(|ask| ask.id.0.as_str()), Some("discuss:3:C1:b"));
    assert_eq!(run.outcome().further.len(), 2);
    other.limits.rounds = 0;
    let run = run_script(&other, |ask| two_with_issues(ask, 1));
    assert_eq!(run.outcome().decisions[0].undiscussed.as_deref(), Some("no rounds of discussion"));
}

#[test]
fn a6_long_answers_are_cut_at_a_sentence_and_marked() {
    let long = "This sentence has six words here. ".repeat(100);
    let run = run_script(&spec(&["a", "b"]), |ask| match ask.action {
        ANALYSE => {
            let mut finding = issues(1, if ask.agent == "a" { "low" } else { "critical" });
            finding["issues"][0]["detail"] = long.clone().into();
            Reaction::Answer(finding)
        }
        _ => {
            let mut answer = stay(ask);
            answer["reasoning"] = long.clone().into();
            answer["evidence"] = long.clone().into();
            Reaction::Answer(answer)
        }
    });
    let messages: Vec<&DeliberationMessage> =
        run.outcome().record.messages.iter().filter(|message| message.round > 0).collect();
    for message in &messages {
        let text =
            ["reasoning", "text"].iter().find_map(|field| message.content[*field].as_str()).expect("a text");
        assert!(text.ends_with(&format!("here.{TRUNCATION_MARK}")), "{text}");
        assert!(words(&message.content.to_string()) <= 500);
    }
    assert_eq!(messages.len(), 8);
    let reason_words = |id: &str| {
        let reason = run.payload(id)["other_positions"][0]["reason"].clone();
        words(reason.as_str().expect("a text"))
    };
    assert_eq!(reason_words("discuss:1:C1:a"), 97, "the reason from a finding has at most 100 words");
    assert_eq!(reason_words("discuss:2:C1:a"), 499, "the reason from a reply is as long as its message");
}

#[test]
fn a6_a_message_times_out_after_ten_seconds() {
    let run = run_script(&spec(&["a", "b"]), |ask| match (ask.action, ask.agent.as_str()) {
        (DISCUSS, "b") => Reaction::Silence,
        _ => two_with_issues(ask, 1),
    });
    let ask = run.asks.iter().find(|ask| ask.action == DISCUSS).expect("it was asked");
    assert_eq!(ask.timeout_ms, 10_000);
    let missing = &run.outcome().record.missing[0];
    assert_eq!(missing.why, ["no answer within 10 s", "no answer within 10 s"]);
    assert_eq!(run.outcome().record.actual.discussion.ms, 20_000, "twice ten seconds");
}

fn with_providers() -> Spec {
    let mut spec = spec(&["a", "b", "c"]);
    for (member, provider) in spec.agents.iter_mut().zip(["groq", "groq", "gemini"]) {
        member.provider = Some(provider.to_owned());
    }
    let price = ProviderSpec { price_in: Some(2.0), price_out: Some(10.0), ..ProviderSpec::default() };
    spec.providers.insert("groq".into(), price);
    spec
}

#[test]
fn a7_the_estimate_covers_calls_tokens_seconds_and_money() {
    let spec = with_providers();
    assert_eq!(
        (spec.provider("groq").calls_per_minute, spec.provider("gemini").calls_per_minute),
        (Some(30), Some(15))
    );
    let estimated = estimate(&spec, words);
    let groq = &estimated.analysis.providers["groq"];
    assert_eq!((groq.calls, groq.tokens_out.least), (Bounds { least: 2, most: 4 }, 2 * FINDING_TOKENS));
    assert_eq!(estimated.discussion.providers["gemini"].calls, Bounds { least: 0, most: 2 * 2 * 5 });
    assert_eq!(estimated.total.seconds, Bounds { least: 0.0, most: 120.0 + 40.0 });
    let money = groq.money.expect("prices are known");
    assert!(money.most > money.least && money.least > 0.03, "{money:?}");
    assert_eq!((estimated.total.providers["gemini"].money, estimated.warnings.len()), (None, 0));
    let mut throttled = with_providers();
    throttled
        .providers
        .insert("groq".into(), ProviderSpec { calls_per_minute: Some(1), ..ProviderSpec::default() });
    throttled.limits.analysis_ms = 90_000;
    assert_eq!(estimate(&throttled, words).total.seconds.least, 60.0, "the second call waits a minute");
    let mut slow = with_providers();
    slow.providers
        .insert("gemini".into(), ProviderSpec { calls_per_minute: Some(2), ..ProviderSpec::default() });
    expect![[r#"gemini allows 2 calls per minute, but up to 5 may be made at the same time"#]]
        .assert_eq(&estimate(&slow, words).warnings[0]);
}

// Fails under: a lower bound that includes calls which fail at once, because they would wait until the timeout.
#[test]
fn a7_the_least_duration_does_not_exceed_the_most() {
    let names: Vec<String> = (0..10).map(|index| format!("a{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut spec = spec(&names);
    for member in &mut spec.agents {
        member.provider = Some("groq".to_owned());
    }
    spec.providers
        .insert("groq".into(), ProviderSpec { calls_per_minute: Some(1), ..ProviderSpec::default() });
    for (analysis_ms, least, most) in
        [(30_000, 0.0, 60.0), (60_000, 0.0, 120.0), (60_001, 60.0, 120.002), (150_000, 120.0, 300.0)]
    {
        spec.limits.analysis_ms = analysis_ms;
        assert_eq!(estimate(&spec, words).analysis.seconds, Bounds { least, most }, "{analysis_ms}");
    }
}

#[test]
fn a7_the_actual_usage_is_within_the_estimate() {
    let spec = with_providers();
    let expected = estimate(&spec, words);
    let worst = |ask: &Ask| match (ask.action, ask.id.0.ends_with(":again")) {
        (_, false) => Reaction::Raw("nonsense"),
        (ANALYSE, _) => Reaction::Answer(issues(7, if ask.agent == "a" { "low" } else { "critical" })),
        _ => Reaction::Answer(stay(ask)),
    };
    let quick = |_: &Ask| Reaction::Answer(recommends("sign as is", 0.5));
    // One agent fails, another does not answer at all: these calls count as well.
    let failing = |ask: &Ask| match (ask.agent.as_str(), ask.id.0.ends_with(":again")) {
        ("a", false) => Reaction::Fail("the provider answered 500"),
        ("b", _) => Reaction::Silence,
        _ => quick(ask),
    };
    for run in [run_script(&spec, worst), run_script(&spec, quick), run_script(&spec, failing)] {
        let actual = &run.outcome().record.actual;
        for (phase, phase_usage) in
            [(&expected.analysis, &actual.analysis), (&expected.discussion, &actual.discussion)]
        {
            for (name, expected) in &phase.providers {
                let calls = phase_usage.providers.get(name).map_or(0, |usage| usage.calls);
                assert!((expected.calls.least..=expected.calls.most).contains(&calls), "{name} {calls}");
            }
        }
        assert_eq!(actual.calls(), run.asks.len() as u64);
    }
    let actual = run_script(&spec, quick).outcome().record.actual.clone();
    let groq = &actual.analysis.providers["groq"];
    assert_eq!((groq.calls, groq.tokens_in, groq.tokens_out), (2, 200, 20));
    assert_eq!((groq.money, actual.analysis.providers["gemini"].money), (Some(0.0006), None));
}

#[test]
fn an_invalid_spec_is_rejected_with_the_path() {
    let error_of = |change: fn(&mut Spec)| {
        let mut spec = spec(&["a", "b"]);
        change(&mut spec);
        spec.check().expect_err("refused").to_string()
    };
    let errors = [
        error_of(|spec| spec.agents.clear()),
        error_of(|spec| spec.agents[1].id = "a".into()),
        error_of(|spec| spec.subject = " ".into()),
        error_of(|spec| spec.limits.quorum = Some(3)),
        error_of(|spec| spec.limits.messages = 1),
        error_of(|spec| spec.limits.message_ms = 0),
        error_of(|spec| spec.vocabulary.severities.clear()),
        error_of(|spec| spec.score.as_mut().expect("a score").levels.reverse()),
    ];
    expect![[r#"
        agents: expected 1 to 64 entries, found 0
        agents[1].id: must be unique, not empty, and without a colon
        subject: must not be empty
        limits.quorum: expected 1 to 2 (the number of agents), found 3
        limits.messages: expected 2 to 1000, found 1
        limits.message_ms: expected 1 to 86400000, found 0
        vocabulary.severities: must not be empty
        score.levels[1].from: must be greater than the previous one"#]]
    .assert_eq(&errors.join("\n"));
    let parse = |value: Value| Spec::parse(value.to_string().as_bytes()).map_err(|error| error.to_string());
    let unknown = parse(json!({"subject": "s", "agents": [{"id": "a"}], "limts": {}})).expect_err("refused");
    assert!(unknown.starts_with("limts: unknown field limts"), "{unknown}");
    let nested = parse(json!({"subject": "s", "agents": [{"id": "a"}], "limits": {"rounds": "two"}}))
        .expect_err("refused");
    assert!(nested.starts_with("limits.rounds: expected "), "{nested}");
    let other =
        parse(json!({"subject": "s", "agents": [{"id": "a"}], "preset": "poem"})).expect_err("refused");
    assert_eq!(other, "preset: expected \"contract\", found \"poem\"");
}

#[test]
fn a3_the_preset_for_contracts_can_be_changed_in_part() {
    let body = json!({"preset": "contract", "subject": "s", "input": {"text": "t"}, "agents": [{"id": "a", "provider": "groq"}],
        "conflicts": [{"severity": {}}], "limits": {"rounds": 1}});
    let spec = Spec::parse(body.to_string().as_bytes()).expect("a valid spec");
    assert_eq!((spec.conflicts.len(), spec.limits.rounds, spec.limits.messages), (1, 1, 10));
    assert_eq!((spec.vocabulary.recommendations.len(), spec.score.is_some()), (4, true));
    let long = json!({"subject": "s", "agents": [{"id": "a"}], "input": "x".repeat(400_000)});
    assert!(Spec::parse(long.to_string().as_bytes()).is_ok(), "the input may be longer than an answer");
    let unchanged = json!({"preset": "contract", "subject": "s", "agents": [{"id": "a"}]});
    assert_eq!(
        Spec::parse(unchanged.to_string().as_bytes()),
        Ok(Spec::contract("s", Value::Null, members(&["a"])))
    );
}
