//! Counters that outlive the process, seen from outside: five a day are not five again after a
//! restart.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bytes::BytesMut;
use limiter::{Clock, MonotonicClock};
use protocol::{Param, encode_param_request};
use support::{
    Process, Wire, eventually, flow_request, flow_rule, server, status::*, token_server,
};

/// Flows of five tokens a day: a window, and a day of the calendar.
const WINDOW: u64 = 1;
const CALENDAR: u64 = 2;
/// A hot-parameter rule of the same.
const HOT: i64 = 3;
/// A flow with plenty.
const PLENTY: u64 = 4;

/// A folder with a configuration, rules and perhaps a snapshot.
struct Scene {
    folder: tempfile::TempDir,
    snapshot: PathBuf,
}

impl Scene {
    /// Snapshots are written every `interval` seconds.
    fn new(interval: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let snapshot = folder.path().join("counters");
        let a_day = r#","thresholdUnit":"window","windowIntervalMs":86400000,"sampleCount":24"#;
        let calendar = format!(r#","calendar":"day","timeZone":"{}""#, zone_at_daytime());
        let hot = format!(
            r#"{{"resource":"hot","paramIdx":0,"count":5,"clusterMode":true,
                 "clusterConfig":{{"flowId":{HOT},"thresholdType":1{a_day}}}}}"#
        );
        let rules =
            [flow_rule(1, 5.0, a_day), flow_rule(2, 5.0, &calendar), hot, flow_rule(4, 1e9, "")];
        fs::write(folder.path().join("rules.json"), format!("[{}]", rules.join(","))).unwrap();
        let scene = Self { folder, snapshot };
        scene.configure(interval, 10_000);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, interval: u32, drain_ms: u32) {
        let text = format!(
            "rules = {:?}\nsnapshot = {:?}\nsnapshot_interval = {interval}\n\
             drain_ms = {drain_ms}\nmax_allowed_qps = \"off\"\n",
            self.path("rules.json"),
            self.snapshot,
        );
        fs::write(self.path("server.toml"), text).unwrap();
    }

    fn start(&self) -> (Process, Wire) {
        let server = server(&["--config", self.path("server.toml").to_str().unwrap()]);
        let wire = Wire::connect(server.token.unwrap());
        (server, wire)
    }
}

/// A time zone in which no day ends for hours.
fn zone_at_daytime() -> &'static str {
    let hour = MonotonicClock::start().now().ms() / 3_600_000 % 24;
    if (6..18).contains(&hour) { "UTC" } else { "Etc/GMT+12" }
}

/// How many of `times` requests for one token of a hot value pass.
fn passes_of(wire: &mut Wire, value: &str, times: usize) -> usize {
    let mut bytes = BytesMut::new();
    for _ in 0..times {
        let params = [Param::Str(value.into())];
        encode_param_request(7, HOT, 1, &params, &mut bytes).unwrap();
    }
    wire.send(&bytes);
    let answers = wire.receive(times * 16);
    answers.chunks(16).filter(|answer| answer[7].cast_signed() == OK).count()
}

fn written(server: &Process) -> f64 {
    server.metric("tollgate_snapshot_writes_total{result=\"ok\"}").unwrap()
}

/// Waits until a snapshot was begun and finished.
fn wait_for_snapshot(server: &Process) {
    // One may be under way now.
    let enough = written(server) + 2.0;
    eventually("a snapshot", || written(server) >= enough);
}

/// The names of files beside the snapshot.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with("counters"));
    names.sort();
    names
}

#[test]
fn five_a_day_are_not_five_again_after_a_clean_restart() {
    // Only the snapshot at the end can have it.
    let scene = Scene::new(3_600);
    let (mut first, mut wire) = scene.start();
    assert_eq!([wire.passes(WINDOW, 9), wire.passes(CALENDAR, 9)], [5, 5]);
    assert_eq!([passes_of(&mut wire, "a", 9), passes_of(&mut wire, "b", 3)], [5, 3]);
    drop(wire);
    first.signal("TERM");
    assert_eq!(first.ended().code(), Some(0), "{}", first.log());
    first.has_logged("counters are saved");

    let (second, mut wire) = scene.start();
    second.has_logged("counters are restored");
    assert_eq!([wire.passes(WINDOW, 9), wire.passes(CALENDAR, 9)], [0, 0]);
    assert_eq!([passes_of(&mut wire, "a", 9), passes_of(&mut wire, "b", 9)], [0, 2]);
    assert_eq!(passes_of(&mut wire, "c", 9), 5);
    assert_eq!(names(scene.folder.path()), ["counters", "counters.lock"]);
}

#[test]
fn a_killed_process_forgets_what_was_taken_since_its_last_snapshot_and_nothing_else() {
    let scene = Scene::new(1);
    let (first, mut wire) = scene.start();
    let taken = [wire.passes(WINDOW, 3), wire.passes(CALENDAR, 3), passes_of(&mut wire, "a", 3)];
    assert_eq!(taken, [3, 3, 3]);
    wait_for_snapshot(&first);
    drop(first);

    // From now on there is none within the test.
    scene.configure(3_600, 10_000);
    let (second, mut wire) = scene.start();
    let taken = [wire.passes(WINDOW, 9), wire.passes(CALENDAR, 1), passes_of(&mut wire, "a", 9)];
    assert_eq!(taken, [2, 1, 2]);
    drop(second);
    let (_third, mut wire) = scene.start();
    let taken = [wire.passes(WINDOW, 9), wire.passes(CALENDAR, 9), passes_of(&mut wire, "a", 9)];
    assert_eq!(taken, [2, 2, 2], "as the last snapshot was");
}

#[test]
fn a_shutdown_that_cuts_connections_off_saves_the_counters_too() {
    for signals in [1, 2] {
        let scene = Scene::new(3_600);
        // One that is soon over, and one that only a second signal ends.
        scene.configure(3_600, if signals == 1 { 1 } else { 86_400_000 });
        let (mut first, mut wire) = scene.start();
        assert_eq!(wire.passes(WINDOW, 9), 5);
        let requests = (1..=5_000).flat_map(|xid| flow_request(xid, PLENTY, 1, false));
        wire.stuff(&requests.collect::<Vec<u8>>());
        first.signal("TERM");
        if signals == 2 {
            first.has_logged("no longer accepting");
            first.signal("TERM");
        }
        assert_eq!(first.ended().code(), Some(3), "{}", first.log());
        first.has_logged("counters are saved");
        let (_second, mut wire) = scene.start();
        assert_eq!(wire.passes(WINDOW, 9), 0);
    }
}

#[test]
fn a_damaged_snapshot_and_a_newer_one_are_set_aside_and_the_server_starts() {
    let scene = Scene::new(3_600);
    let (mut first, mut wire) = scene.start();
    assert_eq!(wire.passes(WINDOW, 9), 5);
    drop(wire);
    first.signal("TERM");
    assert_eq!(first.ended().code(), Some(0));
    let good = fs::read(&scene.snapshot).unwrap();
    for (name, bytes) in [
        ("counters.damaged-1", good[..good.len() / 2].to_vec()),
        ("counters.newer-1", [&good[..8], &[7, 0], &good[10..]].concat()),
        ("counters.damaged-2", Vec::new()),
    ] {
        fs::write(&scene.snapshot, &bytes).unwrap();
        let (server, mut wire) = scene.start();
        assert_eq!(wire.passes(WINDOW, 9), 5, "counters start empty");
        let named = |line: &str| line.contains("WARN") && line.contains(name);
        eventually("the file is named", || server.log().lines().any(named));
        assert_eq!(fs::read(scene.path(name)).unwrap(), bytes);
        drop(server);
    }
    // It was not lost: put back, it counts.
    fs::write(&scene.snapshot, &good).unwrap();
    let (_server, mut wire) = scene.start();
    assert_eq!(wire.passes(WINDOW, 9), 0);
}

#[test]
fn a_second_server_over_the_same_file_is_refused_with_the_key_and_the_first_serves_on() {
    let scene = Scene::new(3_600);
    let (_first, mut wire) = scene.start();
    let mut second = token_server();
    second.args(["--config", scene.path("server.toml").to_str().unwrap()]);
    second.args(["--listen", "127.0.0.1:0", "--http", "off"]);
    let output = second.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("snapshot: ") && said.contains("counters.lock"), "{said}");
    assert!(output.stdout.is_empty(), "no port was taken");
    assert_eq!(wire.passes(WINDOW, 9), 5);
}

#[test]
fn a_snapshot_that_cannot_be_written_is_said_once_and_serving_goes_on() {
    let scene = Scene::new(1);
    let (mut server, mut wire) = scene.start();
    // Nothing can be written to a folder.
    let blocked = scene.path("counters.tmp");
    eventually("the name is free", || fs::create_dir(&blocked).is_ok());
    let failed = || server.metric("tollgate_snapshot_writes_total{result=\"error\"}").unwrap();
    let enough = failed() + 2.0;
    eventually("failures are counted", || failed() >= enough);
    assert_eq!(server.log().matches("snapshots cannot be written").count(), 1, "{}", server.log());
    assert_eq!(wire.passes(WINDOW, 9), 5);
    server.signal("HUP");
    server.has_logged("reloading");
    fs::remove_dir(&blocked).unwrap();
    server.has_logged("snapshots are written again");
    wait_for_snapshot(&server);
    drop(wire);
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
    let (_second, mut wire) = scene.start();
    assert_eq!(wire.passes(WINDOW, 9), 0);
}
