//! Properties of buckets in the help of commands.

use base::Consistency;
use base::properties::{PROPERTIES, Property, PropertyShape};

/// Properties that are fixed by the type: no bucket can be created with others.
const TYPE_ONLY: [&str; 3] = ["datatype", "hll_precision", "write_once"];

/// Lists all properties that a type can have, with their values.
pub fn type_properties_help() -> String {
    list_properties(|_| true)
}

/// Lists all properties that a bucket can be created with, with their values.
pub fn bucket_properties_help() -> String {
    list_properties(|property| !TYPE_ONLY.contains(&property.name))
}

fn list_properties(is_shown: impl Fn(&Property) -> bool) -> String {
    let mut text = String::from("Properties of all buckets:\n");
    for property in
        PROPERTIES.iter().filter(|property| property.consistency.is_none() && is_shown(property))
    {
        text.push_str(&describe_property(property));
    }
    for consistency in [Consistency::Consistent, Consistency::Available] {
        let mode = match consistency {
            Consistency::Consistent => "consistent",
            Consistency::Available => "available",
        };
        text.push_str(&format!("\nProperties of {mode} buckets:\n"));
        let has = |property: &&Property| property.consistency == Some(consistency);
        for property in PROPERTIES.iter().filter(has).filter(|property| is_shown(property)) {
            text.push_str(&describe_property(property));
        }
    }
    text
}

fn describe_property(property: &Property) -> String {
    let values = match property.shape {
        PropertyShape::Word(names) => names.join("|"),
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
    fn property_help_lists_every_property_with_its_values() {
        let text = type_properties_help();
        for property in &PROPERTIES {
            assert_eq!(text.matches(&format!("\n  {}=", property.name)).count(), 1);
        }
        assert!(text.contains("  datatype=none|counter|set|gset|map|hll\n"), "{text}");
        let text = bucket_properties_help();
        assert!(
            text.contains("Properties of consistent buckets:\n  counted=true|false\n"),
            "{text}"
        );
        assert!(text.contains("  sync=sync|interval\n") && !text.contains("datatype="), "{text}");
    }
}
