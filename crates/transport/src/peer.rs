//! Peer: as long as a node is a member, one task dials it, accepts its calls, and runs the single
//! connection with it.

use super::admission::{KnownIncarnations, admit};
use super::arbitrate::{Phase, arbitrate};
use super::counters::{Counters, PeerStatus};
use super::endpoint::Endpoint;
use super::greet::{self, NewLink};
use super::handshake::PeerIdentity;
use super::link::{Link, Terms};
use super::network::{Broken, ConnectFailure, Member};
use super::peer_call::{Caller, PeerCall};
use super::refusal::Refusal;
use super::transfer;
use runtime::{round, world};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep;

/// Time after which a connection counts as good: the next dial then follows without a long pause.
const GOOD_LINK_NS: u64 = 1_000_000_000;

/// Peer, as the rest of the node sees it.
pub(super) struct Peer {
    state: Mutex<PeerState>,
    pub(super) counters: Arc<Counters>,
    pub(super) calls: mpsc::Sender<PeerCall>,
    pub(super) stop: watch::Sender<Option<Broken>>,
    /// Signals that the current connection must be checked again: known incarnations, the
    /// credential or the lowest version have changed.
    changed: Notify,
    /// Number of TLS handshakes in succession that failed when the peer was dialled.
    handshake_failures: AtomicU8,
}

/// State behind the lock.
struct PeerState {
    member: Member,
    known: KnownIncarnations,
    link: Option<Arc<Link>>,
    /// Address at the other end of the last connection. `None`: there was none.
    linked_address: Option<IpAddr>,
    /// Time since which there is no connection, in this node's milliseconds: the end of the last
    /// one, or when the peer became known. `None` while there is one.
    disconnected_since_ms: Option<u64>,
    broken: Option<Broken>,
    failed: Option<ConnectFailure>,
}

impl Peer {
    pub(super) fn new(member: Member, calls: mpsc::Sender<PeerCall>) -> Peer {
        let Member { incarnation, incarnation_id, .. } = member;
        let known = KnownIncarnations { incarnation, incarnation_id, process: None };
        let disconnected_since_ms = Some(world::milliseconds());
        let state = PeerState {
            member,
            known,
            link: None,
            linked_address: None,
            disconnected_since_ms,
            broken: None,
            failed: None,
        };
        Peer {
            state: Mutex::new(state),
            counters: Arc::default(),
            calls,
            stop: watch::Sender::new(None),
            changed: Notify::new(),
            handshake_failures: AtomicU8::new(0),
        }
    }

    /// Updates the member's name, address or recorded incarnation.
    pub(super) fn update(&self, member: Member) {
        let mut state = self.state();
        if member.incarnation > state.known.incarnation {
            state.known.incarnation = member.incarnation;
            // The known process belongs to an earlier incarnation.
            state.known.process = None;
        }
        // An incarnation below the recorded number can't be recorded any more, so those seen by
        // this process are irrelevant.
        let seen = state.known.incarnation_id.map_or(0, |incarnation_id| incarnation_id.number);
        if member.incarnation_id.is_some() && member.incarnation.0 >= seen {
            state.known.incarnation_id = member.incarnation_id;
        }
        state.member = member;
        drop(state);
        self.changed.notify_one();
    }

    /// Requests a check of the current connection: the credential may have become required, or a
    /// higher version.
    pub(super) fn recheck(&self) {
        self.changed.notify_one();
    }

    /// Resolves when the current connection would no longer be accepted: its incarnation or its
    /// version is refused by now, or it lacks a proof that is required by now.
    async fn wait_outdated(&self, endpoint: &Endpoint) -> Broken {
        loop {
            self.changed.notified().await;
            let is_required = endpoint.credential().is_some_and(|known| known.is_required);
            let state = self.state();
            let terms = state.link.as_ref().map(|link| &link.terms);
            let descends = |terms: &Terms| {
                state
                    .known
                    .check_descent((terms.node, terms.incarnation), &terms.incarnations)
                    .is_ok()
            };
            if !terms.is_none_or(descends) {
                return Broken::Superseded;
            }
            if is_required && terms.is_some_and(|terms| !terms.is_proven) {
                return Broken::Unauthenticated;
            }
            let lowest = endpoint.versions().lowest;
            if terms.is_some_and(|terms| terms.version < lowest) {
                return Broken::VersionTooLow;
            }
        }
    }

    pub(super) fn member(&self) -> Member {
        self.state().member.clone()
    }

    pub(super) fn known(&self) -> KnownIncarnations {
        self.state().known
    }

    /// Returns true if the peer is known to call from this address: the last connection was with
    /// it, or it is the host of the member's address. A name as host is not looked up for this.
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        let state = self.state();
        let host = || state.member.address.parse::<SocketAddr>().ok().map(|it| it.ip());
        state.linked_address == Some(address) || host() == Some(address)
    }

    /// Returns the current connection.
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.state().link.clone()
    }

    pub(super) fn status(&self) -> PeerStatus {
        let state = self.state();
        let now = world::milliseconds();
        let (waiting, dropped) =
            state.link.as_ref().map(|link| link.queue_status()).unwrap_or_default();
        let counters = &self.counters;
        PeerStatus {
            node: state.member.node,
            name: state.member.name.clone(),
            address: state.member.address.clone(),
            connected: state.link.as_ref().map(|link| link.terms.incarnation),
            incarnation_id: state.link.as_ref().and_then(|link| link.terms.incarnation_id()),
            old_copy_text: state.failed.as_ref().and_then(ConnectFailure::old_copy_text),
            link: state.link.as_ref().map_or(0, |link| link.terms.id),
            links: counters.links.load(Relaxed),
            received_ms_ago: state.link.as_ref().map(|link| link.silent_ms()),
            disconnected_ms: state.disconnected_since_ms.map(|since| now.saturating_sub(since)),
            rtt_us: counters.rtt_us(),
            lanes: counters.lanes(waiting),
            replaced_messages: counters.replaced.load(Relaxed) + dropped.replaced,
            refused_messages: counters.full.load(Relaxed) + dropped.full,
            is_encrypted: state.link.as_ref().is_some_and(|link| link.is_encrypted()),
            last_disconnect: state.broken.as_ref().map(ToString::to_string),
            last_failure: state.failed.as_ref().map(ToString::to_string),
        }
    }

    fn state(&self) -> MutexGuard<'_, PeerState> {
        self.state.lock().expect("no one panics while holding it")
    }

    /// Records a failed attempt; logs it once, and again when the reason changes.
    fn record_failure(&self, failed: ConnectFailure) {
        let (is_new, name) = {
            let mut state = self.state();
            let is_new = state.failed.as_ref() != Some(&failed) && !failed.is_transient();
            let name = state.member.name.clone();
            state.failed = Some(failed.clone());
            (is_new, name)
        };
        match (is_new, &failed) {
            // Debug level: any process can send such texts, and different ones each time.
            (true, ConnectFailure::Refused { is_trusted: false, .. }) => {
                tracing::debug!(target: "peers", peer = name, "no connection: {failed}");
            }
            (true, ConnectFailure::Unreachable(_)) => {
                tracing::info!(target: "peers", peer = name, "no connection: {failed}");
            }
            (true, _) => tracing::warn!(target: "peers", peer = name, "no connection: {failed}"),
            (false, _) => tracing::debug!(target: "peers", peer = name, "{failed}"),
        }
    }

    fn on_connected(&self, identity: &PeerIdentity, link: &Arc<Link>, address: Option<IpAddr>) {
        let mut state = self.state();
        state.linked_address = address.or(state.linked_address);
        state.known = KnownIncarnations {
            incarnation: state.known.incarnation.max(identity.incarnation),
            incarnation_id: link.terms.incarnation_id().or(state.known.incarnation_id),
            process: Some(identity.process),
        };
        (state.link, state.failed) = (Some(link.clone()), None);
        state.disconnected_since_ms = None;
        self.counters.links.fetch_add(1, Relaxed);
        tracing::info!(
            target: "peers",
            peer = state.member.name,
            node = %identity.node,
            incarnation = identity.incarnation.0,
            says_it_is = identity.name,
            "connected"
        );
    }

    fn on_disconnected(&self, broken: Broken) {
        let mut state = self.state();
        tracing::info!(target: "peers", peer = state.member.name, "connection ended: {broken}");
        (state.link, state.broken) = (None, Some(broken));
        state.disconnected_since_ms = Some(world::milliseconds());
    }
}

/// Task of one peer.
pub(super) struct PeerTask {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) peer: Arc<Peer>,
    pub(super) calls: mpsc::Receiver<PeerCall>,
    pub(super) stop: watch::Receiver<Option<Broken>>,
}

impl PeerTask {
    /// Keeps a connection with the peer until the node stops or the peer is no longer a member.
    pub(super) async fn run(mut self) {
        let (mut previous, mut replacement) = (0, None);
        let (shortest, longest) = self.endpoint.settings.redial_pause;
        let mut pause = shortest;
        while let Some(new_link) = self.connect(previous, replacement.take(), &mut pause).await {
            // Sent in the next hello: a peer that still has this link then knows that it is lost.
            previous = new_link.terms.id;
            let began = world::nanoseconds();
            replacement = self.run_link(new_link).await;
            let is_good = world::nanoseconds().saturating_sub(began) >= GOOD_LINK_NS;
            pause = if is_good { shortest } else { (pause * 2).min(longest) };
        }
    }

    /// Runs one connection from beginning to end. Returns the call that replaces it, if there is
    /// one.
    async fn run_link(&mut self, new_link: NewLink) -> Option<PeerCall> {
        let PeerTask { endpoint, peer, calls, stop } = self;
        let NewLink { stream, terms, identity } = new_link;
        // The secret may have become required since the handshake began.
        let is_required = endpoint.credential().is_some_and(|known| known.is_required);
        if is_required && !terms.is_proven {
            peer.record_failure(ConnectFailure::RefusedLocally(Refusal::Unauthenticated));
            return None;
        }
        let own = Phase::Connected { link: terms.id, incarnation: terms.incarnation };
        let link = Link::new(terms, &endpoint.settings, peer.counters.clone());
        let address = stream.peer_addr().ok().map(|address| address.ip().to_canonical());
        peer.on_connected(&identity, &link, address);
        // Or since the line before: a check requested before `on_connected` found no connection.
        peer.recheck();
        let mut replacement = None;
        let ended = async {
            loop {
                tokio::select! {
                    biased;
                    broken = stopped(stop) => return broken,
                    broken = peer.wait_outdated(endpoint) => return broken,
                    Some(call) = calls.recv() => {
                        replacement = admit_call(endpoint, peer, own, call);
                        if replacement.is_some() {
                            return Broken::Replaced;
                        }
                    }
                }
            }
        };
        // A connection without traffic is at rest; one that is silent for too long ends itself.
        let transfer = transfer::run(&link, stream, &endpoint.settings, &*endpoint.sink, ended);
        let broken = round::rest(transfer).await;
        peer.on_disconnected(broken.clone());
        // Who is told finds no link any more.
        endpoint.sink.broken(link.terms.node, &broken);
        replacement
    }

    /// Dials and accepts calls until a handshake succeeds. `None`: the task must end.
    async fn connect(
        &mut self,
        previous: u64,
        mut call: Option<PeerCall>,
        pause: &mut Duration,
    ) -> Option<NewLink> {
        let longest = self.endpoint.settings.redial_pause.1;
        loop {
            round::progress();
            let (new_link, next) = match call.take() {
                Some(call) => self.welcome(call).await?,
                None => self.dial(previous, *pause).await?,
            };
            call = next;
            match new_link {
                Some(Ok(new_link)) => return Some(new_link),
                Some(Err(failed)) => {
                    self.peer.record_failure(failed);
                    *pause = (*pause * 2).min(longest);
                }
                None => {}
            }
        }
    }

    /// Pauses and dials, unless a call arrives that takes precedence. `None`: the task must end.
    async fn dial(&mut self, previous: u64, pause: Duration) -> Option<Attempt> {
        let PeerTask { endpoint, peer, calls, stop } = self;
        let sent = AtomicBool::new(false);
        let mut dial = pin!(async {
            sleep(greet::random_pause(pause)).await;
            let flags = (&sent, &peer.handshake_failures);
            greet::dial(endpoint, peer.member(), || peer.known(), previous, flags).await
        });
        loop {
            tokio::select! {
                biased;
                _ = stopped(stop) => return None,
                Some(call) = calls.recv() => {
                    // Before its hello is sent the other side can't have accepted this dial, and
                    // the call wins.
                    let own = if sent.load(Relaxed) { Phase::Dialling } else { Phase::Waiting };
                    if let Some(call) = admit_call(endpoint, peer, own, call) {
                        return Some((None, Some(call)));
                    }
                }
                new_link = &mut dial => return Some((Some(new_link), None)),
            }
        }
    }

    /// Welcomes a call, unless a newer one of the same peer arrives. `None`: the task must end.
    async fn welcome(&mut self, call: PeerCall) -> Option<Attempt> {
        let PeerTask { endpoint, peer, calls, stop } = self;
        let PeerCall { caller: Caller { stream, transcript }, hello, on_refusal: _ } = call;
        let mut welcome = pin!(greet::welcome(endpoint, stream, hello, transcript));
        loop {
            tokio::select! {
                biased;
                _ = stopped(stop) => return None,
                Some(call) = calls.recv() => {
                    if let Some(call) = admit_call(endpoint, peer, Phase::Welcoming, call) {
                        return Some((None, Some(call)));
                    }
                }
                new_link = &mut welcome => return Some((Some(new_link), None)),
            }
        }
    }
}

/// Outcome of an attempt, if it ended, and the call that continues in its place.
type Attempt = (Option<Result<NewLink, ConnectFailure>>, Option<PeerCall>);

/// Returns the call if it is accepted; else sends it back with the refusal. Admission is checked
/// again, since another incarnation of its node may have connected while the call waited.
fn admit_call(endpoint: &Endpoint, peer: &Peer, own: Phase, call: PeerCall) -> Option<PeerCall> {
    let local = endpoint.identity();
    let verdict = admit(&local, &call.hello, Some(peer.known()))
        .and_then(|()| arbitrate(local.node, own, &call.hello));
    match verdict {
        Ok(()) => Some(call),
        Err(refusal) => {
            // If no task awaits it, the call was abandoned: dropping it closes the socket.
            let _ = call.on_refusal.send((call.caller, refusal));
            None
        }
    }
}

/// Waits until this peer's task must end; returns the reason.
async fn stopped(stop: &mut watch::Receiver<Option<Broken>>) -> Broken {
    match stop.wait_for(Option::is_some).await {
        Ok(why) => why.clone().unwrap_or(Broken::Stopping),
        Err(_) => Broken::Stopping,
    }
}
