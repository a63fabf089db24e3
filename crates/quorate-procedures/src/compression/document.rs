//! A context as sentences with their roles, and as parts.

use super::block::{Block, BlockKind, blocks, list_marker};
use super::part::{Part, heading_text, parts_of_text};
use super::role::{self, Role};
use super::sentence::{plain, sentences};
use super::trim::trimmed;

/// A sentence, table row or line that may become part of the summary.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Unit {
    pub(super) text: String,
    pub(super) role: Role,
    /// Units of the same block are joined if they follow each other.
    pub(super) block: usize,
    /// Section that the unit belongs to.
    pub(super) section: usize,
    /// How much the unit counts, 1 for an ordinary sentence.
    pub(super) factor: f64,
}

/// A context that was read.
pub(super) struct Document<'a> {
    pub(super) title: Option<String>,
    pub(super) units: Vec<Unit>,
    pub(super) parts: Vec<Part<'a>>,
    /// References that the context already had, by name.
    pub(super) refs: Vec<(String, String)>,
}

/// Quoted lines of code and logs.
const LINE_BYTES_MAX: usize = 160;
const LINES_PER_OUTPUT: usize = 2;
const OUTPUT_LINE_FACTOR: f64 = 1.3;
/// Rows repeat the names of their columns, and the table is referenced.
const TABLE_ROW_FACTOR: f64 = 0.2;
/// A list states its points without connecting words.
const LIST_ITEM_FACTOR: f64 = 1.8;
/// Number of sentences of a section about the objective that state it.
const OBJECTIVE_SENTENCES: usize = 2;

impl<'a> Document<'a> {
    /// Reads Markdown or plain text.
    pub(super) fn of_text(text: &'a str) -> Self {
        let mut reader = UnitReader::default();
        reader.read(text);
        Self { title: reader.title, units: reader.units, parts: parts_of_text(text), refs: Vec::new() }
    }
}

/// Collects the units of texts.
pub(super) struct UnitReader {
    pub(super) title: Option<String>,
    pub(super) units: Vec<Unit>,
    /// Role of passages without a heading that states one.
    default: Role,
    /// Roles of the open headings, by level.
    sections: Vec<(usize, Role)>,
    /// Role of the list below a label such as `Not done:`.
    label: Option<Role>,
    block: usize,
    section: usize,
}

impl Default for UnitReader {
    fn default() -> Self {
        let default = Role::Analysis;
        Self {
            title: None,
            units: Vec::new(),
            default,
            sections: Vec::new(),
            label: None,
            block: 0,
            section: 0,
        }
    }
}

impl UnitReader {
    /// Adds the units of a text of its own; `role` is that of passages without a heading.
    pub(super) fn read_as(&mut self, text: &str, role: Role) {
        self.default = role;
        self.sections.clear();
        self.section += 1;
        self.label = None;
        self.read(text);
    }

    /// Adds the units of a text.
    fn read(&mut self, text: &str) {
        for block in blocks(text) {
            self.block += 1;
            match block.kind {
                BlockKind::Heading { level } => self.heading(&block, level),
                BlockKind::Paragraph | BlockKind::ListItem => self.prose(&block),
                BlockKind::Table => self.table(&block),
                BlockKind::Code | BlockKind::Log => self.output(&block),
            }
        }
    }

    /// Adds a text as a single unit.
    pub(super) fn push_text(&mut self, text: &str, role: Role) {
        self.block += 1;
        self.push(plain(text), role, 1.0);
    }

    fn heading(&mut self, block: &Block<'_>, level: usize) {
        let text = heading_text(block);
        self.label = None;
        self.section += 1;
        if self.title.is_none() && self.sections.is_empty() && self.units.is_empty() {
            self.title = Some(text);
            return;
        }
        self.sections.retain(|(open, _)| *open < level);
        let role = role::of_name(&text).unwrap_or_else(|| self.section_role());
        self.sections.push((level, role));
    }

    fn section_role(&self) -> Role {
        self.sections.last().map_or(self.default, |(_, role)| *role)
    }

    fn prose(&mut self, block: &Block<'_>) {
        let text = block.text.trim();
        let text = &text[list_marker(text).unwrap_or(0)..];
        let text = text.trim_start_matches(['>', ' ']);
        let (speaker, text) = split_speaker(text);
        if block.kind == BlockKind::Paragraph {
            self.label = label_line(text);
            if self.label.is_some() {
                return;
            }
        }
        let section = self.label.unwrap_or_else(|| self.section_role());
        let of_block = if block.kind == BlockKind::ListItem { LIST_ITEM_FACTOR } else { 1.0 };
        for (index, sentence) in sentences(text).into_iter().enumerate() {
            let sentence = plain(sentence);
            let lower = sentence.to_lowercase();
            let is_surplus = section == Role::Objective && index >= OBJECTIVE_SENTENCES;
            let role = match role::of_label(&sentence) {
                Some(role) => role,
                None if is_surplus => Role::Analysis,
                None => section,
            };
            let is_reasoning =
                matches!(role, Role::Analysis | Role::Background) && role::is_reasoning(&lower);
            let role = if is_reasoning { Role::Reasoning } else { role };
            let factor = role::emphasis(&lower) * of_block;
            let sentence = trimmed(&sentence);
            let text = if index == 0 { format!("{speaker}{sentence}") } else { sentence };
            self.push(text, role, factor);
        }
    }

    /// Adds each row with the names of its columns.
    fn table(&mut self, block: &Block<'_>) {
        let rows: Vec<Vec<String>> = block.text.lines().map(cells).collect();
        let is_rule = |row: &[String]| row.iter().all(|cell| cell.chars().all(|ch| "-: ".contains(ch)));
        let (header, body) = match rows.get(1).is_some_and(|row| is_rule(row)) {
            true => (rows[0].clone(), &rows[2..]),
            false => (Vec::new(), &rows[..]),
        };
        let section = self.section_role();
        for row in body {
            let text = row_text(&header, row);
            let factor = TABLE_ROW_FACTOR * role::emphasis(&text.to_lowercase());
            self.block += 1;
            self.push(text, section, factor);
        }
    }

    /// Quotes the lines of code or a log that report a failure; short code is quoted completely.
    fn output(&mut self, block: &Block<'_>) {
        const FAILURES: [&str; 7] = ["error", "fatal", "panic", "exception", "failed", "failure", "assert"];
        let lines = block
            .text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("```") && !line.starts_with("~~~"));
        let is_failure = |line: &&str| FAILURES.iter().any(|word| line.to_lowercase().contains(word));
        let mut quoted: Vec<String> = Vec::new();
        for line in
            lines.filter(|line| !block.is_large_output() || is_failure(line)).take(50 * LINES_PER_OUTPUT)
        {
            let line = plain(&line[..line.floor_char_boundary(LINE_BYTES_MAX)]);
            if quoted.len() < LINES_PER_OUTPUT && !line.is_empty() && !quoted.contains(&line) {
                quoted.push(line);
            }
        }
        let section = self.section_role();
        for line in quoted {
            self.block += 1;
            self.push(line, section, OUTPUT_LINE_FACTOR);
        }
    }

    fn push(&mut self, text: String, role: Role, factor: f64) {
        if text.chars().any(char::is_alphanumeric) {
            self.units.push(Unit { text, role, block: self.block, section: self.section, factor });
        }
    }
}

/// Splits the speaker off a line of a conversation, such as `**Ann, 09:12:** Hello`. Only the name is kept.
fn split_speaker(text: &str) -> (String, &str) {
    const SPEAKER_BYTES_MAX: usize = 40;
    let speaker = text.strip_prefix("**").and_then(|rest| {
        let end = rest.find(":**").filter(|end| *end <= SPEAKER_BYTES_MAX)?;
        Some((&rest[..end], rest[end + 3..].trim_start()))
    });
    match speaker {
        Some((label, rest)) if role::of_name(label).is_none() && !rest.is_empty() => {
            let name = label.split(',').next().unwrap_or_default();
            (format!("{}: ", plain(name)), rest)
        }
        _ => (String::new(), text),
    }
}

/// Returns the role of a paragraph that only introduces a list, such as `Not done:`.
fn label_line(text: &str) -> Option<Role> {
    let label = text.trim_end().strip_suffix(':').or_else(|| text.trim_end().strip_suffix(":**"))?;
    (!label.contains(['\n', '.'])).then(|| role::of_name(&plain(label)))?
}

fn cells(line: &str) -> Vec<String> {
    line.trim().trim_start_matches('|').trim_end_matches('|').split('|').map(plain).collect()
}

/// Renders a table row as `first cell: column value, column value`.
fn row_text(header: &[String], row: &[String]) -> String {
    let is_empty = |cell: &str| !cell.chars().any(char::is_alphanumeric);
    let first = row.first().map(String::as_str).unwrap_or_default();
    let values: Vec<String> = row
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, cell)| !is_empty(cell))
        .map(|(index, cell)| match header.get(index).filter(|name| !is_empty(name)) {
            Some(name) => format!("{name} {cell}"),
            None => cell.clone(),
        })
        .collect();
    match (is_empty(first), values.is_empty()) {
        (true, _) => values.join(", "),
        (false, true) => first.to_owned(),
        (false, false) => format!("{first}: {}", values.join(", ")),
    }
}
