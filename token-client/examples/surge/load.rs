//! The load: fifty calls a second, then ten times as many within a second.

use std::time::Duration;

use tokio::{
    task::JoinSet,
    time::{Instant, interval},
};

const BASE: u32 = 50;
const TIMES: u32 = 10;
/// Of which the load rises in the second one.
pub(crate) const SECONDS: u32 = 6;
const STEP: Duration = Duration::from_millis(2);

/// How one call went: when it began, with which status it ended, and after how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) is_probe: bool,
    pub(crate) second: u32,
    pub(crate) status: u16,
    pub(crate) took: Duration,
}

/// Now, on the runtime's clock.
#[expect(clippy::disallowed_methods, reason = "load is offered by the runtime's clock")]
fn now() -> Instant {
    Instant::now()
}

/// Offers the load, whatever becomes of it, and ten probes a second.
pub(crate) async fn surge<F>(call: impl Fn(&'static str) -> F) -> Vec<Call>
where
    F: Future<Output = u16> + Send + 'static,
{
    let (mut calls, start) = (JoinSet::new(), now());
    let mut offer = |second, path| {
        let call = call(path);
        calls.spawn(async move {
            let begin = now();
            let status = call.await;
            Call { is_probe: path == "/probe", second, status, took: begin.elapsed() }
        });
    };
    let mut steps = interval(STEP);
    let (mut due, steps_a_second) = (0.0, 1.0 / STEP.as_secs_f64());
    for step in 0_u32.. {
        steps.tick().await;
        let at = f64::from(step) / steps_a_second;
        let Some(second) = (0..SECONDS).find(|second| at < f64::from(*second + 1)) else { break };
        let times = 1.0 + f64::from(TIMES - 1) * (at - 1.0).clamp(0.0, 1.0);
        due += f64::from(BASE) * times / steps_a_second;
        while due >= 1.0 {
            offer(second, "/orders");
            due -= 1.0;
        }
        if step % 50 == 0 {
            offer(second, "/probe");
        }
    }
    debug_assert!(start.elapsed() >= Duration::from_secs(u64::from(SECONDS) - 1));
    calls.join_all().await
}

/// Calls that were answered 200, and the time that 99 of 100 of them took at most.
pub(crate) fn well<'a>(calls: impl Iterator<Item = &'a Call>) -> (usize, Duration) {
    let mut took: Vec<_> = calls.filter(|call| call.status == 200).map(|call| call.took).collect();
    took.sort_unstable();
    let p99 = took.get((took.len() * 99 / 100).min(took.len().saturating_sub(1)));
    (took.len(), p99.copied().unwrap_or_default())
}
