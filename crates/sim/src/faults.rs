//! Schedule of faults: one after another, until the target reports the end of the faults.

use crate::chance::Chance;
use crate::journal::Journal;
use crate::scheduler::Scheduler;
use std::rc::Rc;

/// Schedule of faults. Times are in microseconds; pairs are a minimum and a maximum.
pub struct FaultSchedule {
    /// Time before the first fault.
    pub first_us: u64,
    /// Length of a fault.
    pub length_us: (u64, u64),
    /// Pause between the start of one fault and the start of the next.
    pub pause_us: (u64, u64),
    /// Number of kinds of faults.
    pub kinds: u64,
}

/// Simulation into which faults are injected.
pub trait FaultTarget {
    /// Returns true while faults may still be injected.
    fn injects_faults(&self) -> bool;
    /// Draws the node that the next fault hits.
    fn victim(&self) -> usize;
    /// Injects a fault of this kind into a node for `time_us` microseconds. Returns the fault's
    /// name.
    fn inject(self: &Rc<Self>, kind: u64, node: usize, time_us: u64) -> &'static str;
    /// Returns the journal in which faults are counted.
    fn journal(&self) -> &Journal;
}

impl FaultSchedule {
    /// Injects faults until the target injects no more faults.
    pub async fn run<T: FaultTarget>(self, target: Rc<T>) {
        let scheduler = Scheduler::current();
        let between =
            |(low, high): (u64, u64)| move |chance: &mut Chance| chance.between(low, high);
        scheduler.sleep_us(self.first_us).await;
        while target.injects_faults() {
            let node = target.victim();
            let time = scheduler.draw(between(self.length_us));
            let kind = scheduler.draw(|chance| chance.below(self.kinds));
            let name = target.inject(kind, node, time);
            let text = || format!("fault: {name} {node} for {time} us");
            target.journal().trace(scheduler.now(), text);
            target.journal().count(name);
            scheduler.sleep_us(scheduler.draw(between(self.pause_us))).await;
        }
    }
}
