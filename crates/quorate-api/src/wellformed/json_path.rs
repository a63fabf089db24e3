//! Path of a position within a JSON document: `$.findings[2].text`.

/// Maximum number of characters of a key in a path.
const KEY_CHARS_MAX: usize = 64;

/// Nesting level of the document.
enum Level<'a> {
    Object { key: &'a [u8], in_key: bool },
    Array { index: usize },
}

/// Returns the path of the value or key at this position of valid JSON.
pub(super) fn path_at(bytes: &[u8], position: usize) -> String {
    let mut levels: Vec<Level<'_>> = Vec::new();
    let mut at = 0;
    while at < position {
        match bytes[at] {
            b'{' => levels.push(Level::Object { key: b"", in_key: true }),
            b'[' => levels.push(Level::Array { index: 0 }),
            b'}' | b']' => drop(levels.pop()),
            b':' => {
                if let Some(Level::Object { in_key, .. }) = levels.last_mut() {
                    *in_key = false;
                }
            }
            b',' => match levels.last_mut() {
                Some(Level::Object { in_key, .. }) => *in_key = true,
                Some(Level::Array { index }) => *index += 1,
                None => {}
            },
            b'"' => {
                let end = end_of_string(bytes, at);
                if let Some(Level::Object { key, in_key: true }) = levels.last_mut() {
                    *key = &bytes[at + 1..end];
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    render(&levels)
}

/// Returns the position of the closing quote of the string that starts at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

fn render(levels: &[Level<'_>]) -> String {
    let mut path = "$".to_owned();
    for level in levels {
        match level {
            // The key in its escaped form.
            Level::Object { key, .. } => {
                path.push('.');
                path.extend(String::from_utf8_lossy(key).chars().take(KEY_CHARS_MAX));
            }
            Level::Array { index } => path.push_str(&format!("[{index}]")),
        }
    }
    path
}
