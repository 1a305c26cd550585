//! A log equals a list: random appends, commits, collapses, closes and reopenings against a `Vec`.

use super::*;
use crate::disk::FileDisk;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Append(usize),
    Commit(bool),
    Settle,
    Collapse(usize),
    Reopen,
    Close,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let small = (0_usize..300).prop_map(Act::Append);
    let large = (0_usize..100_000).prop_map(Act::Append);
    let collapse = (0_usize..200).prop_map(Act::Collapse);
    let act = prop_oneof![
        12 => small,
        3 => large,
        5 => any::<bool>().prop_map(Act::Commit),
        1 => Just(Act::Settle),
        2 => collapse,
        1 => Just(Act::Reopen),
        1 => Just(Act::Close),
    ];
    proptest::collection::vec(act, 1..120)
}

/// The log and what it should hold: each record with the position behind it.
struct Model {
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    log: Option<Log>,
    records: Vec<(Position, OwnedRecord)>,
    next: u64,
}

impl Model {
    fn new(disk: Arc<dyn Disk>, settings: LogSettings) -> Model {
        let (log, _) = Log::open(disk.clone(), settings).expect("begins");
        Model { disk, settings, log: Some(log), records: Vec::new(), next: 1 }
    }

    fn log(&mut self) -> &mut Log {
        self.log.as_mut().expect("open between acts")
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Append(bytes) => {
                let record = record(self.next, bytes);
                self.next += 1;
                let position = self.log().append(&record.as_record()).expect("appends");
                assert_eq!(position, self.log().end());
                self.records.push((position, record));
            }
            Act::Commit(sync) => {
                let durable = self.log().commit(sync).expect("commits");
                assert!(durable <= self.log().end());
                assert!(!sync || durable == self.log().end());
            }
            Act::Settle => self.log().settle().expect("settles"),
            Act::Collapse(back) => {
                let needed = self.records.iter().rev().nth(back).map_or(Position(0), |it| it.0);
                let before = self.log().segments();
                let freed = self.log().collapse(needed).expect("collapses");
                assert_eq!(self.log().segments() + freed, before);
                let start = self.log().start();
                let gone = self.records.iter().take_while(|it| it.0 < start).count();
                let gone = self.records.drain(..gone);
                assert!(gone.into_iter().all(|it| it.0 < needed), "what is needed stays");
            }
            Act::Reopen => {
                self.log().commit(false).expect("commits");
                self.reopen(true);
            }
            Act::Close => {
                self.log.take().expect("open").close().expect("closes");
                self.reopen(false);
            }
        }
    }

    fn reopen(&mut self, unclean: bool) {
        self.log = None;
        let (log, mut replay) = Log::open(self.disk.clone(), self.settings).expect("opens");
        let found: Vec<_> = replay.by_ref().map(|step| step.expect("sound")).collect();
        assert_eq!(found, self.records);
        let recovered = replay.finish().expect("sound");
        assert_eq!(recovered.torn_bytes, 0);
        assert!(!recovered.unclean || unclean);
        assert_eq!(log.durable(), log.end());
        self.log = Some(log);
        let report = verify(&*self.disk, &mut |_| {}).expect("reads");
        assert!(report.is_sound(), "{report:?}");
        assert_eq!(report.records, self.records.len() as u64);
        assert_eq!(report.bytes, self.log().bytes());
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

fn segments() -> impl Strategy<Value = u64> {
    prop_oneof![Just(SEGMENT_BYTES_MIN), Just(16_384), Just(131_072)]
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_log_equals_a_list(acts in acts(), segment_bytes in segments()) {
        let settings = LogSettings { segment_bytes, ..SMALL };
        let mut model = Model::new(Arc::new(memory()), settings);
        for act in &acts {
            model.act(act);
        }
        model.act(&Act::Reopen);
    }
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn so_it_does_on_a_real_disk_with_its_thread(acts in acts()) {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = FileDisk::open(directory.path()).expect("opens");
        let settings = LogSettings { segment_bytes: 40_960, id: 9, ahead: Ahead::Thread };
        let mut model = Model::new(Arc::new(disk), settings);
        for act in &acts {
            model.act(act);
        }
        model.act(&Act::Close);
    }
}
