//! Index from a delivery to the record that ended it. Every delivery ever created has an entry, so 256 of them share a
//! row, with six bytes each. The record contains the details.

use quorate_core::{DeliveryNo, Seq};

/// Number of deliveries per row.
const DELIVERIES_PER_CHUNK: u64 = 256;
/// Bytes per sequence number, which is below 2^47.
const SEQ_BYTES: usize = 6;

/// Returns the chunk (row) that contains a delivery.
pub(crate) fn chunk_of(number: DeliveryNo) -> u64 {
    number.0 / DELIVERIES_PER_CHUNK
}

fn offset(number: DeliveryNo) -> usize {
    (number.0 % DELIVERIES_PER_CHUNK) as usize * SEQ_BYTES
}

/// Stores the record that ended a delivery; 0 removes the entry.
pub(crate) fn set(seqs: &mut Vec<u8>, number: DeliveryNo, seq: Seq) {
    let offset = offset(number);
    if seqs.len() < offset + SEQ_BYTES {
        seqs.resize(offset + SEQ_BYTES, 0);
    }
    seqs[offset..offset + SEQ_BYTES].copy_from_slice(&seq.0.to_be_bytes()[8 - SEQ_BYTES..]);
}

/// Returns the record that ended a delivery; `None` if it has not ended.
pub(crate) fn get(seqs: &[u8], number: DeliveryNo) -> Option<Seq> {
    let offset = offset(number);
    let mut bytes = [0; 8];
    bytes[8 - SEQ_BYTES..].copy_from_slice(seqs.get(offset..offset + SEQ_BYTES)?);
    Some(Seq(u64::from_be_bytes(bytes))).filter(|seq| seq.0 > 0)
}

/// Iterates over the ended deliveries of a chunk, each with the record that ended it.
pub(crate) fn ended_in_chunk(chunk: u64, seqs: &[u8]) -> impl Iterator<Item = (DeliveryNo, Seq)> {
    let numbers = (chunk * DELIVERIES_PER_CHUNK..(chunk + 1) * DELIVERIES_PER_CHUNK).map(DeliveryNo);
    numbers.filter_map(|number| Some((number, get(seqs, number)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get_returns_only_entries_that_were_set() {
        let mut seqs = Vec::new();
        set(&mut seqs, DeliveryNo(300), Seq((1 << 47) - 1));
        set(&mut seqs, DeliveryNo(257), Seq(7));
        assert_eq!(get(&seqs, DeliveryNo(300)), Some(Seq((1 << 47) - 1)));
        assert_eq!(get(&seqs, DeliveryNo(257)), Some(Seq(7)));
        assert_eq!(get(&seqs, DeliveryNo(258)), None);
        assert_eq!(get(&seqs, DeliveryNo(511)), None);
        let found: Vec<_> = ended_in_chunk(1, &seqs).map(|(number, _)| number.0).collect();
        assert_eq!(found, [257, 300]);
        set(&mut seqs, DeliveryNo(300), Seq(0));
        assert_eq!(get(&seqs, DeliveryNo(300)), None);
    }
}
