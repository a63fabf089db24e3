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
/// Names of providers of models and clouds, with which the names of their variables start.
const PROVIDERS: &[&str] = &[
    "ANTHROPIC",
    "AWS",
    "AZURE",
    "BEDROCK",
    "CEREBRAS",
    "CLAUDE",
    "COHERE",
    "DATABRICKS",
    "DEEPSEEK",
    "FIREWORKS",
    "GCP",
    "GEMINI",
    "GOOGLE",
    "GROQ",
    "HF",
    "HUGGINGFACE",
    "HUGGINGFACEHUB",
    "HUGGING",
    "LANGCHAIN",
    "LANGSMITH",
    "LITELLM",
    "MISTRAL",
    "MOONSHOT",
    "NVIDIA",
    "OLLAMA",
    "OPENAI",
    "OPENROUTER",
    "PERPLEXITY",
    "REPLICATE",
    "TOGETHER",
    "VERTEX",
    "VOYAGE",
    "WATSONX",
    "XAI",
];
/// Words with which the name of a credential of a provider contains at least one.
const CREDENTIAL_WORDS: &[&str] =
    &["APIKEY", "CREDENTIAL", "CREDENTIALS", "KEY", "KEYS", "PASSWORD", "SECRET", "TOKEN"];
/// Ends of the names of credentials of any service.
const CREDENTIAL_SUFFIXES: &[&str] = &[
    "_API_KEY",
    "_APIKEY",
    "_API_KEYS",
    "_API_TOKEN",
    "_API_SECRET",
    "_AUTH_TOKEN",
    "_AUTH_KEY",
    "_ACCESS_KEY",
    "_ACCESS_KEY_ID",
    "_ACCESS_TOKEN",
    "_BEARER_TOKEN",
    "_CLIENT_SECRET",
    "_OAUTH_TOKEN",
    "_REFRESH_TOKEN",
    "_SECRET_ACCESS_KEY",
    "_SECRET_KEY",
    "_SESSION_TOKEN",
    "_SERVICE_ACCOUNT_KEY",
];
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
/// [`EnvInheritance::All`] everything else except for Quorate's own variables and credentials of providers.
pub(crate) fn select(context: &AgentContext, names: &[String]) -> Vec<(OsString, OsString)> {
    let is_listed = |name: &str| names.iter().any(|listed| listed == name);
    let is_inherited = |name: &str| match context.env_inheritance {
        EnvInheritance::Allowlist => false,
        EnvInheritance::All => !name.starts_with(OWN_PREFIX) && !is_credential(context, name),
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

/// Whether a variable contains a credential of a provider, by its name: an API key of an agent of the same playbook, a
/// known provider with a word for a credential, or a customary name of a credential.
fn is_credential(context: &AgentContext, name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let words: Vec<&str> = upper.split('_').collect();
    let is_of_provider = words.first().is_some_and(|first| PROVIDERS.contains(first))
        && words.iter().any(|word| CREDENTIAL_WORDS.contains(word));
    is_of_provider
        || CREDENTIAL_SUFFIXES.iter().any(|suffix| upper.ends_with(suffix))
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

    // Fails under: a credential of a provider that is recognised by `_API_KEY` only; a variable that is none, but withheld.
    #[test]
    fn s14_credentials_of_providers_are_withheld() {
        let context = AgentContext::new(".");
        for name in [
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "HUGGINGFACEHUB_API_TOKEN",
            "AZURE_KEY",
            "AZURE_OPENAI_KEY",
            "AZURE_CLIENT_SECRET",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_BEARER_TOKEN_BEDROCK",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "REPLICATE_API_TOKEN",
            "MY_SECRET_ACCESS_KEY",
            "WATSONX_APIKEY",
            "openai_api_key",
            "SOME_API_KEY",
        ] {
            assert!(is_credential(&context, name), "{name}");
        }
        for name in [
            "GITHUB_TOKEN",
            "SSH_AUTH_SOCK",
            "AWS_REGION",
            "HF_HOME",
            "OPENAI_BASE_URL",
            "AZURE_OPENAI_ENDPOINT",
            "KEYBOARD",
            "TOKENIZERS_PARALLELISM",
            "DATABASE_URL",
        ] {
            assert!(!is_credential(&context, name), "{name}");
        }
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
