//! `cargo xtask generators`: generates Python and TypeScript clients from `openapi/quorate.json` with standard, unpatched
//! tools, and type-checks them together with a small program that uses them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::step::{run_command, target_directory};

/// Generates and checks both clients.
pub(crate) fn run(root: &Path) -> Result<()> {
    let config = root.join("xtask").join("generators");
    let directory = target_directory(root).join("generators");
    fs::create_dir_all(&directory)?;
    thread::scope(|scope| {
        let python = scope.spawn(|| python(root, &config, &directory));
        typescript(root, &config, &directory)?;
        python.join().unwrap_or_else(|_| bail!("the thread panicked"))
    })
}

fn python(root: &Path, config: &Path, directory: &Path) -> Result<()> {
    let venv = directory.join("venv");
    let requirements = config.join("requirements.txt");
    install_once(&[&requirements], &directory.join("python.installed"), || {
        run_command(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        let mut pip = Command::new(venv.join("bin").join("pip"));
        run_command(pip.args(["install", "--quiet", "--no-deps", "--requirement"]).arg(&requirements))
            .context(
                "the generator could not be installed: pip needs access to the package index or a mirror",
            )
    })?;
    let output = directory.join("python");
    recreate(&output)?;
    let mut generate = Command::new(venv.join("bin").join("openapi-python-client"));
    // It formats its output with ruff, which is installed in the same directory.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([venv.join("bin")].into_iter().chain(std::env::split_paths(&path)))?;
    generate.env("PATH", path).arg("generate").arg("--path").arg(root.join("openapi").join("quorate.json"));
    generate.args(["--meta", "none", "--fail-on-warning", "--config"]).arg(config.join("python.yaml"));
    run_command(generate.arg("--output-path").arg(output.join("quorate_client")))?;
    fs::copy(config.join("usage.py"), output.join("usage.py"))?;
    let mut check = Command::new(venv.join("bin").join("mypy"));
    check.current_dir(&output).arg("--config-file").arg(config.join("mypy.ini"));
    check.args(["--cache-dir", "../mypy", "quorate_client", "usage.py"]);
    run_command(&mut check)
}

fn typescript(root: &Path, config: &Path, directory: &Path) -> Result<()> {
    let requirements = [config.join("package.json"), config.join("package-lock.json")];
    install_once(&[&requirements[0], &requirements[1]], &directory.join("node.installed"), || {
        for file in &requirements {
            fs::copy(file, directory.join(file.file_name().unwrap_or_default()))?;
        }
        let mut npm = Command::new("npm");
        npm.current_dir(directory).args(["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]);
        run_command(&mut npm)
            .context("the generator could not be installed: npm needs access to the registry or a mirror")
    })?;
    let output = directory.join("typescript");
    recreate(&output)?;
    let tool = |name: &str| -> PathBuf { directory.join("node_modules").join(".bin").join(name) };
    let mut generate = Command::new(tool("openapi-typescript"));
    generate.arg(root.join("openapi").join("quorate.json")).arg("--output").arg(output.join("quorate.d.ts"));
    run_command(&mut generate)?;
    fs::copy(config.join("usage.ts"), output.join("usage.ts"))?;
    let mut check = Command::new(tool("tsc"));
    check.current_dir(&output).args([
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "quorate.d.ts",
        "usage.ts",
    ]);
    run_command(&mut check)
}

/// Runs `install` unless it has succeeded before with the same requirement files.
fn install_once(requirements: &[&Path], marker: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut text = String::new();
    for file in requirements {
        text += &fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    if fs::read_to_string(marker).is_ok_and(|installed| installed == text) {
        return Ok(());
    }
    install()?;
    Ok(fs::write(marker, text)?)
}

fn recreate(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("cannot clear {}", directory.display()))?;
    }
    Ok(fs::create_dir_all(directory)?)
}
