//! Doors that are bound and do not serve yet: health checks learn that the node is on its way, and
//! everyone else is told to come again.
//!
//! So a port that is taken is told before the log is read, however long that takes, and a long
//! recovery looks different from a dead process.

use super::accept::{ACCEPT_PAUSE_MS, REFUSAL_MS_MAX, REFUSALS_MAX, hello, part_with};
use super::first_bytes::{self, FirstBytes};
use super::refusal::{self, Before};
use super::{Doors, check_addresses, main_face};
use crate::connection::Face;
use crate::settings::DoorSettings;
use base::Result;
use base::limits::HTTP_LINE_BYTES_MAX;
use bytes::BytesMut;
use node::Node;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Bound addresses with nobody behind them yet.
pub struct Threshold {
    alone: Alone,
    pub(super) settings: DoorSettings,
    pub(super) bound: Vec<((TcpListener, SocketAddr), Face)>,
}

/// Whether the node that starts belongs to no cluster yet: whoever founds one asks for that.
#[derive(Clone, Default)]
pub struct Alone(Arc<AtomicBool>);

impl Alone {
    /// Says how it is from here on.
    pub fn set(&self, alone: bool) {
        self.0.store(alone, Ordering::Relaxed);
    }

    fn before(&self) -> Before {
        if self.0.load(Ordering::Relaxed) { Before::Alone } else { Before::Starting }
    }
}

impl Doors {
    /// Takes the addresses, and serves nothing yet. Errors: as of [`Doors::open`].
    pub fn bind(settings: DoorSettings) -> Result<Threshold> {
        check_addresses(&settings)?;
        let face = main_face(settings.listen);
        let mut bound = vec![(super::bind("listen", settings.listen)?, face)];
        if let Some(address) = settings.admin_listen {
            bound.push((super::bind("admin_listen", address)?, Face::Operators));
        }
        for address in &settings.arakoon_listen {
            bound.push((super::bind("arakoon_listen", *address)?, Face::Arakoon));
        }
        for address in &settings.riak_listen {
            bound.push((super::bind("riak_listen", *address)?, Face::Riak));
        }
        for address in &settings.listen_also {
            bound.push((super::bind("listen_also", *address)?, main_face(*address)));
        }
        Ok(Threshold { alone: Alone::default(), settings, bound })
    }
}

impl Threshold {
    /// Where the doors will be; the clients' address first.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.bound.iter().map(|((_, address), _)| *address).collect()
    }

    /// Where the node says whether it belongs to a cluster.
    pub fn alone(&self) -> Alone {
        self.alone.clone()
    }

    /// Tells whoever comes that the node is starting, until this is dropped. Never ends by itself.
    pub async fn turn_away(&self) -> std::convert::Infallible {
        let mut visitors = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                Some(_) = visitors.join_next(), if !visitors.is_empty() => continue,
                accepted = self.accept() => accepted,
            };
            match accepted {
                Ok(stream) if visitors.len() < REFUSALS_MAX => {
                    let bound = Duration::from_millis(REFUSAL_MS_MAX);
                    let before = self.alone.before();
                    visitors.spawn(async move {
                        let _ = timeout(bound, tell(stream, before)).await;
                    });
                }
                Ok(_) => {}
                Err(_) => sleep(Duration::from_millis(ACCEPT_PAUSE_MS.1)).await,
            }
        }
    }

    async fn accept(&self) -> std::io::Result<TcpStream> {
        poll_fn(|context| {
            for ((listener, _), _) in &self.bound {
                if let Poll::Ready(accepted) = listener.poll_accept(context) {
                    return Poll::Ready(accepted.map(|(stream, _)| stream));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Begins to serve.
    pub fn open(self, node: Node) -> Doors {
        Doors::serve(node, self.settings, self.bound)
    }
}

/// Tells a visitor in its own language.
async fn tell(mut stream: TcpStream, before: Before) {
    let mut first = BytesMut::with_capacity(1024);
    let Some(told) = hello(&mut stream, &mut first, first_bytes::tell).await else { return };
    if told == FirstBytes::Http {
        // The answer hangs on the first line.
        while !first.contains(&b'\n') && first.len() <= HTTP_LINE_BYTES_MAX {
            if stream.read_buf(&mut first).await.unwrap_or(0) == 0 {
                return;
            }
        }
    }
    part_with(stream, &refusal::starting(before, told, &first)).await;
}
