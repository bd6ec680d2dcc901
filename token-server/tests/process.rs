//! What the process tells systemd, and what signals do to it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what it expects, in its helpers too"
)]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixDatagram,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    time::Duration,
};

/// A server with its notify socket; killed when dropped.
struct Server {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    stderr: BufReader<ChildStderr>,
    notify: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("server.toml"), folder.path().join("notify"));
        fs::write(&file, config).unwrap();
        let notify = UnixDatagram::bind(&socket).unwrap();
        notify.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_token-server"))
            .args(["--listen", "127.0.0.1:0", "--http", "off", "--config"])
            .arg(&file)
            .env("NOTIFY_SOCKET", &socket)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stdout, stderr, notify, folder }
    }

    fn configure(&self, config: &str) {
        fs::write(self.folder.path().join("server.toml"), config).unwrap();
    }

    /// The next message to systemd.
    fn told(&self) -> String {
        let mut message = [0; 1024];
        let len = self.notify.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Reads the log up to the line that contains `text`.
    fn logged(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "the log ends without {text}");
        }
        line
    }

    fn connect(&mut self) -> TcpStream {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        TcpStream::connect(line.trim_end().strip_prefix("token ").unwrap()).unwrap()
    }

    /// Waits for the end; nothing more may stand on stdout.
    fn ended(&mut self) -> ExitStatus {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn systemd_is_told_of_start_reload_and_stop() {
    let mut server = Server::start("");
    let ready = server.told();
    assert!(ready.starts_with("READY=1\nSTATUS=serving at 127.0.0.1:"), "{ready}");
    let client = server.connect();
    server.signal("HUP");
    let reloading = server.told();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(server.told(), ready);
    drop(client);
    server.signal("TERM");
    assert_eq!(server.told(), "STOPPING=1\nSTATUS=draining connections\n");
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_hangup_changes_the_log_filter_and_names_what_needs_a_restart() {
    let mut server = Server::start("log = \"warn\"");
    server.told();
    // The level is below what is logged now: only the reload shows.
    server.configure("log = \"debug\"\nworkers = 1\nanswers_max = 7");
    server.signal("HUP");
    let line = server.logged("need a restart");
    assert!(line.contains(r#"["answers_max", "workers"]"#), "{line}");
    drop(server.connect());
    server.logged("opened");

    server.configure("log = \"loud=very\"");
    server.signal("HUP");
    let line = server.logged("configuration stays as it is");
    assert!(line.contains("server.toml:1: log = loud=very"), "{line}");
    server.signal("INT");
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_second_signal_does_not_wait_for_connections() {
    let mut server = Server::start("write_timeout_ms = 60000\ndrain_ms = 60000");
    let mut client = server.connect();
    // It never reads: once the server no longer takes requests, it waits for this peer.
    client.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let requests = [0, 18, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0].repeat(5_000);
    while client.write_all(&requests).is_ok() {}
    server.signal("TERM");
    server.logged("no longer accepting");
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(3));
    server.logged("second signal");
}
