//! Five client processes, and what they saw, second by second.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

pub(crate) const CLIENTS: usize = 5;

/// What all clients together saw of one aligned second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) clients: usize,
    pub(crate) offered: u64,
    pub(crate) by_server: u64,
    pub(crate) by_fallback: u64,
    pub(crate) blocked: u64,
}

impl Seen {
    pub(crate) fn passed(&self) -> u64 {
        self.by_server + self.by_fallback
    }
}

/// The client processes; killed when dropped.
pub(crate) struct Crowd {
    children: Vec<(Child, ChildStdin)>,
    seen: Arc<Mutex<BTreeMap<u64, Seen>>>,
}

impl Crowd {
    /// Starts them, and waits until each is connected.
    pub(crate) fn start(server: &str, rules: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let seen = Arc::new(Mutex::new(BTreeMap::<u64, Seen>::new()));
        let (ready, all_ready) = std::sync::mpsc::channel();
        let children = (0..CLIENTS).map(|_| {
            let mut child = Command::new(&program)
                .args(["client", server, rules])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let (seen, ready) = (Arc::clone(&seen), ready.clone());
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if line == "ready" {
                        ready.send(()).ok();
                        continue;
                    }
                    let numbers: Vec<u64> =
                        line.split(' ').filter_map(|n| n.parse().ok()).collect();
                    let [second, offered, by_server, by_fallback, blocked] = numbers[..] else {
                        continue;
                    };
                    let mut seen = seen.lock().unwrap();
                    let sum = seen.entry(second).or_default();
                    sum.clients += 1;
                    sum.offered += offered;
                    sum.by_server += by_server;
                    sum.by_fallback += by_fallback;
                    sum.blocked += blocked;
                }
            });
            (child, stdin)
        });
        let children: Vec<_> = children.collect();
        for _ in 0..CLIENTS {
            all_ready.recv().unwrap();
        }
        Self { children, seen }
    }

    /// Sets how many calls a second each client makes.
    pub(crate) fn rates(&mut self, rates: [u64; CLIENTS]) {
        for ((_, stdin), rate) in self.children.iter_mut().zip(rates) {
            writeln!(stdin, "{rate}").unwrap();
        }
    }

    /// What was seen of `second`, once the clients have reported it.
    pub(crate) fn seen(&self, second: u64) -> Seen {
        self.seen.lock().unwrap().get(&second).copied().unwrap_or_default()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (child, _) in &mut self.children {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
