//! Searches over logs that were written here, and over bytes that nobody wrote.

use std::{collections::BTreeMap, fs};

use limiter::local::Second;
use proptest::prelude::*;

use super::{
    super::{local_time::LocalTime, metric_log::MetricLog},
    *,
};

const FIRST: u64 = 1_700_000_000;
const FILE: &str = "a-metrics.log.2023-11-14";

/// What is counted of resources, by second.
type Seconds = BTreeMap<u64, Vec<(String, u64)>>;

struct Logged {
    dir: tempfile::TempDir,
    /// What was written, in order.
    all: Vec<(u64, String, u64)>,
}

impl Logged {
    fn new(seconds: &Seconds, file_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = BaseName::new("a", None);
        let mut log =
            MetricLog::new(dir.path().into(), base, LocalTime::utc(), (file_bytes, usize::MAX));
        let mut all = Vec::new();
        for (second, resources) in seconds {
            let counted: Vec<(&str, Second)> = resources
                .iter()
                .map(|(name, pass)| (&**name, Second { pass: *pass, ..Second::default() }))
                .collect();
            let lines: Vec<_> = counted.iter().map(|(name, counted)| (*name, 0, counted)).collect();
            log.write(*second, &lines).unwrap();
            all.extend(resources.iter().map(|(name, pass)| (*second, spelled(name).into(), *pass)));
        }
        Self { dir, all }
    }

    fn search(&self) -> MetricSearch {
        MetricSearch::new(self.dir.path(), "a", None)
    }

    fn between(&self, begin: u64, end: u64, name: Option<&str>) -> Vec<(u64, String, u64)> {
        shape(&self.search().find_between(begin * 1_000, end * 1_000 + 999, name).unwrap())
    }
}

fn shape(lines: &[MetricLine]) -> Vec<(u64, String, u64)> {
    lines.iter().map(|line| (line.second(), line.resource.to_string(), line.pass)).collect()
}

/// Three seconds of two resources.
fn three() -> Logged {
    let second = |n| vec![("a".to_owned(), n), ("b".to_owned(), n + 1)];
    let seconds = [(FIRST, second(1)), (FIRST + 1, second(3)), (FIRST + 5, second(5))];
    Logged::new(&seconds.into(), 1 << 20)
}

#[test]
fn a_span_includes_both_ends_and_a_resource_is_that_one_only() {
    let log = three();
    assert_eq!(log.between(FIRST, FIRST + 5, None), log.all);
    assert_eq!(log.between(0, u64::MAX / 2_000, None), log.all);
    assert_eq!(log.between(FIRST + 1, FIRST + 1, None), log.all[2..4]);
    assert_eq!(log.between(FIRST + 2, FIRST + 4, None), []);
    assert_eq!(log.between(FIRST + 2, FIRST + 5, Some("b")), log.all[5..]);
    assert_eq!(log.between(FIRST + 5, FIRST, None), []);
}

#[test]
fn some_lines_are_those_and_the_rest_of_their_last_second() {
    let log = three();
    let find = |begin: u64, lines| shape(&log.search().find(begin * 1_000, lines).unwrap());
    assert_eq!(find(FIRST, 0), []);
    assert_eq!(find(FIRST, 1), log.all[..2]);
    assert_eq!(find(FIRST, 2), log.all[..2]);
    assert_eq!(find(FIRST, 3), log.all[..4]);
    assert_eq!(find(FIRST + 2, 9), log.all[4..]);
    assert_eq!(find(FIRST + 6, 9), []);
    assert_eq!(find(0, usize::MAX), log.all);
}

#[test]
fn an_answer_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let put = |seconds: &[u64], name: &str, lines: usize| {
        let lines = |second| format!("{second}000|x|{name}|1|0|1|0|5|0|0|0\n").repeat(lines);
        let text: String = seconds.iter().map(lines).collect();
        fs::write(dir.path().join(FILE), text).unwrap();
    };
    let search = MetricSearch::new(dir.path(), "a", None);
    let between = || search.find_between(0, u64::MAX, None).unwrap().len();
    put(&[FIRST, FIRST + 1], "r", 60_000);
    let some = search.find(0, usize::MAX).unwrap().len();
    assert_eq!(some, 60_000, "twelve thousand, and the rest of the second");
    assert_eq!(between(), LINES_MAX);
    put(&[FIRST], &"x".repeat(60_000), 1_200);
    assert_eq!(between(), BYTES_MAX / (60_000 + size_of::<MetricLine>()));
}

#[test]
fn a_line_without_an_end_is_not_there_yet() {
    let log = three();
    let path = log.dir.path().join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    // The last number lacks nothing but its line's end; or nearly all of the line.
    for cut in [1, 3, 40] {
        bytes.truncate(bytes.len() - cut);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(log.between(FIRST, FIRST + 5, None), log.all[..5], "{cut}");
    }
}

#[test]
fn whatever_the_index_says_no_line_is_lost_but_what_it_hides_by_a_place_behind_it() {
    let log = three();
    let path = log.dir.path().join(format!("{FILE}.idx"));
    let whole = fs::read(&path).unwrap();
    let odd = [
        Vec::new(),
        whole[..20].into(),
        vec![0xff; 64],
        vec![0; 64],
        // Into the middle of a line; beyond the end.
        index::record(FIRST, 7).into(),
        index::record(FIRST, 1 << 40).into(),
    ];
    for bytes in odd {
        fs::write(&path, &bytes).unwrap();
        assert_eq!(log.between(FIRST + 1, FIRST + 5, None), log.all[2..], "{bytes:?}");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(log.between(FIRST, FIRST + 5, None), log.all);
}

#[test]
fn what_is_no_line_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let line = |second: u64| format!("{second}000|x|r|1|0|1|0|5|0|0|0\n").into_bytes();
    let mut bytes = b"\n|||\nno line\n\xff\xfe|x|r|1|0|1|0|5\n".to_vec();
    bytes.extend(line(FIRST));
    bytes.extend([b'x'; 200_000]);
    bytes.push(b'\n');
    // Of another system, and of an earlier second.
    bytes.extend_from_slice(&line(FIRST + 1)[..line(FIRST + 1).len() - 1]);
    bytes.extend(b"\r\n");
    bytes.extend(line(FIRST - 1));
    bytes.extend(line(FIRST + 2));
    bytes.extend([b'y'; 70_000]);
    fs::write(dir.path().join(FILE), bytes).unwrap();
    let search = MetricSearch::new(dir.path(), "a", None);
    let found = search.find(FIRST * 1_000, 100).unwrap();
    let seconds: Vec<u64> = found.iter().map(MetricLine::second).collect();
    assert_eq!(seconds, [FIRST, FIRST + 1, FIRST + 2]);
}

#[test]
fn the_first_second_of_a_file_is_found_though_sentinel_has_no_index_for_it() {
    // As it was recorded: the first second of the second day is in the index of the first.
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    let days = [
        "1700000001000|2023-11-14 22:13:21|a|1|0|1|1|12|0|3|1\n",
        "1700006400000|2023-11-15 00:00:00|nextday|7|0|7|1|12|0|3|1\n\
         1700006401000|2023-11-15 00:00:01|nextday2|8|0|8|1|12|0|3|1\n",
    ];
    put(FILE, days[0].as_bytes());
    let first = [index::record(1_700_000_001, 0), index::record(1_700_006_400, 53)];
    put(&format!("{FILE}.idx"), &first.concat());
    put("a-metrics.log.2023-11-15", days[1].as_bytes());
    put("a-metrics.log.2023-11-15.idx", &index::record(1_700_006_401, 59));
    let search = MetricSearch::new(dir.path(), "a", None);
    for (begin, found) in
        [(1_700_000_000, 3), (1_700_000_002, 2), (1_700_006_400, 2), (1_700_006_401, 1)]
    {
        assert_eq!(search.find(begin * 1_000, 100).unwrap().len(), found, "{begin}");
    }
}

#[test]
fn there_is_nothing_where_there_is_no_log() {
    let search = MetricSearch::new("no such folder", "a", None);
    assert_eq!(search.find(0, 100).unwrap(), []);
    assert_eq!(search.find_between(0, u64::MAX, Some("r")).unwrap(), []);
}

fn seconds() -> impl Strategy<Value = Seconds> {
    let name = prop_oneof![Just("a".to_owned()), Just("b|c\n1".to_owned()), ".{0,40}"];
    let resources = prop::collection::vec((name, any::<u64>()), 1..5);
    prop::collection::btree_map(FIRST..FIRST + 40, resources, 0..20)
}

proptest! {
    /// However the files are cut.
    #[test]
    fn what_is_written_is_found(
        seconds in seconds(),
        file_bytes in 1_u64..2_000,
        (begin, end) in (FIRST - 1..FIRST + 42, FIRST - 1..FIRST + 42),
        lines in 0_usize..30,
    ) {
        let log = Logged::new(&seconds, file_bytes);
        let of = |name: Option<&str>| -> Vec<_> {
            let is_it = |(second, resource, _): &&(u64, String, u64)| {
                (begin..=end).contains(second) && name.is_none_or(|name| spelled(name) == *resource)
            };
            log.all.iter().filter(is_it).cloned().collect()
        };
        prop_assert_eq!(log.between(begin, end, None), of(None));
        prop_assert_eq!(log.between(begin, end, Some("b|c\n1")), of(Some("b|c\n1")));
        let after: Vec<_> = log.all.iter().filter(|line| line.0 >= begin).collect();
        let last = lines.checked_sub(1).and_then(|last| after.get(last).or(after.last()));
        let until = last.map_or(0, |last| last.0);
        let some: Vec<_> = after.into_iter().filter(|line| line.0 <= until).cloned().collect();
        prop_assert_eq!(shape(&log.search().find(begin * 1_000, lines).unwrap()), some);
    }

    #[test]
    fn no_bytes_make_a_search_fail(
        log in prop::collection::vec(any::<u8>(), 0..300),
        index in prop::collection::vec(any::<u8>(), 0..100),
        begin in any::<u64>(),
        end in any::<u64>(),
        lines in any::<usize>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), log).unwrap();
        fs::write(dir.path().join(format!("{FILE}.idx")), index).unwrap();
        let search = MetricSearch::new(dir.path(), "a", None);
        search.find(begin, lines).unwrap();
        search.find_between(begin, end, None).unwrap();
    }

    /// Bytes of a log's own alphabet come closer to being lines.
    #[test]
    fn a_log_with_any_byte_changed_gives_lines_of_the_span_only(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        in_index in any::<bool>(),
        begin in FIRST..FIRST + 6,
    ) {
        let log = three();
        let ending = if in_index { ".idx" } else { "" };
        let path = log.dir.path().join(format!("{FILE}{ending}"));
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        fs::write(&path, bytes).unwrap();
        let found = log.between(begin, begin + 2, None);
        prop_assert!(found.len() <= log.all.len());
        prop_assert!(found.iter().all(|line| (begin..=begin + 2).contains(&line.0)));
    }
}
