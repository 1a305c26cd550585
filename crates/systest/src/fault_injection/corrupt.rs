//! Corruption of a byte in a TCP stream. TCP's checksum would drop the segment, as if it had been
//! lost; so the checksum is updated, and the change reaches the program, as a fault in the memory
//! of a router or a network card does.

use super::switch::VNET_HEADER_BYTES;
use rand::RngExt;
use rand::rngs::StdRng;

/// Length of the Ethernet header.
const ETHERNET_BYTES: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const TCP: u8 = 6;
/// Offset of the checksum in a TCP header.
const CHECKSUM_OFFSET: usize = 16;
/// Flag of checksum offload: the kernel has not filled in the checksum, and the receiver does not
/// verify it.
const CHECKSUM_OFFLOADED: u8 = 1;

/// Changes one byte of a frame's TCP payload. Returns false if it has none.
pub(super) fn corrupt(frame: &mut [u8], dice: &mut StdRng) -> bool {
    let is_offloaded = frame.first().is_some_and(|flags| flags & CHECKSUM_OFFLOADED != 0);
    let Some((segment, payload)) = segment(frame) else { return false };
    let at = dice.random_range(payload..segment.len());
    let old_word = checksum_word(segment, at);
    segment[at] ^= 1 << dice.random_range(0..8);
    if !is_offloaded {
        let checksum = update_checksum(
            checksum_word(segment, CHECKSUM_OFFSET),
            old_word,
            checksum_word(segment, at),
        );
        segment[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    true
}

/// Returns a frame's TCP segment, and the offset of its payload. `None`: it has no payload.
fn segment(frame: &mut [u8]) -> Option<(&mut [u8], usize)> {
    let packet = frame.get_mut(VNET_HEADER_BYTES + ETHERNET_BYTES - 2..)?;
    let (ether_type, packet) = packet.split_at_mut_checked(2)?;
    let ip_header_bytes = usize::from(packet.first()? & 15) * 4;
    let ip_bytes = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    if ether_type != IPV4 || *packet.get(9)? != TCP {
        return None;
    }
    let segment = packet.get_mut(ip_header_bytes..ip_bytes)?;
    let payload = usize::from(segment.get(12)? >> 4) * 4;
    (payload > CHECKSUM_OFFSET && payload < segment.len()).then_some((segment, payload))
}

/// Returns the 16 bits in which the checksum counts a byte; an odd end is padded with zero.
fn checksum_word(segment: &[u8], at: usize) -> u16 {
    let at = at & !1;
    u16::from_be_bytes([segment[at], segment.get(at + 1).copied().unwrap_or(0)])
}

/// Updates a checksum after one 16-bit word has changed (RFC 1624).
fn update_checksum(checksum: u16, old_word: u16, new_word: u16) -> u16 {
    let checksum = u32::from(!checksum) + u32::from(!old_word) + u32::from(new_word);
    let checksum = (checksum & 0xffff) + (checksum >> 16);
    !((checksum & 0xffff) + (checksum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// Returns the checksum of a segment with its own field as zero, without the pseudo header.
    fn checksum_of(segment: &[u8]) -> u16 {
        let offsets = (0..segment.len()).step_by(2).filter(|at| *at != CHECKSUM_OFFSET);
        let mut all: u32 = offsets.map(|at| u32::from(checksum_word(segment, at))).sum();
        while all > 0xffff {
            all = (all & 0xffff) + (all >> 16);
        }
        !(all as u16)
    }

    /// Returns a frame with this many bytes of a stream.
    fn frame(bytes: usize) -> Vec<u8> {
        let mut frame = vec![0; VNET_HEADER_BYTES + ETHERNET_BYTES];
        frame[VNET_HEADER_BYTES + 12..].copy_from_slice(&IPV4);
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[9] = TCP;
        packet[20 + 12] = 5 << 4;
        packet.extend((0..bytes).map(|at| at as u8));
        let ip_bytes = packet.len() as u16;
        packet[2..4].copy_from_slice(&ip_bytes.to_be_bytes());
        let checksum = checksum_of(&packet[20..]);
        packet[20 + CHECKSUM_OFFSET..22 + CHECKSUM_OFFSET].copy_from_slice(&checksum.to_be_bytes());
        frame.extend(packet);
        frame
    }

    #[test]
    fn corrupted_frame_differs_in_one_byte_and_keeps_valid_checksum() {
        let mut dice = StdRng::seed_from_u64(1);
        let head = VNET_HEADER_BYTES + ETHERNET_BYTES + 20;
        for bytes in [1, 2, 7, 100, 1_447] {
            for _ in 0..50 {
                let (before, mut after) = (frame(bytes), frame(bytes));
                assert!(corrupt(&mut after, &mut dice));
                let changed = (head + 20..before.len()).filter(|at| before[*at] != after[*at]);
                assert_eq!(changed.count(), 1);
                assert_eq!(before[..head + CHECKSUM_OFFSET], after[..head + CHECKSUM_OFFSET]);
                assert_eq!(
                    checksum_word(&after[head..], CHECKSUM_OFFSET),
                    checksum_of(&after[head..]),
                    "{bytes}"
                );
            }
        }
    }

    #[test]
    fn frame_without_tcp_payload_is_not_corrupted() {
        let mut dice = StdRng::seed_from_u64(2);
        let mut cut = frame(9);
        cut.truncate(40);
        let mut other = frame(9);
        other[VNET_HEADER_BYTES + 12] = 0x86;
        for mut intact in [frame(0), cut, other, Vec::new()] {
            let before = intact.clone();
            assert!(!corrupt(&mut intact, &mut dice));
            assert_eq!(intact, before);
        }
    }
}
