//! Tests of the network of namespaces: delays, losses, and cuts of one direction that leave the
//! other alone.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::{Cable, Network};
use systest::report::{Figures, skipped};

/// Wait that suffices for all packets in transit, on a busy machine too.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(1_000);

fn socket(network: &Network, host: usize) -> UdpSocket {
    let address = network.address(host);
    let socket =
        network.run_on_host(host, || UdpSocket::bind((address, 4000)).expect("the port is free"));
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).expect("a timeout can be set");
    socket
}

/// Number of datagrams sent without a pause: far fewer than any queue on the way holds.
const BURST: u32 = 20;

/// Sends this many datagrams from one socket to another, a few at a time while they are received,
/// so that no queue on the way is ever full; returns those received until the receive timeout.
fn send_datagrams(
    network: &Network,
    from: &UdpSocket,
    to: (&UdpSocket, usize),
    count: u32,
) -> Vec<u32> {
    let address = (network.address(to.1), 4000);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 0..count {
                from.send_to(&number.to_be_bytes(), address).expect("the cable takes it");
                if number % BURST == BURST - 1 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let mut received = Vec::new();
        let mut bytes = [0; 4];
        while to.0.recv_from(&mut bytes).is_ok() {
            received.push(u32::from_be_bytes(bytes));
        }
        received
    })
}

#[test]
fn network_injection_delays_loses_duplicates_and_cuts_packets() {
    let name = "injected network";
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("network");
    let network = Network::new(scratch.path(), 3, 1);
    let mut figures = Figures::start(name);
    let (one, two, three) = (socket(&network, 1), socket(&network, 2), socket(&network, 3));
    let all: Vec<u32> = (0..300).collect();
    // The control: a network without faults loses nothing and keeps the order.
    assert_eq!(send_datagrams(&network, &one, (&two, 2), 300), all);
    assert_eq!(send_datagrams(&network, &two, (&one, 1), 300), all);

    network.set_link(1, 2, Cable { loss: 500, ..Cable::default() });
    let received = send_datagrams(&network, &one, (&two, 2), 300).len();
    assert!((60..240).contains(&received), "half of 300 should be lost, {received} came");
    assert_eq!(send_datagrams(&network, &two, (&one, 1), 300), all, "the other direction is good");
    assert!(network.counts(1, 2).lost > 60 && network.counts(2, 1).lost == 0);
    figures.add("of_300_at_half_loss", received);

    network.set_link(1, 2, Cable { duplicate: 1000, ..Cable::default() });
    assert_eq!(send_datagrams(&network, &one, (&two, 2), 100).len(), 200);

    let slow =
        Cable { jitter: Duration::from_millis(40), ..Cable::slow(Duration::from_millis(60)) };
    network.set_link(1, 2, slow);
    let started = Instant::now();
    one.send_to(b"slow", (network.address(2), 4000)).expect("the cable takes it");
    two.recv_from(&mut [0; 4]).expect("it comes");
    let elapsed = started.elapsed();
    assert!(elapsed >= slow.delay, "{elapsed:?}");
    figures.add("ms_at_60_and_up_to_40", elapsed.as_millis());
    let mut received = send_datagrams(&network, &one, (&two, 2), 300);
    assert_ne!(received, all, "with jitter some overtake others");
    received.sort_unstable();
    assert_eq!(received, all, "and none is lost");

    // A datagram of 1,000 bytes takes 8 ms on a link of a million bits a second.
    network.set_link(1, 2, Cable::narrow(1_000));
    let started = Instant::now();
    for _ in 0..BURST {
        one.send_to(&[0; 1_000], (network.address(2), 4000)).expect("the cable takes it");
    }
    for _ in 0..BURST {
        two.recv_from(&mut [0; 4]).expect("it comes");
    }
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_millis(8) * BURST, "{elapsed:?}");
    figures.add("ms_for_20_kB_at_1_Mbit", elapsed.as_millis());

    network.set_link(1, 2, Cable::CUT);
    assert_eq!(send_datagrams(&network, &one, (&two, 2), 50), Vec::<u32>::new());
    assert_eq!(send_datagrams(&network, &two, (&one, 1), 300), all, "a cut of one direction");
    assert_eq!(send_datagrams(&network, &one, (&three, 3), 300), all, "and of one pair");
    network.heal();
    assert_eq!(send_datagrams(&network, &one, (&two, 2), 300), all);
    figures.print();
}

/// Bytes of a piece, and the number of pieces.
const PIECE_BYTES: usize = 100;
const PIECES: usize = 500;

/// Sends pieces over TCP, a packet each; returns the number that arrive changed.
fn count_changed_pieces(network: &Network, port: u16) -> usize {
    let address = (network.address(2), port);
    let listener = network.run_on_host(2, || TcpListener::bind(address).expect("the port is free"));
    let mut from = network.run_on_host(1, || TcpStream::connect(address).expect("it listens"));
    from.set_nodelay(true).expect("it can be set");
    let (mut to, _) = listener.accept().expect("somebody calls");
    to.set_read_timeout(Some(10 * RECEIVE_TIMEOUT)).expect("a timeout can be set");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..PIECES {
                from.write_all(&[7; PIECE_BYTES]).expect("the cable takes it");
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let mut piece = [0; PIECE_BYTES];
        let mut count = || {
            to.read_exact(&mut piece).expect("every byte comes");
            usize::from(piece != [7; PIECE_BYTES])
        };
        (0..PIECES).map(|_| count()).sum()
    })
}

/// Positive control of all experiments with corrupted bytes: a program whose frames have no
/// checksum would accept what TCP does not detect.
#[test]
fn corrupted_tcp_byte_passes_checksum_and_reaches_the_program() {
    let name = "injected network, changed bytes";
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("network-changed");
    let network = Network::new(scratch.path(), 2, 1);
    let mut figures = Figures::start(name);
    assert_eq!(count_changed_pieces(&network, 4001), 0, "a good network changes nothing");
    network.set_link(1, 2, Cable { corrupt: 200, ..Cable::default() });
    let count = count_changed_pieces(&network, 4002);
    figures.add(&format!("of_{PIECES}_at_a_fifth"), count);
    figures.print();
    assert!((40..200).contains(&count), "a fifth of {PIECES} should be changed, not {count}");
    assert!(network.counts(1, 2).corrupted >= count as u64);
}
