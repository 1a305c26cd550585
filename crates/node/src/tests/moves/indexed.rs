//! Declared indexes of a bucket that moves: the directory's part.

use super::{MovePoint, at_gate, begin, close_gate, filled, open_gate, rests};
use crate::tests::indexed::{create, pause_keeper, place, report, spec, state};
use base::index::{BuildProgress, IndexState, ReportPlace, ReportedState};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn index_is_ready_behind_a_move_only_if_it_is_complete_in_the_new_group() {
    let (cluster, bucket) = filled(1).await;
    let node = cluster.node(0);
    pause_keeper(node);
    let begun = create(node, &bucket, spec("begun")).await.expect("made");
    let complete = create(node, &bucket, spec("complete")).await.expect("made");
    let source = place(node, &bucket);
    for number in [begun.number, complete.number] {
        report(node, &bucket, (number, source), ReportedState::Complete(120)).await;
    }
    close_gate(&cluster, MovePoint::Sealed);
    begin(&cluster, &bucket, 2).await;
    at_gate(&cluster, &bucket).await;
    let found = node.router.locator.catalog.find(&bucket).expect("it is there");
    let target = ReportPlace::Bucket(found.moving.expect("it moves").id);
    report(node, &bucket, (complete.number, target), ReportedState::Complete(120)).await;
    let progress = BuildProgress { done: 7, total: 120 };
    report(node, &bucket, (begun.number, target), ReportedState::Building(progress)).await;
    for name in ["begun", "complete"] {
        let found = state(node, &bucket, name).await;
        assert_eq!(found, Ok(IndexState::Ready), "{name}: the source answers until the end");
    }
    open_gate(&cluster);
    rests(&cluster, &bucket, 2).await;
    let nothing = IndexState::Building(BuildProgress::default());
    assert_eq!(state(node, &bucket, "begun").await, Ok(nothing.clone()));
    assert_eq!(state(node, &bucket, "complete").await, Ok(IndexState::Ready));
    report(node, &bucket, (begun.number, source), ReportedState::Complete(120)).await;
    assert_eq!(state(node, &bucket, "begun").await, Ok(nothing), "the former group's late report");
    report(node, &bucket, (begun.number, target), ReportedState::Complete(120)).await;
    assert_eq!(state(node, &bucket, "begun").await, Ok(IndexState::Ready));
}
