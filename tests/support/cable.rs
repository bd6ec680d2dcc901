//! Two hosts in a network of their own, joined by a cable that a test can cut: then nothing
//! arrives any more, no end of a connection and no reset either.
//!
//! ```text
//!   here: the server, neighbours          there: clients
//!   10.0.0.1, fd00::1  ───── cable ─────  10.0.0.2, fd00::2
//! ```
//!
//! A host is a network namespace, which lives as long as a process in it.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use crate::{Process, eventually, process::server_by, skip, token_server};

/// The Internet protocol that server and clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Family {
    V4,
    V6,
}

/// An end of the cable: the name of its device, and its addresses.
struct End {
    device: &'static str,
    addresses: [&'static str; 2],
}

const HERE: End = End { device: "here", addresses: ["10.0.0.1", "fd00::1"] };
const THERE: End = End { device: "there", addresses: ["10.0.0.2", "fd00::2"] };

/// An address in the link layer that nobody has.
const NOBODY: &str = "02:00:00:00:00:99";

/// The two hosts; gone when dropped.
#[derive(Debug)]
pub struct Cable {
    here: Process,
    there: Process,
}

impl Cable {
    /// Makes the hosts and plugs in the cable. `None`, said loudly, where that is not allowed.
    #[must_use]
    pub fn plug() -> Option<Self> {
        match Self::try_plug() {
            Ok(cable) => Some(cable),
            Err(why) => {
                skip(&format!("networks of one's own (root, unshare, nsenter, ip): {why}"));
                None
            }
        }
    }

    fn try_plug() -> Result<Self, String> {
        let cable = Self { here: host()?, there: host()? };
        let other = cable.there.id().to_string();
        let pair = ["type", "veth", "peer", "name", THERE.device, "netns", &other];
        ip(&cable.here, &[&["link", "add", HERE.device], &pair[..]].concat())?;
        ip(&cable.here, &["link", "set", "lo", "up"])?;
        for (host, end) in [(&cable.here, HERE), (&cable.there, THERE)] {
            let [v4, v6] = end.addresses;
            ip(host, &["address", "add", &format!("{v4}/24"), "dev", end.device])?;
            // Without the check for duplicates, during which an address cannot be used.
            ip(host, &["address", "add", &format!("{v6}/64"), "dev", end.device, "nodad"])?;
            ip(host, &["link", "set", end.device, "up"])?;
        }
        Ok(cable)
    }

    /// Starts the token server here, at `port` or a free one. Its HTTP port is out of reach.
    #[must_use]
    pub fn server(&self, family: Family, port: u16, arguments: &[&str]) -> Process {
        let [v4, v6] = HERE.addresses;
        let listen = match family {
            Family::V4 => format!("{v4}:{port}"),
            Family::V6 => format!("[{v6}]:{port}"),
        };
        let mut command = inside(&self.here);
        command.arg(token_server().get_program());
        server_by(command, &[&["--listen", &listen], arguments].concat())
    }

    /// Connects from the other host.
    #[must_use]
    pub fn client(&self, to: SocketAddr) -> Relay {
        Relay::connect(&self.there, to)
    }

    /// Connects from the server's own host, to which no cable leads.
    #[must_use]
    pub fn neighbour(&self, to: SocketAddr) -> Relay {
        Relay::connect(&self.here, to)
    }

    /// From now on nothing arrives at either end.
    pub fn cut(&self) {
        self.cut_answers();
        self.misdirect(&self.there, &THERE, &HERE);
    }

    /// From now on nothing arrives at the other host.
    pub fn cut_answers(&self) {
        self.misdirect(&self.here, &HERE, &THERE);
    }

    /// Everything arrives again.
    pub fn mend(&self) {
        for (host, end, other) in [(&self.here, HERE, THERE), (&self.there, THERE, HERE)] {
            for address in other.addresses {
                ip(host, &["neighbour", "del", address, "dev", end.device]).unwrap();
            }
        }
    }

    /// Lets `host` send everything for the other end to an address that nobody has.
    fn misdirect(&self, host: &Process, end: &End, other: &End) {
        for address in other.addresses {
            let to_nobody = ["lladdr", NOBODY, "nud", "permanent", "dev", end.device];
            ip(host, &[&["neighbour", "replace", address], &to_nobody[..]].concat()).unwrap();
        }
    }
}

/// A host without any network yet.
fn host() -> Result<Process, String> {
    // The outer shell says it when there is no such program.
    let own_network = "exec 2>&1; exec unshare --net sh -c 'echo up; exec cat'";
    let mut host = Process::start(Command::new("sh").args(["-c", own_network]));
    match host.line() {
        line if line == "up" => Ok(host),
        why => Err(why),
    }
}

/// A command that runs its further arguments in `host`.
fn inside(host: &Process) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &host.id().to_string(), "--net"]);
    command
}

fn ip(host: &Process, arguments: &[&str]) -> Result<(), String> {
    match inside(host).arg("ip").args(arguments).output() {
        Ok(Output { status, .. }) if status.success() => Ok(()),
        Ok(Output { stderr, .. }) => {
            Err(format!("ip {arguments:?}: {}", String::from_utf8_lossy(&stderr)))
        }
        Err(e) => Err(e.to_string()),
    }
}

/// One connection that a process in another host holds; closed when dropped.
#[derive(Debug)]
pub struct Relay {
    child: Child,
    received: Arc<Mutex<Vec<u8>>>,
}

/// Ties standard input and output to a connection, until the end of the input.
const TIE: &str = r#"exec 3<>"/dev/tcp/$0/$1" && { cat <&3 & cat >&3; kill $! 2>/dev/null; }"#;

impl Relay {
    fn connect(host: &Process, to: SocketAddr) -> Self {
        let mut command = inside(host);
        command.args(["bash", "-c", TIE, &to.ip().to_string(), &to.port().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (into, mut stdout) = (Arc::clone(&received), child.stdout.take().unwrap());
        thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(n @ 1..) = stdout.read(&mut bytes) {
                into.lock().unwrap().extend_from_slice(&bytes[..n]);
            }
        });
        Self { child, received }
    }

    /// Writes all of `bytes`.
    pub fn send(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next `len` bytes from the server.
    #[must_use]
    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        eventually("bytes from the server", || self.received.lock().unwrap().len() >= len);
        self.received.lock().unwrap().drain(..len).collect()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}
