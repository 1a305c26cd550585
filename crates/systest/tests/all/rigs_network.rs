//! Tests of the network of namespaces: delays, losses, and cuts of one direction that leave the
//! other alone.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use systest::report::{Figures, skipped};
use systest::rigs::{Cable, Network, Scratch, experiment};

/// Wait that suffices for all packets in transit, on a busy machine too.
const PATIENCE: Duration = Duration::from_millis(1_000);

fn socket(network: &Network, host: usize) -> UdpSocket {
    let address = network.address(host);
    let socket = network.on(host, || UdpSocket::bind((address, 4000)).expect("the port is free"));
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    socket
}

/// Number of datagrams sent at a stretch: far fewer than any queue on the way holds.
const STRETCH: u32 = 20;

/// Sends this many datagrams from one socket to another, a few at a time while they are received,
/// so that no queue on the way is ever full; returns those received, until none has come for a
/// while.
fn cross(network: &Network, from: &UdpSocket, to: (&UdpSocket, usize), count: u32) -> Vec<u32> {
    let there = (network.address(to.1), 4000);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 0..count {
                from.send_to(&number.to_be_bytes(), there).expect("the cable takes it");
                if number % STRETCH == STRETCH - 1 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let mut come = Vec::new();
        let mut bytes = [0; 4];
        while to.0.recv_from(&mut bytes).is_ok() {
            come.push(u32::from_be_bytes(bytes));
        }
        come
    })
}

#[test]
fn a_network_of_namespaces_delays_loses_doubles_and_cuts() {
    let name = "rig network";
    if let Some(why) = Network::missing() {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("network");
    let network = Network::new(scratch.path(), 3, 1);
    let mut figures = Figures::begin(name);
    let (one, two, three) = (socket(&network, 1), socket(&network, 2), socket(&network, 3));
    let all: Vec<u32> = (0..300).collect();
    // The control: a network without faults loses nothing and keeps the order.
    assert_eq!(cross(&network, &one, (&two, 2), 300), all);
    assert_eq!(cross(&network, &two, (&one, 1), 300), all);

    network.link(1, 2, Cable { loss: 500, ..Cable::default() });
    let come = cross(&network, &one, (&two, 2), 300).len();
    assert!((60..240).contains(&come), "half of 300 should be lost, {come} came");
    assert_eq!(cross(&network, &two, (&one, 1), 300), all, "the other direction is good");
    assert!(network.counts(1, 2).lost > 60 && network.counts(2, 1).lost == 0);
    figures.also("of_300_at_half_loss", come);

    network.link(1, 2, Cable { twice: 1000, ..Cable::default() });
    assert_eq!(cross(&network, &one, (&two, 2), 100).len(), 200);

    let slow =
        Cable { jitter: Duration::from_millis(40), ..Cable::slow(Duration::from_millis(60)) };
    network.link(1, 2, slow);
    let begun = Instant::now();
    one.send_to(b"slow", (network.address(2), 4000)).expect("the cable takes it");
    two.recv_from(&mut [0; 4]).expect("it comes");
    let taken = begun.elapsed();
    assert!(taken >= slow.delay, "{taken:?}");
    figures.also("ms_at_60_and_up_to_40", taken.as_millis());
    let mut come = cross(&network, &one, (&two, 2), 300);
    assert_ne!(come, all, "with jitter some overtake others");
    come.sort_unstable();
    assert_eq!(come, all, "and none is lost");

    // A datagram of 1,000 bytes takes 8 ms on a link of a million bits a second.
    network.link(1, 2, Cable::narrow(1_000));
    let begun = Instant::now();
    for _ in 0..STRETCH {
        one.send_to(&[0; 1_000], (network.address(2), 4000)).expect("the cable takes it");
    }
    for _ in 0..STRETCH {
        two.recv_from(&mut [0; 4]).expect("it comes");
    }
    let taken = begun.elapsed();
    assert!(taken >= Duration::from_millis(8) * STRETCH, "{taken:?}");
    figures.also("ms_for_20_kB_at_1_Mbit", taken.as_millis());

    network.link(1, 2, Cable::CUT);
    assert_eq!(cross(&network, &one, (&two, 2), 50), Vec::<u32>::new());
    assert_eq!(cross(&network, &two, (&one, 1), 300), all, "a cut of one direction");
    assert_eq!(cross(&network, &one, (&three, 3), 300), all, "and of one pair");
    network.heal();
    assert_eq!(cross(&network, &one, (&two, 2), 300), all);
    figures.print();
}

/// Bytes of a piece, and the number of pieces.
const PIECE: usize = 100;
const PIECES: usize = 500;

/// Sends pieces over TCP, a packet each; returns the number that arrive changed.
fn changed(network: &Network, port: u16) -> usize {
    let there = (network.address(2), port);
    let listener = network.on(2, || TcpListener::bind(there).expect("the port is free"));
    let mut from = network.on(1, || TcpStream::connect(there).expect("it listens"));
    from.set_nodelay(true).expect("it can be set");
    let (mut to, _) = listener.accept().expect("somebody calls");
    to.set_read_timeout(Some(10 * PATIENCE)).expect("a timeout can be set");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..PIECES {
                from.write_all(&[7; PIECE]).expect("the cable takes it");
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let mut piece = [0; PIECE];
        let mut count = || {
            to.read_exact(&mut piece).expect("every byte comes");
            usize::from(piece != [7; PIECE])
        };
        (0..PIECES).map(|_| count()).sum()
    })
}

/// Positive control of all experiments with corrupted bytes: a program whose frames have no
/// checksum would accept what TCP does not detect.
#[test]
fn a_byte_that_changes_reaches_the_program() {
    let name = "rig network, changed bytes";
    if let Some(why) = Network::missing() {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("network-changed");
    let network = Network::new(scratch.path(), 2, 1);
    let mut figures = Figures::begin(name);
    assert_eq!(changed(&network, 4001), 0, "a good network changes nothing");
    network.link(1, 2, Cable { corrupt: 200, ..Cable::default() });
    let count = changed(&network, 4002);
    figures.also(&format!("of_{PIECES}_at_a_fifth"), count);
    figures.print();
    assert!((40..200).contains(&count), "a fifth of {PIECES} should be changed, not {count}");
    assert!(network.counts(1, 2).corrupted >= count as u64);
}
