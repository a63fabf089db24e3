//! Declared agents against real processes and real sockets.

mod commands;
mod http_agents;
mod models;
mod scripted_server;

/// A retry policy with minimal delays.
fn fast_retries(retries: u32) -> quorate_agents::CallRetryPolicy {
    let ms = std::time::Duration::from_millis(1);
    let backoff = quorate_env::Backoff::new(ms, ms);
    quorate_agents::CallRetryPolicy { retries, backoff, ..quorate_agents::CallRetryPolicy::default() }
}
