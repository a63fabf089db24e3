//! `cargo xtask generators`: clients in Python and TypeScript, generated from `openapi/quorate.json` by the usual tools without
//! any patch, and type-checked together with a small program that uses them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::step::{call, target};

/// Runs both.
pub(crate) fn run(root: &Path) -> Result<()> {
    let own = root.join("xtask").join("generators");
    let folder = target(root).join("generators");
    fs::create_dir_all(&folder)?;
    python(root, &own, &folder)?;
    typescript(root, &own, &folder)
}

fn python(root: &Path, own: &Path, folder: &Path) -> Result<()> {
    let venv = folder.join("venv");
    let wanted = own.join("requirements.txt");
    once(&[&wanted], &folder.join("python.installed"), || {
        call(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        let mut pip = Command::new(venv.join("bin").join("pip"));
        call(pip.args(["install", "--quiet", "--no-deps", "--requirement"]).arg(&wanted))
            .context("the generator could not be installed: pip needs the package index, or a mirror of it")
    })?;
    let made = folder.join("python");
    clear(&made)?;
    let mut generate = Command::new(venv.join("bin").join("openapi-python-client"));
    // It formats what it makes with ruff, which is in the same folder.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([venv.join("bin")].into_iter().chain(std::env::split_paths(&path)))?;
    generate.env("PATH", path).arg("generate").arg("--path").arg(root.join("openapi").join("quorate.json"));
    generate.args(["--meta", "none", "--fail-on-warning", "--config"]).arg(own.join("python.yaml"));
    call(generate.arg("--output-path").arg(made.join("quorate_client")))?;
    fs::copy(own.join("usage.py"), made.join("usage.py"))?;
    let mut check = Command::new(venv.join("bin").join("mypy"));
    check.current_dir(&made).arg("--config-file").arg(own.join("mypy.ini"));
    check.args(["--cache-dir", "../mypy", "quorate_client", "usage.py"]);
    call(&mut check)
}

fn typescript(root: &Path, own: &Path, folder: &Path) -> Result<()> {
    let wanted = [own.join("package.json"), own.join("package-lock.json")];
    once(&[&wanted[0], &wanted[1]], &folder.join("node.installed"), || {
        for file in &wanted {
            fs::copy(file, folder.join(file.file_name().unwrap_or_default()))?;
        }
        let mut npm = Command::new("npm");
        npm.current_dir(folder).args(["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]);
        call(&mut npm)
            .context("the generator could not be installed: npm needs the registry, or a mirror of it")
    })?;
    let made = folder.join("typescript");
    clear(&made)?;
    let tool = |name: &str| -> PathBuf { folder.join("node_modules").join(".bin").join(name) };
    let mut generate = Command::new(tool("openapi-typescript"));
    generate.arg(root.join("openapi").join("quorate.json")).arg("--output").arg(made.join("quorate.d.ts"));
    call(&mut generate)?;
    fs::copy(own.join("usage.ts"), made.join("usage.ts"))?;
    let mut check = Command::new(tool("tsc"));
    check.current_dir(&made).args(["--noEmit", "--strict", "--target", "es2022", "quorate.d.ts", "usage.ts"]);
    call(&mut check)
}

/// Installs tools unless they were installed by the same files before.
fn once(wanted: &[&Path], done: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut text = String::new();
    for file in wanted {
        text += &fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    if fs::read_to_string(done).is_ok_and(|installed| installed == text) {
        return Ok(());
    }
    install()?;
    Ok(fs::write(done, text)?)
}

fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    Ok(fs::create_dir_all(folder)?)
}
