//! Windows of connections: their bounds, and the order of their answers.

use crate::counters::OperationKind;
use crate::resp::registry::Registry;
use crate::resp::translate::RespShape;
use crate::resp::window::{
    ParallelCall, WINDOW_BYTES_MAX, WINDOW_REQUEST_BYTES_MAX, WINDOW_REQUESTS_MAX, Window,
};
use base::{Body, Key, LogIndex, Reply};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// Returns a request of this key that is answered with its number once the gate's count exceeds it.
fn gated(number: usize, running: &Arc<AtomicUsize>, gate: &watch::Receiver<usize>) -> ParallelCall {
    let (running, mut gate) = (running.clone(), gate.clone());
    let answer = Box::pin(async move {
        running.fetch_add(1, Ordering::SeqCst);
        let _ = gate.wait_for(|released_count| *released_count > number).await;
        running.fetch_sub(1, Ordering::SeqCst);
        Ok(Reply::new(LogIndex(number as u64), Body::Done))
    });
    let (shape, operation) = (RespShape::Ok, OperationKind::Put);
    ParallelCall { key: Key::from(format!("k{number}")), answer, shape, operation }
}

#[tokio::test]
async fn pipeline_window_is_bounded_in_requests_and_bytes() {
    let registry = Registry::new(crate::clock::Clock::Wall);
    let running = Arc::new(AtomicUsize::new(0));
    let (release, gate) = watch::channel(0);
    let mut window = Window::default();
    let permit = || registry.reserve_window(100).expect("there is room");
    let mut begun = 0;
    while window.admits(OperationKind::Put, 100) {
        window.start(gated(begun, &running, &gate), 100, permit());
        begun += 1;
    }
    assert_eq!(begun, WINDOW_REQUESTS_MAX);
    assert!(window.contains_key(&Key::from("k63")) && !window.contains_key(&Key::from("k64")));
    assert!(window.try_first_answer().await.is_none(), "none is done");
    assert_eq!(running.load(Ordering::SeqCst), begun, "all have begun");
    release.send(3).expect("they wait");
    for number in 0..3 {
        assert_eq!(window.first_answer().await.reply.expect("it goes").index, LogIndex(number));
    }
    assert!(window.admits(OperationKind::Put, 100) && !window.contains_key(&Key::from("k2")));
    drop(window);
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&running), 1, "what is under way ends with its connection");

    let mut window = Window::default();
    let bytes = WINDOW_REQUEST_BYTES_MAX;
    for number in 0..WINDOW_BYTES_MAX / bytes {
        assert!(window.admits(OperationKind::Put, bytes));
        window.start(
            gated(number, &running, &gate),
            bytes,
            registry.reserve_window(bytes).expect("room"),
        );
    }
    assert!(!window.admits(OperationKind::Put, 1));
}

#[tokio::test]
async fn later_request_goes_on_while_the_first_waits_and_answers_stay_in_order() {
    let registry = Registry::new(crate::clock::Clock::Wall);
    let (running, mut window) = (Arc::new(AtomicUsize::new(0)), Window::default());
    let (first_release, first_gate) = watch::channel(0);
    let (later_release, later_gate) = watch::channel(0);
    for number in 0..4 {
        let gate = if number == 0 { &first_gate } else { &later_gate };
        let permit = registry.reserve_window(100).expect("there is room");
        window.start(gated(number, &running, gate), 100, permit);
        window.begin_last().await;
        assert_eq!(running.load(Ordering::SeqCst), number + 1, "it begins at once");
    }
    later_release.send(9).expect("they wait");
    assert!(window.try_first_answer().await.is_none() && window.take_done().is_none());
    assert_eq!(running.load(Ordering::SeqCst), 1, "the later ones are done");
    first_release.send(9).expect("it waits");
    for number in 0..4 {
        let answer = match number {
            0 => window.first_answer().await,
            _ => window.take_done().expect("it was done before"),
        };
        assert_eq!(answer.reply.expect("it goes").index, LogIndex(number));
    }
    assert!(window.is_empty() && window.take_done().is_none());
}

#[tokio::test]
async fn read_window_shrinks_with_the_size_of_recent_replies() {
    let registry = Registry::new(crate::clock::Clock::Wall);
    let running = Arc::new(AtomicUsize::new(0));
    let (_release, gate) = watch::channel(0);
    let width = |window: &mut Window| {
        let mut begun = 0;
        while window.admits(OperationKind::Get, 0) {
            let call =
                ParallelCall { operation: OperationKind::Get, ..gated(begun, &running, &gate) };
            window.start(call, 0, registry.reserve_window(0).expect("room"));
            begun += 1;
        }
        begun
    };
    let window_after = |bytes: &[usize]| {
        let mut window = Window::default();
        bytes.iter().for_each(|bytes| window.record_read_bytes(*bytes));
        width(&mut window)
    };
    assert_eq!(window_after(&[]), 16, "nothing is known of them");
    assert_eq!(window_after(&[100; 40]), WINDOW_REQUESTS_MAX);
    assert_eq!(window_after(&[100, 100, WINDOW_BYTES_MAX / 4]), 4);
    assert_eq!(window_after(&[4 * WINDOW_BYTES_MAX]), 1, "one may always");
}

#[test]
fn concurrent_requests_are_bounded_across_all_connections() {
    let registry = Registry::new(crate::clock::Clock::Wall);
    let small: Vec<_> = std::iter::from_fn(|| registry.reserve_window(10)).collect();
    assert_eq!(small.len(), 1_024);
    drop(small);
    let large = std::iter::from_fn(|| registry.reserve_window(WINDOW_REQUEST_BYTES_MAX));
    assert_eq!(large.collect::<Vec<_>>().len(), 256);
}
