//! Conformance suite: the guarantees of [`Store`](crate::Store) as small test cases that every backend runs unchanged.
//!
//! To run the suite, a backend defines a function that returns an opener (each call of the opener reopens the same
//! store) and passes its path to [`conformance_tests!`](crate::conformance_tests). Each case becomes a separate test.

mod builders;
mod test_bench;

// The name of a case states the guarantee; a doc comment would only repeat it.
#[allow(missing_docs)]
pub mod agents;
#[allow(missing_docs)]
pub mod approvals;
#[allow(missing_docs)]
pub mod consumers;
#[allow(missing_docs)]
pub mod delegation;
#[allow(missing_docs)]
pub mod delivery_order;
#[allow(missing_docs)]
pub mod ended_requests;
#[allow(missing_docs)]
pub mod grants;
#[allow(missing_docs)]
pub mod held_procedures;
#[allow(missing_docs)]
pub mod idempotency;
#[allow(missing_docs)]
pub mod isolation;
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
pub mod message_chains;
#[allow(missing_docs)]
pub mod presence;
#[allow(missing_docs)]
pub mod procedure_children;
#[allow(missing_docs)]
pub mod procedure_control;
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
pub mod routing;
#[allow(missing_docs)]
pub mod sending;
#[allow(missing_docs)]
pub mod sessions;
#[allow(missing_docs)]
pub mod spaces;
#[allow(missing_docs)]
pub mod tasks;
#[allow(missing_docs)]
pub mod timers;
#[allow(missing_docs)]
pub mod tokens;
pub use test_bench::{OpenFrom, OpenStore, TestBench};

/// Runs one case on a fresh store.
///
/// # Panics
/// If the store violates the guarantee of the case.
pub fn run<F: Future<Output = ()>>(open: OpenStore, case: impl FnOnce(TestBench) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("the runtime starts");
    runtime.block_on(async { case(TestBench::new(open).await).await });
}

/// Generates one `#[test]` per case. Takes the path of a function without arguments that returns an
/// [`OpenStore`](crate::conformance::OpenStore). `, limits` adds the cases that need many rows. `@lists` before the
/// path selects only the cases about lists of items.
#[macro_export]
macro_rules! conformance_tests {
    ($open:path, limits) => {
        $crate::conformance_tests!($open);
        $crate::conformance_tests! { @modules $open;
            limits {
                an_inbox_holds_at_most_100_000_open_deliveries,
                a_space_has_at_most_100_000_agents,
                c4_a_space_has_at_most_100_000_open_tasks,
                c4_an_agent_has_at_most_10_000_open_tasks,
                i21_an_agent_has_a_share_of_sessions_procedures_and_approvals,
                i21_an_agent_has_a_share_of_pools_snapshots_and_budgets,
                i21_a_space_has_at_most_10_000_snapshots,
                c4_an_agent_has_at_most_4096_tasks_in_flight,
                i21_a_space_has_at_most_10_000_tokens,
                d3_a_space_has_at_most_10_000_pools,
                d4_a_space_has_at_most_100_000_subscriptions,
            }
        }
    };
    (@lists $open:path) => {
        $crate::conformance_tests! { @modules $open;
            lists {
                items_are_listed_in_creation_order,
                items_of_one_record_keep_the_order_of_its_operations,
                an_update_does_not_change_the_list_order,
                a_recreated_item_is_listed_as_the_newest,
                a_cursor_stays_valid_while_items_are_created_and_removed,
                a_list_is_scoped_to_one_kind_and_one_space,
            }
        }
    };
    ($open:path) => {
        $crate::conformance_tests!(@lists $open);
        $crate::conformance_tests! { @modules $open;
            agents {
                each_registration_gets_a_higher_epoch,
                an_unchanged_registration_leaves_no_record,
                updating_a_registration_keeps_the_epoch_and_the_leases,
                a_declaration_belongs_to_the_registration,
                a_commit_under_a_stale_epoch_is_refused,
                an_unknown_epoch_is_refused,
                a_new_epoch_returns_leased_deliveries_to_the_inbox,
                a_new_epoch_dismisses_waiting_consumers,
                an_unregistered_agent_may_only_register_itself,
                an_agent_acts_only_for_itself,
                an_agent_with_open_deliveries_cannot_be_removed,
                a_removed_agent_is_unknown,
                a_removed_agent_id_can_be_registered_again_as_a_new_agent,
                a_dead_letter_of_a_removed_recipient_cannot_be_redriven,
            }
            sending {
                a_message_is_delivered_unchanged,
                i2_the_origin_of_webhooks_is_reserved_for_the_hub,
                a_recipient_list_creates_one_delivery_per_recipient,
                a_refusal_names_every_unknown_recipient,
                an_agent_cannot_send_as_another_sender,
                the_hub_sends_as_itself_or_as_a_registered_agent,
                an_ephemeral_message_in_a_commit_is_refused,
                a_repeated_client_id_returns_the_original_message,
                the_message_of_a_delivery_is_readable_after_its_end,
                a_client_id_reused_with_different_content_is_refused,
                a_client_id_repeated_within_one_commit_creates_one_message,
                client_ids_deduplicate_messages_of_the_hub,
                messages_in_a_commit_are_numbered_from_zero,
                a_refused_commit_has_no_effect,
                a_refused_commit_leaves_no_consumer_waiting,
                a_refused_registration_has_no_effect,
                a_commit_creates_at_most_4096_deliveries,
            }
            idempotency {
                a_replayed_commit_is_applied_once_and_returns_the_same_receipt,
                a_key_reused_with_different_content_is_refused,
                keys_are_scoped_to_the_principal,
                a_refused_commit_does_not_consume_its_key,
                an_empty_claim_does_not_consume_its_key,
                i3_replaying_a_no_op_commit_is_a_no_op,
                i3_an_empty_claim_does_not_consume_its_key_even_if_it_writes_a_record,
                a_replayed_claim_returns_the_same_leases,
                a_replay_returns_the_original_receipt_after_later_changes,
                a_key_repeated_within_one_batch_is_a_replay,
                a_wall_clock_jump_does_not_expire_keys,
            }
            delegation {
                the_last_agent_of_a_chain_answers_the_request,
                the_answer_of_a_delegate_reaches_the_waiting_consumer,
                only_a_message_of_the_chain_delegates_an_answer,
                a_request_can_be_restricted_to_the_agents_that_were_asked,
                a_request_has_at_most_32_delegates,
                a_delegated_request_survives_its_recipient,
            }
            delivery_order {
                deliveries_are_claimed_in_fifo_order,
                higher_priority_is_claimed_first,
                rank_orders_deliveries_within_a_priority_level,
                a_lower_priority_is_served_after_64_higher_ones,
                a_lower_priority_is_served_after_60_s,
                a_returned_delivery_keeps_its_place_before_newer_ones,
                delayed_retries_are_redelivered_in_send_order,
                a_claim_takes_at_most_its_maximum,
            }
            ended_requests {
                m16_a_cancelled_request_ends_its_leased_deliveries,
                m16_a_request_that_times_out_ends_its_leased_deliveries,
                m16_an_answer_ends_the_delivery_of_another_agent,
                m16_an_agent_that_has_answered_keeps_its_lease_when_the_request_ends,
                m16_the_end_of_a_request_ends_its_delegated_deliveries,
                m16_notifications_and_answered_parts_outlive_the_request,
            }
            lease_reuse {
                i4_one_delivery_lease_allows_one_step,
                i3_a_commit_of_only_acks_may_be_repeated,
                i8_one_task_lease_allows_one_step,
                i8_a_repeated_completion_must_have_the_same_result,
                i8_a_repeated_ack_does_not_complete_another_task,
            }
            leases {
                an_acked_delivery_is_never_redelivered,
                a_repeated_ack_returns_the_same_result,
                an_ack_repeated_within_one_commit_is_idempotent,
                a_stale_lease_token_is_refused,
                a_refusal_lists_every_stale_item,
                only_the_recipient_may_end_a_delivery,
                an_unknown_delivery_is_not_found,
                a_nacked_delivery_is_redelivered_after_its_delay,
                a_nack_without_a_delay_backs_off,
                a_release_does_not_count_as_an_attempt,
                a_delivery_is_dead_lettered_after_its_last_attempt,
                a_dead_letter_keeps_its_reason,
                a_redrive_resets_the_attempt_count,
                only_dead_letters_can_be_redriven,
                a_redrive_sees_earlier_operations_of_its_commit,
                a_dead_letter_keeps_the_reason_of_its_last_attempt,
                a_redriven_delivery_that_expires_in_the_same_commit_is_not_a_dead_letter,
                a_purge_ends_all_open_deliveries,
                lease_tokens_strictly_increase,
                delivery_counts_match_the_delivery_states,
                a_commit_is_atomic,
            }
            timers {
                a_lease_expires_after_its_duration,
                an_expired_lease_is_held_until_the_sweep,
                an_extension_leaves_no_record,
                an_expired_message_is_not_delivered,
                an_unclaimed_message_expires_in_a_sweep,
                a_leased_message_expires_when_it_is_returned,
                a_delayed_message_is_not_delivered_before_its_time,
                a_delayed_message_is_delivered_to_a_waiting_consumer_when_due,
                a_delayed_message_that_falls_due_in_a_refused_commit_is_delivered_by_the_next_sweep,
                a_forward_wall_clock_jump_does_not_expire_leases,
                a_backward_wall_clock_jump_does_not_extend_leases,
                record_timestamps_never_decrease,
                only_the_hub_may_sweep,
                a_sweep_writes_a_sweep_record,
                the_wake_time_is_the_next_timer,
                the_newest_record_as_of_a_time_is_found,
            }
            requests {
                d4_the_requester_receives_the_answer,
                d4_a_response_is_matched_by_correlation_id,
                d4_an_ambiguous_correlation_id_matches_no_request,
                d5_a_request_times_out,
                d5_a_late_answer_is_recorded_but_not_delivered,
                d4_a_request_is_cancelled_by_its_requester,
                i3_every_waiter_of_a_request_receives_the_same_answer,
                d4_an_open_request_survives_a_restart,
                d6_an_agent_is_offline_after_three_missed_heartbeats,
                d6_the_sender_chooses_what_happens_if_the_recipient_is_unavailable,
                d7_a_new_epoch_holds_no_leases,
                d8_a_deadlock_across_requests_locks_and_tasks_is_detected,
            }
            consumers {
                a_waiting_claim_is_leased_the_message_in_the_commit_that_sends_it,
                a_waiting_claim_ends_after_its_first_delivery,
                a_claim_that_returns_deliveries_does_not_wait,
                a_standing_consumer_is_limited_by_its_credit,
                a_standing_consumer_receives_the_backlog_first,
                consumers_are_served_round_robin,
                a_closed_consumer_receives_nothing,
                a_returned_delivery_goes_to_a_waiting_consumer,
                an_already_expired_message_is_not_leased_to_a_waiting_consumer,
                messages_of_one_commit_are_delivered_in_order_while_credit_lasts,
                a_resume_returns_the_held_leases_and_renews_them,
                only_the_same_epoch_can_resume_its_leases,
                a_standing_consumer_may_start_without_credit,
                an_inbox_has_at_most_256_waiting_consumers,
                an_agent_has_at_most_4096_deliveries_in_flight,
                an_agent_can_send_to_itself,
            }
            memory {
                each_write_increments_the_version,
                a_version_conflict_reports_the_current_version,
                versions_continue_after_a_delete,
                deleting_a_missing_entry_is_refused,
                a_tombstone_is_in_the_history_but_not_listed,
                an_entry_records_author_type_time_and_dependencies,
                an_entry_can_be_read_as_of_an_earlier_point,
                history_is_paged_and_immutable,
                entries_are_listed_by_prefix_type_and_author,
                later_operations_see_earlier_ones_of_the_same_commit,
                an_erased_payload_reads_as_zeros,
                erasing_a_missing_payload_is_refused,
            }
            routing {
                d3_each_destination_kind_resolves_to_its_recipients,
                d4_a_subscription_takes_effect_with_its_record,
                d4_an_agent_has_at_most_256_subscriptions,
                d4_topic_history_is_delivered_as_new_deliveries,
                d3_a_pool_message_is_delivered_to_one_capable_agent,
                d3_a_returned_pool_delivery_may_go_to_another_agent,
                d3_consumers_of_a_pool_are_served_round_robin,
                d4_many_deliveries_are_acked_in_one_operation,
                d4_broadcasts_are_rate_limited_per_minute,
                e7_a_policy_limits_the_number_of_open_tasks,
                d12_a_policy_limits_the_bytes_of_payloads_and_commits,
                c1_a_policy_survives_a_restart,
                c1_a_policy_change_applies_to_later_operations_of_its_commit,
                c1_a_recipient_list_with_one_disallowed_recipient_is_refused,
            }
            spaces {
                a_space_is_created_once_per_name,
                spaces_are_isolated,
                keys_and_consumers_are_scoped_to_one_space,
                a_delivery_of_another_generation_is_not_found,
                out_of_range_numbers_never_reach_another_space,
                a_missing_space_is_an_error_that_applies_nothing,
                a_space_name_may_be_any_printable_text,
            }
            isolation {
                i16_foreign_ids_are_indistinguishable_from_missing_ones,
                i16_foreign_deliveries_and_requests_are_indistinguishable_from_missing_ones,
                i16_messages_never_cross_spaces,
            }
            log {
                every_change_is_one_record,
                the_log_is_paged,
                paged_record_bodies_cover_the_whole_log,
                commits_of_a_batch_are_decided_independently,
                an_empty_batch_returns_no_outcomes,
                the_published_state_is_updated_before_the_commit_is_acknowledged,
            }
            restart {
                messages_survive_a_restart,
                a_lease_survives_a_restart_with_its_full_duration,
                a_lease_extension_survives_a_restart,
                attempts_and_dead_letters_survive_a_restart,
                a_repeated_ack_is_idempotent_after_a_restart,
                delays_and_expiries_survive_a_restart,
                entries_and_their_history_survive_a_restart,
                idempotency_keys_and_client_ids_survive_a_restart,
                epochs_survive_a_restart,
                waiting_consumers_do_not_survive_a_restart,
                record_timestamps_never_decrease_across_a_restart,
            }
            message_chains {
                a_chain_has_at_most_as_many_hops_as_its_limit,
                a_message_without_a_named_cause_counts_once_per_hop_count,
                the_third_identical_message_in_a_chain_is_refused,
                refused_and_redelivered_messages_do_not_count_as_repetitions,
                a_restart_resets_repetition_counts,
                each_message_spends_one_unit_of_its_budget,
                refused_and_replayed_messages_spend_no_budget,
                a_budget_belongs_to_its_creator,
            }
            locks {
                a_lock_has_one_holder_at_a_time,
                a_lock_has_at_most_as_many_holders_as_its_capacity,
                several_locks_are_acquired_atomically,
                lock_waiters_are_served_by_priority_then_arrival,
                a_new_acquire_does_not_overtake_waiters,
                a_lock_hold_expires,
                a_lock_renewal_leaves_no_record,
                a_lock_renewal_may_set_the_ttl,
                a_new_epoch_releases_locks,
                only_the_holder_may_renew_or_release_a_lock,
                a_write_with_a_stale_fencing_token_is_refused,
                a_refused_commit_neither_acquires_nor_releases_locks,
                later_operations_see_earlier_lock_changes_of_the_same_commit,
                a_replayed_acquire_returns_the_same_fencing_tokens,
                fencing_tokens_keep_increasing_after_a_restart,
                an_agent_has_at_most_1_000_lock_waits,
            }
            approvals {
                e3_an_approval_records_its_action_requester_and_deadline,
                i14_a_decision_must_name_the_digest_of_the_pending_action,
                e3_a_decision_and_its_notification_are_one_commit,
                e3_an_approved_action_is_sent_to_its_recipients,
                e3_a_modified_action_is_approved_as_modified,
                i14_a_principal_cannot_decide_its_own_request,
                i14_only_approvers_and_admins_may_decide,
                i14_a_decided_approval_is_immutable,
                i3_a_replayed_decision_is_applied_once_and_returns_the_same_receipt,
                i14_a_timed_out_approval_is_expired_not_rejected,
                e3_a_pending_approval_survives_a_restart,
                e3_a_repeated_approval_request_is_idempotent,
                i14_an_erased_action_cannot_be_approved,
                c1_an_approval_does_not_bypass_the_policy,
                e3_invalid_approval_requests_are_refused,
                d8_waiting_for_an_approval_is_not_a_deadlock,
            }
            presence {
                n5_work_held_by_an_absent_agent_is_stuck_until_its_lease_ends,
                n5_tasks_behind_a_dependency_that_did_not_succeed_are_stuck,
                n5_running_procedures_of_an_absent_driver_are_stuck,
                n5_a_closed_connection_marks_an_agent_that_does_not_wait_elsewhere,
                n21_an_agent_is_not_seen_after_a_restart_until_it_acts,
            }
            held_procedures {
                a_paused_procedure_holds_deliveries_and_a_resume_releases_them_in_order,
                a_stuck_procedure_holds_deliveries_until_it_is_cancelled,
                the_notice_of_a_start_is_held_while_the_procedure_is_paused,
                a_delivery_of_a_procedure_is_not_held_by_its_session,
            }
            procedure_control {
                a_paused_procedure_accepts_no_step_until_it_is_resumed,
                a_stuck_procedure_states_its_reason_until_it_is_resumed,
                m4_cancelling_a_procedure_cancels_its_requests_and_tasks,
                a_cancellation_is_limited_per_operation,
                a_signal_is_a_message_to_the_driver,
            }
            procedure_children {
                m4_cancelling_a_procedure_cancels_its_descendants,
                a_child_is_started_by_the_driver_of_a_procedure_that_has_not_ended,
                a_cancellation_of_many_items_is_continued_by_its_repetition,
                n5_a_procedure_names_the_agents_that_it_waits_for,
            }
            procedures {
                each_step_increments_the_procedure_version,
                a_step_with_a_stale_version_refuses_the_whole_commit,
                a_step_its_ack_and_its_sends_are_one_commit,
                only_the_driver_and_operators_may_step_a_procedure,
                a_finished_procedure_is_immutable,
                a_repeated_start_of_a_procedure_is_idempotent,
                i3_a_replayed_step_is_applied_once_and_returns_the_same_receipt,
                the_driver_is_notified_in_the_commit_that_starts_the_procedure,
                a_running_procedure_survives_a_restart,
                invalid_procedures_are_refused,
            }
            sessions {
                d9_a_session_records_its_coordinator_participants_and_times,
                d9_additions_are_counted_by_kind,
                d9_only_the_coordinator_and_the_hub_may_change_a_session,
                s12_only_agents_that_may_add_to_a_session_write_its_entries,
                m2_an_agent_states_the_version_of_the_session_state_that_it_changes,
                m2_any_coordinator_may_add_but_only_its_own_may_change_a_session,
                d9_a_pause_holds_deliveries_and_a_resume_releases_them_in_order,
                d9_a_resume_delivers_to_waiting_consumers,
                d9_a_closed_session_rejects_changes_and_releases_held_deliveries,
                d9_a_session_id_is_only_a_label_until_the_session_is_opened,
                d9_the_timeline_is_paged_in_both_directions,
                d9_opening_a_session_again_is_idempotent,
                d9_held_deliveries_can_expire_and_be_dead_lettered_or_purged,
                d9_sessions_survive_a_restart,
                d9_a_session_has_limits,
            }
            tasks {
                e6_what_a_holder_reports_has_the_structure_that_the_policy_requires,
                c4_a_task_graph_is_created_in_one_record,
                c4_a_task_is_ready_when_all_its_dependencies_are_done,
                c4_each_task_chooses_how_a_failed_dependency_affects_it,
                i10_dependency_cycles_and_unknown_dependencies_are_refused,
                i10_finished_dependencies_count_when_a_task_is_created,
                c4_tasks_are_claimed_by_priority_then_age,
                c4_a_task_assigned_to_an_agent_goes_only_to_it,
                c4_task_inputs_are_delivered_unchanged,
                c4_an_erased_task_input_is_not_delivered,
                i3_creating_the_same_graph_again_is_idempotent,
                i3_a_graph_with_a_used_id_is_refused,
                i8_task_lease_tokens_increase_and_stale_ones_are_refused,
                i8_a_failure_report_is_idempotent_until_the_task_is_claimed_again,
                i8_one_completion_is_accepted_and_its_repetition_is_idempotent,
                i8_a_completion_and_its_other_operations_are_one_commit,
                i9_a_task_lease_expires_without_heartbeats,
                i9_task_leases_backoffs_and_counts_survive_a_restart,
                c9_a_failed_task_is_retried_with_backoff_and_then_fails,
                c9_an_escalated_task_notifies_the_coordinators,
                c9_a_retry_prefers_another_agent,
                c9_a_cancellation_notifies_the_holder,
                c10_partial_results_are_stored,
                c4_a_ready_task_goes_to_a_waiting_claim,
                i13_a_new_epoch_loses_task_leases_and_waiting_claims,
                i3_keyed_task_commits_are_replayed,
                c4_an_agent_has_at_most_256_waiting_task_claims,
                i16_tasks_are_scoped_to_one_space,
            }
            grants {
                i19_by_policy_a_mesh_grants_everything_but_coordinator,
                i19_a_supervised_space_grants_what_was_registered,
                i19_recorded_grants_limit_registrations,
                i19_recorded_grants_limit_claimed_task_types,
                i19_only_agents_with_a_token_are_limited,
                i19_a_token_that_has_ended_grants_nothing,
                i19_grants_survive_a_restart,
            }
            restore {
                i8_a_restore_ends_every_lease,
                i12_a_restore_ends_every_lock_hold_and_invalidates_earlier_fencing_tokens,
                i24_a_restore_counts_the_interrupted_attempt,
                i24_numbers_increase_with_every_restore,
            }
            rollback {
                i11_a_rollback_writes_a_new_version,
                c11_a_rollback_targets_a_record_a_time_or_a_snapshot,
                c11_a_prefix_is_rolled_back_in_one_commit,
                c11_a_rollback_sees_earlier_operations_of_its_commit,
                c11_a_rollback_cannot_restore_erased_content,
                c11_a_rollback_is_atomic,
                c11_a_rollback_changes_at_most_4096_entries,
                c11_a_snapshot_names_a_position_in_the_history,
                c11_entries_record_their_dependencies,
            }
            tokens {
                i19_a_token_is_found_by_its_digest,
                i19_an_agent_and_its_first_token_are_one_commit,
                i19_a_revoked_token_is_removed,
                i19_a_web_session_ends_with_its_token,
                i21_a_token_has_at_most_32_web_sessions,
                i19_removing_an_agent_revokes_its_tokens,
                i19_an_expired_token_does_not_authenticate,
                i19_each_role_has_exactly_its_permissions,
                i19_a_refused_commit_neither_creates_nor_revokes_tokens,
                i19_a_secret_belongs_to_one_token,
                i3_a_replayed_token_creation_returns_the_digest_of_the_valid_secret,
                i19_tokens_survive_a_restart,
                i16_tokens_are_scoped_to_one_space,
            }
        }
    };
    (@modules $open:path; $($module:ident { $($case:ident,)* })*) => {
        $(
            mod $module {
                $(
                    #[test]
                    fn $case() {
                        $crate::conformance::run($open(), $crate::conformance::$module::$case);
                    }
                )*
            }
        )*
    };
}

#[cfg(test)]
mod tests;
