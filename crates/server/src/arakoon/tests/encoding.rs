//! Encoder from commands as words to bytes, written from the protocol's description and not from
//! the front-end's code.

/// Layout of each command's arguments and answer (letters as in `guest.rs`; `B` is a blob of steps,
/// `N` a list of nodes).
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
pub fn request(name: &str, words: &[String]) -> Option<(Vec<u8>, &'static str)> {
    let (_, code, arguments, answer) = COMMANDS.iter().find(|row| row.0 == name)?;
    let mut bytes = (0xb1ff_0000 | code).to_le_bytes().to_vec();
    let mut words = words.iter().map(String::as_str);
    for field in arguments.chars() {
        put(field, &mut words, &mut bytes)?;
    }
    words.next().is_none().then_some((bytes, answer))
}

fn number(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    bytes.extend_from_slice(&text.parse::<i32>().ok()?.to_le_bytes());
    Some(())
}

/// Appends a string; `\u{80}` to `\u{ff}` stand for the bytes of the same value.
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

fn put<'a>(
    field: char,
    words: &mut impl Iterator<Item = &'a str>,
    bytes: &mut Vec<u8>,
) -> Option<()> {
    match field {
        's' => string(words.next()?, bytes),
        'o' => option(words.next()?, bytes),
        'b' => bytes.push(u8::from(words.next()? == "true")),
        'i' => number(words.next()?, bytes)?,
        'l' => bytes.extend_from_slice(&words.next()?.parse::<i64>().ok()?.to_le_bytes()),
        'c' => match words.next()? {
            "consistent" => bytes.push(0),
            "dirty" => bytes.push(1),
            index => {
                bytes.push(2);
                bytes.extend_from_slice(&index.parse::<i64>().ok()?.to_le_bytes());
            }
        },
        'S' => {
            let all: Vec<_> = words.collect();
            bytes.extend_from_slice(&(all.len() as u32).to_le_bytes());
            all.into_iter().for_each(|word| string(word, bytes));
        }
        'N' => {
            bytes.extend_from_slice(&1u32.to_le_bytes());
            string(words.next()?, bytes);
            bytes.extend_from_slice(&1u32.to_le_bytes());
            string(words.next()?, bytes);
            number(words.next()?, bytes)?;
        }
        'R' => {
            let mut routing = Vec::new();
            tree(words, &mut routing)?;
            bytes.extend_from_slice(&(routing.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&routing);
        }
        _ => {
            let mut blob = Vec::new();
            let all: Vec<_> = words.collect();
            steps(&mut all.iter().copied(), usize::MAX, &mut blob)?;
            bytes.extend_from_slice(&(blob.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&blob);
        }
    }
    Some(())
}

/// Appends a routing tree: `leaf a`, or `node m` followed by two trees.
fn tree(words: &mut dyn Iterator<Item = &str>, bytes: &mut Vec<u8>) -> Option<()> {
    if words.next()? == "leaf" {
        bytes.push(1);
        string(words.next()?, bytes);
        return Some(());
    }
    bytes.push(0);
    string(words.next()?, bytes);
    tree(words, bytes)?;
    tree(words, bytes)
}

/// Appends a sequence of the next `count` steps. Each word is one step; `sequence N` encloses the
/// next N.
fn steps(words: &mut dyn Iterator<Item = &str>, count: usize, bytes: &mut Vec<u8>) -> Option<()> {
    let mut inside = Vec::new();
    let mut done = 0u32;
    while (done as usize) < count {
        let Some(step) = words.next() else { break };
        let parts: Vec<_> = step.split(' ').collect();
        let tag = |tag: i32, inside: &mut Vec<u8>| inside.extend_from_slice(&tag.to_le_bytes());
        match parts[..] {
            ["set", key, value] => {
                tag(1, &mut inside);
                string(key, &mut inside);
                string(value, &mut inside);
            }
            ["delete", key] => {
                tag(2, &mut inside);
                string(key, &mut inside);
            }
            ["test_and_set", key, expected, wanted] => {
                tag(3, &mut inside);
                string(key, &mut inside);
                option(expected, &mut inside);
                option(wanted, &mut inside);
            }
            ["sequence", count] => steps(words, count.parse().ok()?, &mut inside)?,
            ["nop"] => tag(6, &mut inside),
            ["user_function", name, argument] => {
                tag(7, &mut inside);
                string(name, &mut inside);
                option(argument, &mut inside);
            }
            ["assert", key, expected] => {
                tag(8, &mut inside);
                string(key, &mut inside);
                option(expected, &mut inside);
            }
            ["delete_prefix", prefix] => {
                tag(14, &mut inside);
                string(prefix, &mut inside);
            }
            ["assert_exists", key] => {
                tag(15, &mut inside);
                string(key, &mut inside);
            }
            ["replace", key, wanted] => {
                tag(16, &mut inside);
                string(key, &mut inside);
                option(wanted, &mut inside);
            }
            ["assert_range", prefix, ref keys @ ..] => {
                tag(17, &mut inside);
                string(prefix, &mut inside);
                tag(1, &mut inside);
                inside.extend_from_slice(&(keys.len() as u32).to_le_bytes());
                keys.iter().for_each(|key| string(key, &mut inside));
            }
            ["tag", number] => tag(number.parse().ok()?, &mut inside),
            _ => return None,
        }
        done += 1;
    }
    bytes.extend_from_slice(&5i32.to_le_bytes());
    bytes.extend_from_slice(&done.to_le_bytes());
    bytes.extend_from_slice(&inside);
    Some(())
}
