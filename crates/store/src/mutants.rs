//! Ways in which the store could be wrong, for tests that must notice them.

base::mutants! {
    /// A rule of the store that tests break.
    pub enum StoreMutant {
        /// A sync of the log answers, and nothing is synced.
        SyncsNothing,
        /// A frame of the log is taken as it is, whatever its checksum says.
        BelievesFrames,
        /// Range reads walk over stretches of which they know that no row is left there.
        WalksOverDeadSpans,
    }
}
