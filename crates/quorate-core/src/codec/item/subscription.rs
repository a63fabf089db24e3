//! Encoding of subscriptions.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{AgentNo, Seq};
use crate::subscription::{History, Subscription, SubscriptionState};
use crate::time::Timestamp;

pub(super) fn write(out: &mut Writer, subscription: &Subscription) {
    out.text(&subscription.agent);
    out.text(subscription.pattern.as_str());
    out.numbers(&[subscription.agent_number.0, subscription.since.0]);
    match subscription.state {
        SubscriptionState::Active => out.number(0),
        SubscriptionState::CatchingUp(History::Seq(seq)) => out.numbers(&[1, seq.0]),
        SubscriptionState::CatchingUp(History::Time(time)) => out.numbers(&[2, time.0]),
        SubscriptionState::CatchingUp(History::Last(last)) => out.numbers(&[3, u64::from(last)]),
        SubscriptionState::Ended => out.number(4),
    }
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Subscription, DecodeError> {
    let agent = input.id()?;
    let pattern = input.id()?;
    let agent_number = AgentNo(u64::from(input.narrow::<u32>()?));
    let since = Seq(input.number()?);
    let state = match input.number()? {
        0 => SubscriptionState::Active,
        1 => SubscriptionState::CatchingUp(History::Seq(Seq(input.number()?))),
        2 => SubscriptionState::CatchingUp(History::Time(Timestamp(input.number()?))),
        3 => SubscriptionState::CatchingUp(History::Last(input.narrow()?)),
        4 => SubscriptionState::Ended,
        _ => return input.expected("the state of a subscription"),
    };
    Ok(Subscription { agent, agent_number, pattern, since, state })
}
