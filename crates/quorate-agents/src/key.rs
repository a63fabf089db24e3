//! Keys: from the environment only, into a header only. They are in no error, log, recording or `Debug`.

use std::fmt;

use hyper::header::HeaderValue;

use crate::declared::{Env, Surroundings};
use crate::post::Url;
use crate::question::{Failure, Kind};

/// What stands where a key stood.
const BLANK: &str = "[key]";

/// Where a key comes from.
pub(crate) struct Key {
    variable: Option<String>,
    required: bool,
    env: Env,
}

/// A key itself.
pub(crate) struct Secret(String);

impl Key {
    /// A key in a variable; nothing if there is no variable and none is required.
    pub(crate) fn new(variable: Option<String>, required: bool, surroundings: &Surroundings) -> Self {
        // A variable that somebody took the trouble to name is meant to be used.
        let required = required || variable.is_some();
        Self { variable, required, env: surroundings.env.clone() }
    }

    /// Reads it, for a call to this address.
    ///
    /// # Errors
    /// If there is none and one is needed, or if it would travel unencrypted to another machine.
    pub(crate) fn read(&self, url: &Url) -> Result<Option<Secret>, Failure> {
        let Some(variable) = &self.variable else { return Ok(None) };
        let Some(value) = self.value() else {
            if !self.required {
                return Ok(None);
            }
            return Err(Failure::new(Kind::NoKey, url.to_string(), format!("{variable} is not set")).hint(
                format!("export {variable}=… before you start, or name another variable with `key_env:`"),
            ));
        };
        if !url.secure && !url.is_here() {
            let what = format!("the key in {variable} would travel unencrypted to another machine");
            return Err(Failure::new(Kind::Misdeclared, url.to_string(), what).hint("use an https address"));
        }
        Ok(Some(Secret(value)))
    }

    fn value(&self) -> Option<String> {
        let value = (self.env)(self.variable.as_deref()?)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// The text without the key, should the other side have repeated it.
    pub(crate) fn blank(&self, text: &str) -> String {
        match self.value() {
            Some(value) => text.replace(&value, BLANK),
            None => text.to_owned(),
        }
    }
}

impl Secret {
    /// The value of a header.
    ///
    /// # Errors
    /// If the key holds what no header can.
    pub(crate) fn header(&self, before: &str) -> Result<HeaderValue, Failure> {
        let mut value = HeaderValue::try_from(format!("{before}{}", self.0)).map_err(|_| {
            Failure::new(Kind::NoKey, "the key", "holds characters that no key has")
                .hint("set the variable again; mind line breaks and quotes")
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(BLANK)
    }
}
