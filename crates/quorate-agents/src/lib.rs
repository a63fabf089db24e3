//! Implementations of declared agents: a command, an HTTP server, a language model, or a built-in contract analyst. The
//! analysts themselves are in quorate-contracts, the deliberation procedure is in quorate-procedures, and quorate-cli
//! connects agents to a hub.
//!
//! An agent is declared by its `use:` value, see [`use_spec`], and asked with an [`AgentQuestion`]:
//!
//! ```
//! # use quorate_agents::{DeclaredAgent, AgentContext, AgentQuestion, AgentSettings};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let context = AgentContext::new(".");
//! let agent = DeclaredAgent::declare("echo", "cmd:cat", &AgentSettings::default(), &context)?;
//! let reply = agent.answer(&AgentQuestion::new("analyse", "hello".into())).await?;
//! assert_eq!(reply.body["payload"], "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod agent;
mod answer_schema;
mod api_key;
mod clock;
mod command;
mod heuristic;
mod http_agent;
mod http_client;
pub mod limits;
mod llm;
mod probe;
mod question;
mod question_json;
mod rate_limit;
mod retry;
pub mod use_spec;

pub use agent::{
    AgentContext, AgentSettings, DeclaredAgent, EnvInheritance, EnvLookup, HubAccess, RecordMode, TokenPrice,
};
pub use http_client::Url;
pub use llm::Provider;
pub use probe::{CheckOutcome, Probe, ProbeCheck, probe, reachable};
pub use question::{AgentFailure, AgentQuestion, AgentReply, FailureKind, Usage};
pub use quorate_contracts::Heuristic;
pub use retry::CallRetryPolicy;
pub use use_spec::UseSpec;
