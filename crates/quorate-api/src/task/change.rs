//! Requests that change a task: heartbeat, completion, failure and release by its holder, and cancellation.

use quorate_core::{
    CancelTask, CompleteTask, FailTask, HeartbeatTask, LeaseToken, Op, Refused, TaskId, TaskLeaseRef,
    TaskStatus,
};
use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::lock::LockFence;
use crate::parse_context::{ParseContext, missing_field, path_or_body};
use crate::payload;
#[cfg(feature = "schema")]
use crate::schema;

/// Declares a request by the holder of a task, lease token, and specific fields.
macro_rules! holder_change {
    ($(#[$doc:meta])* $name:ident $(<$life:lifetime>)? { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name $(<$life>)? {
            /// Task ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the
            /// path.
            #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
            pub task: Option<TaskId>,
            /// Lease token, returned by the claim.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schemars(required))]
            pub lease_token: Option<LeaseToken>,
            $($fields)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            fn lease(&self, path: Option<TaskId>) -> Result<TaskLeaseRef, Refused> {
                let task = path_or_body("task", path, self.task.clone())?;
                let token = self.lease_token.ok_or_else(|| {
                    missing_field("leaseToken").hint("send the lease token that the claim returned")
                })?;
                Ok(TaskLeaseRef { task, token })
            }
        }
    };
}

holder_change!(
    /// Extends the lease of a task, optionally with a partial result.
    TaskHeartbeat<'a> {
        /// Partial result: any JSON.
        #[serde(borrow, skip_serializing_if = "Option::is_none")]
        pub partial: Option<Json<'a>>,
    }
);

holder_change!(
    /// Completes a task.
    TaskCompletion<'a> {
        /// Any JSON, stored byte for byte. With a `contentType` other than JSON, a string: plain text for `text/…`,
        /// base64 otherwise.
        #[serde(borrow, skip_serializing_if = "Option::is_none")]
        pub result: Option<Json<'a>>,
        /// Media type of the result. Omit it for JSON.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
        pub content_type: Option<String>,
        /// Confidence of the holder, from 0 to 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
        pub confidence: Option<f64>,
        /// Rationale for the result.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ReasonText>"))]
        pub rationale: Option<String>,
        /// `done` by default; `partial` for an incomplete result.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<CompletionStatus>,
        /// Fencing token of a lock. The call is refused if its grant has ended and the lock was granted again.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub fence: Option<LockFence>,
    }
);

holder_change!(
    /// Reports a failed attempt.
    TaskFailure<'a> {
        /// Reason for the failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ReasonText>"))]
        pub reason: Option<String>,
        /// Details of the failure: any JSON.
        #[serde(borrow, skip_serializing_if = "Option::is_none")]
        pub details: Option<Json<'a>>,
        /// Whether another attempt may succeed; true by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub recoverable: Option<bool>,
    }
);

holder_change!(
    /// Releases a task without working on it. The attempt does not count.
    TaskRelease {}
);

/// Cancels a task.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskCancellation {
    /// Task ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Reason for the cancellation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ReasonText>"))]
    pub reason: Option<String>,
}

/// Completeness of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum CompletionStatus {
    Done,
    Partial,
}

impl TaskHeartbeat<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the task or the lease token is missing.
    pub fn into_core(self, context: &ParseContext<'_>, path: Option<TaskId>) -> Result<Op, Refused> {
        let lease = self.lease(path)?;
        Ok(Op::HeartbeatTask(HeartbeatTask {
            lease,
            partial: context.optional_payload(self.partial.as_ref())?,
        }))
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the partial result is not JSON.
    pub fn new(heartbeat: &HeartbeatTask) -> Result<TaskHeartbeat<'static>, Refused> {
        let TaskLeaseRef { task, token } = heartbeat.lease.clone();
        let partial =
            heartbeat.partial.as_ref().map(|partial| payload::encode(&partial.bytes, None)).transpose()?;
        Ok(TaskHeartbeat { task: Some(task), lease_token: Some(token), partial })
    }
}

impl TaskCompletion<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the task or the lease token is missing, or the result does not match its content type.
    pub fn into_core(self, context: &ParseContext<'_>, path: Option<TaskId>) -> Result<Op, Refused> {
        let lease = self.lease(path)?;
        let content_type = self.content_type.as_deref();
        let result =
            self.result.as_ref().map(|json| context.payload(Some(json), content_type)).transpose()?;
        Ok(Op::CompleteTask(CompleteTask {
            lease,
            status: match self.status {
                None | Some(CompletionStatus::Done) => TaskStatus::Done,
                Some(CompletionStatus::Partial) => TaskStatus::Partial,
            },
            result,
            content_type: self.content_type,
            confidence: self.confidence,
            rationale: self.rationale,
            fence: self.fence.map(Into::into),
        }))
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the result does not match its content type.
    pub fn new(complete: &CompleteTask) -> Result<TaskCompletion<'static>, Refused> {
        let TaskLeaseRef { task, token } = complete.lease.clone();
        let result = complete.result.as_ref();
        let result = result
            .map(|result| payload::encode(&result.bytes, complete.content_type.as_deref()))
            .transpose()?;
        Ok(TaskCompletion {
            task: Some(task),
            lease_token: Some(token),
            result,
            content_type: complete.content_type.clone(),
            confidence: complete.confidence,
            rationale: complete.rationale.clone(),
            status: (complete.status == TaskStatus::Partial).then_some(CompletionStatus::Partial),
            fence: complete.fence.as_ref().map(Into::into),
        })
    }
}

impl TaskFailure<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the task or the lease token is missing.
    pub fn into_core(self, context: &ParseContext<'_>, path: Option<TaskId>) -> Result<Op, Refused> {
        let lease = self.lease(path)?;
        Ok(Op::FailTask(FailTask {
            lease,
            reason: self.reason.unwrap_or_default(),
            details: context.optional_payload(self.details.as_ref())?,
            recoverable: self.recoverable.unwrap_or(true),
        }))
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the details are not JSON.
    pub fn new(fail: &FailTask) -> Result<TaskFailure<'static>, Refused> {
        let TaskLeaseRef { task, token } = fail.lease.clone();
        Ok(TaskFailure {
            task: Some(task),
            lease_token: Some(token),
            reason: Some(fail.reason.clone()),
            details: fail
                .details
                .as_ref()
                .map(|details| payload::encode(&details.bytes, None))
                .transpose()?,
            recoverable: Some(fail.recoverable),
        })
    }
}

impl TaskRelease {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the task or the lease token is missing.
    pub fn into_core(self, path: Option<TaskId>) -> Result<Op, Refused> {
        Ok(Op::ReleaseTask(self.lease(path)?))
    }
}

impl From<&TaskLeaseRef> for TaskRelease {
    fn from(lease: &TaskLeaseRef) -> Self {
        Self { task: Some(lease.task.clone()), lease_token: Some(lease.token) }
    }
}

impl TaskCancellation {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the task is missing.
    pub fn into_core(self, path: Option<TaskId>) -> Result<Op, Refused> {
        let task = path_or_body("task", path, self.task)?;
        Ok(Op::CancelTask(CancelTask { task, reason: self.reason.unwrap_or_default() }))
    }
}

impl From<&CancelTask> for TaskCancellation {
    fn from(cancel: &CancelTask) -> Self {
        Self { task: Some(cancel.task.clone()), reason: Some(cancel.reason.clone()) }
    }
}
