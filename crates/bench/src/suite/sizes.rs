//! Sizes of a soak: one entry of the suite's file becomes a soak for each of its sizes.
//!
//! `sizes = [1, 4]` makes two soaks, of one and of four million rows. `{millions}` in a text
//! becomes the size, the text `{rows}` alone becomes the number of rows, as a number. A bound with
//! `sizes = [4]` holds for that size alone.

use load_generator::config::{Item, Items, TomlValue};

/// Rows of one unit of a size.
const ROWS: u64 = 1_000_000;
/// Largest size.
const SIZE_MAX: u64 = 10_000;

/// Returns the soaks of an entry, each with its size in millions of rows; an entry without `sizes`
/// is one soak without a size. `wanted`: the sizes of the command line; empty: the entry's, or in a
/// quick run its first.
pub fn expand_sizes(
    item: &Item,
    wanted: &[u64],
    quick: bool,
) -> Result<Vec<(Item, Option<u64>)>, String> {
    let mut items = item.table()?;
    let Some(sizes) = items.take("sizes") else { return Ok(vec![(item.clone(), None)]) };
    let mut sizes = sizes_of(&sizes)?;
    match wanted {
        [] if quick => sizes.truncate(1),
        [] => {}
        wanted => sizes = wanted.to_vec(),
    }
    let bounds = items.take("bounds");
    let soak = |size: u64| -> Result<_, String> {
        let mut items = items.clone();
        if let Some(bounds) = &bounds {
            items.set("bounds", bounds_of(bounds, size)?);
        }
        items.each_value(&mut |value| substitute(value, size));
        Ok((item.with_value(TomlValue::Table(items.rest())), Some(size)))
    };
    sizes.into_iter().map(soak).collect()
}

fn sizes_of(item: &Item) -> Result<Vec<u64>, String> {
    item.list()?.iter().map(|item| item.integer(1, SIZE_MAX)).collect()
}

/// Returns the bounds that hold for a size, without their own sizes.
fn bounds_of(list: &Item, size: u64) -> Result<Item, String> {
    let mut bounds = Vec::new();
    for bound in list.list()? {
        let mut items: Items = bound.table()?;
        let sizes = items.read("sizes", vec![size], sizes_of)?;
        if sizes.contains(&size) {
            bounds.push(bound.with_value(TomlValue::Table(items.rest())));
        }
    }
    Ok(list.with_value(TomlValue::List(bounds)))
}

fn substitute(value: &mut TomlValue, size: u64) {
    let TomlValue::Text(text) = value else { return };
    if text == "{rows}" {
        *value = TomlValue::Integer((size * ROWS) as i64);
    } else {
        let rows = (size * ROWS).to_string();
        *text = text.replace("{rows}", &rows).replace("{millions}", &size.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        sizes = [1, 4, 16]
        name = "{millions} million"
        bounds = [
          { figure = "rate", at_least = 9.0, sizes = [4] }, { figure = "max", at_most = 1.0 },
        ]
        load = [{ keys = ["uniform_int", "{rows}"], command = "--num={rows}" }]
    "#;

    fn item(text: &str) -> Item {
        let items = Items::parse("a.toml", text).expect("whole");
        Item::new("a.toml".into(), 1, TomlValue::Table(items.rest()))
    }

    fn names(wanted: &[u64], quick: bool) -> Vec<String> {
        let soaks = expand_sizes(&item(TEXT), wanted, quick).expect("whole");
        let name = |item: &Item| {
            let mut items = item.table().expect("a table");
            items.need("a soak", "name", |item| item.text().map(String::from)).expect("a name")
        };
        soaks.iter().map(|(item, size)| format!("{} {size:?}", name(item))).collect()
    }

    #[test]
    fn entry_with_sizes_becomes_a_soak_for_each() {
        assert_eq!(names(&[], false).len(), 3);
        assert_eq!(names(&[], true), ["1 million Some(1)"]);
        assert_eq!(names(&[4, 7], true), ["4 million Some(4)", "7 million Some(7)"]);
        let plain = expand_sizes(&item("name = 'a'"), &[4], false).expect("whole");
        assert_eq!(plain.len(), 1);
        assert!(expand_sizes(&item("sizes = ['many']"), &[], false).is_err());
    }

    #[test]
    fn rows_become_a_number_and_bounds_of_other_sizes_are_left_out() {
        let text = |size: u64| {
            let soaks = expand_sizes(&item(TEXT), &[size], false).expect("whole");
            soaks[0].0.table().expect("a table").text()
        };
        let four = text(4);
        assert!(four.contains("[\"uniform_int\", 4000000]"), "{four}");
        assert!(four.contains("--num=4000000") && four.contains("\"rate\""), "{four}");
        assert!(!four.contains("sizes"), "{four}");
        assert!(!text(1).contains("\"rate\"") && text(1).contains("\"max\""));
    }
}
