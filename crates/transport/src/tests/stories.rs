//! Plays `stories/*.txt`: greetings and their refusals, two dials at once, the lanes.

use super::greetings::{identity, read};
use crate::admission::{KnownIncarnations, accept, admit};
use crate::arbitrate::{Phase, arbitrate};
use crate::handshake::{Greeting, Hello};
use crate::incarnation::Incarnation;
use crate::message::{Lane, Message, Receipt};
use crate::outbox::{Next, Outbox};
use crate::rate::Rate;
use crate::refusal::Refusal;
use crate::settings::LaneLimits;
use crate::versions::{VERSIONS, Versions};
use base::{ClusterId, GroupId, IncarnationId, NodeId};
use bytes::Bytes;
use goldenscript::{Argument, Command, Context, Runner};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;

macro_rules! stories {
    ($($name:ident),* $(,)?) => { $(
        #[test]
        fn $name() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/stories/");
            let path = format!("{folder}{}.txt", stringify!($name));
            goldenscript::run(&mut Stage::default(), path).expect("the story is played to its end");
        }
    )* };
}

stories!(admission_checks, dialler_checks, two_dials, lanes, bulk_waits, taken_back);

#[derive(Default)]
struct Stage {
    known: BTreeMap<NodeId, KnownIncarnations>,
    outbox: Option<Outbox>,
    receipts: BTreeMap<u32, Receipt>,
    now: u64,
}

type Answer = Result<String, Box<dyn Error>>;

/// Arguments of a command by name, each a number.
struct Numbers(BTreeMap<String, u64>);

impl Numbers {
    fn of(command: &Command) -> Result<Numbers, Box<dyn Error>> {
        let mut numbers = BTreeMap::new();
        for argument in &command.args {
            if let Argument::KeyValue(key, value) = argument {
                numbers.insert(key.clone(), value.parse()?);
            }
        }
        Ok(Numbers(numbers))
    }

    fn get(&self, name: &str, otherwise: u64) -> u64 {
        self.0.get(name).copied().unwrap_or(otherwise)
    }
}

impl Runner for Stage {
    type Command = Command;

    fn run(&mut self, command: &Command, _context: &Context) -> Answer {
        let numbers = Numbers::of(command)?;
        let positional = command.args.iter().find_map(|argument| match argument {
            Argument::Positional(positional) => Some(positional.as_str()),
            _ => None,
        });
        let positional = positional.unwrap_or("");
        match command.name.as_str() {
            "member" => self.member(&numbers),
            "hello" => self.hello(&numbers),
            "welcome" => self.welcome(&numbers),
            "call" => call(positional, &numbers),
            "outbox" => self.begin(&numbers),
            "send" => self.send(positional, &numbers),
            "next" => self.next(&numbers),
            "used_up" => Ok(format!("{}\n", self.outbox()?.consumed(numbers.get("bytes", 0)))),
            "room" => Ok(format!("{:?}\n", self.outbox()?.bulk_room())),
            "dropped" => Ok(format!("{:?}\n", self.outbox()?.dropped())),
            "take_back" => self.take_back(&numbers),
            "close" => self.close(),
            other => Err(format!("no story knows the command {other}").into()),
        }
    }
}

fn outcome(verdict: Result<(), Refusal>) -> String {
    match verdict {
        Ok(()) => "goes on\n".into(),
        Err(refusal) => format!("refused ({}): {refusal}\n", refusal.code()),
    }
}

/// Builds the hello of a story: node 2, in its 5th incarnation, dialling node 1.
fn hello(numbers: &Numbers) -> Hello {
    let (lowest, highest) = (numbers.get("lowest", 1), numbers.get("highest", 1));
    let mut identity = identity(
        numbers.get("node", 2),
        numbers.get("incarnation", 5),
        numbers.get("process", 50),
        numbers.get("nonce", 500),
    );
    identity.cluster = ClusterId(numbers.get("cluster", 0xC1));
    // The known earlier incarnation first, its own last.
    for (number, token) in [("knows", "known_token"), ("incarnation", "token")] {
        if let Some(token) = numbers.0.get(token).copied() {
            identity.incarnations.push(IncarnationId { number: numbers.get(number, 5), token });
        }
    }
    Hello {
        versions: Versions { lowest: lowest as u16, highest: highest as u16 },
        identity,
        target: NodeId(numbers.get("wanted", 1)),
        previous: numbers.get("previous", 0),
    }
}

fn call(own: &str, numbers: &Numbers) -> Answer {
    let own = match own {
        "waiting" => Phase::Waiting,
        "dialling" => Phase::Dialling,
        "welcoming" => Phase::Welcoming,
        "connected" => Phase::Connected {
            link: numbers.get("link", 77),
            incarnation: Incarnation(numbers.get("connected_life", 5)),
        },
        other => return Err(format!("no state is called {other}").into()),
    };
    Ok(outcome(arbitrate(NodeId(numbers.get("me", 1)), own, &hello(numbers))))
}

fn next_line(next: Next) -> String {
    match next {
        Next::Control(word) => format!("{word:?}"),
        Next::Wait(u64::MAX) => "nothing".into(),
        Next::Wait(wait) => format!("nothing for {} ms", wait.div_ceil(1_000_000)),
        Next::Piece(piece) => {
            let (lane, end) = (piece.lane.name(), if piece.last { ", the last" } else { "" });
            let bytes = piece.head.bytes().len() + piece.body.len();
            format!("{lane} of group {}: {bytes} of {}{end}", piece.group, piece.total)
        }
    }
}

impl Stage {
    fn member(&mut self, numbers: &Numbers) -> Answer {
        let process = numbers.0.get("process").copied();
        let incarnation = Incarnation(numbers.get("incarnation", 0));
        let token = numbers.0.get("token").copied();
        let incarnation_id = token.map(|token| IncarnationId { number: incarnation.0, token });
        self.known.insert(
            NodeId(numbers.get("node", 2)),
            KnownIncarnations { incarnation, incarnation_id, process },
        );
        Ok(String::new())
    }

    /// Delivers an encoded hello to node 1.
    fn hello(&mut self, numbers: &Numbers) -> Answer {
        let me = identity(1, 3, 10, 100);
        let greeting = read(&Greeting::Hello(hello(numbers)).encode(), VERSIONS);
        Ok(outcome(greeting.and_then(|greeting| match greeting {
            Greeting::Hello(hello) => {
                let known = self.known.get(&hello.identity.node).copied();
                admit(&me, &hello, known)
            }
            _ => Err(Refusal::Malformed("kind")),
        })))
    }

    /// Delivers a welcome to node 1, which dialled node 2.
    fn welcome(&mut self, numbers: &Numbers) -> Answer {
        let me = identity(1, 3, 10, 100);
        let found = hello(numbers).identity;
        let known = self.known.get(&NodeId(2)).copied().unwrap_or_default();
        let version = numbers.get("version", 1) as u16;
        Ok(outcome(accept(&me, NodeId(2), version, &found, known, VERSIONS)))
    }

    fn outbox(&mut self) -> Result<&mut Outbox, Box<dyn Error>> {
        self.outbox.as_mut().ok_or_else(|| "begin with the command outbox".into())
    }

    fn begin(&mut self, numbers: &Numbers) -> Answer {
        let messages = numbers.get("messages", 100) as usize;
        let bytes = numbers.get("bytes", 100 << 20) as usize;
        let rate = Rate::new(numbers.get("rate", 0), 0);
        self.outbox = Some(Outbox::new([LaneLimits { messages, bytes }; 4], rate));
        Ok(String::new())
    }

    fn send(&mut self, lane: &str, numbers: &Numbers) -> Answer {
        let lane = Lane::ALL.into_iter().find(|known| known.name() == lane);
        let lane = lane.ok_or("no such lane")?;
        let group = numbers.get("group", 1) as u32;
        let body = Bytes::from(vec![0; numbers.get("bytes", 10) as usize]);
        let mut message = Message::new(lane, GroupId(group), body);
        message.slot = numbers.0.get("slot").map(|slot| *slot as u32);
        if numbers.0.contains_key("receipt") {
            let receipt = Receipt::default();
            self.receipts.insert(numbers.get("receipt", 0) as u32, receipt.clone());
            message.receipt = Some(receipt);
        }
        Ok(format!("{:?}\n", self.outbox()?.put(message)))
    }

    fn next(&mut self, numbers: &Numbers) -> Answer {
        self.now += numbers.get("after_ms", 0) * 1_000_000;
        let now = self.now;
        // Repeated lines are printed once, with their number.
        let mut lines: Vec<(String, usize)> = Vec::new();
        for _ in 0..numbers.get("times", 1) {
            let line = next_line(self.outbox()?.next(now));
            match lines.last_mut() {
                Some((last, times)) if *last == line => *times += 1,
                _ => lines.push((line, 1)),
            }
        }
        let mut output = String::new();
        for (line, times) in lines {
            match times {
                1 => writeln!(output, "{line}")?,
                _ => writeln!(output, "{line} ({times} times)")?,
            }
        }
        Ok(output)
    }

    fn take_back(&mut self, numbers: &Numbers) -> Answer {
        let receipt = self.receipts.get(&(numbers.get("receipt", 0) as u32));
        let receipt = receipt.ok_or("no such receipt")?;
        Ok(if receipt.revoke() { "not sent\n" } else { "it left already\n" }.into())
    }

    fn close(&mut self) -> Answer {
        self.outbox()?.close();
        Ok(String::new())
    }
}
