//! The page, `docs/benchmarks.md`.

use std::fmt::{self, Write as _};

use anyhow::Result;

use crate::{
    algorithms,
    bar::Bar,
    bars, decision,
    entries::Entries,
    leases, memory,
    replaced::{self, RATE},
    run::{CONNECTIONS, Effort, Placement, Results},
    table,
};

/// What was measured; empty what was not.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) pinned: Results,
    pub(crate) free: Results,
    pub(crate) replaced: Vec<replaced::Round>,
    pub(crate) decisions: Vec<decision::Case>,
    pub(crate) algorithms: Vec<algorithms::Case>,
    pub(crate) entries: Option<Entries>,
    pub(crate) memory: Vec<memory::Case>,
    pub(crate) leases: Vec<leases::Round>,
}

impl Measured {
    fn bars(&self, effort: &Effort) -> Vec<Bar> {
        let mut bars = Vec::new();
        if !self.pinned.samples.is_empty() {
            bars.extend(bars::servers(&self.pinned));
        }
        if !self.replaced.is_empty() {
            bars.extend(replaced::bars(&self.replaced, effort));
        }
        bars.extend(bars::decisions(&self.decisions));
        bars.extend(algorithms::bars(&self.algorithms));
        bars.extend(self.entries.iter().flat_map(Entries::bars));
        bars.extend(bars::memory(&self.memory));
        if !self.leases.is_empty() {
            bars.push(leases::bar(&self.leases));
        }
        bars
    }
}

/// Puts the page together.
pub(crate) fn write(
    facts: &[(&str, String)],
    effort: &Effort,
    measured: &Measured,
) -> Result<String> {
    let Measured { pinned, free, replaced, decisions, algorithms, entries, memory, leases } =
        measured;
    let mut page = "# Benchmarks\n\nWritten by `scripts/bench`; not edited by hand.\n\n".to_owned();
    for (name, value) in facts {
        writeln!(page, "- {name}: {value}")?;
    }
    for (server, reason) in &pinned.skipped {
        writeln!(page, "- **{server:?} skipped**: {reason}")?;
    }
    if let Some(Entries { beside: Err(reason), .. }) = entries {
        writeln!(page, "- **sentinel-rust skipped**: {reason}")?;
    }
    writeln!(page, "\n## Bars\n")?;
    writeln!(
        page,
        "Medians with the smallest and the largest, of servers those of the pinned runs.\n"
    )?;
    for bar in measured.bars(effort) {
        writeln!(page, "{}", bar.show())?;
    }
    let mut section = |name: &str, is_there, table: Result<String, fmt::Error>| {
        if is_there { writeln!(page, "\n## {name}\n\n{}", table?.trim_end()) } else { Ok(()) }
    };
    let is_there = |results: &Results| !results.samples.is_empty();
    section(
        "Server on one core, generator on another",
        is_there(pinned),
        table::servers(pinned, Placement::Pinned),
    )?;
    section("Both on all cores", is_there(free), table::servers(free, Placement::Free))?;
    section("Rules replaced under load", !replaced.is_empty(), replaced::table(replaced))?;
    section("One decision inside a process", !decisions.is_empty(), table::decisions(decisions))?;
    section("Algorithms", !algorithms.is_empty(), algorithms::table(algorithms))?;
    if let Some(entries) = entries {
        section("One entry of the local engine", true, entries.table())?;
    }
    section("Leases", !leases.is_empty(), leases::table(leases))?;
    section("Memory", !memory.is_empty(), table::memory(memory))?;
    writeln!(page, "\n{}", method(effort).trim_end())?;
    Ok(page)
}

fn method(effort: &Effort) -> String {
    let Effort { pinned, free, seconds, warmup, java_warmup, replaced, replacements } = effort;
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
- **Rules replaced**: the open loop. Requests to all 100 000 flows leave when they are due, {RATE} a second, one after \
the other at depth 1 and sixteen on one connection at depth 16, whatever the answers do; latency is counted from when a \
request was due. The generator (one thread, {CONNECTIONS} connections) and the server share all cores. In a quiet run \
nothing changes. In the other the file is renamed over once a second, {replacements} times, each time with another count in \
each of the 100 000 rules; \"in force\" is when the server says so, after the 0.4 s for which it lets a file come to rest. \
{replaced} rounds, by turns the one or the other first. How late the generator itself was is a part of the latency.
- **Algorithms**: each through the engine, in turns with all others: flow rules and values of one hot-parameter rule, one \
key and 100 000 in a shuffled order, where everything passes and where next to nothing does. The bar is for the worst of the four.
- **Entries**: `LocalEngine::enter` and `Entry::exit` of a resource that is found by its name, in turns with \
`RateLimiter::check_key` of the crate governor with names for keys, which is told of no end. Calls have one flow rule (calls per \
second, refused at once), none, or one and count in the inbound node, too; no count is ever reached, and no clock is read: time \
moves on every 1 000 calls. \"The flow rule alone\" is `LocalEngine::check`: the resource found by the same names, its rule compared \
and the tokens counted, without an entry. On two threads each has a resource of its own.
- **sentinel-rust**: the crate `sentinel-core` 0.1.3 in one run of criterion (`tests/bench/sentinel-rust`), through \
`EntryBuilder` with its defaults, so its time is a number that a thread sets each millisecond; ours is told a time that is kept \
alike, and once more what two readings of the system's clock say. Shown are medians, with what they lie between with 95 % \
confidence; of a ratio the worst and the best that these allow.
- **Leases**: the rule lets a client hold up to a million tokens for a second. One client process on a thread and a core, \
the server on the other; callers are tasks that check one token after the other, and yield after 64. Without a lease the \
client does not know the rule and asks the server each time.
- **Memory**: resident bytes of a process with that many rules (or values of one rule), less those before, by their number. \
Idle is before the first request; in use is after a request to each, and a lease of each that lends. Names are short, and the \
text that the rules were read from is freed.
"
    )
}
