//! A worker that protects itself without any server: a limit, a pace, and a circuit breaker.
//!
//! ```text
//! cargo run -p token-client --example protect
//! ```

use std::{error::Error, io, sync::Arc, time::Duration};

use token_client::{
    Engine, RunError,
    limiter::{
        Tick,
        local::{BreakerState, LocalSettings, Observer},
        rule::{Contents, DegradeRule, parse, parse_degrade},
    },
};
use tokio::{task::JoinSet, time::sleep};

/// As Sentinel writes them; a file or a configuration centre would do as well.
const FLOW: &str = r#"[
    {"resource": "render", "count": 3},
    {"resource": "send mail", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 1000}
]"#;
/// Half of the calls fail, five at least: nobody calls for a second.
const BREAKERS: &str = r#"[
    {"resource": "database", "grade": 1, "count": 0.5, "minRequestAmount": 5, "timeWindow": 1}
]"#;

/// Prints what becomes of circuit breakers.
#[derive(Debug)]
struct Printer;

impl Observer for Printer {
    #[expect(clippy::print_stdout, reason = "an example shows what it does")]
    fn turned(
        &self,
        _: Tick,
        resource: &str,
        _: &DegradeRule,
        from: BreakerState,
        to: BreakerState,
    ) {
        println!("the breaker of {resource} went from {from:?} to {to:?}");
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::new(LocalSettings::default());
    let flow = parse(FLOW, "flow rules", "", Contents::Flow, false)?;
    engine.local().load_flow(flow.rules.flow);
    engine.local().load_degrade(parse_degrade(BREAKERS, "breakers")?.rules);
    engine.local().observe(Arc::new(Printer));
    let mut tasks = JoinSet::new();
    tasks.spawn(engine.keep());

    limited(&engine).await;
    paced(&engine).await?;
    broken(&engine).await;

    // With the engine its task ends.
    drop(engine);
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// Three calls a second; the others are refused at once.
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn limited(engine: &Engine) {
    for page in 1..=4 {
        match engine.entry("render").acquire().await {
            Ok(_guard) => println!("page {page} is rendered"),
            Err(block) => println!("page {page} is not: {block}"),
        }
    }
}

/// A call each tenth of a second; the others wait for their turn.
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn paced(engine: &Engine) -> Result<(), Box<dyn Error>> {
    let started = engine.now();
    for mail in 1..=4 {
        let _guard = engine.entry("send mail").acquire().await?;
        println!("mail {mail} is sent after {} ms", engine.now().since(started).as_millis());
    }
    Ok(())
}

/// A call that fails until the database is back.
async fn query(is_up: bool) -> io::Result<&'static str> {
    if is_up { Ok("42 rows") } else { Err(io::Error::other("the database is down")) }
}

/// Calls that fail open the breaker; a probe that succeeds closes it.
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn broken(engine: &Engine) {
    for call in 1..=8 {
        if call == 8 {
            sleep(Duration::from_millis(1_100)).await;
        }
        match engine.entry("database").run(query(call == 8)).await {
            Ok(rows) => println!("query {call}: {rows}"),
            Err(RunError::Blocked(block)) => println!("query {call} is not made: {block}"),
            Err(RunError::Failed(error)) => println!("query {call} fails: {error}"),
        }
    }
}
