//! Structure of messages: which fields hold messages, and a check of bytes against it before they
//! are decoded.
//!
//! A field of two bytes becomes a value of up to some hundred bytes in memory, so the length of a
//! frame alone bounds nothing.

use base::limits::TYPE_DEPTH_MAX;

/// Largest number of fields in a message, those of the messages in it among them.
pub(crate) const FIELDS_MAX: usize = 16_384;
/// Largest nesting: each level of a map is an update and an operation, inside of the request and
/// its operation.
const DEPTH_MAX: usize = 2 * TYPE_DEPTH_MAX + 4;

/// Fields of a message that are messages themselves.
pub(crate) struct Structure(&'static [(u64, &'static Structure)]);

/// Structure of a message without messages in it.
pub(crate) const FLAT: Structure = Structure(&[]);
static EMPTY: Structure = FLAT;
static CONTENT: Structure = Structure(&[(6, &EMPTY), (9, &EMPTY), (10, &EMPTY)]);
static HOOK: Structure = Structure(&[(1, &EMPTY)]);
static PROPERTIES: Structure = Structure(&[(4, &HOOK), (6, &HOOK), (8, &EMPTY), (9, &EMPTY)]);
static MAP_UPDATE: Structure =
    Structure(&[(1, &EMPTY), (2, &EMPTY), (3, &EMPTY), (6, &MAP_OPERATION)]);
static MAP_OPERATION: Structure = Structure(&[(1, &EMPTY), (2, &MAP_UPDATE)]);
static OPERATION: Structure =
    Structure(&[(1, &EMPTY), (2, &EMPTY), (3, &MAP_OPERATION), (4, &EMPTY), (5, &EMPTY)]);

/// Structure of `RpbPutReq`.
pub(crate) static PUT: Structure = Structure(&[(4, &CONTENT)]);
/// Structure of `RpbSetBucketReq` and `RpbSetBucketTypeReq`.
pub(crate) static SET_PROPERTIES: Structure = Structure(&[(2, &PROPERTIES)]);
/// Structure of `DtUpdateReq`.
pub(crate) static DT_UPDATE: Structure = Structure(&[(5, &OPERATION)]);

/// Reason why bytes are no message of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StructureFault {
    /// The bytes are no fields.
    Malformed,
    /// There are more than `FIELDS_MAX` fields, or messages nested deeper than `DEPTH_MAX`.
    TooLarge,
}

impl Structure {
    /// Checks the bytes of a message.
    pub(crate) fn check(&self, message: &[u8]) -> Result<(), StructureFault> {
        self.check_at(message, 0, &mut 0)
    }

    fn check_at(
        &self,
        message: &[u8],
        depth: usize,
        fields: &mut usize,
    ) -> Result<(), StructureFault> {
        if depth > DEPTH_MAX {
            return Err(StructureFault::TooLarge);
        }
        let mut rest = message;
        while !rest.is_empty() {
            *fields += 1;
            if *fields > FIELDS_MAX {
                return Err(StructureFault::TooLarge);
            }
            let key = varint(&mut rest)?;
            let content = match key & 7 {
                0 => varint(&mut rest).map(|_| None)?,
                1 => take(&mut rest, 8).map(|_| None)?,
                2 => {
                    let bytes = varint(&mut rest)?;
                    Some(take(&mut rest, bytes)?)
                }
                5 => take(&mut rest, 4).map(|_| None)?,
                // Groups are in none of Riak's messages.
                _ => return Err(StructureFault::Malformed),
            };
            let inner = self.0.iter().find(|(number, _)| *number == key >> 3);
            if let (Some((_, inner)), Some(content)) = (inner, content) {
                inner.check_at(content, depth + 1, fields)?;
            }
        }
        Ok(())
    }
}

fn varint(rest: &mut &[u8]) -> Result<u64, StructureFault> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first().ok_or(StructureFault::Malformed)?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(StructureFault::Malformed)
}

fn take<'a>(rest: &mut &'a [u8], bytes: u64) -> Result<&'a [u8], StructureFault> {
    let bytes = usize::try_from(bytes).map_err(|_| StructureFault::Malformed)?;
    let (taken, behind) = rest.split_at_checked(bytes).ok_or(StructureFault::Malformed)?;
    *rest = behind;
    Ok(taken)
}
