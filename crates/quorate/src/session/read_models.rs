//! Read models of sessions and timelines.

pub use quorate_api::session::{
    Session as SessionInfo, TimelineChange, TimelineContribution, TimelineEntry, TimelineEvent,
    TimelineMessage, TimelineRecord,
};
