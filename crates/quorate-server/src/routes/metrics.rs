//! `GET /metrics`: the figures of a space, and of the hub for those who run it.

use axum::http::header;
use axum::response::IntoResponse as _;
use quorate_core::{SpaceName, TokenRole};

use crate::app::DEFAULT_SPACE;
use crate::call::{Answer, Call};
use crate::observe;

pub(crate) async fn metrics(call: Call) -> Answer {
    call.only(&[TokenRole::Operator])?;
    let first = SpaceName::new(DEFAULT_SPACE).ok().and_then(|name| call.app.space(&name));
    let of_hub = first.is_some_and(|first| first.number() == call.home);
    let text = observe::page(&call, of_hub).await?;
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, text).into_response())
}
