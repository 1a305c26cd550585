//! Codec of data types: short, with one form only.
//!
//! A version (1), the kind (1), the known dots as in `base/dots/`, the content, then the number of
//! waiting removes and each: its path, its target (1), its context. Numbers are varints, strings
//! are preceded by their length.
//!
//! A dot is the place of its actor among the known ones, then its counter. Dots are in order, each
//! followed by its content: a counter's two sums, a register's time and value, registers of an
//! estimate; nothing for a set's element. Registers are encoded one by one if less than a third is
//! in use (distance to the previous place, rank), else all in a row.

use super::dotted::Dotted;
use super::hll::{PRECISION_MAX, PRECISION_MIN, Registers};
use super::state::{ActorTally, Assigned, Elements, MapSlot, TypeState};
use super::typed::{Removal, RemoveTarget, Typed};
use base::codec::{Malformed, Reader, Writer};
use base::datatype::{Field, FieldKind};
use base::dots::{DotContext, Identity};
use base::limits::TYPE_DEPTH_MAX;
use base::varint;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Version of the format; any other is refused.
const VERSION: u8 = 1;

type Decoded<T> = Result<T, Malformed>;

impl<I: Identity> Typed<I> {
    /// Appends the encoded data type.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(VERSION);
        out.put_u8(self.kind() as u8);
        self.known_dots.put(out);
        put_state(&self.state, &Actors::of(&self.known_dots), out);
        varint::put(self.waiting.len() as u64, out);
        for removal in &self.waiting {
            varint::put(removal.path.len() as u64, out);
            removal.path.iter().for_each(|field| put_field(field, out));
            match &removal.target {
                RemoveTarget::WholeField => out.put_u8(0),
                RemoveTarget::Content => out.put_u8(1),
                RemoveTarget::Element(element) => {
                    out.put_u8(2);
                    varint::put_string(element, out);
                }
            }
            removal.context.put(out);
        }
    }

    /// Decodes a data type that fills these bytes; names and values are slices of them.
    pub fn decode(bytes: &Bytes) -> Decoded<Typed<I>> {
        let mut from = Reader::new(bytes);
        if from.u8("a data type's version")? != VERSION {
            return Err(Malformed("a data type of a version this node does not know"));
        }
        let kind = take_kind(&mut from)?;
        let known_dots = DotContext::take(&mut from)?;
        let mut source = CodingSource { bytes, from, actors: Actors::of(&known_dots) };
        let state = source.state(kind, 0)?;
        let waiting = source.waiting()?;
        let CodingSource { from, .. } = source;
        from.end("a data type's end")?;
        Ok(Typed { known_dots, state, waiting })
    }
}

/// Actors by place and places by actor, with the known dots of each.
struct Actors<'a, I> {
    known_dots: &'a DotContext<I>,
    ids: Vec<&'a I>,
}

impl<'a, I: Identity> Actors<'a, I> {
    fn of(known_dots: &'a DotContext<I>) -> Actors<'a, I> {
        Actors { known_dots, ids: known_dots.entries().map(|(id, _)| id).collect() }
    }

    fn place(&self, id: &I) -> u64 {
        self.ids.binary_search(&id).expect("what is in a type was heard of") as u64
    }
}

fn put_dots<I: Identity, P>(
    dots: &Dotted<I, P>,
    actors: &Actors<'_, I>,
    out: &mut Vec<u8>,
    mut put: impl FnMut(&P, &mut Vec<u8>),
) {
    varint::put(dots.len() as u64, out);
    for ((id, count), payload) in dots {
        varint::put(actors.place(id), out);
        varint::put(*count, out);
        put(payload, out);
    }
}

fn put_state<I: Identity>(state: &TypeState<I>, actors: &Actors<'_, I>, out: &mut Vec<u8>) {
    match state {
        TypeState::Counter(dots) => put_dots(dots, actors, out, |tally, out| {
            varint::put(tally.up, out);
            varint::put(tally.down, out);
        }),
        TypeState::Set(elements) | TypeState::Gset(elements) => {
            varint::put(elements.len() as u64, out);
            for (element, dots) in elements {
                varint::put_string(element, out);
                put_dots(dots, actors, out, |(), _| {});
            }
        }
        TypeState::Register(dots) => put_dots(dots, actors, out, |assigned, out| {
            varint::put(assigned.at_ms, out);
            varint::put_string(&assigned.value, out);
        }),
        TypeState::Flag(dots) => put_dots(dots, actors, out, |(), _| {}),
        TypeState::Map(fields) => {
            varint::put(fields.len() as u64, out);
            for (field, slot) in fields {
                put_field(field, out);
                put_dots(&slot.present, actors, out, |(), _| {});
                put_state(&slot.state, actors, out);
            }
        }
        TypeState::Hll(dots) => put_dots(dots, actors, out, put_registers),
    }
}

fn put_field(field: &Field, out: &mut Vec<u8>) {
    out.put_u8(field.kind as u8);
    varint::put_string(&field.name, out);
}

/// Returns true if registers are encoded one by one.
fn is_sparse(used: usize, all: usize) -> bool {
    used * 3 < all
}

fn put_registers(registers: &Registers, out: &mut Vec<u8>) {
    out.put_u8(registers.precision);
    let used = registers.ranks.iter().filter(|rank| **rank > 0).count();
    varint::put(used as u64, out);
    if !is_sparse(used, registers.ranks.len()) {
        return out.extend_from_slice(&registers.ranks);
    }
    let mut next = 0;
    for (at, rank) in registers.ranks.iter().enumerate().filter(|(_, rank)| **rank > 0) {
        varint::put((at - next) as u64, out);
        out.put_u8(*rank);
        next = at + 1;
    }
}

fn take_kind(from: &mut Reader<'_>) -> Decoded<FieldKind> {
    let kind = usize::from(from.u8("data type")?);
    FieldKind::ALL.get(kind).copied().ok_or(Malformed("data type"))
}

/// Bytes being decoded.
struct CodingSource<'a, I> {
    bytes: &'a Bytes,
    from: Reader<'a>,
    actors: Actors<'a, I>,
}

impl<I: Identity> CodingSource<'_, I> {
    fn string(&mut self) -> Decoded<Bytes> {
        let slice = varint::take_string(&mut self.from, usize::MAX, "a string of a data type")?;
        Ok(self.bytes.slice_ref(slice))
    }

    fn field(&mut self) -> Decoded<Field> {
        let kind = take_kind(&mut self.from)?;
        Ok(Field { name: self.string()?, kind })
    }

    fn dots<P>(&mut self, mut take: impl FnMut(&mut Self) -> Decoded<P>) -> Decoded<Dotted<I, P>> {
        const FIELD: &str = "a dot of a data type";
        let dot_count = varint::take_count(&mut self.from, 2, FIELD)?;
        let mut dots = Dotted::new();
        for _ in 0..dot_count {
            let place = varint::take(&mut self.from, FIELD)?;
            let id = usize::try_from(place).ok().and_then(|place| self.actors.ids.get(place));
            let id = (*id.ok_or(Malformed(FIELD))?).clone();
            let count = varint::take(&mut self.from, FIELD)?;
            let dot = (id, count);
            let is_ascending = dots.last_key_value().is_none_or(|(last, _)| *last < dot);
            if !is_ascending || !self.actors.known_dots.contains(&dot.0, count) {
                return Err(Malformed(FIELD));
            }
            let payload = take(self)?;
            dots.insert(dot, payload);
        }
        Ok(dots)
    }

    fn state(&mut self, kind: FieldKind, depth: usize) -> Decoded<TypeState<I>> {
        Ok(match kind {
            FieldKind::Counter => TypeState::Counter(self.dots(|source| {
                let up = varint::take(&mut source.from, "a counter")?;
                Ok(ActorTally { up, down: varint::take(&mut source.from, "a counter")? })
            })?),
            FieldKind::Set => TypeState::Set(self.elements()?),
            FieldKind::Gset => TypeState::Gset(self.elements()?),
            FieldKind::Register => TypeState::Register(self.dots(|source| {
                let at_ms = varint::take(&mut source.from, "a register's hour")?;
                Ok(Assigned { at_ms, value: source.string()? })
            })?),
            FieldKind::Flag => TypeState::Flag(self.dots(|_| Ok(()))?),
            FieldKind::Map if depth >= TYPE_DEPTH_MAX => {
                return Err(Malformed("maps in maps too deep"));
            }
            FieldKind::Map => TypeState::Map(self.fields(depth)?),
            FieldKind::Hll => TypeState::Hll(self.dots(CodingSource::registers)?),
        })
    }

    fn elements(&mut self) -> Decoded<Elements<I>> {
        const FIELD: &str = "elements of a set";
        let count = varint::take_count(&mut self.from, 4, FIELD)?;
        let mut elements = Elements::new();
        for _ in 0..count {
            let element = self.string()?;
            let dots = self.dots(|_| Ok(()))?;
            let is_ascending = elements.last_key_value().is_none_or(|(last, _)| *last < element);
            if !is_ascending || dots.is_empty() {
                return Err(Malformed(FIELD));
            }
            elements.insert(element, dots);
        }
        Ok(elements)
    }

    fn fields(&mut self, depth: usize) -> Decoded<BTreeMap<Field, MapSlot<I>>> {
        const FIELD: &str = "fields of a map";
        let count = varint::take_count(&mut self.from, 4, FIELD)?;
        let mut fields: BTreeMap<Field, MapSlot<I>> = BTreeMap::new();
        for _ in 0..count {
            let field = self.field()?;
            let present = self.dots(|_| Ok(()))?;
            let slot = MapSlot { present, state: self.state(field.kind, depth + 1)? };
            let is_ascending = fields.last_key_value().is_none_or(|(last, _)| *last < field);
            if !is_ascending || slot.is_empty() {
                return Err(Malformed(FIELD));
            }
            fields.insert(field, slot);
        }
        Ok(fields)
    }

    fn registers(&mut self) -> Decoded<Registers> {
        const FIELD: &str = "a count of distinct values";
        let precision = self.from.u8(FIELD)?;
        if !(PRECISION_MIN..=PRECISION_MAX).contains(&precision) {
            return Err(Malformed(FIELD));
        }
        let all = 1_usize << precision;
        let used = varint::take_count(&mut self.from, 1, FIELD)?;
        let ranks = if is_sparse(used, all) {
            let mut ranks = vec![0; all];
            let mut next = 0_usize;
            for _ in 0..used {
                let skip = varint::take(&mut self.from, FIELD)?;
                let at = usize::try_from(skip).ok().and_then(|skip| next.checked_add(skip));
                let at = at.filter(|at| *at < all).ok_or(Malformed(FIELD))?;
                ranks[at] = self.from.u8(FIELD)?;
                next = at + 1;
            }
            ranks
        } else {
            self.from.take(all, FIELD)?.to_vec()
        };
        let rank_max = Registers::rank_max(precision);
        let fits = ranks.iter().all(|rank| *rank <= rank_max);
        if !fits || ranks.iter().filter(|rank| **rank > 0).count() != used {
            return Err(Malformed(FIELD));
        }
        Ok(Registers { precision, ranks })
    }

    fn waiting(&mut self) -> Decoded<BTreeSet<Removal<I>>> {
        const FIELD: &str = "removes of a data type";
        let count = varint::take_count(&mut self.from, 3, FIELD)?;
        let mut waiting: BTreeSet<Removal<I>> = BTreeSet::new();
        for _ in 0..count {
            let depth = varint::take_count(&mut self.from, 2, FIELD)?;
            let path = (0..depth).map(|_| self.field()).collect::<Decoded<Vec<_>>>()?;
            let target = match self.from.u8(FIELD)? {
                0 => RemoveTarget::WholeField,
                1 => RemoveTarget::Content,
                2 => RemoveTarget::Element(self.string()?),
                _ => return Err(Malformed(FIELD)),
            };
            let removal = Removal { path, target, context: DotContext::take(&mut self.from)? };
            if waiting.last().is_some_and(|last| *last >= removal) {
                return Err(Malformed(FIELD));
            }
            waiting.insert(removal);
        }
        Ok(waiting)
    }
}
