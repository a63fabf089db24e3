//! `cargo xtask schemathesis`: tests a running hub against its OpenAPI document. Schemathesis generates valid and invalid
//! requests from `openapi/quorate.json` and checks that every response conforms to it and none is a 5xx. It runs with an
//! admin token and with an agent token at the same time, each against a hub of its own.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::step::{cargo, run_command, target_directory};

/// Operations that stream or upgrade the connection. They have their own tests.
const EXCLUDED_OPERATIONS: [&str; 2] = ["events.follow", "ws.connect"];
/// Seed for reproducible requests.
const SEED: &str = "20260101";

/// Whether the binary has to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    /// It was built by the tests.
    AlreadyBuilt,
    /// It has to be built first.
    NeedsBuild,
}

/// Runs schemathesis with both tokens.
pub(crate) fn run(root: &Path, binary: Binary) -> Result<()> {
    let directory = target_directory(root).join("schemathesis");
    let tool = install(root, &directory)?;
    if binary == Binary::NeedsBuild {
        run_command(&mut cargo(root, &["build", "--locked", "-p", "quorate-cli"]))?;
    }
    let program = target_directory(root).join("debug").join("quorate");
    // One hub per role: the runs are concurrent, and neither sees the resources of the other.
    let roles = [Role::Admin, Role::Agent];
    let results = thread::scope(|scope| {
        let (tool, program, directory) = (&tool, &program, &directory);
        let runs = roles.map(|role| scope.spawn(move || check(root, tool, program, directory, role)));
        runs.map(|run| run.join().unwrap_or_else(|_| bail!("the thread panicked")))
    });
    for (role, result) in roles.into_iter().zip(results) {
        let report = result.with_context(|| format!("schemathesis as {}", role.name()))?;
        eprintln!("   as {}", role.name());
        eprint!("{}", report.text);
        if !report.success {
            bail!("schemathesis found failures as {}", role.name());
        }
    }
    Ok(())
}

/// Role of the token that the requests carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Admin,
    Agent,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Agent => "agent",
        }
    }
}

/// Outcome of one run. The output is captured, because two runs are concurrent.
struct Report {
    text: String,
    success: bool,
}

/// Tests a new hub with the token of one role.
fn check(root: &Path, tool: &Path, program: &Path, directory: &Path, role: Role) -> Result<Report> {
    let data = directory.join(format!("data-{}", role.name()));
    if data.exists() {
        fs::remove_dir_all(&data).context("cannot delete the data of the last run")?;
    }
    let hub = Hub::start(program, &data)?;
    let agent = hub.prepare()?;
    let token = match role {
        Role::Admin => hub.admin.as_str(),
        Role::Agent => agent.as_str(),
    };
    let output = schemathesis_command(root, tool, &hub.address, token)
        .output()
        .with_context(|| format!("cannot start {}", tool.display()))?;
    let streams = [output.stdout, output.stderr];
    let text = streams.map(|stream| String::from_utf8_lossy(&stream).into_owned()).concat();
    Ok(Report { text, success: output.status.success() })
}

fn schemathesis_command(root: &Path, tool: &Path, address: &str, token: &str) -> Command {
    let config = root.join("xtask").join("schemathesis");
    let mut command = Command::new(tool);
    command.current_dir(&config).env("QUORATE_TOKEN", token).env("SCHEMATHESIS_HOOKS", "hooks");
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", &config);
    command.args(["--config-file", "schemathesis.toml", "run", "../../openapi/quorate.json"]);
    command.args(["--url", &format!("http://{address}"), "--seed", SEED]);
    for id in EXCLUDED_OPERATIONS {
        command.args(["--exclude-operation-id", id]);
    }
    command
}

/// Installs schemathesis into a virtual environment, unless the pinned versions are installed already.
fn install(root: &Path, directory: &Path) -> Result<PathBuf> {
    let requirements = root.join("xtask").join("schemathesis").join("requirements.txt");
    let (marker, tool) = (directory.join("installed.txt"), directory.join("venv").join("bin").join("st"));
    let text = fs::read_to_string(&requirements).context("cannot read requirements.txt")?;
    if tool.exists() && fs::read_to_string(&marker).is_ok_and(|installed| installed == text) {
        return Ok(tool);
    }
    fs::create_dir_all(directory)?;
    let python = || Command::new("python3");
    run_command(python().args(["-m", "venv", "--clear"]).arg(directory.join("venv"))).context(
        "schemathesis requires python3 with venv and pip (Debian and Ubuntu: `sudo apt-get install python3-venv`)",
    )?;
    let mut pip = Command::new(directory.join("venv").join("bin").join("pip"));
    run_command(pip.args(["install", "--quiet", "--no-deps", "--requirement"]).arg(&requirements))
        .context("schemathesis could not be installed: pip needs access to the package index or a mirror")?;
    fs::write(&marker, text)?;
    Ok(tool)
}

/// Running hub, stopped on drop.
struct Hub {
    child: Child,
    address: String,
    admin: String,
}

impl Hub {
    fn start(program: &Path, data: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            // `--auth-failure-rate 0` disables the rate limit for requests without a valid token: they must get 401, not 429.
            .args([
                "serve",
                "--log",
                "error",
                "--auth-failure-rate",
                "0",
                "--listen",
                "127.0.0.1:0",
                "--data",
            ])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut line = String::new();
        let Some(stdout) = child.stdout.take() else { bail!("the hub has no stdout") };
        BufReader::new(stdout).read_line(&mut line)?;
        let field = |name: &str| field(&line, name).with_context(|| format!("no {name} in {line:?}"));
        let admin = fs::read_to_string(field("adminTokenFile")?)?.trim().to_owned();
        Ok(Self { address: field("http")?, admin, child })
    }

    /// Creates some resources that requests can refer to, and returns an agent token.
    fn prepare(&self) -> Result<String> {
        let response =
            self.request("PUT", "/v1/agents/alice", r#"{"role":"coordinator","capabilities":["sum"]}"#)?;
        let token = field(&response, "token").with_context(|| format!("no token in {response:?}"))?;
        self.request("PUT", "/v1/agents/bob", "{}")?;
        self.request("PUT", "/v1/context/plan", r#"{"content":1}"#)?;
        self.request("POST", "/v1/tasks", r#"{"id":"t1","type":"sum","input":1}"#)?;
        self.request("POST", "/v1/sessions", r#"{"id":"s1","title":"S","coordinator":"alice"}"#)?;
        self.request("POST", "/v1/messages", r#"{"id":"m1","from":"bob","to":"alice","payload":1}"#)?;
        Ok(token)
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        let (host, token, length) = (&self.address, &self.admin, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        if !response.starts_with("HTTP/1.1 2") {
            bail!("{method} {path}: {response}");
        }
        Ok(response)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a string field of JSON. Only for output of the hub without escaped quotes.
fn field(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(text, _)| text.to_owned())
}
