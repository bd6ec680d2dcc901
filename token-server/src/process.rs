//! The process around the server: what it says to its operator and to systemd, and what signals
//! do.
//!
//! | signal | effect |
//! |---|---|
//! | SIGTERM, SIGINT | shut down; the second one skips the wait |
//! | SIGHUP | load the rules again, and of the configuration the log filter and the switches |
//!
//! Every other key of the configuration needs a restart.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use dashboard_api::LogControl;
use limiter::ClusterEngine;
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    Bound, Rules,
    config::{Config, Flags, environment},
    switches,
};

/// Exit code when connections were cut off: the drain time was over, or a second signal came.
pub const EXIT_CUT: u8 = 3;

/// How long the last snapshot may take after a second signal.
const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// Serves until a signal ends it: 0 when every connection finished, or [`EXIT_CUT`].
///
/// # Errors
///
/// When the signals cannot be had.
pub async fn run(
    bound: Bound,
    rules: Option<Arc<Rules>>,
    log: Arc<dyn LogControl>,
    flags: &Flags,
    config: &Config,
) -> io::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    announce(&bound);
    let status = status(&bound);
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);

    let (engine, snapshots) = (Arc::clone(&bound.service.engine), bound.snapshots.clone());
    let stop = CancellationToken::new();
    let serve = bound.serve(stop.clone().cancelled_owned());
    let mut ended = async || {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    let ending = async {
        // Not inside the macro, which looks at its fields only when the line is logged.
        let signal = ended().await;
        info!(signal, "stopping");
        notify(&[NotifyState::Stopping, NotifyState::Status("draining connections")]);
        stop.cancel();
        let signal = ended().await;
        warn!(signal, "second signal, connections are cut off");
    };
    let reloading = async {
        while hangup.recv().await.is_some() {
            let mut state = vec![NotifyState::Reloading];
            state.extend(NotifyState::monotonic_usec_now());
            notify(&state);
            reload(&engine, rules.as_ref(), &*log, flags, config).await;
            notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
        }
        std::future::pending::<()>().await;
    };
    let code = tokio::select! {
        served = serve => if served.cut == 0 { 0 } else { EXIT_CUT },
        () = ending => {
            if let Some(snapshots) = snapshots {
                snapshots.finish(DISK_PATIENCE).await;
            }
            EXIT_CUT
        }
        () = reloading => EXIT_CUT,
    };
    Ok(ExitCode::from(code))
}

/// Says on stdout where the server can be reached: one line for each port, and nothing else ever.
fn announce(bound: &Bound) {
    let mut lines = format!("token {}\n", bound.token_addr());
    if let Some(addr) = bound.http_addr() {
        lines += &format!("http {addr}\n");
    }
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush()) {
        warn!(%error, "stdout is closed, nobody is told the ports");
    }
}

/// What SIGHUP does. Mistakes are logged, and what they concern stays as it is.
async fn reload(
    engine: &ClusterEngine,
    rules: Option<&Arc<Rules>>,
    log: &dyn LogControl,
    flags: &Flags,
    started_with: &Config,
) {
    info!("reloading");
    if let Some(rules) = rules {
        rules.reload().await;
    }
    let (config, errors) = Config::load(flags, &environment);
    if !errors.is_empty() {
        for error in errors {
            error!(%error, "configuration stays as it is");
        }
        return;
    }
    if let Err(error) = log.set_filter(config.log.as_str()) {
        error!(%error, "log filter stays as it is");
    }
    switches::apply(engine, &config.switches());
    let keys = config.differing(started_with);
    if !keys.is_empty() {
        warn!(?keys, "changed keys that need a restart");
    }
}

fn status(bound: &Bound) -> String {
    let http = bound.http_addr().map(|addr| format!(", HTTP at {addr}")).unwrap_or_default();
    format!("serving at {}{http}", bound.token_addr())
}

/// Tells systemd, if it listens.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "systemd cannot be told");
    }
}
