//! The servers: how each is started, told that it is ready from what it prints, and stopped.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::run::Placement;

/// Flows that the rules name.
pub(crate) const FLOWS: u32 = 100_000;

/// Counts that are never reached.
pub(crate) const COUNTS: [u64; 2] = [1_000_000_000_000, 2_000_000_000_000];

/// A rule in Sentinel's default window of ten buckets.
fn rule(flow_id: u32, count: u64) -> String {
    format!(
        r#"{{"resource":"flow-{flow_id}","count":{count},"grade":1,"clusterMode":true,"clusterConfig":{{"flowId":{flow_id},"thresholdType":1,"sampleCount":10,"windowIntervalMs":1000}}}}"#
    )
}

/// Where things are found and put.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    /// Where cargo put the programs.
    programs: PathBuf,
    /// Rule files, and what servers like to write.
    scratch: TempDir,
}

impl Place {
    /// Writes the rule files.
    pub(crate) fn new(root: PathBuf) -> Result<Self> {
        let programs = std::env::current_exe()?.parent().context("no folder")?.to_owned();
        let scratch = tempfile::tempdir()?;
        let place = Self { root, programs, scratch };
        let [count, other] = COUNTS;
        place.write_rules("one.json", 1, count)?;
        place.write_rules("many.json", FLOWS, count)?;
        place.write_rules("others.json", FLOWS, other)?;
        Ok(place)
    }

    fn write_rules(&self, name: &str, flows: u32, count: u64) -> Result<()> {
        let rules: Vec<String> = (1..=flows).map(|id| rule(id, count)).collect();
        let path = self.scratch(name);
        fs::write(&path, format!("[{}]", rules.join(",\n")))
            .with_context(|| path.display().to_string())
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// The folder for what else cargo builds.
    pub(crate) fn built(&self, name: &str) -> PathBuf {
        self.programs.with_file_name(name)
    }

    /// A file that is gone when the run ends.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// What `scripts/peers` says about `peer`: what it prints, or why it is not to be had.
    pub(crate) fn peer(&self, peer: &str) -> Result<Result<String, String>> {
        let output = Command::new(self.root.join("scripts/peers")).arg(peer).output()?;
        let said = String::from_utf8(output.stdout)?;
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => Ok(Ok(said.trim().to_owned())),
            Some(3) => {
                let reason = complained.lines().find_map(|line| line.strip_prefix("*** peers: "));
                Ok(Err(reason.unwrap_or("not installed").to_owned()))
            }
            _ => bail!("scripts/peers {peer} failed:\n{complained}"),
        }
    }
}

/// A program that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Server {
    Echo,
    Ours,
    Java,
    Redis,
}

/// A server that has said that it is ready; ended when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// Kept open: a server may end when nobody can read what it prints.
    _stdout: BufReader<ChildStdout>,
    pub(crate) addr: SocketAddr,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, which whoever measured has noticed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Server {
    /// Starts it, or says why it cannot be had on this machine.
    pub(crate) fn start(
        self,
        place: &Place,
        placement: Placement,
    ) -> Result<Result<Running, String>> {
        match self {
            Self::Echo => {
                let echo = placement.server(&place.program("echo-server"));
                started(place, echo, "token ").map(Ok)
            }
            Self::Ours => ours(place, placement, &place.scratch("many.json")).map(Ok),
            Self::Java => Ok(match place.peer("java")? {
                Ok(class_path) => {
                    Ok(started(place, java(place, placement, &class_path), "listening ")?)
                }
                Err(reason) => Err(reason),
            }),
            Self::Redis => Ok(match place.peer("redis")? {
                Ok(program) => Ok(redis(place, placement, Path::new(&program))?),
                Err(reason) => Err(reason),
            }),
        }
    }
}

/// Our server with the rules of `file`.
pub(crate) fn ours(place: &Place, placement: Placement, file: &Path) -> Result<Running> {
    let mut ours = placement.server(&place.program("token-server"));
    ours.args(["--listen", "127.0.0.1:0", "--http", "off"]);
    ours.args(["--max-allowed-qps", "off", "--rules"]).arg(file);
    started(place, ours, "token ")
}

fn java(place: &Place, placement: Placement, class_path: &str) -> Command {
    let mut java = placement.server(Path::new("java"));
    java.arg(format!("-Dcsp.sentinel.log.dir={}", place.scratch("sentinel-logs").display()));
    java.args(["-cp", class_path, "peer.Server", "--max-allowed-qps", "1e9", "--flow-rules"]);
    java.arg(place.scratch("one.json"));
    java
}

/// Redis has no port 0, so a free one is looked for, and may be gone again when it is used.
fn redis(place: &Place, placement: Placement, program: &Path) -> Result<Running> {
    let mut last = None;
    for _ in 0..3 {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut redis = placement.server(program);
        redis.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        redis.args(["--appendonly", "no", "--dir"]).arg(place.scratch.path());
        let ready = |line: &str| {
            let ready = line.contains("Ready to accept connections");
            ready.then_some((Ipv4Addr::LOCALHOST, port).into())
        };
        match spawn(place, redis, ready) {
            Ok(running) => return Ok(running),
            Err(error) => last = Some(error),
        }
    }
    Err(last.context("not tried")?)
}

/// Starts a server that prints `PREFIX PORT` or `PREFIX ADDR:PORT` when it listens.
fn started(place: &Place, command: Command, prefix: &str) -> Result<Running> {
    spawn(place, command, |line| {
        let said = line.strip_prefix(prefix)?;
        let port = said.parse().ok().map(|port: u16| (Ipv4Addr::LOCALHOST, port).into());
        port.or_else(|| said.parse().ok())
    })
}

/// Starts a server, and waits for the line that says where it listens.
fn spawn(
    place: &Place,
    mut command: Command,
    listens: impl Fn(&str) -> Option<SocketAddr>,
) -> Result<Running> {
    let name = format!("{command:?}");
    let log = place.scratch("server.log");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(fs::File::create(&log)?);
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let stdout = child.stdout.take().context("standard output is piped")?;
    let mut lines = BufReader::new(stdout);
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            let status = child.wait()?;
            let log = fs::read_to_string(&log).unwrap_or_default();
            bail!("{name} ended before it was ready: {status}\n{log}");
        }
        if let Some(addr) = listens(line.trim_end()) {
            return Ok(Running { child, _stdout: lines, addr });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_where_it_says_it_listens() {
        let place = Place::new(PathBuf::new()).unwrap();
        for (said, addr) in [("token 127.0.0.1:7", "127.0.0.1:7"), ("token 9", "127.0.0.1:9")] {
            let mut server = Command::new("sh");
            server.args(["-c", &format!("echo hello; echo {said}; read end")]);
            let running = started(&place, server, "token ").unwrap();
            assert_eq!(running.addr, addr.parse().unwrap());
        }
    }

    #[test]
    fn a_server_that_does_not_start_is_an_error_with_its_words() {
        let place = Place::new(PathBuf::new()).unwrap();
        let mut server = Command::new("sh");
        server.args(["-c", "echo no such rule >&2; exit 3"]);
        let error = started(&place, server, "token ").unwrap_err().to_string();
        assert!(error.contains("no such rule") && error.contains("exit status: 3"), "{error}");
    }
}
