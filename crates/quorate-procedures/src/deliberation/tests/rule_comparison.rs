//! The same ballots under every voting rule.

use expect_test::expect;

use super::*;

fn text(position: &Option<crate::conflict::PositionValue>) -> String {
    position.as_ref().map_or("-".to_owned(), ToString::to_string)
}

fn lines(outcome: &Outcome) -> String {
    let mut lines = String::new();
    for comparison in compare_rules(outcome) {
        lines.push_str(&format!(
            "{} {} differ: {}\n",
            comparison.id,
            text(&comparison.position),
            comparison.differ
        ));
        for result in &comparison.rules {
            let describe = |summary: &TallySummary| {
                let winner = summary.choice.as_deref().unwrap_or("-");
                format!("{winner} {:.2} {:?} {}", summary.share, summary.tied, summary.agreement)
            };
            let (before, after) = (describe(&result.before), describe(&result.after));
            lines.push_str(&format!("  {} {before} > {after}\n", result.rule.as_str()));
        }
    }
    lines
}

// Fails under: one rule for all, `before` used for `after`, an unreported tie, borda without rankings.
#[test]
fn a5_differing_results_of_rules_are_reported() {
    let spec = spec(&["a", "b", "c"]);
    let findings = [("do not sign", 0.9, 80), ("sign as is", 0.5, 10), ("minor revisions", 0.3, 20)];
    let run = run_script(&spec, |ask| {
        let (recommendation, confidence, score) = findings[spec.agent_index(&ask.agent)];
        match ask.id.0.as_str() {
            id if id.starts_with("analyse") => {
                let mut finding = recommends(recommendation, confidence);
                finding["scores"] = json!({"overall_risk_score": score});
                Reaction::Answer(finding)
            }
            "discuss:1:C1:c" => Reaction::Answer(reply("sign as is", 0.3, false, "Rather this.")),
            _ => Reaction::Answer(stay(ask)),
        }
    });
    expect![[r#"
        C1 do not sign differ: true
          majority - 0.33 ["do not sign", "sign as is", "minor revisions"] tied > sign as is 0.67 [] majority 2 of 3
          confidence do not sign 0.53 [] contested: 1 of 3, by weight > do not sign 0.53 [] contested: 1 of 3, by weight
          log-odds do not sign 0.86 [] contested: 1 of 3, by weight > do not sign 0.95 [] contested: 1 of 3, by weight
          reliability - 0.33 ["do not sign", "sign as is", "minor revisions"] tied > sign as is 0.90 [] majority 2 of 3
        C2 80 differ: false
    "#]]
    .assert_eq(&lines(run.outcome()));
}

// Fails under: rankings missing from the outcome.
#[test]
fn a5_borda_is_compared_where_rankings_were_given() {
    let mut spec = spec(&["a", "b"]);
    spec.limits.rounds = 1;
    let run = run_script(&spec, |ask| {
        let recommendation = ["sign as is", "minor revisions"][spec.agent_index(&ask.agent)];
        if ask.action == ANALYSE {
            return Reaction::Answer(recommends(recommendation, 0.5));
        }
        let mut answer = stay(ask);
        if ask.agent == "a" {
            answer["ranking"] = json!(["sign as is", "minor revisions", "do not sign"]);
        }
        Reaction::Answer(answer)
    });
    let outcome = run.outcome();
    assert_eq!(outcome.decisions[0].rankings.len(), 1, "b gave none");
    let rules: Vec<&str> =
        compare_rules(outcome)[0].rules.iter().map(|result| result.rule.as_str()).collect();
    assert_eq!(rules, ["majority", "confidence", "log-odds", "borda", "reliability"]);
}
