//! False examples: typical messages between agents, and placeholders for secrets. Partly generated from a seed,
//! partly written by hand in `false.txt`, one example per line.

use super::random_text::{BASE62, BASE64, DIGITS, HEX, LOWER, RandomText, UPPER, URL64};

const BY_HAND: &str = include_str!("false.txt");

/// Generator of an example.
type Make = fn(&mut RandomText) -> String;

const MADE: &[(&str, Make)] = &[
    ("commit", |dice| format!("{} fix the {} of {}", dice.text(HEX, 40), word(dice), word(dice))),
    ("git log", |dice| {
        let (a, b) = (dice.text(HEX, 40), dice.text(HEX, 40));
        format!("commit {a}\\nMerge: {} {}\\nparent {b}\\n", &a[..7], &b[..7])
    }),
    ("uuid", |dice| {
        format!(r#"{{"id":"{}","parent":"{}","kind":"{}"}}"#, dice.uuid(), dice.uuid(), word(dice))
    }),
    ("uuid under a name", |dice| {
        let name = dice.pick(&["key", "token", "api_key", "clientSecret", "access_token", "idempotency_key"]);
        format!(r#"{{"{name}":"{}"}}"#, dice.uuid())
    }),
    ("image", |dice| {
        let size = dice.between(200, 4000);
        let kind = dice.pick(&["png", "jpeg", "webp", "gif"]);
        format!(r#"{{"image":"data:image/{kind};base64,{}"}}"#, dice.base64(size))
    }),
    ("attachment", |dice| {
        let size = dice.between(500, 6000);
        format!(r#"{{"name":"{}.pdf","encoding":"base64","content":"{}"}}"#, word(dice), dice.base64(size))
    }),
    ("embedding", |dice| {
        let numbers: Vec<String> = (0..32).map(|_| format!("-0.{}", dice.text(DIGITS, 8))).collect();
        format!(r#"{{"model":"embed-3","vector":[{}]}}"#, numbers.join(","))
    }),
    ("digests", |dice| {
        let length = [32, 40, 56, 64, 96, 128][dice.below(6)];
        let name =
            dice.pick(&["sha256", "md5", "digest", "etag", "checksum", "hash", "cache_key", "fingerprint"]);
        format!(r#"{{"{name}":"{}"}}"#, dice.text(HEX, length))
    }),
    ("container", |dice| format!("image: registry.example.org/team/app@sha256:{}", dice.text(HEX, 64))),
    ("npm lock", |dice| {
        format!(
            "\"node_modules/{}\": {{ \"version\": \"4.17.21\", \"integrity\": \"sha512-{}\" }}",
            word(dice),
            dice.base64(64)
        )
    }),
    ("cargo lock", |dice| {
        format!(
            "[[package]]\nname = \"{}\"\nversion = \"1.0.4\"\nchecksum = \"{}\"\n",
            word(dice),
            dice.text(HEX, 64)
        )
    }),
    ("python lock", |dice| {
        format!(
            "{}==2.31.0 \\\n    --hash=sha256:{} \\\n    --hash=sha256:{}",
            word(dice),
            dice.text(HEX, 64),
            dice.text(HEX, 64)
        )
    }),
    ("go sum", |dice| format!("github.com/acme/{} v1.8.0 h1:{}\n", word(dice), dice.base64(32))),
    ("prose", prose),
    ("prose about secrets", |dice| {
        let subject = dice.pick(&[
            "The password",
            "A token",
            "Your API key",
            "The secret",
            "Each access key",
            "The private key",
        ]);
        let verb = dice.pick(&[
            "must be rotated every",
            "is at least",
            "expires after",
            "was changed on day",
            "has a length of",
        ]);
        format!("{subject} {verb} {} and must not be shared. {}", dice.between(8, 90), prose(dice))
    }),
    ("message", message),
    ("task list", |dice| {
        let tasks: Vec<String> = (0..6).map(|_| message(dice)).collect();
        format!("[{}]", tasks.join(","))
    }),
    ("tool call", |dice| {
        let inner = format!(
            r#"{{"path":"src/{}.rs","query":"fn {}","max":{}}}"#,
            word(dice),
            word(dice),
            dice.between(1, 50)
        );
        format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"call_{}","arguments":"{}"}}]}}"#,
            dice.text(BASE62, 24),
            RandomText::quoted(&inner)
        )
    }),
    ("usage", |dice| {
        format!(
            r#"{{"model":"gpt-4o-mini-2024-07-18","usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}}},"max_tokens":4096,"system_fingerprint":"fp_{}"}}"#,
            dice.between(1, 9999),
            dice.between(1, 9999),
            dice.between(1, 9999),
            dice.text(HEX, 10)
        )
    }),
    ("lease", |dice| {
        format!(
            r#"{{"deliveryId":"dlv_0-{}","leaseToken":{},"attempt":1}}"#,
            dice.between(1, 99999),
            dice.text(DIGITS, 9)
        )
    }),
    ("page", |dice| {
        let name = dice.pick(&[
            "nextPageToken",
            "next_page_token",
            "cursor",
            "continuationToken",
            "syncToken",
            "pageToken",
        ]);
        let size = dice.between(24, 90);
        format!(r#"{{"items":[],"{name}":"{}"}}"#, dice.base64(size))
    }),
    ("code", code),
    ("placeholder", placeholder),
    ("certificate", |dice| {
        let kind = dice.pick(&[
            "CERTIFICATE",
            "PUBLIC KEY",
            "RSA PUBLIC KEY",
            "CERTIFICATE REQUEST",
            "PGP SIGNATURE",
        ]);
        let lines: Vec<String> = (0..8).map(|_| dice.text(BASE64, 64)).collect();
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----", lines.join("\n"))
    }),
    ("public key", |dice| {
        format!("ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB{} ann@example.org", dice.text(BASE64, 340))
    }),
    ("link", |dice| {
        format!(
            "https://{}.example.org:8443/{}/{}?id={}&v={}#{}",
            word(dice),
            word(dice),
            dice.text(LOWER, 11),
            dice.uuid(),
            dice.text(URL64, 22),
            word(dice)
        )
    }),
    ("object", |dice| {
        format!(
            "s3://archive-{}/2026/{}/part-{}.parquet",
            word(dice),
            dice.text(HEX, 32),
            dice.text(DIGITS, 5)
        )
    }),
    ("blob", |dice| dice.text(URL64, 600)),
    ("minified", |dice| {
        let mut text = String::new();
        for _ in 0..12 {
            text.push_str(&format!(
                "function {}({}){{return {}[{}]||{}}}",
                dice.text(LOWER, 2),
                word(dice),
                word(dice),
                dice.between(0, 99),
                dice.text(HEX, 6)
            ));
        }
        text
    }),
    ("csv", |dice| {
        let rows: Vec<String> = (0..8)
            .map(|_| {
                format!(
                    "{},{},{},{}",
                    dice.text(UPPER, 10),
                    dice.text(DIGITS, 12),
                    word(dice),
                    dice.text(HEX, 16)
                )
            })
            .collect();
        rows.join("\n")
    }),
];

/// Returns all false examples: `rounds` of each generated kind, and those written by hand, both plain and in JSON.
pub(super) fn all(dice: &mut RandomText, rounds: usize) -> Vec<(&'static str, String)> {
    let mut texts = Vec::new();
    for _ in 0..rounds {
        texts.extend(MADE.iter().map(|(kind, make)| (*kind, make(dice))));
    }
    for line in BY_HAND.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        texts.push(("by hand", line.to_owned()));
        texts.push(("by hand, in JSON", format!(r#"{{"content":"{}"}}"#, RandomText::quoted(line))));
    }
    texts
}

const WORDS: &[&str] = &[
    "clause",
    "contract",
    "review",
    "finding",
    "agent",
    "message",
    "delivery",
    "session",
    "supplier",
    "liability",
    "notice",
    "annex",
    "budget",
    "planner",
    "worker",
    "database",
    "redis",
    "postgres",
    "token",
    "tokens",
    "password",
    "secret",
    "key",
    "authorization",
    "machine",
    "curl",
    "together",
    "discord",
    "heroku",
    "twilio",
    "cloudflare",
    "bearer",
    "access",
    "private",
    "policy",
    "schedule",
    "release",
    "branch",
    "merge",
    "parser",
    "vector",
    "index",
    "customer",
    "invoice",
    "payment",
    "risk",
    "disk",
    "task",
    "desk",
    "mask",
    "sketch",
    "asia",
    "special",
    "license",
    "certificate",
    "sequence",
    "registry",
    "mistral",
];

fn word(dice: &mut RandomText) -> &'static str {
    dice.pick(WORDS)
}

fn prose(dice: &mut RandomText) -> String {
    let mut text = String::new();
    for _ in 0..dice.between(2, 5) {
        let (a, b, c, d) = (word(dice), word(dice), word(dice), word(dice));
        let sentence = match dice.below(6) {
            0 => format!("The {a} of the {b} is {c}: see the {d} on page {}. ", dice.between(1, 300)),
            1 => format!("Please check whether {a}-{b} needs a {c}, and tell the {d}. "),
            2 => format!(
                "We moved {a} from {b} to {c} in version {}.{}; the {d} stays. ",
                dice.between(0, 9),
                dice.between(0, 30)
            ),
            3 => format!("{a}: {b}, {c} and {d}. "),
            4 => format!("I reset the {a} {b} because the {c} {d} was out of date = true. "),
            _ => format!("\"{a}\" means {b}; \"{c}\" is {d} ({}%). ", dice.between(1, 99)),
        };
        text.push_str(&sentence);
    }
    text
}

fn message(dice: &mut RandomText) -> String {
    format!(
        r#"{{"messageId":"msg_0-{}-1","from":"{}","to":"{}","type":"command","action":"{}","payload":{{"text":"{}","confidence":0.{},"sha":"{}"}},"correlationId":"{}","timestamp":"2026-03-{:02}T10:{:02}:00.123Z","tokens":{}}}"#,
        dice.between(1, 99_999),
        word(dice),
        word(dice),
        word(dice),
        RandomText::quoted(&prose(dice)),
        dice.between(1, 99),
        dice.text(HEX, 40),
        dice.uuid(),
        dice.between(1, 28),
        dice.between(0, 59),
        dice.between(0, 5000)
    )
}

fn code(dice: &mut RandomText) -> String {
    let (a, b, n) = (word(dice), word(dice), dice.between(1, 9));
    match dice.below(14) {
        0 => format!("let {a}_token = tokens.next_token()?; // {b} {n}"),
        1 => format!("if password.len() < {n} {{ return Err(\"password: too short, use {n} or more\"); }}"),
        2 => format!("fn {a}(password: &str, api_key: Option<ApiKey{n}>) -> Secret{n}<String> {{"),
        3 => format!("const secret = await vault.read('{a}/{b}{n}');"),
        4 => format!("api_key = os.environ[\"{}_API_KEY_{n}\"]", a.to_uppercase()),
        5 => format!("password=config.{a}.password{n}, secret=settings.{b}_secret_v{n}"),
        6 => format!("SELECT password_hash, token_id FROM {a} WHERE key = '{b}{n}'"),
        7 => format!(
            "{{\"type\":\"object\",\"properties\":{{\"password\":{{\"type\":\"string\",\"minLength\":{n}}},\"{a}\":{{}}}}}}"
        ),
        8 => format!("assert_eq!(sk_{a}({n}), pk_{b}({n})); re_{a}_{b}();"),
        9 => format!("secretKeyRef:\n  name: {a}-{b}-v{n}\n  key: password"),
        10 => format!("access_key: !Ref {a}AccessKey{n}\nprivate_key: file://{b}/server{n}.key"),
        11 => format!("self.client_secret = client_secret or Secret{n}Manager.{a}()"),
        12 => format!("git clone https://example.org:8443/{a}/{b}.git && cd {b}@{n}"),
        _ => format!("token = tokenizer.encode('{a}', add_special_tokens={n})"),
    }
}

/// Generates a placeholder for a secret.
fn placeholder(dice: &mut RandomText) -> String {
    let names = [
        "api_key",
        "API_KEY",
        "apiKey",
        "password",
        "PASSWORD",
        "secret",
        "client_secret",
        "access_token",
        "AUTH_TOKEN",
        "secret_key",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "OPENAI_API_KEY",
        "private_key",
    ];
    let name = dice.pick(&names);
    let n = dice.between(1, 9);
    let value = match dice.below(16) {
        0 => "YOUR_API_KEY_HERE_1".to_owned(),
        1 => "x".repeat(dice.between(8, 40)),
        2 => format!("<your-{name}-{n}>"),
        3 => format!("${{{}_{n}}}", name.to_uppercase()),
        4 => format!("{{{{ vault.{name}{n} }}}}"),
        5 => "changeme123!A".to_owned(),
        6 => "*".repeat(dice.between(8, 30)),
        7 => format!("my-secret-value-{n}A"),
        8 => format!("replace-with-real-value-{n}B"),
        9 => "0".repeat(dice.between(16, 40)),
        10 => "1234567890abcdefghijklmnopqrstuvwxyz"[..dice.between(16, 36)].to_owned(),
        11 => format!("$({name})"),
        12 => format!("example-{}-Key{n}", word(dice)),
        13 => format!("env.{}_{n}", name.to_uppercase()),
        14 => format!("[redacted:{}]", "generic-api-key"),
        _ => format!("test-{}-{n}K", word(dice)),
    };
    let prefix = if dice.below(4) == 0 {
        dice.pick(&["sk-", "ghp_", "sk_live_", "hf_", "xoxb-", "glpat-", "AKIA"])
    } else {
        ""
    };
    match dice.below(4) {
        0 => format!("{name}={prefix}{value}"),
        1 => format!("{name}: \"{prefix}{value}\""),
        2 => format!(r#"{{"{name}":"{prefix}{}"}}"#, RandomText::quoted(&value)),
        _ => format!("export {name}='{prefix}{value}'"),
    }
}
