//! The real Sentinel client and server, as processes of their own (`tests/java-peer`).

use std::{net::SocketAddr, path::Path, process::Command, sync::OnceLock};

use serde_json::Value;

use crate::{Process, skip};

/// The class path of the Java peers, building them if need be; `None` when Java or Maven is not
/// installed, which is said loudly. With `CI=true` that fails the test.
///
/// # Panics
///
/// When the peers do not build.
#[must_use]
pub fn java_class_path() -> Option<&'static str> {
    static PATH: OnceLock<Option<String>> = OnceLock::new();
    let built = PATH.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/peers");
        let output = Command::new(script).arg("java").output().unwrap();
        if output.status.code() == Some(3) {
            return None;
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    });
    if built.is_none() {
        skip("Java and Maven are not installed (scripts/peers java)");
    }
    built.as_deref()
}

fn java(class_path: &str) -> Command {
    // Batch scheduling keeps Sentinel's client from losing answers (tests/java-peer/README.md).
    let mut command = if Path::new("/usr/bin/chrt").exists() {
        let mut command = Command::new("chrt");
        command.args(["--batch", "0", "java"]);
        command
    } else {
        Command::new("java")
    };
    command.args(["-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-cp", class_path]);
    command
}

/// The real client, told what to do line by line.
#[derive(Debug)]
pub struct JavaClient(Process);

impl JavaClient {
    /// Starts one whose application is `namespace`.
    #[must_use]
    pub fn start(class_path: &str, namespace: &str) -> Self {
        Self(Process::start(java(class_path).args(["peer.Client", namespace])))
    }

    /// One command and its answer.
    ///
    /// # Panics
    ///
    /// When the answer is an error.
    pub fn ask(&mut self, command: &str) -> Value {
        self.0.tell(command);
        let line = self.0.line();
        let answer: Value = serde_json::from_str(&line)
            .unwrap_or_else(|e| panic!("{command}: {line:?}: {e}; {}", self.0.log()));
        assert!(answer["error"].is_null(), "{command}: {answer}");
        answer
    }

    /// Connects, and comes back when the connection stands and the classes are warm.
    ///
    /// # Panics
    ///
    /// When it does not connect.
    pub fn connect(&mut self, to: SocketAddr) {
        self.ask(&format!("connect {} {} 400", to.ip(), to.port()));
        let state = self.ask("await started 30000");
        assert_eq!(state["state"], "started", "{state}");
        self.ask("flow-many 999999 1 false 500 2");
    }
}

/// The real server.
#[derive(Debug)]
pub struct JavaServer {
    process: Process,
    /// Where it listens.
    pub addr: SocketAddr,
}

impl JavaServer {
    /// Starts one with further arguments (`tests/java-peer/README.md`).
    ///
    /// # Panics
    ///
    /// When it does not come up.
    #[must_use]
    pub fn start(class_path: &str, arguments: &[&str]) -> Self {
        let mut process = Process::start(java(class_path).arg("peer.Server").args(arguments));
        let line = process.line();
        let port = line.strip_prefix("listening ").and_then(|port| port.parse().ok());
        let port: u16 = port.unwrap_or_else(|| panic!("{line:?}; {}", process.log()));
        Self { process, addr: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// Kills it.
    pub fn kill(self) {
        drop(self.process);
    }
}

/// A Java program that writes each line it reads again, with ` = ANSWER` behind a question
/// (`tests/java-peer/README.md`).
#[derive(Debug)]
pub struct Oracle(Process);

impl Oracle {
    /// Starts the program of this class.
    #[must_use]
    pub fn start(class_path: &str, class: &str) -> Self {
        Self::start_with(class_path, class, &[])
    }

    /// The same with flags for Java.
    #[must_use]
    pub fn start_with(class_path: &str, class: &str, flags: &[&str]) -> Self {
        Self(Process::start(java(class_path).args(flags).arg(class)))
    }

    /// The answer to a line; empty when it is no question.
    ///
    /// # Panics
    ///
    /// When the program does not know the line.
    pub fn ask(&mut self, line: &str) -> String {
        self.0.tell(line);
        let answered = self.0.line();
        assert!(answered.starts_with(line), "{line}: {answered}; {}", self.0.log());
        answered[line.len()..].trim_start_matches(" = ").to_owned()
    }
}
