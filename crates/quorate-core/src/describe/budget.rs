//! A budget, for reading.

use crate::{AgentNo, Budget};

use super::{Fields, number, text};

pub(super) fn fields(budget: &Budget, agents: &dyn Fn(AgentNo) -> String) -> Fields {
    let mut fields = vec![("budget", text(&budget.id))];
    fields.extend(budget.owner.map(|owner| ("owner", text(agents(owner)))));
    fields.extend([
        ("messagesMax", number(budget.messages_max)),
        ("messagesUsed", number(budget.messages_used)),
    ]);
    fields.extend(budget.tokens_max.map(|most| ("tokensMax", number(most))));
    fields.extend(budget.money_max.map(|most| ("moneyMax", number(most))));
    fields
}
