//! Rule files under a running server: in force soon, or refused whole and said why.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use support::{Process, Wire, eventually, flow_rule, param_rule, server, status::*, within};
use tempfile::TempDir;

/// What is promised for a change of a rule file.
const SOON: Duration = Duration::from_secs(2);

fn write(path: &Path, rules: &[String]) {
    fs::write(path, format!("[{}]", rules.join(",\n"))).unwrap();
}

/// A server with one rule file, and a connection to it.
struct Scene {
    server: Process,
    wire: Wire,
    path: PathBuf,
    folder: TempDir,
}

impl Scene {
    fn with(rules: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.json");
        write(&path, rules);
        let server = server(&["--rules", path.to_str().unwrap()]);
        let wire = Wire::connect(server.token.unwrap());
        Self { server, wire, path, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn revision(server: &Process) -> f64 {
    server.metric("tollgate_rules_revision ").unwrap()
}

/// One rule whose window is a day, so that no token comes back during the test.
fn limit(count: u32) -> [String; 1] {
    let day = r#","thresholdUnit":"window","windowIntervalMs":86400000,"sampleCount":1"#;
    [flow_rule(101, f64::from(count), day)]
}

/// The limit, all of which was used, has just been raised.
fn is_in_force_soon(scene: &mut Scene, way: &str, from: u32, to: u32) {
    within(SOON, way, || scene.wire.status(101) == OK);
    let rest = scene.wire.ask(101, to - from - 1, 1)[0];
    assert_eq!((rest.status, rest.remaining), (OK, 0), "{way}: all of what was added");
    assert_eq!(scene.wire.status(101), BLOCKED, "{way}: and no more");
}

/// TC-23 (a), (b), (c).
#[test]
fn a_write_a_rename_and_a_symlink_swap_are_in_force_within_two_seconds() {
    let mut scene = Scene::with(&limit(100));
    assert_eq!(scene.wire.ask(101, 100, 1)[0].status, OK);

    write(&scene.path, &limit(12_000));
    is_in_force_soon(&mut scene, "a write in place", 100, 12_000);
    assert_eq!(revision(&scene.server), 2.0);

    write(&scene.file("new"), &limit(13_000));
    fs::rename(scene.file("new"), &scene.path).unwrap();
    is_in_force_soon(&mut scene, "a rename", 12_000, 13_000);
    assert_eq!(revision(&scene.server), 3.0);

    // As a mounted config map changes: the file is a link into a link to a folder.
    let folders = [("first", 14_000), ("second", 15_000)];
    for (folder, count) in folders {
        fs::create_dir(scene.file(folder)).unwrap();
        write(&scene.file(folder).join("rules.json"), &limit(count));
    }
    let link = |scene: &Scene, to: &str, name: &str| {
        symlink(to, scene.file("new")).unwrap();
        fs::rename(scene.file("new"), scene.file(name)).unwrap();
    };
    link(&scene, "first", "..data");
    link(&scene, "..data/rules.json", "rules.json");
    is_in_force_soon(&mut scene, "a link in place of the file", 13_000, 14_000);
    link(&scene, "second", "..data");
    is_in_force_soon(&mut scene, "a symlink swap", 14_000, 15_000);
    assert_eq!(revision(&scene.server), 5.0);
}

#[test]
fn a_bad_file_keeps_the_old_rules_and_says_file_line_and_field() {
    let Scene { server, mut wire, path, folder: _folder } = Scene::with(&[flow_rule(101, 1e6, "")]);
    assert_eq!(revision(&server), 1.0);

    write(&path, &[flow_rule(102, 1e6, ""), flow_rule(103, -1.0, "")]);
    server.has_logged("rules.json:3");
    server.has_logged("count = -1");
    assert_eq!((wire.status(101), wire.status(102)), (OK, NO_RULE_EXISTS));
    assert_eq!(revision(&server), 1.0);

    write(&path, &[flow_rule(102, 1e6, "")]);
    eventually("the mended file is in force", || wire.status(102) == OK);
    assert_eq!(revision(&server), 2.0);
}

/// TC-23 (d).
#[test]
fn a_map_where_a_list_belongs_changes_nothing_and_is_said_with_its_place() {
    let Scene { server, mut wire, path, folder: _folder } = Scene::with(&[flow_rule(101, 1e6, "")]);
    assert_eq!(server.metric("tollgate_rules_load_errors "), Some(0.0));
    fs::write(&path, format!("\n\n{}", flow_rule(102, 1e6, ""))).unwrap();
    server.has_logged("rules.json:3");
    assert_eq!(server.metric("tollgate_rules_load_errors "), Some(1.0));
    assert_eq!((wire.status(101), wire.status(102)), (OK, NO_RULE_EXISTS));
    assert_eq!(revision(&server), 1.0);
}

/// TC-23 (e) and (f).
#[test]
fn one_flow_id_in_two_files_is_refused_and_two_files_of_one_namespace_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    write(&file("shop-flow-rules.json"), &[flow_rule(101, 1e6, "")]);
    write(&file("shop-param-rules.json"), &[param_rule(201, 1e6, "")]);
    let server = server(&["--rules", folder.path().to_str().unwrap()]);
    let mut wire = Wire::connect(server.token.unwrap());
    assert_eq!(server.metric("tollgate_rules_load_errors "), Some(0.0));
    assert_eq!((wire.status(101), param_status(&mut wire, 201)), (OK, OK), "both are loaded");
    let before = revision(&server);

    write(&file("stock-flow-rules.json"), &[flow_rule(102, 1e6, ""), flow_rule(101, 0.0, "")]);
    server.has_logged("stock-flow-rules.json:3");
    assert_eq!(server.metric("tollgate_rules_load_errors "), Some(1.0));
    assert_eq!((wire.status(101), wire.status(102)), (OK, NO_RULE_EXISTS));
    assert_eq!(revision(&server), before);
}

/// The status of a request for one token of the param rule `id`, for the value `int 7`.
fn param_status(wire: &mut Wire, id: u64) -> i8 {
    wire.send(&support::unhex(&format!("001a0000000102{id:016x}00000001000000010000000007")));
    wire.receive(16)[7].cast_signed()
}

#[test]
fn a_hangup_signal_reads_the_rules_again() {
    let Scene { server, mut wire, path, folder: _folder } = Scene::with(&[flow_rule(101, 1e6, "")]);
    write(&path, &[flow_rule(102, 1e6, "")]);
    server.signal("HUP");
    server.has_logged("reloading");
    eventually("the file is read again", || wire.status(102) == OK);
}
