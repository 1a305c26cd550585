//! Evaluation of a path over a value's bytes, by serde's visitors and without a value tree.
//!
//! One pass over the bytes, whatever the path. Recursion follows the path alone: what lies beside
//! it is skipped and checked for syntax only. A later member of an object replaces an earlier one
//! of the same name, as most readers of JSON do. In MessagePack only members whose name is a UTF-8
//! string are selected, and a string that is not UTF-8 counts as bytes.

use crate::limits::{ENTRIES_PER_VALUE_MAX, MESSAGE_PACK_NESTING_MAX, WILDCARD_HELD_MAX};
use crate::member_name::{NameMatch, NameSeed, NameText};
use crate::path::{JsonPath, Selector};
use crate::term::Term;
use crate::value_type::{ValueFormat, ValueType};
use base::codec::Malformed;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Nodes that a path selects in a value, as terms of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Terms of the selected nodes, each once. Empty if the selection is oversized.
    pub terms: BTreeSet<Term>,
    /// Number of selected nodes.
    pub nodes: u64,
    /// Number of selected nodes that are of another type, and have no term.
    pub mistyped: u64,
    /// True if there are more terms than [`ENTRIES_PER_VALUE_MAX`], or more members under a
    /// wildcard than [`WILDCARD_HELD_MAX`].
    pub is_oversized: bool,
}

impl Selection {
    fn add(&mut self, term: Option<Term>) {
        self.nodes += 1;
        match term {
            Some(term) => self.insert(term),
            None => self.mistyped += 1,
        }
    }

    fn insert(&mut self, term: Term) {
        if !self.is_oversized {
            self.terms.insert(term);
            if self.terms.len() > ENTRIES_PER_VALUE_MAX {
                self.give_up();
            }
        }
    }

    fn merge(&mut self, other: Selection) {
        self.nodes += other.nodes;
        self.mistyped += other.mistyped;
        if other.is_oversized {
            self.give_up();
        }
        for term in other.terms {
            self.insert(term);
        }
    }

    fn give_up(&mut self) {
        self.is_oversized = true;
        self.terms.clear();
    }

    /// Returns its cost while it is remembered under a wildcard.
    fn cost(&self) -> usize {
        1 + self.terms.len()
    }
}

/// Evaluates a path over a value. Errors: `Malformed` if the bytes are not of this format,
/// something follows the value, or it is nested too deep.
pub fn select(
    path: &JsonPath,
    value_type: ValueType,
    format: ValueFormat,
    bytes: &[u8],
) -> Result<Selection, Malformed> {
    let (mut selection, mut budget) = (Selection::default(), Budget::default());
    let walk = NodeWalk {
        selectors: path.selectors(),
        value_type,
        selection: &mut selection,
        budget: &mut budget,
    };
    match format {
        ValueFormat::Json => read_json(walk, bytes).map_err(|_| Malformed("the value's JSON"))?,
        ValueFormat::MessagePack => read_message_pack(walk, bytes)?,
    }
    if budget.is_exceeded {
        selection.give_up();
    }
    Ok(selection)
}

fn read_json(walk: NodeWalk<'_>, bytes: &[u8]) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    walk.deserialize(&mut deserializer)?;
    deserializer.end()
}

fn read_message_pack(walk: NodeWalk<'_>, bytes: &[u8]) -> Result<(), Malformed> {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    // The reader's own bound counts one level more than it admits.
    deserializer.set_max_depth(MESSAGE_PACK_NESTING_MAX + 1);
    walk.deserialize(&mut deserializer).map_err(|_| Malformed("the value's MessagePack"))?;
    // No marker can be read at the end; whatever else happens, something stands there.
    match IgnoredAny::deserialize(&mut deserializer) {
        Err(rmp_serde::decode::Error::InvalidMarkerRead(_)) => Ok(()),
        _ => Err(Malformed("the end of the value's MessagePack")),
    }
}

/// Budget of what is remembered under wildcards at one time.
#[derive(Default)]
struct Budget {
    held: usize,
    is_exceeded: bool,
}

/// Visitor of one node: the rest of the path from there, and the place for what it selects.
struct NodeWalk<'a> {
    selectors: &'a [Selector],
    value_type: ValueType,
    selection: &'a mut Selection,
    budget: &'a mut Budget,
}

impl NodeWalk<'_> {
    /// Returns the visitor of a child that selects into this node's place.
    fn child<'b>(&'b mut self, selectors: &'b [Selector]) -> NodeWalk<'b> {
        NodeWalk {
            selectors,
            value_type: self.value_type,
            selection: self.selection,
            budget: self.budget,
        }
    }

    /// Returns the visitor of a child that selects into another place.
    fn child_into<'b>(
        &'b mut self,
        selectors: &'b [Selector],
        selection: &'b mut Selection,
    ) -> NodeWalk<'b> {
        NodeWalk { selectors, value_type: self.value_type, selection, budget: self.budget }
    }

    /// Takes a node without children: it counts if the path ends here.
    fn scalar(self, term: impl FnOnce(ValueType) -> Option<Term>) {
        if self.selectors.is_empty() {
            self.selection.add(term(self.value_type));
        }
    }

    /// Takes the members of an object in turn; the last one with this name counts.
    fn name<'de, A: MapAccess<'de>>(
        mut self,
        name: &str,
        rest: &[Selector],
        mut map: A,
    ) -> Result<(), A::Error> {
        let mut last = None;
        while let Some(is_wanted) = map.next_key_seed(NameSeed(NameMatch(name)))? {
            if is_wanted {
                let mut selection = Selection::default();
                map.next_value_seed(self.child_into(rest, &mut selection))?;
                last = Some(selection);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if let Some(selection) = last {
            self.selection.merge(selection);
        }
        Ok(())
    }

    /// Takes all members of an object; the last one of each name counts.
    fn members<'de, A: MapAccess<'de>>(
        mut self,
        rest: &[Selector],
        mut map: A,
    ) -> Result<(), A::Error> {
        let mut members: BTreeMap<String, Selection> = BTreeMap::new();
        let held_before = self.budget.held;
        while let Some(name) = map.next_key_seed(NameSeed(NameText))? {
            let Some(name) = name.filter(|_| !self.budget.is_exceeded) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let mut selection = Selection::default();
            map.next_value_seed(self.child_into(rest, &mut selection))?;
            self.budget.held += selection.cost();
            if let Some(former) = members.insert(name, selection) {
                self.budget.held -= former.cost();
            }
            if self.budget.held > WILDCARD_HELD_MAX {
                self.budget.is_exceeded = true;
                members.clear();
            }
        }
        self.budget.held = held_before;
        for selection in members.into_values() {
            self.selection.merge(selection);
        }
        Ok(())
    }

    /// Takes the elements of an array that the test admits.
    fn elements<'de, A: SeqAccess<'de>>(
        mut self,
        rest: &[Selector],
        is_selected: impl Fn(u64) -> bool,
        mut seq: A,
    ) -> Result<(), A::Error> {
        for index in 0_u64.. {
            let is_more = match is_selected(index) {
                true => seq.next_element_seed(self.child(rest))?.is_some(),
                false => seq.next_element::<IgnoredAny>()?.is_some(),
            };
            if !is_more {
                break;
            }
        }
        Ok(())
    }

    /// Takes the element of an array in a distance from its end.
    fn element_from_end<'de, A: SeqAccess<'de>>(
        mut self,
        rest: &[Selector],
        distance: u64,
        mut seq: A,
    ) -> Result<(), A::Error> {
        // The end is known when it is reached, so the last elements wait for it.
        let mut last: VecDeque<Selection> = VecDeque::new();
        loop {
            let mut selection = Selection::default();
            if seq.next_element_seed(self.child_into(rest, &mut selection))?.is_none() {
                break;
            }
            last.push_back(selection);
            if last.len() as u64 > distance {
                last.pop_front();
            }
        }
        if last.len() as u64 == distance
            && let Some(selection) = last.pop_front()
        {
            self.selection.merge(selection);
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for NodeWalk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeWalk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(|value_type| (value_type == ValueType::Bool).then(|| Term::bool(value)));
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(|value_type| match value_type {
            ValueType::Int => Some(Term::int(value)),
            ValueType::Float => Term::float(value as f64),
            _ => None,
        });
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(|value_type| match value_type {
            ValueType::Int => i64::try_from(value).ok().map(Term::int),
            ValueType::Float => Term::float(value as f64),
            _ => None,
        });
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(|value_type| match value_type {
            ValueType::Float => Term::float(value),
            _ => None,
        });
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.scalar(|value_type| (value_type == ValueType::String).then(|| Term::string(value)));
        Ok(())
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<(), E> {
        self.scalar(|value_type| (value_type == ValueType::Bytes).then(|| Term::bytes(value)));
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar(|_| None);
        Ok(())
    }

    /// An extension of MessagePack has no type of ours.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.scalar(|_| None);
        IgnoredAny::deserialize(deserializer).map(|_| ())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((selector, rest)) = self.selectors.split_first() else {
            self.scalar(|_| None);
            return skip_elements(&mut seq);
        };
        match selector {
            Selector::Index(wanted) => self.elements(rest, |index| index == *wanted, seq),
            Selector::FromEnd(distance) => self.element_from_end(rest, *distance, seq),
            Selector::Slice(slice) => self.elements(rest, |index| slice.contains(index), seq),
            Selector::Wildcard => self.elements(rest, |_| true, seq),
            Selector::Name(_) => skip_elements(&mut seq),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        match self.selectors.split_first() {
            Some((Selector::Name(name), rest)) => return self.name(name, rest, map),
            Some((Selector::Wildcard, rest)) => return self.members(rest, map),
            Some(_) => {}
            None => self.scalar(|_| None),
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

fn skip_elements<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<(), A::Error> {
    while seq.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}
