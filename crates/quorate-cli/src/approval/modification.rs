//! A modification of a proposed action, given as a JSON patch file or as `--set PATH=VALUE` options.

use std::path::PathBuf;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::exit::{CommandError, USAGE};
use crate::hub::read_file;
use crate::terminal;

/// A requested modification of the payload.
pub(super) enum Modification {
    /// JSON pointers and new values.
    Set(Vec<(String, Value)>),
    /// A JSON patch, passed on byte for byte.
    Patch(Box<RawValue>),
}

/// A modification that is ready to be sent.
pub(super) struct PreparedPatch {
    pub(super) json: Box<RawValue>,
    /// The changes as text, one per line.
    pub(super) lines: Vec<String>,
}

impl Modification {
    pub(super) fn from_options(set: &[String], patch: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(file) = patch {
            let json = RawValue::from_string(read_file(&file)?.trim().to_owned());
            return json.map(Self::Patch).map_err(|error| {
                let hint = "write a JSON patch: [{\"op\":\"replace\",\"path\":\"/to\",\"value\":\"c@x\"}]";
                CommandError::new(USAGE, format!("{} is not valid JSON: {error}", file.display()), hint)
                    .into()
            });
        }
        set.iter().map(|assignment| member(assignment)).collect::<anyhow::Result<_>>().map(Self::Set)
    }

    /// Returns the JSON patch for this action.
    pub(super) fn prepare(self, document: &str) -> anyhow::Result<PreparedPatch> {
        let members = match self {
            Self::Patch(json) => return Ok(PreparedPatch { lines: vec![json.get().to_owned()], json }),
            Self::Set(members) => members,
        };
        let mut action: Value = serde_json::from_str(document).unwrap_or_default();
        let payload = action["payload"].take();
        let (mut changes, mut lines) = (Vec::new(), Vec::new());
        for (path, value) in members {
            let old = payload.pointer(&path);
            lines.extend(old.map(|old| format!("- {path}: {}", plain_text(old))));
            lines.push(format!("+ {path}: {}", plain_text(&value)));
            let op = if old.is_some() { "replace" } else { "add" };
            changes.push(json!({"op": op, "path": path, "value": value}));
        }
        Ok(PreparedPatch { json: serde_json::value::to_raw_value(&changes)?, lines })
    }
}

/// Returns a string without quotes, and anything else as JSON.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Parses `to.0=x` or `/to/0=x` into a JSON pointer and a value, which is JSON or else a string.
fn member(assignment: &str) -> anyhow::Result<(String, Value)> {
    let Some((path, value)) = assignment.split_once('=').filter(|(path, _)| !path.is_empty()) else {
        let message = format!(
            "invalid --set {:?}: there is no `=`, or no path before it",
            terminal::sanitize_line(assignment)
        );
        return Err(CommandError::new(USAGE, message, "use PATH=VALUE, such as to=legal@example.com").into());
    };
    let pointer = if path.starts_with('/') {
        path.to_owned()
    } else {
        path.split('.').map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
    };
    Ok((pointer, serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: text that is sent as JSON; a dot that does not separate members; `add` in place of `replace`.
    #[test]
    fn e3_set_flags_become_a_json_patch() {
        let set = ["to=c@x", "list.0=7", "/a~1b=true", "new.deep={\"x\":1}"].map(str::to_owned);
        let document = r#"{"action":"mail","payload":{"a/b":false,"list":[1],"new":{},"to":"b@x"}}"#;
        let patch = Modification::from_options(&set, None).unwrap().prepare(document).unwrap();
        let json: Value = serde_json::from_str(patch.json.get()).unwrap();
        let expected = json!([
            {"op": "replace", "path": "/to", "value": "c@x"},
            {"op": "replace", "path": "/list/0", "value": 7},
            {"op": "replace", "path": "/a~1b", "value": true},
            {"op": "add", "path": "/new/deep", "value": {"x": 1}},
        ]);
        assert_eq!(json, expected);
        assert_eq!(patch.lines[..2], ["- /to: b@x", "+ /to: c@x"]);
        assert!(Modification::from_options(&["nothing".to_owned()], None).is_err());
    }
}
