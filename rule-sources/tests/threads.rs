//! A process of its own, so that its threads can be counted.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of a test")]

use std::{fs, time::Duration};

use rule_sources::{FileSource, RuleSource};

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let poll = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), poll).await.expect(what);
}

#[tokio::test]
async fn dropped_changes_leave_no_thread_behind() {
    let dir = tempfile::tempdir().unwrap();
    let source = FileSource::of_server(dir.path());
    let before = threads();
    for _ in 0..20 {
        let changes = source.watch().unwrap();
        // Ours and the event queue's.
        until("watching starts", || threads() >= before + 2).await;
        drop(changes);
        until("watching ends", || threads() == before).await;
    }
}
