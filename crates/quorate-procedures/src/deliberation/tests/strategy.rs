//! Demands, and the summary sentences.

use expect_test::expect;

use super::*;

/// An agent and its issues: topic, severity, remedy.
type AgentIssues<'a> = (&'a str, &'a [(&'a str, &'a str, &'a str)]);

/// In the discussion all agents keep their positions, except that those in `give_in` adopt the position of their first
/// peer.
fn outcome(issues: &[AgentIssues<'_>], give_in: &[&str]) -> Outcome {
    let names: Vec<&str> = issues.iter().map(|(agent, _)| *agent).collect();
    let mut spec = spec(&names);
    spec.limits.rounds = 1;
    let run = run_script(&spec, |ask| {
        if ask.action == ANALYSE {
            let own_issues: Vec<Value> = issues[spec.agent_index(&ask.agent)]
                .1
                .iter()
                .map(|(topic, severity, advice)| {
                    json!({"topic": topic, "severity": severity, "advice": advice,
                        "evidence": format!("§ 9.2 of {}: \"as it is written, and at length\"", ask.agent)})
                })
                .collect();
            return Reaction::Answer(json!({"summary": "s", "confidence": 0.5, "issues": own_issues}));
        }
        if give_in.contains(&ask.agent.as_str()) {
            let payload: Value = serde_json::from_str(&ask.payload).expect("JSON");
            let other = payload["other_positions"][0]["position"].clone();
            return Reaction::Answer(reply(other, 0.5, true, "You are right."));
        }
        Reaction::Answer(stay(ask))
    });
    run.outcome().clone()
}

fn demands(outcome: &Outcome) -> String {
    let line =
        |demand: &Demand| format!("{} [{}]\n", demand.sentence.text, demand.sentence.sources.join(" "));
    outcome.synthesis.strategy.iter().map(line).collect()
}

// Fails under: a contested issue counts as agreed; changed order of issues; a remedy from an agent with a lower severity.
#[test]
fn a1_the_strategy_ranks_demands_by_priority() {
    let issues: &[AgentIssues<'_>] = &[
        ("a", &[("logo", "low", "names with consent only"), ("cap", "low", "say nothing.")]),
        (
            "b",
            &[
                ("cap", "critical", "cap it at a year's fees."),
                ("term", "medium", "30 days"),
                ("tax", "high", ""),
            ],
        ),
        ("c", &[("cap", "critical", "cap it at two years' fees"), ("ip", "high", "the customer owns it")]),
    ];
    expect![[r#"
        Must have: the customer owns it (ip, high, at § 9.2 of c), says c. [F3]
        Should have: cap it at a year's fees (cap, critical, at § 9.2 of b), says a, b, c. [F1 F2 F3]
        Should have: 30 days (term, medium, at § 9.2 of b), says b. [F2]
        Negotiable: names with consent only (logo, low, at § 9.2 of a), says a. [F1]
    "#]]
    .assert_eq(&demands(&outcome(issues, &[])));
    // Once a has changed its position, the severity is undisputed.
    let settled = outcome(issues, &["a"]);
    assert_eq!(settled.synthesis.strategy[0].topic, "cap");
    assert_eq!(settled.synthesis.strategy[0].need, DemandPriority::MustHave);
}

// Fails under: severe in two different degrees counts as contested.
#[test]
fn a1_high_and_critical_are_both_must_haves() {
    let issues: &[AgentIssues<'_>] =
        &[("a", &[("cap", "high", "a cap")]), ("b", &[("cap", "critical", "a cap")])];
    let outcome = outcome(issues, &[]);
    assert_eq!(outcome.decisions[0].how, ResolutionMethod::Tied, "they do disagree");
    assert_eq!(outcome.synthesis.strategy[0].need, DemandPriority::MustHave);
}

// Fails under: thresholds that only fit four severities.
#[test]
fn a1_any_list_of_severities_has_a_severe_half() {
    for (severities, expected) in [
        (&["note"][..], &[DemandPriority::MustHave][..]),
        (&["minor", "major"], &[DemandPriority::MustHave, DemandPriority::Negotiable]),
        (
            &["s", "m", "l"],
            &[DemandPriority::MustHave, DemandPriority::ShouldHave, DemandPriority::Negotiable],
        ),
    ] {
        let mut spec = spec(&["a"]);
        spec.vocabulary.severities = severities.iter().map(|severity| (*severity).to_owned()).collect();
        let issues: Vec<Value> = severities
            .iter()
            .map(|severity| json!({"topic": format!("a {severity} thing"), "severity": severity, "advice": "mend it"}))
            .collect();
        let run = run_script(&spec, |_| Reaction::Answer(json!({"summary": "s", "issues": issues})));
        let needs: Vec<DemandPriority> =
            run.outcome().synthesis.strategy.iter().map(|demand| demand.need).collect();
        assert_eq!(needs, expected, "{severities:?}");
    }
}

// Fails under: a summary that repeats the conflicts, or grows with the number of issues.
#[test]
fn a1_the_summary_can_be_read_aloud_in_twenty_seconds() {
    let issues: Vec<Value> = (0..40)
        .map(|index| json!({"topic": format!("issue number {index}"), "severity": "high", "detail": "at length ".repeat(50)}))
        .collect();
    let spec = spec(&["a", "b", "c", "d", "e"]);
    let recommendations = ["do not sign", "sign as is", "do not sign", "minor revisions", "do not sign"];
    let run = run_script(&spec, |ask| {
        let index = spec.agent_index(&ask.agent);
        if ask.action != ANALYSE {
            return Reaction::Answer(stay(ask));
        }
        let mut finding = recommends(recommendations[index], 0.5);
        finding["issues"] = issues.clone().into();
        finding["scores"] = json!({"overall_risk_score": 20 * index});
        Reaction::Answer(finding)
    });
    let sentences: Vec<&str> =
        run.outcome().synthesis.summary.iter().map(|sentence| sentence.text.as_str()).collect();
    expect![[r#"
        Recommendation: do not sign, held by 3 of 5 agents.
        Against it: b (sign as is), d (minor revisions).
        Overall risk score is 40 (medium), from 5 agents.
        The worst of 40 issues: issue number 0 (high), issue number 1 (high), issue number 10 (high)."#]]
    .assert_eq(&sentences.join("\n"));
    // Reading speed is about 150 words per minute.
    assert!(words(&sentences.join(" ")) <= 60);
}
