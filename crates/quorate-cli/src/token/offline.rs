//! Creates a token in a data directory without a running hub. The owner of the files always has access.

use std::path::Path;

use quorate_api::token::TokenGrants;
use quorate_core::{AgentId, Bearer, Code, Principal, Refused, SpaceName, Timestamp, TokenName};
use quorate_engine::{Engine, Error};
use quorate_store::SystemClock;
use serde_json::json;

use super::{CreateArgs, parse_time, print_created};
use crate::hub;
use crate::output::OutputArgs;
use crate::serve::{IntegrityChecks, recover, restrict_umask};

/// Creates the token with a commit of the system principal, as the hub does at startup.
pub(super) async fn create(
    data: &Path,
    space: Option<&str>,
    args: &CreateArgs,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    if args.dry_run.is_set() {
        hub::print_dry_run(output, "POST", "/v1/tokens", Some(&args.body()?));
        return Ok(());
    }
    restrict_umask();
    let (options, checks) = (quorate_engine::Options::default(), IntegrityChecks::default());
    let engines = recover(data, options, checks, &SystemClock::new())?;
    let result = commit(&engines.public, space, args).await;
    engines.close().await;
    print_created(args, &result?, output, "to revoke it, once a hub is running")
}

async fn commit(
    engine: &std::sync::Arc<Engine>,
    space: Option<&str>,
    args: &CreateArgs,
) -> anyhow::Result<String> {
    let name: SpaceName = space.unwrap_or("default").parse().map_err(Error::from)?;
    if !engine.store().spaces().iter().any(|info| info.name == name) {
        let refused = Refused::new(Code::NotFound, format!("there is no space {name}"));
        return Err(Error::from(refused.hint("`quorate verify` lists the spaces of a data directory")).into());
    }
    let space = engine.space(name).await?;
    let agent = args.agent.as_deref().map(AgentId::new).transpose().map_err(Error::from)?;
    let bearer = Bearer::new(&args.role, agent).map_err(Error::from)?;
    let name = TokenName::new(&args.name).map_err(Error::from)?;
    let expires_at = args.expires_at.as_deref().map(to_timestamp).transpose()?;
    let grants = args.grants().map(TokenGrants::into_core).transpose().map_err(Error::from)?;
    let grants = grants.unwrap_or_default();
    let (id, secret) = space.create_token(&Principal::System, bearer, name, expires_at, grants).await?;
    Ok(json!({"id": id.to_string(), "token": secret.reveal()}).to_string())
}

fn to_timestamp(text: &str) -> anyhow::Result<Timestamp> {
    let time: jiff::Timestamp = parse_time(text)?.parse()?;
    Ok(Timestamp(u64::try_from(time.as_millisecond())?))
}
