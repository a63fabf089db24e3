//! Conversion of `application/problem+json` responses into library errors.

use quorate::{Error, RemoteError};
use quorate_api::problem::{ProblemDetails, code_of};

/// Returns the error for a response with this status and body.
pub(crate) fn error_from_response(status: u16, body: &[u8], url: &str) -> Error {
    match serde_json::from_slice::<ProblemDetails>(body) {
        Ok(problem) => ProblemDetails { status, ..problem }.into(),
        // Not a problem document: the response is not from a hub, possibly from a proxy in between.
        Err(_) => RemoteError {
            code: code_of("", status),
            detail: format!("unexpected response from {url}: status {status} without a problem document"),
            hint: "check the URL: another server or a proxy may have responded".to_owned(),
            nothing_applied: status < 500,
        }
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use quorate::{Code, Error};

    use super::error_from_response;

    #[test]
    fn a_refusal_keeps_its_facts() {
        let body = br#"{"code":"VERSION_CONFLICT","status":409,"detail":"plan is at version 3","hint":"read it again",
            "applied":"no","currentVersion":3,"op":1,"stale":[{"op":1,"item":"plan","code":"VERSION_CONFLICT"}],
            "cycle":[{"agent":"a","waitsFor":"b"}],"type":"x","title":"y","retryable":false}"#;
        let Error::Refused(refused) = error_from_response(409, body, "http://hub") else {
            panic!("a refusal")
        };
        assert_eq!((refused.code, refused.detail.as_str()), (Code::VersionConflict, "plan is at version 3"));
        assert_eq!(refused.hint, "read it again");
        assert_eq!((refused.facts.current_version, refused.facts.op), (Some(3), Some(1)));
        assert_eq!(refused.facts.stale[0].code, Code::VersionConflict);
        assert_eq!(refused.facts.cycle[0].waits_for, "b");
    }

    // Regression test: malformed input produced an error with an empty text.
    #[test]
    fn a_problem_without_detail_is_reported_by_its_code() {
        for applied in ["no", "unknown"] {
            let body = format!("{{\"code\":\"NOT_FOUND\",\"applied\":\"{applied}\"}}");
            let error = error_from_response(404, body.as_bytes(), "http://hub");
            assert_eq!(error.to_string(), "the hub returned NOT_FOUND without details");
        }
    }

    #[test]
    fn i22_an_unknown_outcome_is_not_a_refusal() {
        let body =
            br#"{"code":"STORAGE_FAILED","detail":"the storage failed","hint":"","applied":"unknown"}"#;
        let error = error_from_response(500, body, "http://hub");
        assert_eq!(error.code(), Code::StorageFailed);
        assert!(!error.nothing_applied());
        assert!(error.refusal().is_none());
    }

    #[test]
    fn i2_a_request_that_timed_out_keeps_its_id() {
        let body =
            br#"{"code":"TIMEOUT","detail":"no answer","hint":"","applied":"yes","asked":"msg_0-5-0"}"#;
        let error = error_from_response(408, body, "http://hub");
        assert!(!error.nothing_applied());
        assert_eq!(
            error.refusal().and_then(|refused| refused.facts.sent_request.as_deref()),
            Some("msg_0-5-0")
        );
    }

    #[test]
    fn a_response_that_is_not_from_a_hub_is_reported() {
        let error = error_from_response(502, b"<html>Bad Gateway</html>", "http://127.0.0.1:1");
        assert_eq!(error.code(), Code::Unavailable);
        assert!(!error.nothing_applied());
        assert!(error.to_string().contains("http://127.0.0.1:1"), "{error}");
        let newer = br#"{"code":"FROM_THE_FUTURE","detail":"x","applied":"no"}"#;
        assert_eq!(error_from_response(409, newer, "http://hub").code(), Code::Conflict);
    }
}
