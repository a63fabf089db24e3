//! `quorate cert dev`: creates a self-signed certificate for trying TLS locally.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use quorate_env::replace_file;
use quorate_store::{Clock as _, SystemClock};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use serde_json::json;

use crate::exit::{CONFLICT, CommandError};
use crate::terminal;

/// Validity of the certificate. Browsers reject certificates that are valid for more than 398 days.
const DAYS: i64 = 397;
/// Host names that are always included.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Subcommands of `quorate cert`.
#[derive(Subcommand, Debug)]
#[command(after_help = "Example: quorate cert dev --out tls")]
pub(crate) enum CertCommand {
    /// Create a self-signed certificate for development. [rw]
    Dev(DevArgs),
}

/// Arguments of `quorate cert dev`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate cert dev --out tls --host hub.test

The certificate is self-signed, so clients must be configured to trust it: --ca-file or QUORATE_CA_FILE, \
curl --cacert, SSL_CERT_FILE. Anyone who has the key can impersonate the hub to these clients.")]
pub(crate) struct DevArgs {
    /// Directory for cert.pem and key.pem; created if missing.
    #[arg(long, value_name = "DIR", default_value = "quorate-tls")]
    out: PathBuf,
    /// Additional host name or IP address of the hub; can be repeated. localhost, 127.0.0.1 and ::1 are included.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Replace existing files. A running hub reloads them automatically.
    #[arg(long)]
    force: bool,
    /// Print what would be written, without writing it.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
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
        && let Some(existing) = [&certificate, &key].into_iter().find(|path| path.exists())
    {
        let message = format!("{} already exists", existing.display());
        let hint = "choose another directory with --out, or overwrite with --force".to_owned();
        return Err(CommandError { code: CONFLICT, message, hint }.into());
    }
    let mut hosts: Vec<String> = LOCAL_HOSTS.iter().map(ToString::to_string).collect();
    hosts.extend(args.host.iter().filter(|host| !LOCAL_HOSTS.contains(&host.as_str())).cloned());
    let today = jiff::Timestamp::from_millisecond(i64::try_from(SystemClock::new().now().wall.0)?)?;
    let today = today.to_zoned(jiff::tz::TimeZone::UTC).date();
    let until = today.checked_add(jiff::Span::new().days(DAYS))?;
    let (pem, secret) = create(&hosts, today, until)?;
    if args.dry_run {
        terminal::note("dry run: nothing was written");
        return print_result(args, &hosts, until);
    }
    fs::create_dir_all(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    // The key first: a hub that reloads in between sees a mismatched pair, and keeps the old one.
    replace_file(&key, secret.as_bytes(), Some(0o600))
        .with_context(|| format!("cannot write {}", key.display()))?;
    replace_file(&certificate, pem.as_bytes(), Some(0o644))
        .with_context(|| format!("cannot write {}", certificate.display()))?;
    print_result(args, &hosts, until)
}

fn print_result(args: &DevArgs, hosts: &[String], until: jiff::civil::Date) -> anyhow::Result<()> {
    let (certificate, key) = (args.out.join("cert.pem"), args.out.join("key.pem"));
    if args.json {
        let document =
            json!({"certificate": certificate, "key": key, "hosts": hosts, "until": until.to_string()});
        terminal::print(document.to_string());
        return Ok(());
    }
    terminal::print(format!(
        "certificate  {}  for {}, until {until}",
        certificate.display(),
        hosts.join(", ")
    ));
    terminal::print(format!("key          {}  readable only by you", key.display()));
    if args.dry_run {
        return Ok(());
    }
    let extra: String = args.host.iter().map(|host| format!(" --host {host}")).collect();
    terminal::note(format!(
        "for development only: the certificate is self-signed. To use it:\n  \
         quorate serve --tls-cert {cert} --tls-key {key}{extra}\n  \
         quorate status --url https://localhost:7867 --ca-file {cert}\n  \
         curl --cacert {cert} https://localhost:7867/healthz",
        cert = certificate.display(),
        key = key.display(),
    ));
    Ok(())
}

fn create(
    hosts: &[String],
    from: jiff::civil::Date,
    until: jiff::civil::Date,
) -> anyhow::Result<(String, String)> {
    let day = |date: jiff::civil::Date| {
        rcgen::date_time_ymd(i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let mut params = CertificateParams::new(hosts).context("invalid host name for a certificate")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Quorate development");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Valid from the day before, for clients in time zones further west or with a slow clock.
    params.not_before = day(from.yesterday()?);
    params.not_after = day(until);
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}
