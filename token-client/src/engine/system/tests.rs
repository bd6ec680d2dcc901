//! Machines and containers as directories.

use std::fs;

use tempfile::TempDir;

use super::*;

/// What Linux would show.
struct Linux(TempDir);

impl Linux {
    fn new(files: &[(&str, &str)]) -> Self {
        let linux = Self(tempfile::tempdir().unwrap());
        linux.put("proc/loadavg", "1.50 0.70 0.30 2/345 6789\n");
        // Four processors, of which three quarters are idle between the two readings.
        linux.stat(1_000, 1_000);
        for (file, text) in files {
            linux.put(file, text);
        }
        linux
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn stat(&self, user: u64, idle: u64) {
        let one = "1 0 0 1 0 0 0 0 0 0";
        let text = format!(
            "cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 {one}\ncpu1 {one}\ncpu2 {one}\ncpu3 {one}\n\
             intr 7\nctxt 8\n"
        );
        self.put("proc/stat", &text);
    }

    /// What is known after two seconds, in which files became `later` and the machine was a quarter
    /// busy.
    fn cpu(&self, later: &[(&str, &str)]) -> f64 {
        let mut reader = SystemReader::new(self.0.path());
        let first = reader.read(Tick::from_ms(10_000));
        assert_eq!(first, SystemStatus { load: 1.5, cpu: -1.0 }, "usage needs two readings");
        for (file, text) in later {
            self.put(file, text);
        }
        self.stat(1_100, 1_300);
        reader.read(Tick::from_ms(12_000)).cpu
    }
}

const V2: &str = "sys/fs/cgroup";
const V1: &str = "sys/fs/cgroup/cpu";

#[test]
fn without_control_groups_it_is_the_share_of_the_machine() {
    assert_eq!(Linux::new(&[]).cpu(&[]), 0.25);
}

#[test]
fn version_2_with_a_quota_is_the_share_of_the_quota() {
    let linux = Linux::new(&[
        ("proc/self/cgroup", "0::/\n"),
        (&format!("{V2}/cpu.max"), "150000 100000\n"),
        (&format!("{V2}/cpu.stat"), "usage_usec 5000000\nuser_usec 4000000\n"),
    ]);
    // 1.5 s of processor time in two seconds, of 1.5 processors.
    let later = (&*format!("{V2}/cpu.stat"), "usage_usec 6500000\nuser_usec 5000000\n");
    assert_eq!(linux.cpu(&[later]), 0.5);
}

#[test]
fn version_2_without_a_quota_is_the_share_of_the_machine() {
    let stat = format!("{V2}/cpu.stat");
    for max in [Some("max 100000\n"), Some("0 100000"), Some("400000 100000\n"), Some("?"), None] {
        let linux = Linux::new(&[("proc/self/cgroup", "0::/\n"), (&stat, "usage_usec 0\n")]);
        if let Some(max) = max {
            linux.put(&format!("{V2}/cpu.max"), max);
        }
        assert_eq!(linux.cpu(&[(&stat, "usage_usec 1000000\n")]), 0.25, "{max:?}");
    }
}

#[test]
fn of_several_quotas_the_one_closest_to_its_end_counts() {
    let (outer, inner) = (format!("{V2}/pod"), format!("{V2}/pod/worker"));
    let linux = Linux::new(&[
        ("proc/self/cgroup", "0::/pod/worker\n"),
        (&format!("{outer}/cpu.max"), "200000 100000\n"),
        (&format!("{outer}/cpu.stat"), "usage_usec 0\n"),
        (&format!("{inner}/cpu.max"), "100000 100000\n"),
        (&format!("{inner}/cpu.stat"), "usage_usec 0\n"),
    ]);
    let outer = (&*format!("{outer}/cpu.stat"), "usage_usec 3000000\n");
    let inner = (&*format!("{inner}/cpu.stat"), "usage_usec 1000000\n");
    assert_eq!(linux.cpu(&[outer, inner]), 0.75);
}

#[test]
fn version_1_with_a_quota_is_the_share_of_the_quota() {
    let usage = "sys/fs/cgroup/cpuacct/docker/abc/cpuacct.usage";
    let linux = Linux::new(&[
        ("proc/self/cgroup", "5:memory:/docker/abc\n4:cpuacct,cpu:/docker/abc\n0::/\n"),
        (&format!("{V1}/docker/abc/cpu.cfs_quota_us"), "50000\n"),
        (&format!("{V1}/docker/abc/cpu.cfs_period_us"), "100000\n"),
        (usage, "7000000000\n"),
    ]);
    assert_eq!(linux.cpu(&[(usage, "7800000000\n")]), 0.8);
}

#[test]
fn version_1_whose_mount_is_the_container_itself_is_read_at_the_mount() {
    let dir = "sys/fs/cgroup/cpu,cpuacct";
    let usage = format!("{dir}/cpuacct.usage");
    let linux = Linux::new(&[
        ("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n"),
        (&format!("{dir}/cpu.cfs_quota_us"), "100000"),
        (&format!("{dir}/cpu.cfs_period_us"), "100000"),
        (&usage, "0"),
    ]);
    assert_eq!(linux.cpu(&[(&usage, "500000000")]), 0.25);
}

#[test]
fn version_1_without_a_quota_is_the_share_of_the_machine() {
    let linux = Linux::new(&[
        ("proc/self/cgroup", "2:cpuacct:/\n1:cpu:/\n0::/\n"),
        (&format!("{V1}/cpu.cfs_quota_us"), "-1\n"),
        (&format!("{V1}/cpu.cfs_period_us"), "100000\n"),
        ("sys/fs/cgroup/cpuacct/cpuacct.usage", "5\n"),
    ]);
    assert_eq!(linux.cpu(&[]), 0.25);
}

/// What `/proc/self` shows of a process that may use these processors and has used `user` and
/// `system` time.
fn process(linux: &Linux, cpus: &str, user: u64, system: u64) {
    let stat = format!("7 (a b) R 6 7 7 0 -1 4194304 119 0 0 0 {user} {system} 0 0 20 0 1 0 4 1 3");
    linux.put("proc/self/stat", &stat);
    linux.put("proc/self/status", &format!("Name:\ta b\nCpus_allowed_list:\t{cpus}\n"));
}

#[test]
fn a_process_that_may_use_some_processors_only_is_at_its_end_when_these_are() {
    // In 400 of the four processors' time; the machine is a quarter busy.
    for (cpus, used, share) in [
        ("0-3", 200, 0.5),
        ("0-127", 200, 0.5),
        ("1-2", 150, 0.75),
        ("3", 90, 0.9),
        ("3", 101, 1.0),
        ("0-3", 50, 0.25),
        ("?", 200, 0.5),
    ] {
        let linux = Linux::new(&[]);
        process(&linux, cpus, 1_000, 500);
        let stat = fs::read_to_string(linux.0.path().join("proc/self/stat")).unwrap();
        let later = stat.replace(" 1000 500 ", &format!(" {} 510 ", 990 + used));
        assert_eq!(linux.cpu(&[("proc/self/stat", &later)]), share, "{used} of {cpus}");
    }
}

#[test]
fn a_process_under_a_quota_is_compared_with_that() {
    let stat = format!("{V2}/cpu.stat");
    let linux = Linux::new(&[(&format!("{V2}/cpu.max"), "100000 100000"), (&stat, "usage_usec 0")]);
    process(&linux, "0-3", 0, 0);
    let later = "7 (a) R 6 7 7 0 -1 4194304 119 0 0 0 70 10 0 0 20 0 1 0 4 1 3";
    let used = [(&*stat, "usage_usec 1000000\n"), ("proc/self/stat", later)];
    assert_eq!(linux.cpu(&used), 0.8, "of one processor; the group, half");
}

#[test]
fn a_process_whose_time_went_back_is_not_compared() {
    let linux = Linux::new(&[]);
    process(&linux, "0", 500, 0);
    let later = "7 (a) R 6 7 7 0 -1 4194304 119 0 0 0 400 0 0 0 20 0 1 0 4 1 3";
    assert_eq!(linux.cpu(&[("proc/self/stat", later)]), 0.25);
}

#[test]
fn more_than_all_is_all() {
    let stat = format!("{V2}/cpu.stat");
    let linux = Linux::new(&[(&format!("{V2}/cpu.max"), "100000 100000"), (&stat, "usage_usec 0")]);
    assert_eq!(linux.cpu(&[(&stat, "usage_usec 2100000")]), 1.0);
}

#[test]
fn what_can_not_be_compared_is_not_known() {
    let stat = format!("{V2}/cpu.stat");
    let linux = Linux::new(&[(&format!("{V2}/cpu.max"), "100000 100000"), (&stat, "usage_usec 9")]);
    assert_eq!(linux.cpu(&[(&stat, "usage_usec 8")]), -1.0, "a counter that went back");
    let mut reader = SystemReader::new(linux.0.path());
    reader.read(Tick(5));
    assert_eq!(reader.read(Tick(5)).cpu, -1.0, "no time has passed");
    // A quota that comes is compared from the next reading on.
    let linux = Linux::new(&[]);
    let quota = (&*format!("{V2}/cpu.max"), "100000 100000");
    assert_eq!(linux.cpu(&[quota, (&stat, "usage_usec 8")]), -1.0);
}

#[test]
fn what_is_not_there_or_not_readable_is_not_known() {
    let nowhere = tempfile::tempdir().unwrap();
    let mut reader = SystemReader::new(nowhere.path());
    assert_eq!(reader.read(Tick(1)), SystemStatus::default());
    assert_eq!(reader.read(Tick::from_ms(1)), SystemStatus::default());
    for (stat, loadavg) in
        [("", ""), ("cpu\n", "x"), ("cpu 1 2 3", "-1.0 2"), ("cpu a b c d e", "nan")]
    {
        let linux = Linux::new(&[("proc/stat", stat), ("proc/loadavg", loadavg)]);
        let mut reader = SystemReader::new(linux.0.path());
        reader.read(Tick(1));
        assert_eq!(reader.read(Tick::from_ms(1)), SystemStatus::default(), "{stat:?}");
    }
}

#[test]
fn this_machine_can_be_read() {
    if !Path::new("/proc/loadavg").exists() {
        return;
    }
    let mut reader = SystemReader::default();
    assert!(reader.read(Tick(1)).load >= 0.0);
}
