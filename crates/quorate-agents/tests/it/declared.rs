//! Declared agents against real processes and real sockets.

mod models;
mod programs;
mod servers;
mod support;

/// A retry policy with minimal delays.
fn soon(retries: u32) -> quorate_agents::Retry {
    let ms = std::time::Duration::from_millis(1);
    let backoff = quorate_env::Backoff::new(ms, ms);
    quorate_agents::Retry { retries, backoff, ..quorate_agents::Retry::default() }
}
