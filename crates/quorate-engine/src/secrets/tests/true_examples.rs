//! True examples, generated from the documented formats of the vendors: prefixes, alphabets and lengths. None of them
//! is valid, and none is stored in the repository.

use super::random_text::{
    BASE32, BASE32_LOWER, BASE62, BASE64, DIGITS, HEX, LETTERS, LOWER, RandomText, UPPER, URL64,
};

/// Text that contains a secret.
pub(super) struct TrueExample {
    /// Expected rule.
    pub(super) rule: &'static str,
    /// Text as an agent would write it.
    pub(super) text: String,
    /// The token, or the passage with the name and the secret, without surrounding text.
    pub(super) bare: String,
    /// The part that must be redacted.
    pub(super) core: String,
}

/// Tokens that are recognized by their format: prefix, alphabet, length.
const PLAIN: &[(&str, &str, &str, usize)] = &[
    ("quorate-token", "qrt_", BASE62, 49),
    ("quorate-token", "qrt_", URL64, 48),
    ("age-secret-key", "AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    ("aws-access-key-id", "AKIA", BASE32, 16),
    ("aws-access-key-id", "ASIA", BASE32, 16),
    ("google-api-key", "AIza", URL64, 35),
    ("google-client-secret", "GOCSPX-", URL64, 28),
    ("google-oauth-token", "ya29.", URL64, 180),
    ("google-refresh-token", "1//0g", URL64, 95),
    ("alibaba-access-key-id", "LTAI", BASE62, 20),
    ("tencent-secret-id", "AKID", BASE62, 32),
    ("yandex-api-key", "AQVN", URL64, 36),
    ("digitalocean-token", "dop_v1_", HEX, 64),
    ("digitalocean-token", "doo_v1_", HEX, 64),
    ("heroku-api-key", "HRKU-", URL64, 60),
    ("fly-token", "fo1_", URL64, 43),
    ("fly-token", "fm2_", BASE64, 240),
    ("netlify-token", "nfp_", BASE62, 36),
    ("supabase-key", "sbp_", HEX, 40),
    ("supabase-key", "sb_secret_", URL64, 31),
    ("planetscale-token", "pscale_tkn_", URL64, 43),
    ("planetscale-token", "pscale_pw_", URL64, 43),
    ("pulumi-token", "pul-", HEX, 40),
    ("vault-token", "hvs.", URL64, 91),
    ("vault-token", "hvb.", URL64, 140),
    ("doppler-token", "dp.pt.", BASE62, 43),
    ("doppler-token", "dp.st.prd.", BASE62, 43),
    ("onepassword-token", "ops_eyJ", BASE62, 320),
    ("aws-bedrock-api-key", "ABSK", BASE64, 128),
    ("github-token", "ghp_", BASE62, 36),
    ("github-token", "gho_", BASE62, 36),
    ("github-token", "ghs_", BASE62, 36),
    ("github-token", "ghr_", BASE62, 76),
    ("gitlab-token", "glpat-", URL64, 20),
    ("gitlab-token", "gldt-", URL64, 20),
    ("gitlab-token", "glrt-", URL64, 20),
    ("gitlab-token", "GR1348941", URL64, 20),
    ("bitbucket-token", "ATBB", BASE62, 32),
    ("atlassian-token", "ATATT3xFfGF0", URL64, 170),
    ("npm-token", "npm_", BASE62, 36),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc", URL64, 150),
    ("rubygems-token", "rubygems_", HEX, 48),
    ("crates-io-token", "cio", BASE62, 32),
    ("nuget-token", "oy2", LOWER, 43),
    ("docker-hub-token", "dckr_pat_", URL64, 27),
    ("jfrog-token", "AKCp", BASE62, 69),
    ("jfrog-token", "cmVmdGtu", BASE62, 56),
    ("sonar-token", "sqp_", HEX, 40),
    ("buildkite-token", "bkua_", HEX, 40),
    ("anthropic-api-key", "sk-ant-api03-", URL64, 95),
    ("anthropic-api-key", "sk-ant-oat01-", URL64, 95),
    ("openai-api-key", "sk-proj-", URL64, 156),
    ("openai-api-key", "sk-svcacct-", URL64, 120),
    ("openai-api-key", "sk-", BASE62, 48),
    ("openai-api-key", "sk-", HEX, 32),
    ("openrouter-api-key", "sk-or-v1-", HEX, 64),
    ("groq-api-key", "gsk_", BASE62, 52),
    ("xai-api-key", "xai-", BASE62, 80),
    ("huggingface-token", "hf_", LETTERS, 34),
    ("replicate-token", "r8_", BASE62, 37),
    ("perplexity-api-key", "pplx-", BASE62, 48),
    ("nvidia-api-key", "nvapi-", URL64, 64),
    ("cerebras-api-key", "csk-", LOWER, 48),
    ("elevenlabs-api-key", "sk_", HEX, 48),
    ("tavily-api-key", "tvly-dev-", BASE62, 32),
    ("pinecone-api-key", "pcsk_", BASE62, 70),
    ("firecrawl-api-key", "fc-", HEX, 32),
    ("resend-api-key", "re_Ab3dEf9h_", BASE62, 24),
    ("stripe-key", "sk_live_", BASE62, 24),
    ("stripe-key", "sk_test_", BASE62, 99),
    ("stripe-key", "rk_live_", BASE62, 99),
    ("webhook-signing-secret", "whsec_", BASE62, 32),
    ("square-token", "sq0atp-", URL64, 22),
    ("square-token", "sq0csp-", URL64, 43),
    ("shopify-token", "shpat_", HEX, 32),
    ("shopify-token", "shpss_", HEX, 32),
    ("notion-token", "ntn_", BASE62, 46),
    ("notion-token", "secret_", BASE62, 43),
    ("linear-api-key", "lin_api_", BASE62, 40),
    ("figma-token", "figd_", URL64, 40),
    ("clickup-token", "pk_4826193_", UPPER, 32),
    ("dropbox-token", "sl.", URL64, 140),
    ("sentry-token", "sntryu_", HEX, 64),
    ("new-relic-key", "NRAK-", UPPER, 27),
    ("grafana-token", "glc_", BASE62, 120),
    ("databricks-token", "dapi", HEX, 32),
];

/// Tokens with an inner structure: each `%` is followed by the letter of an alphabet and a two-digit length, or by `u`.
/// h = hexadecimal, a = letters and digits, b = lowercase Base32, w = URL Base64, 6 = Base64, d = digits, l = lowercase, U = uppercase.
const STRUCTURED: &[(&str, &str)] = &[
    ("github-fine-grained-token", "github_pat_%a22_%a59"),
    ("circleci-token", "CCIPAT_%a22_%h40"),
    ("postman-token", "PMAK-%h24-%h34"),
    ("langfuse-secret-key", "sk-lf-%u"),
    ("langsmith-api-key", "lsv2_pt_%h32_%h10"),
    ("slack-token", "xoxb-%d12-%d13-%a24"),
    ("slack-token", "xoxp-%d12-%d12-%d12-%h32"),
    ("slack-app-token", "xapp-1-A%U10-%d13-%h64"),
    ("sendgrid-api-key", "SG.%w22.%w43"),
    ("brevo-api-key", "xkeysib-%h64-%a16"),
    ("mailchimp-api-key", "%h32-us14"),
    ("mailchimp-api-key", "%h32-us6"),
    ("braintree-token", "access_token$production$%l16$%h32"),
    ("plaid-token", "access-production-%u"),
    ("hubspot-token", "pat-na1-%u"),
    ("mapbox-secret-token", "sk.eyJ%a60.%w22"),
    ("sentry-token", "sntrys_eyJ%a80_%a43"),
    ("grafana-token", "glsa_%a32_%h08"),
    ("dynatrace-token", "dt0c01.%U24.%U64"),
    ("tailscale-key", "tskey-auth-k%a16-%a32"),
    ("telegram-bot-token", "%d10:AA%w33"),
    ("terraform-cloud-token", "%a14.atlasv1.%w67"),
    ("azure-client-secret", "%a03%d01Q~%a34"),
    ("azure-devops-token", "%a76AZDO%a04"),
    ("cloudflare-origin-ca-key", "v1.0-%h24-%h99%h47"),
    ("firebase-server-key", "AAAA%w07:APA91b%w99%w35"),
    ("jwt", "eyJhbGciOiJI%w25.eyJzdWIi%w90.%w43"),
    ("jwt", "eyJ0eXAiOiJK%w60.eyJpc3Mi%w99%w80.%w86"),
];

/// Secrets that are recognized by their context; the secret is the part in braces.
const NAMED: &[(&str, &str)] = &[
    ("aws-secret-access-key", "aws_secret_access_key = {%640}"),
    ("aws-secret-access-key", "AWS_SECRET_ACCESS_KEY={%640}"),
    ("aws-secret-access-key", "\"SecretAccessKey\": \"{%640}\""),
    ("aws-secret-access-key", "\"secretAccessKey\":\"{%640}\""),
    ("aws-session-token", "AWS_SESSION_TOKEN={%699%699}"),
    (
        "azure-storage-key",
        "DefaultEndpointsProtocol=https;AccountName=archive;AccountKey={%686==};EndpointSuffix=core",
    ),
    (
        "azure-shared-access-key",
        "Endpoint=sb://bus.example.net/;SharedAccessKeyName=Root;SharedAccessKey={%643=}",
    ),
    ("azure-sas-signature", "https://store.example.net/box?sv=2022-11-02&sp=r&sig={%a45%3D}"),
    ("heroku-api-key", "HEROKU_API_KEY={%u}"),
    ("heroku-api-key", "heroku auth:token said the token is: {%u}"),
    ("cloudflare-api-token", "CLOUDFLARE_API_TOKEN={%w38Z7}"),
    ("cloudflare-api-token", "cf_api_token: \"{%w38aZ}\""),
    ("vercel-token", "VERCEL_TOKEN={%a22Q7}"),
    ("vault-token", "VAULT_TOKEN=s.{%a24}"),
    ("docker-config-auth", "{\"auths\":{\"registry.example.org\":{\"auth\":\"{%a40}\"}}}"),
    ("model-api-key", "MISTRAL_API_KEY={%a30Q7}"),
    ("model-api-key", "cohere_api_key: '{%a38x9}'"),
    ("slack-webhook", "https://hooks.slack.com/services/T{%U10/B%U10/%a24}"),
    ("discord-webhook", "https://discord.com/api/webhooks/%d18/{%w68}"),
    ("discord-bot-token", "DISCORD_TOKEN=M{%a25.%w06.%w38}"),
    ("telegram-bot-token", "https://api.telegram.example/bot{%d10:AA%w33}/getMe"),
    ("teams-webhook", "https://acme.webhook.office.com/webhookb2/{%u@%u/IncomingWebhook/%h32/%u}"),
    ("twilio-token", "TWILIO_AUTH_TOKEN={%h32}"),
    ("twilio-token", "{\"service\":\"twilio\",\"account\":\"main\",\"authToken\":\"{%h32}\"}"),
    ("mailgun-api-key", "MAILGUN_API_KEY=key-{%h32}"),
    ("mailgun-api-key", "mailgun.private_key: {%h32-%h08-%h08}"),
    ("mailgun-api-key", "our mailgun domain is live, use key-{%h32} until Friday"),
    ("mailgun-api-key", "{%h32-%h08-%h08} works with the Mailgun API"),
    ("airtable-token", "AIRTABLE_API_KEY=pat{%a14.%h64}"),
    ("airtable-token", "The new Airtable base opens with pat{%a14.%h64}, please try it"),
    ("airtable-token", "pat{%a14.%h64} is the token of our airtable base"),
    ("asana-token", "ASANA_ACCESS_TOKEN=1/%d16:{%h32}"),
    ("asana-token", "log in to Asana with 2/%d16/%d16:{%l32} and close the task"),
    ("asana-token", "0/{%h32} (asana, project sync)"),
    ("azure-devops-token", "AZURE_DEVOPS_EXT_PAT={%b52}"),
    ("azure-devops-token", "pushed to https://dev.azure.com/acme/web with {%b52} today"),
    ("azure-devops-token", "{%b52} is for the Azure DevOps feed"),
    ("google-hmac-access-id", "gs_access_key_id = GOOG1E{%U55}"),
    ("google-hmac-access-id", "the bucket is read with GOOG{%U17K7A} for now"),
    ("firebase-secret", "the Firebase database secret is {%a38Q7}"),
    ("npm-registry-auth", "//registry.example.org/:_auth={%a22Q7}"),
    ("npm-registry-auth", "always-auth=true\n_auth = \"{%a36Z9}==\""),
    ("npm-registry-auth", "{\"_auth\":\"{%a30Q7}==\"}"),
    ("datadog-key", "DD_API_KEY={%h32}"),
    ("datadog-key", "datadog: {\"app_key\": \"{%h40}\"}"),
    ("okta-token", "OKTA_API_TOKEN=00{%w40}"),
    ("algolia-admin-key", "ALGOLIA_ADMIN_KEY={%h32}"),
    ("database-url", "postgres://app:{%a14}@db.internal:5432/orders"),
    ("database-url", "postgresql+asyncpg://svc_orders:{%w20}@10.0.3.7/orders"),
    ("database-url", "mongodb+srv://reader:{%a12}@cluster0.mongodb.example/?w=majority"),
    ("database-url", "mysql://shop:{%a09}@mysql:3306/shop"),
    ("database-url", "redis://:{%a32}@cache-1:6379/0"),
    ("database-url", "amqps://worker:{%a16}@queue.internal/prod"),
    ("basic-auth-url", "https://deploy:{%a18}@git.example.org/team/repo.git"),
    ("basic-auth-url", "ftp://backup:{%a10}@files.example.org/nightly"),
    ("curl-user", "curl -s -u admin:{%a12} https://api.example.org/v1/users"),
    ("basic-authorization", "Authorization: Basic {%a36}"),
    ("basic-authorization", "{\"headers\":{\"authorization\":\"Basic {%a48==}\"}}"),
    ("bearer-token", "Authorization: Bearer {%a40}"),
    ("bearer-token", "curl -H 'Authorization: Bearer {%w64}' https://api.example.org"),
    ("netrc-password", "machine git.example.org login bot password {%a20}"),
    ("jdbc-url", "jdbc:postgresql://db.internal:5432/shop?user=app&password={%a10}&ssl=true"),
    ("jdbc-url", "jdbc:oracle:thin:app_owner/{%a10}@db.internal:1521:ORCL"),
    ("jdbc-url", "jdbc:sqlserver://db.internal:1433;databaseName=shop;user=sa;password={%a12};encrypt=true"),
    ("pgpass", "db.internal:5432:orders:app:{%a10}Zq7"),
    ("pgpass", "db-2:5432:*:replicator:{%l16x7}"),
    ("oracle-connect-string", "sqlplus app_owner/{%a10}@//db.internal:1521/ORCL @report.sql"),
    ("oracle-connect-string", "sqlplus -s -L system/\"{%a09}x7\"@orcl"),
    ("oracle-connect-string", "impdp userid=system/{%a10}@orcl directory=dumps"),
    ("oracle-connect-string", "sqlplus reports/{%a12}Z7#"),
    ("kubeconfig-client-key", "    client-key-data: {%699%699%699}"),
    ("kubeconfig-client-key", "{\"name\":\"dev\",\"user\":{\"client-key-data\":\"{%699%699==}\"}}"),
    ("kubeconfig-token", "users:\n- name: ci\n  user:\n    token: {%a38Q7}\n"),
    ("kubernetes-env-secret", "env:\n  - name: DB_PASSWORD\n    value: \"{%a10Zq7}\"\n"),
    ("kubernetes-env-secret", "        - name: STRIPE_WEBHOOK_SECRET\n          value: {%l30k7}\n"),
    ("kubernetes-env-secret", "- {name: WEATHER_API_KEY, value: {%h32}}"),
    ("php-define", "define('DB_PASSWORD', '{%a10Zq7}');"),
    ("php-define", "define( \"API_KEY\", \"{%h32}\" );"),
    ("php-define", "define('NONCE_SALT', '%a10 |{%a20$Zq7)%a16}');"),
    ("rails-secret-key-base", "secret_key_base: {%h99%h29}"),
    ("rails-secret-key-base", "SECRET_KEY_BASE={%h64}"),
    ("command-line-secret", "deployctl login --token {%a32} --region eu"),
    ("command-line-secret", "mysqldump --password={%a06}Zx9! shop"),
    ("generic-api-key", "api_key = \"{%a32}\""),
    ("generic-api-key", "{\"apiKey\":\"{%a40}\"}"),
    ("generic-api-key", "WEATHER_API_KEY={%h32}"),
    ("generic-api-key", "X-Api-Key: {%a24}"),
    ("generic-api-key", "{\"name\":\"SERVICE_API_KEY\",\"value\":\"{%a32}\"}"),
    ("generic-api-key", "encryption_key: '{%643=}'"),
    ("generic-api-key", "settings[\"SECRET_KEY\"] = '{%a50}'"),
    ("generic-secret", "client_secret: {%a32}"),
    ("generic-secret", "{\"clientSecret\":\"{%w40}\"}"),
    ("generic-secret", "WEBHOOK_SECRET={%h64}"),
    ("generic-secret", "<appsecret>{%a28}</appsecret>"),
    ("generic-token", "{\"access_token\":\"{%w64}\",\"token_type\":\"bearer\"}"),
    ("generic-token", "refresh_token={%a48}&grant_type=refresh_token"),
    ("generic-token", "authToken: '{%a36}'"),
    ("environment-token", "export SENTINEL_TOKEN={%a40}"),
    ("environment-token", "PLATFORM_TOKEN=\"{%w43}\""),
    ("generic-password", "password = \"{%a09}K7!\""),
    ("generic-password", "{\"user\":\"ann\",\"password\":\"{%a10}aZ9\"}"),
    ("generic-password", "DB_PASSWORD={%a08}#4rT"),
    ("generic-password", "the password is {%a08}!7Qx for now"),
    ("generic-password", "passwd: '{%a06}$w0Rd5'"),
    ("generic-password", "Server=db;Database=shop;User Id=sa;Password={%a09}!2aB;"),
    ("generic-password", "spring.datasource.password={%a08}Zq7*"),
    (
        "private-key",
        "-----BEGIN RSA PRIVATE KEY-----\n{%664\n%664\n%664\n%640==}\n-----END RSA PRIVATE KEY-----\n",
    ),
    ("private-key", "-----BEGIN PRIVATE KEY-----\n{%664\n%664\n%664}\n-----END PRIVATE KEY-----"),
    (
        "private-key",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n{%670\n%670\n%670}\n-----END OPENSSH PRIVATE KEY-----\n",
    ),
    (
        "private-key",
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,%U32\n\n{%664\n%664}\n-----END EC PRIVATE KEY-----",
    ),
    (
        "private-key",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{%664\n%664}\n-----END PGP PRIVATE KEY BLOCK-----",
    ),
    (
        "private-key",
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n{%648}\nPrivate-MAC: x",
    ),
];

/// Returns all true examples: `rounds` of each format, each in a different context.
pub(super) fn all(rng: &mut RandomText, rounds: usize) -> Vec<TrueExample> {
    let mut examples = Vec::new();
    for _ in 0..rounds {
        for (rule, prefix, alphabet, length) in PLAIN {
            let tail = rng.text(alphabet, *length);
            let bare = format!("{prefix}{tail}");
            examples.push(TrueExample { rule, text: around_a_token(rng, &bare), bare, core: tail });
        }
        for (rule, template) in STRUCTURED {
            let (bare, _) = fill(rng, template);
            let text = around_a_token(rng, &bare);
            examples.push(TrueExample { rule, text, core: bare.clone(), bare });
        }
        for (rule, template) in NAMED {
            let (bare, core) = fill(rng, template);
            examples.push(TrueExample { rule, text: around_a_passage(rng, &bare), bare, core });
        }
    }
    examples
}

/// Fills a template. Also returns the part between its braces.
fn fill(rng: &mut RandomText, template: &str) -> (String, String) {
    let (mut text, mut secret) = (String::new(), None);
    let mut rest = template;
    while let Some(ch) = rest.chars().next() {
        rest = &rest[ch.len_utf8()..];
        match (ch, rest.as_bytes()) {
            // JSON has braces too; those of a secret start with a wildcard.
            ('{', [b'%', ..]) => secret = Some((text.len(), None)),
            ('}', _) if matches!(secret, Some((_, None))) => {
                secret = secret.map(|(start, _)| (start, Some(text.len())));
            }
            ('%', [b'u', ..]) => {
                text.push_str(&rng.uuid());
                rest = &rest[1..];
            }
            ('%', [kind, tens, ones, ..]) if alphabet(*kind).is_some() && ones.is_ascii_digit() => {
                let length = usize::from(tens - b'0') * 10 + usize::from(ones - b'0');
                text.push_str(&rng.text(alphabet(*kind).expect("an alphabet"), length));
                rest = &rest[3..];
            }
            _ => text.push(ch),
        }
    }
    let core = match secret {
        Some((start, Some(end))) => text[start..end].to_owned(),
        _ => text.clone(),
    };
    (text, core)
}

fn alphabet(code: u8) -> Option<&'static str> {
    Some(match code {
        b'h' => HEX,
        b'a' => BASE62,
        b'w' => URL64,
        b'6' => BASE64,
        b'd' => DIGITS,
        b'l' => LOWER,
        b'b' => BASE32_LOWER,
        b'U' => UPPER,
        _ => return None,
    })
}

/// Embeds a token in prose, JSON, nested JSON, files or code.
fn around_a_token(rng: &mut RandomText, token: &str) -> String {
    match rng.below(12) {
        0 => format!("Here it is: {token} (valid until Friday)"),
        1 => format!(r#"{{"note":"use {token} for now","priority":2}}"#),
        2 => format!(r#"{{"credentials":["{token}"]}}"#),
        3 => format!("const client = connect('{token}');"),
        4 => format!("host: example.org\ncredential: {token}\nretries: 3\n"),
        5 => format!("https://api.example.org/v1/items?page=2&auth={token}&sort=asc"),
        6 => format!(r#"{{"log":"started\nusing {token}\nready"}}"#),
        7 => token.to_owned(),
        8 => format!("| service | credential |\n|---|---|\n| billing | `{token}` |"),
        9 => format!(r#"{{"text":"line one\n{token}\nline three"}}"#),
        10 => {
            let inner = format!(r#"{{"credential":"{token}","scope":"all"}}"#);
            format!(r#"{{"arguments":"{}"}}"#, RandomText::quoted(&inner))
        }
        _ => {
            let inner = format!(r#"{{"env":"A=1\nB={token}\nC=3"}}"#);
            format!(r#"{{"payload":"{}"}}"#, RandomText::quoted(&inner))
        }
    }
}

/// Embeds a passage: plain, in JSON, in nested JSON, and with the escapes of some serializers.
fn around_a_passage(rng: &mut RandomText, passage: &str) -> String {
    let quoted = RandomText::quoted(passage);
    match rng.below(6) {
        0 => passage.to_owned(),
        1 => format!("Please keep this:\n{passage}\nThanks."),
        2 => format!(r#"{{"content":"{quoted}"}}"#),
        3 => format!(r#"{{"content":"before\n{quoted}\nafter","n":1}}"#),
        4 => format!(r#"{{"arguments":"{}"}}"#, RandomText::quoted(&format!(r#"{{"file":"{quoted}"}}"#))),
        _ => {
            let escaped = quoted.replace('/', "\\/").replace('+', "\\u002B").replace('&', "\\u0026");
            format!(r#"{{"content":"{escaped}"}}"#)
        }
    }
}
