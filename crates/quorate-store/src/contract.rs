//! The contract: what every [`Store`](crate::Store) does, as small cases that each backend runs unchanged.
//!
//! A backend runs it with two lines in its tests: a function that opens a store (and opens the same store again when it
//! is called again), and [`contract_tests!`](crate::contract_tests) with its path. Each case becomes a test of its own.

mod bench;
mod words;

// The name of a case says what it promises: a comment could only repeat it.
#[allow(missing_docs)]
pub mod agents;
#[allow(missing_docs)]
pub mod apart;
#[allow(missing_docs)]
pub mod approvals;
#[allow(missing_docs)]
pub mod chains;
#[allow(missing_docs)]
pub mod keys;
#[allow(missing_docs)]
pub mod lease_reuse;
#[allow(missing_docs)]
pub mod leases;
#[allow(missing_docs)]
pub mod limits;
#[allow(missing_docs)]
pub mod lists;
#[allow(missing_docs)]
pub mod locks;
#[allow(missing_docs)]
pub mod log;
#[allow(missing_docs)]
pub mod memory;
#[allow(missing_docs)]
pub mod order;
#[allow(missing_docs)]
pub mod procedures;
#[allow(missing_docs)]
pub mod requests;
#[allow(missing_docs)]
pub mod restart;
#[allow(missing_docs)]
pub mod restore;
#[allow(missing_docs)]
pub mod rollback;
#[allow(missing_docs)]
pub mod sending;
#[allow(missing_docs)]
pub mod sessions;
#[allow(missing_docs)]
pub mod spaces;
#[allow(missing_docs)]
pub mod tasks;
#[allow(missing_docs)]
pub mod time;
#[allow(missing_docs)]
pub mod tokens;
#[allow(missing_docs)]
pub mod topics;
#[allow(missing_docs)]
pub mod waiting;
pub use bench::{Bench, From, Open};

/// Runs one case on a fresh store.
///
/// # Panics
/// When the store breaks the contract.
pub fn run<F: Future<Output = ()>>(open: Open, case: impl FnOnce(Bench) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
    runtime.block_on(async { case(Bench::new(open).await).await });
}

/// One `#[test]` for each case. Takes the path of a function without arguments that gives an [`Open`](contract::Open);
/// with `, limits` also the cases that take many rows. `@lists` and a path: the cases about lists of items only.
#[macro_export]
macro_rules! contract_tests {
    ($open:path, limits) => {
        $crate::contract_tests!($open);
        $crate::contract_tests! { @rooms $open;
            limits {
                an_inbox_holds_100_000,
                a_space_knows_100_000_agents,
                c4_a_space_has_10_000_open_tasks,
                c4_at_most_4096_tasks_are_in_flight,
                i21_a_space_has_10_000_tokens,
                d3_a_space_has_10_000_pools,
                d4_a_space_has_100_000_subscriptions,
            }
        }
    };
    (@lists $open:path) => {
        $crate::contract_tests! { @rooms $open;
            lists {
                items_are_listed_in_the_order_of_their_creation,
                items_of_one_record_are_listed_in_its_order,
                an_update_moves_no_item,
                an_item_that_is_created_again_is_the_newest,
                a_list_goes_on_while_items_come_and_go,
                a_list_is_of_one_kind_and_one_space,
            }
        }
    };
    ($open:path) => {
        $crate::contract_tests!(@lists $open);
        $crate::contract_tests! { @rooms $open;
            agents {
                a_new_start_has_a_higher_epoch,
                saying_again_what_is_known_leaves_no_record,
                a_new_description_keeps_the_epoch_and_what_is_held,
                a_commit_of_an_earlier_start_is_refused,
                an_epoch_that_never_was_is_refused,
                a_new_start_gives_back_what_was_held,
                a_new_start_sends_away_whoever_waited,
                an_unknown_agent_may_only_register_itself,
                an_agent_acts_for_itself_only,
                an_agent_with_open_deliveries_stays,
                a_removed_agent_is_unknown,
                a_removed_agent_may_come_back_as_another,
                the_recipient_of_a_dead_letter_may_be_gone,
            }
            sending {
                a_message_arrives_as_it_was_sent,
                a_list_makes_one_delivery_each,
                unknown_recipients_are_all_named,
                the_sender_is_the_one_who_acts,
                the_hub_speaks_for_itself_and_for_agents_it_knows,
                an_ephemeral_message_is_in_no_commit,
                the_same_client_id_is_the_same_message,
                the_same_client_id_with_other_content_is_refused,
                the_same_client_id_twice_in_one_commit,
                the_hub_may_repeat_a_client_id_as_well,
                messages_of_a_commit_are_counted_from_zero,
                nothing_of_a_refused_commit_happens,
                nothing_of_a_refused_commit_is_left_waiting,
                nothing_of_a_refused_start_is_left_behind,
                a_commit_makes_at_most_4096_deliveries,
            }
            keys {
                a_repeated_commit_has_one_effect_and_one_answer,
                a_key_with_other_content_is_refused,
                a_key_belongs_to_its_principal,
                a_refusal_uses_up_no_key,
                a_claim_that_took_nothing_uses_up_no_key,
                i3_what_changed_nothing_changes_nothing_when_it_is_said_again,
                i3_a_claim_that_took_nothing_uses_up_no_key_whatever_else_its_record_holds,
                a_repeated_claim_gets_the_same_leases,
                a_repeat_is_answered_whatever_happened_since,
                two_commits_in_a_batch_may_bear_one_key,
                a_jump_of_the_wall_clock_forgets_no_key,
            }
            order {
                first_sent_is_first_taken,
                higher_priority_goes_first,
                rank_orders_within_a_level,
                after_64_higher_ones_a_lower_one_goes_out,
                after_60_s_a_lower_one_goes_out,
                what_comes_back_is_older_than_what_waits,
                senders_keep_their_order_across_a_full_hand,
                a_claim_takes_no_more_than_it_may,
            }
            lease_reuse {
                i4_one_delivery_lease_allows_one_step,
                i3_a_commit_of_acks_alone_may_be_repeated,
                i8_one_task_lease_allows_one_step,
                i8_a_repeated_completion_must_have_the_same_result,
                i8_a_repeated_ack_does_not_complete_another_task,
            }
            leases {
                what_is_acked_never_comes_again,
                a_repeated_ack_has_the_same_answer,
                an_ack_repeated_in_one_commit,
                a_stale_token_changes_nothing,
                a_refusal_names_every_stale_item,
                only_the_recipient_ends_a_delivery,
                a_delivery_that_never_was_is_not_found,
                a_retry_waits_its_delay,
                a_release_counts_no_try,
                after_the_last_try_it_is_dead,
                a_dead_letter_keeps_its_reason,
                a_dead_letter_is_redriven_with_all_its_tries,
                only_dead_letters_are_redriven,
                a_redrive_sees_what_its_commit_did,
                a_dead_letter_of_many_turns_keeps_its_last_reason,
                a_redriven_letter_that_ends_in_the_same_commit_is_no_dead_letter,
                a_purge_ends_everything_open,
                every_token_is_above_the_ones_before,
                the_counts_add_up,
                one_step_is_all_or_nothing,
            }
            time {
                a_lease_lasts_its_time_and_no_longer,
                what_is_over_but_not_swept_is_still_held,
                an_extension_leaves_no_record,
                an_expired_message_is_not_handed_out,
                a_waiting_message_expires_by_itself,
                a_held_message_expires_when_it_comes_back,
                a_delayed_message_waits_for_its_time,
                what_falls_due_goes_to_whoever_waits,
                what_falls_due_survives_a_refusal,
                a_jump_of_the_wall_clock_ends_no_lease,
                a_jump_of_the_wall_clock_prolongs_no_lease,
                records_never_go_back_in_time,
                only_the_hub_sweeps,
                a_sweep_is_a_record_of_its_own_kind,
                the_wake_says_when_time_will_change_something,
                the_newest_record_at_a_time,
            }
            requests {
                d4_whoever_asks_hears_the_answer,
                d4_a_response_may_name_only_the_conversation,
                d4_which_of_several_questions_is_answered_is_not_guessed,
                d5_a_wait_ends_with_its_time,
                d5_a_late_answer_is_on_record_only,
                d4_a_request_is_called_off_by_whoever_made_it,
                i3_whoever_asks_the_same_again_hears_the_same,
                d4_a_request_outlives_a_restart,
                d6_three_missed_heartbeats_are_offline,
                d6_the_sender_says_what_becomes_of_it,
                d7_a_new_epoch_has_nothing_in_its_hands,
                d8_requests_locks_and_tasks_make_one_circle,
            }
            waiting {
                a_waiting_claim_gets_its_lease_in_the_insert,
                a_waiting_claim_leaves_after_its_first_hand_over,
                a_claim_that_got_something_does_not_wait,
                a_standing_consumer_is_bound_by_its_credit,
                a_standing_consumer_takes_the_backlog_first,
                consumers_take_turns,
                a_closed_consumer_gets_nothing,
                what_comes_back_goes_to_whoever_waits,
                what_is_past_its_time_is_not_leased_at_once,
                one_commit_serves_in_the_order_of_its_messages,
                a_resume_gives_the_same_leases_again,
                only_the_same_start_resumes,
                a_standing_consumer_may_begin_without_credit,
                at_most_256_wait_for_an_inbox,
                at_most_4096_are_in_flight,
                a_message_for_oneself,
            }
            memory {
                versions_go_up_by_one,
                a_wrong_version_is_refused_with_the_current_one,
                versions_go_on_after_a_delete,
                what_is_not_there_is_not_deleted,
                a_tombstone_is_history_and_not_an_entry,
                an_entry_says_who_wrote_what_when,
                an_entry_is_read_as_it_was,
                history_is_paged_and_never_changes,
                entries_are_listed_by_prefix_type_and_author,
                later_operations_see_earlier_ones,
                an_erased_payload_is_blank,
                what_has_no_payload_is_not_erased,
            }
            topics {
                d3_each_destination_reaches_whom_it_says,
                d4_a_subscription_is_there_from_its_record_on,
                d4_an_agent_has_at_most_256_subscriptions,
                d4_earlier_messages_are_new_deliveries,
                d3_a_pool_has_one_delivery_for_all_who_can,
                d3_what_comes_back_from_a_pool_is_anybodys,
                d3_a_pool_is_worked_off_in_turns,
                d4_many_acks_are_one_operation,
                d4_everybody_costs_quota_by_the_minute,
                e7_a_policy_says_how_many_tasks_may_be_open,
                c1_supervision_outlives_a_restart,
                c1_policy_is_asked_in_the_order_of_the_operations,
                c1_a_name_list_with_one_out_of_reach_reaches_nobody,
            }
            spaces {
                a_space_is_made_once,
                spaces_do_not_see_each_other,
                keys_and_consumers_are_of_one_space,
                a_delivery_of_another_generation_is_not_found,
                numbers_beyond_a_space_lead_nowhere,
                a_space_that_does_not_exist_harms_nobody,
                a_name_with_any_printable_text_is_a_space,
            }
            apart {
                i16_foreign_and_missing_ids_have_the_same_answer,
                i16_nothing_that_is_sent_reaches_another_space,
            }
            log {
                every_change_is_one_record,
                the_log_is_read_in_pages,
                bodies_in_pages_are_the_log,
                commits_of_a_batch_stand_each_for_itself,
                an_empty_batch_is_answered,
                what_is_published_follows_the_log,
            }
            restart {
                messages_survive,
                a_lease_survives_and_runs_its_full_length_again,
                an_extension_survives,
                attempts_and_dead_letters_survive,
                a_repeated_ack_is_answered_after_a_restart,
                delays_and_expiries_survive,
                entries_and_their_history_survive,
                keys_and_client_ids_survive,
                epochs_survive,
                whoever_waited_asks_again,
                time_does_not_go_back_over_a_restart,
            }
            chains {
                a_chain_has_at_most_32_hops,
                the_same_message_three_times_in_a_chain_is_refused,
                what_was_refused_or_given_out_again_does_not_count,
                a_restart_forgets_what_was_said_in_chains,
                each_message_spends_one_of_its_budget,
                a_refused_or_repeated_message_spends_nothing,
                a_budget_belongs_to_whoever_made_it,
            }
            locks {
                one_holds_a_lock_at_a_time,
                as_many_hold_a_lock_as_its_capacity,
                several_locks_are_given_together,
                whoever_waits_gets_the_lock_in_turn,
                nobody_overtakes_whoever_waits,
                a_hold_ends_with_its_time,
                a_renewal_leaves_no_record,
                a_renewal_may_say_for_how_long,
                a_new_start_gives_locks_back,
                only_the_holder_keeps_or_releases_a_lock,
                a_write_under_a_stale_fence_is_refused,
                a_refused_commit_gives_and_takes_no_lock,
                later_operations_see_earlier_locks,
                a_repeated_acquire_is_answered_the_same,
                fences_go_on_after_a_restart,
                at_most_1_000_waits_for_locks_of_one_agent,
            }
            approvals {
                e3_an_approval_says_what_is_proposed_by_whom_and_until_when,
                i14_a_decision_names_the_very_bytes_that_are_pending,
                e3_the_decision_and_its_delivery_are_one_commit,
                e3_an_approved_action_goes_to_whom_it_shall_go,
                e3_a_modification_is_approved_as_modified,
                i14_nobody_decides_what_it_asked_for,
                i14_only_approvers_and_admins_decide,
                i14_what_is_decided_never_changes,
                i3_a_repeated_decision_has_one_effect_and_one_answer,
                i14_a_timeout_is_expired_and_no_refusal,
                e3_a_pending_approval_survives_a_restart,
                e3_the_same_request_again_is_the_same_approval,
                i14_what_was_erased_is_not_approved,
                c1_an_approval_is_no_way_around_the_policy,
                e3_what_no_approval_may_be,
                d8_whoever_waits_for_a_person_is_in_no_circle,
            }
            procedures {
                a_procedure_goes_on_one_version_after_the_other,
                a_stale_step_is_refused_with_all_that_goes_with_it,
                a_step_takes_in_its_message_and_sends_in_one_commit,
                only_its_driver_and_those_who_run_the_hub_step_a_procedure,
                a_procedure_that_is_over_never_changes,
                the_same_start_again_is_the_same_procedure,
                i3_a_repeated_step_has_one_effect_and_one_answer,
                whoever_shall_drive_is_told_in_the_commit_of_the_start,
        a_running_procedure_survives_a_restart,
                what_no_procedure_may_be,
            }
            sessions {
                d9_a_session_says_who_what_and_since_when,
                d9_additions_are_counted_by_kind,
                d9_only_the_coordinator_and_the_hub_lead,
                m2_every_coordinator_adds_and_only_its_own_leads,
                d9_a_pause_holds_and_a_resume_releases_in_order,
                d9_a_resume_serves_whoever_waits,
                d9_what_is_over_takes_nothing_and_keeps_nothing_back,
                d9_a_name_is_a_label_until_somebody_opens_it,
                d9_the_timeline_is_paged_both_ways,
                d9_the_same_opening_is_the_same_session,
                d9_what_is_held_may_expire_die_and_be_purged,
                d9_sessions_survive_a_restart,
                d9_a_session_has_limits,
            }
            tasks {
                c4_a_graph_is_one_record,
                c4_dependents_start_when_all_they_need_is_done,
                c4_a_failure_means_what_each_task_said,
                i10_circles_and_unknown_dependencies_are_refused,
                i10_what_is_over_counts_when_a_task_is_made,
                c4_tasks_go_by_priority_then_age,
                c4_a_task_for_one_agent_goes_to_no_other,
                c4_inputs_come_out_as_they_went_in,
                c4_an_erased_input_is_not_handed_out,
                i3_the_same_graph_again_is_made_once,
                i8_tokens_rise_and_stale_ones_change_nothing,
                i8_a_failure_is_repeated_until_somebody_else_has_the_task,
                i8_one_end_is_accepted_and_repeated,
                i8_an_end_and_what_comes_with_it_are_one_commit,
                i9_a_lease_ends_by_itself,
                i9_leases_waits_and_counts_survive_a_restart,
                c9_failures_are_retried_and_then_given_up,
                c9_a_given_up_task_is_a_message_to_the_coordinators,
                c9_the_next_try_is_preferably_somebody_elses,
                c9_cancel_reaches_whoever_works_on_it,
                c10_partial_results_are_kept,
                c4_whoever_waits_gets_what_becomes_ready,
                i13_a_new_start_loses_its_tasks_and_its_claims,
                i3_keyed_commits_of_tasks_are_repeated,
                c4_at_most_256_claims_of_an_agent_wait,
                i16_tasks_are_of_one_space,
            }
            restore {
                i8_a_restore_ends_every_lease,
                i12_a_restore_ends_every_hold_and_no_earlier_fence_is_good,
                i24_a_restore_counts_the_try_that_it_ended,
                i24_numbers_go_up_with_every_restore,
            }
            rollback {
                i11_a_rollback_is_a_new_version,
                c11_back_to_a_record_a_time_or_a_snapshot,
                c11_a_prefix_goes_back_in_one_commit,
                c11_a_rollback_sees_what_its_commit_did,
                c11_what_was_erased_does_not_come_back,
                c11_a_rollback_is_refused_as_a_whole,
                c11_a_rollback_changes_at_most_4096_entries,
                c11_a_snapshot_is_a_name_for_a_position,
                c11_entries_say_what_they_were_built_on,
            }
            tokens {
                i19_a_token_is_found_by_its_digest,
                i19_an_agent_and_its_first_token_are_one_commit,
                i19_a_revoked_token_is_gone,
                i19_an_agent_that_is_removed_loses_its_tokens,
                i19_a_token_lets_nobody_in_after_its_time,
                i19_every_role_does_what_it_may,
                i19_a_refused_commit_lets_nobody_in_or_out,
                i19_a_secret_is_of_one_token,
                i3_a_repeated_commit_says_which_secret_is_good,
                i19_tokens_survive_a_restart,
                i16_tokens_are_of_one_space,
            }
        }
    };
    (@rooms $open:path; $($room:ident { $($case:ident,)* })*) => {
        $(
            mod $room {
                $(
                    #[test]
                    fn $case() {
                        $crate::contract::run($open(), $crate::contract::$room::$case);
                    }
                )*
            }
        )*
    };
}

#[cfg(test)]
mod tests;
