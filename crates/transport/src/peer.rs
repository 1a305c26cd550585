//! Peer: for as long as a node is a member, one task dials it, takes its calls, and runs the single
//! connection with it.

use super::admission::{KnownIncarnations, admit};
use super::arbitrate::{Own, arbitrate};
use super::counters::{Counters, PeerStatus};
use super::endpoint::Endpoint;
use super::greet::{self, Greeted};
use super::handshake::{Hello, Speaker};
use super::link::{self, Link, Terms};
use super::network::{Broken, Failed, Member};
use super::refusal::Refusal;
use super::transcript::Transcript;
use runtime::world;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::sleep;

/// Time after which a connection counts as good: the next dial then follows without a long pause.
const GOOD_LINK_NS: u64 = 1_000_000_000;

/// Incoming connection, and what was said on it.
pub(super) struct Caller {
    pub(super) stream: TcpStream,
    pub(super) transcript: Transcript,
}

/// Call that has sent its hello.
pub(super) struct PeerCall {
    pub(super) caller: Caller,
    pub(super) hello: Hello,
    /// Channel on which the call is returned if it is refused.
    pub(super) back: oneshot::Sender<(Caller, Refusal)>,
}

/// Peer, as the rest of the node sees it.
pub(super) struct Peer {
    plain: Mutex<Plain>,
    pub(super) counters: Arc<Counters>,
    pub(super) calls: mpsc::Sender<PeerCall>,
    pub(super) stop: watch::Sender<Option<Broken>>,
    /// Signals that more is known of the peer's incarnations than when the current connection
    /// began.
    news: Notify,
}

/// State behind the lock.
struct Plain {
    member: Member,
    known: KnownIncarnations,
    link: Option<Arc<Link>>,
    /// Time since which there is no connection, in this node's milliseconds: the end of the last
    /// one, or when the peer became known. `None` while there is one.
    away_since_ms: Option<u64>,
    broken: Option<Broken>,
    failed: Option<Failed>,
}

impl Peer {
    pub(super) fn new(member: Member, calls: mpsc::Sender<PeerCall>) -> Peer {
        let Member { incarnation, incarnation_id, .. } = member;
        let known = KnownIncarnations { incarnation, incarnation_id, process: None };
        let away_since_ms = Some(world::milliseconds());
        let plain = Plain { member, known, link: None, away_since_ms, broken: None, failed: None };
        Peer {
            plain: Mutex::new(plain),
            counters: Arc::default(),
            calls,
            stop: watch::Sender::new(None),
            news: Notify::new(),
        }
    }

    /// Updates the member's name, address or recorded incarnation.
    pub(super) fn update(&self, member: Member) {
        let mut plain = self.plain();
        if member.incarnation > plain.known.incarnation {
            plain.known.incarnation = member.incarnation;
            // Known of an earlier incarnation, and no evidence against a process of this one.
            plain.known.process = None;
        }
        // An incarnation below the recorded number can't go on record any more, so what this
        // process saw of those no longer counts.
        let seen = plain.known.incarnation_id.map_or(0, |incarnation_id| incarnation_id.number);
        if member.incarnation_id.is_some() && member.incarnation.0 >= seen {
            plain.known.incarnation_id = member.incarnation_id;
        }
        plain.member = member;
        drop(plain);
        self.news.notify_one();
    }

    /// Re-checks the current connection: it may have to prove more than when it began.
    pub(super) fn renew(&self) {
        self.news.notify_one();
    }

    /// Resolves when the current connection would no longer be accepted: its incarnation is refused
    /// by now, or it lacks a proof that is required by now. This node may have known less when it
    /// began.
    async fn outdated(&self, endpoint: &Endpoint) -> Broken {
        loop {
            self.news.notified().await;
            let is_required = endpoint.credential().is_some_and(|known| known.is_required);
            let plain = self.plain();
            let terms = plain.link.as_ref().map(|link| &link.terms);
            let follows = |terms: &Terms| {
                plain.known.follows((terms.node, terms.incarnation), &terms.incarnations).is_ok()
            };
            if !terms.is_none_or(follows) {
                return Broken::Outlived;
            }
            if is_required && terms.is_some_and(|terms| !terms.is_proven) {
                return Broken::Unproven;
            }
        }
    }

    pub(super) fn member(&self) -> Member {
        self.plain().member.clone()
    }

    pub(super) fn known(&self) -> KnownIncarnations {
        self.plain().known
    }

    /// Returns the current connection.
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.plain().link.clone()
    }

    pub(super) fn status(&self) -> PeerStatus {
        let plain = self.plain();
        let now = world::milliseconds();
        let (waiting, dropped) =
            plain.link.as_ref().map(|link| link.standing()).unwrap_or_default();
        let counters = &self.counters;
        PeerStatus {
            node: plain.member.node,
            name: plain.member.name.clone(),
            address: plain.member.address.clone(),
            connected: plain.link.as_ref().map(|link| link.terms.incarnation),
            incarnation_id: plain.link.as_ref().and_then(|link| link.terms.incarnation_id()),
            outdates: plain.failed.as_ref().and_then(Failed::outdates),
            link: plain.link.as_ref().map_or(0, |link| link.terms.id),
            links: counters.links.load(Relaxed),
            heard_ms_ago: plain.link.as_ref().map(|link| link.heard_ms_ago()),
            away_ms: plain.away_since_ms.map(|since| now.saturating_sub(since)),
            rtt_us: counters.rtt_us(),
            lanes: counters.lanes(waiting),
            replaced: counters.replaced.load(Relaxed) + dropped.replaced,
            full: counters.full.load(Relaxed) + dropped.full,
            broken: plain.broken.as_ref().map(ToString::to_string),
            failed: plain.failed.as_ref().map(ToString::to_string),
        }
    }

    fn plain(&self) -> MutexGuard<'_, Plain> {
        self.plain.lock().expect("no one panics while holding it")
    }

    /// Records a failed attempt; logs it once, and again when the reason changes.
    fn note(&self, failed: Failed) {
        let (news, name) = {
            let mut plain = self.plain();
            let news = plain.failed.as_ref() != Some(&failed) && !failed.passes();
            let name = plain.member.name.clone();
            plain.failed = Some(failed.clone());
            (news, name)
        };
        match (news, &failed) {
            // Anybody can send such texts, and different ones each time.
            (true, Failed::Refused { is_trusted: false, .. }) => {
                tracing::debug!(target: "peers", peer = name, "no connection: {failed}");
            }
            (true, Failed::Unreachable(_)) => {
                tracing::info!(target: "peers", peer = name, "no connection: {failed}");
            }
            (true, _) => tracing::warn!(target: "peers", peer = name, "no connection: {failed}"),
            (false, _) => tracing::debug!(target: "peers", peer = name, "{failed}"),
        }
    }

    fn begins(&self, speaker: &Speaker, link: &Arc<Link>) {
        let mut plain = self.plain();
        plain.known = KnownIncarnations {
            incarnation: plain.known.incarnation.max(speaker.incarnation),
            incarnation_id: link.terms.incarnation_id().or(plain.known.incarnation_id),
            process: Some(speaker.process),
        };
        (plain.link, plain.failed) = (Some(link.clone()), None);
        plain.away_since_ms = None;
        self.counters.links.fetch_add(1, Relaxed);
        tracing::info!(
            target: "peers",
            peer = plain.member.name,
            node = %speaker.node,
            incarnation = speaker.incarnation.0,
            says_it_is = speaker.name,
            "connected"
        );
    }

    fn ends(&self, broken: Broken) {
        let mut plain = self.plain();
        tracing::info!(target: "peers", peer = plain.member.name, "connection ended: {broken}");
        (plain.link, plain.broken) = (None, Some(broken));
        plain.away_since_ms = Some(world::milliseconds());
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
        let (mut previous, mut taken) = (0, None);
        let (shortest, longest) = self.endpoint.settings.pause;
        let mut pause = shortest;
        while let Some(greeted) = self.greet(previous, taken.take(), &mut pause).await {
            // Named in the next hello: a peer that still holds this link learns that it is lost.
            previous = greeted.terms.id;
            let began = world::nanoseconds();
            taken = self.connected(greeted).await;
            let good = world::nanoseconds().saturating_sub(began) >= GOOD_LINK_NS;
            pause = if good { shortest } else { (pause * 2).min(longest) };
        }
    }

    /// Runs one connection from beginning to end. Returns the call that replaces it, if one does.
    async fn connected(&mut self, greeted: Greeted) -> Option<PeerCall> {
        let PeerTask { endpoint, peer, calls, stop } = self;
        let Greeted { stream, terms, speaker } = greeted;
        // The secret may have become required since the handshake began.
        let is_required = endpoint.credential().is_some_and(|known| known.is_required);
        if is_required && !terms.is_proven {
            peer.note(Failed::Refuses(Refusal::Unproven));
            return None;
        }
        let own = Own::Connected { link: terms.id, incarnation: terms.incarnation };
        let link = Link::new(terms, &endpoint.settings, peer.counters.clone());
        peer.begins(&speaker, &link);
        // Or since the line before: a task told to re-check then found the former connection.
        peer.renew();
        let mut taken = None;
        let ended = async {
            loop {
                tokio::select! {
                    biased;
                    broken = stopped(stop) => return broken,
                    broken = peer.outdated(endpoint) => return broken,
                    Some(call) = calls.recv() => {
                        taken = judge(endpoint, peer, own, call);
                        if taken.is_some() {
                            return Broken::Replaced;
                        }
                    }
                }
            }
        };
        let broken = link::run(&link, stream, &endpoint.settings, &*endpoint.sink, ended).await;
        peer.ends(broken);
        taken
    }

    /// Dials and takes calls until a handshake succeeds. `None`: the task is to end.
    async fn greet(
        &mut self,
        previous: u64,
        mut call: Option<PeerCall>,
        pause: &mut Duration,
    ) -> Option<Greeted> {
        let longest = self.endpoint.settings.pause.1;
        loop {
            let (greeted, next) = match call.take() {
                Some(call) => self.welcome(call).await?,
                None => self.dial(previous, *pause).await?,
            };
            call = next;
            match greeted {
                Some(Ok(greeted)) => return Some(greeted),
                Some(Err(failed)) => {
                    self.peer.note(failed);
                    *pause = (*pause * 2).min(longest);
                }
                None => {}
            }
        }
    }

    /// Waits a while and dials, unless a call arrives that takes precedence. `None`: the task is to
    /// end.
    async fn dial(&mut self, previous: u64, pause: Duration) -> Option<Attempt> {
        let PeerTask { endpoint, peer, calls, stop } = self;
        let said = AtomicBool::new(false);
        let mut dial = pin!(async {
            sleep(greet::pause(pause)).await;
            greet::dial(endpoint, peer.member(), || peer.known(), previous, &said).await
        });
        loop {
            tokio::select! {
                biased;
                _ = stopped(stop) => return None,
                Some(call) = calls.recv() => {
                    // Until its hello is out nobody can have accepted this dial, and the call wins.
                    let own = if said.load(Relaxed) { Own::Dialling } else { Own::Waiting };
                    if let Some(call) = judge(endpoint, peer, own, call) {
                        return Some((None, Some(call)));
                    }
                }
                greeted = &mut dial => return Some((Some(greeted), None)),
            }
        }
    }

    /// Welcomes a call, unless a newer one of the same peer arrives. `None`: the task is to end.
    async fn welcome(&mut self, call: PeerCall) -> Option<Attempt> {
        let PeerTask { endpoint, peer, calls, stop } = self;
        let PeerCall { caller: Caller { stream, transcript }, hello, back: _ } = call;
        let mut welcome = pin!(greet::welcome(endpoint, stream, hello, transcript));
        loop {
            tokio::select! {
                biased;
                _ = stopped(stop) => return None,
                Some(call) = calls.recv() => {
                    if let Some(call) = judge(endpoint, peer, Own::Welcoming, call) {
                        return Some((None, Some(call)));
                    }
                }
                greeted = &mut welcome => return Some((Some(greeted), None)),
            }
        }
    }
}

/// Outcome of an attempt, if it ended, and the call that continues in its place.
type Attempt = (Option<Result<Greeted, Failed>>, Option<PeerCall>);

/// Returns the call if it is accepted; else sends it back with the refusal. Admission is checked
/// again, since the call may have waited here while another incarnation of its node came and went.
fn judge(endpoint: &Endpoint, peer: &Peer, own: Own, call: PeerCall) -> Option<PeerCall> {
    let me = endpoint.speaker();
    let verdict = admit(&me, &call.hello, Some(peer.known()))
        .and_then(|()| arbitrate(me.node, own, &call.hello));
    match verdict {
        Ok(()) => Some(call),
        Err(refusal) => {
            // If no task waits for it, the call was given up: dropping it closes it.
            let _ = call.back.send((call.caller, refusal));
            None
        }
    }
}

/// Waits until this peer's task is to end; returns the reason.
async fn stopped(stop: &mut watch::Receiver<Option<Broken>>) -> Broken {
    match stop.wait_for(Option::is_some).await {
        Ok(why) => why.clone().unwrap_or(Broken::Stopping),
        Err(_) => Broken::Stopping,
    }
}
