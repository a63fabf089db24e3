//! Integration tests of quorate-server in one target, because each target links the whole workspace.

mod after_a_break;
mod answers;
mod approvals;
mod as_written;
mod bulk;
mod chains;
mod commit;
mod dialects;
mod events;
mod every_key;
mod flags;
mod flags_as_messages;
mod guide;
mod keys;
mod list_order;
mod lists;
mod observe;
mod openapi;
mod procedures;
mod rights;
mod shared_state;
mod support;
mod transcripts;
mod wall;
mod webhooks;
mod websocket;
