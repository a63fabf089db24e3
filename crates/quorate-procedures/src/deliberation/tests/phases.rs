//! The phases of a deliberation, and the format of its messages.

use expect_test::expect;

use super::*;

fn kind(ask: &Ask) -> String {
    let payload: Value = serde_json::from_str(&ask.payload).expect("JSON");
    payload["conflict"]["kind"].as_str().expect("a kind").to_owned()
}

fn three_agents(ask: &Ask) -> Reaction {
    Reaction::Answer(match ask.id.0.as_str() {
        "analyse:clause_extractor" => {
            json!({"summary": "12 clauses.", "confidence": 0.9, "found": ["governing law"],
            "issues": [{"topic": "Liability cap", "severity": "high", "detail": "There is none", "advice": "Ask for one."}]})
        }
        "analyse:risk" => json!({"summary": "Too risky.", "confidence": 0.8, "recommendation": "do not sign",
            "scores": {"overall_risk_score": 80}, "relies_on": ["indemnification"],
            "issues": [{"topic": "liability cap", "severity": "critical", "detail": "Unlimited liability"}]}),
        "analyse:money" => {
            json!({"summary": "A fair price.", "confidence": 0.6, "recommendation": "minor revisions",
            "scores": {"overall_risk_score": 30}})
        }
        id if id.starts_with("discuss:1:") => match (kind(ask).as_str(), ask.agent.as_str()) {
            ("categorical", "money") => reply("do not sign", 0.7, true, "The cap convinces me."),
            ("numeric", "money") => reply(60, 0.5, true, "It is riskier than I thought."),
            ("numeric", "risk") => reply(75, 0.8, false, "Still risky."),
            _ => stay(ask),
        },
        _ => return Reaction::Answer(stay(ask)),
    })
}

#[test]
fn a1_five_phases_are_followed_by_a_synthesis() {
    let spec = spec(&["clause_extractor", "risk", "money"]);
    let run = run_script(&spec, three_agents);
    expect![[r#"
        ask analyse:clause_extractor
        ask analyse:risk
        ask analyse:money
        F1 round 0 Finding clause_extractor > coordinator: 12 clauses. 0.9
        F2 round 0 Finding risk > coordinator: Too risky. 0.8
        F3 round 0 Finding money > coordinator: A fair price. 0.6
        ask discuss:1:C1:risk
        ask discuss:1:C1:money
        ask discuss:1:C2:risk
        ask discuss:1:C2:money
        ask discuss:1:C3:clause_extractor
        ask discuss:1:C3:risk
        ask discuss:1:C4:clause_extractor
        ask discuss:1:C4:risk
        M1 round 1 Revision risk > money re F3: 75 0.8
        M2 round 1 Revision money > risk re F2: 60 0.5
        M3 round 1 Disagreement risk > money re F3: do not sign 0.8
        M4 round 1 Revision money > risk re F2: do not sign 0.7
        M5 round 1 Disagreement clause_extractor > risk re F2: absent 0.9
        M6 round 1 Disagreement risk > clause_extractor re F1: present 0.8
        M7 round 1 Disagreement clause_extractor > risk re F2: high 0.9
        M8 round 1 Disagreement risk > clause_extractor re F1: critical 0.8
        ask discuss:2:C3:clause_extractor
        ask discuss:2:C3:risk
        ask discuss:2:C4:clause_extractor
        ask discuss:2:C4:risk
        M9 round 2 Disagreement clause_extractor > risk re M6: absent 0.9
        M10 round 2 Disagreement risk > clause_extractor re M5: present 0.8
        M11 round 2 Disagreement clause_extractor > risk re M8: high 0.9
        M12 round 2 Disagreement risk > clause_extractor re M7: critical 0.8
        finished: Recommendation: do not sign, held by 2 of 2 agents.
    "#]]
    .assert_eq(&run.text());
    let sentences: Vec<String> = run
        .outcome()
        .synthesis
        .summary
        .iter()
        .map(|sentence| format!("{} [{}]\n", sentence.text, sentence.sources.join("][")))
        .collect();
    expect![[r#"
        Recommendation: do not sign, held by 2 of 2 agents. [M3][M4]
        The discussion moved money to do not sign. [M4]
        Without a recommendation: clause_extractor. [F1]
        Overall risk score is 75 (high), from 2 agents. [M1][M2]
        One issue: Liability cap (high). [F1][F2]
        2 more conflicts: 2 put to the vote. [C3][C4]
    "#]]
    .assert_eq(&sentences.concat());
    let synthesis = &run.outcome().synthesis;
    assert_eq!(synthesis.recommendation.as_deref(), Some("do not sign"));
    let score = synthesis.score.as_ref().expect("a score");
    assert_eq!((score.value, score.level.as_deref()), (75.0, Some("high")));
    assert_eq!(synthesis.issues[0].flagged.len(), 2);
}

#[test]
fn a1_findings_are_published_only_when_all_are_in() {
    let spec = spec(&["a", "b"]);
    let machine = Deliberation::new(&spec, words);
    let mut state = DeliberationState::default();
    let outputs = machine.step(&mut state, Input::Start, 0);
    assert!(outputs.iter().all(
        |output| matches!(output, Output::Ask(ask) if ask.action == ANALYSE && !ask.payload.contains("position"))
    ));
    let answer = |agent: &str| Input::Answered {
        ask: AskId(format!("analyse:{agent}")),
        from: agent.to_owned(),
        body: recommends("sign as is", 0.5).to_string().into_bytes(),
        usage: None,
    };
    assert_eq!(machine.step(&mut state, answer("a"), 5), [], "b has not answered yet");
    let outputs = machine.step(&mut state, answer("b"), 9);
    assert_eq!(outputs.iter().filter(|output| matches!(output, Output::Publish(_))).count(), 2);
    assert!(matches!(outputs.last(), Some(Output::Finished(_))), "they agree: there is nothing to discuss");
}

#[test]
fn a2_messages_have_the_documented_format() {
    let run = run_script(&spec(&["clause_extractor", "risk", "money"]), three_agents);
    let messages = &run.outcome().record.messages;
    let finding = serde_json::to_value(&messages[1]).expect("JSON");
    assert_eq!(
        finding,
        json!({"id": "F2", "round": 0, "sender": "risk", "recipients": ["coordinator"], "messageType": "finding",
            "content": {"summary": "Too risky.", "confidence": 0.8, "recommendation": "do not sign",
                "scores": {"overall_risk_score": 80.0}, "issues": {"critical": 1}},
            "timestamp": 1030})
    );
    let revision = messages.iter().find(|message| message.id == "M4").expect("a revision");
    let revision = serde_json::to_value(revision).expect("JSON");
    assert_eq!(revision["messageType"], "revision");
    assert_eq!((&revision["replyTo"], &revision["round"]), (&json!("F2"), &json!(1)));
    assert_eq!(revision["content"]["before"], json!({"position": "minor revisions", "confidence": 0.6}));
}

#[test]
fn a2_all_seven_types_are_used_where_they_apply() {
    let spec = spec(&["a", "b", "c"]);
    let run = run_script(&spec, |ask| {
        let mut answer = match ask.id.0.as_str() {
            "analyse:a" => return Reaction::Answer(recommends("do not sign", 0.8)),
            "analyse:b" => return Reaction::Answer(recommends("sign as is", 0.7)),
            "analyse:c" => return Reaction::Answer(recommends("sign as is", 0.5)),
            _ => stay(ask),
        };
        match ask.id.0.as_str() {
            "discuss:1:C1:b" => answer["question"] = json!({"to": "a", "text": "What about the cap?"}),
            "discuss:1:C1:c" => answer["agrees_with_peer"] = json!(true),
            "discuss:2:C1:a" => {
                answer["clarification"] = json!("There is none.");
                answer["evidence"] = json!("Clause 9 is empty.");
            }
            "discuss:2:C1:b" => answer = reply("do not sign", 0.6, true, "Then I agree."),
            _ => {}
        }
        Reaction::Answer(answer)
    });
    expect![[r#"
        ask analyse:a
        ask analyse:b
        ask analyse:c
        F1 round 0 Finding a > coordinator: I say do not sign. 0.8
        F2 round 0 Finding b > coordinator: I say sign as is. 0.7
        F3 round 0 Finding c > coordinator: I say sign as is. 0.5
        ask discuss:1:C1:a
        ask discuss:1:C1:b
        ask discuss:1:C1:c
        M1 round 1 Disagreement a > b, c re F2: do not sign 0.8
        M2 round 1 Disagreement b > a, c re F1: sign as is 0.7
        M3 round 1 Agreement c > a, b re F1: sign as is 0.5
        M4 round 1 Question b > a re M2: What about the cap?
        ask discuss:2:C1:a
        ask discuss:2:C1:b
        ask discuss:2:C1:c
        M5 round 2 Disagreement a > b, c re M4: do not sign 0.8
        M6 round 2 Revision b > a, c re M1: do not sign 0.6
        M7 round 2 Disagreement c > a, b re M1: sign as is 0.5
        M8 round 2 Clarification a > b re M4: There is none.
        M9 round 2 Evidence a > b, c re M5: Clause 9 is empty.
        finished: Recommendation: do not sign, held by 2 of 3 agents; without the discussion it would have been sign as is.
    "#]]
    .assert_eq(&run.text());
    let mut types: Vec<DeliberationMessageType> =
        run.outcome().record.messages.iter().map(|message| message.message_type).collect();
    types.sort();
    types.dedup();
    assert_eq!(types.len(), 7);
    assert_eq!(
        run.payload("discuss:2:C1:a")["questions"],
        json!([{"from": "b", "text": "What about the cap?"}])
    );
    assert_eq!(run.payload("discuss:2:C1:c")["questions"], json!([]), "not addressed to c");
}
