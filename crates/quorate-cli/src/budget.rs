//! `quorate budget`: sets and shows the limits of message chains.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::hub::{DryRunArgs, HubArgs, JsonFields, Method, OrderedPageArgs, percent_encode};
use crate::output::{Column, Details, OutputArgs, field, or_dash, parse_response};

/// Arguments of `quorate budget`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate budget set review-7 --messages-max 20")]
pub(crate) struct BudgetArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: BudgetVerb,
}

#[derive(Subcommand, Debug)]
enum BudgetVerb {
    /// Create a budget, or replace its limits; its usage is kept. [rw]
    #[command(after_help = "Example: quorate budget set review-7 --messages-max 20
         quorate msg send --to bob --budget review-7 'please review'

A message that names the budget, and all messages that it causes, count. The agent that creates a budget owns it: it is warned at 80 %, and only it and operators can change it.")]
    Set {
        /// Budget id.
        id: String,
        /// Maximum number of messages.
        #[arg(long, value_name = "N")]
        messages_max: u64,
        /// Maximum number of LLM tokens; stored, but not enforced yet.
        #[arg(long, value_name = "N")]
        tokens_max: Option<u64>,
        /// Maximum cost in millionths of a currency unit; stored, but not enforced yet.
        #[arg(long, value_name = "N")]
        money_max: Option<u64>,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// List budgets, newest first; an agent sees its own. [ro]
    #[command(after_help = "Example: quorate budget list")]
    List {
        #[command(flatten)]
        page: OrderedPageArgs,
    },
    /// Show a budget and its usage. [ro]
    #[command(after_help = "Example: quorate budget show review-7")]
    Show {
        /// Budget id.
        id: String,
    },
}

const COLUMNS: &[Column] = &[
    ("ID", |budget| field(budget, "id")),
    ("OWNER", |budget| or_dash(field(budget, "owner"))),
    ("MESSAGES", |budget| usage(budget, "messagesUsed", "messagesMax")),
    ("TOKENS", |budget| or_dash(field(budget, "tokensMax"))),
    ("MONEY", |budget| or_dash(field(budget, "moneyMax"))),
];

fn usage(budget: &Value, used: &str, max: &str) -> String {
    format!("{} of {}", budget[used], budget[max])
}

pub(crate) async fn run(args: BudgetArgs) -> anyhow::Result<()> {
    let BudgetArgs { hub, output, verb } = args;
    let hub = hub.open_with_output(&output)?;
    match verb {
        BudgetVerb::Set { id, messages_max, tokens_max, money_max, dry_run } => {
            let body = JsonFields::default()
                .set("messagesMax", messages_max)?
                .set_if_some("tokensMax", tokens_max)?
                .set_if_some("moneyMax", money_max)?;
            let path = format!("/v1/budgets/{}", percent_encode(&id));
            let response = hub.write(dry_run, (Method::Put, &path), Some(body.to_json())).await?;
            let Some(response) = response else { return Ok(()) };
            let used = usage(&parse_response(&response)?, "messagesUsed", "messagesMax");
            output.done(&response, &format!("budget {id}: {used} messages used"));
            Ok(())
        }
        BudgetVerb::List { page } => {
            output.list(&hub.get("/v1/budgets", &page.query(&[])).await?, "budgets", COLUMNS)
        }
        BudgetVerb::Show { id } => {
            let response = hub.get(&format!("/v1/budgets/{}", percent_encode(&id)), &[]).await?;
            output.item(&response, || Ok(details(&parse_response(&response)?)))
        }
    }
}

fn details(budget: &Value) -> Details {
    let not_enforced = |name| {
        let limit = field(budget, name);
        if limit.is_empty() { limit } else { format!("{limit} (not enforced yet)") }
    };
    Details::default()
        .add("id", field(budget, "id"))
        .add("owner", field(budget, "owner"))
        .add("messages", usage(budget, "messagesUsed", "messagesMax"))
        .add("tokens", not_enforced("tokensMax"))
        .add("money", not_enforced("moneyMax"))
}
