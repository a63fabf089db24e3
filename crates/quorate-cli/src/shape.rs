//! How a command shows what it found: a table for people, JSON as the hub said it, lines for scripts, Markdown. The same
//! bytes whoever reads: only the width of a table depends on the terminal.

use std::io::IsTerminal as _;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{ascii, text};

/// The narrowest that a last column gets on a narrow terminal.
const LAST_MIN: usize = 12;

/// The narrowest that any other column gets there.
const CELL_MIN: usize = 8;

/// How much of a payload stands in a list; the whole of it is in JSON, and where one thing is shown.
const CELL_MAX: usize = 500;

/// How to show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// Columns, for people.
    Table,
    /// One JSON document: what the hub answered.
    Json,
    /// One JSON document a line.
    Jsonl,
    /// A table in Markdown.
    Md,
    /// One line each, fields between tabs, no head.
    Compact,
}

/// What to print and how.
#[derive(Args, Clone, Default, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Shape {
    /// One JSON document, the same in a pipe and on a terminal.
    #[arg(long, global = true, conflicts_with_all = ["jsonl", "format"])]
    json: bool,
    /// One JSON document a line.
    #[arg(long, global = true, conflicts_with = "format")]
    jsonl: bool,
    /// How to print it.
    #[arg(long, global = true, value_name = "FORMAT")]
    format: Option<Format>,
}

impl Shape {
    pub(crate) fn format(&self) -> Format {
        match (self.json, self.jsonl) {
            (true, _) => Format::Json,
            (_, true) => Format::Jsonl,
            _ => self.format.unwrap_or(Format::Table),
        }
    }

    /// Whether anybody said how to print.
    pub(crate) fn is_said(&self) -> bool {
        self.json || self.jsonl || self.format.is_some()
    }

    /// Whether a program reads.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.format(), Format::Json | Format::Jsonl)
    }

    /// A list as the hub answered it: `{name: […], "cursor": …}`.
    ///
    /// # Errors
    /// When the answer is no such list.
    pub(crate) fn list(&self, answer: &str, name: &str, columns: &[Column]) -> anyhow::Result<()> {
        let listed = self.rows(answer, name, columns)?;
        if let (Some(cursor), false) = (&listed.cursor, self.format() == Format::Json) {
            text::say(format!("there are more: --cursor {}", text::clean_line(cursor)));
        }
        Ok(())
    }

    /// As [`Shape::list`], without a word on what follows.
    ///
    /// # Errors
    /// As [`Shape::list`].
    pub(crate) fn rows(&self, answer: &str, name: &str, columns: &[Column]) -> anyhow::Result<Listed> {
        let listed = Listed::read(answer, name)?;
        if self.format() == Format::Json {
            text::print(text::clean_json(answer));
            return Ok(listed);
        }
        if self.format() == Format::Jsonl {
            listed.items.iter().for_each(|item| text::print(text::clean_json(item.get())));
        } else {
            let items = listed.values();
            let mut table = Table::new(columns.iter().map(|column| column.0));
            items.iter().for_each(|item| table.row(cells(columns, item)));
            table.print(self.format());
            if items.is_empty() {
                text::say(format!("no {}", in_words(name)));
            }
        }
        Ok(listed)
    }

    /// One thing as the hub answered it; `facts` says it to people.
    pub(crate) fn one(
        &self,
        answer: &str,
        facts: impl FnOnce() -> anyhow::Result<Facts>,
    ) -> anyhow::Result<()> {
        if self.is_json() {
            text::print(text::clean_json(answer));
        } else {
            facts()?.print(self.format());
        }
        Ok(())
    }

    /// What a write made: the answer for programs, an id for scripts; and what was done, on stderr.
    pub(crate) fn made(&self, answer: &str, id: &str, done: &str) {
        text::print(if self.is_json() { text::clean_json(answer) } else { text::clean_line(id) });
        text::say(text::clean_line(done));
    }

    /// As [`Shape::made`], of a secret that is told only now; `again` says how to get another.
    ///
    /// # Errors
    /// When it did not get out.
    pub(crate) fn made_once(
        &self,
        answer: &str,
        secret: &str,
        done: &str,
        again: &str,
    ) -> anyhow::Result<()> {
        text::print_once(
            if self.is_json() { text::clean_json(answer) } else { text::clean_line(secret) },
            again,
        )?;
        text::say(text::clean_line(done));
        Ok(())
    }

    /// What a write did that made nothing new.
    pub(crate) fn done(&self, answer: &str, done: &str) {
        if self.is_json() {
            text::print(text::clean_json(answer));
        }
        text::say(text::clean_line(done));
    }
}

/// `deadLetters` as people say it.
fn in_words(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_uppercase() { format!(" {}", letter.to_lowercase()) } else { letter.into() }
    };
    name.chars().map(letter).collect()
}

/// A column: its name, and what stands in it.
pub(crate) type Column = (&'static str, fn(&Value) -> String);

/// A row of a list.
pub(crate) fn cells(columns: &[Column], item: &Value) -> impl Iterator<Item = String> {
    columns.iter().map(|column| shortened(&(column.1)(item), CELL_MAX))
}

/// A list as the hub answered it, each item as it came.
pub(crate) struct Listed {
    pub(crate) items: Vec<Box<RawValue>>,
    pub(crate) cursor: Option<String>,
}

impl Listed {
    /// # Errors
    /// When the answer is no such list.
    pub(crate) fn read(answer: &str, name: &str) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Fields(std::collections::BTreeMap<String, Box<RawValue>>);
        let Fields(mut fields) = serde_json::from_str(answer)?;
        let items = fields.remove(name).ok_or_else(|| anyhow::anyhow!("the hub's answer has no {name}"))?;
        let cursor =
            fields.remove("cursor").map(|raw| serde_json::from_str(raw.get())).transpose()?.flatten();
        Ok(Self { items: serde_json::from_str(items.get())?, cursor })
    }

    /// The items, to look into.
    pub(crate) fn values(&self) -> Vec<Value> {
        self.items.iter().map(|item| lenient(item)).collect()
    }
}

/// What the hub answered, to look into. Agents may have put JSON into it that no program holds (`1e400` is no number of any
/// machine): that is shown as it came, and the rest is read.
///
/// # Errors
/// When it is no JSON.
pub(crate) fn read(answer: &str) -> anyhow::Result<Value> {
    Ok(lenient(serde_json::from_str(answer)?))
}

fn lenient(raw: &RawValue) -> Value {
    let text = raw.get();
    if let Ok(value) = serde_json::from_str(text) {
        return value;
    }
    match serde_json::from_str::<std::collections::BTreeMap<String, &RawValue>>(text) {
        Ok(fields) => Value::Object(fields.into_iter().map(|(name, raw)| (name, of_field(raw))).collect()),
        Err(_) => of_field(raw),
    }
}

/// A field is a list of things that are read, or it is an agent's: then it stays whole, as text.
fn of_field(raw: &RawValue) -> Value {
    let text = raw.get();
    let of_list = |items: Vec<&RawValue>| Value::Array(items.into_iter().map(lenient).collect());
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(text).map(of_list))
        .unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Rows under names.
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<'a>(head: impl IntoIterator<Item = &'a str>) -> Self {
        Self { head: head.into_iter().map(str::to_owned).collect(), rows: Vec::new() }
    }

    /// Adds a row. What agents wrote may be in it.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| text::clean_line(&cell)).collect());
    }

    pub(crate) fn print(&self, format: Format) {
        self.lines(format, terminal_width()).iter().for_each(text::print);
    }

    fn lines(&self, format: Format, width: Option<usize>) -> Vec<String> {
        match format {
            Format::Md => {
                let bar = |cells: &[String]| {
                    let escaped = cells.iter().map(|cell| cell.replace('|', "\\|").replace('<', "&lt;"));
                    format!("| {} |", escaped.collect::<Vec<_>>().join(" | "))
                };
                let rule = format!("|{}", " --- |".repeat(self.head.len()));
                [bar(&self.head), rule].into_iter().chain(self.rows.iter().map(|row| bar(row))).collect()
            }
            Format::Compact => self.rows.iter().map(|row| row.join("\t")).collect(),
            _ if self.rows.is_empty() => Vec::new(),
            _ => {
                let all = || std::iter::once(&self.head).chain(&self.rows);
                let widths: Vec<usize> = (0..self.head.len())
                    .map(|index| all().map(|row| row[index].chars().count()).max().unwrap_or(0))
                    .collect();
                let widths = fitted(widths, width);
                all().map(|row| aligned(row, &widths, width)).collect()
            }
        }
    }
}

/// Where the columns do not fit on the terminal, the widest give way; the first one, by which a thing is called, never.
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

/// A row with its columns aligned; the last one takes what is left of the terminal.
fn aligned(row: &[String], widths: &[usize], terminal: Option<usize>) -> String {
    let mut line = String::new();
    for (index, cell) in row.iter().enumerate() {
        if index + 1 == row.len() {
            let left = terminal.map(|width| width.saturating_sub(line.chars().count()).max(LAST_MIN));
            line.push_str(&left.map_or_else(|| cell.clone(), |left| shortened(cell, left)));
        } else {
            let width = widths[index];
            line.push_str(&format!("{:<width$}  ", shortened(cell, width)));
        }
    }
    line.trim_end().to_owned()
}

/// The beginning of a text, and that there is more of it.
pub(crate) fn shortened(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length.saturating_sub(1)).chain([ascii::cut()]).collect()
}

fn terminal_width() -> Option<usize> {
    let width = std::io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    width.map(|(terminal_size::Width(width), _)| usize::from(width))
}

/// What is known of one thing, line by line.
#[derive(Default)]
pub(crate) struct Facts(Vec<(String, String)>);

impl Facts {
    /// Adds a line, unless there is nothing to say.
    pub(crate) fn add(mut self, name: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name.to_owned(), value));
        }
        self
    }

    fn print(&self, format: Format) {
        match format {
            Format::Md | Format::Compact => {
                let mut table = Table::new(["field", "value"]);
                self.0.iter().for_each(|(name, value)| table.row([name.clone(), value.clone()]));
                table.print(format);
            }
            _ => {
                let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
                for (name, value) in &self.0 {
                    // What has several lines goes on under its first one.
                    let indent = format!("\n{}", " ".repeat(width + 2));
                    text::print(format!("{name:<width$}  {}", text::clean(value).replace('\n', &indent)));
                }
            }
        }
    }
}

/// A field as text: nothing for what is not there.
pub(crate) fn field(value: &Value, name: &str) -> String {
    plain(&value[name])
}

/// A value as people write it.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A payload: as it is if it is text, else as JSON with a line for each field.
pub(crate) fn payload(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

/// Prints what an agent stored, and nothing else: into a file or a program as it is stored, a text or else JSON, byte for byte;
/// on a terminal made harmless.
pub(crate) fn print_alone(raw: &RawValue) {
    if text::is_read_by_people() {
        text::print(text::clean(&payload(&of_field(raw))));
    } else {
        text::write_exact(
            &serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned()),
        );
    }
}

/// A time without its date's T and its milliseconds: `2026-01-31 09:30:00Z`.
pub(crate) fn time(value: &Value) -> String {
    let text = plain(value);
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
    fn columns_are_aligned_and_the_last_is_cut_to_the_terminal() {
        let whole = ["ID   TITLE", "a    one|two", "bbb  a long title\\nwith \\u{1b}[2J"];
        assert_eq!(table().lines(Format::Table, None), whole);
        assert_eq!(table().lines(Format::Table, Some(17))[2], "bbb  a long titl…");
    }

    // Fails under: lines wider than the terminal, an id that is cut, or a cut where there is room.
    #[test]
    fn wide_columns_give_way_on_a_narrow_terminal() {
        let mut table = Table::new(["KEY", "VALUE", "FROM", "OVER"]);
        table.row(
            ["a-long-key-of-its-own", "/some/where/deep/in/the/tree", "the environment", ""].map(Into::into),
        );
        let lines = table.lines(Format::Table, Some(60));
        assert_eq!(lines[1], "a-long-key-of-its-own  /some/where/de…  the environme…");
        let whole = "a-long-key-of-its-own  /some/where/deep/in/the/tree  the environment";
        assert_eq!(table.lines(Format::Table, Some(90))[1], whole);
    }

    #[test]
    fn markdown_and_lines_hold_the_same() {
        let md = ["| ID | TITLE |", "| --- | --- |", "| a | one\\|two |"];
        assert_eq!(table().lines(Format::Md, Some(10))[..3], md);
        assert_eq!(table().lines(Format::Compact, Some(10))[0], "a\tone|two");
    }

    #[test]
    fn what_no_program_holds_is_shown_as_it_came() {
        let entry = r#"{"key":"k","version":3,"content":{"f": 1e400, "s": "\ud800"}}"#;
        let of = |answer: &str| read(answer).expect("JSON");
        assert_eq!(plain(&of(entry)["content"]), r#"{"f": 1e400, "s": "\ud800"}"#);
        assert_eq!((field(&of(entry), "key"), &of(entry)["version"]), ("k".to_owned(), &Value::from(3)));
        let listed = Listed::read(
            &format!(r#"{{"entries":[{entry},{{"key":"good","content":[1e400, 1]}}]}}"#),
            "entries",
        );
        let items = listed.expect("a list").values();
        assert_eq!(payload(&items[0]["content"]), r#"{"f": 1e400, "s": "\ud800"}"#);
        assert_eq!(
            (field(&items[1], "key"), plain(&items[1]["content"])),
            ("good".to_owned(), "1e400, 1".to_owned())
        );
        assert_eq!(of("1e400"), Value::from("1e400"));
        assert!(read("{").is_err());
    }

    #[test]
    fn a_list_is_read_with_its_items_as_they_came() {
        let listed = Listed::read(r#"{"tasks":[{"n": 1.0}],"cursor":"x"}"#, "tasks").expect("a list");
        assert_eq!((listed.items[0].get(), listed.cursor.as_deref()), (r#"{"n": 1.0}"#, Some("x")));
        assert!(Listed::read(r#"{"other":[]}"#, "tasks").is_err());
    }
}
