//! API keys. Read only from the environment, sent only in a header; never part of an error, a log, a recording or
//! `Debug` output.

use std::fmt;

use hyper::header::HeaderValue;

use crate::agent::{AgentContext, EnvLookup};
use crate::http_client::Url;
use crate::question::{AgentFailure, FailureKind};

/// Replacement for a redacted key.
const REDACTED: &str = "[key]";

/// Source of an API key: an environment variable.
pub(crate) struct ApiKeySource {
    variable: Option<String>,
    required: bool,
    env: EnvLookup,
}

/// The value of an API key.
pub(crate) struct ApiKey(String);

impl ApiKeySource {
    /// Creates a key source. Without a variable, no key is sent.
    pub(crate) fn new(variable: Option<String>, required: bool, context: &AgentContext) -> Self {
        // A variable that is named explicitly is required.
        let required = required || variable.is_some();
        Self { variable, required, env: context.env.clone() }
    }

    /// Reads the key for a call to this URL.
    ///
    /// # Errors
    /// If a required key is missing, or if it would be sent unencrypted to another machine.
    pub(crate) fn read(&self, url: &Url) -> Result<Option<ApiKey>, AgentFailure> {
        let Some(variable) = &self.variable else { return Ok(None) };
        let Some(value) = self.value() else {
            if !self.required {
                return Ok(None);
            }
            return Err(AgentFailure::new(
                FailureKind::NoKey,
                url.to_string(),
                format!("{variable} is not set"),
            )
            .hint(format!("set it with `export {variable}=…`, or name another variable with `key_env:`")));
        };
        if !url.secure && !url.is_loopback() {
            let message = format!("the key in {variable} would be sent unencrypted to another machine");
            return Err(AgentFailure::new(FailureKind::Misdeclared, url.to_string(), message)
                .hint("use an https address"));
        }
        Ok(Some(ApiKey(value)))
    }

    fn value(&self) -> Option<String> {
        let value = (self.env)(self.variable.as_deref()?)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Replaces the key in a text, in case the server echoed it.
    pub(crate) fn redact(&self, text: &str) -> String {
        match self.value() {
            Some(value) => text.replace(&value, REDACTED),
            None => text.to_owned(),
        }
    }
}

impl ApiKey {
    /// Builds a header value from a prefix and the key.
    ///
    /// # Errors
    /// If the key contains characters that are not allowed in a header.
    pub(crate) fn to_header(&self, prefix: &str) -> Result<HeaderValue, AgentFailure> {
        let mut value = HeaderValue::try_from(format!("{prefix}{}", self.0)).map_err(|_| {
            AgentFailure::new(
                FailureKind::NoKey,
                "API key",
                "contains characters that are not allowed in a header",
            )
            .hint("set the variable again, without line breaks and quotes")
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}
