//! Agents that take part through commands only.

use expect_test::expect_file;

use crate::fixture::Fixture;
use crate::support::run_guide;

#[test]
fn the_commands_of_the_shell_agents_guide_work() {
    run_guide("shell-agents.md");
}

/// A fixture with a hub and the tokens of some agents.
fn with_agents() -> Fixture {
    let fixture = Fixture::with_hub();
    let added = fixture.shell(
        "umask 077 && quorate agent add alice --role coordinator > alice && quorate agent add bob --capability sum > bob",
    );
    assert_eq!(added.code, Some(0), "{}", added.err);
    fixture
}

// Fails under: an answer without an ack; a second answer under an old lease; a claim that fails because there is nothing.
#[test]
fn messages_are_received_and_answered_with_commands() {
    let fixture = with_agents();
    let transcript = fixture.transcript(&[
        "quorate msg receive",
        "quorate msg receive --token-file bob",
        "quorate msg send --to bob --token-file alice --action sum --value '[1, 2]' --confidence 0.5",
        "quorate msg receive --token-file bob --dry-run",
        "quorate msg receive --token-file bob",
        "quorate msg extend dlv_0-1 1 --token-file bob --lease 2m",
        "quorate msg reply dlv_0-1 1 --token-file bob",
        "quorate msg reply dlv_0-1 1 --token-file bob --value 3 --dry-run",
        "quorate msg reply dlv_0-1 1 --token-file bob --value 3 --confidence 0.9",
        "quorate msg reply dlv_0-1 1 --token-file bob --value 4",
        "quorate msg ack dlv_0-1 1 --token-file bob",
        "quorate msg receive --token-file alice --format compact",
        "quorate msg ack msg_0-7-0 2 --token-file alice",
        "quorate msg send --to bob 'from the desk'",
        "quorate msg receive --agent bob --format compact | cut -f1-6",
        "quorate msg reply dlv_0-3 3 --agent bob 'who asks?'",
        "quorate msg nack dlv_0-3 3 --agent bob --reason 'not mine' --permanent",
        "quorate msg list --dead --format compact | cut -f1-4",
        "quorate msg list --token-file alice",
    ]);
    expect_file!["golden/shell-messages.txt"].assert_eq(&transcript);
}

// Fails under: a result that is stored twice, or a lease that outlives a new registration of its agent.
#[test]
fn tasks_are_worked_on_with_commands() {
    let fixture = with_agents();
    let transcript = fixture.transcript(&[
        "quorate task add sum --id t1 --value '[1, 2]'",
        "quorate task show t1 --result",
        "quorate task show t1 --wait 100ms",
        "quorate task claim --token-file bob --dry-run --wait 5s",
        "quorate task claim --token-file bob",
        "quorate task claim --token-file bob --wait 100ms",
        "quorate task heartbeat t1 1 --token-file bob --value '{\"read\": 1}'",
        "quorate agent register --token-file bob",
        "QUORATE_EPOCH=1 quorate task claim --token-file bob",
        "QUORATE_EPOCH=x quorate task claim --token-file bob",
        "quorate task complete t1 1 --token-file bob 3",
        "quorate agent register nobody-here",
        "quorate agent register --token-file bob --capability sum --capability count",
        "QUORATE_EPOCH=9 quorate task claim --token-file bob --format compact | cut -f1-4",
        "quorate task fail t1 2 --token-file bob --reason 'no numbers' --details '{\"line\": 1}' --permanent",
        "quorate task add count --id t2 'a b c'",
        "quorate task claim --token-file bob --type count --json | grep -o '\"leaseToken\":[0-9]*'",
        "quorate task release t2 3 --token-file bob",
        "quorate task claim --agent bob --type count --format compact | cut -f1-3",
        "quorate task complete t2 4 --value 3 --token-file bob --fence report=1",
        "quorate task show t2 --input",
        "quorate task complete t2 4 --value 3 --fence nothing",
        "quorate task complete t2 4 --value 3 --confidence 0.9 --rationale counted --token-file bob",
        "quorate task show t2 --wait 5s --result",
        "quorate task show t2 --result --json",
        "quorate agent heartbeat --status working --token-file bob",
    ]);
    expect_file!["golden/shell-tasks.txt"].assert_eq(&transcript);
}

// Fails under: a lock that two agents hold; a request without an answer that succeeds.
#[test]
fn locks_requests_budgets_and_policies_have_commands() {
    let fixture = with_agents();
    let transcript = fixture.transcript(&[
        "quorate lock acquire report --token-file bob --ttl 1m",
        "quorate lock acquire report --token-file alice",
        "quorate lock acquire report --token-file alice --wait 100ms",
        "quorate lock renew report 1 --token-file bob",
        "quorate memory set report draft --fence report=1 --token-file bob",
        "quorate lock show report | sed 's/for [0-9]* ms/for N ms/'",
        "quorate lock list",
        "quorate lock release report 1 --token-file bob",
        "quorate lock renew report 1 --token-file bob",
        "quorate lock acquire b a --token-file alice",
        "quorate lock acquire c",
        "quorate request send --to bob --token-file alice 'are you there?' --timeout 100ms",
        "quorate request send --to bob --token-file alice 'are you there?' --no-wait",
        "quorate request list --token-file alice",
        "quorate request show @last --token-file alice",
        "quorate request answers @last --token-file alice --wait 100ms",
        "quorate request cancel @last --token-file alice",
        "quorate request answers @last --token-file alice",
        "quorate budget set b1 --messages-max 2 --token-file alice",
        "quorate msg send --to bob 'start' --budget b1 --token-file alice",
        "quorate budget show b1 --token-file alice",
        "quorate budget list --token-file alice",
        "quorate budget set b1 --messages-max 3 --token-file bob",
        "quorate policy show | grep -e preset -e confidence -e actions",
        "quorate policy set mesh --rule confidence",
        "quorate policy set mesh --rule confidenze=true 2>&1 | cut -c1-48",
        "quorate policy set mesh --rule confidence=true --rule actionsMax=null",
        "quorate policy set supervised --token-file bob",
        "quorate msg send --to alice --type response --in-reply-to msg_0-5-0 yes --token-file bob",
        "quorate policy violations | cut -c23-",
    ]);
    expect_file!["golden/shell-other.txt"].assert_eq(&transcript);
}

// Fails under: a queue that no command shows; retries or the restriction of answers that only other interfaces have; violations
// without their number.
#[test]
fn n20_commands_show_queues_and_counts_and_take_every_option_of_a_request() {
    let fixture = with_agents();
    let transcript = fixture.transcript(&[
        "quorate lock acquire report --token-file bob --ttl 1m 2> /dev/null",
        "quorate lock acquire report other --token-file alice --wait 30s --priority high > /dev/null 2>&1 &",
        "until quorate lock list --jsonl | grep -q '\"waitingCount\":1'; do :; done",
        "quorate lock show report | sed 's/for [0-9]* ms/for N ms/'",
        "quorate lock list",
        "quorate lock release report 1 --token-file bob",
        "quorate request send --to bob --token-file alice hello --retries 1 --timeout 50ms 2>&1 | cut -c1-40",
        "quorate request list --token-file alice --format compact | cut -f2-4",
        "quorate request send --to bob --token-file alice hello --retries 2 --answer-from asked --dry-run",
        "quorate request send --to bob --token-file alice hello --retries 11",
        "quorate request send --to bob --token-file alice hello --retries 1 --no-wait",
        "quorate policy set mesh --rule confidence=true 2> /dev/null",
        "for n in 1 2; do quorate msg send --to alice --type response --in-reply-to msg_0-5-0 yes --token-file bob; done 2> /dev/null",
        "quorate policy violations | cut -c23-",
    ]);
    expect_file!["golden/shell-queues.txt"].assert_eq(&transcript);
}

// Fails under: an extension that is reported although the lease has ended with its request.
#[test]
fn m16_extending_the_lease_of_a_cancelled_request_fails() {
    let fixture = with_agents();
    let request = r#"{"from":"alice","to":"bob","action":"sum","payload":[1,2]}"#;
    let request = fixture.call("POST", "/v1/requests", request);
    let id = request["id"].as_str().expect("an id");
    let received = fixture.shell("quorate msg receive --token-file bob --json");
    assert_eq!(received.code, Some(0), "{}", received.err);
    let extend = "quorate msg extend dlv_0-1 1 --token-file bob";
    assert_eq!(fixture.shell(extend).code, Some(0));
    fixture.call("POST", &format!("/v1/requests/{id}/cancel"), "{}");
    let refused = fixture.shell(extend);
    let expected = format!("lease 1 of dlv_0-1 has ended: request {id} ended with CANCELLED");
    assert!(refused.code == Some(5) && refused.err.contains(&expected), "{:?} {}", refused.code, refused.err);
}
