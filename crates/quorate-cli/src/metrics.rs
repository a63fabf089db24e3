//! `quorate metrics`: prints the hub's metrics in Prometheus format.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::hub::HubArgs;
use crate::output::{OutputArgs, OutputFormat, Table};
use crate::terminal;

/// Arguments of `quorate metrics`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate metrics quorate_commit

By default prints the Prometheus text format unchanged; with --json, --jsonl or --format table, one entry \
per sample.")]
pub(crate) struct MetricsArgs {
    /// Only metrics whose name has this prefix.
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn run(args: MetricsArgs) -> anyhow::Result<()> {
    let response = args.hub.open()?.get("/metrics", &[]).await?;
    let matches = |name: &str| args.prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix.as_str()));
    if !args.output.is_explicit() {
        let lines = response.lines().filter(|line| matches(name_of(line)));
        lines.for_each(|line| terminal::print(terminal::sanitize(line)));
        return Ok(());
    }
    let samples: Vec<(String, String, String)> =
        response.lines().filter_map(parse_sample).filter(|(name, _, _)| matches(name)).collect();
    let to_json = |(name, labels, value): &(String, String, String)| -> Value {
        let number = value.parse::<f64>().map_or_else(|_| value.as_str().into(), Value::from);
        json!({"name": name, "labels": labels_of(labels), "value": number})
    };
    match args.output.format() {
        OutputFormat::Json => {
            let document = json!({"figures": samples.iter().map(to_json).collect::<Vec<_>>()});
            terminal::print(terminal::sanitize_json(&document.to_string()));
        }
        OutputFormat::Jsonl => {
            samples
                .iter()
                .for_each(|sample| terminal::print(terminal::sanitize_json(&to_json(sample).to_string())));
        }
        format => {
            let mut table = Table::new(["NAME", "VALUE", "LABELS"]);
            samples.into_iter().for_each(|(name, labels, value)| table.row([name, value, labels]));
            table.print(format);
        }
    }
    Ok(())
}

/// Returns the metric name of a sample line or of a `# HELP`, `# TYPE` or `# UNIT` line.
fn name_of(line: &str) -> &str {
    let rest = ["# HELP ", "# TYPE ", "# UNIT "].iter().find_map(|prefix| line.strip_prefix(prefix));
    rest.unwrap_or(line).split(['{', ' ']).next().unwrap_or_default()
}

/// Parses name, labels and value of a sample; `None` for a comment line.
fn parse_sample(line: &str) -> Option<(String, String, String)> {
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

/// Parses labels such as `a="b",c="d\\"e"` into an object.
fn labels_of(text: &str) -> Value {
    let mut labels = Map::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next() {
                Some((index, '"')) => break index + 1,
                Some((_, '\\')) => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, ch)) => value.push(ch),
                    None => break after.len(),
                },
                Some((_, ch)) => value.push(ch),
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

    use super::{labels_of, name_of, parse_sample};

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
    fn samples_are_parsed_with_their_labels() {
        let parse = |line| parse_sample(line).map(|(name, labels, value)| [name, labels, value]);
        assert_eq!(parse("a_total 3"), Some(["a_total", "", "3"].map(String::from)));
        let labelled = r#"a{to="x y",k="}"} 4.5"#;
        assert_eq!(parse(labelled), Some(["a", r#"to="x y",k="}""#, "4.5"].map(String::from)));
        assert_eq!(parse("# HELP a b"), None);
        assert_eq!(name_of("# HELP a_total Things."), "a_total");
        assert_eq!(name_of("a_total{b=\"c\"} 1"), "a_total");
    }
}
