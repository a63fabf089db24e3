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

scenarios!(remote);
