//! Properties of buckets in the help of commands.

use base::Consistency;
use base::properties::{PROPERTIES, Property, PropertyShape};

/// Properties that are fixed by the type: no bucket can be created with others.
const OF_TYPES: [&str; 3] = ["datatype", "hll_precision", "write_once"];

/// Lists all properties that a type can have, with their values.
pub fn of_types() -> String {
    listed(|_| true)
}

/// Lists all properties that a bucket can be created with, with their values.
pub fn of_buckets() -> String {
    listed(|property| !OF_TYPES.contains(&property.name))
}

fn listed(is_shown: impl Fn(&Property) -> bool) -> String {
    let mut text = String::from("Properties of all buckets:\n");
    for property in PROPERTIES.iter().filter(|it| it.of.is_none() && is_shown(it)) {
        text.push_str(&shown(property));
    }
    text.push_str("\nProperties of available buckets:\n");
    for property in PROPERTIES.iter().filter(|it| it.of == Some(Consistency::Available)) {
        if is_shown(property) {
            text.push_str(&shown(property));
        }
    }
    text
}

fn shown(property: &Property) -> String {
    let values = match property.shape {
        PropertyShape::Word(words) => words.join("|"),
        PropertyShape::Number(least, most) => format!("{least}..{most}"),
        PropertyShape::Quorum => "one|quorum|all|NUMBER".into(),
        PropertyShape::Flag => "true|false".into(),
    };
    format!("  {}={values}\n      {}\n", property.name, property.doc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_is_listed_with_its_values() {
        let text = of_types();
        for property in &PROPERTIES {
            assert_eq!(text.matches(&format!("\n  {}=", property.name)).count(), 1);
        }
        assert!(text.contains("  datatype=none|counter|set|gset|map|hll\n"), "{text}");
        let text = of_buckets();
        assert!(text.contains("  sync=sync|interval\n") && !text.contains("datatype="), "{text}");
    }
}
