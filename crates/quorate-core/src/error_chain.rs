//! Formatting of an error together with its sources, for logs and users: `Display` of an error omits its source.

use std::error::Error;

/// Joins the messages of an error and its sources with colons.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::error_chain;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    // Fails under: a chain that stops at the first source.
    #[test]
    fn every_cause_is_named_once() {
        let error =
            Layer("cannot start", Some(Box::new(Layer("no disk", Some(Box::new(Layer("full", None)))))));
        assert_eq!(error_chain(&error), "cannot start: no disk: full");
        assert_eq!(error_chain(&Layer("full", None)), "full");
    }
}
