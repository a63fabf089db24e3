//! Timers of deliveries: expiry, delay, leases, and jumps of the wall clock.

use expect_test::expect;

use super::check;

// Fails under: a claim that ignores the expiry.
#[test]
fn an_expired_message_is_not_claimed() {
    check(
        "alice sends m1 to bob expires 5s; alice sends m2 to bob; quietly +5s; bob claims 9; \
         where m1",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            #5 m1 of bob expired
            bob claims m2 (attempt 1, token 1)
            m1 of bob: expired by #5"#]],
    );
}

// Fails under: a sweep that handles leases only.
#[test]
fn the_sweep_expires_messages() {
    check(
        "alice sends m1 to bob expires 5s; +4s; where m1; +1s; where m1; counts",
        expect![[r#"
        #3 m1 sent to bob
        m1 of bob: ready since 0s, tried 0
        #4 m1 of bob expired
        m1 of bob: expired by #4
        1 expired"#]],
    );
}

// Fails under: an expiry index with ready deliveries only.
#[test]
fn a_scheduled_message_expires() {
    check(
        "alice sends m1 to bob; bob claims; +1s; bob retries m1 after 1h; \
         alice sends m2 to bob expires 9s; bob claims; bob retries m2 after 1h; +10s; where m2; \
         counts",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked: due at 3601s
            #6 m2 sent to bob
            bob claims m2 (attempt 1, token 2)
            #8 m2 of bob nacked: due at 3601s
            #9 m2 of bob expired
            m2 of bob: expired by #9
            1 scheduled, 1 expired"#]],
    );
}

// Fails under: a leased delivery that is ended before its lease, or redelivered after its expiry.
#[test]
fn a_leased_message_past_its_expiry_is_not_redelivered() {
    check(
        "alice sends m1 to bob expires 5s; alice sends m2 to bob expires 5s; bob claims 2; +6s; \
         where m1; bob acks m1; bob retries m2; counts",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)
            m1 of bob: leased under token 1, attempt 1
            #6 m1 of bob acked
            #7 m2 of bob nacked: expired
            1 acked, 1 expired"#]],
    );
}

// Fails under: an expired lease that makes an expired message ready again.
#[test]
fn a_lease_that_expires_after_the_message_ends_it() {
    check(
        "alice sends m1 to bob expires 10s; bob claims; +30s; where m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob lapsed: expired
            m1 of bob: expired by #5"#]],
    );
}

// Fails under: an expiry check before `NackAction::DeadLetter`.
#[test]
fn a_drop_after_expiry_is_a_dead_letter() {
    check(
        "alice sends m1 to bob expires 5s; bob claims; +6s; bob drops m1 because broken; dead",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob nacked (broken): dead
            dead: m1 of bob after 1 (broken)"#]],
    );
}

// Fails under: `deliver_at` that is ignored, or one millisecond late.
#[test]
fn a_message_is_delayed_until_its_due_time() {
    check(
        "alice sends m1 to bob after 10s; bob claims; where m1; quietly +9999ms; bob claims; \
         quietly +1ms; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            bob: nothing to claim
            m1 of bob: due at 10s, tried 0
            bob: nothing to claim
            bob claims m1 (attempt 1, token 1)"#]],
    );
}

// Fails under: a record for a scheduled delivery that becomes ready.
#[test]
fn falling_due_leaves_no_record() {
    check(
        "alice sends m1 to bob after 10s; +10s; counts; alice sends m2 to bob; bob claims 2",
        expect![[r#"
            #3 m1 sent to bob
            hub: nothing to write
            1 ready
            #4 m2 sent to bob
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)"#]],
    );
}

// Fails under: a delivery that gets a new position when it falls due.
#[test]
fn a_due_delivery_keeps_its_position_by_age() {
    check(
        "alice sends m1 to bob after 10s; alice sends m2 to bob; +10s; bob claims 2",
        expect![[r#"
            #3 m1 sent to bob
            #4 m2 sent to bob
            hub: nothing to write
            bob claims m1 (attempt 1, token 1), m2 (attempt 1, token 2)"#]],
    );
}

// Fails under: leases measured with the wall clock.
#[test]
fn a_wall_clock_jump_forward_expires_no_lease() {
    check(
        "alice sends m1 to bob; bob claims; wall +1d; hub sweeps; bob claims; +29s; bob claims; \
         +1s; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            hub: nothing to write
            bob: nothing to claim
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            bob claims m1 (attempt 2, token 2)"#]],
    );
}

// Fails under: leases measured with the wall clock.
#[test]
fn a_wall_clock_jump_back_extends_no_lease() {
    check(
        "alice sends m1 to bob; bob claims; wall -1d; +29s; bob claims; +1s; bob claims",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            bob claims m1 (attempt 2, token 2)"#]],
    );
}

// Fails under: a timestamp taken from the clock without `max(head.at)`.
#[test]
fn record_timestamps_do_not_decrease() {
    check(
        "alice puts plan=1; wall -1d; alice puts plan=2; +1s; alice puts plan=3; history plan",
        expect![[r#"
            #3 plan is at v1
            #4 plan is at v2
            #5 plan is at v3
            plan v1 = 1, by agent:alice at 0s
            plan v2 = 2, by agent:alice at 0s
            plan v3 = 3, by agent:alice at 0s"#]],
    );
}

// Fails under: a sweep without a permission check.
#[test]
fn only_the_hub_can_sweep() {
    check(
        "alice sends m1 to bob; bob claims; quietly +30s; bob sweeps; where m1; hub sweeps; \
         where m1",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            refused FORBIDDEN
            m1 of bob: leased under token 1, attempt 1
            #5 m1 of bob lapsed: ready
            m1 of bob: ready since 30s, tried 1"#]],
    );
}

// Fails under: an ack refused because the lease is overdue, although the delivery was not leased again.
#[test]
fn an_overdue_lease_stays_valid_until_the_sweep() {
    check(
        "alice sends m1 to bob; bob claims; quietly +1h; bob acks m1; counts",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            #5 m1 of bob acked
            1 acked"#]],
    );
}
