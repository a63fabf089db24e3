//! Which record ended a delivery. There is one end for each delivery ever made, so they are kept 256 to a row, six bytes
//! each: the record says the rest.

use quorate_core::{DeliveryNo, Seq};

/// How many deliveries share a row.
const SHARED: u64 = 256;
/// Bytes of one sequence number: they stay below 2^47.
const WIDTH: usize = 6;

/// The row of a delivery.
pub(crate) fn chunk_of(number: DeliveryNo) -> u64 {
    number.0 / SHARED
}

fn place(number: DeliveryNo) -> usize {
    (number.0 % SHARED) as usize * WIDTH
}

/// Notes which record ended a delivery; 0 takes it back.
pub(crate) fn set(seqs: &mut Vec<u8>, number: DeliveryNo, seq: Seq) {
    let place = place(number);
    if seqs.len() < place + WIDTH {
        seqs.resize(place + WIDTH, 0);
    }
    seqs[place..place + WIDTH].copy_from_slice(&seq.0.to_be_bytes()[8 - WIDTH..]);
}

/// The record that ended a delivery, if one did.
pub(crate) fn get(seqs: &[u8], number: DeliveryNo) -> Option<Seq> {
    let place = place(number);
    let mut bytes = [0; 8];
    bytes[8 - WIDTH..].copy_from_slice(seqs.get(place..place + WIDTH)?);
    Some(Seq(u64::from_be_bytes(bytes))).filter(|seq| seq.0 > 0)
}

/// All deliveries of a row that ended, with the record that ended each.
pub(crate) fn all(chunk: u64, seqs: &[u8]) -> impl Iterator<Item = (DeliveryNo, Seq)> {
    let numbers = (chunk * SHARED..(chunk + 1) * SHARED).map(DeliveryNo);
    numbers.filter_map(|number| Some((number, get(seqs, number)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_found_and_nothing_else() {
        let mut seqs = Vec::new();
        set(&mut seqs, DeliveryNo(300), Seq((1 << 47) - 1));
        set(&mut seqs, DeliveryNo(257), Seq(7));
        assert_eq!(get(&seqs, DeliveryNo(300)), Some(Seq((1 << 47) - 1)));
        assert_eq!(get(&seqs, DeliveryNo(257)), Some(Seq(7)));
        assert_eq!(get(&seqs, DeliveryNo(258)), None);
        assert_eq!(get(&seqs, DeliveryNo(511)), None);
        let found: Vec<_> = all(1, &seqs).map(|(number, _)| number.0).collect();
        assert_eq!(found, [257, 300]);
        set(&mut seqs, DeliveryNo(300), Seq(0));
        assert_eq!(get(&seqs, DeliveryNo(300)), None);
    }
}
