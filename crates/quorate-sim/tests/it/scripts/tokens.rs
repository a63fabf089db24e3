//! Tokens: who makes them, whom the door lets in, what each role may do, and what ends them.

use expect_test::expect;

use super::check;

// Fails under: a token that is not published, or a principal that is not the bearer.
#[test]
fn i19_a_token_lets_its_bearer_in_until_it_is_revoked() {
    check(
        "hub creates t1 for bob & creates t2 as operator; admin creates t3 as viewer until 60s; tokens; door t1; door t2; \
         door t9; admin revokes t1; door t1; admin revokes tok_0-3-0; restart; door t1; door t2; tokens",
        expect![[r#"
            #3 token.created tok_0-3-0
            #3 token.created tok_0-3-1
            #4 token.created tok_0-4-0
            tok_0-3-0 t1 of agent:bob, made by system
            tok_0-3-1 t2 of operator:t2, made by system
            tok_0-4-0 t3 of viewer:t3 until 60s, made by admin:desk
            t1: agent:bob may come in
            t2: operator:t2 may come in
            t9: unknown
            #5 token.revoked tok_0-3-0
            t1: unknown
            refused NOT_FOUND
            t1: unknown
            t2: operator:t2 may come in
            tok_0-3-1 t2 of operator:t2, made by system
            tok_0-4-0 t3 of viewer:t3 until 60s, made by admin:desk"#]],
    );
}

// Fails under: `revoke_tokens_of` not called, or called for whoever has a name that begins alike.
#[test]
fn i19_an_agent_that_leaves_takes_its_tokens_along() {
    check(
        "hub registers bo & creates t1 for bob & creates t2 for bo & creates t3 for bob; bob leaves; door t1; door t2; door t3; \
         hub registers bob; door t1; hub creates t1 for bob; door t1; hub registers dave & creates t4 for dave; door t4; \
         hub creates t5 for nobody",
        expect![[r#"
            #3 bo starts epoch 5
            #3 token.created tok_0-3-0
            #3 token.created tok_0-3-1
            #3 token.created tok_0-3-2
            #4 token.revoked tok_0-3-0
            #4 token.revoked tok_0-3-2
            #4 agent 2 leaves
            t1: unknown
            t2: agent:bo may come in
            t3: unknown
            #5 bob starts epoch 6
            t1: unknown
            #6 token.created tok_0-6-0
            t1: agent:bob may come in
            #7 dave starts epoch 7
            #7 token.created tok_0-7-0
            t4: agent:dave may come in
            refused NOT_FOUND"#]],
    );
}

// Fails under: an expiry that only the sweep knows, or an alarm that is not set or not stopped.
#[test]
fn i19_a_token_expires_at_its_time_and_is_swept_away() {
    check(
        "hub creates t1 as viewer until 10s & creates t2 as viewer until 20s; admin revokes t2; quietly +10s; door t1; \
         +0s; door t1; +30s; tokens; hub creates t3 as viewer until 0s; hub creates t4 as viewer until 5s; wall +1d; door t4",
        expect![[r#"
            #3 token.created tok_0-3-0
            #3 token.created tok_0-3-1
            #4 token.revoked tok_0-3-1
            t1: expired
            #5 token.expired tok_0-3-0
            t1: unknown
            no tokens
            refused INVALID
            #6 token.created tok_0-6-0
            t4: expired"#]],
    );
}

// Fails under: a cell of the table in `rights.rs`.
#[test]
fn i19_operators_run_the_work_and_admins_lay_down_the_rules() {
    check(
        "operator registers dave able review; operator sends m1 to bob as alice; operator claims of bob; operator drops m1; \
         operator redrives m1; operator purges bob; operator purges can:review; operator puts k=1; operator opens s1 led alice; \
         operator makes j1 of review; operator cancels j1; operator removes dave; operator budgets b to 5; \
         operator sets supervised; operator erases k v1; operator creates t1 as viewer; operator sends m2 to bob; operator sweeps; \
         admin sets supervised; admin erases k v1; admin creates t1 as viewer; admin sends m2 to bob; admin sweeps; \
         admin brings nothing to bob of a wanting last 1",
        expect![[r#"
            #3 dave starts epoch 5
            #4 m1 goes to bob
            operator takes m1 (try 1, token 1)
            #6 m1 of bob nacked: dead
            #7 m1 of bob redriven
            #8 m1 of bob purged
            1 purged
            0 purged
            #9 k is at v1
            #10 session.opened s1
            #11 j1 made: ready
            #12 j1 cancelled
            #13 agent 4 leaves
            #14 budget.set b: 0 of 5 messages
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            #15 policy.set policy
            #16 part 0 of #9 erased
            #17 token.created tok_0-17-0
            #18 m2 goes to bob
            refused FORBIDDEN
            refused FORBIDDEN"#]],
    );
}

// Fails under: a role that is taken for the hub because it is no agent's.
#[test]
fn i19_whoever_only_looks_changes_nothing() {
    check(
        "viewer puts k=1; viewer sends m1 to bob as alice; viewer registers dave; viewer claims of bob; viewer creates t1 as admin; \
         viewer sweeps; approver puts k=1; moderator puts k=1; approver sends m1 to bob; moderator purges bob; \
         viewer registers viewer; viewer sets mesh; read k; tokens",
        expect![[r#"
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            k: nothing
            no tokens"#]],
    );
}

// Fails under: agents that make tokens, for others or for themselves.
#[test]
fn i19_an_agent_makes_and_revokes_no_token() {
    check(
        "hub creates t1 for bob; bob creates t2 for bob; bob revokes t1; alice creates t3 as admin; bob puts k=1 & creates t4 for bob; \
         read k; tokens",
        expect![[r#"
            #3 token.created tok_0-3-0
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            refused FORBIDDEN
            k: nothing
            tok_0-3-0 t1 of agent:bob, made by system"#]],
    );
}

// Fails under: a policy that is asked about whoever runs the hub, or not about the agent in whose name they send.
#[test]
fn i19_supervision_binds_agents_and_not_those_who_run_the_hub() {
    check(
        "hub registers carol as coordinator; admin sets supervised asking confidence,rationale; alice sends m1 to bob sure 0.5 reason x; \
         operator sends m2 to bob as alice sure 0.5 reason x; operator sends m3 to bob as carol sure 0.5 reason x; \
         admin sends m4 to bob sure 0.5 reason x; alice makes j1 of review; operator makes j2 of review; bob starts as coordinator; \
         operator registers bob as coordinator",
        expect![[r#"
            #3 carol starts epoch 5
            #4 policy.set policy
            refused POLICY_VIOLATION by supervised at to
            refused POLICY_VIOLATION by supervised at to
            #5 m3 goes to bob
            #6 m4 goes to bob
            refused POLICY_VIOLATION by supervised at to
            #7 j2 made: ready
            refused POLICY_VIOLATION by supervised at role
            #8 bob starts epoch 8"#]],
    );
}

// Fails under: one space for all tokens.
#[test]
fn i16_a_token_opens_the_door_of_one_space() {
    check(
        "hub creates t1 as admin; in team; door t1; admin revokes tok_0-3-0; admin revokes tok_0-9-9; tokens; in default; door t1",
        expect![[r#"
            #3 token.created tok_0-3-0
            t1: unknown
            refused NOT_FOUND
            refused NOT_FOUND
            no tokens
            t1: admin:t1 may come in"#]],
    );
}

// Fails under: a secret that is part of what a key stands for, or an answer that forgets which secret is good.
#[test]
fn i3_a_token_is_made_once_for_a_key() {
    check(
        "admin creates t1 as viewer with key k; admin creates t1 as viewer showing t2 with key k; door t1; door t2; \
         admin creates t1 as admin with key k; admin creates t3 as viewer showing t1; operator puts a=1 with key k",
        expect![[r#"
            #3 token.created tok_0-3-0
            the same answer as #3
            t1: viewer:t1 may come in
            t2: unknown
            refused DUPLICATE
            refused DUPLICATE
            #4 a is at v1"#]],
    );
}
