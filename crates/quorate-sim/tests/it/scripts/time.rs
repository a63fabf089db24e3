//! What time alone brings about.

use expect_test::expect;

use super::check;

// Fails under: the claim not looking at the time of expiry.
#[test]
fn expired_before_the_claim() {
    check(
        "alice sends m1 to bob expires 5s; alice sends m2 to bob; quietly +5s; bob claims 9; \
         where m1",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            #5 m1 of bob expired
            bob takes m2 (try 1, token 1)
            m1 of bob: expired by #5"#]],
    );
}

// Fails under: the sweep looking at leases only.
#[test]
fn expired_by_the_sweep() {
    check(
        "alice sends m1 to bob expires 5s; +4s; where m1; +1s; where m1; counts",
        expect![[r#"
        #3 m1 goes to bob
        m1 of bob: ready since 0s, tried 0
        #4 m1 of bob expired
        m1 of bob: expired by #4
        1 expired"#]],
    );
}

// Fails under: `expiring` holding only what is ready.
#[test]
fn a_scheduled_one_expires_too() {
    check(
        "alice sends m1 to bob; bob claims; +1s; bob retries m1 after 1h; \
         alice sends m2 to bob expires 9s; bob claims; bob retries m2 after 1h; +10s; where m2; \
         counts",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked: due at 3601s
            #6 m2 goes to bob
            bob takes m2 (try 1, token 2)
            #8 m2 of bob nacked: due at 3601s
            #9 m2 of bob expired
            m2 of bob: expired by #9
            1 scheduled, 1 expired"#]],
    );
}

// Fails under: a held delivery ended under its holder, or given out again after its time.
#[test]
fn expired_while_held() {
    check(
        "alice sends m1 to bob expires 5s; alice sends m2 to bob expires 5s; bob claims 2; +6s; \
         where m1; bob acks m1; bob retries m2; counts",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)
            m1 of bob: held under token 1, try 1
            #6 m1 of bob acked
            #7 m2 of bob nacked: expired
            1 acked, 1 expired"#]],
    );
}

// Fails under: a lapse that makes an expired delivery ready again.
#[test]
fn a_lapse_after_expiry_ends_it() {
    check(
        "alice sends m1 to bob expires 10s; bob claims; +30s; where m1",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob lapsed: expired
            m1 of bob: expired by #5"#]],
    );
}

// Fails under: expiry looked at before `NackThen::Dead`.
#[test]
fn a_drop_after_expiry_is_still_dead() {
    check(
        "alice sends m1 to bob expires 5s; bob claims; +6s; bob drops m1 because broken; dead",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob nacked (broken): dead
            dead: m1 of bob after 1 (broken)"#]],
    );
}

// Fails under: `deliver_at` ignored, or due one millisecond late.
#[test]
fn delayed_until_its_time() {
    check(
        "alice sends m1 to bob after 10s; bob claims; where m1; quietly +9999ms; bob claims; \
         quietly +1ms; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            bob: nothing to claim
            m1 of bob: due at 10s, tried 0
            bob: nothing to claim
            bob takes m1 (try 1, token 1)"#]],
    );
}

// Fails under: a record for what time alone does to a scheduled delivery.
#[test]
fn falling_due_leaves_no_record() {
    check(
        "alice sends m1 to bob after 10s; +10s; counts; alice sends m2 to bob; bob claims 2",
        expect![[r#"
            #3 m1 goes to bob
            hub: nothing to write
            1 ready
            #4 m2 goes to bob
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)"#]],
    );
}

// Fails under: a delivery that fell due getting a new number in the order.
#[test]
fn what_fell_due_first_goes_first_to_age() {
    check(
        "alice sends m1 to bob after 10s; alice sends m2 to bob; +10s; bob claims 2",
        expect![[r#"
            #3 m1 goes to bob
            #4 m2 goes to bob
            hub: nothing to write
            bob takes m1 (try 1, token 1), m2 (try 1, token 2)"#]],
    );
}

// Fails under: leases measured with the wall clock.
#[test]
fn a_day_forward_ends_no_lease() {
    check(
        "alice sends m1 to bob; bob claims; wall +1d; hub sweeps; bob claims; +29s; bob claims; \
         +1s; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            hub: nothing to write
            bob: nothing to claim
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            bob takes m1 (try 2, token 2)"#]],
    );
}

// Fails under: leases measured with the wall clock.
#[test]
fn a_day_back_prolongs_no_lease() {
    check(
        "alice sends m1 to bob; bob claims; wall -1d; +29s; bob claims; +1s; bob claims",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            bob: nothing to claim
            #5 m1 of bob lapsed: ready
            bob takes m1 (try 2, token 2)"#]],
    );
}

// Fails under: `at` taken from the clock without `max(head.at)`.
#[test]
fn records_do_not_go_back() {
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

// Fails under: `require_system` missing in `sweep`.
#[test]
fn only_the_hub_sweeps() {
    check(
        "alice sends m1 to bob; bob claims; quietly +30s; bob sweeps; where m1; hub sweeps; \
         where m1",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            refused FORBIDDEN
            m1 of bob: held under token 1, try 1
            #5 m1 of bob lapsed: ready
            m1 of bob: ready since 30s, tried 1"#]],
    );
}

// Fails under: an ack refused because its time has come although nobody else has the delivery.
#[test]
fn only_the_sweep_ends_a_lease() {
    check(
        "alice sends m1 to bob; bob claims; quietly +1h; bob acks m1; counts",
        expect![[r#"
            #3 m1 goes to bob
            bob takes m1 (try 1, token 1)
            #5 m1 of bob acked
            1 acked"#]],
    );
}
