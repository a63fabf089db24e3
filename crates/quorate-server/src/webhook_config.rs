//! Inbound webhooks: external systems send events without a token, authenticated by a signature over the body.
//! Webhooks are configured when the hub starts, never over the network. `routes/webhooks.rs` handles the events.

use std::collections::BTreeMap;
use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use quorate_core::{Code, Destination, Refused, SpaceName, hex};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::app::DEFAULT_SPACE;

/// Maximum number of webhooks of a hub.
pub const WEBHOOKS_MAX: usize = 64;
/// Minimum length of a secret. A shorter one could be found by brute force from a single signed event.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 16;
/// Maximum length of a secret.
pub const WEBHOOK_SECRET_BYTES_MAX: usize = 4096;
/// Maximum length of a webhook name or event name. With their prefixes they become the origin and action of a
/// message.
const NAME_BYTES_MAX: usize = 64;

/// An inbound webhook and the destination of its events.
#[derive(Clone)]
pub struct Webhook {
    name: String,
    space: SpaceName,
    to: Destination,
    secret: Vec<u8>,
}

impl Webhook {
    /// Creates a webhook in the default space.
    ///
    /// # Errors
    /// `INVALID` for an invalid name, or a secret that is too short or too long. The error does not contain the
    /// secret.
    pub fn new(name: &str, to: Destination, secret: Vec<u8>) -> Result<Self, Refused> {
        if !is_valid_name(name) {
            return Err(Refused::new(Code::Invalid, format!("invalid webhook name {name:?}"))
                .hint(format!("use 1 to {NAME_BYTES_MAX} characters: letters, digits, '-', '_' and '.'")));
        }
        if !(WEBHOOK_SECRET_BYTES_MIN..=WEBHOOK_SECRET_BYTES_MAX).contains(&secret.len()) {
            let detail = format!("invalid secret of webhook {name}: it has {} bytes", secret.len());
            let range = format!("{WEBHOOK_SECRET_BYTES_MIN} to {WEBHOOK_SECRET_BYTES_MAX}");
            return Err(Refused::new(Code::Invalid, detail)
                .hint(format!("use {range} bytes, for example from: openssl rand -hex 32")));
        }
        Ok(Self { name: name.to_owned(), space: SpaceName::new(DEFAULT_SPACE)?, to, secret })
    }

    /// Moves the webhook to another space.
    #[must_use]
    pub fn in_space(self, space: SpaceName) -> Self {
        Self { space, ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn space(&self) -> &SpaceName {
        &self.space
    }

    pub(crate) fn to(&self) -> &Destination {
        &self.to
    }
}

impl fmt::Debug for Webhook {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).field("to", &self.to).finish_non_exhaustive()
    }
}

/// All webhooks of a hub.
#[derive(Clone, Default, Debug)]
pub struct Webhooks(BTreeMap<String, Webhook>);

impl Webhooks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Validates a list of webhooks.
    ///
    /// # Errors
    /// `INVALID` for a duplicate name, `LIMIT_EXCEEDED` for more than [`WEBHOOKS_MAX`] webhooks.
    pub fn new(list: Vec<Webhook>) -> Result<Self, Refused> {
        if list.len() > WEBHOOKS_MAX {
            return Err(Refused::new(Code::LimitExceeded, format!("too many webhooks: {}", list.len()))
                .limit(WEBHOOKS_MAX as u64)
                .hint(
                    "use one webhook for several kinds of events; the kind is part of the message's action",
                ));
        }
        let mut webhooks = BTreeMap::new();
        for webhook in list {
            if let Some(other) = webhooks.insert(webhook.name.clone(), webhook) {
                let detail = format!("duplicate webhook name {}", other.name);
                return Err(Refused::new(Code::Invalid, detail)
                    .hint("use a unique name for each webhook; to reach several agents, send to a topic"));
            }
        }
        Ok(Self(webhooks))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Webhook> {
        self.0.values()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the webhook of this name if the signature is valid: `sha256=` and the HMAC-SHA-256 of the body in hex.
    /// Does the same work for unknown names, so that timing does not reveal which names exist.
    pub(crate) fn authenticate(&self, name: &str, signature: Option<&str>, body: &[u8]) -> Option<&Webhook> {
        let webhook = self.0.get(name);
        let secret = webhook.map_or(&b"nobody knows a webhook of this name"[..], |webhook| &webhook.secret);
        let signature = signature.and_then(|text| hex::decode::<32>(text.strip_prefix("sha256=")?));
        let matches = hmac(secret, body).ct_eq(&signature.unwrap_or_default());
        webhook.filter(|_| signature.is_some() && bool::from(matches))
    }
}

/// HMAC-SHA-256 (RFC 2104).
fn hmac(secret: &[u8], body: &[u8]) -> [u8; 32] {
    // HMAC accepts keys of any length, so this cannot fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return [0; 32] };
    mac.update(body);
    mac.finalize().into_bytes().into()
}

/// Whether a text may be part of an origin or action. These appear in the log, and agents filter by them.
pub(crate) fn is_valid_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use quorate_core::hex;

    use super::{Webhook, Webhooks, hmac, is_valid_name};

    const SECRET: &[u8] = b"It's a Secret to Everybody";

    fn webhook(name: &str) -> Webhook {
        Webhook::new(name, "bob".parse().expect("an agent"), SECRET.to_vec()).expect("a webhook")
    }

    // Fails under: another hash function; a long key that is truncated or not hashed; a modified body.
    #[test]
    fn e1_hmac_matches_the_vectors_of_rfc_4231() {
        let long = [0xaa; 131];
        let fifty = |byte| [byte; 50];
        let count: Vec<u8> = (1..=25).collect();
        let both: &[u8] =
            b"This is a test using a larger than block-size key and a larger than block-size data. \
            The key needs to be hashed before being used by the HMAC algorithm.";
        let vectors: [(&[u8], &[u8], &str); 6] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (&[0xaa; 20], &fifty(0xdd), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
            (&count, &fifty(0xcd), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
            (
                &long,
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
            (&long, both, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"),
        ];
        for (key, data, code) in vectors {
            assert_eq!(hmac(key, data), hex::decode(code).expect("hex"));
        }
    }

    // The example of GitHub's documentation. Fails under: a signature that does not cover the exact bytes.
    #[test]
    fn e1_a_signature_is_bound_to_name_secret_and_body() {
        let webhooks = Webhooks::new(vec![webhook("github")]).expect("webhooks");
        let valid = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let is_valid = |name: &str, signature: &str, body: &[u8]| {
            webhooks.authenticate(name, Some(signature), body).is_some()
        };
        assert!(is_valid("github", valid, b"Hello, World!"));
        assert!(is_valid("github", &valid.to_uppercase().replace("SHA256", "sha256"), b"Hello, World!"));
        assert!(!is_valid("github", valid, b"Hello, World"));
        assert!(!is_valid("gitlab", valid, b"Hello, World!"));
        for invalid in [
            "",
            "sha256=",
            &valid[7..],
            &valid[..70],
            &valid.replace("sha256", "sha1"),
            "sha256=zz",
            &valid.replace('7', "é"),
        ] {
            assert!(!is_valid("github", invalid, b"Hello, World!"), "{invalid}");
        }
        assert!(webhooks.authenticate("github", None, b"").is_none());
        // The placeholder secret used for unknown names authenticates no one.
        let placeholder = hmac(b"nobody knows a webhook of this name", b"x");
        let hex = hex::encode(&placeholder);
        assert!(!is_valid("gitlab", &format!("sha256={hex}"), b"x"));
        assert!(!is_valid("github", &format!("sha256={}", "0".repeat(64)), b"x"));
    }

    #[test]
    fn e1_names_and_secrets_are_validated_and_secrets_are_not_printed() {
        for name in ["", "a b", "../x", "é", &"x".repeat(65)] {
            assert!(!is_valid_name(name), "{name}");
            assert!(Webhook::new(name, "bob".parse().expect("an agent"), SECRET.to_vec()).is_err());
        }
        for secret in [&b""[..], b"short", &[b'x'; 4097]] {
            let refused = Webhook::new("a", "bob".parse().expect("an agent"), secret.to_vec());
            assert!(!refused.expect_err("too short").detail.contains("short"));
        }
        assert!(!format!("{:?}", webhook("a")).contains("Secret"));
        assert!(Webhooks::new(vec![webhook("a"), webhook("a")]).is_err());
        assert!(Webhooks::new((0..65).map(|n| webhook(&n.to_string())).collect()).is_err());
    }
}
