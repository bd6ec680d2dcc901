//! How many calls a second go through one client, by the number of tasks that call: a client and
//! an echo of fixed answers, each on a thread of its own. The client's runtime is tokio's for one
//! thread, or with CLIENT_THREADS the one for several.
//!
//! ```text
//! cargo run --release -p token-client --example throughput -- [CONNECTIONS] [CLIENT_THREADS]
//! ```

use std::{
    error::Error,
    net::SocketAddr,
    num::NonZeroUsize,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};
use hdrhistogram::Histogram;
use protocol::{Deframer, Request, Response, Status};
use token_client::Client;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime,
    task::JoinSet,
};

const SECONDS: u64 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let connections = arguments.next().map_or(Ok(NonZeroUsize::MIN), |text| text.parse())?;
    let threads = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let address = start_echo()?;
    let mut runtime = match threads {
        0 => runtime::Builder::new_current_thread(),
        _ => runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(threads.max(1)).enable_all().build()?;
    print(&["tasks", "calls/s", "p50", "p99", "p99.9", "no answer"].map(str::to_owned));
    for tasks in [1, 16, 64, 1_024] {
        runtime.block_on(measure(address, connections, tasks))?;
    }
    Ok(())
}

async fn measure(
    address: SocketAddr,
    connections: NonZeroUsize,
    tasks: u32,
) -> Result<(), Box<dyn Error>> {
    let client = Client::builder()
        .server(&address.to_string())
        .connections(connections)
        .timeout(Duration::from_secs(1))
        .build()?;
    client.ready(Duration::from_secs(3)).await?;
    let started = now();
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        running.spawn(call(client.clone(), started + Duration::from_secs(SECONDS)));
    }
    let mut all = Histogram::<u64>::new(3)?;
    let mut failed = 0;
    for (times, no_answer) in running.join_all().await {
        all.add(times)?;
        failed += no_answer;
    }
    let micros = |quantile| format!("{} us", all.value_at_quantile(quantile) / 1_000);
    print(&[
        tasks.to_string(),
        (all.len() * 1_000 / u64::try_from(started.elapsed().as_millis())?).to_string(),
        micros(0.5),
        micros(0.99),
        micros(0.999),
        failed.to_string(),
    ]);
    client.close().await;
    Ok(())
}

/// Calls until `end`: the times of the calls in nanoseconds, and how many had no answer.
async fn call(client: Client, end: Instant) -> (Histogram<u64>, u64) {
    let mut times = Histogram::new(3).expect("three digits");
    let mut no_answer = 0;
    let mut before = now();
    while before < end {
        no_answer += u64::from(client.acquire(101, 1, false).await.is_err());
        let after = now();
        let nanos = u64::try_from((after - before).as_nanos()).unwrap_or(u64::MAX);
        times.record(nanos).expect("it grows");
        before = after;
    }
    (times, no_answer)
}

/// Serves on a thread of its own until the process ends.
fn start_echo() -> Result<SocketAddr, Box<dyn Error>> {
    let (sender, address) = mpsc::channel();
    thread::spawn(move || -> std::io::Result<()> {
        runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let _heard = sender.send(listener.local_addr()?);
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                connections.spawn(echo(stream));
            }
        })
    });
    Ok(address.recv()?)
}

async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    let mut deframer = Deframer::requests();
    loop {
        input.reserve(1 << 16);
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        let mut rest = &input[..];
        while let Ok(Some(body)) = deframer.next(&mut rest) {
            match Request::decode(body) {
                Ok(Request::Flow { xid, .. }) => {
                    let (status, remaining, wait_ms) = (Status::Ok, 1, 0);
                    Response::Flow { xid, status, remaining, wait_ms }.encode(&mut output);
                }
                Ok(Request::Ping { xid, .. }) => {
                    Response::Ping { xid, connected: 1 }.encode(&mut output);
                }
                Ok(_) | Err(_) => {}
            }
        }
        let used = input.len() - rest.len();
        input.advance(used);
        stream.write_all(&output).await?;
        output.clear();
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the system's clock")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::print_stdout, reason = "the result")]
fn print(row: &[String; 6]) {
    let [tasks, rate, p50, p99, p999, failed] = row;
    println!("{tasks:>6} {rate:>10} {p50:>8} {p99:>8} {p999:>8} {failed:>10}");
}
