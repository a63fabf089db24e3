//! Order of delivery: priority, rank, age, and protection from starvation.

use expect_test::expect;

use super::check;

/// Script that sends high-priority messages `h{from}` to `h{to}` without output.
fn high(from: u32, to: u32) -> String {
    let all: Vec<_> =
        (from..=to).map(|number| format!("silently alice sends h{number} to bob high")).collect();
    all.join("; ")
}

// Fails under: a queue in LIFO order.
#[test]
fn first_in_first_out() {
    check(
        "alice sends m1 to bob; carol sends m2 to bob; alice sends m3 to bob; bob claims 2; \
         bob claims 2",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            #5 m3 sent to bob
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)
            bob claims m3 (attempt 1, token 3)"#]],
    );
}

// Fails under: `Priority` compared by rank first, or by age alone.
#[test]
fn deliveries_are_ordered_by_level_then_rank_then_age() {
    check(
        "alice sends m1 to bob low; alice sends m2 to bob; alice sends m3 to bob high; \
         alice sends m4 to bob rank 5; alice sends m5 to bob urgent; alice sends m6 to bob high; \
         bob claims 9",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            #5 m3 sent to bob
            #6 m4 sent to bob
            #7 m5 sent to bob
            #8 m6 sent to bob
            bob claims m5 (attempt 1, token 1), m3 (attempt 1, token 2), m6 (attempt 1, token 3), m4 (attempt 1, token 4), m2 (attempt 1, token 5), m1 (attempt 1, token 6)"#]],
    );
}

// Fails under: a redelivery that goes to the end of the queue.
#[test]
fn a_redelivery_keeps_its_position() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob; bob claims; bob retries m1; bob claims 2",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            bob claims m1 (attempt 1, token 1)
            #6 m1 of bob nacked: ready
            bob claims m1 (attempt 2, token 2), m2 (attempt 1, token 3)"#]],
    );
}

// Fails under: a changed STARVATION_COUNT, or a count that is never reset.
#[test]
fn after_64_deliveries_a_lower_priority_is_served() {
    let script = format!(
        "alice sends low1 to bob low; {}; bob claims 63; bob claims; bob claims; bob claims; bob claims",
        high(1, 66)
    );
    check(
        &script,
        expect![[r#"
            #3 low1 sent to bob
            bob claims 63 from h1 (attempt 1, token 1) to h63 (attempt 1, token 63)
            bob claims h64 (attempt 1, token 64)
            bob claims low1 (attempt 1, token 65)
            bob claims h65 (attempt 1, token 66)
            bob claims h66 (attempt 1, token 67)"#]],
    );
}

// Fails under: `passed_over` that is not reset when no lower priority waits.
#[test]
fn the_starvation_count_resets_when_no_lower_priority_waits() {
    let script = format!(
        "alice sends low1 to bob low; {}; bob claims 63; bob claims; \
         alice sends low2 to bob low; {}; bob claims 5",
        high(1, 63),
        high(64, 68)
    );
    check(
        &script,
        expect![[r#"
            #3 low1 sent to bob
            bob claims 63 from h1 (attempt 1, token 1) to h63 (attempt 1, token 63)
            bob claims low1 (attempt 1, token 64)
            #69 low2 sent to bob
            bob claims h64 (attempt 1, token 65), h65 (attempt 1, token 66), h66 (attempt 1, token 67), h67 (attempt 1, token 68), h68 (attempt 1, token 69)"#]],
    );
}

// Fails under: an ignored STARVATION_MS, or all lower priorities served together.
#[test]
fn after_60_s_one_lower_priority_is_served() {
    check(
        "alice sends low1 to bob low; alice sends low2 to bob low; alice sends h1 to bob high; \
         alice sends h2 to bob high; alice sends h3 to bob high; +59s; bob claims for 1h; +1s; \
         bob claims for 1h; bob claims for 1h; +59s; bob claims for 1h; +1s; bob claims for 1h",
        expect![[r#"
            #3 low1 sent to bob
            #4 low2 sent to bob
            #5 h1 sent to bob
            #6 h2 sent to bob
            #7 h3 sent to bob
            bob claims h1 (attempt 1, token 1)
            bob claims low1 (attempt 1, token 2)
            bob claims h2 (attempt 1, token 3)
            bob claims h3 (attempt 1, token 4)
            bob claims low2 (attempt 1, token 5)"#]],
    );
}

// Fails under: a lower-priority delivery selected by number instead of waiting time.
#[test]
fn among_lower_priorities_the_longest_waiting_is_served() {
    check(
        "alice sends low1 to bob low; bob claims for 1h; alice sends n1 to bob; +5s; bob retries low1; \
         alice sends h1 to bob high; alice sends h2 to bob high; +55s; bob claims; bob claims",
        expect![[r#"
            #3 low1 sent to bob
            bob claims low1 (attempt 1, token 1)
            #5 n1 sent to bob
            #6 low1 of bob nacked: ready
            #7 h1 sent to bob
            #8 h2 sent to bob
            bob claims n1 (attempt 1, token 2)
            bob claims h1 (attempt 1, token 3)"#]],
    );
}

// Fails under: only the lowest number of each lower priority considered; low1 has it, but has waited since 40 s only.
#[test]
fn i6_a_redelivered_head_hides_no_older_waiter() {
    check(
        "alice sends low1 to bob low; alice sends low2 to bob low; bob claims for 1h; +40s; bob retries low1; \
         alice sends h1 to bob high; alice sends h2 to bob high; alice sends h3 to bob high; +19s; bob claims for 1h; \
         +1s; bob claims for 1h; bob claims for 1h",
        expect![[r#"
            #3 low1 sent to bob
            #4 low2 sent to bob
            bob claims low1 (attempt 1, token 1)
            #6 low1 of bob nacked: ready
            #7 h1 sent to bob
            #8 h2 sent to bob
            #9 h3 sent to bob
            bob claims h1 (attempt 1, token 2)
            bob claims low2 (attempt 1, token 3)
            bob claims h2 (attempt 1, token 4)"#]],
    );
}
