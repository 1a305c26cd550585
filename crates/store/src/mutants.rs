//! Ways in which the store could be wrong, for tests that must notice them.

base::mutants! {
    /// A rule of the store that tests break.
    pub enum StoreMutant {
        /// A sync of the log reports success and syncs nothing.
        SkipSyncs,
        /// A frame of the log is accepted without a check of its checksum.
        AcceptInvalidFrames,
        /// Range reads walk over known dead spans instead of jumping over them.
        IgnoreDeadSpans,
        /// Point reads read each table whose keys reach over theirs, whatever its filter says.
        IgnoreFilters,
    }
}
