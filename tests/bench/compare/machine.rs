//! What the numbers were measured on, and what was measured.

use std::{fs, path::Path, process::Command};

use crate::servers::Place;

/// Names and values, in the order of the page. What cannot be found out is "unknown".
pub(crate) fn facts(place: &Place) -> Vec<(&'static str, String)> {
    let root = &place.root;
    let ours = ["diff", "--quiet", "HEAD", "--", ".", ":!docs/benchmarks.md"];
    let changed = if succeeds(root, "git", &ours) { "" } else { ", with uncommitted changes" };
    let commit = first_line(root, "git", &["rev-parse", "--short=12", "HEAD"]);
    let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
    let pom = fs::read_to_string(root.join("tests/java-peer/pom.xml")).unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let redis = first_line(root, "redis-server", &["--version"]);
    let unknown = || "unknown".to_owned();
    vec![
        ("Date", first_line(root, "date", &["-u", "+%Y-%m-%d"])),
        ("Commit", format!("{commit}{changed}")),
        ("Processor", format!("{}, {cores} cores", cpu_model(&cpus).unwrap_or_else(unknown))),
        ("Load average before the start", load.split(' ').next().unwrap_or_default().to_owned()),
        ("Kernel", first_line(root, "uname", &["-sr"])),
        ("Compiler", first_line(root, "rustc", &["--version"])),
        ("Sentinel", sentinel_version(&pom).unwrap_or_else(unknown)),
        ("Java", first_line(root, "java", &["--version"])),
        ("Redis", redis_version(&redis).unwrap_or_else(unknown)),
        ("governor", locked_version(&lock, "governor").unwrap_or_else(unknown)),
    ]
}

fn succeeds(root: &Path, program: &str, args: &[&str]) -> bool {
    let output = Command::new(program).args(args).current_dir(root).output();
    output.is_ok_and(|output| output.status.success())
}

fn first_line(root: &Path, program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(root).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    let line = text.as_deref().and_then(|text| text.lines().next());
    line.map_or_else(|| "unknown".to_owned(), |line| line.trim().to_owned())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn sentinel_version(pom: &str) -> Option<String> {
    let (_, rest) = pom.split_once("<sentinel.version>")?;
    Some(rest.split_once('<')?.0.to_owned())
}

fn redis_version(said: &str) -> Option<String> {
    let (_, rest) = said.split_once(" v=")?;
    rest.split_ascii_whitespace().next().map(str::to_owned)
}

fn locked_version(lock: &str, name: &str) -> Option<String> {
    let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_where_they_stand() {
        let lock = "[[package]]\nname = \"governor\"\nversion = \"0.10.4\"\n";
        assert_eq!(locked_version(lock, "governor").as_deref(), Some("0.10.4"));
        assert_eq!(locked_version(lock, "other"), None);
        let pom = "<sentinel.version>1.8.9</sentinel.version>";
        assert_eq!(sentinel_version(pom).as_deref(), Some("1.8.9"));
        assert_eq!(redis_version("Redis server v=7.0.15 sha=0").as_deref(), Some("7.0.15"));
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Some CPU"));
    }
}
