//! Model test: random appends, commits, collapses, closes and reopenings of a log, compared with a
//! `Vec`.

use super::*;
use crate::disk::FileDisk;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Append(usize),
    Commit(bool),
    MarkDurable,
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
        1 => Just(Act::MarkDurable),
        2 => collapse,
        1 => Just(Act::Reopen),
        1 => Just(Act::Close),
    ];
    proptest::collection::vec(act, 1..120)
}

/// The log and its expected records, each with the position behind it.
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
            Act::MarkDurable => self.log().mark_durable().expect("settles"),
            Act::Collapse(back) => {
                let needed =
                    self.records.iter().rev().nth(back).map_or(Position(0), |entry| entry.0);
                let before = self.log().segments();
                let freed = self.log().collapse(needed).expect("collapses");
                assert_eq!(self.log().segments() + freed, before);
                let start = self.log().start();
                let removed = self.records.iter().take_while(|entry| entry.0 < start).count();
                let removed = self.records.drain(..removed);
                assert!(removed.into_iter().all(|entry| entry.0 < needed), "what is needed stays");
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
        assert!(!recovered.unclean_shutdown || unclean);
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
    fn log_matches_a_list_model(acts in acts(), segment_bytes in segments()) {
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
    fn log_on_a_real_disk_with_its_thread_matches_a_list_model(acts in acts()) {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = FileDisk::open(directory.path()).expect("opens");
        let spare_worker = SpareWorker::Thread;
        let settings = LogSettings { segment_bytes: 40_960, log_id: 9, spare_worker };
        let mut model = Model::new(Arc::new(disk), settings);
        for act in &acts {
            model.act(act);
        }
        model.act(&Act::Close);
    }
}
