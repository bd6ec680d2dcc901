//! Benches and examples that cargo runs, and that print lines of JSON.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

use crate::servers::Place;

/// The lines that `cargo args` prints.
pub(crate) fn lines<T: DeserializeOwned>(
    place: &Place,
    args: &[&str],
    quick: bool,
) -> Result<Vec<T>> {
    let what = args.join(" ");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&place.root).args(args).args(["--quiet", "--locked"]);
    if quick {
        cargo.args(["--", "--quick"]);
    }
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo {what} failed");
    let lines = str::from_utf8(&output.stdout)?.lines();
    lines.map(|line| serde_json::from_str(line).context(format!("cargo {what}: {line}"))).collect()
}
