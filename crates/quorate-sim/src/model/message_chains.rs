//! Message-chain steps: correlation, causation, hop counts and budgets.

use std::fmt;

use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::{BudgetId, Message, MessageType, Op, SetBudget};

use super::plan::PlannedOp;

/// Position of a message in its chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChainFields {
    /// Correlation id, if set.
    correlation: Option<u8>,
    caused: bool,
    hops: u16,
    limit: Option<u16>,
    answer: bool,
    budget: Option<u8>,
}

/// Limits of a budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetSpec {
    budget: u8,
    messages: u64,
    money: Option<u64>,
}

impl fmt::Display for ChainFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { correlation, caused, hops, limit, answer, budget } = self;
        if let Some(chain) = correlation {
            write!(f, " chain {}", CHAINS[usize::from(*chain)])?;
        }
        if *caused {
            f.write_str(" caused")?;
        }
        if *answer {
            f.write_str(" as an answer")?;
        }
        if *hops > 0 {
            write!(f, " hops {hops}")?;
        }
        if let Some(limit) = limit {
            write!(f, " limit {limit}")?;
        }
        budget.map_or(Ok(()), |budget| write!(f, " on b{budget}"))
    }
}

impl fmt::Display for BudgetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sets b{} to {} messages and {:?} money", self.budget, self.messages, self.money)
    }
}

/// Correlation ids. Messages of the first one belong to a procedure.
pub(super) const CHAINS: [&str; 2] = [super::procedures::NAMES[0], "c1"];

/// Generates chain fields; most messages have none, so that they are not refused.
pub(super) fn chain_fields() -> BoxedStrategy<ChainFields> {
    let none =
        ChainFields { correlation: None, caused: false, hops: 0, limit: None, answer: false, budget: None };
    let at_default = prop_oneof![8 => 0..3u16, 2 => Just(100), 2 => Just(101), 1 => Just(102)];
    let hops = prop_oneof![
        3 => at_default.prop_map(|hops| (hops, None)),
        1 => (0..6u16, 1..4u16).prop_map(|(hops, limit)| (hops, Some(limit))),
    ];
    let some = (weighted(0.8, 0..2u8), proptest::bool::ANY, hops, proptest::bool::weighted(0.1), budget());
    let some = some.prop_map(|(correlation, caused, (hops, limit), answer, budget)| ChainFields {
        correlation,
        caused,
        hops,
        limit,
        answer,
        budget,
    });
    prop_oneof![4 => Just(none), 1 => some].boxed()
}

fn budget() -> BoxedStrategy<Option<u8>> {
    weighted(0.3, 0..2u8).boxed()
}

pub(super) fn budget_op() -> BoxedStrategy<PlannedOp> {
    (0..2u8, prop_oneof![4 => 1..6u64, 1 => Just(0)], weighted(0.2, 0..2u64))
        .prop_map(|(budget, messages, money)| PlannedOp::Budget(BudgetSpec { budget, messages, money }))
        .boxed()
}

impl ChainFields {
    pub(super) fn apply_to(self, message: Message) -> Message {
        Message {
            correlation_id: self.correlation.map(|chain| CHAINS[usize::from(chain)].into()),
            causation_id: self.caused.then(|| "msg_0-1-0".into()),
            hops: self.hops,
            max_hops: self.limit,
            kind: if self.answer { MessageType::Response } else { MessageType::Command },
            budget: self.budget.map(|budget| format!("b{budget}")),
            ..message
        }
    }
}

impl BudgetSpec {
    pub(super) fn op(self) -> Op {
        let id = BudgetId::new(format!("b{}", self.budget)).expect("valid budget id");
        Op::SetBudget(SetBudget { id, messages_max: self.messages, tokens_max: None, money_max: self.money })
    }
}
