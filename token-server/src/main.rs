//! The token server as a process.

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::Parser;
use limiter::{ClusterEngine, MonotonicClock};
use rule_sources::FileSource;
use token_server::{
    Rules, Server, Snapshots,
    config::{self, Config, ConfigError, Flags},
    descriptors, log, process, switches,
};
use tracing::info;

/// Exit code when configuration or rules are mistaken, as for a wrong flag.
const EXIT_MISTAKEN: u8 = 2;

fn main() -> ExitCode {
    let flags = Flags::parse();
    let (config, errors) = Config::load(&flags, &config::environment);
    let outcome = if flags.check || !errors.is_empty() {
        check(&config, &errors)
    } else if flags.print_config {
        say(&config::show(&config))
    } else {
        run(&flags, &config)
    };
    outcome.unwrap_or_else(|error| {
        complain(&[format!("{error:#}")]);
        ExitCode::FAILURE
    })
}

/// Reads everything, says what is wrong with it, and does nothing.
fn check(config: &Config, errors: &[ConfigError]) -> anyhow::Result<ExitCode> {
    // What is odd but no mistake is a line of the log.
    log::install(&config.log, config.log_format);
    let mut mistakes: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let engine = Arc::new(ClusterEngine::new(config.settings));
    let loaded = rules(config, &engine).map(|rules| rules.load()).transpose();
    match loaded {
        Err(errors) => mistakes.extend(errors.0.iter().map(ToString::to_string)),
        Ok(applied) if mistakes.is_empty() => {
            let applied = applied.unwrap_or_default();
            return say(&format!(
                "ok: {} flow rules, {} parameter rules\n",
                applied.flows, applied.params
            ));
        }
        Ok(_) => {}
    }
    mistaken(&mistakes)
}

fn run(flags: &Flags, config: &Config) -> anyhow::Result<ExitCode> {
    let log = log::install(&config.log, config.log_format);
    descriptors::raise(config.options.connections_max);
    let engine = Arc::new(ClusterEngine::new(config.settings));
    let clock = Arc::new(MonotonicClock::start());
    let open = |path| {
        let (engine, every) = (Arc::clone(&engine), config.snapshot_interval);
        Snapshots::open(path, every, engine, Arc::clone(&clock) as _).map(Arc::new)
    };
    // Before the rules, which go on with what was used.
    let snapshots = config.snapshot.as_deref().map(open).transpose()?;
    let rules = rules(config, &engine);
    match rules.as_ref().map(|rules| rules.load()).transpose() {
        Err(errors) => return mistaken(&errors.0),
        Ok(applied) if applied.is_none_or(|applied| applied.flows + applied.params == 0) => {
            info!("there are no rules: every request is answered NO_RULE_EXISTS");
        }
        Ok(_) => {}
    }
    switches::apply(&engine, &config.switches());
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(workers) = config.workers {
        runtime.worker_threads(workers.get());
    }
    let runtime = runtime.enable_all().build().context("cannot start threads")?;
    let code = runtime.block_on(async {
        let mut server = Server::new(config.options.clone(), engine)
            .with_clock(clock)
            .with_log(Arc::clone(&log) as _);
        if let Some(rules) = &rules {
            server = server.with_rules(Arc::clone(rules));
        }
        if let Some(snapshots) = snapshots {
            server = server.with_snapshots(snapshots);
        }
        let bound = server.bind()?;
        process::run(bound, rules, log, flags, config).await.context("cannot handle signals")
    });
    // Connections that were cut off are not waited for.
    runtime.shutdown_background();
    code
}

/// The rules that the configuration names; a server looks at cluster rules only.
fn rules(config: &Config, engine: &Arc<ClusterEngine>) -> Option<Arc<Rules>> {
    let source = FileSource::of_server(config.rules.as_ref()?);
    Some(Arc::new(Rules::new(Arc::new(source), Arc::clone(engine))))
}

fn mistaken(mistakes: &[impl Display]) -> anyhow::Result<ExitCode> {
    complain(mistakes);
    Ok(ExitCode::from(EXIT_MISTAKEN))
}

fn say(text: &str) -> anyhow::Result<ExitCode> {
    io::stdout().write_all(text.as_bytes()).context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

/// One line each on stderr. With a closed stderr the exit code says what can be said.
fn complain(lines: &[impl Display]) {
    let mut stderr = io::stderr().lock();
    for line in lines {
        if writeln!(stderr, "{line}").is_err() {
            return;
        }
    }
}
