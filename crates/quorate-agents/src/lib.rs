//! Declared agents: a command, an HTTP server, a language model, or a built-in contract analyst; the playbooks that declare
//! them; and the [`worker`] that runs them in a hub. The analysts themselves are in quorate-contracts, the procedures in which
//! agents take part in quorate-procedures.
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
mod declaration;
mod heuristic;
mod http_agent;
mod http_client;
pub mod limits;
mod llm;
pub mod playbook;
mod probe;
pub mod prompts;
mod question;
mod question_json;
mod rate_limit;
mod retry;
mod spelling;
pub mod use_spec;
pub mod worker;

pub use agent::{
    AgentContext, AgentSettings, DeclaredAgent, EnvInheritance, EnvLookup, HubAccess, RecordMode, TokenPrice,
};
pub use http_client::Url;
pub use llm::Provider;
pub use probe::{CheckOutcome, Probe, ProbeCheck, probe, reachable};
pub use question::{AgentFailure, AgentQuestion, AgentReply, FailureKind, PartialSink, Usage};
pub use quorate_contracts::Heuristic;
pub use retry::CallRetryPolicy;
pub use spelling::closest_match;
pub use use_spec::UseSpec;
