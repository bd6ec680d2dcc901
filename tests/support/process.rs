//! Our own programs as processes.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use crate::{eventually, token_server};

/// A process that ends with the test; what it writes to stderr is collected.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    log: Arc<Mutex<String>>,
    /// Where it serves tokens, once [`server`] has read that.
    pub token: Option<SocketAddr>,
    /// Where it serves HTTP.
    pub http: Option<SocketAddr>,
}

impl Process {
    /// Starts `command` with piped streams.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (into, stderr) = (Arc::clone(&log), child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = into.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout, log, token: None, http: None }
    }

    /// The next line of stdout, without its end; empty at the end of the stream.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Writes a line to stdin.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Lowers the number of file descriptors that the process may have.
    pub fn limit_descriptors(&self, to: u32) {
        let pid = self.child.id().to_string();
        let limit = format!("--nofile={to}:{to}");
        let limited = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(limited.unwrap().success());
    }

    /// Everything on stderr so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until stderr has said `text`.
    pub fn has_logged(&self, text: &str) {
        eventually(&format!("log line with {text:?} in:\n{}", self.log()), || {
            self.log().contains(text)
        });
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until the process has ended.
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// The status and body that the process's HTTP port answers to `GET path`.
    #[must_use]
    pub fn get(&self, path: &str) -> (u16, String) {
        self.request("GET", path, "")
    }

    /// The status and body that the process's HTTP port answers to a request with a body of text.
    #[must_use]
    pub fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.http.unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close");
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The value of the first series on `/metrics` whose line starts with `series`.
    #[must_use]
    pub fn metric(&self, series: &str) -> Option<f64> {
        let (status, text) = self.get("/metrics");
        assert_eq!(status, 200);
        let line = text.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Memory that the process holds, in kB.
    #[must_use]
    pub fn resident_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts the token server with these arguments, on free ports unless they say otherwise, and
/// waits until it serves.
///
/// # Panics
///
/// When it does not come up.
#[must_use]
pub fn server(arguments: &[&str]) -> Process {
    server_by(token_server(), arguments)
}

/// As [`server`], started by `command`, which runs the program.
pub(crate) fn server_by(mut command: Command, arguments: &[&str]) -> Process {
    for flag in ["--listen", "--http"] {
        if !arguments.contains(&flag) {
            command.args([flag, "127.0.0.1:0"]);
        }
    }
    command.args(arguments);
    let mut process = Process::start(&mut command);
    let lines = [process.line(), process.line()];
    let address = |key: &str| {
        let line = lines.iter().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key:?} in {lines:?}; {}", process.log()))
            .parse()
            .unwrap()
    };
    let (token, http) = (address("token "), address("http "));
    (process.token, process.http) = (Some(token), Some(http));
    process
}
