//! The bytes of a snapshot.
//!
//! ```text
//! +------------+--------------+------------------------+
//! | magic (8)  | version u16  | saved at u64           |  nanoseconds since the epoch
//! +------------+--------------+------------------------+
//! | length u32 | record (length bytes)                 |  once a record; the length is never 0
//! +------------+---------------------------------------+
//! | 0 u32      | records u64  | CRC-32 u32             |  of all bytes before it; the last ones
//! +------------+--------------+------------------------+
//! ```
//!
//! Numbers are little-endian. A record is what `bincode` 2 writes with its standard settings. That
//! crate is unmaintained (RUSTSEC-2025-0141, which knows of no fault in it). It is used all the
//! same, in this module only and in exactly this version, because its format is small, fixed and
//! described, and because nothing reaches it that another program made: only what passed the
//! checksum is decoded, and never more than [`DECODED_LEN_MAX`]. Should it have to go, `wincode`
//! with its varint setting writes the same bytes.

use std::io::{self, Read, Write};

use bincode::{config, serde::decode_from_slice, serde::encode_into_std_write};
use crc32fast::Hasher;
use limiter::{Record, Tick};

const MAGIC: [u8; 8] = *b"TOLLGATE";

/// Of everything behind the magic. It rises with every change of the layout, and with every change
/// of what [`Record`] holds; `the_bytes_are_those_of_the_version` notices one.
///
/// In version 1 a sliding log listed each of its tokens.
const VERSION: u16 = 2;

/// Longest record. The engine ends one with the value that makes it 64 KiB, and the longest log is
/// 160 KB, as are 4 096 leases: only a value with a text of its own size is longer.
pub(super) const RECORD_LEN_MAX: usize = 1 << 20;

/// What is kept of the buffer for records from one to the next.
const BUFFER_KEPT: usize = 1 << 18;

/// Most that a record may be when it is decoded: `bincode` counts a number as if it were written
/// whole, which is 16 bytes for one at most.
const DECODED_LEN_MAX: usize = 16 * RECORD_LEN_MAX;

const BINCODE: config::Configuration<
    config::LittleEndian,
    config::Varint,
    config::Limit<DECODED_LEN_MAX>,
> = config::standard().with_limit::<DECODED_LEN_MAX>();

/// Why bytes are no snapshot that can be restored.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("it does not begin as a snapshot does")]
    Magic,
    #[error("its format is version {0}; this program reads version {VERSION}")]
    Newer(u16),
    #[error("its format is version {0}, of before; this program reads version {VERSION}")]
    Older(u16),
    #[error("its format is version {0}, which never was")]
    Version(u16),
    #[error("it ends too early")]
    Truncated,
    #[error("it has a record of {0} bytes, more than {RECORD_LEN_MAX}")]
    RecordTooLong(u32),
    #[error("its checksum is wrong")]
    Checksum,
    #[error("it has {found} records and says {said}")]
    Count { found: u64, said: u64 },
    #[error("it has bytes behind its end")]
    Trailing,
    #[error("record {number} means nothing: {source}")]
    Record { number: u64, source: bincode::error::DecodeError },
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Records that are too long, and so not among the others.
    pub(super) left_out: u64,
}

/// Writes a snapshot, holding one record at a time.
#[derive(Debug)]
pub(super) struct Writer<W> {
    to: W,
    crc: Hasher,
    record: Vec<u8>,
    longest: usize,
    written: Written,
}

impl<W: Write> Writer<W> {
    pub(super) fn begin(to: W, saved_at: Tick) -> io::Result<Self> {
        let (crc, record, written) = (Hasher::new(), Vec::new(), Written::default());
        let mut writer = Self { to, crc, record, longest: RECORD_LEN_MAX, written };
        writer.put(&MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        writer.put(&saved_at.0.to_le_bytes())?;
        Ok(writer)
    }

    pub(super) fn record(&mut self, record: &Record) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.record);
        bytes.clear();
        encode_into_std_write(record, &mut bytes, BINCODE).map_err(io::Error::other)?;
        match u32::try_from(bytes.len()) {
            Ok(len) if bytes.len() <= self.longest => {
                self.put(&len.to_le_bytes())?;
                self.put(&bytes)?;
                self.written.records += 1;
            }
            _ => self.written.left_out += 1,
        }
        bytes.shrink_to(BUFFER_KEPT);
        self.record = bytes;
        Ok(())
    }

    /// Without it what was written is no snapshot.
    pub(super) fn end(mut self) -> io::Result<(W, Written)> {
        self.put(&0_u32.to_le_bytes())?;
        self.put(&self.written.records.to_le_bytes())?;
        let crc = self.crc.clone().finalize();
        self.put(&crc.to_le_bytes())?;
        Ok((self.to, self.written))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.written.bytes += bytes.len() as u64;
        self.to.write_all(bytes)
    }
}

/// Reads a snapshot, holding one record at a time. That it is whole is known at its end only.
#[derive(Debug)]
pub(super) struct Reader<R> {
    from: R,
    crc: Hasher,
    record: Vec<u8>,
    records: u64,
    saved_at: Tick,
}

impl<R: Read> Reader<R> {
    pub(super) fn begin(from: R) -> Result<Self, Unreadable> {
        let (crc, record) = (Hasher::new(), Vec::new());
        let mut reader = Self { from, crc, record, records: 0, saved_at: Tick(0) };
        if reader.take()? != MAGIC {
            return Err(Unreadable::Magic);
        }
        match u16::from_le_bytes(reader.take()?) {
            VERSION => {}
            newer if newer > VERSION => return Err(Unreadable::Newer(newer)),
            older @ 1.. => return Err(Unreadable::Older(older)),
            unknown => return Err(Unreadable::Version(unknown)),
        }
        reader.saved_at = Tick(u64::from_le_bytes(reader.take()?));
        Ok(reader)
    }

    pub(super) fn saved_at(&self) -> Tick {
        self.saved_at
    }

    /// Reads to the end, which tells whether it is a whole snapshot.
    pub(super) fn verify(mut self) -> Result<(), Unreadable> {
        while self.next_bytes()? {}
        Ok(())
    }

    /// The next record, or `None` behind the last one.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Unreadable> {
        if !self.next_bytes()? {
            return Ok(None);
        }
        let number = self.records;
        match decode_from_slice(&self.record, BINCODE) {
            Ok((record, used)) if used == self.record.len() => Ok(Some(record)),
            Ok(_) => {
                let source = bincode::error::DecodeError::Other("bytes behind its end");
                Err(Unreadable::Record { number, source })
            }
            Err(source) => Err(Unreadable::Record { number, source }),
        }
    }

    /// Reads the bytes of the next record; false at the end, which is looked at then.
    fn next_bytes(&mut self) -> Result<bool, Unreadable> {
        let len = u32::from_le_bytes(self.take()?);
        if len == 0 {
            return self.end().map(|()| false);
        }
        if len as usize > RECORD_LEN_MAX {
            return Err(Unreadable::RecordTooLong(len));
        }
        // Grows with what is there, not with what was announced.
        self.record.clear();
        self.record.shrink_to(BUFFER_KEPT);
        self.from.by_ref().take(len.into()).read_to_end(&mut self.record)?;
        if self.record.len() < len as usize {
            return Err(Unreadable::Truncated);
        }
        self.crc.update(&self.record);
        self.records += 1;
        Ok(true)
    }

    fn end(&mut self) -> Result<(), Unreadable> {
        let (said, found) = (u64::from_le_bytes(self.take()?), self.records);
        let crc = self.crc.clone().finalize();
        if u32::from_le_bytes(self.take()?) != crc {
            return Err(Unreadable::Checksum);
        }
        if said != found {
            return Err(Unreadable::Count { found, said });
        }
        if self.from.read(&mut [0])? > 0 { Err(Unreadable::Trailing) } else { Ok(()) }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Unreadable::Truncated,
            _ => Unreadable::Io(error),
        })?;
        self.crc.update(&bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use limiter::{ClusterEngine, Param, Settings, rule};
    use proptest::prelude::*;

    use super::*;

    const NOW: Tick = Tick::from_ms(1_700_000_000_000);

    const RULES: &str = r#"[
        {"resource": "r", "count": 5, "clusterMode": true, "controlBehavior": 1,
         "clusterConfig": {"flowId": 11, "thresholdType": 1}},
        {"resource": "r", "count": 5, "clusterMode": true, "controlBehavior": 2,
         "clusterConfig": {"flowId": 12, "thresholdType": 1}},
        {"resource": "r", "count": 5, "clusterMode": true, "controlBehavior": 3,
         "clusterConfig": {"flowId": 13, "thresholdType": 1}},
        {"resource": "r", "count": 5, "clusterMode": true,
         "clusterConfig": {"flowId": 14, "thresholdType": 1, "algorithm": "fixedWindow"}},
        {"resource": "r", "count": 5, "clusterMode": true,
         "clusterConfig": {"flowId": 15, "thresholdType": 1, "calendar": "day"}},
        {"resource": "r", "count": 5, "clusterMode": true,
         "clusterConfig": {"flowId": 16, "thresholdType": 1, "algorithm": "slidingLog"}},
        {"resource": "r", "count": 5, "clusterMode": true,
         "clusterConfig": {"flowId": 17, "thresholdType": 1, "algorithm": "tokenBucket"}},
        {"resource": "r", "count": 5, "clusterMode": true,
         "clusterConfig": {"flowId": 18, "thresholdType": 1,
                           "lease": {"maxTokens": 3, "ttlMs": 500}}},
        {"resource": "hot", "count": 5, "paramIdx": 0, "clusterMode": true,
         "clusterConfig": {"flowId": 21, "thresholdType": 1}},
        {"resource": "hot", "count": 5, "paramIdx": 0, "clusterMode": true,
         "clusterConfig": {"flowId": 22, "thresholdType": 1, "algorithm": "gcra"}}
    ]"#;

    /// What an engine with some use of each kind saves.
    fn records() -> Vec<Record> {
        // One value, and one that shares the counter of all others.
        let engine = ClusterEngine::new(Settings { values_max: 1, ..Settings::default() });
        let parsed = rule::parse(RULES, "test", "default", rule::Contents::Mixed, true).unwrap();
        engine.replace(rule::merge(vec![parsed]).unwrap()).unwrap();
        let rules = engine.rules();
        for id in 11..=18 {
            rules.acquire_flow(NOW, id, 1, false).unwrap();
        }
        rules.lease(NOW, 18, 3, None).unwrap().unwrap();
        for id in [21, 22] {
            rules.acquire_param(NOW, id, 2, [Param::Str("käse".into())]).unwrap();
            rules.acquire_param(NOW, id, 2, [Param::Int(-7)]).unwrap();
        }
        let mut records = Vec::new();
        let keep = |record| {
            records.push(record);
            Ok::<_, ()>(())
        };
        engine.save(NOW, keep).unwrap();
        assert_eq!(records.len(), 12);
        // The engine gives them in no order.
        records.sort_by_key(|record| format!("{record:?}"));
        records
    }

    fn written(records: &[Record]) -> Vec<u8> {
        let mut writer = Writer::begin(Vec::new(), NOW).unwrap();
        records.iter().for_each(|record| writer.record(record).unwrap());
        let (bytes, written) = writer.end().unwrap();
        let len = bytes.len() as u64;
        let expected = Written { records: records.len() as u64, bytes: len, left_out: 0 };
        assert_eq!(written, expected);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(Tick, Vec<Record>), Unreadable> {
        Reader::begin(bytes)?.verify()?;
        let (mut reader, mut records) = (Reader::begin(bytes)?, Vec::new());
        while let Some(record) = reader.next()? {
            records.push(record);
        }
        Ok((reader.saved_at(), records))
    }

    #[test]
    fn what_was_written_is_read() {
        let records = records();
        for records in [&records[..], &records[..1], &[]] {
            assert_eq!(read(&written(records)).unwrap(), (NOW, records.to_vec()));
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_left_out_and_counted() {
        let records = records();
        let len = |record| bincode::serde::encode_to_vec(record, BINCODE).unwrap().len();
        let mut writer = Writer::begin(Vec::new(), NOW).unwrap();
        writer.longest = records.iter().map(len).max().unwrap() - 1;
        records.iter().for_each(|record| writer.record(record).unwrap());
        let (bytes, written) = writer.end().unwrap();
        assert_eq!((written.records, written.left_out), (11, 1));
        assert_eq!(read(&bytes).unwrap().1.len(), 11);
    }

    /// With other bytes here, files of before would be read wrongly: [`VERSION`] must rise.
    #[test]
    fn the_bytes_are_those_of_the_version() {
        let hex = |record: &[u8]| record.iter().map(|byte| format!("{byte:02x}")).collect();
        let bytes = |record| bincode::serde::encode_to_vec(record, BINCODE).unwrap();
        let found: Vec<String> = records().iter().map(|record| hex(&bytes(record))).collect();
        assert_eq!(
            found,
            [
                "001601fbe8030afd00e11f3cfe9c97170001000132fd00cac471fe9c971732000100",
                "00180701fd00002a36fe9c971701fd00002a36fe9c971700",
                "001a0932fd00cac471fe9c971732000101fd00002a36fe9c971701fd00002a36fe9c971700",
                "001c02fc00ca9a3bfd00002a36fe9c97170100",
                "001e03fd000095c23b549717fd0000e453d0a297170100",
                "002005fc00ca9a3bfd00002a36fe9c97170001fd00002a36fe9c97170100",
                "002206fc00c2eb0bfd00002a36fe9c9717fc00c2eb0b00",
                "002400fbe8030afd00e11f3cfe9c97170001000101fd0000546cfc392f2ffd0065f753fe9c971702",
                "022a00fbe8030afd00e11f3cfe9c971700010002",
                "022c06fc00c2eb0bfd00002a36fe9c9717fc0084d717",
                "012a0101056bc3a4736500fbe8030afd00e11f3cfe9c971700010002",
                "012c0101056bc3a4736506fc00c2eb0bfd00002a36fe9c9717fc0084d717",
            ]
        );
    }

    #[test]
    fn every_flipped_bit_and_every_byte_too_few_or_too_many_is_noticed() {
        let bytes = written(&records());
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at]).is_err(), "cut at {at}");
            for flip in 1..=255 {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let verdict = Reader::begin(&damaged[..]).and_then(Reader::verify);
                assert!(verdict.is_err(), "byte {at} ^ {flip}");
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(read(&longer), Err(Unreadable::Trailing)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = written(&records());
        let with = |at: usize, bytes: &[u8]| {
            let mut damaged = good.clone();
            damaged[at..at + bytes.len()].copy_from_slice(bytes);
            read(&damaged).unwrap_err().to_string()
        };
        assert_eq!(with(0, b"P"), "it does not begin as a snapshot does");
        assert_eq!(with(8, &[3, 0]), "its format is version 3; this program reads version 2");
        let older = "its format is version 1, of before; this program reads version 2";
        assert_eq!(with(8, &[1, 0]), older);
        assert_eq!(with(8, &[0, 0]), "its format is version 0, which never was");
        assert_eq!(with(10, &[7]), "its checksum is wrong");
        // A length of four gigabytes takes no memory at all.
        assert!(with(18, &[0xff; 4]).starts_with("it has a record of 4294967295 bytes"));
        assert_eq!(with(18, &[0xff, 0xff, 0x0f, 0]), "it ends too early");
        assert_eq!(read(b"").unwrap_err().to_string(), "it ends too early");
    }

    /// A file with a right checksum, made by a program that means something else by a record.
    fn with_record(record: &[u8], said: u64) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &NOW.0.to_le_bytes()].concat();
        bytes.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
        bytes.extend(record);
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(said.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    #[test]
    fn records_that_mean_nothing_are_noticed_though_the_checksum_is_right() {
        let error = |record: &[u8], said| read(&with_record(record, said)).unwrap_err();
        assert!(matches!(error(&[99, 1, 2], 1), Unreadable::Record { number: 1, .. }));
        let count = error(&[99, 1, 2], 2);
        assert!(matches!(count, Unreadable::Count { found: 1, said: 2 }), "{count}");
        let good = written(&records()[..1]);
        let record = [&good[22..good.len() - 16], &[0]].concat();
        let error = error(&record, 1);
        assert!(error.to_string().contains("bytes behind its end"), "{error}");
    }

    proptest! {
        /// Whatever a record holds, decoding it neither panics nor takes more memory than it may.
        #[test]
        fn no_record_is_too_odd(record in prop::collection::vec(any::<u8>(), 1..200)) {
            let _either_way = read(&with_record(&record, 1));
        }

        #[test]
        fn no_file_is_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read(&bytes).is_err());
            prop_assert!(read(&[&written(&[])[..18], &bytes].concat()).is_err());
        }
    }
}
