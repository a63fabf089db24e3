//! Why nothing more can be read from a connection. If it is the client's doing it is told, before the connection closes.

use quorate_core::{Code, Refused};
use tokio_tungstenite::tungstenite::Error;

use crate::body::BODY_BYTES_MAX;
use crate::problem::Problem;

/// What the client did; `None` if the connection is simply gone.
pub(super) fn why(error: axum::Error) -> Option<Problem> {
    let error = error.into_inner().downcast::<Error>().ok()?;
    let refused = match *error {
        Error::Capacity(_) => Refused::new(Code::TooLarge, "the frame is too large")
            .limit(BODY_BYTES_MAX as u64)
            .hint(format!("send frames of at most {BODY_BYTES_MAX} bytes; what is larger goes into several")),
        Error::Utf8(_) => Refused::new(Code::Invalid, "the frame is no text: it is not UTF-8"),
        _ => return None,
    };
    Some(refused.into())
}
