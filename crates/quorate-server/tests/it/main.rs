//! Integration tests of quorate-server in one target, because each target links the whole workspace.

mod approvals;
mod bulk;
mod causation_chains;
mod commit_operations;
mod dialects;
mod events;
mod flags;
mod flags_as_messages;
mod http_api;
mod idempotency_coverage;
mod idempotency_keys;
mod list_order;
mod lists;
mod observability;
mod openapi;
mod permissions;
mod procedures;
mod request_answers;
mod request_resume;
mod security;
mod shared_state;
mod specification;
mod support;
mod webhooks;
mod websocket;
mod websocket_guide;
