//! Sessions and their timelines as every caller sees them.

pub use quorate_api::session::{
    Session as SessionInfo, TimelineAddition, TimelineChange, TimelineEvent, TimelineLine, TimelineMessage,
    TimelineRecord,
};
