//! Runs scenario files on a manual clock: each line is a rule, a call or a question, and what it
//! says comes back as a line of the form of `expected.txt`.
//!
//! The form is that of the specification's oracle: `case NAME` starts anew, `t MS` sets the clock,
//! `flow …`, `degrade …` and so on add a rule and `load` loads those since the case began,
//! `e RESOURCE …` calls, `x NAME` ends what `hold=NAME` kept open, `sys` and `switch` set, and
//! `node`, `warm`, `cb`, `idx` read. A call that must wait goes on at once: the clock of a scenario
//! stands still until it is told.

mod args;
mod line;
mod rules;
mod show;

use std::{collections::HashMap, sync::Arc};

use limiter::{
    Tick,
    local::{
        Block, BlockKind, Call, Entry, EntryType, LocalEngine, LocalSettings, Step, SystemStatus,
    },
};

use args::Args;
use line::Line;
use rules::Rules;

/// What the lines of `text` say, in order.
///
/// # Errors
///
/// A line that cannot be understood, with its number.
pub(crate) fn run(text: &str) -> Result<Vec<String>, String> {
    let mut scenario = Scenario::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let said = Line::new(line).and_then(|line| scenario.play(&line));
        scenario.said.extend(said.map_err(|why| format!("line {}: {why}: {line}", number + 1))?);
    }
    Ok(scenario.said)
}

struct Scenario {
    engine: Arc<LocalEngine>,
    now: Tick,
    case: String,
    rules: Rules,
    status: SystemStatus,
    held: HashMap<String, Entry>,
    said: Vec<String>,
}

impl Scenario {
    fn new() -> Self {
        Self {
            engine: Arc::new(LocalEngine::new(LocalSettings::default())),
            now: Tick::from_ms(1_600_000_000_000),
            case: String::new(),
            rules: Rules::default(),
            status: SystemStatus::default(),
            held: HashMap::new(),
            said: Vec::new(),
        }
    }

    fn play(&mut self, line: &Line<'_>) -> Result<Option<String>, String> {
        match line.word {
            "case" => {
                self.case = line.name()?.into();
                self.rules = Rules::default();
                self.held.clear();
                return Ok(Some(format!("case {}", self.case)));
            }
            "t" => self.now = Tick::from_ms(line.name()?.parse().map_err(|_| "no time")?),
            "switch" => self.engine.set_enabled(line.name()? == "1"),
            "sys" => {
                let SystemStatus { load, cpu } = self.status;
                self.status.load = line.number("load", load)?;
                self.status.cpu = line.number("cpu", cpu)?;
                self.engine.set_status(self.status);
            }
            "load" => return Ok(Some(self.rules.load(&self.engine))),
            "e" => return self.enter(line).map(Some),
            "x" => self.exit(line)?,
            "node" => return Ok(Some(self.node(line.name()?))),
            "warm" => return self.warm(line.name()?).map(Some),
            "cb" => {
                let name = line.name()?;
                return Ok(Some(show::breakers(name, &self.engine.breakers(self.now, name))));
            }
            "idx" => return Ok(Some(self.rules.indices())),
            _ => self.rules.add(line)?,
        }
        Ok(None)
    }

    fn enter(&mut self, line: &Line<'_>) -> Result<String, String> {
        let resource = line.name()?;
        let times: usize = line.number("rep", 1)?;
        let mut said = Vec::new();
        for number in 0..times {
            let hold = line.get("hold").map(|name| held_name(name, number, times));
            said.push(self.enter_once(line, resource, hold)?);
        }
        Ok(format!("e {resource} {}", show::in_runs(&said)))
    }

    fn enter_once(
        &mut self,
        line: &Line<'_>,
        resource: &str,
        hold: Option<String>,
    ) -> Result<String, String> {
        let origin = line.get("origin").unwrap_or("");
        let context = match line.get("ctx") {
            Some(name) => Some(self.engine.context(name)),
            None if origin.is_empty() => None,
            None => Some(self.engine.context(&format!("ctx_{}", self.case))),
        };
        let args = Args::new(line.get("args").unwrap_or(""))?;
        let args = args.list();
        let mut call = Call::new(resource).origin(origin).count(line.number("n", 1)?).args(&args);
        if let Some(context) = &context {
            call = call.context(context);
        }
        if line.get("type") == Some("IN") {
            call = call.entry_type(EntryType::In);
        }
        if line.get("prio") == Some("1") {
            call = call.prioritized();
        }
        let (mut step, mut waited) = (self.engine.enter(self.now, call), 0.0);
        loop {
            match step {
                Step::Wait(waiting) => {
                    waited += waiting.wait().as_secs_f64() * 1e3;
                    step = waiting.resume(self.now);
                }
                // Servers are asked only where that is switched on.
                Step::Ask(asking) => step = asking.resume(self.now, None),
                Step::Blocked(block) => return Ok(format!("B:{}", kind(&block))),
                Step::Passed(mut entry) => {
                    if line.get("err").is_some() {
                        entry.fail();
                    }
                    match hold {
                        Some(name) => drop(self.held.insert(name, entry)),
                        None => entry.exit(self.now),
                    }
                    return Ok(show::passed(waited));
                }
            }
        }
    }

    fn exit(&mut self, line: &Line<'_>) -> Result<(), String> {
        let times: usize = line.number("rep", 1)?;
        for number in 0..times {
            let name = held_name(line.name()?, number, times);
            let Some(mut entry) = self.held.remove(&name) else { continue };
            if line.get("err").is_some() {
                entry.fail();
            }
            entry.exit(self.now);
        }
        Ok(())
    }

    fn node(&self, name: &str) -> String {
        let reading = match name {
            "ENTRY" => Some(self.engine.inbound(self.now)),
            name => self.engine.node(self.now, name),
        };
        show::node(name, reading.as_ref())
    }

    fn warm(&self, resource: &str) -> Result<String, String> {
        let warm = self.engine.warm_ups(self.now, resource);
        let first = warm.first().ok_or("no rule that warms up")?;
        Ok(show::warm(resource, first))
    }
}

/// Names of several entries that one line holds are numbered.
fn held_name(name: &str, number: usize, of: usize) -> String {
    if of > 1 { format!("{name}{number}") } else { name.into() }
}

fn kind(block: &Block) -> String {
    match block.kind() {
        BlockKind::System(kind) => format!("SystemBlock/{kind}"),
        kind => format!("{kind:?}"),
    }
}
