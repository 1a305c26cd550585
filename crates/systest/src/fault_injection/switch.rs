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
pub(super) const VNET_HEADER_BYTES: usize = 10;
/// Largest frame that the kernel may pass, with its header.
const FRAME_BYTES_MAX: usize = VNET_HEADER_BYTES + 66 * 1024;
/// Most frames in transit; beyond it they are lost, as in any switch.
const FRAMES_MAX: usize = 50_000;
/// Largest number of frames read from a port before the other ports are read.
const PORT_FRAMES_MAX: usize = 64;
/// Longest sleep of the thread between two checks of its stop flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Length of the queue of a cable with limited rate, by the time it takes to send; beyond it,
/// frames are lost.
const QUEUE_DELAY_MAX: Duration = Duration::from_millis(400);

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
    pub duplicate: u32,
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
        duplicate: 0,
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
    fn transmission_time(&self, bytes: usize) -> Duration {
        match self.kbit {
            0 => Duration::ZERO,
            kbit => Duration::from_micros(bytes as u64 * 8_000 / u64::from(kbit)),
        }
    }
}

/// Counts of the frames in one direction between two hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Frames passed on; one that was duplicated counts twice.
    pub delivered: u64,
    /// Bytes of the frames passed on.
    pub bytes: u64,
    /// Frames lost, at random, by a cut, or for lack of queue space.
    pub lost: u64,
    /// Frames passed on with a changed byte.
    pub corrupted: u64,
}

/// State of one direction between two hosts.
#[derive(Clone, Copy)]
struct Direction {
    link: Cable,
    counts: LinkCounts,
    /// Time at which the last accepted frame will have been sent on the cable.
    free_at: Instant,
}

type DirectionTable = Vec<Vec<Direction>>;

/// A running switch. A drop ends it.
pub(super) struct Switch {
    table: Arc<Mutex<DirectionTable>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    pub(super) fn start(ports: Vec<File>, seed: u64) -> Switch {
        let count = ports.len();
        let direction = Direction {
            link: Cable::default(),
            counts: LinkCounts::default(),
            free_at: Instant::now(),
        };
        let table = Arc::new(Mutex::new(vec![vec![direction; count]; count]));
        let stop = Arc::new(AtomicBool::new(false));
        let mut switch_loop = SwitchLoop {
            ports,
            table: table.clone(),
            dice: StdRng::seed_from_u64(seed),
            in_transit: BinaryHeap::new(),
            buffer: vec![0; FRAME_BYTES_MAX],
            frame_count: 0,
        };
        let stop_flag = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stop_flag.load(Ordering::Relaxed) {
                switch_loop.poll_ports();
            }
        });
        Switch { table, stop, thread: Some(thread) }
    }

    pub(super) fn set(&self, from: usize, to: usize, link: Cable) {
        self.table.lock().expect("no panic holds it")[from][to].link = link;
    }

    pub(super) fn counts(&self, from: usize, to: usize) -> LinkCounts {
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

struct SwitchLoop {
    ports: Vec<File>,
    table: Arc<Mutex<DirectionTable>>,
    dice: StdRng,
    in_transit: BinaryHeap<Reverse<SwitchFrame>>,
    /// Buffer that the next frame is read into.
    buffer: Vec<u8>,
    frame_count: u64,
}

impl SwitchLoop {
    /// Passes on the frames that are due, waits for frames, reads them.
    fn poll_ports(&mut self) {
        self.deliver();
        let next_due = self.in_transit.peek().map(|Reverse(frame)| frame.due);
        let timeout = next_due.map_or(STOP_CHECK_INTERVAL, |due| {
            due.saturating_duration_since(Instant::now()).min(STOP_CHECK_INTERVAL)
        });
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
        let mut poll_fds: Vec<_> =
            self.ports.iter().map(|port| PollFd::new(port, PollFlags::IN)).collect();
        if poll(&mut poll_fds, Some(&timeout)).is_err() {
            return; // interrupted
        }
        let ready: Vec<_> = poll_fds.iter().map(|port| !port.revents().is_empty()).collect();
        for from in (0..self.ports.len()).filter(|from| ready[*from]) {
            self.read_frames(from);
        }
    }

    fn read_frames(&mut self, from: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..PORT_FRAMES_MAX {
            // There is no more to read, or the port is being removed.
            let Ok(count) = (&self.ports[from]).read(&mut buffer) else { break };
            let Some(frame) =
                buffer.get(VNET_HEADER_BYTES..count).filter(|frame| frame.len() >= 14)
            else {
                break;
            };
            let is_broadcast = frame[0] & 1 == 1;
            let to = usize::from(frame[5]).wrapping_sub(1);
            for other in 0..self.ports.len() {
                if other != from && (is_broadcast || other == to) {
                    self.send(from, other, &buffer[..count]);
                }
            }
        }
        self.buffer = buffer;
    }

    fn send(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let mut table = self.table.lock().expect("no panic holds it");
        let Direction { link, counts, free_at: free } = &mut table[from][to];
        let now = Instant::now();
        let send_start = now.max(*free);
        let is_queue_full =
            self.in_transit.len() >= FRAMES_MAX || send_start - now > QUEUE_DELAY_MAX;
        if link.cut || is_queue_full || self.dice.random_range(0..1000) < link.loss {
            counts.lost += 1;
            return;
        }
        let send_end = send_start + link.transmission_time(bytes.len());
        *free = send_end;
        let copies = if self.dice.random_range(0..1000) < link.duplicate { 2 } else { 1 };
        for _ in 0..copies {
            let jitter = link.jitter.mul_f64(self.dice.random_range(0.0..1.0));
            let due = send_end + link.delay + jitter;
            self.frame_count += 1;
            let (number, mut bytes) = (self.frame_count, bytes.to_vec());
            if self.dice.random_range(0..1000) < link.corrupt {
                counts.corrupted += u64::from(corrupt(&mut bytes, &mut self.dice));
            }
            self.in_transit.push(Reverse(SwitchFrame { due, number, from, to, bytes }));
        }
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while self.in_transit.peek().is_some_and(|Reverse(frame)| frame.due <= now) {
            let Some(Reverse(frame)) = self.in_transit.pop() else { return };
            let cut = self.table.lock().expect("no panic holds it")[frame.from][frame.to].link.cut;
            // A port that accepts no more loses the frame, as a cable does.
            let delivered = !cut && (&self.ports[frame.to]).write_all(&frame.bytes).is_ok();
            let mut table = self.table.lock().expect("no panic holds it");
            let counts = &mut table[frame.from][frame.to].counts;
            if delivered {
                counts.delivered += 1;
                counts.bytes += frame.bytes.len() as u64;
            } else {
                counts.lost += 1;
            }
        }
    }
}
