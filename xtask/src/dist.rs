//! `cargo xtask dist`: builds the release binary, with checksums and the licenses of all linked crates.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::step::{cargo, output, run_command, target_directory};

/// Output directory in the target directory. Not `dist`, which is cargo's directory for the profile.
const DIRECTORY: &str = "artifacts";
const CHECKSUMS: &str = "SHA256SUMS";
const LICENSES: &str = "licenses.tsv";

/// Maximum size of the binary.
const BINARY_BYTES_MAX: usize = 40_000_000;

// Lists the dependencies of the binary on this platform with its features, without build scripts, tests and procedural
// macros. `cargo metadata` would unify features across the workspace and list crates that are not linked.
const TREE: [&str; 10] = [
    "tree",
    "--locked",
    "--package",
    "quorate-cli",
    "--edges",
    "normal,no-proc-macro",
    "--prefix",
    "none",
    "--format",
    "{p}|{l}",
];
const BUILD: [&str; 8] =
    ["build", "--locked", "--profile", "dist", "--package", "quorate-cli", "--bin", "quorate"];

/// Builds the binary and writes all files.
pub(crate) fn run(root: &Path) -> Result<()> {
    // Before the build, because it takes seconds instead of minutes.
    let licenses = license_table(&licenses(&output(&mut cargo(root, &TREE))?)?);
    run_command(&mut cargo(root, &BUILD))?;
    let name = format!("quorate{}", std::env::consts::EXE_SUFFIX);
    let built = target_directory(root).join("dist").join(&name);
    let binary = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    check_size(binary.len())?;

    let directory = target_directory(root).join(DIRECTORY);
    if directory.exists() {
        fs::remove_dir_all(&directory).context("cannot delete the files of the last build")?;
    }
    fs::create_dir_all(&directory)?;
    // `copy` preserves the executable bit.
    fs::copy(&built, directory.join(&name))?;
    fs::write(directory.join(LICENSES), &licenses)?;
    let sums = [checksum(&binary, &name), checksum(licenses.as_bytes(), LICENSES)].concat();
    fs::write(directory.join(CHECKSUMS), sums)?;
    println!("{}: {name} ({:.1} MB), {LICENSES}, {CHECKSUMS}", directory.display(), megabytes(binary.len()));
    Ok(())
}

/// License of a crate that is linked into the binary.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct License {
    name: String,
    version: String,
    /// An SPDX expression.
    expression: String,
}

/// Parses the output of `cargo tree`: `serde v1.0.229|MIT OR Apache-2.0`, or `quorate-core v0.1.0 (PATH)|… (*)`.
fn licenses(tree: &str) -> Result<BTreeSet<License>> {
    let mut licenses = BTreeSet::new();
    for line in tree.lines().filter(|line| !line.trim().is_empty()) {
        let unexpected = || format!("unexpected line of `cargo tree`: `{line}`");
        // Marks a crate whose dependencies were listed before.
        let line = line.strip_suffix(" (*)").unwrap_or(line);
        let (package, expression) = line.split_once('|').with_context(unexpected)?;
        let (name, rest) = package.split_once(" v").with_context(unexpected)?;
        let version = rest.split(' ').next().unwrap_or(rest);
        if expression.trim().is_empty() {
            bail!(
                "{name} {version} is linked into the binary and has no license in its Cargo.toml: replace the crate, or \
                 add a license upstream"
            );
        }
        licenses.insert(License {
            name: name.to_owned(),
            version: version.to_owned(),
            // Older manifests separate alternatives with a slash, which is not valid SPDX.
            expression: expression.replace('/', " OR "),
        });
    }
    ensure!(!licenses.is_empty(), "`cargo tree` lists no dependencies");
    Ok(licenses)
}

fn license_table(licenses: &BTreeSet<License>) -> String {
    let mut text = String::from("name\tversion\tlicense\n");
    for License { name, version, expression } in licenses {
        text.push_str(&format!("{name}\t{version}\t{expression}\n"));
    }
    text
}

/// Formats a line for `sha256sum --check`.
fn checksum(bytes: &[u8], name: &str) -> String {
    let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hash}  {name}\n")
}

fn check_size(bytes: usize) -> Result<()> {
    ensure!(
        bytes <= BINARY_BYTES_MAX,
        "the binary has {:.1} MB, more than {:.0} MB: `cargo bloat --profile dist` shows what grew",
        megabytes(bytes),
        megabytes(BINARY_BYTES_MAX)
    );
    Ok(())
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests;
