//! A tenfold surge on a service whose database has ten connections, without a guard and with one.
//!
//! ```text
//! cargo run --release -p token-client --features reqwest --example surge
//! ```

mod load;
mod service;

use std::{error::Error, sync::Arc};

use token_client::{
    Engine,
    limiter::{
        local::LocalSettings,
        rule::{Contents, parse},
    },
};
use tokio::net::TcpListener;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::{
    load::{Call, SECONDS, surge, well},
    service::{Pool, RULES, router},
};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("A service that can do 100 orders a second is asked for 50, and then for 500.\n");
    println!("without a guard:");
    run(None).await?;
    let engine = Engine::new(LocalSettings::default());
    let rules = parse(RULES, "flow rules", "", Contents::Flow, false)?.rules;
    engine.local().load_flow(rules.flow);
    println!("\nwith a rule for 8 orders in progress:");
    run(Some(engine)).await
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn run(engine: Option<Engine>) -> Result<(), Box<dyn Error>> {
    let pool = Arc::new(Pool::new());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let serving = axum::serve(listener, router(Arc::clone(&pool), engine));
    let _serving = AbortOnDropHandle::new(TaskTracker::new().spawn(serving.into_future()));
    let client = reqwest::Client::builder().no_proxy().build()?;
    let calls = surge(|path| {
        let answer = client.get(format!("http://{addr}{path}")).send();
        async move { answer.await.map_or(0, |answer| answer.status().as_u16()) }
    })
    .await;
    println!("second  orders  served  refused  failed  p99 of served  probes served  their p99");
    for second in 0..SECONDS {
        let of = |is_probe| {
            let in_second = move |call: &&Call| call.second == second && call.is_probe == is_probe;
            calls.iter().filter(in_second)
        };
        let count =
            |statuses: &[u16]| of(false).filter(|call| statuses.contains(&call.status)).count();
        let (served, p99) = well(of(false));
        let (probes, probe_p99) = well(of(true));
        println!(
            "{second:6}  {:6}  {served:6}  {:7}  {:6}  {:10} ms  {probes:7} of {}  {:6} ms",
            of(false).count(),
            count(&[429]),
            count(&[503, 0]),
            p99.as_millis(),
            of(true).count(),
            probe_p99.as_millis(),
        );
    }
    println!("most orders in progress: {}", pool.most_orders());
    println!("most requests that waited for a connection: {}", pool.most_waiting());
    Ok(())
}
