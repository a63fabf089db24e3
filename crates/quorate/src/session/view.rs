//! Read models of sessions and timelines.

pub use quorate_api::session::{
    Session as SessionInfo, TimelineAddition, TimelineChange, TimelineEvent, TimelineLine, TimelineMessage,
    TimelineRecord,
};
