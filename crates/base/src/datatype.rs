//! Data types that replicas merge by themselves: operations on them, and their values.

use crate::properties::DataType;
use bytes::Bytes;

/// Kind of a field of a map. A map may have two fields of one name and different kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldKind {
    /// A counter that concurrent writers add to.
    Counter,
    /// A set; a remove needs a context to be exact.
    Set,
    /// A grow-only set.
    Gset,
    /// A register: the latest value wins.
    Register,
    /// A flag; concurrent enable wins over disable.
    Flag,
    /// A map with fields of its own.
    Map,
    /// An estimate of the number of distinct values (HyperLogLog).
    Hll,
}

impl FieldKind {
    /// All of them; a kind's place never changes.
    pub const ALL: [FieldKind; 7] = {
        use FieldKind::*;
        [Counter, Set, Gset, Register, Flag, Map, Hll]
    };

    /// Returns the name of the kind at every front-end.
    pub fn name(self) -> &'static str {
        ["counter", "set", "gset", "register", "flag", "map", "hll"][self as usize]
    }

    /// Parses that name.
    pub fn parse(name: &str) -> Option<FieldKind> {
        FieldKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the kind of the values of a bucket with this data type. `None`: any bytes.
    pub fn from_data_type(datatype: DataType) -> Option<FieldKind> {
        FieldKind::parse(datatype.name())
    }
}

/// A field of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field {
    /// Name of the field.
    pub name: Bytes,
    /// Kind of the field.
    pub kind: FieldKind,
}

/// A change to a data type. Steps of one change are applied in order, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeOperation {
    /// Adds to a counter; may be negative.
    Add(i64),
    /// Changes a set, a grow-only set, or an estimate of distinct values.
    Elements(Vec<ElementStep>),
    /// Assigns a register.
    Assign(Bytes),
    /// Turns a flag on.
    Enable,
    /// Turns a flag off, as far as the context has seen it on.
    Disable,
    /// Changes a map.
    Fields(Vec<FieldStep>),
}

/// A step that changes a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementStep {
    /// Adds an element.
    Add(Bytes),
    /// Removes an element, as far as the context has seen it added.
    Remove(Bytes),
}

/// A step that changes a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldStep {
    /// Changes a field; makes it if it is not there.
    Update(Field, TypeOperation),
    /// Removes a field, as far as the context has seen what is in it.
    Remove(Field),
}

/// A data type as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeValue {
    /// A counter's sum.
    Counter(i128),
    /// The elements of a set, in order.
    Set(Vec<Bytes>),
    /// Elements of a grow-only set, in order.
    Gset(Vec<Bytes>),
    /// A register's value.
    Register(Bytes),
    /// True if the flag is on.
    Flag(bool),
    /// A map's fields, in order.
    Map(Vec<(Field, TypeValue)>),
    /// Estimated number of distinct values.
    Hll(u64),
}

impl TypeValue {
    /// Returns the kind of the value.
    pub fn kind(&self) -> FieldKind {
        match self {
            TypeValue::Counter(_) => FieldKind::Counter,
            TypeValue::Set(_) => FieldKind::Set,
            TypeValue::Gset(_) => FieldKind::Gset,
            TypeValue::Register(_) => FieldKind::Register,
            TypeValue::Flag(_) => FieldKind::Flag,
            TypeValue::Map(_) => FieldKind::Map,
            TypeValue::Hll(_) => FieldKind::Hll,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_kind_words_are_unique_and_parse_back() {
        let names: std::collections::BTreeSet<_> =
            FieldKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), FieldKind::ALL.len());
        for (number, kind) in FieldKind::ALL.iter().enumerate() {
            assert_eq!((*kind as usize, FieldKind::parse(kind.name())), (number, Some(*kind)));
        }
    }

    #[test]
    fn bucket_data_types_map_to_field_kinds_of_same_name() {
        for datatype in DataType::ALL {
            let kind = FieldKind::from_data_type(datatype);
            assert_eq!(kind.map_or("none", FieldKind::name), datatype.name());
        }
    }
}
