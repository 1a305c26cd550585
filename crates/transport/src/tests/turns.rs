//! Turns of a link: what the tasks of one turn queue leaves in one system call.

use super::test_peer::{settings, until};
use crate::counters::Counters;
use crate::link::{FrameWriter, Link, Terms};
use crate::transfer::write_frames;
use crate::{Incarnation, Lane, Message, SendOutcome};
use base::{GroupId, NodeId};
use bytes::Bytes;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// Socket that records the size of each write.
#[derive(Clone, Default)]
struct WriteLog(Arc<Mutex<Vec<usize>>>);

impl WriteLog {
    fn writes(&self) -> Vec<usize> {
        self.0.lock().expect("plain data").clone()
    }
}

impl AsyncWrite for WriteLog {
    fn poll_write(
        self: Pin<&mut WriteLog>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().expect("plain data").push(bytes.len());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut WriteLog>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut WriteLog>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn link() -> Arc<Link> {
    let terms = Terms {
        id: 1,
        node: NodeId(2),
        version: 1,
        incarnation: Incarnation(1),
        incarnations: Vec::new(),
        send_salt: 5,
        receive_salt: 6,
        is_proven: false,
        tls_generation: None,
    };
    Link::new(terms, &settings(1, 1), Arc::<Counters>::default())
}

/// Sends a message, and begins a task that sends the next one: the writing half may be scheduled
/// between any two of them.
fn send_in_tasks(link: Arc<Link>, left: usize) {
    if left == 0 {
        return;
    }
    tokio::spawn(async move {
        let message = Message::new(Lane::Call, GroupId(1), Bytes::from_static(b"question"));
        assert_eq!(link.send(message), SendOutcome::Sent);
        send_in_tasks(link, left - 1);
    });
}

#[tokio::test]
async fn messages_that_tasks_of_one_turn_queue_leave_in_one_write() {
    let (link, log) = (link(), WriteLog::default());
    let (writing_link, mut socket) = (link.clone(), log.clone());
    let writer = tokio::spawn(async move {
        write_frames(&writing_link, &mut FrameWriter::new(5), &mut socket).await
    });
    tokio::task::yield_now().await;
    for turn in 1..=3 {
        send_in_tasks(link.clone(), 20);
        until("they were written", || log.writes().len() >= turn).await;
        let (waiting, _) = link.queue_status();
        assert_eq!(waiting[Lane::Call as usize], (0, 0));
    }
    let writes = log.writes();
    assert_eq!(writes.len(), 3, "{writes:?}");
    assert!(writes.iter().all(|bytes| *bytes == writes[0]), "{writes:?}");
    writer.abort();
}
