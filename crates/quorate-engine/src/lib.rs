//! The engine: everything between a protocol frontend and the store.
//!
//! A frontend (the embedded library, HTTP, WebSocket) authenticates the caller and builds a
//! [`Commit`](quorate_core::Commit). The engine validates it on the caller's thread, passes it to the store,
//! dispatches deliveries to waiting consumers, and runs the timers for lease expiry, message expiry and scheduled
//! deliveries.

mod alarm;
mod approvals;
mod audit;
mod causes;
mod check;
mod consistency;
mod dependencies;
mod door;
mod engine;
mod ephemeral;
mod error;
mod flagged;
mod flags;
mod guard;
mod items;
mod line;
mod lock;
mod messages;
mod once;
mod pace;
mod past;
mod policy;
mod post;
mod procedures;
mod reads;
mod registry;
mod request;
mod rollback;
mod seal;
mod secrets;
mod sessions;
mod signs;
mod space;
mod stream;
mod sweep;
mod task;
mod tokens;
mod topics;
pub mod views;
mod watch;
mod why;

pub use approvals::ApprovalView;
pub use audit::{Audited, Unsound};
pub use consistency::{Check, Finding};
pub use door::Options;
pub use engine::Engine;
pub use error::{Error, Remote};
pub use flagged::{
    is_flag, is_flag_word, is_marked as is_marked_private, nobody_answers as nobody_answers_a_flag,
};
pub use flags::{Asked as FlagAsked, Flag, FlagState, Flags, Resolution};
pub use items::{ItemPage, Noun};
pub use messages::{Before, ListedMessage, MessageFilter, MessagesPage, OutboxPage};
pub use once::Asker;
pub use pace::Pace;
pub use post::{Consumer, Delivery, MessageRef};
pub use procedures::{ProcedurePage, ProcedureView};
pub use reads::{DeliveryView, MessageView};
pub use registry::{AgentView, Letter};
pub use request::{Answer, Asking};
pub use rollback::{BuiltOn, RolledBack, Turned};
pub use secrets::{Found, Scanner, Secrets};
pub use sessions::{Addition, Happening, TIMELINE_MAX, TimelineLine};
pub use space::Space;
pub use stream::Pending;
pub use task::{PartialResult, TaskClaim, TaskConsumer, TaskEvent, TaskFilter, TaskInHand, TaskView};
pub use watch::{Change, Watch};

// Parameters and results of reads.
pub use quorate_store::{DeadLetter, DeliveryState, Entry, Figures, Page, Published, Read, SpaceInfo, When};
