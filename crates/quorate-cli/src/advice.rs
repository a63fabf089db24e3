//! What to do next, for whoever sits at a terminal. A hub speaks to programs: where it advises a call or a header, the command
//! of the same noun stands here. What it says in words that fit both is left as it is.

use quorate_core::Code;

/// What has a list.
const LISTED: [&str; 9] =
    ["agent", "approval", "deliberation", "flag", "memory", "msg", "session", "task", "token"];

/// What of a hint only a program that speaks HTTP can follow.
const OF_PROGRAMS: [&str; 7] =
    ["/v1/", "openapi", "Quorate-", "Authorization", "header", "register", "the list of its kind"];

/// The words of a command line that say what it is about: a noun, a verb, and of what.
pub(crate) struct Typed {
    words: Vec<String>,
}

impl Typed {
    /// What this process was started with.
    pub(crate) fn read() -> Self {
        Self::of(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
    }

    fn of(words: impl IntoIterator<Item = String>) -> Self {
        Self { words: words.into_iter().collect() }
    }

    fn word(&self, at: usize) -> Option<&str> {
        let plain = |word: &&String| !word.starts_with('-');
        self.words.iter().take_while(plain).nth(at).map(String::as_str)
    }

    fn has(&self, flag: &str) -> bool {
        self.words.iter().any(|word| word == flag || word.starts_with(&format!("{flag}=")))
    }

    /// `quorate memory get`: the command alone.
    fn command(&self) -> String {
        let nouns = [
            "msg",
            "task",
            "memory",
            "session",
            "agent",
            "approval",
            "token",
            "audit",
            "trace",
            "deliberation",
        ];
        let verb = self.word(0).filter(|noun| nouns.contains(noun)).and_then(|_| self.word(1));
        ["quorate"].into_iter().chain(self.word(0)).chain(verb).collect::<Vec<_>>().join(" ")
    }
}

/// The next step after a refusal.
pub(crate) fn for_terminal(code: Code, what: &str, hint: &str, typed: &Typed) -> String {
    if what.contains("would travel unencrypted") {
        return "use https, or let it: --insecure-http".to_owned();
    }
    if !hint.is_empty() && !OF_PROGRAMS.iter().any(|sign| hint.contains(sign)) {
        return hint.to_owned();
    }
    let noun = typed.word(0).unwrap_or_default();
    match code {
        _ if what.contains("space") && typed.has("--space") => {
            "leave out --space, or name one that is there: `quorate verify` names those of a directory"
                .to_owned()
        }
        Code::Invalid => format!("{} --help says what may be given", typed.command()),
        Code::UnknownRecipient => {
            "quorate agent list shows who is there; quorate agent add NAME lets one in".to_owned()
        }
        Code::NotFound if noun == "memory" && (typed.has("--version") || typed.has("--to-version")) => {
            format!("quorate memory log {} shows its versions", typed.word(2).unwrap_or("KEY"))
        }
        // Whoever acts for an agent must be one that is known.
        Code::NotFound | Code::Unauthenticated if hint.contains("register") => {
            "quorate agent list shows who is there; quorate agent add NAME lets one in".to_owned()
        }
        Code::NotFound if LISTED.contains(&noun) => format!("quorate {noun} list shows what there is"),
        Code::Unauthenticated => {
            "quorate token create makes a token, on the machine of the hub; give it by --token-file FILE"
                .to_owned()
        }
        // Better than nothing, and it is true that a program would be told this.
        _ => hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str, code: Code, what: &str, hint: &str) -> String {
        for_terminal(code, what, hint, &Typed::of(line.split(' ').map(str::to_owned)))
    }

    // Fails under: a hint of HTTP that is passed on, and one in plain words that is not.
    #[test]
    fn what_is_advised_can_be_typed() {
        let history = "GET /v1/context/k/history shows what there was";
        let told_of = |line: &str| told(line, Code::NotFound, "k has no version 9", history);
        assert_eq!(told_of("memory get k --version 9"), "quorate memory log k shows its versions");
        assert_eq!(told_of("memory get k"), "quorate memory list shows what there is");
        let shape = "see GET /v1/openapi.json for the shape of every call";
        let wrong = told("task add sum --priority huge", Code::Invalid, "no priority", shape);
        assert_eq!(wrong, "quorate task add --help says what may be given");
        assert_eq!(
            told("status", Code::Invalid, "no", shape),
            "quorate status --help says what may be given"
        );
        let space = told(
            "status --space proj",
            Code::NotFound,
            "there is no space proj",
            "leave the header Quorate-Space out",
        );
        assert!(space.starts_with("leave out --space"), "{space}");
        let open = told(
            "status",
            Code::Invalid,
            "the token would travel unencrypted to h",
            "use https, or allow it explicitly",
        );
        assert!(open.contains("--insecure-http"), "{open}");
        assert_eq!(
            told("agent remove bob", Code::NotFound, "no bob", "register it first").split(';').next(),
            Some("quorate agent list shows who is there")
        );
        assert_eq!(told("task show x", Code::Conflict, "it is done", "start another"), "start another");
    }
}
