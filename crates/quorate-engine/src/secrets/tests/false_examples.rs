//! False examples: typical messages between agents, and placeholders for secrets. Partly generated from a seed,
//! partly written by hand in `false.txt`, one example per line.

use super::random_text::{BASE62, BASE64, DIGITS, HEX, LOWER, RandomText, UPPER, URL64};

const BY_HAND: &str = include_str!("false.txt");

/// Generator of an example.
type Generator = fn(&mut RandomText) -> String;

const GENERATED: &[(&str, Generator)] = &[
    ("commit", |rng| format!("{} fix the {} of {}", rng.text(HEX, 40), word(rng), word(rng))),
    ("git log", |rng| {
        let (a, b) = (rng.text(HEX, 40), rng.text(HEX, 40));
        format!("commit {a}\\nMerge: {} {}\\nparent {b}\\n", &a[..7], &b[..7])
    }),
    ("uuid", |rng| format!(r#"{{"id":"{}","parent":"{}","kind":"{}"}}"#, rng.uuid(), rng.uuid(), word(rng))),
    ("uuid under a name", |rng| {
        let name = rng.pick(&["key", "token", "api_key", "clientSecret", "access_token", "idempotency_key"]);
        format!(r#"{{"{name}":"{}"}}"#, rng.uuid())
    }),
    ("image", |rng| {
        let size = rng.between(200, 4000);
        let kind = rng.pick(&["png", "jpeg", "webp", "gif"]);
        format!(r#"{{"image":"data:image/{kind};base64,{}"}}"#, rng.base64(size))
    }),
    ("attachment", |rng| {
        let size = rng.between(500, 6000);
        format!(r#"{{"name":"{}.pdf","encoding":"base64","content":"{}"}}"#, word(rng), rng.base64(size))
    }),
    ("embedding", |rng| {
        let numbers: Vec<String> = (0..32).map(|_| format!("-0.{}", rng.text(DIGITS, 8))).collect();
        format!(r#"{{"model":"embed-3","vector":[{}]}}"#, numbers.join(","))
    }),
    ("digests", |rng| {
        let length = [32, 40, 56, 64, 96, 128][rng.below(6)];
        let name =
            rng.pick(&["sha256", "md5", "digest", "etag", "checksum", "hash", "cache_key", "fingerprint"]);
        format!(r#"{{"{name}":"{}"}}"#, rng.text(HEX, length))
    }),
    ("container", |rng| format!("image: registry.example.org/team/app@sha256:{}", rng.text(HEX, 64))),
    ("npm lock", |rng| {
        format!(
            "\"node_modules/{}\": {{ \"version\": \"4.17.21\", \"integrity\": \"sha512-{}\" }}",
            word(rng),
            rng.base64(64)
        )
    }),
    ("cargo lock", |rng| {
        format!(
            "[[package]]\nname = \"{}\"\nversion = \"1.0.4\"\nchecksum = \"{}\"\n",
            word(rng),
            rng.text(HEX, 64)
        )
    }),
    ("python lock", |rng| {
        format!(
            "{}==2.31.0 \\\n    --hash=sha256:{} \\\n    --hash=sha256:{}",
            word(rng),
            rng.text(HEX, 64),
            rng.text(HEX, 64)
        )
    }),
    ("go sum", |rng| format!("github.com/acme/{} v1.8.0 h1:{}\n", word(rng), rng.base64(32))),
    ("prose", prose),
    ("prose about secrets", |rng| {
        let subject = rng.pick(&[
            "The password",
            "A token",
            "Your API key",
            "The secret",
            "Each access key",
            "The private key",
        ]);
        let verb = rng.pick(&[
            "must be rotated every",
            "is at least",
            "expires after",
            "was changed on day",
            "has a length of",
        ]);
        format!("{subject} {verb} {} and must not be shared. {}", rng.between(8, 90), prose(rng))
    }),
    ("message", message),
    ("task list", |rng| {
        let tasks: Vec<String> = (0..6).map(|_| message(rng)).collect();
        format!("[{}]", tasks.join(","))
    }),
    ("tool call", |rng| {
        let inner = format!(
            r#"{{"path":"src/{}.rs","query":"fn {}","max":{}}}"#,
            word(rng),
            word(rng),
            rng.between(1, 50)
        );
        format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"call_{}","arguments":"{}"}}]}}"#,
            rng.text(BASE62, 24),
            RandomText::quoted(&inner)
        )
    }),
    ("usage", |rng| {
        format!(
            r#"{{"model":"gpt-4o-mini-2024-07-18","usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}}},"max_tokens":4096,"system_fingerprint":"fp_{}"}}"#,
            rng.between(1, 9999),
            rng.between(1, 9999),
            rng.between(1, 9999),
            rng.text(HEX, 10)
        )
    }),
    ("lease", |rng| {
        format!(
            r#"{{"deliveryId":"dlv_0-{}","leaseToken":{},"attempt":1}}"#,
            rng.between(1, 99999),
            rng.text(DIGITS, 9)
        )
    }),
    ("page", |rng| {
        let name = rng.pick(&[
            "nextPageToken",
            "next_page_token",
            "cursor",
            "continuationToken",
            "syncToken",
            "pageToken",
        ]);
        let size = rng.between(24, 90);
        format!(r#"{{"items":[],"{name}":"{}"}}"#, rng.base64(size))
    }),
    ("code", code),
    ("placeholder", placeholder),
    ("certificate", |rng| {
        let kind = rng.pick(&[
            "CERTIFICATE",
            "PUBLIC KEY",
            "RSA PUBLIC KEY",
            "CERTIFICATE REQUEST",
            "PGP SIGNATURE",
        ]);
        let lines: Vec<String> = (0..8).map(|_| rng.text(BASE64, 64)).collect();
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----", lines.join("\n"))
    }),
    ("public key", |rng| {
        format!("ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB{} ann@example.org", rng.text(BASE64, 340))
    }),
    ("link", |rng| {
        format!(
            "https://{}.example.org:8443/{}/{}?id={}&v={}#{}",
            word(rng),
            word(rng),
            rng.text(LOWER, 11),
            rng.uuid(),
            rng.text(URL64, 22),
            word(rng)
        )
    }),
    ("object", |rng| {
        format!("s3://archive-{}/2026/{}/part-{}.parquet", word(rng), rng.text(HEX, 32), rng.text(DIGITS, 5))
    }),
    ("blob", |rng| rng.text(URL64, 600)),
    ("minified", |rng| {
        let mut text = String::new();
        for _ in 0..12 {
            text.push_str(&format!(
                "function {}({}){{return {}[{}]||{}}}",
                rng.text(LOWER, 2),
                word(rng),
                word(rng),
                rng.between(0, 99),
                rng.text(HEX, 6)
            ));
        }
        text
    }),
    ("certificates of a kubeconfig", |rng| {
        format!(
            "clusters:\n- cluster:\n    certificate-authority-data: {}\nusers:\n- name: ci\n  user:\n    client-certificate-data: {}\n",
            rng.base64(700),
            rng.base64(700)
        )
    }),
    ("environment of a container", |rng| {
        let name =
            rng.pick(&["LOG_LEVEL", "CACHE_DIGEST", "IMAGE", "TOKEN_ISSUER", "KEY_PREFIX", "MAX_TOKENS"]);
        format!("env:\n  - name: {name}\n    value: \"{}\"\n", rng.text(HEX, 32))
    }),
    ("device token", |rng| {
        let (device, token) = (rng.text(URL64, 22), rng.text(URL64, 134));
        format!(r#"{{"platform":"android","deviceId":"{device}:APA91b{token}"}}"#)
    }),
    ("vendor and digest", |rng| {
        let vendor =
            rng.pick(&["mailgun", "Airtable", "asana", "Azure DevOps", "Firebase", "Google", "kubectl"]);
        let length = [32, 40, 64][rng.below(3)];
        format!("{vendor} {} finished: digest {} and run {}", word(rng), rng.text(HEX, length), rng.uuid())
    }),
    ("port mapping", |rng| {
        format!(
            "docker run -p 127.0.0.1:5432:5432 -v {}:/data:ro registry/{}:1.{}",
            word(rng),
            word(rng),
            rng.between(1, 9)
        )
    }),
    ("csv", |rng| {
        let rows: Vec<String> = (0..8)
            .map(|_| {
                format!(
                    "{},{},{},{}",
                    rng.text(UPPER, 10),
                    rng.text(DIGITS, 12),
                    word(rng),
                    rng.text(HEX, 16)
                )
            })
            .collect();
        rows.join("\n")
    }),
];

/// Returns all false examples: `rounds` of each generated kind, and those written by hand, both plain and in JSON.
pub(super) fn all(rng: &mut RandomText, rounds: usize) -> Vec<(&'static str, String)> {
    let mut texts = Vec::new();
    for _ in 0..rounds {
        texts.extend(GENERATED.iter().map(|(kind, generate)| (*kind, generate(rng))));
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

fn word(rng: &mut RandomText) -> &'static str {
    rng.pick(WORDS)
}

fn prose(rng: &mut RandomText) -> String {
    let mut text = String::new();
    for _ in 0..rng.between(2, 5) {
        let (a, b, c, d) = (word(rng), word(rng), word(rng), word(rng));
        let sentence = match rng.below(6) {
            0 => format!("The {a} of the {b} is {c}: see the {d} on page {}. ", rng.between(1, 300)),
            1 => format!("Please check whether {a}-{b} needs a {c}, and tell the {d}. "),
            2 => format!(
                "We moved {a} from {b} to {c} in version {}.{}; the {d} stays. ",
                rng.between(0, 9),
                rng.between(0, 30)
            ),
            3 => format!("{a}: {b}, {c} and {d}. "),
            4 => format!("I reset the {a} {b} because the {c} {d} was out of date = true. "),
            _ => format!("\"{a}\" means {b}; \"{c}\" is {d} ({}%). ", rng.between(1, 99)),
        };
        text.push_str(&sentence);
    }
    text
}

fn message(rng: &mut RandomText) -> String {
    format!(
        r#"{{"messageId":"msg_0-{}-1","from":"{}","to":"{}","type":"command","action":"{}","payload":{{"text":"{}","confidence":0.{},"sha":"{}"}},"correlationId":"{}","timestamp":"2026-03-{:02}T10:{:02}:00.123Z","tokens":{}}}"#,
        rng.between(1, 99_999),
        word(rng),
        word(rng),
        word(rng),
        RandomText::quoted(&prose(rng)),
        rng.between(1, 99),
        rng.text(HEX, 40),
        rng.uuid(),
        rng.between(1, 28),
        rng.between(0, 59),
        rng.between(0, 5000)
    )
}

fn code(rng: &mut RandomText) -> String {
    let (a, b, n) = (word(rng), word(rng), rng.between(1, 9));
    match rng.below(14) {
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
fn placeholder(rng: &mut RandomText) -> String {
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
    let name = rng.pick(&names);
    let n = rng.between(1, 9);
    let value = match rng.below(16) {
        0 => "YOUR_API_KEY_HERE_1".to_owned(),
        1 => "x".repeat(rng.between(8, 40)),
        2 => format!("<your-{name}-{n}>"),
        3 => format!("${{{}_{n}}}", name.to_uppercase()),
        4 => format!("{{{{ vault.{name}{n} }}}}"),
        5 => "changeme123!A".to_owned(),
        6 => "*".repeat(rng.between(8, 30)),
        7 => format!("my-secret-value-{n}A"),
        8 => format!("replace-with-real-value-{n}B"),
        9 => "0".repeat(rng.between(16, 40)),
        10 => "1234567890abcdefghijklmnopqrstuvwxyz"[..rng.between(16, 36)].to_owned(),
        11 => format!("$({name})"),
        12 => format!("example-{}-Key{n}", word(rng)),
        13 => format!("env.{}_{n}", name.to_uppercase()),
        14 => format!("[redacted:{}]", "generic-api-key"),
        _ => format!("test-{}-{n}K", word(rng)),
    };
    let prefix = if rng.below(4) == 0 {
        rng.pick(&["sk-", "ghp_", "sk_live_", "hf_", "xoxb-", "glpat-", "AKIA"])
    } else {
        ""
    };
    match rng.below(4) {
        0 => format!("{name}={prefix}{value}"),
        1 => format!("{name}: \"{prefix}{value}\""),
        2 => format!(r#"{{"{name}":"{prefix}{}"}}"#, RandomText::quoted(&value)),
        _ => format!("export {name}='{prefix}{value}'"),
    }
}
