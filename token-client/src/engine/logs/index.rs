//! The index beside a file of a metric log: where each second begins (`MetricWriter.java`,
//! `writeIndex`). A record is two big-endian numbers of eight bytes: second and offset.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

const RECORD: usize = 16;

/// The record of a second.
pub(super) fn record(second: u64, offset: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    let (left, right) = record.split_at_mut(8);
    left.copy_from_slice(&second.to_be_bytes());
    right.copy_from_slice(&offset.to_be_bytes());
    record
}

/// Where to begin to read a log of `len` bytes to find everything from `second` on: at the last
/// record that is not later, or at the start. So nothing is lost by an index that is missing, cut
/// off or behind, as Sentinel's is for the second of a file's making and for the first of a day.
/// It is believed as far as it goes up.
pub(super) fn begin(index: &Path, second: u64, len: u64) -> u64 {
    let Ok(file) = File::open(index) else { return 0 };
    let mut records = BufReader::new(file);
    let (mut last, mut begin) = (None, 0);
    let mut record = [0; RECORD];
    while records.read_exact(&mut record).is_ok() {
        let (left, right) = record.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(u64::MAX, u64::from_be_bytes);
        let (at, offset) = (number(left), number(right));
        if at > second || last.is_some_and(|last| at <= last) || offset < begin || offset > len {
            break;
        }
        (last, begin) = (Some(at), offset);
    }
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(records: &[(u64, u64)], tail: &[u8], second: u64) -> u64 {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = Vec::new();
        for (second, offset) in records {
            bytes.extend(record(*second, *offset));
        }
        bytes.extend(tail);
        std::fs::write(file.path(), bytes).unwrap();
        begin(file.path(), second, 1_000)
    }

    #[test]
    fn a_record_is_what_sentinel_writes() {
        let recorded = 0x0000_0000_6553_f102_0000_0000_0000_009f_u128;
        assert_eq!(record(1_700_000_002, 159), recorded.to_be_bytes());
    }

    #[test]
    fn reading_begins_at_the_last_second_that_is_not_later() {
        let records = [(10, 0), (11, 100), (13, 200)];
        for (second, offset) in
            [(0, 0), (9, 0), (10, 0), (11, 100), (12, 100), (13, 200), (99, 200)]
        {
            assert_eq!(found(&records, &[], second), offset, "{second}");
        }
    }

    #[test]
    fn an_index_is_believed_as_far_as_it_goes_up() {
        assert_eq!(found(&[(10, 0), (11, 100)], &[0; 15], 99), 100, "cut off");
        assert_eq!(found(&[(10, 0), (11, 1_001)], &[], 99), 0, "beyond the end");
        assert_eq!(found(&[(10, 50), (9, 100)], &[], 99), 50, "backwards");
        assert_eq!(found(&[(10, 50), (11, 49)], &[], 99), 50, "backwards");
        assert_eq!(found(&[], &[0xff; 64], 99), 0, "no index");
        assert_eq!(begin(Path::new("no such file"), 99, 1_000), 0);
    }
}
