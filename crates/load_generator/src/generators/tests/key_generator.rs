//! Keys and values of every making are what their names say.

use super::super::*;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn number(numbers: Numbers, shape: KeyShape) -> KeyGenerator {
    KeyGenerator::Number { numbers, shape }
}

fn draw_keys(generator: &KeyGenerator, count: usize) -> Vec<Vec<u8>> {
    let (mut rng, blob) = (SeededRng::new(42, 1), Blob::new(1, 1024));
    let mut keys = ClientKeys::new(generator, 0, 1);
    let next = || keys.next(&mut rng, &blob);
    let bytes = |key| {
        let mut bytes = Vec::new();
        generator.write(&key, &mut bytes);
        bytes
    };
    std::iter::from_fn(next).take(count).map(bytes).collect()
}

#[test]
fn uuid_keys_are_version_4_and_distinct() {
    let keys = draw_keys(&KeyGenerator::Uuid, 10_000);
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 10_000);
    assert!(keys.iter().all(|key| key.len() == 16 && key[6] >> 4 == 4 && key[8] >> 6 == 2));
    // Each of the other 122 bits is set in half of the keys.
    let set = |bit: usize| keys.iter().filter(|key| key[bit / 8] >> (7 - bit % 8) & 1 == 1).count();
    let free = (0..128).filter(|bit| !matches!(bit, 48..=51 | 64 | 65));
    assert!(free.map(set).all(|set| (4_700..5_300).contains(&set)));
}

#[test]
fn digest_keys_match_md5_and_sha1_test_vectors() {
    let abc = || Box::new(KeyGenerator::Constant(b"abc"[..].into()));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let md5 = draw_keys(&KeyGenerator::Digest(Digest::Md5, abc()), 1);
    assert_eq!(hex(&md5[0]), "900150983cd24fb0d6963f7d28e17f72");
    let sha = draw_keys(&KeyGenerator::Digest(Digest::Sha1, abc()), 1);
    assert_eq!(hex(&sha[0]), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_eq!(draw_keys(&KeyGenerator::Base64(abc()), 1), [b"YWJj".to_vec()]);
}

#[test]
fn joined_key_sequence_ends_with_its_shorter_part() {
    let first = number(Numbers::Sequential { count: 3 }, KeyShape::BigEndian { bytes: 1 });
    let second = number(Numbers::Sequential { count: 9 }, KeyShape::Decimal);
    let joined = KeyGenerator::Joined(Box::new([first, second]));
    assert_eq!(draw_keys(&joined, 10), [b"\x000".to_vec(), b"\x011".to_vec(), b"\x022".to_vec()]);
    assert_eq!(ClientKeys::new(&joined, 0, 1).remaining(), Some(3));
}

#[test]
fn clients_share_the_lines_of_a_key_file() {
    let lines = |repeats| Lines::new(PathBuf::from("f"), b"one\ntwo\n\nfour\n", repeats);
    let mut rng = SeededRng::new(1, 1);
    let blob = Blob::new(1, 16);
    let generator = KeyGenerator::Lines(lines(false));
    let mut clients = [0, 1].map(|client| ClientKeys::new(&generator, client, 2));
    let mut all = Vec::new();
    for round in 0..4 {
        assert_eq!(clients[round % 2].remaining(), Some(4 - round as u64));
        let Some(DrawnKey::Bytes(line)) = clients[round % 2].next(&mut rng, &blob) else {
            panic!()
        };
        all.push(String::from_utf8_lossy(&line).into_owned());
    }
    assert_eq!(all, ["one", "two", "", "four"]);
    assert_eq!((clients[0].remaining(), clients[0].next(&mut rng, &blob)), (Some(0), None));
    let repeated = draw_keys(&KeyGenerator::Lines(lines(true)), 9);
    assert_eq!(
        (&repeated[0], &repeated[4], &repeated[8]),
        (&b"one".to_vec(), &b"one".to_vec(), &b"one".to_vec())
    );
}

#[test]
fn key_formats_follow_erlang_io_format() {
    for (format, number, expected) in [
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
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }
    for bad in ["none", "~w~w", "~s", "~e", "~.1B", "~.40B", "~", "~.16w", "~99999999B"] {
        assert_eq!(Format::read(bad), None, "{bad}");
    }
}

#[test]
fn value_generators_yield_repeated_byte_printable_or_integer_values() {
    let mut rng = SeededRng::new(5, 5);
    let mut digits = Vec::new();
    let repeated = ValueGenerator::Repeated { bytes: 9, byte: 7 };
    let blob = Blob::for_generator(&repeated, 1, 1 << 20);
    assert_eq!(repeated.next_value(&mut rng, &blob, &mut digits), [7; 9]);
    let characters = ValueGenerator::Characters { bytes: 50_000 };
    let blob = Blob::for_generator(&characters, 1, 100_000);
    let text = characters.next_value(&mut rng, &blob, &mut digits).to_vec();
    let count = |letter: u8| text.iter().filter(|byte| **byte == letter).count();
    assert!((b' '..=b'~').all(|letter| (400..660).contains(&count(letter))));
    assert_eq!((b' '..=b'~').map(count).sum::<usize>(), 50_000);
    let integer = ValueGenerator::Integer { min: 8, max: 11 };
    let mut drawn = BTreeSet::new();
    for _ in 0..200 {
        drawn.insert(integer.next_value(&mut rng, &blob, &mut digits).to_vec());
    }
    let expected: BTreeSet<_> = ["8", "9", "10", "11"].map(|text| text.as_bytes().to_vec()).into();
    assert_eq!((drawn, integer.bytes_max()), (expected, 2));
}

#[test]
fn maximum_key_length_is_known_without_generating_keys() {
    let sized = [
        KeyGenerator::Uuid,
        KeyGenerator::Base64(Box::new(KeyGenerator::Uuid)),
        KeyGenerator::Digest(Digest::Sha1, Box::new(KeyGenerator::Uuid)),
        KeyGenerator::Joined(Box::new([
            KeyGenerator::Uuid,
            KeyGenerator::Constant(b"ab"[..].into()),
        ])),
        KeyGenerator::Value(ValueGenerator::Fixed { bytes: 5 }),
        number(Numbers::Uniform { start: 0, count: 9 }, KeyShape::LittleEndian { bytes: 8 }),
    ];
    for generator in sized {
        assert!(draw_keys(&generator, 50).iter().all(|key| key.len() == generator.bytes_max()));
    }
}
