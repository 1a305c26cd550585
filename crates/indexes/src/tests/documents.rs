//! Generated documents: a tree that is written as JSON and as MessagePack, with duplicate members.

use proptest::prelude::*;

/// Node of a generated document. Names of an object may repeat.
#[derive(Clone, Debug)]
pub enum Document {
    /// Null.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// An integer above those with a sign.
    Large(u64),
    /// A number with a fraction or an exponent.
    Number(f64),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Document>),
    /// An object.
    Object(Vec<(String, Document)>),
}

impl Document {
    /// Returns the document as JSON.
    pub fn json(&self) -> String {
        match self {
            Document::Null => "null".into(),
            Document::Bool(value) => value.to_string(),
            Document::Integer(number) => number.to_string(),
            Document::Large(number) => number.to_string(),
            Document::Number(number) => format!("{number:e}"),
            Document::Text(text) => quoted(text),
            Document::Array(elements) => {
                let elements: Vec<_> = elements.iter().map(Document::json).collect();
                format!("[{}]", elements.join(","))
            }
            Document::Object(members) => {
                let member = |(name, node): &(String, Document)| {
                    format!("{} : {}", quoted(name), node.json())
                };
                let members: Vec<_> = members.iter().map(member).collect();
                format!("{{{}}}", members.join(", "))
            }
        }
    }

    /// Appends the document as MessagePack.
    pub fn put_message_pack(&self, out: &mut Vec<u8>) {
        match self {
            Document::Null => out.push(0xC0),
            Document::Bool(value) => out.push(0xC2 + u8::from(*value)),
            Document::Integer(number @ 0..128) => out.push(*number as u8),
            Document::Integer(number) => {
                out.push(0xD3);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Document::Large(number) => {
                out.push(0xCF);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Document::Number(number) => {
                out.push(0xCB);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Document::Text(text) => put_text(text, out),
            Document::Array(elements) => {
                out.push(0xDD);
                out.extend_from_slice(&(elements.len() as u32).to_be_bytes());
                for element in elements {
                    element.put_message_pack(out);
                }
            }
            Document::Object(members) => {
                out.push(0xDF);
                out.extend_from_slice(&(members.len() as u32).to_be_bytes());
                for (name, node) in members {
                    put_text(name, out);
                    node.put_message_pack(out);
                }
            }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string")
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.push(0xDB);
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Returns documents of few names, so that paths meet them and members repeat.
pub fn document() -> impl Strategy<Value = Document> {
    let leaf = prop_oneof![
        Just(Document::Null),
        any::<bool>().prop_map(Document::Bool),
        (-3_i64..3).prop_map(Document::Integer),
        any::<i64>().prop_map(Document::Integer),
        (i64::MAX as u64 + 1..=u64::MAX).prop_map(Document::Large),
        (-9_i32..9).prop_map(|half| Document::Number(f64::from(half) / 2.0)),
        any::<f64>()
            .prop_filter("JSON has finite numbers", |number| number.is_finite())
            .prop_map(Document::Number),
        "[a\u{0}é\n\"]{0,3}".prop_map(Document::Text),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let object = prop::collection::vec(("[abc]", inner.clone()), 0..5);
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Document::Array),
            object.prop_map(Document::Object),
        ]
    })
}
