//! Read models of sessions and timelines.

pub use quorate_api::session::{
    Session as SessionInfo, TimelineAddition, TimelineChange, TimelineEntry, TimelineEvent, TimelineMessage,
    TimelineRecord,
};
