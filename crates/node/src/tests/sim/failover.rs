//! Failover: how long no write is acknowledged after the end of a master, and masters that stay.

use super::world::World;

/// Histories of each kind.
const SEEDS: u64 = 24;
/// Longest gap in writes after the master's process was killed, in microseconds: the sum in
/// `docs/inside/consensus.md`, without the slow syncs that it allows for.
const KILLED_US_MAX: u64 = 400_000;
/// Longest gap in writes after the master's machine lost power, in microseconds: nobody learns it,
/// so the voters' patience has to end.
const SILENT_US_MAX: u64 = 900_000;
/// Time for which a master pauses, in microseconds. It must stay in office.
const PAUSE_US: u64 = 300_000;

/// Histories without faults of three voters, each some way further into the heartbeats' interval.
fn histories() -> impl Iterator<Item = World> {
    let worlds = (0..SEEDS).map(|seed| (seed, World::calm(seed)));
    worlds.filter(|(_, world)| world.has_three_voters()).map(|(seed, mut world)| {
        world.run(3_000_000 + seed * 7_300);
        world
    })
}

/// Returns the longest and the shortest gap in writes after a fault of the master, over several
/// histories.
fn gaps_us(fault: fn(&mut World, usize)) -> (u64, u64) {
    let gaps = histories().map(|mut world| {
        let (master, began) = (world.master(0).expect("nothing happens"), world.queue.now());
        fault(&mut world, master);
        while world.wrote_at[0] <= began {
            assert!(world.queue.now() < began + 10_000_000, "no write is acknowledged any more");
            world.run(1_000);
        }
        let gap_us = world.wrote_at[0] - began;
        runtime::world::set_time(None);
        gap_us
    });
    let gaps: Vec<_> = gaps.collect();
    let (longest, shortest) = (gaps.iter().max().copied(), gaps.iter().min().copied());
    println!("gaps in writes: {} histories, {shortest:?} to {longest:?} us", gaps.len());
    (longest.expect("there are histories"), shortest.expect("there are histories"))
}

#[test]
fn killed_master_is_replaced_soon_after_half_a_lease() {
    let (longest_us, _) = gaps_us(|world, master| world.kill(master));
    assert!(longest_us <= KILLED_US_MAX, "{longest_us} us");
}

/// The control of the test above: without the ends of connections it would fail.
#[test]
fn master_without_power_is_replaced_once_patience_ends() {
    let (longest_us, shortest_us) = gaps_us(|world, master| world.lose_power(master, 60_000_000));
    assert!(longest_us <= SILENT_US_MAX && shortest_us > KILLED_US_MAX, "{longest_us} us");
}

/// Asserts that the same master leads, under the same ballot, for two seconds after a fault.
fn assert_master_stays(fault: fn(&mut World, usize)) {
    for mut world in histories() {
        let master = world.master(0).expect("nothing happens");
        let ballot = |world: &World| {
            let process = world.process(master).expect("it lives");
            process.group(0).state().replica.promised()
        };
        let before = ballot(&world);
        fault(&mut world, master);
        world.run(2_000_000);
        assert_eq!((world.master(0), ballot(&world)), (Some(master), before));
        runtime::world::set_time(None);
    }
}

#[test]
fn paused_master_within_the_voters_patience_stays() {
    assert_master_stays(|world, master| {
        world.nodes[master].clock.paused_until = world.queue.now() + PAUSE_US;
    });
}

#[test]
fn living_master_whose_connections_end_stays() {
    assert_master_stays(|world, master| world.end_links(master));
}
