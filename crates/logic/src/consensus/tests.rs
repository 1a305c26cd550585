//! Stories, laws and examples of consensus.

/// Declares a test for each named story, played on the `Stage` of the calling module.
macro_rules! stories {
    ($($name:ident),* $(,)?) => { $(
        #[test]
        fn $name() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/consensus/stories/");
            let path = format!("{folder}{}.txt", stringify!($name));
            goldenscript::run(&mut Stage::default(), path).expect("the story is played to its end");
        }
    )* };
}

mod cluster;
mod examples;
mod group;
mod holes;
mod hostile;
mod laws;
mod leases;
mod machine;
mod model;
mod stories;
mod tears;
mod twin;
mod wire;
