//! Which hub is meant, and which token goes where.

use std::fs;

use super::Ready;

#[test]
fn a_hub_that_runs_is_found_on_this_machine_only() {
    let data = tempfile::tempdir().expect("a directory");
    let said = || Ready::read(data.path()).map(|ready| ready.url);
    let says = |line: &str| {
        fs::write(data.path().join("ready.json"), line.replace('}', r#","pid":7}"#)).expect("written");
        said()
    };
    assert_eq!(said(), None);
    assert_eq!(says(r#"{"http":"127.0.0.1:81"}"#).as_deref(), Some("http://127.0.0.1:81"));
    assert_eq!(says(r#"{"http":"[::1]:81"}"#).as_deref(), Some("http://[::1]:81"));
    assert_eq!(says(r#"{"http":"0.0.0.0:81"}"#).as_deref(), Some("http://127.0.0.1:81"));
    assert_eq!(says(r#"{"https":"0.0.0.0:81"}"#).as_deref(), Some("https://127.0.0.1:81"));
    assert_eq!(says(r#"{"http":"192.0.2.1:81"}"#), None, "somebody else's machine");
    assert_eq!(
        says(r#"{"http":"127.0.0.1:81","url":"https://127.0.0.1:81"}"#).as_deref(),
        Some("https://127.0.0.1:81")
    );
    assert_eq!(says("nonsense"), None);
}
