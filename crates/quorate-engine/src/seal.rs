//! Implements [`Seal`] with salts of the hub.

use bytes::Bytes;
use quorate_api::Seal;
use quorate_core::{Payload, Secret};

use crate::flag_screening::{is_flag_marker, is_marked};
use crate::space::Space;

impl Seal for Space {
    fn seal(&self, bytes: Bytes) -> Payload {
        Self::seal(self, bytes)
    }

    fn seal_message(&self, action: &str, metadata: Option<&str>, bytes: Bytes) -> Payload {
        let is_flag = is_flag_marker(action) || metadata.is_some_and(|text| is_marked(text.as_bytes()));
        match is_flag {
            true => self.seal_private(bytes),
            false => Self::seal(self, bytes),
        }
    }

    fn salt(&self) -> [u8; 16] {
        Self::salt(self)
    }

    fn generate_secret(&self) -> Secret {
        Self::generate_secret(self)
    }
}
