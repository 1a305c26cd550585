//! Corruption of a byte in a TCP stream. TCP's checksum would drop the segment, as if it had been
//! lost; so the checksum is updated, and the change reaches the program, as a fault in the memory
//! of a router or a network card does.

use super::switch::HEAD_BYTES;
use rand::RngExt;
use rand::rngs::StdRng;

/// Length of the Ethernet header.
const ETHERNET_BYTES: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const TCP: u8 = 6;
/// Offset of the checksum in a TCP header.
const SUM_AT: usize = 16;
/// Flag of checksum offload: the kernel has not filled in the checksum, and the receiver does not
/// verify it.
const UNFINISHED: u8 = 1;

/// Changes one byte of a frame's TCP payload. Returns false if it has none.
pub(super) fn corrupt(frame: &mut [u8], dice: &mut StdRng) -> bool {
    let unfinished = frame.first().is_some_and(|flags| flags & UNFINISHED != 0);
    let Some((segment, payload)) = segment(frame) else { return false };
    let at = dice.random_range(payload..segment.len());
    let before = word(segment, at);
    segment[at] ^= 1 << dice.random_range(0..8);
    if !unfinished {
        let sum = mended(word(segment, SUM_AT), before, word(segment, at));
        segment[SUM_AT..SUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
    }
    true
}

/// Returns a frame's TCP segment, and the offset of its payload. `None`: it has no payload.
fn segment(frame: &mut [u8]) -> Option<(&mut [u8], usize)> {
    let packet = frame.get_mut(HEAD_BYTES + ETHERNET_BYTES - 2..)?;
    let (kind, packet) = packet.split_at_mut_checked(2)?;
    let head = usize::from(packet.first()? & 15) * 4;
    let long = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    if kind != IPV4 || *packet.get(9)? != TCP {
        return None;
    }
    let segment = packet.get_mut(head..long)?;
    let payload = usize::from(segment.get(12)? >> 4) * 4;
    (payload > SUM_AT && payload < segment.len()).then_some((segment, payload))
}

/// Returns the 16 bits in which the checksum counts a byte; an odd end is padded with zero.
fn word(segment: &[u8], at: usize) -> u16 {
    let at = at & !1;
    u16::from_be_bytes([segment[at], segment.get(at + 1).copied().unwrap_or(0)])
}

/// Updates a checksum after one word has changed (RFC 1624).
fn mended(sum: u16, before: u16, after: u16) -> u16 {
    let all = u32::from(!sum) + u32::from(!before) + u32::from(after);
    let all = (all & 0xffff) + (all >> 16);
    !((all & 0xffff) + (all >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// Returns the checksum of a segment with its own field as zero, without the pseudo header.
    fn sum(segment: &[u8]) -> u16 {
        let words = (0..segment.len()).step_by(2).filter(|at| *at != SUM_AT);
        let mut all: u32 = words.map(|at| u32::from(word(segment, at))).sum();
        while all > 0xffff {
            all = (all & 0xffff) + (all >> 16);
        }
        !(all as u16)
    }

    /// Returns a frame with this many bytes of a stream.
    fn frame(bytes: usize) -> Vec<u8> {
        let mut frame = vec![0; HEAD_BYTES + ETHERNET_BYTES];
        frame[HEAD_BYTES + 12..].copy_from_slice(&IPV4);
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[9] = TCP;
        packet[20 + 12] = 5 << 4;
        packet.extend((0..bytes).map(|at| at as u8));
        let long = packet.len() as u16;
        packet[2..4].copy_from_slice(&long.to_be_bytes());
        let whole = sum(&packet[20..]);
        packet[20 + SUM_AT..22 + SUM_AT].copy_from_slice(&whole.to_be_bytes());
        frame.extend(packet);
        frame
    }

    #[test]
    fn one_byte_changes_and_the_checksum_holds() {
        let mut dice = StdRng::seed_from_u64(1);
        let head = HEAD_BYTES + ETHERNET_BYTES + 20;
        for bytes in [1, 2, 7, 100, 1_447] {
            for _ in 0..50 {
                let (before, mut after) = (frame(bytes), frame(bytes));
                assert!(corrupt(&mut after, &mut dice));
                let changed = (head + 20..before.len()).filter(|at| before[*at] != after[*at]);
                assert_eq!(changed.count(), 1);
                assert_eq!(before[..head + SUM_AT], after[..head + SUM_AT]);
                assert_eq!(word(&after[head..], SUM_AT), sum(&after[head..]), "{bytes}");
            }
        }
    }

    #[test]
    fn what_carries_nothing_is_left_alone() {
        let mut dice = StdRng::seed_from_u64(2);
        let mut cut = frame(9);
        cut.truncate(40);
        let mut other = frame(9);
        other[HEAD_BYTES + 12] = 0x86;
        for mut left in [frame(0), cut, other, Vec::new()] {
            let before = left.clone();
            assert!(!corrupt(&mut left, &mut dice));
            assert_eq!(left, before);
        }
    }
}
