//! Guava's real rate limiter on a fake clock beside ours.

#[path = "../limiter/tests/guava/ours.rs"]
mod ours;

use support::{Oracle, java_class_path};

use self::ours::{Ours, agrees};

const RATES: [&str; 9] = ["0.2", "1", "2.5", "3", "5", "7", "100", "160.5", "10000"];

fn guava(class_path: &str) -> Oracle {
    Oracle::start(class_path, "com.google.common.util.concurrent.Guava")
}

#[test]
fn what_is_recorded_of_guava_is_what_it_answers() {
    let Some(class_path) = java_class_path() else { return };
    let mut guava = guava(class_path);
    for line in include_str!("../limiter/vectors/guava.txt").lines() {
        let (question, recorded) = line.split_once(" = ").unwrap_or((line, ""));
        assert_eq!(guava.ask(question), recorded, "{question}");
    }
}

/// A walk over all that can be asked, the same in every run.
#[test]
fn whatever_is_asked_our_limiters_answer_as_guava_s() {
    let Some(class_path) = java_class_path() else { return };
    let mut guava = guava(class_path);
    let mut random = fastrand::Rng::with_seed(1);
    let mut compared = 0;
    for limiter in 0..200 {
        let count = RATES[random.usize(..RATES.len())];
        let create = if limiter % 2 == 0 {
            format!("bursty {count} {}", [0, 500_000, 1_000_000, 7_000_000][random.usize(..4)])
        } else {
            format!("warming {count} {} {}", random.u32(1_000..20_000_000), random.u32(2..8))
        };
        guava.ask(&create);
        let mut ours = Ours::create(&create).unwrap();
        let mut asked = vec![create];
        let mut now = 0;
        for calls in 0..40 {
            now += [0, random.u64(..300_000), random.u64(..9_000_000)][random.usize(..3)];
            let n = [1, random.u32(1..20)][random.usize(..2)];
            let question = match random.u32(..10) {
                0 => format!("{now} rate {}", RATES[random.usize(..RATES.len())]),
                1..=4 => format!("{now} try {n} {}", random.u64(..4_000_000)),
                _ => format!("{now} acquire {n}"),
            };
            let theirs = guava.ask(&question);
            asked.push(format!("{question} = {theirs}"));
            if let Some(answer) = ours.ask(&question) {
                assert!(agrees(answer, &theirs, calls), "{}\n{answer:?}", asked.join("\n"));
                compared += 1;
            }
        }
    }
    assert!(compared > 6_000, "{compared}");
}
