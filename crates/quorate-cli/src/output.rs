//! Output formats of commands: tables, JSON as the hub returned it, JSON Lines, Markdown and tab-separated lines. The output is
//! the same on a terminal and in a pipe, except for the width of tables.

use std::fmt::Display;
use std::io::IsTerminal as _;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::exit::{CommandError, USAGE};
use crate::{ascii, terminal};

/// Minimum width of the last column on a narrow terminal.
const LAST_MIN: usize = 12;

/// Minimum width of the other columns.
const CELL_MIN: usize = 8;

/// Maximum length of a cell; JSON and the `show` commands print the complete value.
const CELL_MAX: usize = 500;

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Aligned columns.
    Table,
    /// One JSON document.
    Json,
    /// One JSON document per line.
    Jsonl,
    /// A Markdown table.
    Md,
    /// Tab-separated fields, one line per item, without a header.
    Compact,
}

/// Options that select the output format.
#[derive(Args, Clone, Default, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print one JSON document.
    #[arg(long, global = true, conflicts_with_all = ["jsonl", "format"])]
    json: bool,
    /// Print one JSON document per line.
    #[arg(long, global = true, conflicts_with = "format")]
    jsonl: bool,
    /// Output format.
    #[arg(long, global = true, value_name = "FORMAT")]
    format: Option<OutputFormat>,
}

impl OutputArgs {
    pub(crate) fn format(&self) -> OutputFormat {
        match (self.json, self.jsonl) {
            (true, _) => OutputFormat::Json,
            (_, true) => OutputFormat::Jsonl,
            _ => self.format.unwrap_or(OutputFormat::Table),
        }
    }

    /// Whether a format was selected explicitly.
    pub(crate) fn is_explicit(&self) -> bool {
        self.json || self.jsonl || self.format.is_some()
    }

    /// Fails if a format was selected, for an option that prints raw content.
    ///
    /// # Errors
    /// If a format was selected.
    pub(crate) fn reject_with(&self, option: &str) -> anyhow::Result<()> {
        if !self.is_explicit() {
            return Ok(());
        }
        let message = format!("{option} cannot be combined with an output format");
        let hint = format!("omit {option} to print everything, or omit the format");
        Err(CommandError::new(USAGE, message, hint).into())
    }

    /// Whether the output is JSON or JSON Lines.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.format(), OutputFormat::Json | OutputFormat::Jsonl)
    }

    /// Prints a list response of the form `{name: […], "cursor": …}`.
    ///
    /// # Errors
    /// If the response has another form.
    pub(crate) fn list(&self, response: &str, name: &str, columns: &[Column]) -> anyhow::Result<()> {
        let listed = self.rows(response, name, columns)?;
        if let (Some(cursor), false) = (&listed.cursor, self.format() == OutputFormat::Json) {
            terminal::note(format!("more results: --cursor {}", terminal::sanitize_line(cursor)));
        }
        Ok(())
    }

    /// Same as [`OutputArgs::list`], without the note about further pages.
    ///
    /// # Errors
    /// As [`OutputArgs::list`].
    pub(crate) fn rows(
        &self,
        response: &str,
        name: &str,
        columns: &[Column],
    ) -> anyhow::Result<ListResponse> {
        let listed = ListResponse::parse(response, name)?;
        if self.format() == OutputFormat::Json {
            terminal::print(terminal::sanitize_json(response));
            return Ok(listed);
        }
        if self.format() == OutputFormat::Jsonl {
            listed.items.iter().for_each(|item| terminal::print(terminal::sanitize_json(item.get())));
        } else {
            let items = listed.values();
            let mut table = Table::new(columns.iter().map(|column| column.0));
            items.iter().for_each(|item| table.row(cells(columns, item)));
            table.print(self.format());
            if items.is_empty() {
                terminal::note(format!("no {}", spaced(name)));
            }
        }
        Ok(listed)
    }

    /// Prints a single item: the response as JSON, or `details` as text.
    pub(crate) fn item(
        &self,
        response: &str,
        details: impl FnOnce() -> anyhow::Result<Details>,
    ) -> anyhow::Result<()> {
        if self.is_json() {
            terminal::print(terminal::sanitize_json(response));
        } else {
            details()?.print(self.format());
        }
        Ok(())
    }

    /// Prints a created item: the response as JSON, or its id; and a summary to stderr.
    pub(crate) fn created(&self, response: &str, id: &str, message: &str) {
        terminal::print(if self.is_json() {
            terminal::sanitize_json(response)
        } else {
            terminal::sanitize_line(id)
        });
        terminal::note(terminal::sanitize_line(message));
    }

    /// Same as [`OutputArgs::created`], for a secret that is printed only once; `lost_hint` is the hint if writing it fails.
    ///
    /// # Errors
    /// If stdout cannot be written.
    pub(crate) fn created_secret(
        &self,
        response: &str,
        secret: &str,
        message: &str,
        lost_hint: &str,
    ) -> anyhow::Result<()> {
        terminal::print_secret(
            if self.is_json() { terminal::sanitize_json(response) } else { terminal::sanitize_line(secret) },
            lost_hint,
        )?;
        terminal::note(terminal::sanitize_line(message));
        Ok(())
    }

    /// Prints the result of a write that created nothing.
    pub(crate) fn done(&self, response: &str, message: &str) {
        if self.is_json() {
            terminal::print(terminal::sanitize_json(response));
        }
        terminal::note(terminal::sanitize_line(message));
    }
}

/// Converts camel case to words: `deadLetters` to `dead letters`.
fn spaced(name: &str) -> String {
    let separate = |ch: char| if ch.is_uppercase() { format!(" {}", ch.to_lowercase()) } else { ch.into() };
    name.chars().map(separate).collect()
}

/// A column: its header, and the function that renders its cells.
pub(crate) type Column = (&'static str, fn(&Value) -> String);

/// Renders a row of a list.
pub(crate) fn cells(columns: &[Column], item: &Value) -> impl Iterator<Item = String> {
    columns.iter().map(|column| truncated(&(column.1)(item), CELL_MAX))
}

/// A list response, with its items as raw JSON.
pub(crate) struct ListResponse {
    pub(crate) items: Vec<Box<RawValue>>,
    pub(crate) cursor: Option<String>,
}

impl ListResponse {
    /// # Errors
    /// If the response has another form.
    pub(crate) fn parse(response: &str, name: &str) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Fields(std::collections::BTreeMap<String, Box<RawValue>>);
        let Fields(mut fields) = serde_json::from_str(response)?;
        let items =
            fields.remove(name).ok_or_else(|| anyhow::anyhow!("the hub's response has no field {name}"))?;
        let cursor =
            fields.remove("cursor").map(|raw| serde_json::from_str(raw.get())).transpose()?.flatten();
        Ok(Self { items: serde_json::from_str(items.get())?, cursor })
    }

    /// Parses the items.
    pub(crate) fn values(&self) -> Vec<Value> {
        self.items.iter().map(|item| parse_lenient(item)).collect()
    }
}

/// Parses a response of the hub. Agents may have stored JSON that cannot be represented, such as the number `1e400`: such fields
/// become strings with their raw JSON, and the rest is parsed.
///
/// # Errors
/// If it is not valid JSON.
pub(crate) fn parse_response(response: &str) -> anyhow::Result<Value> {
    Ok(parse_lenient(serde_json::from_str(response)?))
}

fn parse_lenient(raw: &RawValue) -> Value {
    let text = raw.get();
    if let Ok(value) = serde_json::from_str(text) {
        return value;
    }
    match serde_json::from_str::<std::collections::BTreeMap<String, &RawValue>>(text) {
        Ok(fields) => Value::Object(fields.into_iter().map(|(name, raw)| (name, parse_field(raw))).collect()),
        Err(_) => parse_field(raw),
    }
}

/// Parses a field; a list is parsed item by item, anything else that cannot be represented becomes a string.
fn parse_field(raw: &RawValue) -> Value {
    let text = raw.get();
    let parse_items = |items: Vec<&RawValue>| Value::Array(items.into_iter().map(parse_lenient).collect());
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(text).map(parse_items))
        .unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// A table with headers.
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        Self { header: header.into_iter().map(str::to_owned).collect(), rows: Vec::new() }
    }

    /// Adds a row. Cells are sanitized, since they may contain text from agents.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| terminal::sanitize_line(&cell)).collect());
    }

    pub(crate) fn print(&self, format: OutputFormat) {
        self.lines(format, terminal_width()).iter().for_each(terminal::print);
    }

    fn lines(&self, format: OutputFormat, width: Option<usize>) -> Vec<String> {
        match format {
            OutputFormat::Md => {
                let bar = |cells: &[String]| {
                    let escaped = cells.iter().map(|cell| cell.replace('|', "\\|").replace('<', "&lt;"));
                    format!("| {} |", escaped.collect::<Vec<_>>().join(" | "))
                };
                let rule = format!("|{}", " --- |".repeat(self.header.len()));
                [bar(&self.header), rule].into_iter().chain(self.rows.iter().map(|row| bar(row))).collect()
            }
            OutputFormat::Compact => self.rows.iter().map(|row| row.join("\t")).collect(),
            _ if self.rows.is_empty() => Vec::new(),
            _ => {
                let all = || std::iter::once(&self.header).chain(&self.rows);
                let widths: Vec<usize> = (0..self.header.len())
                    .map(|index| all().map(|row| row[index].chars().count()).max().unwrap_or(0))
                    .collect();
                let widths = fitted(widths, width);
                all().map(|row| aligned(row, &widths, width)).collect()
            }
        }
    }
}

/// Narrows the widest columns until the table fits the terminal; never the first column, which has the id.
fn fitted(mut widths: Vec<usize>, terminal: Option<usize>) -> Vec<usize> {
    let (Some(terminal), Some(last)) = (terminal, widths.len().checked_sub(1)) else { return widths };
    loop {
        let wide = widths[..last].iter().map(|width| width + 2).sum::<usize>() + widths[last].min(LAST_MIN);
        let widest = (1..last).max_by_key(|index| widths[*index]).filter(|index| widths[*index] > CELL_MIN);
        match widest {
            Some(index) if wide > terminal => widths[index] -= 1,
            _ => return widths,
        }
    }
}

/// Aligns the columns of a row; the last one takes the remaining width of the terminal.
fn aligned(row: &[String], widths: &[usize], terminal: Option<usize>) -> String {
    let mut line = String::new();
    for (index, cell) in row.iter().enumerate() {
        if index + 1 == row.len() {
            let remaining = terminal.map(|width| width.saturating_sub(line.chars().count()).max(LAST_MIN));
            line.push_str(&remaining.map_or_else(|| cell.clone(), |remaining| truncated(cell, remaining)));
        } else {
            let width = widths[index];
            line.push_str(&format!("{:<width$}  ", truncated(cell, width)));
        }
    }
    line.trim_end().to_owned()
}

/// Truncates a text to this length, with an ellipsis.
pub(crate) fn truncated(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length.saturating_sub(1)).chain([ascii::ellipsis()]).collect()
}

/// Returns the width of the terminal; `None` if stdout is not a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    let width = std::io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    width.map(|(terminal_size::Width(width), _)| usize::from(width))
}

/// Labelled values of a single item, one per line.
#[derive(Default)]
pub(crate) struct Details(Vec<(String, String)>);

impl Details {
    /// Adds a line, unless the value is empty.
    pub(crate) fn add(mut self, name: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name.to_owned(), value));
        }
        self
    }

    fn print(&self, format: OutputFormat) {
        match format {
            OutputFormat::Md | OutputFormat::Compact => {
                let mut table = Table::new(["field", "value"]);
                self.0.iter().for_each(|(name, value)| table.row([name.clone(), value.clone()]));
                table.print(format);
            }
            _ => {
                let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
                for (name, value) in &self.0 {
                    // Continuation lines are aligned with the first one.
                    let indent = format!("\n{}", " ".repeat(width + 2));
                    terminal::print(format!(
                        "{name:<width$}  {}",
                        terminal::sanitize(value).replace('\n', &indent)
                    ));
                }
            }
        }
    }
}

/// Returns a count with its noun, as `1 agent` or `2 agents`.
pub(crate) fn plural<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Returns a field as text; empty if it is missing.
pub(crate) fn field(value: &Value, name: &str) -> String {
    to_text(&value[name])
}

/// Returns a value as text: strings without quotes, lists with commas.
pub(crate) fn to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(to_text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Returns a payload as text: strings as they are, anything else as pretty-printed JSON.
pub(crate) fn payload_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

/// Returns a payload on one line: strings as they are, anything else as JSON.
pub(crate) fn payload_line(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns a text, or a dash if it is empty.
pub(crate) fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Prints a field of a response without anything else, as [`print_raw`].
///
/// # Errors
/// If the response has no such field.
pub(crate) fn print_raw_field(response: &str, name: &str) -> anyhow::Result<()> {
    let fields: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(response)?;
    let raw = fields.get(name).ok_or_else(|| anyhow::anyhow!("the hub's response has no field {name}"))?;
    print_raw(raw);
    Ok(())
}

/// Prints a stored value without anything else: a string as text, or JSON. Byte for byte to a file or pipe, sanitized on a
/// terminal.
pub(crate) fn print_raw(raw: &RawValue) {
    if terminal::stdout_is_terminal() {
        terminal::print(terminal::sanitize(&payload_text(&parse_field(raw))));
    } else {
        terminal::write_raw(
            &serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned()),
        );
    }
}

/// Shortens an RFC 3339 time to seconds, as `2026-01-31 09:30:00Z`.
pub(crate) fn format_time(value: &Value) -> String {
    let text = to_text(value);
    match (text.get(..10), text.get(11..19)) {
        (Some(day), Some(time)) => format!("{day} {time}Z"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["ID", "TITLE"]);
        table.row(["a".into(), "one|two".into()]);
        table.row(["bbb".into(), "a long title\nwith \x1b[2J".into()]);
        table
    }

    #[test]
    fn columns_are_aligned_and_the_last_is_truncated() {
        let expected = ["ID   TITLE", "a    one|two", "bbb  a long title\\nwith \\u{1b}[2J"];
        assert_eq!(table().lines(OutputFormat::Table, None), expected);
        assert_eq!(table().lines(OutputFormat::Table, Some(17))[2], "bbb  a long titl…");
    }

    // Fails under: lines wider than the terminal, a truncated id, or truncation without need.
    #[test]
    fn wide_columns_are_narrowed_on_a_narrow_terminal() {
        let mut table = Table::new(["KEY", "VALUE", "FROM", "OVER"]);
        table.row(
            ["a-long-key-of-its-own", "/some/where/deep/in/the/tree", "the environment", ""].map(Into::into),
        );
        let lines = table.lines(OutputFormat::Table, Some(60));
        assert_eq!(lines[1], "a-long-key-of-its-own  /some/where/de…  the environme…");
        let expected = "a-long-key-of-its-own  /some/where/deep/in/the/tree  the environment";
        assert_eq!(table.lines(OutputFormat::Table, Some(90))[1], expected);
    }

    #[test]
    fn markdown_and_compact_have_the_same_cells() {
        let md = ["| ID | TITLE |", "| --- | --- |", "| a | one\\|two |"];
        assert_eq!(table().lines(OutputFormat::Md, Some(10))[..3], md);
        assert_eq!(table().lines(OutputFormat::Compact, Some(10))[0], "a\tone|two");
    }

    #[test]
    fn json_that_cannot_be_represented_is_kept_as_text() {
        let entry = r#"{"key":"k","version":3,"content":{"f": 1e400, "s": "\ud800"}}"#;
        let parse = |response: &str| parse_response(response).expect("JSON");
        assert_eq!(to_text(&parse(entry)["content"]), r#"{"f": 1e400, "s": "\ud800"}"#);
        assert_eq!(
            (field(&parse(entry), "key"), &parse(entry)["version"]),
            ("k".to_owned(), &Value::from(3))
        );
        let listed = ListResponse::parse(
            &format!(r#"{{"entries":[{entry},{{"key":"good","content":[1e400, 1]}}]}}"#),
            "entries",
        );
        let items = listed.expect("a list").values();
        assert_eq!(payload_text(&items[0]["content"]), r#"{"f": 1e400, "s": "\ud800"}"#);
        assert_eq!(
            (field(&items[1], "key"), to_text(&items[1]["content"])),
            ("good".to_owned(), "1e400, 1".to_owned())
        );
        assert_eq!(parse("1e400"), Value::from("1e400"));
        assert!(parse_response("{").is_err());
    }

    #[test]
    fn list_items_are_kept_as_raw_json() {
        let listed = ListResponse::parse(r#"{"tasks":[{"n": 1.0}],"cursor":"x"}"#, "tasks").expect("a list");
        assert_eq!((listed.items[0].get(), listed.cursor.as_deref()), (r#"{"n": 1.0}"#, Some("x")));
        assert!(ListResponse::parse(r#"{"other":[]}"#, "tasks").is_err());
    }
}
