//! The calendar, and the sentence.

use super::*;
use crate::ids::{AgentId, AgentNo, DeliveryNo, Token};

const NOON: Timestamp = Timestamp(1_800_014_400_000);

fn look(state: OpenState, attempt: u16) -> DeliveryLook {
    let mut open = Open::new(AgentNo(1), Seq(3), 0, state);
    open.attempt = attempt;
    DeliveryLook {
        number: DeliveryNo(1),
        open,
        to: "bob".into(),
        agent: AgentId::new("bob").ok(),
        is_away: false,
        listening: 0,
        ahead: Some(0),
        held: None,
    }
}

fn said(look: &DeliveryLook) -> String {
    Why::of_open("dlv_0-1".into(), look, NOON).sentence
}

// Fails under: any slip in the arithmetic of the calendar.
#[test]
fn a_day_has_its_date() {
    let days = [(0, (1970, 1, 1)), (59, (1970, 3, 1)), (11_016, (2000, 2, 29)), (20_834, (2027, 1, 16))];
    for (day, date) in days {
        assert_eq!(civil(day), date);
    }
    let tomorrow = clock(NOON.plus_ms(86_400_000), NOON);
    assert_eq!((clock(NOON, NOON).as_str(), tomorrow.as_str()), ("12:00:00", "2027-01-16 12:00:00"));
}

// Fails under: the last attempt said to be given out again, or a lapse named before its time.
#[test]
fn a_lease_says_what_happens_when_it_ends() {
    let held = Some((Some(NOON), NOON.plus_ms(31_000)));
    let second = DeliveryLook { held, ..look(OpenState::Leased { token: Token(2) }, 2) };
    assert_eq!(
        said(&second),
        "leased to bob since 12:00:00 (attempt 2 of 4); if it is not acked by 12:00:31 it is given out again"
    );
    let last = DeliveryLook { held, ..look(OpenState::Leased { token: Token(2) }, 4) };
    assert!(said(&last).ends_with("by 12:00:31 it becomes a dead letter"), "{}", said(&last));
}

// Fails under: an absent recipient said to be about to claim.
#[test]
fn what_is_ready_says_who_is_to_take_it() {
    let ready = OpenState::Ready { since: NOON };
    assert_eq!(
        said(&look(ready, 0)),
        "ready for bob since 12:00:00 (tried 0 of 4); it goes out with the next claim of bob"
    );
    let behind = DeliveryLook { ahead: Some(2), ..look(ready, 0) };
    assert!(said(&behind).ends_with("2 go out before it"));
    let away = Why::of_open("d".into(), &DeliveryLook { is_away: true, ..look(ready, 0) }, NOON);
    assert_eq!(away.waits_for, WaitsFor::Return("bob".into()));
}
