//! Splits Markdown or plain text into blocks. Every byte of the text belongs to at most one block.

/// Kind of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockKind {
    Heading {
        level: usize,
    },
    Paragraph,
    ListItem,
    /// A fenced or indented code block.
    Code,
    /// Lines of a log or stack trace outside of a fence.
    Log,
    Table,
}

/// A block: its kind and its position in the text. It ends at the end of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block<'a> {
    pub(super) kind: BlockKind,
    pub(super) start: usize,
    pub(super) text: &'a str,
}

/// Minimum size of a block that is referenced instead of summarised.
const LARGE_LINES_MIN: usize = 4;
const LARGE_BYTES_MIN: usize = 160;
/// Consecutive lines that look like log output are a log.
const LOG_LINES_MIN: usize = 3;
/// A text of this size with next to no spaces is data, such as Base64 or minified code.
const DATA_BYTES_MIN: usize = 400;

impl Block<'_> {
    /// Whether the block is a large output: it is referenced, and not summarised sentence by sentence.
    pub(super) fn is_large_output(&self) -> bool {
        match self.kind {
            BlockKind::Code | BlockKind::Log | BlockKind::Table => {
                self.text.len() >= LARGE_BYTES_MIN
                    && (self.line_count() >= LARGE_LINES_MIN || self.text.len() >= DATA_BYTES_MIN)
            }
            BlockKind::Heading { .. } | BlockKind::Paragraph | BlockKind::ListItem => false,
        }
    }

    pub(super) fn line_count(&self) -> usize {
        self.text.lines().count()
    }
}

/// Splits a text into blocks.
pub(super) fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut reader = Reader { text, blocks: Vec::new(), open: None };
    let mut start = 0;
    let mut fence: Option<(usize, &str)> = None;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let trimmed = line.trim();
        match fence {
            Some((fence_start, marker)) => {
                if trimmed.starts_with(marker)
                    && trimmed.trim_start_matches(marker.as_bytes()[0] as char).is_empty()
                {
                    reader.push(BlockKind::Code, fence_start, end);
                    fence = None;
                }
            }
            None => match fence_marker(trimmed) {
                Some(marker) => {
                    reader.close(start);
                    fence = Some((start, marker));
                }
                None => reader.line(line, start),
            },
        }
        start = end;
    }
    match fence {
        // An unclosed fence extends to the end.
        Some((fence_start, _)) => reader.push(BlockKind::Code, fence_start, text.len()),
        None => reader.close(text.len()),
    }
    merge_logs(text, reader.blocks)
}

fn fence_marker(line: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|marker| line.starts_with(marker))
}

/// Kind of a line outside of fences.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Blank,
    Heading(usize),
    /// The underline of a heading, or a thematic break.
    Rule,
    Item,
    TableRow,
    Log,
    /// Indented by at least four columns.
    Indented,
    Text,
}

fn line_kind(line: &str) -> LineKind {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return LineKind::Blank;
    }
    let hashes = trimmed.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&hashes) && trimmed[hashes..].starts_with(' ') {
        return LineKind::Heading(hashes);
    }
    if trimmed.len() >= 3 && ["-", "=", "*"].iter().any(|mark| trimmed.replace(mark, "").is_empty()) {
        return LineKind::Rule;
    }
    if trimmed.starts_with('|') {
        return LineKind::TableRow;
    }
    if list_marker(trimmed).is_some() {
        return LineKind::Item;
    }
    if is_log_line(trimmed) {
        return LineKind::Log;
    }
    if line.starts_with("    ") || line.starts_with('\t') { LineKind::Indented } else { LineKind::Text }
}

/// Returns the length of a list marker such as `- ` or `12. `.
pub(super) fn list_marker(line: &str) -> Option<usize> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &line[digits..];
    let length = match digits {
        0 if ["- ", "* ", "+ ", "• "].iter().any(|mark| line.starts_with(mark)) => line.find(' ')? + 1,
        1..=3 if rest.starts_with(". ") || rest.starts_with(") ") => digits + 2,
        _ => return None,
    };
    Some(length)
}

/// Whether a line looks like log output or a frame of a stack trace.
fn is_log_line(line: &str) -> bool {
    const LEVELS: [&str; 8] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE", "FATAL", "[ERROR]", "[INFO]"];
    const FRAMES: [&str; 3] = ["at ", "File \"", "Traceback "];
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_time = first.len() >= 8
        && first.bytes().filter(u8::is_ascii_digit).count() >= 6
        && first.bytes().all(|byte| byte.is_ascii_digit() || b"-:.,/TZ+[]".contains(&byte));
    let is_frame = FRAMES.iter().any(|start| line.starts_with(start)) && line.contains(['(', '"', ':']);
    is_time || LEVELS.contains(&first) || is_frame && line.ends_with([')', ':', '"'])
}

struct Reader<'a> {
    text: &'a str,
    blocks: Vec<Block<'a>>,
    /// The block that the next line may continue.
    open: Option<(BlockKind, usize)>,
}

impl<'a> Reader<'a> {
    fn push(&mut self, kind: BlockKind, start: usize, end: usize) {
        self.blocks.push(Block { kind, start, text: &self.text[start..end] });
    }

    fn close(&mut self, end: usize) {
        if let Some((kind, start)) = self.open.take() {
            self.push(kind, start, end);
        }
    }

    /// Starts a block, unless the open one has this kind and continues.
    fn continue_or_start(&mut self, kind: BlockKind, start: usize) {
        if self.open.is_none_or(|(open, _)| open != kind) {
            self.close(start);
            self.open = Some((kind, start));
        }
    }

    fn line(&mut self, line: &str, start: usize) {
        let end = start + line.len();
        let open = self.open.map(|(kind, _)| kind);
        match line_kind(line) {
            LineKind::Blank => self.close(start),
            LineKind::Heading(level) => {
                self.close(start);
                self.push(BlockKind::Heading { level }, start, end);
            }
            LineKind::Rule => self.rule(line, start, end),
            LineKind::TableRow => self.continue_or_start(BlockKind::Table, start),
            LineKind::Item => {
                self.close(start);
                self.open = Some((BlockKind::ListItem, start));
            }
            LineKind::Log => self.continue_or_start(BlockKind::Log, start),
            LineKind::Indented if open.is_none() && !self.follows_list() => {
                self.open = Some((BlockKind::Code, start));
            }
            LineKind::Indented if open.is_some() => {}
            LineKind::Indented | LineKind::Text => match open {
                Some(BlockKind::Paragraph | BlockKind::ListItem) => {}
                _ => self.continue_or_start(BlockKind::Paragraph, start),
            },
        }
    }

    /// A rule below a single line of text makes it a heading; otherwise it separates blocks.
    fn rule(&mut self, line: &str, start: usize, end: usize) {
        let level = if line.trim_start().starts_with('=') { 1 } else { 2 };
        match self.open.take() {
            Some((BlockKind::Paragraph, open)) if self.text[open..start].trim_end().lines().count() == 1 => {
                self.push(BlockKind::Heading { level }, open, end);
            }
            Some((kind, open)) => self.push(kind, open, start),
            None => {}
        }
    }

    fn follows_list(&self) -> bool {
        self.blocks.last().is_some_and(|block| block.kind == BlockKind::ListItem)
    }
}

/// Turns short runs of log lines into paragraphs, and large texts without spaces into code.
fn merge_logs<'a>(text: &'a str, blocks: Vec<Block<'a>>) -> Vec<Block<'a>> {
    let mut merged: Vec<Block<'a>> = Vec::with_capacity(blocks.len());
    for mut block in blocks {
        if block.kind == BlockKind::Log && block.line_count() < LOG_LINES_MIN {
            block.kind = BlockKind::Paragraph;
        }
        if block.kind == BlockKind::Paragraph && is_data(block.text) {
            block.kind = BlockKind::Code;
        }
        match merged.last_mut() {
            Some(last)
                if last.kind == BlockKind::Paragraph
                    && block.kind == BlockKind::Paragraph
                    && last.start + last.text.len() == block.start =>
            {
                last.text = &text[last.start..block.start + block.text.len()];
            }
            _ => merged.push(block),
        }
    }
    merged
}

/// Whether a text is data and not prose. Scripts without spaces, such as Chinese, are not ASCII.
fn is_data(text: &str) -> bool {
    let spaces = text.bytes().filter(u8::is_ascii_whitespace).count();
    text.len() >= DATA_BYTES_MIN
        && spaces * 25 < text.len()
        && text.bytes().filter(u8::is_ascii).count() * 10 >= text.len() * 9
}
