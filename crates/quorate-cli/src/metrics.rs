//! `quorate metrics`: the hub's figures, as Prometheus reads them.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::hub::HubArgs;
use crate::shape::{Format, Shape, Table};
use crate::text;

/// The hub's figures.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate metrics quorate_commit

Without a format it is the text that Prometheus reads, byte for byte; with --json,
--jsonl or --format table each figure by itself.")]
pub(crate) struct MetricsArgs {
    /// Only figures whose name begins like this.
    #[arg(value_name = "NAME")]
    prefix: Option<String>,
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    shape: Shape,
}

pub(crate) async fn run(args: MetricsArgs) -> anyhow::Result<()> {
    let answer = args.hub.open()?.get("/metrics", &[]).await?;
    let wanted = |name: &str| args.prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix.as_str()));
    if !args.shape.is_said() {
        let lines = answer.lines().filter(|line| wanted(name_of(line)));
        lines.for_each(|line| text::print(text::clean(line)));
        return Ok(());
    }
    let figures: Vec<(String, String, String)> =
        answer.lines().filter_map(figure).filter(|(name, _, _)| wanted(name)).collect();
    let shown = |(name, labels, value): &(String, String, String)| -> Value {
        let number = value.parse::<f64>().map_or_else(|_| value.as_str().into(), Value::from);
        json!({"name": name, "labels": labels_of(labels), "value": number})
    };
    match args.shape.format() {
        Format::Json => {
            let document = json!({"figures": figures.iter().map(shown).collect::<Vec<_>>()});
            text::print(text::clean_json(&document.to_string()));
        }
        Format::Jsonl => {
            figures.iter().for_each(|figure| text::print(text::clean_json(&shown(figure).to_string())));
        }
        format => {
            let mut table = Table::new(["NAME", "VALUE", "LABELS"]);
            figures.into_iter().for_each(|(name, labels, value)| table.row([name, value, labels]));
            table.print(format);
        }
    }
    Ok(())
}

/// The name that a line is about, also if it only describes it.
fn name_of(line: &str) -> &str {
    let rest = ["# HELP ", "# TYPE ", "# UNIT "].iter().find_map(|lead| line.strip_prefix(lead));
    rest.unwrap_or(line).split(['{', ' ']).next().unwrap_or_default()
}

/// Name, labels and value of a figure; nothing for a line that is none.
fn figure(line: &str) -> Option<(String, String, String)> {
    if line.starts_with('#') {
        return None;
    }
    let (named, value) = match line.rsplit_once('}') {
        Some((named, value)) => (named, value.trim()),
        None => line.split_once(' ')?,
    };
    let (name, labels) = named.split_once('{').unwrap_or((named, ""));
    Some((name.to_owned(), labels.to_owned(), value.split(' ').next()?.to_owned()))
}

/// Labels as an object: `a="b",c="d\\"e"`.
fn labels_of(text: &str) -> Value {
    let mut labels = Map::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let (mut value, mut letters) = (String::new(), after.char_indices());
        let end = loop {
            match letters.next() {
                Some((at, '"')) => break at + 1,
                Some((_, '\\')) => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, letter)) => value.push(letter),
                    None => break after.len(),
                },
                Some((_, letter)) => value.push(letter),
                None => break after.len(),
            }
        };
        labels.insert(name.trim_start_matches([',', ' ']).to_owned(), value.into());
        rest = &after[end..];
    }
    labels.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{figure, labels_of, name_of};

    #[test]
    fn labels_are_an_object() {
        assert_eq!(labels_of(""), json!({}));
        assert_eq!(
            labels_of(r#"type="command",priority="low""#),
            json!({"type": "command", "priority": "low"})
        );
        assert_eq!(labels_of(r#"a="x,y=\"z\"",b="\\n\n""#), json!({"a": "x,y=\"z\"", "b": "\\n\n"}));
        assert_eq!(labels_of(r#"a="never ends"#), json!({"a": "never ends"}));
    }

    #[test]
    fn figures_are_read_with_their_labels() {
        let of = |line| figure(line).map(|(name, labels, value)| [name, labels, value]);
        assert_eq!(of("a_total 3"), Some(["a_total", "", "3"].map(String::from)));
        let labelled = r#"a{to="x y",k="}"} 4.5"#;
        assert_eq!(of(labelled), Some(["a", r#"to="x y",k="}""#, "4.5"].map(String::from)));
        assert_eq!(of("# HELP a b"), None);
        assert_eq!(name_of("# HELP a_total Things."), "a_total");
        assert_eq!(name_of("a_total{b=\"c\"} 1"), "a_total");
    }
}
