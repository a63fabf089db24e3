//! Pipelines: phases of a workflow that hand compressed context over to each other.
//!
//! Each phase asks an agent, or several for a list of items. Its full output is stored in the shared memory; the phases that
//! require it receive a **handoff**: a summary within a budget of tokens, with references to the rest.

mod handoff;
mod machine;
mod output;
mod protocol;
mod requests;
mod spec;
mod state;

#[cfg(test)]
mod tests;

pub use handoff::{Handoff, HandoffError, HandoffRule};
pub use machine::PipelineMachine;
pub use protocol::{Protocol, Scenario};
pub use spec::{ItemSource, PhaseSpec, PipelineLimits, PipelineSpec};
pub use state::PipelineState;

/// Kind of pipelines.
pub const PIPELINE_KIND: &str = "pipeline";
/// Action of a request for clarification to the agent of an earlier phase.
pub const CLARIFY: &str = "clarify";
/// Action of a request to the error handler.
pub const HANDLE_ERROR: &str = "handle-error";
