//! The options of a message to send, which `msg send` and `request send` share.

use clap::Args;
use quorate_core::limits::HOPS_MAX;

use crate::hub::{ContentArgs, JsonFields};

/// Options of a message.
#[derive(Args, Debug)]
#[command(mut_arg("text", |arg| arg.help("Payload as text; - reads stdin")))]
#[command(mut_arg("value", |arg| arg.help("Payload as JSON; stored byte for byte")))]
#[command(mut_arg("file", |arg| arg.help("File with the payload as JSON; - reads stdin")))]
pub(crate) struct MessageArgs {
    /// Recipient; can be repeated.
    #[arg(long, required = true, value_name = "DESTINATION")]
    pub(crate) to: Vec<String>,
    #[command(flatten)]
    content: ContentArgs,
    /// Sender, if the token may send for other agents; by default the agent of the token.
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// Action that the recipient should perform.
    #[arg(long, default_value = "", hide_default_value = true)]
    action: String,
    /// Message type.
    #[arg(long = "type", value_name = "TYPE", value_parser = ["command", "query", "event", "response"])]
    kind: Option<String>,
    /// Priority of the message.
    #[arg(long, value_parser = ["low", "normal", "high", "urgent"])]
    priority: Option<String>,
    /// Session that the message belongs to.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Budget that the chain of the message spends from.
    #[arg(long, value_name = "ID")]
    budget: Option<String>,
    /// Message that caused this one, which joins its chain.
    #[arg(long, value_name = "ID")]
    cause: Option<String>,
    /// Hop limit of the chain that this message starts; 100 by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(HOPS_MAX)))]
    max_hops: Option<u16>,
    #[command(flatten)]
    assessment: AssessmentArgs,
    /// Client id for deduplication: resending with the same id has no effect.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// The assessment of an answer or result by its author.
#[derive(Args, Clone, Debug)]
pub(crate) struct AssessmentArgs {
    /// Confidence of the agent, from 0 to 1.
    #[arg(long, value_name = "P")]
    confidence: Option<f64>,
    /// Rationale of the agent, at most 1,000 characters.
    #[arg(long, value_name = "TEXT")]
    rationale: Option<String>,
}

impl AssessmentArgs {
    /// Adds the fields to a request.
    pub(crate) fn add_to(self, fields: JsonFields) -> anyhow::Result<JsonFields> {
        fields.set_if_some("confidence", self.confidence)?.set_if_some("rationale", self.rationale)
    }
}

impl MessageArgs {
    /// Returns the fields of the message.
    pub(crate) fn into_fields(self) -> anyhow::Result<JsonFields> {
        // Neither action nor content is probably a mistake: `echo hello | quorate msg send --to bob` lacks the `-`.
        let content = if self.action.is_empty() {
            Some(self.content.required("payload")?)
        } else {
            self.content.read()?
        };
        let fields = JsonFields::default();
        let fields = match self.to.as_slice() {
            [recipient] => fields.set("to", recipient)?,
            several => fields.set("to", several)?,
        };
        let fields = fields
            .set_if_some("id", self.id)?
            .set_if_some("from", self.from)?
            .set_if_some("type", self.kind)?
            .set("action", self.action)?
            .set_if_some("payload", content)?
            .set_if_some("priority", self.priority)?
            .set_if_some("sessionId", self.session)?
            .set_if_some("budget", self.budget)?
            .set_if_some("causationId", self.cause)?
            .set_if_some("maxHops", self.max_hops)?;
        self.assessment.add_to(fields)
    }
}
