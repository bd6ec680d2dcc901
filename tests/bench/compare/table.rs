//! The tables of the page.

use std::fmt::Write;

use crate::{
    decision, memory,
    run::{DEPTHS, Placement, Results, Subject},
};

/// Servers under load, one row each.
pub(crate) fn servers(results: &Results, placement: Placement) -> Result<String, std::fmt::Error> {
    let last = if placement == Placement::Pinned { "server's core idle" } else { "cores used" };
    let mut table = format!(
        "| depth | server | requests/s | × echo | latency µs p50 / p99 / p99.9 | CPU µs/request | × echo | {last} |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|\n"
    );
    for depth in DEPTHS {
        for subject in Subject::ALL {
            if let Some(cells) = row(results, placement, depth, subject) {
                writeln!(table, "| {depth} | {} |", cells.join(" | "))?;
            }
        }
    }
    Ok(table)
}

/// `None` when the server was skipped.
fn row(
    results: &Results,
    placement: Placement,
    depth: u16,
    subject: Subject,
) -> Option<Vec<String>> {
    let median = |what: fn(&crate::run::Sample) -> f64| {
        results.spread(depth, subject, what).map(|spread| spread.median)
    };
    let to_echo = (subject, Subject::Echo);
    let busy = median(|sample| sample.busy)?;
    let last = match placement {
        Placement::Pinned => {
            let limited = results.generator_bound(depth, subject);
            let idle = results.idle(depth, subject)? * 100.0;
            format!("{idle:.0} %{}", if limited { " (generator's limit)" } else { "" })
        }
        Placement::Free => format!("{busy:.2}"),
    };
    Some(vec![
        subject.name().to_owned(),
        results.spread(depth, subject, |sample| sample.per_second)?.show_large(),
        results.ratio(depth, to_echo, |sample| sample.per_second)?.show(2),
        format!(
            "{:.0} / {:.0} / {:.0}",
            median(|sample| sample.p50_us)?,
            median(|sample| sample.p99_us)?,
            median(|sample| sample.p999_us)?
        ),
        results.spread(depth, subject, |sample| sample.cpu_us)?.show(3),
        results.ratio(depth, to_echo, |sample| sample.cpu_us)?.show(2),
        last,
    ])
}

/// Decisions in-process.
pub(crate) fn decisions(cases: &[decision::Case]) -> Result<String, std::fmt::Error> {
    let mut table =
        "| threads | flows | | ns/decision | × governor |\n|---:|---:|---|---:|---:|\n".to_owned();
    for case in cases {
        let decision::Case { subject, flows, threads, .. } = case;
        let (ns, ratio) = (case.ns().show(1), case.times_governor().show(2));
        writeln!(table, "| {threads} | {flows} | {subject} | {ns} | {ratio} |")?;
    }
    Ok(table)
}

/// Bytes of flows and hot values.
pub(crate) fn memory(cases: &[memory::Case]) -> Result<String, std::fmt::Error> {
    let mut table =
        "| | amount | bytes each, idle | bytes each, in use |\n|---|---:|---:|---:|\n".to_owned();
    for memory::Case { subject, amount, idle, in_use } in cases {
        let idle = idle.map_or(String::new(), |idle| format!("{idle:.0}"));
        writeln!(table, "| {subject} | {amount} | {idle} | {in_use:.0} |")?;
    }
    Ok(table)
}
