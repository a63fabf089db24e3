//! Environment variables of a program: an allowlist, the names that its declaration lists, and access to the hub. The
//! credentials of this process are withheld, because a program needs them rarely and may print, send or leak them.

use std::ffi::{OsStr, OsString};

use quorate_core::{Code, Refused};

use crate::agent::{AgentContext, EnvInheritance};
use crate::llm::Provider;

/// Variables that every program gets if they are set: how to find files, how to print text, how to reach the network.
const ALLOWED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "TERM",
    "LANG",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
];
const ALLOWED_PREFIXES: &[&str] = &["LC_", "XDG_"];
/// Prefix of the variables that configure Quorate itself, its token among them.
const OWN_PREFIX: &str = "QUORATE_";

/// Checks the names that a declaration lists.
///
/// # Errors
/// `INVALID` for a value instead of a name, an invalid name, and a variable of Quorate itself.
pub(crate) fn check_names(names: &[String]) -> Result<(), Refused> {
    let invalid = |detail: String, hint: &str| Err(Refused::new(Code::Invalid, detail).hint(hint));
    for name in names {
        if let Some((name, _)) = name.split_once('=') {
            // The value may be a secret, so it is not repeated.
            let detail = format!("env: `{name}=…` is a value, not the name of a variable");
            return invalid(
                detail,
                "list the name only, and set the variable before the run: `export NAME=…`",
            );
        }
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !name.bytes().all(is_name_byte) || !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        {
            return invalid(
                format!("env: invalid variable name {name:?}"),
                "use letters, digits and _, as in `env: [GITHUB_TOKEN]`",
            );
        }
        if name.starts_with(OWN_PREFIX) {
            return invalid(
                format!("env: {name} is not passed to programs"),
                "for access to the hub as this agent, use `hub: true`",
            );
        }
    }
    Ok(())
}

/// Selects the variables that a program gets: the allowlist, the listed names, and with
/// [`EnvInheritance::All`] everything else except for Quorate's own variables and API keys.
pub(crate) fn select(context: &AgentContext, names: &[String]) -> Vec<(OsString, OsString)> {
    let is_listed = |name: &str| names.iter().any(|listed| listed == name);
    let is_inherited = |name: &str| match context.env_inheritance {
        EnvInheritance::Allowlist => false,
        EnvInheritance::All => !name.starts_with(OWN_PREFIX) && !is_api_key(context, name),
    };
    let is_selected = |name: &OsStr| {
        let name = name.to_string_lossy();
        is_allowed(&name) || is_listed(&name) || is_inherited(&name)
    };
    context.variables.iter().filter(|(name, _)| is_selected(name)).cloned().collect()
}

fn is_allowed(name: &str) -> bool {
    ALLOWED.contains(&name) || ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a variable contains the API key of a model provider: known providers, agents of the same playbook, and the
/// customary name of all others.
fn is_api_key(context: &AgentContext, name: &str) -> bool {
    name.ends_with("_API_KEY")
        || Provider::ALL.iter().any(|provider| provider.key_env() == Some(name))
        || context.key_variables.iter().any(|key| key == name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const VARIABLES: &[&str] = &[
        "PATH",
        "HOME",
        "LC_ALL",
        "XDG_CONFIG_HOME",
        "https_proxy",
        "SSL_CERT_FILE",
        "GITHUB_TOKEN",
        "DATABASE_URL",
        "EDITOR",
        "QUORATE_TOKEN",
        "QUORATE_URL",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "TEAM_KEY",
    ];

    fn selected(inheritance: EnvInheritance, names: &[&str]) -> Vec<String> {
        let mut context = AgentContext::new(".");
        let pair = |name: &&str| (OsString::from(name), OsString::from("x"));
        context.variables = Arc::new(VARIABLES.iter().map(pair).collect());
        context.env_inheritance = inheritance;
        context.key_variables = vec!["TEAM_KEY".to_owned()];
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        select(&context, &names).into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
    }

    const ALWAYS: [&str; 6] = ["PATH", "HOME", "LC_ALL", "XDG_CONFIG_HOME", "https_proxy", "SSL_CERT_FILE"];

    // Fails under: a program that gets the whole environment.
    #[test]
    fn s14_a_program_gets_the_allowlist_and_the_listed_variables() {
        assert_eq!(selected(EnvInheritance::Allowlist, &[]), ALWAYS);
        let listed = selected(EnvInheritance::Allowlist, &["GITHUB_TOKEN", "GROQ_API_KEY", "UNSET"]);
        assert_eq!(listed[..6], ALWAYS);
        assert_eq!(listed[6..], ["GITHUB_TOKEN", "GROQ_API_KEY"]);
    }

    // Fails under: inheritance that includes the hub's token or the API keys of other agents.
    #[test]
    fn s14_inheritance_withholds_the_hubs_variables_and_api_keys() {
        let inherited = selected(EnvInheritance::All, &["MISTRAL_API_KEY"]);
        assert_eq!(inherited[..6], ALWAYS);
        assert_eq!(inherited[6..], ["GITHUB_TOKEN", "DATABASE_URL", "EDITOR", "MISTRAL_API_KEY"]);
    }

    // Fails under: an error that repeats the value.
    #[test]
    fn s14_a_declaration_lists_names_and_not_values() {
        for (name, detail, hint) in [
            ("API=hunter2", "`API=…`", "export"),
            ("A B", "\"A B\"", "letters"),
            ("", "\"\"", "letters"),
            ("1A", "\"1A\"", "letters"),
            ("QUORATE_TOKEN", "QUORATE_TOKEN", "hub: true"),
        ] {
            let refused = check_names(&["PATH".to_owned(), name.to_owned()]).unwrap_err();
            assert!(refused.detail.contains(detail) && refused.hint.contains(hint), "{refused:?}");
            assert!(!refused.detail.contains("hunter2"));
        }
        assert!(check_names(&["GITHUB_TOKEN".to_owned(), "_x9".to_owned()]).is_ok());
    }
}
