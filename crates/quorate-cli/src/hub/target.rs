//! Selects the hub and the token for a command, and ensures that a token is sent only where its owner chose to send it.
//!
//! A project's `quorate.yaml`, or a directory with a `ready.json`, may have been written by a third party, who must not be able
//! to obtain a token with it. A token is therefore sent only to
//! - the URL that the user sets (flag, variable, or the user's file),
//! - the hub running on the data directory: its process holds the lock of the directory, and the directory belongs to the user
//!   or was named by the user,
//! - the default URL on this machine, if nothing is configured,
//!
//! and never to a URL that only a project sets. The admin token of a data directory is sent to the hub running there, or to a
//! loopback address if the user set both. `docs/guides/command-line.md` documents this for users.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_client::Error;
use quorate_core::{Code, Refused, Secret};
use serde_json::Value;

use super::{ADMIN_TOKEN_FILE, READY_FILE};
use crate::config::{Key, Origin, Setting, Settings};
use crate::exit::{CommandError, PERMISSION_HINT, USAGE, error_with_code};

/// Timeout of the connection attempt that distinguishes a missing hub from a missing token.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Source of the hub's URL.
enum UrlSource {
    /// A flag, a variable or the user's file.
    User,
    /// Only the project's file.
    Project(Origin),
    /// The hub running on the data directory.
    Hub,
    /// The default URL.
    Default,
}

/// The URL of the hub and its source.
pub(crate) struct HubTarget {
    pub(crate) url: String,
    source: UrlSource,
    data: PathBuf,
    /// Whether the user set the data directory, rather than a project.
    is_data_from_user: bool,
}

impl HubTarget {
    /// Determines the hub: the URL, or the hub running on the data directory, whichever is set on the higher level.
    pub(crate) fn resolve(settings: &Settings, flag: Option<&Path>) -> anyhow::Result<Self> {
        let data = flag.map_or_else(|| settings.data(), Path::to_owned);
        let is_data_from_user = settings.get(Key::Data).is_some_and(|setting| !setting.origin.is_project());
        let target = |url: String, source| Self { url, source, data: data.clone(), is_data_from_user };
        let trusted = || -> anyhow::Result<Option<String>> {
            let url = running_hub_url(&data);
            if url.is_some() && !is_data_from_user {
                refuse_foreign(&data)?;
            }
            Ok(url)
        };
        if let Some((Key::Url, url)) = settings.first_set([Key::Url, Key::Data]) {
            // The URL is the one of the hub running on the data directory, which is trusted without further settings.
            let is_of_hub =
                ReadyFile::read(&data).is_some_and(|ready| ready.url == url.value) && trusted()?.is_some();
            let source = if is_of_hub { UrlSource::Hub } else { url_source(settings, url) };
            return Ok(target(url.value.clone(), source));
        }
        match (trusted()?, flag, settings.get(Key::Url)) {
            (Some(url), _, _) => Ok(target(url, UrlSource::Hub)),
            (None, Some(_), _) => Err(no_hub_running(&data).into()),
            (None, None, Some(url)) => Ok(target(url.value.clone(), url_source(settings, url))),
            (None, None, None) if is_data_from_user => Err(no_hub_running(&data).into()),
            (None, None, None) => Ok(target(Key::Url.default_value().to_owned(), UrlSource::Default)),
        }
    }

    /// Returns the token for the hub and its source: the configured token, or else the admin token of the data directory.
    pub(super) fn token(&self, settings: &Settings) -> anyhow::Result<(Secret, String)> {
        if let UrlSource::Project(origin) = &self.source {
            let message = format!("refusing to send a token to {}, which only {origin} sets", self.url);
            let hint = format!(
                "if you trust this hub, set it with --url {}, QUORATE_URL,\nor `url` in the user's file (see `quorate config path`)",
                self.url
            );
            return Err(CommandError::new(USAGE, message, hint).into());
        }
        let (text, source) = match settings.first_set([Key::Token, Key::TokenFile]) {
            Some((Key::Token, token)) => (token.value.clone(), token.origin.to_string()),
            Some((_, file)) => (read_token_file(file)?, file.value.clone()),
            None => {
                let file = self.data.join(ADMIN_TOKEN_FILE);
                (self.admin_token(&file)?, file.display().to_string())
            }
        };
        match text.trim().parse() {
            Ok(secret) => Ok((secret, source)),
            Err(error) => {
                let hint = format!("it was read from {source}; create a new one with `quorate token create`");
                Err(Error::from(Refused::new(Code::Unauthenticated, format!("{error}")).hint(hint)).into())
            }
        }
    }

    /// Reads the admin token of the data directory, if it may be sent to this hub.
    fn admin_token(&self, file: &Path) -> anyhow::Result<String> {
        let content = std::fs::read_to_string(file);
        match (&self.source, content) {
            (UrlSource::Hub, Ok(text)) => Ok(text),
            (UrlSource::User, Ok(text)) if self.is_data_from_user && self.is_loopback() => Ok(text),
            (_, Err(error)) if error.kind() == ErrorKind::PermissionDenied => {
                Err(permission_denied(&self.data).into())
            }
            // A missing token is worth reporting only if a hub is listening.
            (UrlSource::Default | UrlSource::User, _) if !self.is_listening() => {
                Err(self.unreachable().into())
            }
            (_, content) => Err(self.missing_token(file, content.is_ok()).into()),
        }
    }

    /// Whether the address accepts connections.
    fn is_listening(&self) -> bool {
        let authority = self.authority();
        let port = if self.url.starts_with("https:") { 443 } else { 80 };
        let addresses = authority.to_socket_addrs().or_else(|_| (self.host(), port).to_socket_addrs());
        addresses
            .into_iter()
            .flatten()
            .any(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
    }

    fn unreachable(&self) -> Error {
        let detail = format!("no hub is listening at {}", self.url);
        let hint = match &self.source {
            UrlSource::Default => {
                "start one with `quorate serve`, or select another with --data DIR,\nor with --url URL and --token-file FILE"
            }
            _ => "check the URL, or start the hub there with `quorate serve`",
        };
        Refused::new(Code::Unavailable, detail).hint(hint).into()
    }

    fn missing_token(&self, file: &Path, exists: bool) -> Error {
        let reason = match (exists, self.is_loopback()) {
            (false, _) => String::new(),
            (true, false) => ", and the local admin token is not sent to other machines".to_owned(),
            (true, true) => format!(", and {} is only for the hub on that directory", file.display()),
        };
        let detail = format!("missing token for {}: none is configured{reason}", self.url);
        let hint = if matches!(self.source, UrlSource::Hub) {
            "use --token-file FILE or QUORATE_TOKEN, or restart the hub: it creates a new\nadmin token if the file is missing".to_owned()
        } else {
            let file = file.display();
            format!(
                "run the command next to the hub's data directory ({file} is tried),\nor use --token-file FILE or QUORATE_TOKEN"
            )
        };
        Refused::new(Code::Unauthenticated, detail).hint(hint).into()
    }

    /// Returns the CA certificate of the hub. One that only a project sets is used for loopback addresses only, since it could
    /// enable a man-in-the-middle attack elsewhere.
    pub(super) fn ca_file(&self, settings: &Settings) -> anyhow::Result<Option<PathBuf>> {
        let Some(ca_file) = settings.get(Key::CaFile) else { return Ok(None) };
        if ca_file.origin.is_project() && !self.is_loopback() {
            let message = format!(
                "refusing ca_file {} for another machine: only {} sets it",
                ca_file.value, ca_file.origin
            );
            let hint = format!("if you trust it, set it with --ca-file {} or QUORATE_CA_FILE", ca_file.value);
            return Err(CommandError::new(USAGE, message, hint).into());
        }
        Ok(Some(PathBuf::from(&ca_file.value)))
    }

    /// Returns the host and the port, if there is one.
    fn authority(&self) -> &str {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let rest = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        // The part before an `@` is user information.
        rest.rsplit('@').next().unwrap_or_default()
    }

    fn host(&self) -> &str {
        let rest = self.authority();
        match rest.strip_prefix('[') {
            Some(ipv6) => ipv6.split(']').next().unwrap_or_default(),
            None => rest.split(':').next().unwrap_or_default(),
        }
    }

    fn is_loopback(&self) -> bool {
        let host = self.host();
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// Returns the error for a data directory that the user set and on which no hub is running.
fn no_hub_running(data: &Path) -> Error {
    let (shown, hint) = (data.display(), format!("start one with `quorate serve --data {}`", data.display()));
    match std::fs::read_dir(data) {
        Err(error) if error.kind() == ErrorKind::NotFound => error_with_code(
            Code::NotFound,
            format!("the directory {shown} does not exist"),
            format!("check the path, or {hint}"),
        ),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => permission_denied(data),
        _ => error_with_code(Code::Unavailable, format!("no hub is running on {shown}"), hint),
    }
}

/// Returns the error for a data directory that the user may not read.
fn permission_denied(data: &Path) -> Error {
    let message = format!("permission denied: you cannot read the data directory {}", data.display());
    error_with_code(Code::Forbidden, message, PERMISSION_HINT)
}

fn url_source(settings: &Settings, url: &Setting) -> UrlSource {
    if url.origin.is_project() && !settings.is_set_by_user(&url.value) {
        UrlSource::Project(url.origin.clone())
    } else {
        UrlSource::User
    }
}

/// Reads a token file. One that a project sets must be inside the project after resolving symlinks, and must not be the admin
/// token of a hub.
fn read_token_file(setting: &Setting) -> anyhow::Result<String> {
    let path = Path::new(&setting.value);
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read the token file {}: {error}", setting.value);
        CommandError::new(USAGE, message, format!("it is set by {}; check the path", setting.origin))
    })?;
    if let Origin::File { path: project, project: true, .. } = &setting.origin {
        let directory = project.parent().unwrap_or(Path::new(".")).canonicalize()?;
        let resolved = path.canonicalize()?;
        if !resolved.starts_with(directory)
            || resolved.file_name().is_some_and(|name| name == ADMIN_TOKEN_FILE)
        {
            let message = format!(
                "{}: token_file: {} is not a token file of the project",
                setting.origin, setting.value
            );
            let hint = "set it in the user's file, with QUORATE_TOKEN_FILE, or with --token-file";
            return Err(CommandError::new(USAGE, message, hint).into());
        }
    }
    Ok(text)
}

/// Fails if a directory that the user did not set belongs to another user.
fn refuse_foreign(data: &Path) -> anyhow::Result<()> {
    let owner = std::fs::metadata(data).map(|metadata| metadata.uid());
    if owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw()) {
        return Ok(());
    }
    let message = format!("the data directory {} belongs to another user", data.display());
    let hint = format!("if you trust it, set it with --data {}", data.display());
    Err(CommandError::new(USAGE, message, hint).into())
}

/// Returns the URL of the hub running on a data directory. A killed hub leaves its `ready.json` behind, and a project may
/// contain a forged one, so the address must accept connections and the process must hold the lock of the directory.
pub(crate) fn running_hub_url(data: &Path) -> Option<String> {
    let ReadyFile { url, pid } = ReadyFile::read(data)?;
    let (_, address) = url.split_once("://")?;
    let is_listening = TcpStream::connect(address.parse::<SocketAddr>().ok()?).is_ok();
    // The lock is checked last, because checking it blocks a starting hub for a moment.
    (is_listening && quorate_sqlite::lock_holder(data) == Some(pid)).then_some(url)
}

/// Contents of `ready.json`.
struct ReadyFile {
    /// URL on this machine.
    url: String,
    /// Process id of the hub.
    pid: String,
}

impl ReadyFile {
    fn read(data: &Path) -> Option<Self> {
        let line = std::fs::read_to_string(data.join(READY_FILE)).ok()?;
        let ready: Value = serde_json::from_str(&line).ok()?;
        let is_https =
            ready["https"].is_string() || ready["url"].as_str().is_some_and(|url| url.starts_with("https:"));
        let address: SocketAddr = ready["https"].as_str().or(ready["http"].as_str())?.parse().ok()?;
        let ip = address.ip();
        let host = match (ip.is_loopback(), ip.is_unspecified()) {
            (true, _) => ip,
            // It listens on all interfaces, so also on loopback.
            (_, true) => std::net::Ipv4Addr::LOCALHOST.into(),
            _ => return None,
        };
        let address = SocketAddr::new(host, address.port());
        let url = format!("{}://{address}", if is_https { "https" } else { "http" });
        Some(Self { url, pid: ready["pid"].as_u64()?.to_string() })
    }
}

#[cfg(test)]
mod tests;
