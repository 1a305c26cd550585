//! Named mixes of operations.
//!
//! The mixes of TPC-W are its shares of web interactions (clause 5.2.1 of its specification,
//! version 1.8), in hundredths of a percent. Each interaction becomes an operation on a key:
//! browsing is a get; a shopping cart, a purchase and an administrator's change read a row and
//! write it again, an update; the registration of a customer writes a row without a read, a put.

use super::run::{Operation, Weighted};

/// The names.
pub const NAMES: [&str; 3] = ["tpcw_browsing", "tpcw_shopping", "tpcw_ordering"];

/// Shares of one interaction in the browsing, the shopping and the ordering mix.
type Interaction = (&'static str, Operation, [u64; 3]);

const TPC_W: [Interaction; 14] = [
    ("home", Operation::Get, [2900, 1600, 912]),
    ("new products", Operation::Get, [1100, 500, 46]),
    ("best sellers", Operation::Get, [1100, 500, 46]),
    ("product detail", Operation::Get, [2100, 1700, 1235]),
    ("search request", Operation::Get, [1200, 2000, 1453]),
    ("search results", Operation::Get, [1100, 1700, 1308]),
    ("shopping cart", Operation::Update, [200, 1160, 1353]),
    ("customer registration", Operation::Put, [82, 300, 1286]),
    ("buy request", Operation::Update, [75, 260, 1273]),
    ("buy confirm", Operation::Update, [69, 120, 1018]),
    ("order inquiry", Operation::Get, [30, 75, 25]),
    ("order display", Operation::Get, [25, 66, 22]),
    ("admin request", Operation::Get, [10, 10, 12]),
    ("admin confirm", Operation::Update, [9, 9, 11]),
];

/// Returns the operations of a mix. `None`: no such mix.
pub fn named(name: &str) -> Option<Vec<Weighted>> {
    let mix = NAMES.iter().position(|mix_name| *mix_name == name)?;
    let share = |operation: Operation| {
        let weight_of =
            |(_, mapped, shares): &Interaction| if *mapped == operation { shares[mix] } else { 0 };
        let weight = TPC_W.iter().map(weight_of).sum();
        Weighted { label: operation.name().into(), operation, weight }
    };
    Some([Operation::Get, Operation::Put, Operation::Update].map(share).into())
}
