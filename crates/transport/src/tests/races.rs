//! Races of two nodes that dial, cross, lose and redial in random order: once nothing more is lost
//! they converge to one stable connection.

use super::greetings::identity;
use crate::arbitrate::{Phase, arbitrate};
use crate::handshake::Hello;
use crate::incarnation::Incarnation;
use crate::versions::VERSIONS;
use base::NodeId;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waiting,
    Dialling(usize),
    Welcoming(usize),
    Connected(usize),
}

impl State {
    fn connection(self) -> Option<usize> {
        match self {
            State::Waiting => None,
            State::Dialling(at) | State::Welcoming(at) | State::Connected(at) => Some(at),
        }
    }
}

#[derive(Clone, Debug)]
enum GreetingKind {
    Hello(Hello),
    Welcome,
    Go,
    Closed,
}

struct Model {
    states: [State; 2],
    /// Last link of each side.
    previous: [u64; 2],
    /// Greetings in flight, by connection, to each side.
    in_flight: Vec<[VecDeque<GreetingKind>; 2]>,
    rng: u64,
    is_lossless: bool,
}

impl Model {
    fn random(&mut self, sides: u64) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        (self.rng >> 11) % sides
    }

    fn send(&mut self, connection: usize, to: usize, greeting: GreetingKind) {
        self.in_flight[connection][to].push_back(greeting);
    }

    /// Makes the side leave its connection; in the lossy phase the other may never be notified.
    fn leave(&mut self, side: usize) {
        let Some(connection) = self.states[side].connection() else { return };
        self.states[side] = State::Waiting;
        if self.is_lossless || self.random(2) == 0 {
            self.send(connection, 1 - side, GreetingKind::Closed);
        }
    }

    fn dial(&mut self, side: usize) {
        let other = 1 - side;
        self.in_flight.push([VecDeque::new(), VecDeque::new()]);
        let connection = self.in_flight.len() - 1;
        let hello = Hello {
            versions: VERSIONS,
            identity: identity(side as u64 + 1, 5, 50, connection as u64),
            target: NodeId(other as u64 + 1),
            previous: self.previous[side],
        };
        self.states[side] = State::Dialling(connection);
        self.send(connection, other, GreetingKind::Hello(hello));
    }

    fn deliver(&mut self, side: usize, connection: usize, greeting: GreetingKind) {
        let (state, link) = (self.states[side], connection as u64 + 1);
        match greeting {
            GreetingKind::Hello(hello) => {
                let own = match state {
                    State::Waiting => Phase::Waiting,
                    State::Dialling(_) => Phase::Dialling,
                    State::Welcoming(_) => Phase::Welcoming,
                    State::Connected(link) => {
                        Phase::Connected { link: link as u64 + 1, incarnation: Incarnation(5) }
                    }
                };
                if arbitrate(NodeId(side as u64 + 1), own, &hello).is_ok() {
                    self.leave(side);
                    self.states[side] = State::Welcoming(connection);
                    self.send(connection, 1 - side, GreetingKind::Welcome);
                } else {
                    self.send(connection, 1 - side, GreetingKind::Closed);
                }
            }
            GreetingKind::Welcome if state == State::Dialling(connection) => {
                self.states[side] = State::Connected(connection);
                self.previous[side] = link;
                self.send(connection, 1 - side, GreetingKind::Go);
            }
            GreetingKind::Go if state == State::Welcoming(connection) => {
                self.states[side] = State::Connected(connection);
                self.previous[side] = link;
            }
            GreetingKind::Closed if state.connection() == Some(connection) => {
                self.states[side] = State::Waiting;
            }
            _ => {}
        }
    }

    fn is_converged(&self) -> bool {
        matches!(self.states, [State::Connected(one), State::Connected(two)] if one == two)
    }

    fn step(&mut self) {
        let side = self.random(2) as usize;
        match (self.random(10), self.states[side]) {
            (0, State::Waiting) => self.dial(side),
            // Rarely, a timeout ends an attempt that may still have been answered.
            (1, State::Dialling(_) | State::Welcoming(_)) if self.random(5) == 0 => {
                self.leave(side)
            }
            // A link breaks on one side alone; in the lossless phase only a dead one does, by
            // pings.
            (2, State::Connected(_)) if !self.is_lossless || !self.is_converged() => {
                if self.random(8) == 0 {
                    self.leave(side);
                }
            }
            _ => {
                let busy: Vec<_> = (0..self.in_flight.len())
                    .flat_map(|at| [(at, 0), (at, 1)])
                    .filter(|(at, to)| !self.in_flight[*at][*to].is_empty())
                    .collect();
                if busy.is_empty() {
                    return;
                }
                let (at, to) = busy[self.random(busy.len() as u64) as usize];
                if let Some(greeting) = self.in_flight[at][to].pop_front()
                    && (self.is_lossless || self.random(20) > 0)
                {
                    self.deliver(to, at, greeting);
                }
            }
        }
    }
}

#[test]
fn racing_dials_converge_to_one_stable_link() {
    let mut crossed = 0;
    for seed in 1..=3_000u64 {
        let mut model = Model {
            states: [State::Waiting; 2],
            previous: [0; 2],
            in_flight: Vec::new(),
            rng: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            is_lossless: false,
        };
        for _ in 0..seed % 200 {
            model.step();
            crossed += u64::from(matches!(model.states, [State::Dialling(_), State::Dialling(_)]));
        }
        model.is_lossless = true;
        let mut steps = 0;
        while !model.is_converged() {
            model.step();
            steps += 1;
            assert!(steps < 20_000, "seed {seed} finds no end: {:?}", model.states);
        }
        let converged = model.states;
        for _ in 0..500 {
            model.step();
            assert_eq!(model.states, converged, "seed {seed}: a good link was given up");
        }
    }
    assert!(crossed > 1_000, "dials must have crossed for this to say anything: {crossed}");
}
