//! What holds wherever the hub is, with a hub at the other end of a real socket.
#![allow(missing_docs)]

#[path = "../../quorate/tests/scenarios/mod.rs"]
mod scenarios;
mod support;

use scenarios::Stage;
use support::Served;

async fn remote() -> (Stage, Served) {
    let served = Served::new().await;
    let hub = quorate_client::connect(&served.url(), &served.admin).await.expect("it connects");
    assert!(hub.space().is_none());
    (Stage { hub, inside: served.library.clone() }, served)
}

scenarios! { remote:
    a_handler_answers_whoever_asked
    a_question_is_answered_or_refused
    a_failure_is_tried_again_or_a_dead_letter
    a_step_happens_as_a_whole_or_not_at_all
    what_is_given_back_comes_again
    a_newer_start_of_an_agent_ends_the_older
    memory_has_versions_and_a_history
    tasks_are_done_in_the_order_of_their_needs
    topics_and_locks_work
    an_agent_that_stops_leaves_the_rest
    a_step_adds_to_a_session
}
