//! `cargo xtask schemathesis`: the description of the interface against a real hub. Schemathesis knows nothing but
//! `openapi/quorate.json`; it makes calls up, good ones and bad ones, and looks whether every answer is as described and
//! none is a 5xx. Once as an admin, once as an agent.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::step::{call, cargo, target};

/// Calls that never end, or are no calls: they have tests of their own.
const LEFT_OUT: [&str; 2] = ["events.follow", "ws.connect"];
/// The same calls in every run.
const SEED: &str = "20260101";

/// Whether the binary is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    /// The tests have just compiled it.
    IsThere,
    /// It has to be compiled first.
    IsToBeMade,
}

/// Runs it.
pub(crate) fn run(root: &Path, binary: Binary) -> Result<()> {
    let folder = target(root).join("schemathesis");
    let tool = install(root, &folder)?;
    if binary == Binary::IsToBeMade {
        call(&mut cargo(root, &["build", "--locked", "-p", "quorate-cli"]))?;
    }
    let data = folder.join("data");
    if data.exists() {
        fs::remove_dir_all(&data).context("cannot clear the data of the last run")?;
    }
    let hub = Hub::start(&target(root).join("debug").join("quorate"), &data)?;
    let agent = hub.prepare()?;
    for (who, token) in [("an admin", hub.admin.as_str()), ("an agent", agent.as_str())] {
        eprintln!("   as {who}");
        call(&mut calls(root, &tool, &hub.address, token))?;
    }
    Ok(())
}

fn calls(root: &Path, tool: &Path, address: &str, token: &str) -> Command {
    let own = root.join("xtask").join("schemathesis");
    let mut command = Command::new(tool);
    command.current_dir(&own).env("QUORATE_TOKEN", token).env("SCHEMATHESIS_HOOKS", "hooks");
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", &own);
    command.args(["--config-file", "schemathesis.toml", "run", "../../openapi/quorate.json"]);
    command.args(["--url", &format!("http://{address}"), "--seed", SEED]);
    for id in LEFT_OUT {
        command.args(["--exclude-operation-id", id]);
    }
    command
}

/// Installs the tool once, into a folder of its own, in the versions that are written down.
fn install(root: &Path, folder: &Path) -> Result<PathBuf> {
    let wanted = root.join("xtask").join("schemathesis").join("requirements.txt");
    let (done, tool) = (folder.join("installed.txt"), folder.join("venv").join("bin").join("st"));
    let text = fs::read_to_string(&wanted).context("cannot read what to install")?;
    if tool.exists() && fs::read_to_string(&done).is_ok_and(|installed| installed == text) {
        return Ok(tool);
    }
    fs::create_dir_all(folder)?;
    let python = || Command::new("python3");
    call(python().args(["-m", "venv", "--clear"]).arg(folder.join("venv"))).context(
        "schemathesis needs python3 with venv and pip (Debian and Ubuntu: `sudo apt-get install python3-venv`)",
    )?;
    let mut pip = Command::new(folder.join("venv").join("bin").join("pip"));
    call(pip.args(["install", "--quiet", "--no-deps", "--requirement"]).arg(&wanted))
        .context("schemathesis could not be installed: pip needs the package index, or a mirror of it")?;
    fs::write(&done, text)?;
    Ok(tool)
}

/// A hub that runs, and ends with this.
struct Hub {
    child: Child,
    address: String,
    admin: String,
}

impl Hub {
    fn start(program: &Path, data: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            // Without a token so often that the hub would say so, and not that the token is missing.
            .args(["serve", "--log", "error", "--failure-rate", "0", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut line = String::new();
        let Some(out) = child.stdout.take() else { bail!("the hub has no standard output") };
        BufReader::new(out).read_line(&mut line)?;
        let field = |name: &str| field(&line, name).with_context(|| format!("no {name} in {line:?}"));
        let admin = fs::read_to_string(field("adminTokenFile")?)?.trim().to_owned();
        Ok(Self { address: field("http")?, admin, child })
    }

    /// Makes a few things to talk about, and returns the token of an agent.
    fn prepare(&self) -> Result<String> {
        let made = self.ask("PUT", "/v1/agents/alice", r#"{"role":"coordinator","capabilities":["sum"]}"#)?;
        let token = field(&made, "token").with_context(|| format!("no token in {made:?}"))?;
        self.ask("PUT", "/v1/agents/bob", "{}")?;
        self.ask("PUT", "/v1/context/plan", r#"{"content":1}"#)?;
        self.ask("POST", "/v1/tasks", r#"{"id":"t1","type":"sum","input":1}"#)?;
        self.ask("POST", "/v1/sessions", r#"{"id":"s1","title":"S","coordinator":"alice"}"#)?;
        self.ask("POST", "/v1/messages", r#"{"id":"m1","from":"bob","to":"alice","payload":1}"#)?;
        Ok(token)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        let (host, token, length) = (&self.address, &self.admin, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if !answer.starts_with("HTTP/1.1 2") {
            bail!("{method} {path}: {answer}");
        }
        Ok(answer)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text of a field, from JSON that the hub wrote and that has no quotes inside texts.
fn field(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(text, _)| text.to_owned())
}
