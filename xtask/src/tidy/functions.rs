//! Limits the length of functions, except for a flat `match` with short arms.

use super::Violation;
use super::source::{Source, body_or_end, closing_bracket, is_word};

const FUNCTION_LINES_MAX: usize = 70;

/// Maximum length of an arm in a flat `match`.
const ARM_LINES_MAX: usize = 10;

/// Reports all functions of a file that are too long.
pub(crate) fn check(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for function in find_functions(source) {
        let body = &source.code[function.open..=function.close];
        if function.lines() > FUNCTION_LINES_MAX && !is_flat_match(body) {
            let Function { name, .. } = &function;
            let lines = function.lines();
            let problem = format!("function `{name}` has {lines} lines, more than {FUNCTION_LINES_MAX}");
            let help = "split it into steps; only a flat match with short arms may be longer";
            let violation =
                Violation::new("function-length", &source.path, function.first_line, problem, help);
            violations.push(violation.for_item(name));
        }
    }
    violations
}

/// Function with a body: the positions of its braces, and its first and last line.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) open: usize,
    pub(crate) close: usize,
    first_line: usize,
    last_line: usize,
}

impl Function {
    fn lines(&self) -> usize {
        self.last_line - self.first_line + 1
    }
}

/// Returns all functions of a file, including nested ones.
pub(crate) fn find_functions(source: &Source) -> Vec<Function> {
    let code = &source.code;
    let mut functions = Vec::new();
    for (offset, _) in code.match_indices("fn ") {
        let starts_word = offset == 0 || !is_word(code.as_bytes()[offset - 1]);
        let name: String =
            code[offset + 3..].chars().take_while(|char| *char == '_' || char.is_alphanumeric()).collect();
        if !starts_word || name.is_empty() {
            continue;
        }
        let Some(open) = body_or_end(code, offset).filter(|open| code.as_bytes()[*open] == b'{') else {
            continue;
        };
        let Some(close) = closing_bracket(code, open) else { continue };
        let (first_line, last_line) = (source.line_at(offset), source.line_at(close));
        functions.push(Function { name, open, close, first_line, last_line });
    }
    functions
}

/// Whether one top-level `match` makes up three quarters of the body, with no long arm. A `match` in a nested function or
/// block does not count.
fn is_flat_match(body: &str) -> bool {
    let lines = body.lines().count();
    let mut offset = 1;
    while let Some(position) = body[offset..].find(['{', 'm']).map(|position| offset + position) {
        if body.as_bytes()[position] == b'{' {
            offset = closing_bracket(body, position).map_or(body.len(), |end| end + 1);
            continue;
        }
        offset = position + 1;
        if !body[position..].starts_with("match ") || is_word(body.as_bytes()[position - 1]) {
            continue;
        }
        let Some(open) = body_or_end(body, position) else { return false };
        let Some(close) = closing_bracket(body, open) else { return false };
        let arms = &body[open..=close];
        if arms.lines().count() * 4 >= lines * 3 && longest_arm(arms) <= ARM_LINES_MAX {
            return true;
        }
        offset = close + 1;
    }
    false
}

/// Returns the maximum number of lines between two `=>` at the top level of the match.
fn longest_arm(arms: &str) -> usize {
    let mut depth = 0_usize;
    let (mut line, mut arm_line, mut longest) = (0, 0, 0);
    for (offset, byte) in arms.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'\n' => line += 1,
            b'=' if depth == 1 && arms[offset..].starts_with("=>") => {
                longest = longest.max(line - arm_line);
                arm_line = line;
            }
            _ => {}
        }
    }
    longest.max(line - arm_line)
}
