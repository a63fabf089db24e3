//! What an effect says to people, in a few words. What is not told here is in `--json`, all of it.

use serde_json::Value;

use crate::msg::urgency;
use crate::shape::{field, plain, shortened, time};

/// How much of a text is shown.
const TEXT_MAX: usize = 60;
/// Messages that are named one by one.
const NAMED_MAX: usize = 4;

/// An effect in words.
pub(super) fn words(effect: &Value) -> String {
    let name = field(effect, "effect");
    let (noun, verb) = name.split_once('.').unwrap_or((&name, ""));
    let told = match noun {
        "message" => message(effect),
        "delivery" => delivery(effect, verb),
        "entry" => format!("{} v{}{}", field(effect, "key"), field(effect, "version"), aside(effect, "type")),
        "agent" => agent(effect, verb),
        "session" => session(effect, verb),
        "task" => task(effect),
        "lock" => lock(effect),
        "request" => request(effect),
        "approval" => approval(effect),
        "procedure" => {
            format!(
                "{} {}: {}",
                field(effect, "procedure"),
                field(effect, "kind"),
                listed([field(effect, "phase"), field(effect, "status")])
            )
        }
        "token" => {
            format!(
                "{} of {} {}",
                field(effect, "token"),
                field(effect, "role"),
                either(effect, ["agent", "name"])
            )
        }
        "topic" => format!("{} and {}", field(effect, "agent"), field(effect, "pattern")),
        "payload" => format!("part {} of record {}", field(effect, "part"), field(effect, "seq")),
        "wait" => circle(effect),
        _ => rest(effect),
    };
    if told.trim().is_empty() { rest(effect) } else { told }
}

fn message(effect: &Value) -> String {
    let from = Some(field(effect, "from")).filter(|from| !from.is_empty());
    let priority = Some(urgency(&effect["priority"])).filter(|word| word != "normal");
    let count = effect["deliveries"].as_array().map_or(0, Vec::len);
    let count = if count > 1 { format!("to {count} agents") } else { String::new() };
    let what = [field(effect, "type"), field(effect, "action"), priority.unwrap_or_default(), count];
    format!(
        "{} from {} to {}: {}",
        field(effect, "id"),
        from.unwrap_or_else(|| "the hub".into()),
        shortened(&plain(&effect["to"]), TEXT_MAX),
        listed(what)
    )
}

fn delivery(effect: &Value, verb: &str) -> String {
    let one = field(effect, "messageId");
    let whose = either(effect, ["agent", "pool"]);
    match verb {
        "leased" | "taken" => format!("{} taken by {}", messages(effect), holder(effect)),
        "ackedMany" => format!("{} done by {}", messages(effect), holder(effect)),
        "acked" => format!("{one} done by {whose}"),
        "returned" => {
            let next = match effect["next"].as_str() {
                Some("dead") => "a dead letter now".to_owned(),
                Some("scheduled") => format!("again at {}", time(&effect["due"])),
                Some("redirected") => format!("now for {}", field(effect, "to")),
                Some("ready") => "to be given out again".to_owned(),
                _ => field(effect, "next"),
            };
            let why = listed([field(effect, "cause"), field(effect, "reason")]);
            format!("{one} back from {whose} ({}): {next}", shortened(&why, TEXT_MAX))
        }
        "expired" => format!("{one} for {whose}: its time is over"),
        "purged" => format!("{one} for {whose}: not wanted any more"),
        "barred" => format!("{one} for {whose}: the policy lets it through no more; a dead letter now"),
        "redriven" => format!("{one} for {whose}: to be given out again"),
        "brought" => format!("{} for {whose}", messages(effect)),
        _ => rest(effect),
    }
}

/// The messages that several deliveries bring.
fn messages(effect: &Value) -> String {
    let all = effect["deliveries"].as_array().map_or(&[][..], Vec::as_slice);
    let named: Vec<_> = all.iter().take(NAMED_MAX).map(|one| field(one, "messageId")).collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// Who holds several deliveries: as the effect says, or as the first of them.
fn holder(effect: &Value) -> String {
    match field(effect, "agent") {
        agent if agent.is_empty() => field(&effect["deliveries"][0], "agent"),
        agent => agent,
    }
}

fn agent(effect: &Value, verb: &str) -> String {
    let who = field(effect, "agent");
    match verb {
        "registered" => {
            let can = Some(plain(&effect["capabilities"])).filter(|can| !can.is_empty());
            let can = can.map(|can| format!("can {}", shortened(&can, TEXT_MAX))).unwrap_or_default();
            let epoch = format!("epoch {}", field(effect, "epoch"));
            format!("{who}: {}", listed([field(effect, "role"), epoch, can]))
        }
        "status" => {
            let away = if effect["available"] == "no" { "cannot be reached" } else { "" };
            let said = [field(effect, "status"), field(effect, "health"), field(effect, "note"), away.into()];
            format!("{who}: {}", listed(said))
        }
        _ => who,
    }
}

fn session(effect: &Value, verb: &str) -> String {
    let id = field(effect, "session");
    match verb {
        "added" => {
            let why = shortened(&field(effect, "rationale"), TEXT_MAX);
            format!("{id}: {}", listed([format!("{} {}", field(effect, "kind"), field(effect, "n")), why]))
        }
        _ => {
            let title = shortened(&field(effect, "title"), TEXT_MAX);
            format!("{id}: {}", listed([title, field(effect, "status"), field(effect, "reason")]))
        }
    }
}

fn task(effect: &Value) -> String {
    let by = Some(either(effect, ["by", "agent"])).filter(|by| !by.is_empty());
    let reason = shortened(&either(effect, ["reason", "rationale"]), TEXT_MAX);
    let setback = shortened(&field(&effect["setback"], "reason"), TEXT_MAX);
    let by = by.map(|by| format!("by {by}")).unwrap_or_default();
    format!("{}: {}", field(effect, "task"), listed([field(effect, "state"), by, reason, setback]))
}

fn lock(effect: &Value) -> String {
    let grants = effect["grants"].as_array().map_or(&[][..], Vec::as_slice);
    let held: Vec<_> = grants
        .iter()
        .map(|one| format!("{} (fence {})", field(one, "holder"), field(one, "fence")))
        .collect();
    let held = if held.is_empty() { "free".to_owned() } else { format!("held by {}", held.join(", ")) };
    format!("{}: {held}", field(effect, "lock"))
}

fn request(effect: &Value) -> String {
    let asked = effect["asked"].as_array().map_or(&[][..], Vec::as_slice);
    let asked: Vec<_> = asked.iter().take(NAMED_MAX).map(|one| either(one, ["agent", "pool"])).collect();
    let state = listed([field(effect, "state"), field(effect, "code"), field(effect, "reason")]);
    format!("{} of {} to {}: {state}", field(effect, "request"), field(effect, "from"), asked.join(", "))
}

fn approval(effect: &Value) -> String {
    let decided = Some(field(effect, "decidedBy")).filter(|by| !by.is_empty());
    let who = decided.map_or_else(
        || format!("asked by {}, until {}", field(effect, "askedBy"), time(&effect["expiresAt"])),
        |by| format!("by {by}"),
    );
    let said = [field(effect, "state"), who, shortened(&field(effect, "reason"), TEXT_MAX)];
    format!("{} {}: {}", field(effect, "approval"), field(effect, "action"), listed(said))
}

fn circle(effect: &Value) -> String {
    let cycle = effect["cycle"].as_array().map_or(&[][..], Vec::as_slice);
    let one = |one: &Value| format!("{} for {}", field(one, "agent"), field(one, "waitsFor"));
    format!("they waited in a circle: {}", cycle.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// The first of two fields that says something.
fn either(effect: &Value, names: [&str; 2]) -> String {
    names.iter().map(|name| field(effect, name)).find(|text| !text.is_empty()).unwrap_or_default()
}

/// A field in brackets, if it says something.
fn aside(effect: &Value, name: &str) -> String {
    Some(field(effect, name))
        .filter(|text| !text.is_empty())
        .map_or_else(String::new, |text| format!(" ({text})"))
}

/// What says something, with commas.
fn listed<const N: usize>(texts: [String; N]) -> String {
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
}

/// What an effect says that is told by name only: its plain fields.
fn rest(effect: &Value) -> String {
    let fields = effect.as_object().into_iter().flatten();
    let plain_ones =
        fields.filter(|(name, value)| *name != "effect" && !value.is_object() && !value.is_array());
    let said = plain_ones.map(|(name, value)| format!("{name} {}", shortened(&plain(value), TEXT_MAX)));
    said.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // Fails under: JSON in a line for people, or a line that does not say who, what and which message.
    #[test]
    fn every_effect_is_told_in_words() {
        let held =
            json!({"deliveryId": "dlv_0-7", "messageId": "msg_0-5-0", "agent": "bob", "leaseToken": 3});
        for (effect, words_of_it) in [
            (
                json!({"effect": "message.sent", "id": "msg_0-5-0", "from": "alice", "to": ["bob", "carol"], "type": "query",
                       "action": "sum", "priority": 2, "deliveries": [held, held]}),
                "msg_0-5-0 from alice to bob, carol: query, sum, high, to 2 agents",
            ),
            (json!({"effect": "delivery.leased", "deliveries": [held]}), "msg_0-5-0 taken by bob"),
            (
                json!({"effect": "delivery.ackedMany", "deliveries": [held, held, held, held, held]}),
                "msg_0-5-0, msg_0-5-0, msg_0-5-0, msg_0-5-0 and 1 more done by bob",
            ),
            (
                json!({"effect": "delivery.returned", "messageId": "msg_0-5-0", "agent": "bob", "cause": "lapsed", "next": "dead"}),
                "msg_0-5-0 back from bob (lapsed): a dead letter now",
            ),
            (
                json!({"effect": "delivery.returned", "messageId": "m", "agent": "bob", "cause": "nacked", "reason": "busy",
                       "next": "scheduled", "due": "2026-01-31T09:30:00.000Z"}),
                "m back from bob (nacked, busy): again at 2026-01-31 09:30:00Z",
            ),
            (
                json!({"effect": "entry.written", "key": "plan", "version": 3, "type": "note"}),
                "plan v3 (note)",
            ),
            (
                json!({"effect": "agent.registered", "agent": "bob", "role": "worker", "epoch": 6, "capabilities": ["review"]}),
                "bob: worker, epoch 6, can review",
            ),
            (
                json!({"effect": "session.opened", "session": "s", "title": "T", "status": "active", "participants": []}),
                "s: T, active",
            ),
            (
                json!({"effect": "task.leased", "task": "t", "state": "leased", "by": "bob"}),
                "t: leased, by bob",
            ),
            (
                json!({"effect": "lock.granted", "lock": "db", "grants": [{"holder": "bob", "fence": 4}]}),
                "db: held by bob (fence 4)",
            ),
            (
                json!({"effect": "approval.approved", "approval": "apr_1", "action": "pay", "state": "approved",
                    "decidedBy": "approver:anna"}),
                "apr_1 pay: approved, by approver:anna",
            ),
            (json!({"effect": "policy.set", "preset": "mesh", "required": []}), "preset mesh"),
        ] {
            assert_eq!(words(&effect), words_of_it);
        }
    }
}
