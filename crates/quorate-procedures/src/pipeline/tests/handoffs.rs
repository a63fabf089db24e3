//! Handoffs: budget, references and rules.

use serde_json::{Value, json};

use super::{Run, delivery, good, payload};
use crate::pipeline::{Handoff, HandoffRule};
use crate::scripted_run::Reply;
use crate::tokens::count_o200k;

const BUDGET: usize = 500;

/// The fields of a request that a handoff consists of.
fn context(request: &Value) -> Value {
    let names = [
        "summary",
        "output_ref",
        "output_refs",
        "tokens_used",
        "key_findings",
        "next_action",
        "requires",
        "fields",
    ];
    let fields = names.iter().filter_map(|name| Some(((*name).to_owned(), request.get(name)?.clone())));
    Value::Object(fields.collect())
}

// Fails under: a large output that is embedded; a reference that does not name its field; a budget that is exceeded.
#[test]
fn b5_a_large_output_is_compressed_and_referenced() {
    let risks: Vec<String> =
        (0..400).map(|n| format!("risk {n}: the upstream service {n} may be slow")).collect();
    let findings: Vec<String> =
        (0..300).map(|n| format!("Module {n} retries {n} times without a limit.")).collect();
    let run = Run::start(&delivery()).finish(|request, payload| match request.action.as_str() {
        "plan" => Reply::Answer(json!({
            "summary": "Many modules retry.",
            "key_findings": findings,
            "next_action": "Split the plan.",
            "risks": risks,
        })),
        _ => good(request, payload),
    });
    let split = payload(&run.sent[1]);
    let tokens = count_o200k(&context(&split).to_string());
    assert!(tokens <= BUDGET, "{tokens} tokens: {split}");
    assert!(tokens > BUDGET / 3, "{tokens} tokens: {split}");
    let reference = &split["fields"]["plan"]["risks"];
    assert_eq!(
        (reference["output_ref"].as_str(), reference["field"].as_str()),
        (Some("pipelines/p/plan"), Some("risks"))
    );
    assert!(split["tokens_used"].as_u64() > Some(3_000));
    assert_eq!(
        run.entries["pipelines/p/plan"]["risks"].as_array().map(Vec::len),
        Some(400),
        "nothing is lost"
    );
    for request in &run.sent {
        let request = payload(request);
        assert!(count_o200k(&context(&request).to_string()) <= BUDGET, "{request}");
    }
}

// Fails under: a handoff without a next action that is passed on; an agent that is not asked again with the rule.
#[test]
fn b7_an_output_without_a_next_action_is_asked_for_again_and_then_used_as_partial() {
    let mut wrong = Vec::new();
    let run = Run::start(&delivery()).finish(|request, payload| match request.action.as_str() {
        "plan" => {
            wrong.push(payload["wrong"].as_str().map(ToOwned::to_owned));
            Reply::Answer(json!({ "summary": "A plan." }))
        }
        _ => good(request, payload),
    });
    assert_eq!(wrong, [None, Some("rule 4 (say what comes next): there is no `next_action`".to_owned())]);
    assert_eq!(run.result()["phases"][0]["jobs"][0]["status"], json!("partial"));
    assert!(run.has_succeeded());
    let split = payload(&run.sent[2]);
    assert_eq!((split["phase"].as_str(), split["summary"].as_str()), (Some("split"), Some("A plan.")));
}

// Fails under: a rule that is not checked.
#[test]
fn b7_a_handoff_that_violates_a_rule_is_refused_with_the_rule() {
    let handoff = Handoff {
        summary: "Listed five tasks.".into(),
        output_ref: "plan".into(),
        tokens_used: 450,
        key_findings: vec!["T1 is first.".into()],
        next_action: "Split them.".into(),
    };
    let requires = ["plan".to_owned()];
    let rule = |handoff: &Handoff, requires: Option<&[String]>| {
        handoff.check(requires, 100).map_err(|error| error.rule)
    };
    assert_eq!(rule(&handoff, Some(&requires)), Ok(()));
    let large = Handoff { summary: "one task after the other ".repeat(200), ..handoff.clone() };
    assert_eq!(rule(&large, Some(&requires)), Err(HandoffRule::ReferenceLargeOutputs));
    let many = Handoff { key_findings: vec!["A finding that is short.".into(); 40], ..handoff.clone() };
    assert_eq!(rule(&many, Some(&requires)), Err(HandoffRule::MinimalContext));
    assert_eq!(rule(&handoff, None), Err(HandoffRule::ExplicitDependencies));
    let silent = Handoff { next_action: " ".into(), ..handoff };
    assert_eq!(rule(&silent, Some(&requires)), Err(HandoffRule::ClearHandoffPoint));
}

// Fails under: a plain text that is no output.
#[test]
fn b1_a_plain_text_is_the_summary_of_an_output() {
    let mut spec = delivery();
    spec["phases"] = json!([{ "name": "plan", "agents": ["planner"] }]);
    let run = Run::start(&spec).finish(|_, _| Reply::Answer(json!({ "text": "Do it." })));
    assert_eq!(run.result()["phases"][0]["jobs"][0]["summary"], json!("Do it."));
}
