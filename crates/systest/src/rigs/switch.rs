//! Switch between the hosts of a network: one thread that takes frames off each port and passes
//! them to another when their time has come.

use super::corrupt::corrupt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Length of the kernel's header before each frame (`virtio_net_hdr`), in both directions.
pub(super) const HEAD_BYTES: usize = 10;
/// Largest frame that the kernel may pass, with its header.
const FRAME_BYTES_MAX: usize = HEAD_BYTES + 66 * 1024;
/// Most frames in transit; beyond it they are lost, as in any switch.
const FRAMES_MAX: usize = 50_000;
/// Most frames taken off a port before the others have their turn.
const TURN_FRAMES: usize = 64;
/// Longest sleep of the thread between two checks of its stop flag.
const LOOK: Duration = Duration::from_millis(20);
/// Length of the queue of a cable with limited rate, by the time it takes to send; beyond it,
/// frames are lost.
const QUEUE: Duration = Duration::from_millis(400);

/// Behaviour of the frames from one host to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cable {
    /// Shortest time of a frame in transit.
    pub delay: Duration,
    /// Largest random addition to the delay; so frames overtake each other.
    pub jitter: Duration,
    /// Lost frames, in thousandths.
    pub loss: u32,
    /// Duplicated frames, in thousandths.
    pub twice: u32,
    /// Corrupted frames, in thousandths of those that carry bytes of a TCP stream: one byte
    /// changes, with a valid TCP checksum.
    pub corrupt: u32,
    /// True if no frame arrives, not even those in transit.
    pub cut: bool,
    /// Rate in thousands of bits a second; 0: no limit.
    pub kbit: u32,
}

impl Cable {
    /// A cable that passes nothing.
    pub const CUT: Cable = Cable {
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        loss: 0,
        twice: 0,
        corrupt: 0,
        cut: true,
        kbit: 0,
    };

    /// Returns a cable without faults, with this delay.
    pub fn slow(delay: Duration) -> Cable {
        Cable { delay, ..Cable::default() }
    }

    /// Returns a cable without faults, with this rate in thousands of bits a second.
    pub fn narrow(kbit: u32) -> Cable {
        Cable { kbit, ..Cable::default() }
    }

    /// Returns the time to send a frame of this many bytes on the cable.
    fn sending(&self, bytes: usize) -> Duration {
        match self.kbit {
            0 => Duration::ZERO,
            kbit => Duration::from_micros(bytes as u64 * 8_000 / u64::from(kbit)),
        }
    }
}

/// Counts of the frames in one direction between two hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames passed on; one that was duplicated counts twice.
    pub through: u64,
    /// Bytes of the frames passed on.
    pub bytes: u64,
    /// Frames lost, at random, by a cut, or for lack of queue space.
    pub lost: u64,
    /// Frames passed on with a changed byte.
    pub corrupted: u64,
}

/// State of one direction between two hosts.
#[derive(Clone, Copy)]
struct Way {
    link: Cable,
    counts: Counts,
    /// Time at which the last frame taken will have been sent on the cable.
    free: Instant,
}

type Table = Vec<Vec<Way>>;

/// A running switch. A drop ends it.
pub(super) struct Switch {
    table: Arc<Mutex<Table>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    pub(super) fn start(ports: Vec<File>, seed: u64) -> Switch {
        let count = ports.len();
        let way = Way { link: Cable::default(), counts: Counts::default(), free: Instant::now() };
        let table = Arc::new(Mutex::new(vec![vec![way; count]; count]));
        let stop = Arc::new(AtomicBool::new(false));
        let mut at_work = AtWork {
            ports,
            table: table.clone(),
            dice: StdRng::seed_from_u64(seed),
            under_way: BinaryHeap::new(),
            room: vec![0; FRAME_BYTES_MAX],
            count: 0,
        };
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                at_work.turn();
            }
        });
        Switch { table, stop, thread: Some(thread) }
    }

    pub(super) fn set(&self, from: usize, to: usize, link: Cable) {
        self.table.lock().expect("no panic holds it")[from][to].link = link;
    }

    pub(super) fn counts(&self, from: usize, to: usize) -> Counts {
        self.table.lock().expect("no panic holds it")[from][to].counts
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A frame in transit; of two that are due at the same time the older goes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SwitchFrame {
    due: Instant,
    number: u64,
    from: usize,
    to: usize,
    bytes: Vec<u8>,
}

struct AtWork {
    ports: Vec<File>,
    table: Arc<Mutex<Table>>,
    dice: StdRng,
    under_way: BinaryHeap<Reverse<SwitchFrame>>,
    /// Buffer that the next frame is read into.
    room: Vec<u8>,
    count: u64,
}

impl AtWork {
    /// Passes on the frames that are due, waits for frames, reads them.
    fn turn(&mut self) {
        self.deliver();
        let next = self.under_way.peek().map(|Reverse(frame)| frame.due);
        let wait = next.map_or(LOOK, |due| due.saturating_duration_since(Instant::now()).min(LOOK));
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let mut watched: Vec<_> =
            self.ports.iter().map(|port| PollFd::new(port, PollFlags::IN)).collect();
        if poll(&mut watched, Some(&wait)).is_err() {
            return; // interrupted
        }
        let ready: Vec<_> = watched.iter().map(|port| !port.revents().is_empty()).collect();
        for from in (0..self.ports.len()).filter(|from| ready[*from]) {
            self.take_in(from);
        }
    }

    fn take_in(&mut self, from: usize) {
        let mut room = std::mem::take(&mut self.room);
        for _ in 0..TURN_FRAMES {
            // There is no more to read, or the port is being removed.
            let Ok(count) = (&self.ports[from]).read(&mut room) else { break };
            let Some(frame) = room.get(HEAD_BYTES..count).filter(|frame| frame.len() >= 14) else {
                break;
            };
            let everyone = frame[0] & 1 == 1;
            let to = usize::from(frame[5]).wrapping_sub(1);
            for other in 0..self.ports.len() {
                if other != from && (everyone || other == to) {
                    self.send(from, other, &room[..count]);
                }
            }
        }
        self.room = room;
    }

    fn send(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let mut table = self.table.lock().expect("no panic holds it");
        let Way { link, counts, free } = &mut table[from][to];
        let now = Instant::now();
        let begins = now.max(*free);
        let full = self.under_way.len() >= FRAMES_MAX || begins - now > QUEUE;
        if link.cut || full || self.dice.random_range(0..1000) < link.loss {
            counts.lost += 1;
            return;
        }
        let sent = begins + link.sending(bytes.len());
        *free = sent;
        let copies = if self.dice.random_range(0..1000) < link.twice { 2 } else { 1 };
        for _ in 0..copies {
            let more = link.jitter.mul_f64(self.dice.random_range(0.0..1.0));
            let due = sent + link.delay + more;
            self.count += 1;
            let (number, mut bytes) = (self.count, bytes.to_vec());
            if self.dice.random_range(0..1000) < link.corrupt {
                counts.corrupted += u64::from(corrupt(&mut bytes, &mut self.dice));
            }
            self.under_way.push(Reverse(SwitchFrame { due, number, from, to, bytes }));
        }
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while self.under_way.peek().is_some_and(|Reverse(frame)| frame.due <= now) {
            let Some(Reverse(frame)) = self.under_way.pop() else { return };
            let cut = self.table.lock().expect("no panic holds it")[frame.from][frame.to].link.cut;
            // A port that accepts no more loses the frame, as a cable does.
            let through = !cut && (&self.ports[frame.to]).write_all(&frame.bytes).is_ok();
            let mut table = self.table.lock().expect("no panic holds it");
            let counts = &mut table[frame.from][frame.to].counts;
            if through {
                counts.through += 1;
                counts.bytes += frame.bytes.len() as u64;
            } else {
                counts.lost += 1;
            }
        }
    }
}
