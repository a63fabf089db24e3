//! Parsed text of a phrasing: literal words and placeholders for facts.

use super::fact::{Fact, FactForm};

/// A piece of a phrasing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Words(String),
    Fact(Fact, FactForm),
}

/// A parsed phrasing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) pieces: Vec<Piece>,
}

impl Template {
    /// Parses a text; the error describes the problem.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() || text.trim() != text {
            return Err("the text is empty, or has leading or trailing whitespace".to_owned());
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(open);
            let closed = after.strip_prefix('{').and_then(|inside| inside.split_once('}'));
            let (inside, left) = closed.ok_or("unbalanced brace")?;
            if !before.is_empty() {
                pieces.push(Piece::Words(before.to_owned()));
            }
            pieces.push(placeholder(inside)?);
            rest = left;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Words(rest.to_owned()));
        }
        Ok(Self { pieces })
    }
}

fn placeholder(inside: &str) -> Result<Piece, String> {
    let (name, form) = match inside.split_once(':') {
        Some((name, form)) => (name, Some(form)),
        None => (inside, None),
    };
    let fact = Fact::from_name(&name.to_lowercase()).ok_or_else(|| format!("unknown fact `{{{name}}}`"))?;
    let case = match name.chars().next() {
        _ if name == fact.name() => FactForm::Plain,
        Some(first) if first.is_uppercase() && name[1..] == fact.name()[1..] => FactForm::Sentence,
        _ if name == fact.name().to_uppercase() => FactForm::Upper,
        _ => return Err(format!("`{{{name}}}` must be lower case, capitalised or upper case")),
    };
    let form = match form {
        None => case,
        Some(form) if case == FactForm::Plain => {
            FactForm::from_name(form).ok_or_else(|| format!("unknown form `{form}`"))?
        }
        Some(_) => return Err(format!("`{{{inside}}}` specifies two forms")),
    };
    if !form.applies_to(fact.kind()) {
        return Err(format!("`{{{inside}}}`: this form does not apply to this fact"));
    }
    Ok(Piece::Fact(fact, form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_into_words_and_facts() {
        let template = Template::parse("{Customer} pays {cap:figures} on {effective_date}.").unwrap();
        let words = |text: &str| Piece::Words(text.to_owned());
        assert_eq!(
            template.pieces,
            [
                Piece::Fact(Fact::Customer, FactForm::Sentence),
                words(" pays "),
                Piece::Fact(Fact::Cap, FactForm::Figures),
                words(" on "),
                Piece::Fact(Fact::EffectiveDate, FactForm::Plain),
                words("."),
            ]
        );
    }

    #[test]
    fn unknown_facts_and_forms_are_rejected() {
        for (text, message) in [
            ("pays {capp}", "unknown fact"),
            ("pays {cap:loud}", "unknown form"),
            ("pays {cap:iso}", "does not apply"),
            ("pays {Cap}", "does not apply"),
            ("{CUSTOMER:term}", "two forms"),
            ("{cuStomer} pays", "must be lower case"),
            ("pays {cap", "unbalanced brace"),
            ("pays cap}", "unbalanced brace"),
            (" pays", "leading or trailing"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
