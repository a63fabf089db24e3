//! Retries of a request: it is sent again after a transient failure, with exponential backoff.

use std::time::Duration;

use quorate_core::{Code, MessageId, retry};

/// One attempt of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attempt {
    /// Number of retries before this attempt, including it; 0 for the first one.
    pub retries: u32,
    /// The last request that failed, if one was sent.
    pub retry_of: Option<MessageId>,
}

/// An attempt that failed.
#[derive(Debug)]
pub struct FailedRequest<E> {
    /// The request, if it was sent.
    pub request: Option<MessageId>,
    /// The error that ended it.
    pub error: E,
}

/// Makes a request until it succeeds, fails permanently, or was retried `retries_max` times. `pause` waits for the backoff;
/// its error ends the retries.
///
/// # Errors
/// The error of the last attempt, or of `pause`.
pub async fn retry_request<T, E, A, P>(
    retries_max: u32,
    code_of: impl Fn(&E) -> Code,
    pause: impl Fn(Duration) -> P,
    mut make: impl FnMut(Attempt) -> A,
) -> Result<T, E>
where
    A: Future<Output = Result<T, FailedRequest<E>>>,
    P: Future<Output = Result<(), E>>,
{
    let mut attempt = Attempt::default();
    loop {
        let FailedRequest { request, error } = match make(attempt).await {
            Ok(answer) => return Ok(answer),
            Err(failed) => failed,
        };
        let delay_ms = retry::next_delay_ms(attempt.retries, retries_max, code_of(&error));
        let Some(delay_ms) = delay_ms else { return Err(error) };
        attempt = Attempt { retries: attempt.retries + 1, retry_of: request.or(attempt.retry_of) };
        pause(Duration::from_millis(delay_ms)).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::{Ready, ready};

    use quorate_core::{Generation, Seq};

    use super::*;

    fn request(seq: u64) -> MessageId {
        MessageId { generation: Generation(0), seq: Seq(seq), n: 0 }
    }

    /// Runs attempts that end with these codes, then one that succeeds. Returns the outcome, and what happened.
    async fn run(retries_max: u32, codes: &[Code]) -> (Result<u32, Code>, Vec<String>) {
        let log = RefCell::new(Vec::new());
        let pause = |delay: Duration| {
            log.borrow_mut().push(format!("{delay:?}"));
            ready(Ok(()))
        };
        let make = |attempt: Attempt| -> Ready<Result<u32, FailedRequest<Code>>> {
            log.borrow_mut().push(attempt.retry_of.map_or_else(|| "first".into(), |id| id.to_string()));
            let sent = request(u64::from(attempt.retries) + 1);
            ready(match codes.get(attempt.retries as usize) {
                // A refused attempt was not sent.
                Some(Code::Unavailable) => Err(FailedRequest { request: None, error: Code::Unavailable }),
                Some(code) => Err(FailedRequest { request: Some(sent), error: *code }),
                None => Ok(attempt.retries),
            })
        };
        let outcome = retry_request(retries_max, |code| *code, pause, make).await;
        (outcome, log.into_inner())
    }

    // Fails under: other delays; a permanent error retried; one retry too many; a retry that names no earlier request.
    #[tokio::test]
    async fn d7_transient_failures_are_retried_after_1_2_4_seconds() {
        let (outcome, log) = run(3, &[Code::Timeout, Code::Unavailable, Code::Overloaded]).await;
        assert_eq!(
            (outcome, log),
            (
                Ok(3),
                ["first", "1s", "msg_0-1-0", "2s", "msg_0-1-0", "4s", "msg_0-3-0"].map(String::from).to_vec()
            )
        );
        let (outcome, log) = run(2, &[Code::Timeout; 4]).await;
        assert_eq!((outcome, log.len()), (Err(Code::Timeout), 5));
        assert_eq!(run(3, &[Code::Forbidden]).await, (Err(Code::Forbidden), vec!["first".to_owned()]));
        assert_eq!(run(0, &[Code::Timeout]).await, (Err(Code::Timeout), vec!["first".to_owned()]));
    }
}
