//! Tests of `ready.json`.

use std::fs;

use super::ReadyFile;

#[test]
fn only_a_hub_on_this_machine_is_discovered() {
    let data = tempfile::tempdir().expect("a directory");
    let url = || ReadyFile::read(data.path()).map(|ready| ready.url);
    let url_after = |line: &str| {
        fs::write(data.path().join("ready.json"), line.replace('}', r#","pid":7}"#)).expect("written");
        url()
    };
    assert_eq!(url(), None);
    assert_eq!(url_after(r#"{"http":"127.0.0.1:81"}"#).as_deref(), Some("http://127.0.0.1:81"));
    assert_eq!(url_after(r#"{"http":"[::1]:81"}"#).as_deref(), Some("http://[::1]:81"));
    assert_eq!(url_after(r#"{"http":"0.0.0.0:81"}"#).as_deref(), Some("http://127.0.0.1:81"));
    assert_eq!(url_after(r#"{"https":"0.0.0.0:81"}"#).as_deref(), Some("https://127.0.0.1:81"));
    assert_eq!(url_after(r#"{"http":"192.0.2.1:81"}"#), None, "another machine");
    assert_eq!(
        url_after(r#"{"http":"127.0.0.1:81","url":"https://127.0.0.1:81"}"#).as_deref(),
        Some("https://127.0.0.1:81")
    );
    assert_eq!(url_after("nonsense"), None);
}
