//! Suggestions for unknown names: the nearest known one.

/// Returns the nearest of these names, if it is near enough to be meant: at most a third of the
/// characters, and one in any case, may differ.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = (word.chars().count() / 3).max(1);
    let distances = names.into_iter().map(|name| (strsim::damerau_levenshtein(word, name), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (1..=most).contains(&distance).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_near_where_few_letters_differ() {
        let names = ["default/users", "default/orders"];
        assert_eq!(nearest("default/usres", names), Some("default/users"));
        assert_eq!(nearest("LISTN", ["LISTEN", "JOIN"]), Some("LISTEN"));
        assert_eq!(nearest("cat", ["dog", "horse"]), None);
        assert_eq!(nearest("", ["a"]), Some("a"));
        assert_eq!(nearest("x", []), None);
        // What is known needs no other.
        assert_eq!(nearest("dog", ["dog"]), None);
    }
}
