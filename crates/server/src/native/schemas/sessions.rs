//! Schemas of sessions.

use super::object;
use serde_json::{Map, Value, json};

/// Adds the answer to opening a session.
pub fn all(schemas: &mut Map<String, Value>) {
    schemas.insert("Session".into(), object(json!({ "session": id() })));
}

/// Returns the schema of a session's id: the decimal digits of 64 bits. It is text, because many
/// programs round numbers of more than 53 bits.
pub fn id() -> Value {
    json!({ "type": "string", "pattern": pattern(), "examples": ["12077340203563245581"] })
}

/// Returns a pattern that matches exactly the numbers up to `u64::MAX`: those with fewer digits
/// than the maximum, and those with as many whose first differing digit is smaller.
fn pattern() -> String {
    let largest = u64::MAX.to_string();
    let mut choices = vec![format!("[0-9]{{1,{}}}", largest.len() - 1)];
    for (position, digit) in
        largest.bytes().enumerate().filter(|(position, digit)| *position > 0 && *digit > b'0')
    {
        let (same, rest) = (&largest[..position], largest.len() - position - 1);
        choices.push(format!("{same}[0-{}][0-9]{{{rest}}}", digit - b'1'));
    }
    format!("^({}|{largest})$", choices.join("|"))
}

#[cfg(test)]
mod tests {
    use super::pattern;
    use proptest::prelude::*;

    fn digits() -> impl Strategy<Value = String> {
        let pattern = pattern();
        let pattern_body = pattern.trim_start_matches('^').trim_end_matches('$');
        proptest::string::string_regex(pattern_body).expect("it is a pattern")
    }

    proptest! {
        #[test]
        fn session_id_pattern_matches_only_64_bit_numbers(digits in digits()) {
            prop_assert!(digits.parse::<u64>().is_ok(), "{}", digits);
        }
    }
}
