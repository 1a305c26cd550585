//! Suggestions for unknown names: the nearest known one.

/// Returns the nearest of these names, if at most a third of the characters (and at least one)
/// differ.
pub fn nearest<'n>(unknown: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let distance_max = (unknown.chars().count() / 3).max(1);
    let distances =
        names.into_iter().map(|name| (strsim::damerau_levenshtein(unknown, name), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (1..=distance_max).contains(&distance).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_suggested_only_within_edit_limit() {
        let names = ["default/users", "default/orders"];
        assert_eq!(nearest("default/usres", names), Some("default/users"));
        assert_eq!(nearest("LISTN", ["LISTEN", "JOIN"]), Some("LISTEN"));
        assert_eq!(nearest("cat", ["dog", "horse"]), None);
        assert_eq!(nearest("", ["a"]), Some("a"));
        assert_eq!(nearest("x", []), None);
        // An exact match gets no suggestion.
        assert_eq!(nearest("dog", ["dog"]), None);
    }
}
