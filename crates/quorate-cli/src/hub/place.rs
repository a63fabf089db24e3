//! Where the hub is, whose token goes there, and that no token goes where its owner did not choose.
//!
//! A `quorate.yaml` may have come with a project from somebody else, and so may a directory with a `ready.json` in it. Whoever
//! wrote them must not get a token by them. So a token goes
//! - where the caller says (a flag, a variable, the user's file),
//! - to the hub that runs on the data directory: its process holds the directory, and the directory is the caller's or
//!   was named by the caller,
//! - if nobody says anything, to the usual address on this machine,
//!
//! and never to an address that only a project names. The admin's token of a data directory goes to the hub that runs there,
//! or to an address on this machine if the caller named both. `docs/guides/command-line.md` says it to users.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_client::Error;
use quorate_core::{Code, Refused, Secret};
use serde_json::Value;

use super::{ADMIN_TOKEN, READY};
use crate::config::{Key, Origin, Said, Settings};
use crate::exit::{Ended, NOT_YOURS, USAGE, refused};

/// How long somebody may take to say that he is there, before there is talk of tokens.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// Who says where the hub is.
enum By {
    /// A flag, a variable or the user's file.
    Caller,
    /// The file of a project, and nobody else.
    Project(Origin),
    /// The hub that runs on the data directory.
    Hub,
    /// Nobody.
    Default,
}

/// Where the hub is, and who says so.
pub(crate) struct Place {
    pub(crate) url: String,
    by: By,
    data: PathBuf,
    /// Whether the caller named the data directory.
    data_is_callers: bool,
}

impl Place {
    /// Whatever was said on the higher level counts: an address, or a data directory in which a hub runs.
    pub(crate) fn find(settings: &Settings, flag: Option<&Path>) -> anyhow::Result<Self> {
        let data = flag.map_or_else(|| settings.data(), Path::to_owned);
        let data_is_callers = settings.get(Key::Data).is_some_and(|said| !said.origin.is_project());
        let place = |url: String, by| Self { url, by, data: data.clone(), data_is_callers };
        let trusted = || -> anyhow::Result<Option<String>> {
            let found = runs(&data);
            if found.is_some() && !data_is_callers {
                refuse_foreign(&data)?;
            }
            Ok(found)
        };
        if let Some((Key::Url, said)) = settings.first_of([Key::Url, Key::Data]) {
            // The same address, and it needs no word of anybody.
            let is_of_hub =
                Ready::read(&data).is_some_and(|ready| ready.url == said.value) && trusted()?.is_some();
            return Ok(place(said.value.clone(), if is_of_hub { By::Hub } else { by(settings, said) }));
        }
        match (trusted()?, flag, settings.get(Key::Url)) {
            (Some(url), _, _) => Ok(place(url, By::Hub)),
            (None, Some(_), _) => Err(at_rest(&data).into()),
            (None, None, Some(said)) => Ok(place(said.value.clone(), by(settings, said))),
            (None, None, None) if data_is_callers => Err(at_rest(&data).into()),
            (None, None, None) => Ok(place(Key::Url.default_value().to_owned(), By::Default)),
        }
    }

    /// The token that goes there, and where it is from: what was said, else the admin's of the hub that runs here.
    pub(super) fn token(&self, settings: &Settings) -> anyhow::Result<(Secret, String)> {
        if let By::Project(origin) = &self.by {
            let message = format!("no token goes to {}, which only {origin} names", self.url);
            let hint = format!(
                "if it is your hub, name it yourself: --url {}, or QUORATE_URL,\nor `url` in the user's file (quorate config path)",
                self.url
            );
            return Err(Ended::new(USAGE, message, hint).into());
        }
        let (text, from) = match settings.first_of([Key::Token, Key::TokenFile]) {
            Some((Key::Token, said)) => (said.value.clone(), said.origin.to_string()),
            Some((_, said)) => (of_file(said)?, said.value.clone()),
            None => {
                let file = self.data.join(ADMIN_TOKEN);
                (self.admins(&file)?, file.display().to_string())
            }
        };
        match text.trim().parse() {
            Ok(secret) => Ok((secret, from)),
            Err(wrong) => {
                let hint = format!("it was taken from {from}; `quorate token create` makes a new one");
                Err(Error::from(Refused::new(Code::Unauthenticated, format!("{wrong}")).hint(hint)).into())
            }
        }
    }

    /// The admin's token of the data directory.
    fn admins(&self, file: &Path) -> anyhow::Result<String> {
        let found = std::fs::read_to_string(file);
        match (&self.by, found) {
            (By::Hub, Ok(text)) => Ok(text),
            (By::Caller, Ok(text)) if self.data_is_callers && self.is_loopback() => Ok(text),
            (_, Err(error)) if error.kind() == ErrorKind::PermissionDenied => {
                Err(not_yours(&self.data).into())
            }
            // To speak of tokens helps only where somebody would take one.
            (By::Default | By::Caller, _) if !self.answers() => Err(self.nothing_there().into()),
            (_, found) => Err(self.nobody(file, found.is_ok()).into()),
        }
    }

    /// Whether anybody listens there.
    fn answers(&self) -> bool {
        let authority = self.authority();
        let port = if self.url.starts_with("https:") { 443 } else { 80 };
        let addresses = authority.to_socket_addrs().or_else(|_| (self.host(), port).to_socket_addrs());
        addresses
            .into_iter()
            .flatten()
            .any(|address| TcpStream::connect_timeout(&address, ANSWERS_WITHIN).is_ok())
    }

    fn nothing_there(&self) -> Error {
        let detail = format!("no hub answers at {}", self.url);
        let hint = match &self.by {
            By::Default => {
                "quorate serve starts one here; one that is elsewhere is named by --data DIR,\nor by --url URL with --token-file FILE"
            }
            _ => "check the address, or start the hub there: quorate serve",
        };
        Refused::new(Code::Unavailable, detail).hint(hint).into()
    }

    fn nobody(&self, file: &Path, is_there: bool) -> Error {
        let why = match (is_there, self.is_loopback()) {
            (false, _) => String::new(),
            (true, false) => ", and the local admin's token does not leave this machine".to_owned(),
            (true, true) => format!(", and {} is of the hub on its own directory", file.display()),
        };
        let detail = format!("there is no token for {}: none was given{why}", self.url);
        let hint = if matches!(self.by, By::Hub) {
            "give --token-file FILE or QUORATE_TOKEN; or start the hub again: where its own\nadmin's token is missing, it makes a new one".to_owned()
        } else {
            let file = file.display();
            format!(
                "run this where the hub's data is ({file} is looked for),\nor give --token-file FILE or QUORATE_TOKEN"
            )
        };
        Refused::new(Code::Unauthenticated, detail).hint(hint).into()
    }

    /// Who signed the hub's certificate. A project says so for this machine only: elsewhere it could let somebody in
    /// between.
    pub(super) fn ca_file(&self, settings: &Settings) -> anyhow::Result<Option<PathBuf>> {
        let Some(said) = settings.get(Key::CaFile) else { return Ok(None) };
        if said.origin.is_project() && !self.is_loopback() {
            let message = format!("{} signs for no other machine: only {} names it", said.value, said.origin);
            let hint =
                format!("if you trust it, name it yourself: --ca-file {}, or QUORATE_CA_FILE", said.value);
            return Err(Ended::new(USAGE, message, hint).into());
        }
        Ok(Some(PathBuf::from(&said.value)))
    }

    /// The host and, if it is said, the port.
    fn authority(&self) -> &str {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let rest = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        // What stands before an @ is no host.
        rest.rsplit('@').next().unwrap_or_default()
    }

    fn host(&self) -> &str {
        let rest = self.authority();
        match rest.strip_prefix('[') {
            Some(six) => six.split(']').next().unwrap_or_default(),
            None => rest.split(':').next().unwrap_or_default(),
        }
    }

    fn is_loopback(&self) -> bool {
        let host = self.host();
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// A data directory that the caller named and in which no hub runs.
fn at_rest(data: &Path) -> Error {
    let (shown, hint) = (data.display(), format!("start one: quorate serve --data {}", data.display()));
    match std::fs::read_dir(data) {
        Err(error) if error.kind() == ErrorKind::NotFound => refused(
            Code::NotFound,
            format!("there is no directory {shown}"),
            format!("check the path, or {hint}"),
        ),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => not_yours(data),
        _ => refused(Code::Unavailable, format!("no hub runs on {shown}"), hint),
    }
}

/// A data directory that is closed to whoever runs the command.
fn not_yours(data: &Path) -> Error {
    let message = format!("permission denied: the data directory {} is closed to you", data.display());
    refused(Code::Forbidden, message, NOT_YOURS)
}

fn by(settings: &Settings, said: &Said) -> By {
    if said.origin.is_project() && !settings.is_callers(&said.value) {
        By::Project(said.origin.clone())
    } else {
        By::Caller
    }
}

/// What is in a file with a token. One that a project names is in the project, also if links lead to it, and is not
/// what a hub keeps for its own admin.
fn of_file(said: &Said) -> anyhow::Result<String> {
    let path = Path::new(&said.value);
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = format!("the token file {} cannot be read: {error}", said.value);
        Ended::new(USAGE, message, format!("{} names it; check the path", said.origin))
    })?;
    if let Origin::File { path: project, project: true, .. } = &said.origin {
        let directory = project.parent().unwrap_or(Path::new(".")).canonicalize()?;
        let real = path.canonicalize()?;
        if !real.starts_with(directory) || real.file_name().is_some_and(|name| name == ADMIN_TOKEN) {
            let message = format!("{}: token_file: {} is none of the project's own", said.origin, said.value);
            let hint = "name it in the user's file, by QUORATE_TOKEN_FILE or by --token-file";
            return Err(Ended::new(USAGE, message, hint).into());
        }
    }
    Ok(text)
}

/// A directory that the caller did not name must at least be the caller's.
fn refuse_foreign(data: &Path) -> anyhow::Result<()> {
    let owner = std::fs::metadata(data).map(|about| about.uid());
    if owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw()) {
        return Ok(());
    }
    let message = format!("the data directory {} belongs to somebody else", data.display());
    let hint = format!("if you trust it, name it yourself: --data {}", data.display());
    Err(Ended::new(USAGE, message, hint).into())
}

/// Where the hub listens that runs on a data directory. Who was killed left the file behind that says so, and a
/// project may bring one along: somebody has to answer there, and the process that wrote it has to hold the directory.
pub(crate) fn runs(data: &Path) -> Option<String> {
    let Ready { url, pid } = Ready::read(data)?;
    let (_, address) = url.split_once("://")?;
    let answers = TcpStream::connect(address.parse::<SocketAddr>().ok()?).is_ok();
    // In this order: whoever looks at the lock of a directory keeps a hub from starting there for that moment.
    (answers && quorate_sqlite::holder(data) == Some(pid)).then_some(url)
}

/// What a hub said when it was ready.
struct Ready {
    /// Where it listens, on this machine.
    url: String,
    /// Which process it is.
    pid: String,
}

impl Ready {
    fn read(data: &Path) -> Option<Self> {
        let line = std::fs::read_to_string(data.join(READY)).ok()?;
        let ready: Value = serde_json::from_str(&line).ok()?;
        let secure =
            ready["https"].is_string() || ready["url"].as_str().is_some_and(|url| url.starts_with("https:"));
        let address: SocketAddr = ready["https"].as_str().or(ready["http"].as_str())?.parse().ok()?;
        let ip = address.ip();
        let host = match (ip.is_loopback(), ip.is_unspecified()) {
            (true, _) => ip,
            // It listens everywhere, so here as well.
            (_, true) => std::net::Ipv4Addr::LOCALHOST.into(),
            _ => return None,
        };
        let address = SocketAddr::new(host, address.port());
        let url = format!("{}://{address}", if secure { "https" } else { "http" });
        Some(Self { url, pid: ready["pid"].as_u64()?.to_string() })
    }
}

#[cfg(test)]
mod tests;
