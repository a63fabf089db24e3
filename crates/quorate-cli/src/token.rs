//! `quorate token`: creates, lists and revokes access tokens.

mod offline;

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use quorate_api::token::TokenGrants;
use quorate_store::{Clock as _, SystemClock};
use serde_json::Value;

use crate::exit::{CommandError, USAGE};
use crate::hub::{DryRunArgs, HubArgs, JsonFields, Method, OrderedPageArgs, Resource, percent_encode};
use crate::output::{Column, OutputArgs, field, format_time, parse_response, to_text};
use crate::terminal;

/// Arguments of `quorate token`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate token create --role viewer --name dashboard > dashboard.token")]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: TokenVerb,
}

#[derive(Subcommand, Debug)]
enum TokenVerb {
    /// Create a token and print it to stdout, once. [rw]
    #[command(after_help = "Example: quorate token create --role agent --agent bob --name pc > bob.token

The owner of the data directory needs no token: if no hub is running, the token is created in the \
directory itself. At startup the hub creates its own admin token, in the file admin-token, if it is missing.

By default the policy of the space decides what an agent may register with its token: any capability and any agent \
role except coordinator, or with the preset `supervised` only what is registered when the token is created. To grant \
more or less:

  quorate token create --role agent --agent bob --name pc \\
      --grant-role coordinator --grant-capability deploy")]
    Create(CreateArgs),
    /// List tokens without their secrets, newest first. [ro]
    #[command(after_help = "Example: quorate token list")]
    List {
        #[command(flatten)]
        page: OrderedPageArgs,
    },
    /// Revoke a token; open connections are closed within 5 s. [rw]
    #[command(after_help = "Example: quorate token revoke tok_1-4-0")]
    Revoke {
        /// Token id, a unique prefix of it, or @last.
        id: String,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
}

#[derive(Args, Debug)]
struct CreateArgs {
    /// Access role of the token.
    #[arg(long, value_parser = ["agent", "operator", "approver", "moderator", "viewer", "admin"])]
    role: String,
    /// Agent id, for the role agent.
    #[arg(long, value_name = "ID", required_if_eq("role", "agent"))]
    agent: Option<String>,
    /// Descriptive name of the token.
    #[arg(long)]
    name: String,
    /// Expiry: 12h, 30d, or a time such as 2026-01-31T09:30:00Z. By default it does not expire.
    #[arg(long, value_name = "WHEN")]
    expires_at: Option<String>,
    /// Agent role that the agent may register, or '*' for all; can be repeated.
    #[arg(long, value_name = "ROLE", requires = "agent")]
    #[arg(value_parser = ["coordinator", "worker", "specialist", "observer", "*"])]
    grant_role: Vec<String>,
    /// Capability that the agent may register, and type of tasks that it may claim, or '*' for all; can be repeated.
    #[arg(long, value_name = "CAPABILITY", requires = "agent")]
    grant_capability: Vec<String>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

const COLUMNS: &[Column] = &[
    ("ID", |token| field(token, "id")),
    ("ROLE", |token| field(token, "role")),
    ("AGENT", |token| field(token, "agent")),
    ("NAME", |token| field(token, "name")),
    ("CREATED", |token| format_time(&token["createdAt"])),
    ("EXPIRES", |token| format_time(&token["expiresAt"])),
    ("CREATED BY", |token| field(token, "createdBy")),
    ("GRANTS", |token| grants_text(&token["grants"])),
];

/// Returns the recorded grants of a token as text.
fn grants_text(grants: &Value) -> String {
    let text = |name| match &grants[name] {
        Value::Null => None,
        Value::Array(list) if list.is_empty() => Some(format!("{name}: none")),
        list => Some(format!("{name}: {}", to_text(list))),
    };
    [text("roles"), text("capabilities")].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

pub(crate) async fn run(args: TokenArgs) -> anyhow::Result<()> {
    let TokenArgs { hub, output, verb } = args;
    if let (TokenVerb::Create(args), Some(data)) = (&verb, hub.offline_data()?) {
        return offline::create(&data, hub.space.as_deref(), args, &output).await;
    }
    let hub = hub.open_with_output(&output)?;
    match verb {
        TokenVerb::Create(args) => {
            let response = hub.write(args.dry_run, (Method::Post, "/v1/tokens"), Some(args.body()?)).await?;
            response.map_or(Ok(()), |response| print_created(&args, &response, &output, "to revoke it"))
        }
        TokenVerb::List { page } => {
            output.list(&hub.get("/v1/tokens", &page.query(&[])).await?, "tokens", COLUMNS)
        }
        TokenVerb::Revoke { id, dry_run } => {
            let id = hub.resolve_id(Resource::Token, &id).await?;
            let path = format!("/v1/tokens/{}", percent_encode(&id));
            let response = hub.write(dry_run, (Method::Delete, &path), None).await?;
            response.iter().for_each(|response| output.done(response, &format!("revoked token {id}")));
            Ok(())
        }
    }
}

impl CreateArgs {
    /// Returns the request body.
    fn body(&self) -> anyhow::Result<String> {
        let body = JsonFields::default()
            .set("role", &self.role)?
            .set_if_some("agent", self.agent.as_ref())?
            .set("name", &self.name)?
            .set_if_some("expiresAt", self.expires_at.as_deref().map(parse_time).transpose()?)?
            .set_if_some("grants", self.grants())?;
        Ok(body.to_json())
    }

    /// Returns the grants; `None` if the policy decides.
    fn grants(&self) -> Option<TokenGrants> {
        let list = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
        let (roles, capabilities) = (list(&self.grant_role), list(&self.grant_capability));
        (roles.is_some() || capabilities.is_some()).then_some(TokenGrants { roles, capabilities })
    }
}

/// Prints a new token; `revoke_label` introduces the command that revokes it.
fn print_created(
    args: &CreateArgs,
    response: &str,
    output: &OutputArgs,
    revoke_label: &str,
) -> anyhow::Result<()> {
    let created = parse_response(response)?;
    let (id, CreateArgs { role, name, .. }) = (field(&created, "id"), args);
    let message =
        format!("created token {id} for {name}, role {role}; it is on stdout and is not shown again");
    let lost_hint = format!(
        "token {id} was created, but could not be printed; revoke it and create another: quorate token revoke {id}"
    );
    output.created_secret(response, &field(&created, "token"), &message, &lost_hint)?;
    terminal::note(format!("{revoke_label}: quorate token revoke {id}"));
    Ok(())
}

/// Parses an RFC 3339 time, or a duration from now such as `12h`.
pub(crate) fn parse_time(text: &str) -> anyhow::Result<String> {
    let invalid = || {
        let hint = "use 90s, 15m, 12h, 30d, or a time such as 2026-01-31T09:30:00Z";
        anyhow::Error::from(CommandError::new(
            USAGE,
            format!("invalid time {:?}", terminal::sanitize_line(text)),
            hint,
        ))
    };
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(format!("{time:.3}"));
    }
    let duration = parse_duration(text).map_err(|_| invalid())?;
    let offset = SignedDuration::try_from(duration).map_err(|_| invalid())?;
    let now = i64::try_from(SystemClock::new().now().wall.0)?;
    let time = Timestamp::from_millisecond(now)?.checked_add(offset).map_err(|_| invalid())?;
    Ok(format!("{time:.3}"))
}

/// Parses a duration such as `90s`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || "expected a duration such as 500ms, 90s, 15m, 12h or 30d".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(invalid)?;
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(invalid()),
    };
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    ms.map(Duration::from_millis).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_with_a_unit() {
        let ms = |text| parse_duration(text).map(|duration| duration.as_millis());
        assert_eq!((ms("500ms"), ms("90s"), ms("15m")), (Ok(500), Ok(90_000), Ok(900_000)));
        assert_eq!((ms("12h"), ms("30d")), (Ok(43_200_000), Ok(2_592_000_000)));
        for invalid in ["", "s", "90", "-1s", "1.5h", "1w", "99999999999999999999d"] {
            assert!(parse_duration(invalid).is_err(), "{invalid}");
        }
    }
}
