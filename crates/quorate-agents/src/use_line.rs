//! The `use:` line of a playbook: how an agent does its work.
//!
//! | line | who answers |
//! |---|---|
//! | `heuristic:NAME` | rules that come with Quorate |
//! | `cmd:COMMAND` | a program, JSON on stdin and stdout |
//! | `llm:PROVIDER/MODEL`, `llm:PROVIDER/MODEL@URL` | a language model, at its provider or at another address |
//! | `http:URL`, `https:URL` (also plain `http://…`) | a server that takes a POST |

use quorate_contracts::Heuristic;
use quorate_core::{Code, Refused};

use crate::llm::Provider;
use crate::post::Url;

/// How an agent does its work, as declared.
#[derive(Clone, PartialEq, Debug)]
pub enum Use {
    /// Rules that come with Quorate.
    Heuristic(Heuristic),
    /// A program and its arguments.
    Command(Vec<String>),
    /// A language model.
    Model {
        /// Whose.
        provider: Provider,
        /// Which.
        model: String,
        /// Where, if not at the provider's own address.
        base: Option<Url>,
    },
    /// A server.
    Http(Url),
}

const SCHEMES: &[&str] = &["heuristic", "cmd", "llm", "http", "https"];

impl Use {
    /// Reads a `use:` line.
    ///
    /// # Errors
    /// `INVALID`, with what is wrong and the nearest right word.
    pub fn parse(line: &str) -> Result<Self, Refused> {
        let line = line.trim();
        let Some((scheme, rest)) = line.split_once(':') else {
            let detail = format!("`{line}` does not say how the agent works");
            let hint = match Heuristic::named(line) {
                Some(_) => format!("write `heuristic:{line}`"),
                None => {
                    "begin with heuristic:, cmd:, llm:, http: or https:, as in `cmd:python3 agent.py`".into()
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
    let detail = format!("`{scheme}:` is no way to work in `{line}`");
    let hint = match scheme {
        _ if Provider::named(scheme).is_some() => format!("write `llm:{scheme}/MODEL`"),
        "py" | "a2a" => format!("`{scheme}:` is not there yet; a program works as `cmd:python3 FILE`"),
        _ => format!("did you mean `{}:`? There are {}", nearest(scheme, SCHEMES), listed(SCHEMES)),
    };
    Refused::new(Code::Invalid, detail).hint(hint)
}

fn heuristic(name: &str) -> Result<Use, Refused> {
    let names: Vec<&str> = Heuristic::ALL.iter().map(|one| one.name()).collect();
    Heuristic::named(name).map(Use::Heuristic).ok_or_else(|| {
        let hint =
            format!("did you mean `heuristic:{}`? There are {}", nearest(name, &names), listed(&names));
        Refused::new(Code::Invalid, format!("there is no heuristic `{name}`")).hint(hint)
    })
}

fn command(rest: &str) -> Result<Use, Refused> {
    let argv = shell_words::split(rest).map_err(|_| {
        Refused::new(Code::Invalid, format!("a quote is not closed in `cmd:{rest}`"))
            .hint("close it, or put a backslash before it; the line is split like a shell would, but no shell runs it")
    })?;
    if argv.is_empty() {
        let hint = "name a program, as in `cmd:python3 agent.py`";
        return Err(Refused::new(Code::Invalid, "`cmd:` names no program").hint(hint));
    }
    Ok(Use::Command(argv))
}

fn model(rest: &str) -> Result<Use, Refused> {
    let invalid = |what: String| Refused::new(Code::Invalid, what);
    let (name, base) = match rest.find("@http") {
        Some(at) => (&rest[..at], Some(Url::parse(&rest[at + 1..])?)),
        None => (rest, None),
    };
    let names: Vec<&str> = Provider::ALL.iter().map(|one| one.name()).collect();
    // Models have slashes of their own: only the first one ends the provider.
    let (provider, model) = name.split_once('/').unwrap_or((name, ""));
    let Some(known) = Provider::named(provider) else {
        let hint = format!(
            "did you mean `llm:{}/…`? There are {}; any server that speaks OpenAI's interface is `llm:openai/MODEL@URL`",
            nearest(provider, &names),
            listed(&names)
        );
        return Err(invalid(format!("`{provider}` is no provider in `llm:{rest}`")).hint(hint));
    };
    if model.is_empty() || model.contains(char::is_whitespace) {
        let hint = format!("write `llm:{provider}/MODEL`, as in `llm:{}`", known.example());
        return Err(invalid(format!("`llm:{rest}` names no model")).hint(hint));
    }
    Ok(Use::Model { provider: known, model: model.to_owned(), base })
}

/// `http://host`, and `http:http://host` for those who think of the scheme as a prefix.
fn http(scheme: &str, rest: &str) -> Result<Use, Refused> {
    let url = if rest.starts_with("//") { format!("{scheme}:{rest}") } else { rest.to_owned() };
    Url::parse(&url).map(Use::Http)
}

/// The word of a list that needs the fewest changes.
pub(crate) fn nearest<'a>(word: &str, list: &[&'a str]) -> &'a str {
    list.iter().copied().min_by_key(|known| distance(&word.to_lowercase(), known)).unwrap_or_default()
}

/// `a, b and c`.
pub(crate) fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// How many letters must be added, removed or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = changed.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_work_is_read() {
        assert_eq!(Use::parse("heuristic:clauses").unwrap(), Use::Heuristic(Heuristic::Clauses));
        let argv = ["python3", "my agent.py", "--x"].map(str::to_owned).to_vec();
        assert_eq!(Use::parse("cmd: python3 'my agent.py' --x").unwrap(), Use::Command(argv));
        let Use::Model { provider, model, base } = Use::parse("llm:groq/openai/gpt-oss-120b").unwrap() else {
            panic!()
        };
        assert_eq!((provider, model.as_str(), base), (Provider::Groq, "openai/gpt-oss-120b", None));
        let Use::Model { model, base, .. } =
            Use::parse("llm:openai/qwen2.5:7b@http://localhost:8080/v1").unwrap()
        else {
            panic!()
        };
        assert_eq!(
            (model.as_str(), base.unwrap().to_string().as_str()),
            ("qwen2.5:7b", "http://localhost:8080/v1")
        );
        for line in ["http://localhost:9/a", "http:http://localhost:9/a"] {
            let Use::Http(url) = Use::parse(line).unwrap() else { panic!() };
            assert_eq!(url.to_string(), "http://localhost:9/a");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_the_nearest_right_word() {
        for (line, what, hint) in [
            ("heuristic:clause", "`clause`", "`heuristic:clauses`"),
            ("huristic:risk", "`huristic:`", "`heuristic:`"),
            ("risk", "`risk`", "`heuristic:risk`"),
            ("llm:grok/x", "`grok`", "`llm:groq/…`"),
            ("llm:groq", "names no model", "llm:groq/MODEL"),
            ("openai:gpt-5", "`openai:`", "`llm:openai/MODEL`"),
            ("py:a.py:f", "`py:`", "cmd:python3"),
            ("cmd:", "names no program", "python3"),
            ("cmd:sh -c 'x", "quote is not closed", "close it"),
            ("http:nowhere", "nowhere", "http://"),
            ("llm:openai/x@http://user:pass@host", "password", "key_env"),
        ] {
            let refused = Use::parse(line).unwrap_err();
            assert!(refused.detail.contains(what), "{line}: {}", refused.detail);
            assert!(refused.hint.contains(hint), "{line}: {}", refused.hint);
        }
    }
}
