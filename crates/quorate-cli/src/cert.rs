//! `quorate cert dev`: a certificate for development, so that TLS can be tried without anybody else.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use quorate_store::{Clock as _, SystemClock};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use serde_json::json;

use crate::exit::{CONFLICT, Ended};
use crate::text;

/// How long a certificate for development is good. Browsers take none that is good for more than 398 days.
const DAYS: i64 = 397;
/// Under these names everybody calls a hub on the same machine.
const ALWAYS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Certificates.
#[derive(Subcommand, Debug)]
#[command(after_help = "Example: quorate cert dev --out tls")]
pub(crate) enum CertCommand {
    /// Make a certificate that is good for development and for nothing else. [rw]
    Dev(DevArgs),
}

/// Makes a certificate for development.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate cert dev --out tls --host hub.test

It is signed by itself, so callers must be told to trust it: --ca-file or
QUORATE_CA_FILE, curl --cacert, SSL_CERT_FILE. Whoever has the key can pretend to be the hub to them.")]
pub(crate) struct DevArgs {
    /// The directory to write cert.pem and key.pem to; made if there is none.
    #[arg(long, value_name = "DIR", default_value = "quorate-tls")]
    out: PathBuf,
    /// A name or an address of the hub, besides localhost, 127.0.0.1 and ::1. May be given several times.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Replace what is there. A hub that uses it takes up the new one by itself.
    #[arg(long)]
    force: bool,
    /// Only say what would be written.
    #[arg(long)]
    dry_run: bool,
    /// Print what was written as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: CertCommand) -> anyhow::Result<()> {
    match command {
        CertCommand::Dev(args) => dev(&args),
    }
}

fn dev(args: &DevArgs) -> anyhow::Result<()> {
    let (certificate, key) = (args.out.join("cert.pem"), args.out.join("key.pem"));
    if !args.force
        && let Some(there) = [&certificate, &key].into_iter().find(|path| path.exists())
    {
        let message = format!("{} is there already", there.display());
        let hint = "give another directory with --out, or replace it with --force".to_owned();
        return Err(Ended { code: CONFLICT, message, hint }.into());
    }
    let mut hosts: Vec<String> = ALWAYS.iter().map(ToString::to_string).collect();
    hosts.extend(args.host.iter().filter(|host| !ALWAYS.contains(&host.as_str())).cloned());
    let today = jiff::Timestamp::from_millisecond(i64::try_from(SystemClock::new().now().wall.0)?)?;
    let today = today.to_zoned(jiff::tz::TimeZone::UTC).date();
    let until = today.checked_add(jiff::Span::new().days(DAYS))?;
    let (pem, secret) = make(&hosts, today, until)?;
    if args.dry_run {
        text::say("a dry run: nothing was written");
        return tell(args, &hosts, until);
    }
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    // The key first: a hub that looks in between finds a pair that does not fit, and keeps what it has.
    write(&key, &secret, 0o600).with_context(|| format!("cannot write {}", key.display()))?;
    write(&certificate, &pem, 0o644).with_context(|| format!("cannot write {}", certificate.display()))?;
    tell(args, &hosts, until)
}

fn tell(args: &DevArgs, hosts: &[String], until: jiff::civil::Date) -> anyhow::Result<()> {
    let (certificate, key) = (args.out.join("cert.pem"), args.out.join("key.pem"));
    if args.json {
        let told =
            json!({"certificate": certificate, "key": key, "hosts": hosts, "until": until.to_string()});
        text::print(told.to_string());
        return Ok(());
    }
    text::print(format!("certificate  {}  for {}, until {until}", certificate.display(), hosts.join(", ")));
    text::print(format!("key          {}  readable by you alone", key.display()));
    if args.dry_run {
        return Ok(());
    }
    let extra: String = args.host.iter().map(|host| format!(" --host {host}")).collect();
    text::say(format!(
        "for development only: it is signed by itself. To use it:\n  \
         quorate serve --tls-cert {cert} --tls-key {key}{extra}\n  \
         quorate status --url https://localhost:7867 --ca-file {cert}\n  \
         curl --cacert {cert} https://localhost:7867/healthz",
        cert = certificate.display(),
        key = key.display(),
    ));
    Ok(())
}

fn make(
    hosts: &[String],
    from: jiff::civil::Date,
    until: jiff::civil::Date,
) -> anyhow::Result<(String, String)> {
    let day = |date: jiff::civil::Date| {
        rcgen::date_time_ymd(i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let mut params = CertificateParams::new(hosts).context("a name cannot stand in a certificate")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Quorate development");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // From the day before, for whoever lives west of here or has a clock that is late.
    params.not_before = day(from.yesterday()?);
    params.not_after = day(until);
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Writes a file under another name first, so that nobody reads half of it.
fn write(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let half = path.with_extension("pem-new");
    match fs::remove_file(&half) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&half)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()?;
    fs::rename(&half, path)
}
