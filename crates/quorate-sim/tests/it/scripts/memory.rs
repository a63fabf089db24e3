//! Shared memory: compare-and-set, history, tombstones, erasure.

use expect_test::expect;

use super::check;

// Fails under: a version that is not the previous one plus 1.
#[test]
fn versions_increase_by_one() {
    check(
        "alice puts plan=1 expecting 0; bob puts plan=2 expecting 1; alice puts plan=3; \
         read plan; history plan",
        expect![[r#"
            #3 plan is at v1
            #4 plan is at v2
            #5 plan is at v3
            plan v3 = 3, by agent:alice at 0s
            plan v1 = 1, by agent:alice at 0s
            plan v2 = 2, by agent:bob at 0s
            plan v3 = 3, by agent:alice at 0s"#]],
    );
}

// Fails under: `expect_version` with `<` instead of `!=`, or a refusal without the current version.
#[test]
fn a_wrong_version_is_refused_with_the_current_one() {
    check(
        "alice puts plan=1; alice puts plan=2; bob puts plan=x expecting 1; \
         bob puts plan=x expecting 0; bob puts plan=x expecting 7; bob deletes plan expecting 1; \
         read plan",
        expect![[r#"
            #3 plan is at v1
            #4 plan is at v2
            refused VERSION_CONFLICT, now at v2
            refused VERSION_CONFLICT, now at v2
            refused VERSION_CONFLICT, now at v2
            refused VERSION_CONFLICT, now at v2
            plan v2 = 2, by agent:alice at 0s"#]],
    );
}

// Fails under: a refusal without a version for a missing entry.
#[test]
fn a_missing_entry_has_version_0() {
    check(
        "alice puts plan=1 expecting 1; alice deletes plan; alice deletes plan expecting 3; \
         read plan",
        expect![[r#"
            refused VERSION_CONFLICT, now at v0
            refused NOT_FOUND
            refused VERSION_CONFLICT, now at v0
            plan: nothing"#]],
    );
}

// Fails under: an entry that restarts at version 1 after a delete.
#[test]
fn a_deleted_entry_keeps_its_versions() {
    check(
        "alice puts plan=1; alice deletes plan expecting 1; read plan; \
         alice puts plan=x expecting 2; alice puts plan=3 expecting 0; history plan",
        expect![[r#"
            #3 plan is at v1
            #4 plan deleted at v2
            plan v2 = deleted, by agent:alice at 0s
            refused VERSION_CONFLICT, now at v0
            #5 plan is at v3
            plan v1 = 1, by agent:alice at 0s
            plan v2 = deleted, by agent:alice at 0s
            plan v3 = 3, by agent:alice at 0s"#]],
    );
}

// Fails under: a `list` that contains tombstones.
#[test]
fn a_tombstone_is_not_listed() {
    check(
        "alice puts plan/a=1; alice puts plan/b=2; alice puts note=3; alice deletes plan/a; \
         list plan/; list; alice deletes plan/a",
        expect![[r#"
            #3 plan/a is at v1
            #4 plan/b is at v1
            #5 note is at v1
            #6 plan/a deleted at v2
            plan/b v1 = 2, by agent:alice at 0s
            note v1 = 3, by agent:alice at 0s
            plan/b v1 = 2, by agent:alice at 0s
            refused NOT_FOUND"#]],
    );
}

// Fails under: a version looked up by position instead of by number.
#[test]
fn an_entry_can_be_read_at_a_version() {
    check(
        "alice puts plan=1; alice puts plan=2; alice deletes plan; alice puts plan=4; \
         read plan at v1; read plan at v3; read plan at v4; read plan at v5",
        expect![[r#"
            #3 plan is at v1
            #4 plan is at v2
            #5 plan deleted at v3
            #6 plan is at v4
            plan v1 = 1, by agent:alice at 0s
            plan v3 = deleted, by agent:alice at 0s
            plan v4 = 4, by agent:alice at 0s
            plan: nothing"#]],
    );
}

// Fails under: `<` instead of `<=` for reads as of a record.
#[test]
fn an_entry_can_be_read_as_of_a_record() {
    check(
        "alice puts plan=1; alice puts note=1; alice puts plan=2; read plan at #2; \
         read plan at #3; read plan at #4; read plan at #5; read plan at #99",
        expect![[r#"
            #3 plan is at v1
            #4 note is at v1
            #5 plan is at v2
            plan: nothing
            plan v1 = 1, by agent:alice at 0s
            plan v1 = 1, by agent:alice at 0s
            plan v2 = 2, by agent:alice at 0s
            plan v2 = 2, by agent:alice at 0s"#]],
    );
}

// Fails under: `<` instead of `<=` for reads as of a time.
#[test]
fn an_entry_can_be_read_as_of_a_time() {
    check(
        "alice puts plan=1; +10s; alice puts plan=2; read plan at 0s; read plan at 9999ms; \
         read plan at 10s; read plan at 1h",
        expect![[r#"
            #3 plan is at v1
            #4 plan is at v2
            plan v1 = 1, by agent:alice at 0s
            plan v1 = 1, by agent:alice at 0s
            plan v2 = 2, by agent:alice at 10s
            plan v2 = 2, by agent:alice at 10s"#]],
    );
}

// Fails under: an `entry` lookup that ignores writes of the same commit.
#[test]
fn an_operation_sees_earlier_operations_of_its_commit() {
    check(
        "alice puts plan=1 expecting 0 & puts plan=2 expecting 1 & deletes plan expecting 2 & puts plan=4 expecting 0; \
         history plan",
        expect![[r#"
            #3 plan is at v1
            #3 plan is at v2
            #3 plan deleted at v3
            #3 plan is at v4
            plan v1 = 1, by agent:alice at 0s
            plan v2 = 2, by agent:alice at 0s
            plan v3 = deleted, by agent:alice at 0s
            plan v4 = 4, by agent:alice at 0s"#]],
    );
}

// Fails under: dependencies recorded without their version at the time.
#[test]
fn a_dependency_is_recorded_with_its_version() {
    check(
        "alice puts base=1; alice puts base=2; alice puts plan=1 on base; \
         alice puts note=1 on missing; read plan; read note",
        expect![[r#"
            #3 base is at v1
            #4 base is at v2
            #5 plan is at v1
            #6 note is at v1
            plan v1 = 1, by agent:alice at 0s, on base v2
            note v1 = 1, by agent:alice at 0s, on missing v0"#]],
    );
}

// Fails under: a version consumed by a refused commit.
#[test]
fn a_refused_write_consumes_no_version() {
    check(
        "alice puts plan=1 & sends m1 to nobody; alice puts plan=2; read plan",
        expect![[r#"
        refused UNKNOWN_RECIPIENT: there is no agent nobody
        #3 plan is at v1
        plan v1 = 2, by agent:alice at 0s"#]],
    );
}

// Fails under: an erasure that leaves the bytes, or erases another part.
#[test]
fn an_erased_payload_is_zeroed() {
    check(
        "alice puts plan=secret; alice puts plan=2; hub erases plan v1; history plan; \
         hub erases plan v1; alice sends m1 to bob saying secret; hub erases m1; text m1",
        expect![[r#"
            #3 plan is at v1
            #4 plan is at v2
            #5 part 0 of #3 erased
            plan v1 = erased, zeroed, by agent:alice at 0s
            plan v2 = 2, by agent:alice at 0s
            hub: nothing to write
            #6 m1 sent to bob
            #7 part 0 of #6 erased
            m1 from alice: erased, zeroed"#]],
    );
}

// Fails under: an erasure without a permission check.
#[test]
fn an_agent_cannot_erase() {
    check(
        "alice puts plan=secret; alice erases plan v1; read plan",
        expect![[r#"
        #3 plan is at v1
        refused FORBIDDEN
        plan v1 = secret, by agent:alice at 0s"#]],
    );
}
