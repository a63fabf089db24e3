//! The text of a phrasing, taken apart: words, and facts to be filled in.

use super::fact::{Fact, Form};

/// A piece of a phrasing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Words(String),
    Fact(Fact, Form),
}

/// A phrasing taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) pieces: Vec<Piece>,
}

impl Template {
    /// Takes a text apart, or says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() || text.trim() != text {
            return Err("a text that is empty, or begins or ends with a space".to_owned());
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(open);
            let closed = after.strip_prefix('{').and_then(|inside| inside.split_once('}'));
            let (inside, left) = closed.ok_or("a brace without its other half")?;
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
    let (name, wish) = match inside.split_once(':') {
        Some((name, wish)) => (name, Some(wish)),
        None => (inside, None),
    };
    let fact = Fact::named(&name.to_lowercase()).ok_or_else(|| format!("`{{{name}}}` is no fact"))?;
    let case = match name.chars().next() {
        _ if name == fact.name() => Form::Plain,
        Some(first) if first.is_uppercase() && name[1..] == fact.name()[1..] => Form::Sentence,
        _ if name == fact.name().to_uppercase() => Form::Upper,
        _ => return Err(format!("`{{{name}}}` is neither small, nor capitalised, nor in capitals")),
    };
    let form = match wish {
        None => case,
        Some(wish) if case == Form::Plain => {
            Form::named(wish).ok_or_else(|| format!("`{wish}` is no form of a fact"))?
        }
        Some(_) => return Err(format!("`{{{inside}}}` asks for two forms at once")),
    };
    if !form.suits(fact.kind()) {
        return Err(format!("`{{{inside}}}`: this fact cannot be written so"));
    }
    Ok(Piece::Fact(fact, form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_apart_into_words_and_facts() {
        let template = Template::parse("{Customer} pays {cap:figures} on {effective_date}.").unwrap();
        let words = |text: &str| Piece::Words(text.to_owned());
        assert_eq!(
            template.pieces,
            [
                Piece::Fact(Fact::Customer, Form::Sentence),
                words(" pays "),
                Piece::Fact(Fact::Cap, Form::Figures),
                words(" on "),
                Piece::Fact(Fact::EffectiveDate, Form::Plain),
                words("."),
            ]
        );
    }

    #[test]
    fn what_is_no_fact_or_no_form_of_it_is_refused() {
        for (text, why) in [
            ("pays {capp}", "is no fact"),
            ("pays {cap:loud}", "is no form"),
            ("pays {cap:iso}", "cannot be written so"),
            ("pays {Cap}", "cannot be written so"),
            ("{CUSTOMER:term}", "two forms"),
            ("{cuStomer} pays", "neither small"),
            ("pays {cap", "without its other half"),
            ("pays cap}", "without its other half"),
            (" pays", "begins or ends"),
        ] {
            let refused = Template::parse(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
