//! Approvals: an action that an agent proposes and a person decides about. The decision comes as a delivery.

mod view;

use std::sync::Arc;
use std::time::Duration;

use quorate_api::Error;
use quorate_api::canonical::action_document;
use quorate_api::page::{Page, PageQuery};
use quorate_core::limits::APPROVAL_MS_DEFAULT;
use quorate_core::{
    ActionDigest, AgentId, ApprovalId, Commit, DecideApproval, Op, OpResult, Principal, Priority,
    RequestApproval, StoreError, TokenName, TokenRole, Verdict,
};
use serde::Serialize;

use crate::agent::{Agent, to_json};
use crate::hub::Hub;
use crate::link::Link;
use crate::step::Step;

pub use view::{Approval, ApprovalInfo, ApprovalStatus};

/// One wait for a decision. Longer ones are several.
const WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// An action to be proposed.
#[must_use = "an action is proposed when somebody asks for it"]
pub struct ApprovalDraft {
    action: String,
    payload: Result<Vec<u8>, Error>,
    id: Option<String>,
    rationale: Option<String>,
    confidence: Option<f64>,
    timeout: Duration,
    default: String,
    session: Option<String>,
    then: Vec<(String, String)>,
}

impl ApprovalDraft {
    /// An action of this name with this payload. A person has 72 hours, if nothing else is said.
    pub fn new(action: impl Into<String>, payload: impl Serialize) -> Self {
        Self {
            action: action.into(),
            payload: to_json(payload),
            id: None,
            rationale: None,
            confidence: None,
            timeout: Duration::from_millis(APPROVAL_MS_DEFAULT),
            default: String::new(),
            session: None,
            then: Vec::new(),
        }
    }

    /// An id of one's own: asking for the same again is then the same approval.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Why it should happen, and how sure whoever asks is, 0 to 1.
    pub fn because(mut self, rationale: impl Into<String>, confidence: f64) -> Self {
        (self.rationale, self.confidence) = (Some(rationale.into()), Some(confidence));
        self
    }

    /// How long a person has; then it is expired, and this is to be done.
    pub fn within(mut self, timeout: Duration, default: impl Into<String>) -> Self {
        (self.timeout, self.default) = (timeout, default.into());
        self
    }

    /// The session it belongs to.
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.session = Some(id.into());
        self
    }

    /// Sends the approved action to an agent, in the very commit that approves it.
    pub fn then(mut self, to: impl Into<String>, action: impl Into<String>) -> Self {
        self.then.push((to.into(), action.into()));
        self
    }

    fn op(self, link: &dyn Link) -> Result<Op, Error> {
        let document = action_document(&self.action, &self.payload?)?;
        let then = |(to, action): (String, String)| Ok((AgentId::new(to)?, action));
        Ok(Op::RequestApproval(Box::new(RequestApproval {
            id: self.id.map(ApprovalId::new).transpose()?,
            agent: None,
            action: self.action,
            document: link.seal(document),
            rationale: self.rationale,
            confidence: self.confidence,
            priority: Priority::default(),
            timeout_ms: self.timeout.as_millis() as u64,
            default: self.default,
            session: self.session,
            then: self.then.into_iter().map(then).collect::<Result<_, Error>>()?,
        })))
    }
}

impl Step {
    /// Proposes an action that a person has to approve. The decision comes as a delivery, `approval.decided`.
    pub fn request_approval(self, draft: ApprovalDraft) -> Self {
        let op = draft.op(&*self.agent.link);
        self.add(op)
    }
}

impl Agent {
    /// Proposes an action that a person has to approve. Gives the id; the decision comes as a delivery,
    /// `approval.decided`.
    ///
    /// # Errors
    /// `INVALID` for what has no canonical form, another refusal, or a failure of the storage.
    pub async fn request_approval(&self, draft: ApprovalDraft) -> Result<ApprovalId, Error> {
        let op = draft.op(&*self.link)?;
        let receipt = self.link.commit(self.commit_of(vec![op])).await?;
        match receipt.results.first() {
            Some(OpResult::ApprovalRequested { id, .. }) => Ok(id.clone()),
            _ => Err(StoreError::Read("a request was not answered".into()).into()),
        }
    }
}

/// A person who decides. Whoever opens a data directory answers for who that is; over the network it is the holder of the
/// token, whatever the name.
pub struct Approver {
    link: Arc<dyn Link>,
    principal: Principal,
}

impl Hub {
    /// A person who decides, by name: what is decided bears it.
    ///
    /// # Errors
    /// `INVALID` for what is no name.
    pub fn approver(&self, name: &str) -> Result<Approver, Error> {
        let principal = Principal::Holder { role: TokenRole::Approver, name: TokenName::new(name)? };
        Ok(Approver { link: Arc::clone(&self.link), principal })
    }

    /// An approval with the action itself.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn approval(&self, id: &str) -> Result<ApprovalInfo, Error> {
        self.link.approval(ApprovalId::new(id)?, Duration::ZERO).await
    }

    /// A page of what waits for a decision, without the actions.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn pending_approvals(&self, page: PageQuery) -> Result<Page<Approval>, Error> {
        self.link.pending_approvals(page).await
    }

    /// Waits until somebody decided, or nobody did in time: what it gives is never pending. It takes as long as a person
    /// does; whoever gives up the wait changes nothing, and may wait again.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn decided(&self, id: &str) -> Result<ApprovalInfo, Error> {
        let id = ApprovalId::new(id)?;
        loop {
            let approval = self.link.approval(id.clone(), WAIT).await?;
            if !approval.is_pending() {
                return Ok(approval);
            }
        }
    }
}

impl Approver {
    async fn decide(
        &self,
        id: &ApprovalId,
        digest: ActionDigest,
        verdict: Verdict,
        reason: &str,
    ) -> Result<(), Error> {
        let decide = DecideApproval { approval: id.clone(), verdict, digest, reason: reason.to_owned() };
        self.link
            .commit(Commit::new(self.principal.clone(), vec![Op::DecideApproval(Box::new(decide))]))
            .await
            .map(drop)
    }

    /// Lets the action with this digest happen as it is.
    ///
    /// # Errors
    /// `CONFLICT` for other bytes or what is decided, `EXPIRED`, `FORBIDDEN`, or a failure of the storage.
    pub async fn approve(&self, id: &ApprovalId, digest: ActionDigest, reason: &str) -> Result<(), Error> {
        self.decide(id, digest, Verdict::Approve, reason).await
    }

    /// Does not let it happen, and says why.
    ///
    /// # Errors
    /// As [`Approver::approve`].
    pub async fn reject(&self, id: &ApprovalId, digest: ActionDigest, reason: &str) -> Result<(), Error> {
        self.decide(id, digest, Verdict::Reject, reason).await
    }

    /// Lets it happen with a change: a JSON patch (RFC 6902) of the payload.
    ///
    /// # Errors
    /// As [`Approver::approve`]; `INVALID` for a patch that does not fit.
    pub async fn modify(
        &self,
        id: &ApprovalId,
        digest: ActionDigest,
        patch: impl Serialize,
        reason: &str,
    ) -> Result<(), Error> {
        let patch = self.link.seal(to_json(patch)?.into());
        self.decide(id, digest, Verdict::Modify { patch, document: None }, reason).await
    }
}
