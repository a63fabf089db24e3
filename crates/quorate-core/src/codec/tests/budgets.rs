//! Golden tests of the encoding of budgets and aborted waits.

use super::*;
use crate::budget::Budget;
use crate::ids::BudgetNo;
use crate::item::{Item, ItemKind, Verb};

fn budget() -> Budget {
    Budget {
        id: "b1".parse().unwrap(),
        number: BudgetNo(300),
        owner: Some(AgentNo(2)),
        messages_max: 100,
        messages_used: 80,
        tokens_max: None,
        tokens_used: 3,
        money_max: Some(5_000_000),
        money_used: 4,
        warned: true,
    }
}

#[test]
fn the_bytes_of_a_budget_and_an_aborted_wait_never_change() {
    let verbs = [Verb::BudgetSet, Verb::BudgetSpent, Verb::BudgetWarned];
    let mut effects: Vec<_> =
        verbs.into_iter().map(|verb| Effect::Changed { verb, item: Item::Budget(budget()) }).collect();
    let cycle = vec![(AgentNo(300), "lock x".to_owned()), (AgentNo(2), "lock y".to_owned())];
    effects.push(Effect::WaitAborted { cycle });
    expect!["00040f125007026231ac020364500003c196b10204010f125107026231ac020364500003c196b10204010f125207026231ac020364500003c196b1020401121202ac02066c6f636b207802066c6f636b2079"].assert_eq(&hex(&write_body(&[], &effects)));
    assert_eq!(read_body(&record_of(&[], &effects)).unwrap().effects, effects);
    let item = Item::Budget(budget());
    assert_eq!(read_item(ItemKind::Budget, &write_item(&item)).unwrap(), item);
}
