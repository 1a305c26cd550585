//! Faults of a soak: their names, and the rules for combining two of them.

/// Kind of fault of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    KillMaster,
    KillFollower,
    KillMajority,
    KillAll,
    PauseMaster,
    PauseFollowers,
    IsolateMaster,
    CutOffMinority,
    OneWayCut,
    FlappingCables,
    LossyCables,
    WrongClock,
    HungDiskOfMaster,
    HungDiskOfFollower,
    FullDisk,
    PowerCutOfOne,
    PowerCutOfAll,
    Restart,
    WipedMember,
    MembersWhileDown,
    BucketMove,
    MastershipMove,
    Hostile,
}

use Fault::*;

/// All faults.
pub const ALL: [Fault; 23] = [
    KillMaster,
    KillFollower,
    KillMajority,
    KillAll,
    PauseMaster,
    PauseFollowers,
    IsolateMaster,
    CutOffMinority,
    OneWayCut,
    FlappingCables,
    LossyCables,
    WrongClock,
    HungDiskOfMaster,
    HungDiskOfFollower,
    FullDisk,
    PowerCutOfOne,
    PowerCutOfAll,
    Restart,
    WipedMember,
    MembersWhileDown,
    BucketMove,
    MastershipMove,
    Hostile,
];

impl Fault {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            KillMaster => "kill of the master",
            KillFollower => "kill of a follower",
            KillMajority => "kill of a majority",
            KillAll => "kill of all",
            PauseMaster => "pause of the master",
            PauseFollowers => "pause of followers",
            IsolateMaster => "isolation of the master",
            CutOffMinority => "cut between majority and minority",
            OneWayCut => "one-way cut",
            FlappingCables => "flapping cables",
            LossyCables => "lossy cables",
            WrongClock => "wrong clock",
            HungDiskOfMaster => "hung disk of the master",
            HungDiskOfFollower => "hung disk of a follower",
            FullDisk => "full disk",
            PowerCutOfOne => "power cut of one",
            PowerCutOfAll => "power cut of all",
            Restart => "restart",
            WipedMember => "wiped member",
            MembersWhileDown => "change of members while one is down",
            BucketMove => "move of a bucket",
            MastershipMove => "move of mastership",
            Hostile => "hostile requests",
        }
    }

    /// Returns true if it is short enough for the short form.
    pub fn is_quick(self) -> bool {
        !matches!(self, FullDisk | WipedMember | PowerCutOfAll | KillAll)
    }

    /// Returns true if it is several faults in succession: a flapping link is cut again each time,
    /// and each hostile request that writes megabytes delays all values after it in the log.
    pub fn is_repeated(self) -> bool {
        matches!(self, FlappingCables | Hostile)
    }

    /// Returns true if it stops no node.
    fn stops_no_node(self) -> bool {
        matches!(self, LossyCables | WrongClock | BucketMove | MastershipMove | Hostile)
    }

    /// Returns true if nothing can be decided while it lasts.
    pub fn stops_majority(self) -> bool {
        matches!(self, KillMajority | KillAll | PowerCutOfAll)
    }

    /// Returns true if both can be active at the same time while a majority stays healthy.
    pub fn may_run_beside(self, first: Fault) -> bool {
        // All links are healed when the first of two such faults ends.
        let link_faults = [IsolateMaster, CutOffMinority, OneWayCut, FlappingCables, LossyCables];
        let both_links = link_faults.contains(&self) && link_faults.contains(&first);
        // Groups do not move while their members change.
        let conflicts_with_placement = [self, first].contains(&BucketMove)
            && [WipedMember, MembersWhileDown].iter().any(|fault| [self, first].contains(fault));
        // Hostile requests need a node that receives them.
        let lacks_receiver = self == Hostile && [KillAll, PowerCutOfAll].contains(&first);
        self.stops_no_node()
            && self != first
            && !both_links
            && !conflicts_with_placement
            && !lacks_receiver
    }
}
