//! Parser of `.ini` files as Arakoon reads them: sections in brackets, `key = value` lines,
//! comments.

/// Section of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IniSection {
    /// The section's name.
    pub name: String,
    /// Number of the line it begins at.
    pub line: usize,
    /// The section's keys, in order.
    pub keys: Vec<IniKey>,
}

/// Key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IniKey {
    /// The key's name.
    pub name: String,
    /// The value, without surrounding blanks.
    pub value: String,
    /// Number of the key's line.
    pub line: usize,
}

/// Error in a file: the line number and the text.
pub type IniError = (usize, String);

impl IniSection {
    /// Returns the key of this name.
    pub fn find(&self, name: &str) -> Option<&IniKey> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// Parses a file. Fails on a repeated section or key, on a key outside a section, and on a line
/// that is neither, because their meaning would be uncertain.
pub fn parse(text: &str) -> Result<Vec<IniSection>, IniError> {
    let mut sections: Vec<IniSection> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| (number, format!("`{line}` is no section")))?;
            if sections.iter().any(|section| section.name == name) {
                return Err((number, format!("the section [{name}] stands twice")));
            }
            sections.push(IniSection { name: name.into(), line: number, keys: Vec::new() });
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return Err((number, format!("`{line}` is neither a section nor `key = value`")));
        };
        let (name, value) = (name.trim().to_string(), value.trim().to_string());
        let Some(section) = sections.last_mut() else {
            return Err((number, format!("`{name}` stands before the first section")));
        };
        if section.find(&name).is_some() {
            return Err((number, format!("`{name}` stands twice in [{}]", section.name)));
        }
        section.keys.push(IniKey { name, value, line: number });
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_keys_and_comments_are_parsed() {
        let text = "# a remark\n[ global ]\ncluster = a, b\n; another\n\n[a]\nip=::1\nhome =\n";
        let sections = parse(text).expect("well formed");
        let names: Vec<_> = sections.iter().map(|s| (s.name.as_str(), s.line)).collect();
        assert_eq!(names, [("global", 2), ("a", 6)]);
        assert_eq!(sections[0].find("cluster").map(|key| key.value.as_str()), Some("a, b"));
        let key = |name: &str| sections[1].find(name).map(|key| (key.value.as_str(), key.line));
        assert_eq!((key("ip"), key("home"), key("none")), (Some(("::1", 7)), Some(("", 8)), None));
    }

    #[test]
    fn malformed_or_duplicate_line_is_reported_by_number() {
        for (text, line, expected) in [
            ("a = b\n", 1, "before the first section"),
            ("[a\n", 1, "no section"),
            ("[]\n", 1, "no section"),
            ("[a]\nb\n", 2, "neither"),
            ("[a]\nb = 1\n\nb = 2\n", 4, "twice in [a]"),
            ("[a]\n[a]\n", 2, "twice"),
        ] {
            let (at, what) = parse(text).expect_err(text);
            assert_eq!(at, line, "{text}");
            assert!(what.contains(expected), "{what}");
        }
    }
}
