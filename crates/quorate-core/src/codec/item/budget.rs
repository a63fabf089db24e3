//! Encoding of budgets.

use crate::budget::Budget;
use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{AgentNo, BudgetNo};

pub(super) fn write(out: &mut Writer, budget: &Budget) {
    out.text(&budget.id);
    out.number(budget.number.0);
    out.option(budget.owner.map(|agent| agent.0));
    out.numbers(&[budget.messages_max, budget.messages_used]);
    out.option(budget.tokens_max);
    out.number(budget.tokens_used);
    out.option(budget.money_max);
    out.numbers(&[budget.money_used, u64::from(budget.warned)]);
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Budget, DecodeError> {
    Ok(Budget {
        id: input.id()?,
        number: BudgetNo(input.number()?),
        owner: input.option()?.map(AgentNo),
        messages_max: input.number()?,
        messages_used: input.number()?,
        tokens_max: input.option()?,
        tokens_used: input.number()?,
        money_max: input.option()?,
        money_used: input.number()?,
        warned: input.number()? == 1,
    })
}
