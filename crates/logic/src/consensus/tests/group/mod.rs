//! Stories of a whole group, whose script controls the network, the disks and the clocks.
//!
//! Promises: one story is one history; the judge of the simulator checks it, too.
//! Never: uses randomness.
//! Read next: `stories/leader_dies_before_deciding.txt`, then `stage.rs` for the commands.

mod stage;
mod text;
pub mod world;

use stage::Stage;

stories!(
    leader_dies_before_deciding,
    value_of_a_minority_is_void,
    value_of_a_majority_is_decided_by_the_next,
    adoption_cut_short,
    adopts_more_than_one_flight,
    old_master_wakes,
    lease_forbids_a_candidate,
    killed_master_is_replaced_after_half_a_lease,
    link_ends_and_the_master_lives,
    link_ends_and_nobody_hears_the_master,
    link_ends_and_voters_restart,
    link_ends_beside_a_new_member,
    far_apart,
    slow_follower_is_asked,
    quorum_loss,
    chain,
    constrained_election,
    three_stand_at_once,
    five_start_at_once,
    restarted_voter_keeps_its_grant,
    follower_with_a_gap,
    promises_come_twice_and_late,
    behind_and_a_snapshot,
    report_of_a_snapshot_is_lost,
    joiner_behind_the_floor,
    members_change_in_flight,
    master_leaves_by_a_stop_sign,
    member_taken_out_while_away,
    member_taken_out_behind_the_floor,
    refused_by_a_higher_promise,
    handed_over,
    hand_over_fails,
    retires_and_names_an_heir,
    retires_twice_and_keeps_its_master,
    witness_never_leads,
    witness_keeps_what_a_voter_lacks,
    acknowledged_tail_is_torn,
    learner_does_not_count,
    read_asks_a_majority,
    read_asks_though_a_lease_holds,
    two_save_and_four_elect,
    who_yields_never_leads,
    master_whose_cables_come_and_go,
    master_whose_disk_hangs,
);
