//! Results of the analysts on generated contracts, and their replies to each other's findings.

use serde_json::{Value, json};

use super::Heuristic;
use crate::generator::{PhrasingSet, Recommendation, generate};
use crate::measure;

fn analyse(analyst: Heuristic, text: &str) -> Value {
    analyst.analyse(text)
}

/// Checks that a finding has the format of deliberations.
fn is_finding(body: &Value) {
    let severities = ["low", "medium", "high", "critical"];
    let recommendations = ["sign as is", "minor revisions", "negotiate key terms", "do not sign"];
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["summary"],
        "properties": {
            "summary": { "type": "string", "minLength": 1, "maxLength": 8000 },
            "confidence": { "type": "number", "minimum": 0, "maximum": 1 },
            "scores": { "type": "object", "additionalProperties": { "type": "number" } },
            "recommendation": { "enum": recommendations },
            "issues": { "type": "array", "items": {
                "type": "object", "additionalProperties": false, "required": ["topic", "severity"],
                "properties": { "topic": { "type": "string" }, "severity": { "enum": severities },
                                "detail": { "type": "string" }, "evidence": { "type": "string" }, "advice": { "type": "string" } }
            } },
            "facts": { "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } },
            "relies_on": { "type": "array", "items": { "type": "string" } },
            "found": { "type": "array", "items": { "type": "string" } },
            "details": { "type": "object" }
        }
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(body).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}: {body}");
}

#[test]
fn clauses_and_issues_are_found_in_seen_phrasings_with_few_errors() {
    let rows = measure::clauses(201..=260, PhrasingSet::Seen);
    let accurate = rows
        .iter()
        .filter(|row| row.true_positives > 0 && row.precision() >= 0.9 && row.recall() >= 0.9)
        .count();
    assert!(accurate >= 38, "{accurate} of 41: {rows:#?}");
    let issues = measure::total(&measure::issues(201..=260, PhrasingSet::Seen));
    assert!(issues.precision() >= 0.98 && issues.recall() >= 0.98, "{issues:?}");
    let total = measure::total(&rows);
    assert!(total.precision() >= 0.98 && total.recall() >= 0.98, "{total:?}");
}

#[test]
fn every_finding_is_valid_and_deterministic() {
    for seed in 1..=4 {
        let contract = generate(seed, PhrasingSet::Seen);
        for analyst in Heuristic::ALL {
            let body = analyse(analyst, &contract.text);
            is_finding(&body);
            assert_eq!(body, analyse(analyst, &contract.text));
            assert_eq!(body.get("found").is_some(), analyst == Heuristic::Clauses);
        }
    }
}

#[test]
fn evidence_is_contained_in_the_text() {
    let contract = generate(7, PhrasingSet::Seen);
    let text = contract.text.split_whitespace().collect::<Vec<_>>().join(" ").replace('"', "'");
    let mut quoted = 0;
    for analyst in Heuristic::ALL {
        for issue in analyse(analyst, &contract.text)["issues"].as_array().into_iter().flatten() {
            if let Some(evidence) = issue["evidence"].as_str() {
                let quote = evidence.rsplit('"').nth(1).unwrap().trim_end_matches([' ', '\u{2026}']);
                assert!(text.contains(quote), "{quote}");
                quoted += 1;
            }
        }
    }
    assert!(quoted > 0);
}

#[test]
fn an_analyst_without_relevant_text_abstains() {
    let text = "SERVICES AGREEMENT\n\nThis Agreement is between A Ltd (\"Vendor\") and B Ltd (\"Customer\").\n\n\
                1. SERVICES\n\n1.1 Vendor shall sweep the yard. The Services do not involve the processing of personal data.";
    assert!(!Heuristic::Compliance.is_relevant_to(text) && !Heuristic::Ip.is_relevant_to(text));
    assert!(Heuristic::Risk.is_relevant_to(text));
    let body = analyse(Heuristic::Compliance, text);
    is_finding(&body);
    assert!(body.get("recommendation").is_none() && body.get("scores").is_none(), "{body}");
}

#[test]
fn analysts_are_activated_by_the_content_of_the_contract() {
    let (mut correct, mut total) = (0, 0);
    for seed in 1..=60 {
        let contract = generate(seed, PhrasingSet::Seen);
        let activation = contract.truth.activation;
        let expected = [
            (
                Heuristic::Compliance,
                activation.personal_data || activation.eu || activation.california || activation.health,
            ),
            (Heuristic::Ip, activation.ip),
            (Heuristic::Financial, activation.money),
        ];
        for (analyst, expected) in expected {
            total += 1;
            let relevant = analyst.is_relevant_to(&contract.text);
            correct += u32::from(relevant == expected);
        }
    }
    assert!(correct * 100 >= total * 97, "{correct} of {total}");
}

/// Positions of all analysts on the recommendation, as in a deliberation.
fn positions(findings: &[(Heuristic, Value)]) -> Vec<Value> {
    let position_of = |(analyst, body): &(Heuristic, Value)| {
        let position = body.get("recommendation")?;
        Some(
            json!({ "agent": analyst.name(), "position": position, "confidence": body["confidence"], "reason": body["summary"] }),
        )
    };
    findings.iter().filter_map(position_of).collect()
}

fn discuss(analyst: Heuristic, text: &str, kind: &str, topic: &str, positions: &[Value]) -> Value {
    let (own, others): (Vec<_>, Vec<_>) =
        positions.iter().cloned().partition(|position| position["agent"] == analyst.name());
    let payload = json!({
        "input": { "text": text }, "conflict": { "kind": kind, "topic": topic },
        "your_position": own.first(), "other_positions": others,
    });
    analyst.discuss(text, &payload)
}

#[test]
fn a4_verified_issues_of_peers_are_adopted_and_positions_converge() {
    let (mut alone, mut together, mut total) = (0, 0, 0);
    for seed in 1..=16 {
        let contract = generate(seed, PhrasingSet::Seen);
        let truth = match contract.truth.recommendation {
            Recommendation::SignAsIs => "sign as is",
            Recommendation::MinorRevisions => "minor revisions",
            Recommendation::NegotiateKeyTerms => "negotiate key terms",
            Recommendation::DoNotSign => "do not sign",
        };
        let findings: Vec<_> =
            Heuristic::ALL.map(|analyst| (analyst, analyse(analyst, &contract.text))).into();
        let positions = positions(&findings);
        for position in &positions {
            let analyst = Heuristic::from_name(position["agent"].as_str().unwrap()).unwrap();
            let reply = discuss(analyst, &contract.text, "categorical", "what to do", &positions);
            total += 1;
            alone += u32::from(position["position"] == truth);
            together += u32::from(reply["revised_position"] == truth);
        }
    }
    assert!(
        together > alone && together * 100 >= total * 80,
        "alone {alone}, together {together} of {total}"
    );
}

#[test]
fn a4_quotations_that_are_not_in_the_text_are_rejected() {
    let text = "AGREEMENT\n\nThis Agreement is between A (\"Vendor\") and B (\"Customer\").\n\n1. FEES\n\n1.1 The fees are EUR 5.\n\n\
                2. SECRETS\n\n2.1 Each Party shall keep Confidential Information secret.";
    let made_up = "Section 9 takes all (critical, ip to vendor: \"Customer assigns its soul to Vendor\").";
    let positions = [
        json!({ "agent": "risk", "position": "sign as is", "confidence": 0.6, "reason": "nothing" }),
        json!({ "agent": "ip", "position": "negotiate key terms", "confidence": 0.9, "reason": made_up }),
    ];
    let reply = discuss(Heuristic::Risk, text, "categorical", "what to do", &positions);
    assert_eq!(reply["revised_position"], "sign as is", "{reply}");
    assert!(reply["reasoning"].as_str().unwrap().contains("Not counted"), "{reply}");
    assert_eq!(reply["agrees_with_peer"], false);
}

/// The contract has enough problems that one more issue does not change the recommendation.
#[test]
fn a4_adopting_an_issue_without_a_new_position_keeps_the_confidence() {
    let text = "AGREEMENT\n\nThis Agreement is between A (\"Vendor\") and B (\"Customer\").\n\n1. LIABILITY\n\n\
                1.1 Customer's liability is unlimited.\n\n1.2 Vendor may publish the name and logo of Customer in its marketing.\n\n\
                1.3 Vendor grants Customer a license to use the Software.\n\n\
                2. SECRETS\n\n2.1 Each Party shall keep Confidential Information secret.";
    let findings: Vec<_> =
        [Heuristic::Risk, Heuristic::Ip].map(|analyst| (analyst, analyse(analyst, text))).into();
    let positions = positions(&findings);
    assert_eq!(positions[0]["position"], "negotiate key terms", "{positions:?}");
    let kept = discuss(Heuristic::Risk, text, "categorical", "what to do", &positions);
    assert_eq!(kept["revised_position"], "negotiate key terms");
    assert!(kept.get("confidence").is_none(), "{kept}");
    let reasoning = kept["reasoning"].as_str().unwrap();
    assert!(
        reasoning.starts_with("Section 1.2 lets the vendor advertise")
            && reasoning.contains("stays the same"),
        "{reasoning}"
    );
    assert!(kept["evidence"].as_str().unwrap().contains("name and logo"), "{kept}");
    let moved = discuss(Heuristic::Ip, text, "categorical", "what to do", &positions);
    assert_eq!(moved["revised_position"], "negotiate key terms");
    let reasoning = moved["reasoning"].as_str().unwrap();
    assert!(
        reasoning
            .starts_with("Section 1.1 leaves the customer's liability without a cap; I had not counted it."),
        "{reasoning}"
    );
    assert!(moved["confidence"].is_number(), "{moved}");
}

/// A description is a sentence with its location, and a quotation ends at the end of a clause.
#[test]
fn an_issue_is_described_in_a_sentence_with_its_section() {
    for seed in 1..=6 {
        let contract = generate(seed, PhrasingSet::Seen);
        for issue in analyse(Heuristic::Risk, &contract.text)["issues"].as_array().into_iter().flatten() {
            let detail = issue["detail"].as_str().unwrap();
            let locations = ["Section ", "The section ", "Schedule ", "Exhibit ", "Nothing in the contract"];
            assert!(
                locations.iter().any(|prefix| detail.starts_with(prefix)) && detail.ends_with('.'),
                "{detail}"
            );
            assert!(!detail.contains(['[', '"']) || detail.starts_with("The section"), "{detail}");
        }
    }
}

#[test]
fn a4_a_figure_outranks_a_judgement_by_category() {
    let positions = [
        json!({ "agent": "risk", "position": "high", "confidence": 0.7, "reason": "Section 7.8 caps it (2): \"7.8 The cap of 5\"" }),
        json!({ "agent": "financial", "position": "critical", "confidence": 0.7, "reason": "4 % of a year's fees" }),
    ];
    let topic = "how severe is \"trivial vendor cap\"?";
    let moved = discuss(Heuristic::Risk, "AGREEMENT", "severity", topic, &positions);
    assert_eq!((&moved["revised_position"], &moved["agrees_with_peer"]), (&json!("critical"), &json!(true)));
    let stays = discuss(Heuristic::Financial, "AGREEMENT", "severity", topic, &positions);
    assert_eq!((&stays["revised_position"], &stays["agrees_with_peer"]), (&json!("critical"), &json!(false)));
    assert!(stays.get("confidence").is_none(), "an unchanged position keeps its confidence: {stays}");
}

#[test]
fn a4_a_quoted_paragraph_settles_the_presence_of_a_clause() {
    let text = "AGREEMENT\n\n1. X\n\n1.1 The governing principle is the law of the jungle.";
    let positions = [
        json!({ "agent": "clauses", "position": "absent", "confidence": 0.7, "reason": "" }),
        json!({ "agent": "risk", "position": "present", "confidence": 0.7, "reason": "" }),
    ];
    let found = discuss(Heuristic::Clauses, text, "presence", "is \"governing_law\" there?", &positions);
    assert_eq!((&found["revised_position"], &found["agrees_with_peer"]), (&json!("present"), &json!(true)));
    assert!(found["evidence"].as_str().unwrap().contains("jungle"));
    let missing =
        discuss(Heuristic::Clauses, text, "presence", "is \"source_code_escrow\" there?", &positions);
    assert_eq!(
        (&missing["revised_position"], &missing["question"]["to"]),
        (&json!("absent"), &json!("risk"))
    );
    let conceded = discuss(Heuristic::Risk, text, "presence", "is \"source_code_escrow\" there?", &positions);
    assert_eq!(conceded["revised_position"], "absent");
}

#[test]
fn a4_the_prevailing_part_settles_a_fact() {
    let text = "AGREEMENT\n\n1. FEES\n\n1.1 Customer shall pay each invoice within 30 days.\n\n\
                2. GENERAL\n\n2.1 If this Agreement and a Schedule differ, the main body of this Agreement prevails.\n\n\
                SCHEDULE A\n\nPayment terms: net 60 days from the date of the invoice.";
    let positions = [
        json!({ "agent": "clauses", "position": "30", "confidence": 0.7, "reason": "" }),
        json!({ "agent": "financial", "position": "60", "confidence": 0.7, "reason": "" }),
    ];
    let reply = discuss(Heuristic::Financial, text, "factual", "payment_days", &positions);
    assert_eq!(
        (&reply["revised_position"], &reply["agrees_with_peer"]),
        (&json!(30), &json!(true)),
        "{reply}"
    );
    let silent = text.replace("prevails", "differs");
    let kept = discuss(Heuristic::Financial, &silent, "factual", "payment_days", &positions);
    assert_eq!(kept["revised_position"], "60");
}

#[test]
fn a_contract_over_the_size_limit_is_truncated_and_marked() {
    let long =
        "AGREEMENT\n\n".to_owned() + &"The Vendor shall provide the services. ".repeat(28_000) + "\n\nend";
    let body = analyse(Heuristic::Clauses, &long);
    assert!(body["details"]["cut"].as_str().unwrap().contains("bytes were read"));
}

/// The roles are detected for every form of introduction: the same problems are found.
#[test]
fn problems_are_found_for_every_form_of_introduction() {
    use crate::generator::{Clause, Fact, Value as Known};
    let intros = [
        "THIS AGREEMENT is made between {VN} (\"{VS}\") and {CN} (\"{CS}\"). {VS} is called the {V} and {CS} is called the {C}.",
        "The {V}: {VN}, with its seat in Hamburg.\n\nThe {C}: {CN}, with its seat in London.",
        "Between {CN} - hereinafter \"{C}\" - and {VN} - hereinafter \"{V}\" - the following contract (the \"Contract\") is concluded.",
        "{VN} will act as {V}. {CN} is the {C}. Together they are the parties to this contract (the \"Project\").",
        "{VN} (\"{VS}\") sells services to {CN} (\"{CS}\").",
    ];
    for seed in 1..=5 {
        let contract = generate(seed, PhrasingSet::Seen);
        let parties = contract.truth.clauses.iter().find(|label| label.topic == Clause::Parties).unwrap();
        let (start, end) = (parties.span.start, parties.span.end);
        let fact =
            |fact: Fact| match &contract.truth.facts.iter().find(|stated| stated.fact == fact).unwrap().value
            {
                Known::Role(text) | Known::Text(text) => text.clone(),
                _ => String::new(),
            };
        let first = |name: &str| name.split(' ').next().unwrap_or_default().to_owned();
        for intro in intros {
            let (vendor, customer) = (fact(Fact::VendorName), fact(Fact::CustomerName));
            let intro = intro
                .replace("{VN}", &vendor)
                .replace("{CN}", &customer)
                .replace("{VS}", &first(&vendor))
                .replace("{CS}", &first(&customer))
                .replace("{V}", &fact(Fact::Vendor))
                .replace("{C}", &fact(Fact::Customer));
            let text = format!("{}{intro}{}", &contract.text[..start], &contract.text[end..]);
            assert_eq!(
                super::find_problems(&text),
                super::find_problems(&contract.text),
                "seed {seed}: {intro}"
            );
        }
    }
}
