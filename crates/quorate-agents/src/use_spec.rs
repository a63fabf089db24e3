//! The `use:` value of a playbook: the implementation of an agent.
//!
//! | value | implementation |
//! |---|---|
//! | `heuristic:NAME` | built-in rules |
//! | `cmd:COMMAND` | a program, JSON on stdin and stdout |
//! | `llm:PROVIDER/MODEL`, `llm:PROVIDER/MODEL@URL` | a language model, at its provider or at another URL |
//! | `http:URL`, `https:URL` (also plain `http://…`) | a server that accepts a POST |

use quorate_contracts::Heuristic;
use quorate_core::{Code, Refused};

use crate::http_client::Url;
use crate::llm::Provider;
use crate::spelling::{closest_match, join_with_and};

/// Implementation of an agent, as declared.
#[derive(Clone, PartialEq, Debug)]
pub enum UseSpec {
    /// Built-in rules.
    Heuristic(Heuristic),
    /// A program and its arguments.
    Command(Vec<String>),
    /// A language model.
    Model {
        /// Provider of the model.
        provider: Provider,
        /// Name of the model.
        model: String,
        /// Base URL, if it is not the provider's own.
        base: Option<Url>,
    },
    /// An HTTP server.
    Http(Url),
}

const SCHEMES: &[&str] = &["heuristic", "cmd", "llm", "http", "https"];

impl UseSpec {
    /// Parses a `use:` value.
    ///
    /// # Errors
    /// `INVALID`, with the offending part and a suggestion.
    pub fn parse(line: &str) -> Result<Self, Refused> {
        let line = line.trim();
        let Some((scheme, rest)) = line.split_once(':') else {
            let detail = format!("`{line}` has no scheme");
            let hint = match Heuristic::from_name(line) {
                Some(_) => format!("use `heuristic:{line}`"),
                None => {
                    "start with heuristic:, cmd:, llm:, http: or https:, as in `cmd:python3 agent.py`".into()
                }
            };
            return Err(Refused::new(Code::Invalid, detail).hint(hint));
        };
        match scheme {
            "heuristic" => heuristic(rest.trim()),
            "cmd" => command(rest),
            "llm" => model(rest.trim()),
            "http" | "https" => http(scheme, rest.trim()),
            _ => Err(unknown(scheme, line)),
        }
    }
}

fn unknown(scheme: &str, line: &str) -> Refused {
    let detail = format!("unknown scheme `{scheme}:` in `{line}`");
    let hint = match scheme {
        _ if Provider::from_name(scheme).is_some() => format!("use `llm:{scheme}/MODEL`"),
        "py" | "a2a" => format!("`{scheme}:` is not supported yet; run a program with `cmd:python3 FILE`"),
        _ => available(scheme, SCHEMES, |closest| format!("{closest}:")),
    };
    Refused::new(Code::Invalid, detail).hint(hint)
}

fn heuristic(name: &str) -> Result<UseSpec, Refused> {
    let names: Vec<&str> = Heuristic::ALL.iter().map(|heuristic| heuristic.name()).collect();
    Heuristic::from_name(name).map(UseSpec::Heuristic).ok_or_else(|| {
        let hint = available(name, &names, |closest| format!("heuristic:{closest}"));
        Refused::new(Code::Invalid, format!("unknown heuristic `{name}`")).hint(hint)
    })
}

fn command(rest: &str) -> Result<UseSpec, Refused> {
    let argv = shell_words::split(rest).map_err(|_| {
        Refused::new(Code::Invalid, format!("unclosed quote in `cmd:{rest}`"))
            .hint("close it, or escape it with a backslash; the command is split like in a shell, but no shell runs it")
    })?;
    if argv.is_empty() {
        let hint = "name a program, as in `cmd:python3 agent.py`";
        return Err(Refused::new(Code::Invalid, "`cmd:` names no program").hint(hint));
    }
    Ok(UseSpec::Command(argv))
}

fn model(rest: &str) -> Result<UseSpec, Refused> {
    let invalid = |detail: String| Refused::new(Code::Invalid, detail);
    let (name, base) = match rest.find("@http") {
        Some(index) => (&rest[..index], Some(Url::parse(&rest[index + 1..])?)),
        None => (rest, None),
    };
    let names: Vec<&str> = Provider::ALL.iter().map(|provider| provider.name()).collect();
    // Model names may contain slashes: only the first one ends the provider.
    let (provider_name, model) = name.split_once('/').unwrap_or((name, ""));
    let Some(provider) = Provider::from_name(provider_name) else {
        let hint = format!(
            "{}; for any server with an OpenAI-compatible API, use `llm:openai/MODEL@URL`",
            available(provider_name, &names, |closest| format!("llm:{closest}/…"))
        );
        return Err(invalid(format!("unknown provider `{provider_name}` in `llm:{rest}`")).hint(hint));
    };
    if model.is_empty() || model.contains(char::is_whitespace) {
        let hint = format!("use `llm:{provider_name}/MODEL`, as in `llm:{}`", provider.example_model());
        return Err(invalid(format!("`llm:{rest}` names no model")).hint(hint));
    }
    Ok(UseSpec::Model { provider, model: model.to_owned(), base })
}

/// Parses `http://host`, and `http:http://host` for users who treat the scheme as a prefix.
fn http(scheme: &str, rest: &str) -> Result<UseSpec, Refused> {
    let url = if rest.starts_with("//") { format!("{scheme}:{rest}") } else { rest.to_owned() };
    Url::parse(&url).map(UseSpec::Http)
}

/// Returns a hint with the available names, and the one that the user may have meant.
fn available(word: &str, names: &[&str], render: impl Fn(&str) -> String) -> String {
    let all = join_with_and(names);
    match closest_match(word, names.iter().copied()) {
        Some(closest) => format!("did you mean `{}`? Available: {all}", render(closest)),
        None => format!("available: {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_is_parsed() {
        assert_eq!(UseSpec::parse("heuristic:clauses").unwrap(), UseSpec::Heuristic(Heuristic::Clauses));
        let argv = ["python3", "my agent.py", "--x"].map(str::to_owned).to_vec();
        assert_eq!(UseSpec::parse("cmd: python3 'my agent.py' --x").unwrap(), UseSpec::Command(argv));
        let UseSpec::Model { provider, model, base } =
            UseSpec::parse("llm:groq/openai/gpt-oss-120b").unwrap()
        else {
            panic!()
        };
        assert_eq!((provider, model.as_str(), base), (Provider::Groq, "openai/gpt-oss-120b", None));
        let UseSpec::Model { model, base, .. } =
            UseSpec::parse("llm:openai/qwen2.5:7b@http://localhost:8080/v1").unwrap()
        else {
            panic!()
        };
        assert_eq!(
            (model.as_str(), base.unwrap().to_string().as_str()),
            ("qwen2.5:7b", "http://localhost:8080/v1")
        );
        for line in ["http://localhost:9/a", "http:http://localhost:9/a"] {
            let UseSpec::Http(url) = UseSpec::parse(line).unwrap() else { panic!() };
            assert_eq!(url.to_string(), "http://localhost:9/a");
        }
    }

    #[test]
    fn errors_suggest_the_nearest_match() {
        for (line, detail, hint) in [
            ("heuristic:clause", "`clause`", "`heuristic:clauses`"),
            ("huristic:risk", "`huristic:`", "`heuristic:`"),
            ("risk", "`risk`", "`heuristic:risk`"),
            ("llm:grok/x", "`grok`", "`llm:groq/…`"),
            ("llm:groq", "names no model", "llm:groq/MODEL"),
            ("openai:gpt-5", "`openai:`", "`llm:openai/MODEL`"),
            ("py:a.py:f", "`py:`", "cmd:python3"),
            ("cmd:", "names no program", "python3"),
            ("cmd:sh -c 'x", "unclosed quote", "close it"),
            ("http:nowhere", "nowhere", "http://"),
            ("llm:openai/x@http://user:pass@host", "password", "key_env"),
        ] {
            let refused = UseSpec::parse(line).unwrap_err();
            assert!(refused.detail.contains(detail), "{line}: {}", refused.detail);
            assert!(refused.hint.contains(hint), "{line}: {}", refused.hint);
        }
    }

    // Fails under: a suggestion that has nothing in common with the word; a hint without the available names.
    #[test]
    fn n21_a_word_that_is_not_similar_to_any_gets_no_suggestion() {
        for (line, hint) in [
            ("llm:bogus/x", "available: groq, "),
            ("llm:bogus", "available: groq, "),
            ("bogus:y", "available: heuristic, cmd, llm, http and https"),
            ("heuristic:bogus", "available: "),
        ] {
            let refused = UseSpec::parse(line).unwrap_err();
            assert!(refused.hint.starts_with(hint), "{line}: {}", refused.hint);
        }
    }
}
