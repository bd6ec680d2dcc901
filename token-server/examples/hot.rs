//! scratch
#![allow(clippy::all, missing_docs)]
use bytes::{Buf, BytesMut};
use limiter::*;
use protocol::*;
use std::sync::Arc;
use token_server::{io::Handler, *};

struct Echo {
    deframer: Deframer,
}
impl Handler for Echo {
    fn batch(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Result<(), Close> {
        let mut rest = &input[..];
        out.reserve(rest.len());
        while let Some(body) = self.deframer.next(&mut rest)? {
            let xid = i32::from_be_bytes(*body.first_chunk().unwrap());
            Response::Flow { xid, status: Status::Ok, remaining: 0, wait_ms: 0 }.encode(out);
        }
        let taken = input.len() - rest.len();
        input.advance(taken);
        Ok(())
    }
}
fn time(name: &str, depth: usize, flows: u64, h: &mut impl Handler) {
    let mut best = f64::MAX;
    let mut x = 88172645463325252u64;
    let n = std::env::var("N").map_or(640_000, |n| n.parse().unwrap()) / depth;
    let batches: Vec<BytesMut> = (0..n)
        .map(|_| {
            let mut frames = BytesMut::new();
            for i in 0..depth {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                Request::Flow {
                    xid: i as i32,
                    flow_id: 1 + (x % flows) as i64,
                    count: 1,
                    priority: false,
                }
                .encode(&mut frames)
                .unwrap();
            }
            frames
        })
        .collect();
    let mut input = BytesMut::with_capacity(8192);
    let mut out = BytesMut::new();
    for _ in 0..std::env::var("N").map_or(15, |_| 1) {
        let t = std::time::Instant::now();
        for frames in &batches {
            input.clear();
            input.reserve(4096);
            input.extend_from_slice(frames);
            h.batch(&mut input, &mut out).unwrap();
            assert_eq!(out.len(), depth * 16);
            out.clear();
        }
        best = best.min(t.elapsed().as_nanos() as f64 / (n * depth) as f64);
    }
    println!(
        "{name:10} depth {depth:4}: {best:.2} ns/request, {:.1} ns/batch",
        best * depth as f64
    );
}
fn main() {
    let guard = std::env::args().nth(1).is_none();
    for flows in [1u64, 100_000].into_iter().take(std::env::var("N").map_or(2, |_| 1)) {
        let engine = Arc::new(ClusterEngine::new(Settings {
            max_allowed_qps: guard.then_some(1e12),
            ..Default::default()
        }));
        let rules: Vec<String> = (1..=flows).map(|id| format!(r#"{{"resource":"r{id}","count":1e12,"clusterMode":true,"clusterConfig":{{"flowId":{id},"thresholdType":1}}}}"#)).collect();
        let parsed = rule::parse(
            &format!("[{}]", rules.join(",")),
            "x",
            "default",
            rule::Contents::Mixed,
            true,
        )
        .unwrap();
        engine.replace(rule::merge(vec![parsed]).unwrap()).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::start());
        let service = Arc::new(Service::new(engine.clone(), clock, &Options::default()));
        for depth in [1, 16, 64]
            .into_iter()
            .filter(|d| std::env::var("D").map_or(true, |w| w == d.to_string()))
        {
            time("echo", depth, flows, &mut Echo { deframer: Deframer::requests() });
            time(&format!("{flows} flows"), depth, flows, &mut service.session());
        }
    }
}
