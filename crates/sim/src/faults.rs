//! Schedule of faults: one after the other, until the trouble ends.

use crate::chance::Chance;
use crate::journal::Journal;
use crate::scheduler::Scheduler;
use std::rc::Rc;

/// When faults come. Times are microseconds, the least and the most.
pub struct FaultSchedule {
    /// The first comes so late.
    pub first_us: u64,
    /// How long a fault lasts.
    pub length_us: (u64, u64),
    /// From one fault to the next.
    pub pause_us: (u64, u64),
    /// How many kinds of faults there are.
    pub kinds: u64,
}

/// A simulation in which things go wrong.
pub trait FaultTarget {
    /// Returns true until the trouble ends.
    fn is_troubled(&self) -> bool;
    /// Draws the node that is hit.
    fn victim(&self) -> usize;
    /// Has a fault of this kind happen to a node, for so long. Returns its name.
    fn inject(self: &Rc<Self>, kind: u64, node: usize, time_us: u64) -> &'static str;
    /// Returns where faults are counted.
    fn journal(&self) -> &Journal;
}

impl FaultSchedule {
    /// Has faults happen until the trouble ends.
    pub async fn run<T: FaultTarget>(self, target: Rc<T>) {
        let scheduler = Scheduler::current();
        let between =
            |(low, high): (u64, u64)| move |chance: &mut Chance| chance.between(low, high);
        scheduler.sleep_us(self.first_us).await;
        while target.is_troubled() {
            let node = target.victim();
            let time = scheduler.draw(between(self.length_us));
            let kind = scheduler.draw(|chance| chance.below(self.kinds));
            let name = target.inject(kind, node, time);
            let told = || format!("fault: {name} {node} for {time} us");
            target.journal().tell(scheduler.now(), told);
            target.journal().count(name);
            scheduler.sleep_us(scheduler.draw(between(self.pause_us))).await;
        }
    }
}
