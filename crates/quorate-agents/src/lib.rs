//! Implementations of declared agents: a command, an HTTP server, a language model, or a built-in contract reader. The
//! readers themselves are in quorate-contracts, the deliberation procedure is in quorate-procedures, and quorate-cli
//! connects agents to a hub.
//!
//! An agent is declared by its `use:` value, see [`use_spec`], and asked with an [`AgentQuestion`]:
//!
//! ```
//! # use quorate_agents::{Agent, Question, Settings, Surroundings};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let surroundings = Surroundings::new(".");
//! let agent = Agent::declare("echo", "cmd:cat", &Settings::default(), &surroundings)?;
//! let reply = agent.answer(&Question::new("analyse", "hello".into())).await?;
//! assert_eq!(reply.body["payload"], "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod ask;
mod clock;
mod command;
mod declared;
mod http;
mod key;
pub mod limits;
mod llm;
mod pace;
mod post;
mod probe;
mod question;
mod reader;
mod retry;
mod shape;
pub mod use_line;

pub use declared::{Agent, Env, Price, Settings, Surroundings, Tape};
pub use llm::Provider;
pub use post::Url;
pub use probe::{Check, Outcome, Probe, probe};
pub use question::{Failure, Kind, Question, Reply, Usage};
pub use quorate_contracts::Heuristic;
pub use retry::Retry;
pub use use_line::Use;
