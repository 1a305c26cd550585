//! Tasks of an index: what its group has to do, by the directory's row and the group's own record.

use super::reports::{failure_cause, progress_of};
use base::index::{IndexDescription, IndexState, ReportedState};
use indexes::{DefinitionSet, IndexDefinition, IndexNumber};
use replica_state::replicated_index::{IndexPhase, ReplicatedIndex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Task of the master of a group for an index of one of its buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IndexTask {
    /// Begin the index.
    Begin(IndexDefinition),
    /// End the index: its entries are removed from then on.
    End(IndexNumber),
    /// Take the next step of building or removing the index.
    Step(IndexNumber),
    /// Report this state to the directory.
    Report(IndexNumber, ReportedState),
    /// Report that the index is gone, once no record of it is under way.
    ConfirmRemoval(IndexNumber),
}

impl IndexTask {
    /// Returns true if a directory that is out of date could order it wrongly.
    pub(super) fn needs_current_directory(&self) -> bool {
        matches!(self, IndexTask::Begin(_) | IndexTask::End(_) | IndexTask::ConfirmRemoval(_))
    }
}

/// Indexes of a bucket by the directory, and by its group.
pub(super) struct BucketState<'a> {
    /// Descriptions of all indexes.
    pub declared: Vec<IndexDescription>,
    /// Definitions of those in force.
    pub definitions: &'a DefinitionSet,
    /// Applied records.
    pub records: Vec<Arc<ReplicatedIndex>>,
    /// Number of records of the bucket. `None`: it keeps no count.
    pub rows_total: Option<u64>,
}

impl BucketState<'_> {
    /// Returns the tasks for the bucket. `is_dropped` says of a number without a row whether its
    /// index was dropped: the directory here may be older than the record.
    pub(super) fn tasks(&self, is_dropped: impl Fn(IndexNumber) -> bool) -> Vec<IndexTask> {
        let mut records: BTreeMap<_, _> =
            self.records.iter().map(|record| (record.definition.number, record)).collect();
        let mut tasks = Vec::new();
        for index in &self.declared {
            let number = IndexNumber(index.number);
            match records.remove(&number) {
                Some(record) => self.add_known(number, &index.state, record, &mut tasks),
                None if index.state == IndexState::Dropping => {
                    tasks.push(IndexTask::ConfirmRemoval(number));
                }
                // One that failed has no definition in force: it is not begun again.
                None => tasks.extend(self.definitions.get(number).cloned().map(IndexTask::Begin)),
            }
        }
        for (number, record) in records {
            match record.phase {
                IndexPhase::Dropping => tasks.push(IndexTask::Step(number)),
                _ if is_dropped(number) => tasks.push(IndexTask::End(number)),
                _ => {}
            }
        }
        tasks
    }

    fn add_known(
        &self,
        number: IndexNumber,
        state: &IndexState,
        record: &ReplicatedIndex,
        tasks: &mut Vec<IndexTask>,
    ) {
        let reported = match (state, record.phase) {
            (_, IndexPhase::Dropping) => return tasks.push(IndexTask::Step(number)),
            (IndexState::Dropping, _) => return tasks.push(IndexTask::End(number)),
            (IndexState::Ready, IndexPhase::Ready)
            | (IndexState::Failed(_), IndexPhase::Failed) => return,
            (_, IndexPhase::Ready) => ReportedState::Complete(record.rows),
            (_, IndexPhase::Failed) => ReportedState::Failed(failure_cause(record)),
            (state, IndexPhase::Building) => {
                tasks.push(IndexTask::Step(number));
                let progress = progress_of(record.rows, self.rows_total);
                if *state == IndexState::Building(progress) {
                    return;
                }
                ReportedState::Building(progress)
            }
        };
        tasks.push(IndexTask::Report(number, reported));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::index_definition;
    use base::index::{BuildProgress, IndexSpec};

    const NUMBER: IndexNumber = IndexNumber(3);

    fn record(phase: IndexPhase) -> Arc<ReplicatedIndex> {
        let record = ReplicatedIndex::new(index_definition(NUMBER.0), phase);
        Arc::new(ReplicatedIndex { rows: 7, ..record })
    }

    fn tasks(state: Option<IndexState>, phase: Option<IndexPhase>) -> Vec<IndexTask> {
        let mut definitions = DefinitionSet::default();
        if matches!(state, Some(IndexState::Building(_) | IndexState::Ready)) {
            definitions.insert(index_definition(NUMBER.0)).expect("it is the only one");
        }
        let describe =
            |state| IndexDescription { number: NUMBER.0, spec: IndexSpec::default(), state };
        let of = BucketState {
            declared: state.map(describe).into_iter().collect(),
            definitions: &definitions,
            records: phase.map(record).into_iter().collect(),
            rows_total: Some(9),
        };
        of.tasks(|_| true)
    }

    #[test]
    fn index_has_the_tasks_that_bring_its_group_and_the_directory_together() {
        use IndexTask::{Begin, ConfirmRemoval, End, Report, Step};
        let building = |done| IndexState::Building(BuildProgress { done, total: 9 });
        let failed = || IndexState::Failed("two keys".into());
        let begin = || vec![Begin(index_definition(NUMBER.0))];
        let report = |state| Report(NUMBER, state);
        let progress = ReportedState::Building(BuildProgress { done: 7, total: 9 });
        for (state, phase, expected) in [
            (Some(building(0)), None, begin()),
            (Some(IndexState::Ready), None, begin()),
            (Some(failed()), None, vec![]),
            (Some(IndexState::Dropping), None, vec![ConfirmRemoval(NUMBER)]),
            (
                Some(building(0)),
                Some(IndexPhase::Building),
                vec![Step(NUMBER), report(progress.clone())],
            ),
            (Some(building(7)), Some(IndexPhase::Building), vec![Step(NUMBER)]),
            (
                Some(IndexState::Ready),
                Some(IndexPhase::Building),
                vec![Step(NUMBER), report(progress)],
            ),
            (Some(building(7)), Some(IndexPhase::Ready), vec![report(ReportedState::Complete(7))]),
            (Some(IndexState::Ready), Some(IndexPhase::Ready), vec![]),
            (Some(failed()), Some(IndexPhase::Failed), vec![]),
            (Some(IndexState::Dropping), Some(IndexPhase::Building), vec![End(NUMBER)]),
            (Some(IndexState::Dropping), Some(IndexPhase::Ready), vec![End(NUMBER)]),
            (Some(IndexState::Dropping), Some(IndexPhase::Failed), vec![End(NUMBER)]),
            (Some(IndexState::Dropping), Some(IndexPhase::Dropping), vec![Step(NUMBER)]),
            (None, Some(IndexPhase::Ready), vec![End(NUMBER)]),
            (None, Some(IndexPhase::Dropping), vec![Step(NUMBER)]),
        ] {
            assert_eq!(tasks(state.clone(), phase), expected, "{state:?}, {phase:?}");
        }
    }

    #[test]
    fn record_that_the_directory_has_not_met_is_left_alone() {
        let definitions = DefinitionSet::default();
        let records = vec![record(IndexPhase::Building)];
        let of = BucketState {
            declared: Vec::new(),
            definitions: &definitions,
            records,
            rows_total: None,
        };
        assert_eq!(of.tasks(|_| false), []);
    }
}
