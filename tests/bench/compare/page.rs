//! The page, `docs/benchmarks.md`.

use std::fmt::Write;

use anyhow::Result;

use crate::{
    bars,
    decision::Case,
    run::{CONNECTIONS, Effort, Placement, Results},
    table,
};

/// Puts the page together.
pub(crate) fn write(
    facts: &[(&str, String)],
    effort: &Effort,
    pinned: &Results,
    free: &Results,
    decisions: &[Case],
) -> Result<String> {
    let mut page = "# Benchmarks\n\nWritten by `scripts/bench`; not edited by hand.\n\n".to_owned();
    for (name, value) in facts {
        writeln!(page, "- {name}: {value}")?;
    }
    for (server, reason) in &pinned.skipped {
        writeln!(page, "- **{server:?} skipped**: {reason}")?;
    }
    writeln!(page, "\n## Bars\n")?;
    writeln!(page, "Medians with the smallest and the largest, of the pinned runs.\n")?;
    for bar in bars::all(pinned, decisions) {
        writeln!(page, "{}", bar.show())?;
    }
    writeln!(page, "\n## Server on one core, generator on another\n")?;
    writeln!(page, "{}", table::servers(pinned, Placement::Pinned)?)?;
    writeln!(page, "## Both on all cores\n")?;
    writeln!(page, "{}", table::servers(free, Placement::Free)?)?;
    writeln!(page, "## One decision inside a process\n")?;
    writeln!(page, "{}", table::decisions(decisions)?)?;
    write!(page, "{}", method(effort))?;
    Ok(page)
}

fn method(effort: &Effort) -> String {
    let Effort { pinned, free, seconds, warmup, java_warmup } = effort;
    format!(
        "## How it was measured

- **Load**: {CONNECTIONS} connections to 127.0.0.1 from one thread. Each keeps one batch of *depth* \
requests in flight and sends the next batch, with one write, when the last answer of the one before \
has been read. Every answer is checked for its length, its request number (Sentinel's protocol) and \
its status; a run with any other answer than OK is no run. Latency is that of a batch, from before its \
write to after the read of its last answer. Pinned, the generator looks for answers all the time instead of \
sleeping until there are some: on the loopback a server pays for waking a sleeping peer, as it does not for \
peers on other machines.
- **Rounds**: in each round all servers are measured one after the other at each depth, {seconds} s after \
{warmup} s of warm-up; {pinned} rounds pinned, {free} not. All servers stay up through all rounds. A ratio \
is that of two runs of one round. Shown is the median (smallest–largest) of the rounds.
- **CPU per request** is the time that the scheduler accounted to the server's threads during the measured \
time, system time included, by the number of answers. On the loopback a part of the kernel's work for \
either side is done, and accounted, on the other.
- **Who is the limit**: pinned, the server alone uses its core. If it leaves more than 5 % of it idle, the \
generator could not ask faster: then requests/s say little about the server, and CPU per request decides.
- **echo** is the floor: the same connection loop as the token server's, cutting the same frames and \
answering each with the same sixteen bytes; it decides and counts nothing.
- **Tollgate**: `--max-allowed-qps off`, no HTTP, a file with 100 000 flow rules of count 1e12 in \
Sentinel's default window (1 s in 10 buckets). \"One flow\" asks for one of them, \"100 000 flows\" for all in a shuffled order.
- **Sentinel (Java)**: its own token server (`tests/java-peer`) with one such rule, its request limit at \
1e9, default JVM flags, warmed up for {java_warmup} s at each depth before the first round.
- **Redis**: no persistence. INCR of one key; and a token bucket for one key, in a script (TIME, HMGET, HSET, \
PEXPIRE) through EVALSHA, with a rate and a size that are never used up.
- **In-process**: `RuleSet::acquire_flow` beside `RateLimiter::check_key` of the crate governor with its \
default store. Lookup included; no clock is read on either side, time moves on every 1 000 decisions. With two \
threads, the time each of them takes. With 100 000 flows they are asked for in a shuffled order, so what is measured is mostly memory.
"
    )
}
