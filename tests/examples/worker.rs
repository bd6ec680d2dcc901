//! A plain worker that takes jobs from its input: no more than two an hour for each user, and none
//! while the disk fails. What is refused is put off.
//!
//! ```sh
//! printf 'ann tea\nann coffee\nann cake\nbob -\nbob -\nbob pie\n' |
//!     cargo run -p integration-tests --example worker
//! ```
#![expect(clippy::print_stdout, reason = "an example for people")]

use std::io::{self, BufRead as _};

use token_client::{
    Engine, guard,
    limiter::{
        local::{Block, LocalSettings},
        rule::{Contents, parse, parse_degrade},
    },
};

const BY_USER: &str =
    r#"[{"resource": "order", "paramIdx": 0, "count": 2, "durationInSec": 3600}]"#;
const BREAKERS: &str = r#"[{"resource": "store", "grade": 2, "count": 1,
    "minRequestAmount": 1, "statIntervalMs": 60000, "timeWindow": 60}]"#;

/// Takes an order. The key is what the rule counts by; a refused order goes to `put_off`.
#[guard(resource = "order", key = "user:{user}", fallback = put_off)]
async fn take(engine: &Engine, user: &str, item: &str) -> io::Result<String> {
    store(engine, item).await?;
    Ok(format!("{user} gets {item}"))
}

async fn put_off(_: &Engine, user: &str, item: &str, block: Block) -> io::Result<String> {
    Ok(format!("{user} waits for {item}: {block}"))
}

/// Writes to a disk that knows no item `-`. Without a fallback a refusal is an error.
#[guard(resource = "store")]
async fn store(engine: &Engine, item: &str) -> Result<(), Failed> {
    if item == "-" { Err(Failed("the disk fails".into())) } else { Ok(()) }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failed(String);

impl From<Block> for Failed {
    fn from(block: Block) -> Self {
        Self(block.to_string())
    }
}

impl From<Failed> for io::Error {
    fn from(failed: Failed) -> Self {
        Self::other(failed)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let engine = Engine::new(LocalSettings::default());
    let rules = parse(BY_USER, "rules by user", "", Contents::Param, false)?.rules;
    engine.local().load_param(rules.param);
    engine.local().load_degrade(parse_degrade(BREAKERS, "breakers")?.rules);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let Some((user, item)) = line.split_once(' ') else { continue };
        match take(&engine, user, item).await {
            Ok(done) => println!("{done}"),
            Err(error) => println!("{user} gets nothing: {error}"),
        }
    }
    Ok(())
}
