//! What a client says: to its listeners, and in the log.

use std::{
    cell::RefCell,
    fmt,
    sync::{Arc, Mutex, Once},
};

use tokio::sync::mpsc::{self, error::TrySendError};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::{ConnectionState, Listener, Outcome, RuleId, sync::lock};

/// A listener that keeps everything for [`Heard`].
#[derive(Debug)]
pub(super) struct Recorder {
    connections: mpsc::Sender<ConnectionState>,
    outcomes: Arc<Mutex<Outcomes>>,
}

#[derive(Debug, Default)]
struct Outcomes {
    blocked: Vec<(RuleId, Outcome)>,
    fell_back: Vec<(RuleId, Outcome)>,
    /// Whether it was regained, not lost.
    holds: Vec<(bool, RuleId, u32)>,
}

#[derive(Debug)]
pub(super) struct Heard {
    connections: mpsc::Receiver<ConnectionState>,
    outcomes: Arc<Mutex<Outcomes>>,
}

pub(super) fn recorder() -> (Recorder, Heard) {
    let (sender, connections) = mpsc::channel(100);
    let outcomes: Arc<Mutex<Outcomes>> = Arc::default();
    (
        Recorder { connections: sender, outcomes: Arc::clone(&outcomes) },
        Heard { connections, outcomes },
    )
}

impl Listener for Recorder {
    fn blocked(&self, rule: RuleId, outcome: &Outcome) {
        lock(&self.outcomes).blocked.push((rule, *outcome));
    }

    fn fell_back(&self, rule: RuleId, outcome: &Outcome) {
        lock(&self.outcomes).fell_back.push((rule, *outcome));
    }

    fn lost(&self, rule: RuleId, count: u32) {
        lock(&self.outcomes).holds.push((false, rule, count));
    }

    fn regained(&self, rule: RuleId, count: u32) {
        lock(&self.outcomes).holds.push((true, rule, count));
    }

    fn connection(&self, state: &ConnectionState) {
        let sent = self.connections.try_send(state.clone());
        // A test may end before its client does.
        assert!(!matches!(sent, Err(TrySendError::Full(_))), "few events");
    }
}

impl Heard {
    /// The next event about the connection.
    pub(super) async fn connection(&mut self) -> ConnectionState {
        self.connections.recv().await.expect("the client lives")
    }

    /// Whether the client and all its tasks have let go of the listener; waits until then.
    pub(super) async fn silence(&mut self) -> bool {
        while self.connections.recv().await.is_some() {}
        true
    }

    pub(super) fn blocked(&self) -> Vec<(RuleId, Outcome)> {
        lock(&self.outcomes).blocked.clone()
    }

    /// What was lost (false) and regained (true), in order.
    pub(super) fn holds(&self) -> Vec<(bool, RuleId, u32)> {
        lock(&self.outcomes).holds.clone()
    }

    pub(super) fn fell_back(&self) -> Vec<(RuleId, Outcome)> {
        lock(&self.outcomes).fell_back.clone()
    }
}

thread_local! {
    /// The lines at info and above that this thread has written.
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what each thread logs from now on. Every test begins with it, also those that do not look
/// at the log: a line that is first written while nobody listens may never be heard of again.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Keeper).expect("the only one"));
}

/// The lines that this thread has written since the last call, each `LEVEL message field=value …`.
pub(crate) fn lines() -> Vec<String> {
    LINES.take()
}

struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("token_client")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        LINES.with_borrow_mut(|lines| lines.push(line.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = match field.name() {
            "message" => format!(" {value:?}"),
            name => format!(" {name}={value:?}"),
        };
        self.0.push_str(&text);
    }
}
