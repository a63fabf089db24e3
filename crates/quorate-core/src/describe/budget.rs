//! A budget, for reading.

use crate::Budget;

use super::{Fields, Names, number, text};

pub(super) fn fields(budget: &Budget, names: &Names<'_>) -> Fields {
    let mut fields = vec![("budget", text(&budget.id))];
    fields.extend(budget.owner.map(|owner| ("owner", names.agent(owner))));
    fields.extend([
        ("messagesMax", number(budget.messages_max)),
        ("messagesUsed", number(budget.messages_used)),
    ]);
    fields.extend(budget.tokens_max.map(|most| ("tokensMax", number(most))));
    fields.extend(budget.money_max.map(|most| ("moneyMax", number(most))));
    fields
}
