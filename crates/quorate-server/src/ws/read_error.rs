//! Errors of reading from a WebSocket. If the client caused it, a problem is sent before the connection is closed.

use quorate_core::{Code, Refused};
use tokio_tungstenite::tungstenite::Error;

use crate::body::BODY_BYTES_MAX;
use crate::problem::Problem;

/// Returns the problem if the client caused the error; `None` if the connection is lost.
pub(super) fn client_error(error: axum::Error) -> Option<Problem> {
    let error = error.into_inner().downcast::<Error>().ok()?;
    let refused = match *error {
        Error::Capacity(_) => frame_too_large(BODY_BYTES_MAX),
        Error::Utf8(_) => Refused::new(Code::Invalid, "the frame is not valid UTF-8"),
        _ => return None,
    };
    Some(refused.into())
}

/// Refusal of a frame of more than this many bytes.
pub(super) fn frame_too_large(bytes_max: usize) -> Refused {
    Refused::new(Code::TooLarge, "the frame is too large")
        .limit(bytes_max as u64)
        .hint(format!("send frames of at most {bytes_max} bytes; split larger commits"))
}
