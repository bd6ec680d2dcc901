//! Where the programs are that tests start.

use std::{path::PathBuf, process::Command, sync::OnceLock};

/// A command that runs `token-server`.
#[must_use]
pub fn token_server() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        // With this package among the selected, Cargo takes the very build of every library that
        // the tests are linked with.
        let selected = ["--package", env!("CARGO_PKG_NAME"), "--package", "token-server"];
        build(&[&selected[..], &["--bin", "token-server"]].concat()).join("token-server")
    };
    Command::new(PROGRAM.get_or_init(build))
}

/// The path of an example of this package.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    build(&["--package", env!("CARGO_PKG_NAME"), "--example", name]).join("examples").join(name)
}

/// Builds what `arguments` say in the profile of this test, and gives the target folder.
///
/// Cargo alone knows whether a program is as its source is now; asking it costs a second, so it is
/// asked once a run.
fn build(arguments: &[&str]) -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    if folder.ends_with("deps") {
        folder.pop();
    }
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(other) => other,
        None => panic!("{} is no target folder", folder.display()),
    };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", profile])
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .status()
        .unwrap();
    assert!(built.success(), "{arguments:?} do not build");
    folder
}
