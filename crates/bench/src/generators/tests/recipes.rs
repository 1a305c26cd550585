//! Keys and values of every making are what their names say.

use super::super::*;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn number(numbers: Numbers, shape: KeyShape) -> KeyGenerator {
    KeyGenerator::Number { numbers, shape }
}

fn drawn(generator: &KeyGenerator, many: usize) -> Vec<Vec<u8>> {
    let (mut dice, blob) = (Dice::new(42, 1), Blob::new(1, 1024));
    let mut keys = ClientKeys::new(generator, 0, 1);
    let next = || keys.next(&mut dice, &blob);
    let bytes = |key| {
        let mut bytes = Vec::new();
        generator.write(&key, &mut bytes);
        bytes
    };
    std::iter::from_fn(next).take(many).map(bytes).collect()
}

#[test]
fn uuids_are_of_version_4_and_differ() {
    let keys = drawn(&KeyGenerator::Uuid, 10_000);
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 10_000);
    assert!(keys.iter().all(|key| key.len() == 16 && key[6] >> 4 == 4 && key[8] >> 6 == 2));
    // Each of the other 122 bits is as often set as not.
    let set = |bit: usize| keys.iter().filter(|key| key[bit / 8] >> (7 - bit % 8) & 1 == 1).count();
    let free = (0..128).filter(|bit| !matches!(bit, 48..=51 | 64 | 65));
    assert!(free.map(set).all(|set| (4_700..5_300).contains(&set)));
}

#[test]
fn digests_are_those_everybody_knows() {
    let abc = || Box::new(KeyGenerator::Same(b"abc"[..].into()));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let md5 = drawn(&KeyGenerator::Digest(Digest::Md5, abc()), 1);
    assert_eq!(hex(&md5[0]), "900150983cd24fb0d6963f7d28e17f72");
    let sha = drawn(&KeyGenerator::Digest(Digest::Sha1, abc()), 1);
    assert_eq!(hex(&sha[0]), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_eq!(drawn(&KeyGenerator::Base64(abc()), 1), [b"YWJj".to_vec()]);
}

#[test]
fn joined_keys_end_with_their_shorter_part() {
    let first = number(Numbers::Sequential { count: 3 }, KeyShape::BigEndian { bytes: 1 });
    let second = number(Numbers::Sequential { count: 9 }, KeyShape::Decimal);
    let joined = KeyGenerator::Joined(Box::new([first, second]));
    assert_eq!(drawn(&joined, 10), [b"\x000".to_vec(), b"\x011".to_vec(), b"\x022".to_vec()]);
    assert_eq!(ClientKeys::new(&joined, 0, 1).left(), Some(3));
}

#[test]
fn clients_share_the_lines_of_a_file() {
    let lines = |repeats| Lines::new(PathBuf::from("f"), b"one\ntwo\n\nfour\n", repeats);
    let mut dice = Dice::new(1, 1);
    let blob = Blob::new(1, 16);
    let generator = KeyGenerator::Lines(lines(false));
    let mut clients = [0, 1].map(|client| ClientKeys::new(&generator, client, 2));
    let mut all = Vec::new();
    for turn in 0..4 {
        assert_eq!(clients[turn % 2].left(), Some(4 - turn as u64));
        let Some(DrawnKey::Bytes(line)) = clients[turn % 2].next(&mut dice, &blob) else {
            panic!()
        };
        all.push(String::from_utf8_lossy(&line).into_owned());
    }
    assert_eq!(all, ["one", "two", "", "four"]);
    assert_eq!((clients[0].left(), clients[0].next(&mut dice, &blob)), (Some(0), None));
    let again = drawn(&KeyGenerator::Lines(lines(true)), 9);
    assert_eq!(
        (&again[0], &again[4], &again[8]),
        (&b"one".to_vec(), &b"one".to_vec(), &b"one".to_vec())
    );
}

#[test]
fn formats_are_erlangs() {
    for (format, number, wanted) in [
        ("~w", 7, "7"),
        ("key-~8..0B.txt", 1234, "key-00001234.txt"),
        ("~.16B", 255, "FF"),
        ("~4.16.0b~~", 255, "00ff~"),
        ("<~-5w>", 42, "<42   >"),
        ("~3..*p~n", 5, "**5\n"),
    ] {
        let format = Format::read(format).expect(format);
        let mut text = Vec::new();
        KeyShape::Formatted(format).write(number, &mut text);
        assert_eq!(String::from_utf8_lossy(&text), wanted);
    }
    for bad in ["none", "~w~w", "~s", "~e", "~.1B", "~.40B", "~", "~.16w", "~99999999B"] {
        assert_eq!(Format::read(bad), None, "{bad}");
    }
}

#[test]
fn values_of_one_byte_of_characters_and_numbers() {
    let mut dice = Dice::new(5, 5);
    let mut digits = Vec::new();
    let same = ValueGenerator::Same { bytes: 9, byte: 7 };
    let blob = Blob::of(&same, 1, 1 << 20);
    assert_eq!(same.take(&mut dice, &blob, &mut digits), [7; 9]);
    let characters = ValueGenerator::Characters { bytes: 50_000 };
    let blob = Blob::of(&characters, 1, 100_000);
    let text = characters.take(&mut dice, &blob, &mut digits).to_vec();
    let count = |letter: u8| text.iter().filter(|byte| **byte == letter).count();
    assert!((b' '..=b'~').all(|letter| (400..660).contains(&count(letter))));
    assert_eq!((b' '..=b'~').map(count).sum::<usize>(), 50_000);
    let integer = ValueGenerator::Integer { min: 8, max: 11 };
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        seen.insert(integer.take(&mut dice, &blob, &mut digits).to_vec());
    }
    let wanted: BTreeSet<_> = ["8", "9", "10", "11"].map(|text| text.as_bytes().to_vec()).into();
    assert_eq!((seen, integer.bytes_max()), (wanted, 2));
}

#[test]
fn longest_keys_are_known_before_any_is_drawn() {
    let sized = [
        KeyGenerator::Uuid,
        KeyGenerator::Base64(Box::new(KeyGenerator::Uuid)),
        KeyGenerator::Digest(Digest::Sha1, Box::new(KeyGenerator::Uuid)),
        KeyGenerator::Joined(Box::new([KeyGenerator::Uuid, KeyGenerator::Same(b"ab"[..].into())])),
        KeyGenerator::Value(ValueGenerator::Fixed { bytes: 5 }),
        number(Numbers::Uniform { start: 0, count: 9 }, KeyShape::LittleEndian { bytes: 8 }),
    ];
    for generator in sized {
        assert!(drawn(&generator, 50).iter().all(|key| key.len() == generator.bytes_max()));
    }
}
