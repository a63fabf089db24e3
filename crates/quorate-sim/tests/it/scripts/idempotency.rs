//! Idempotency: a repeated call has one effect and one response.

use expect_test::expect;

use super::check;

// Fails under: a stored receipt that is not looked up, or a key that is not stored.
#[test]
fn a_repeated_key_has_one_effect() {
    check(
        "alice sends m1 to bob with key k1; +5s; alice sends m1 to bob with key k1; bob claims 9",
        expect![[r#"
            #3 m1 sent to bob
            the same receipt as #3
            bob claims m1 (attempt 1, token 1)"#]],
    );
}

// Fails under: a fingerprint that is not compared with that of the key.
#[test]
fn a_key_with_other_content_is_refused() {
    check(
        "alice puts plan=1 with key k1; alice puts plan=2 with key k1; read plan",
        expect![[r#"
        #3 plan is at v1
        refused DUPLICATE
        plan v1 = 1, by agent:alice at 0s"#]],
    );
}

// Fails under: keys looked up without the principal.
#[test]
fn a_key_belongs_to_one_principal() {
    check(
        "alice puts plan=1 with key k1; bob puts plan=2 with key k1; read plan",
        expect![[r#"
        #3 plan is at v1
        #4 plan is at v2
        plan v2 = 2, by agent:bob at 0s"#]],
    );
}

// Fails under: a key stored for a refusal.
#[test]
fn a_refusal_stores_no_key() {
    check(
        "alice puts plan=1 expecting 1 with key k1; bob puts plan=0; \
         alice puts plan=1 expecting 1 with key k1; read plan",
        expect![[r#"
            refused VERSION_CONFLICT, now at v0
            #3 plan is at v1
            #4 plan is at v2
            plan v2 = 1, by agent:alice at 0s"#]],
    );
}

// Fails under: a key stored for a commit without effect.
#[test]
fn an_empty_claim_stores_no_key() {
    check(
        "bob claims with key k1; alice sends m1 to bob; bob claims with key k1; \
         bob claims with key k1; counts",
        expect![[r#"
            bob: nothing to claim
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            the same receipt as #4
            bob claims m1 (attempt 1, token 1)
            1 leased"#]],
    );
}

// Fails under: a prior send that is not looked up, or a new message in the response.
#[test]
fn a_repeated_client_id_sends_one_message() {
    check(
        "alice sends m1 to bob id x saying hi; alice sends again to bob id x saying hi; \
         bob claims 9",
        expect![[r#"
            #3 m1 sent to bob
            sent already by #3
            bob claims m1 (attempt 1, token 1)"#]],
    );
}

// Fails under: a fingerprint that is not compared with that of the client id.
#[test]
fn a_client_id_with_other_content_is_refused() {
    check(
        "alice sends m1 to bob id x saying hi; alice sends m2 to bob id x saying ho; \
         alice sends m3 to carol id x saying hi; bob sends m4 to bob id x saying hi; counts",
        expect![[r#"
            #3 m1 sent to bob
            refused DUPLICATE
            refused DUPLICATE
            refused DUPLICATE
            1 ready"#]],
    );
}

// Fails under: messages sent earlier in the same commit that are not looked up.
#[test]
fn a_client_id_is_unique_within_a_commit() {
    check(
        "alice sends m1 to bob id x & sends m2 to bob id x; bob claims 9; \
         alice sends m3 to bob id y saying 1 & sends m4 to bob id y saying 2",
        expect![[r#"
            #3 m1 sent to bob
            bob claims m1 (attempt 1, token 1)
            refused DUPLICATE"#]],
    );
}

// Fails under: an epoch check before the key lookup: a retry across a new registration would be refused although the
// call was applied.
#[test]
fn a_stale_epoch_still_gets_the_stored_response() {
    check(
        "alice puts plan=1 with key k1; alice starts; old alice puts plan=1 with key k1; \
         old alice puts plan=2; read plan",
        expect![[r#"
            #3 plan is at v1
            #4 alice starts epoch 5
            the same receipt as #3
            refused STALE_EPOCH
            plan v1 = 1, by agent:alice at 0s"#]],
    );
}
