//! Encoder from commands as text to bytes, written from the protocol's description and not from
//! the front-end's code.

/// Layout of each command's arguments and answer (letters as in `client.rs`; `B` is a blob of
/// steps, `N` a list of nodes).
pub const COMMANDS: [(&str, u32, &str, &str); 48] = [
    ("PING", 0x01, "ss", "s"),
    ("WHO_MASTER", 0x02, "", "o"),
    ("EXISTS", 0x07, "cs", "b"),
    ("GET", 0x08, "cs", "s"),
    ("SET", 0x09, "ss", ""),
    ("DELETE", 0x0a, "s", ""),
    ("RANGE", 0x0b, "cobobi", "S"),
    ("PREFIX_KEYS", 0x0c, "csi", "S"),
    ("TEST_AND_SET", 0x0d, "soo", "o"),
    ("LAST_ENTRIES", 0x0e, "l", ""),
    ("RANGE_ENTRIES", 0x0f, "cobobi", "P"),
    ("SEQUENCE", 0x10, "B", ""),
    ("MULTI_GET", 0x11, "cS", "S"),
    ("EXPECT_PROGRESS_POSSIBLE", 0x12, "", "b"),
    ("STATISTICS", 0x13, "", "s"),
    ("COLLAPSE_TLOGS", 0x14, "i", "i"),
    ("USER_FUNCTION", 0x15, "so", "o"),
    ("ASSERT", 0x16, "cso", ""),
    ("SET_INTERVAL", 0x17, "oooo", ""),
    ("GET_ROUTING", 0x18, "", "s"),
    ("SET_ROUTING", 0x19, "R", ""),
    ("GET_KEY_COUNT", 0x1a, "", "l"),
    ("GET_DB", 0x1b, "", "l"),
    ("CONFIRM", 0x1c, "ss", ""),
    ("GET_FRINGE", 0x1d, "oi", "P"),
    ("GET_INTERVAL", 0x1e, "", "oooo"),
    ("SET_NURSERY_CFG", 0x1f, "sN", ""),
    ("GET_NURSERY_CFG", 0x20, "", "s"),
    ("SET_ROUTING_DELTA", 0x21, "sss", ""),
    ("MIGRATE_RANGE", 0x22, "ooooB", ""),
    ("REV_RANGE_ENTRIES", 0x23, "cobobi", "P"),
    ("SYNCED_SEQUENCE", 0x24, "B", ""),
    ("OPT_DB", 0x25, "", ""),
    ("DEFRAG_DB", 0x26, "", ""),
    ("DELETE_PREFIX", 0x27, "s", "i"),
    ("VERSION", 0x28, "", "iiis"),
    ("ASSERT_EXISTS", 0x29, "cs", ""),
    ("DROP_MASTER", 0x30, "", ""),
    ("MULTI_GET_OPTION", 0x31, "cS", "O"),
    ("CURRENT_STATE", 0x32, "", "s"),
    ("REPLACE", 0x33, "so", "o"),
    ("LAST_ENTRIES2", 0x40, "l", ""),
    ("NOP", 0x41, "", ""),
    ("FLUSH_STORE", 0x42, "", ""),
    ("GET_TXID", 0x43, "", "c"),
    ("COPY_DB_TO_HEAD", 0x44, "i", ""),
    ("USER_HOOK", 0x45, "cs", ""),
    ("LAST_ENTRIES3", 0x46, "l", ""),
];

/// Encodes a command. Returns its bytes and the layout of its answer, or `None` if no such command
/// exists.
pub fn request(name: &str, arguments: &[String]) -> Option<(Vec<u8>, &'static str)> {
    let (_, code, layout, answer) = COMMANDS.iter().find(|row| row.0 == name)?;
    let mut bytes = (0xb1ff_0000 | code).to_le_bytes().to_vec();
    let mut arguments = arguments.iter().map(String::as_str);
    for field in layout.chars() {
        encode_field(field, &mut arguments, &mut bytes)?;
    }
    arguments.next().is_none().then_some((bytes, answer))
}

fn number(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    bytes.extend_from_slice(&text.parse::<i32>().ok()?.to_le_bytes());
    Some(())
}

/// Appends a string; `\u{80}` to `\u{ff}` encode the bytes of the same value.
pub fn string(text: &str, bytes: &mut Vec<u8>) {
    let text: Vec<u8> = text.chars().map(|character| character as u8).collect();
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&text);
}

fn option(text: &str, bytes: &mut Vec<u8>) {
    match text {
        "none" => bytes.push(0),
        text => {
            bytes.push(1);
            string(text, bytes);
        }
    }
}

fn encode_field<'a>(
    field: char,
    arguments: &mut impl Iterator<Item = &'a str>,
    bytes: &mut Vec<u8>,
) -> Option<()> {
    match field {
        's' => string(arguments.next()?, bytes),
        'o' => option(arguments.next()?, bytes),
        'b' => bytes.push(u8::from(arguments.next()? == "true")),
        'i' => number(arguments.next()?, bytes)?,
        'l' => bytes.extend_from_slice(&arguments.next()?.parse::<i64>().ok()?.to_le_bytes()),
        'c' => match arguments.next()? {
            "consistent" => bytes.push(0),
            "dirty" => bytes.push(1),
            index => {
                bytes.push(2);
                bytes.extend_from_slice(&index.parse::<i64>().ok()?.to_le_bytes());
            }
        },
        'S' => {
            let rest: Vec<_> = arguments.collect();
            bytes.extend_from_slice(&(rest.len() as u32).to_le_bytes());
            rest.into_iter().for_each(|word| string(word, bytes));
        }
        'N' => {
            bytes.extend_from_slice(&1u32.to_le_bytes());
            string(arguments.next()?, bytes);
            bytes.extend_from_slice(&1u32.to_le_bytes());
            string(arguments.next()?, bytes);
            number(arguments.next()?, bytes)?;
        }
        'R' => {
            let mut routing = Vec::new();
            routing_tree(arguments, &mut routing)?;
            bytes.extend_from_slice(&(routing.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&routing);
        }
        _ => {
            let mut blob = Vec::new();
            let rest: Vec<_> = arguments.collect();
            steps(&mut rest.iter().copied(), usize::MAX, &mut blob)?;
            bytes.extend_from_slice(&(blob.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&blob);
        }
    }
    Some(())
}

/// Appends a routing tree: `leaf a`, or `node m` followed by two trees.
fn routing_tree(arguments: &mut dyn Iterator<Item = &str>, bytes: &mut Vec<u8>) -> Option<()> {
    if arguments.next()? == "leaf" {
        bytes.push(1);
        string(arguments.next()?, bytes);
        return Some(());
    }
    bytes.push(0);
    string(arguments.next()?, bytes);
    routing_tree(arguments, bytes)?;
    routing_tree(arguments, bytes)
}

/// Appends a sequence of the next `count` steps. Each argument is one step; `sequence N` encloses
/// the next N.
fn steps(
    arguments: &mut dyn Iterator<Item = &str>,
    count: usize,
    bytes: &mut Vec<u8>,
) -> Option<()> {
    let mut blob = Vec::new();
    let mut encoded = 0u32;
    while (encoded as usize) < count {
        let Some(step) = arguments.next() else { break };
        let parts: Vec<_> = step.split(' ').collect();
        let tag = |tag: i32, blob: &mut Vec<u8>| blob.extend_from_slice(&tag.to_le_bytes());
        match parts[..] {
            ["set", key, value] => {
                tag(1, &mut blob);
                string(key, &mut blob);
                string(value, &mut blob);
            }
            ["delete", key] => {
                tag(2, &mut blob);
                string(key, &mut blob);
            }
            ["test_and_set", key, expected, replacement] => {
                tag(3, &mut blob);
                string(key, &mut blob);
                option(expected, &mut blob);
                option(replacement, &mut blob);
            }
            ["sequence", count] => steps(arguments, count.parse().ok()?, &mut blob)?,
            ["nop"] => tag(6, &mut blob),
            ["user_function", name, argument] => {
                tag(7, &mut blob);
                string(name, &mut blob);
                option(argument, &mut blob);
            }
            ["assert", key, expected] => {
                tag(8, &mut blob);
                string(key, &mut blob);
                option(expected, &mut blob);
            }
            ["delete_prefix", prefix] => {
                tag(14, &mut blob);
                string(prefix, &mut blob);
            }
            ["assert_exists", key] => {
                tag(15, &mut blob);
                string(key, &mut blob);
            }
            ["replace", key, replacement] => {
                tag(16, &mut blob);
                string(key, &mut blob);
                option(replacement, &mut blob);
            }
            ["assert_range", prefix, ref keys @ ..] => {
                tag(17, &mut blob);
                string(prefix, &mut blob);
                tag(1, &mut blob);
                blob.extend_from_slice(&(keys.len() as u32).to_le_bytes());
                keys.iter().for_each(|key| string(key, &mut blob));
            }
            ["tag", number] => tag(number.parse().ok()?, &mut blob),
            _ => return None,
        }
        encoded += 1;
    }
    bytes.extend_from_slice(&5i32.to_le_bytes());
    bytes.extend_from_slice(&encoded.to_le_bytes());
    bytes.extend_from_slice(&blob);
    Some(())
}
