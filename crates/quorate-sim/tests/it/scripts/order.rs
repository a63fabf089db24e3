//! Which goes first.

use expect_test::expect;

use super::check;

/// Messages of high priority, h1 to h66 or so, without a line for each.
fn high(from: u32, to: u32) -> String {
    let all: Vec<_> =
        (from..=to).map(|number| format!("silently alice sends h{number} to bob high")).collect();
    all.join("; ")
}

// Fails under: a queue that is a stack.
#[test]
fn first_in_first_out() {
    check(
        "alice sends m1 to bob; carol sends m2 to bob; alice sends m3 to bob; bob claims 2; \
         bob claims 2",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            #5 m3 goes to bob
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)
            bob takes m3 (try 1, token 3)"#]],
    );
}

// Fails under: `Priority` compared by rank first, or by age alone.
#[test]
fn levels_then_ranks_then_age() {
    check(
        "alice sends m1 to bob low; alice sends m2 to bob; alice sends m3 to bob high; \
         alice sends m4 to bob rank 5; alice sends m5 to bob urgent; alice sends m6 to bob high; \
         bob claims 9",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            #5 m3 goes to bob
            #6 m4 goes to bob
            #7 m5 goes to bob
            #8 m6 goes to bob
            bob takes m5 (try 1, token 1), m3 (try 1, token 2), m6 (try 1, token 3), m4 (try 1, token 4), m2 (try 1, token 5), m1 (try 1, token 6)"#]],
    );
}

// Fails under: a redelivery that goes to the end of the queue.
#[test]
fn what_comes_back_keeps_its_place() {
    check(
        "alice sends m1 to bob; alice sends m2 to bob; bob claims; bob retries m1; bob claims 2",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            bob takes m1 (try 1, token 1)
            #6 m1 of bob nacked: ready
            bob takes m1 (try 2, token 2), m2 (try 1, token 3)"#]],
    );
}

// Fails under: STARVATION_COUNT changed, or the count never reset.
#[test]
fn the_65th_is_a_lower_one() {
    let script = format!(
        "alice sends low1 to bob low; {}; bob claims 63; bob claims; bob claims; bob claims; bob claims",
        high(1, 66)
    );
    check(
        &script,
        expect![[r#"
            #3 low1 goes to bob
            bob takes 63 from h1 (try 1, token 1) to h63 (try 1, token 63)
            bob takes h64 (try 1, token 64)
            bob takes low1 (try 1, token 65)
            bob takes h65 (try 1, token 66)
            bob takes h66 (try 1, token 67)"#]],
    );
}

// Fails under: `passed_over` kept when no lower one waits.
#[test]
fn the_count_starts_over_when_nothing_lower_waits() {
    let script = format!(
        "alice sends low1 to bob low; {}; bob claims 63; bob claims; \
         alice sends low2 to bob low; {}; bob claims 5",
        high(1, 63),
        high(64, 68)
    );
    check(
        &script,
        expect![[r#"
            #3 low1 goes to bob
            bob takes 63 from h1 (try 1, token 1) to h63 (try 1, token 63)
            bob takes low1 (try 1, token 64)
            #69 low2 goes to bob
            bob takes h64 (try 1, token 65), h65 (try 1, token 66), h66 (try 1, token 67), h67 (try 1, token 68), h68 (try 1, token 69)"#]],
    );
}

// Fails under: STARVATION_MS ignored, or all lower ones let out at once.
#[test]
fn after_60_s_one_lower_goes_out() {
    check(
        "alice sends low1 to bob low; alice sends low2 to bob low; alice sends h1 to bob high; \
         alice sends h2 to bob high; alice sends h3 to bob high; +59s; bob claims for 1h; +1s; \
         bob claims for 1h; bob claims for 1h; +59s; bob claims for 1h; +1s; bob claims for 1h",
        expect![[r#"
            #3 low1 goes to bob
            #4 low2 goes to bob
            #5 h1 goes to bob
            #6 h2 goes to bob
            #7 h3 goes to bob
            bob takes h1 (try 1, token 1)
            bob takes low1 (try 1, token 2)
            bob takes h2 (try 1, token 3)
            bob takes h3 (try 1, token 4)
            bob takes low2 (try 1, token 5)"#]],
    );
}

// Fails under: the lower one chosen by its number instead of by its waiting.
#[test]
fn of_the_lower_ones_the_longest_waiting() {
    check(
        "alice sends low1 to bob low; bob claims for 1h; alice sends n1 to bob; +5s; bob retries low1; \
         alice sends h1 to bob high; alice sends h2 to bob high; +55s; bob claims; bob claims",
        expect![[r#"
            #3 low1 goes to bob
            bob takes low1 (try 1, token 1)
            #5 n1 goes to bob
            #6 low1 of bob nacked: ready
            #7 h1 goes to bob
            #8 h2 goes to bob
            bob takes n1 (try 1, token 2)
            bob takes h1 (try 1, token 3)"#]],
    );
}

// Fails under: only the lowest number of each lower priority looked at, which low1 has although it waits since 40 s only.
#[test]
fn i6_a_redelivered_head_hides_no_older_waiter() {
    check(
        "alice sends low1 to bob low; alice sends low2 to bob low; bob claims for 1h; +40s; bob retries low1; \
         alice sends h1 to bob high; alice sends h2 to bob high; alice sends h3 to bob high; +19s; bob claims for 1h; \
         +1s; bob claims for 1h; bob claims for 1h",
        expect![[r#"
            #3 low1 goes to bob
            #4 low2 goes to bob
            bob takes low1 (try 1, token 1)
            #6 low1 of bob nacked: ready
            #7 h1 goes to bob
            #8 h2 goes to bob
            #9 h3 goes to bob
            bob takes h1 (try 1, token 2)
            bob takes low2 (try 1, token 3)
            bob takes h2 (try 1, token 4)"#]],
    );
}
