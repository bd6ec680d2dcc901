//! The cases of Sentinel's hot-parameter rules, as its own classes answered them.
//!
//! The text is that of the specification. `+ms` is the time since the start of the case; `e` are
//! calls, `x` ends one that was held; `P` passes, `P~ms` passes after a wait, `B` is refused, `*k`
//! is k times in a row. F05 is ours, and so are F06 and F10, which it has in words only.

use super::{tests::enter, *};
use crate::{
    Param,
    rule::{ControlBehavior, ItemValue, ParamItem},
};

const CASES: &str = "
F01: count=5 dur=1 burst=0: 5 pass; refill needs strictly more than 1000 ms
    param idx=0 count=5
    +0: e args=a rep=6 => P*5 B
    +0: e args=b => P
    +1000: e args=a => B
    +1001: e args=a rep=6 => P*5 B
F02: 5/s with burst 3: 8 at once; the refill is proportional to the whole elapsed time, capped at 8
    param idx=0 count=5 burst=3
    +0: e args=a rep=9 => P*8 B
    +1300: e args=a rep=7 => P*6 B
    +2301: e args=a rep=6 => P*5 B
    +9000: e args=a rep=9 => P*8 B
F03: durationInSec=3 count=2: 2 tokens per 3 s; at +3001 both back; at +1600 none
    param idx=0 count=2 dur=3
    +0: e args=a rep=3 => P*2 B
    +1600: e args=a => B
    +3000: e args=a => B
    +3001: e args=a rep=3 => P*2 B
F04: items override: i:7 -> 2, string x -> 0, others 1
    param idx=0 count=1 items=7|2|int;x|0|java.lang.String
    +0: e args=i:7 rep=3 => P*2 B
    +0: e args=x => B
    +0: e args=y rep=2 => P B
    +0: e args=l:7 rep=2 => P B
F05: negative index -1 = last argument, of every call (Java: frozen by the first one)
    param idx=-1 count=1
    +0: e args=a,b rep=2 => P B
    +0: e args=x,y,b => B
    +0: e args=x,q,b => B
    +0: e args=x => P
F06: an index before the first argument finds nothing; with more arguments it does
    param idx=-2 count=1
    +0: e args=a rep=2 => P*2
    +0: e => P
    +0: e args=a,b rep=2 => P B
    +0: e args=a => P
F07: null and missing argument pass; collection checks each element, consumed tokens are not given back
    param idx=0 count=1
    +0: e args=null rep=2 => P*2
    +0: e rep=2 => P*2
    +0: e args=c:a/b => P
    +0: e args=b => B
    +0: e args=c:d/b => B
    +0: e args=d => B
F08: thread grade limit 1 per value
    param idx=0 count=1 grade=0
    +0: e args=a hold=h1 => P
    +0: e args=a => B
    +0: e args=b hold=h2 => P
    +0: x h1
    +0: e args=a hold=h3 => P
    +0: x h2
    +0: x h3
F09: throttle: count=10 mq=500: first + waits strictly < 500 -> 1+4 pass
    param idx=0 count=10 cb=2 mq=500
    +0: e args=a rep=8 => P P~100 P~200 P~300 P~400 B*3
    +100: e args=a rep=2 => P~400 B
F10: throttle without a queue passes what is due
    param idx=0 count=10 cb=2 mq=0
    +0: e args=a rep=2 => P B
    +99: e args=a => B
    +100: e args=a rep=2 => P B
F11: acquire larger than the capacity always blocks; n=3 of 5
    param idx=0 count=5
    +0: e args=a n=6 => B
    +0: e args=a n=3 => P
    +0: e args=a n=3 => B
    +0: e args=a n=2 => P
F12: no state change when a refill is insufficient: n=5 at 0; at +1500 only 1 token; at +5000 five
    param idx=0 count=1 burst=4
    +0: e args=a n=5 => P
    +1500: e args=a n=5 => B
    +5000: e args=a n=5 => P
    +10000: e args=a n=5 => P
    +10001: e args=a => B
F14: fractional count 2.9 -> 2
    param idx=0 count=2.9
    +0: e args=a rep=4 => P*2 B*2
F14b: 0.9 -> 0 -> block
    param idx=0 count=0.9
    +0: e args=a => B
F15: refill keeps rest: count=4: uses 1 at 0, at +1001 n=4 ok
    param idx=0 count=4
    +0: e args=a => P
    +1001: e args=a rep=5 => P*4 B
    +2002: e args=a rep=5 => P*4 B
";

/// 2023-11-14, a multiple of a minute.
const START_MS: u64 = 1_700_000_040_000;

#[test]
fn every_case_of_sentinel_is_answered_as_there() {
    let mut cases = 0;
    for line in CASES.lines().filter(|line| !line.is_empty()) {
        if line.starts_with(' ') {
            continue;
        }
        let (name, _) = line.split_once(':').unwrap();
        let steps = CASES.lines().skip_while(|l| *l != line).skip(1);
        run(name, steps.take_while(|l| l.starts_with(' ')));
        cases += 1;
    }
    assert_eq!(cases, 15);
}

fn run<'t>(name: &str, mut steps: impl Iterator<Item = &'t str>) {
    let rule = rule(&Words::of(steps.next().unwrap()));
    let mut rules = HotRules::new(&[Arc::new(rule)], &Room::of(1_000, 1 << 20));
    let mut held: Vec<(&str, Held)> = Vec::new();
    for step in steps {
        let (at, step) = step.trim().strip_prefix('+').unwrap().split_once(": ").unwrap();
        let now = Tick::from_ms(START_MS + at.parse::<u64>().unwrap());
        let Some((call, expected)) = step.split_once(" => ") else {
            let place = held.iter().position(|(hold, _)| step == format!("x {hold}")).unwrap();
            rules.leave(now, &held.swap_remove(place).1);
            continue;
        };
        let words = Words::of(call);
        let calls = 0..words.number("rep", 1);
        let answers = calls.map(|_| {
            let (answer, entered) = call_once(&mut rules, now, &words);
            match (entered, words.get("hold")) {
                (Some(entered), Some(hold)) => held.push((hold, entered)),
                (Some(entered), None) => rules.leave(now, &entered),
                (None, _) => {}
            }
            answer
        });
        assert_eq!(in_words(answers.collect()), expected, "{name} +{at}: {call}");
    }
}

/// The answer to one call, waits added up, as the specification writes it.
fn call_once(rules: &mut HotRules, now: Tick, words: &Words<'_>) -> (String, Option<Held>) {
    let texts: Vec<&str> = words.get("args").map_or(Vec::new(), |args| args.split(',').collect());
    let values: Vec<Vec<Param<'_>>> = texts.iter().map(|text| values(text)).collect();
    let args: Vec<Arg<'_>> = texts.iter().zip(&values).map(|(text, v)| arg(text, v)).collect();
    let n = u32::try_from(words.number("n", 1)).unwrap();
    let (mut place, mut waited) = (ParamPlace::default(), Duration::ZERO);
    loop {
        match rules.check(now, &args, n, &mut place) {
            ParamVerdict::Block { .. } => return ("B".into(), None),
            ParamVerdict::Wait(wait) => waited += wait,
            ParamVerdict::Ask { rule, .. } => panic!("rule {rule} asks a server"),
            ParamVerdict::Pass if waited.is_zero() => break,
            ParamVerdict::Pass => {
                return (format!("P~{}", waited.as_millis()), Some(enter(rules, &args)));
            }
        }
    }
    ("P".into(), Some(enter(rules, &args)))
}

fn values(text: &str) -> Vec<Param<'_>> {
    let one = |text: &'_ str| match text.split_once(':') {
        Some(("i", number)) => Param::Int(number.parse().unwrap()),
        Some(("l", number)) => Param::Long(number.parse().unwrap()),
        _ => Param::Str(text.to_owned().into()),
    };
    text.strip_prefix("c:")
        .map_or_else(|| vec![one(text)], |list| list.split('/').map(one).collect())
}

fn arg<'a>(text: &str, values: &'a [Param<'a>]) -> Arg<'a> {
    match (text, values) {
        ("null", _) => Arg::Null,
        (text, [one]) if !text.starts_with("c:") => Arg::One(one.clone()),
        _ => Arg::Many(values),
    }
}

fn rule(words: &Words<'_>) -> ParamRule {
    let items = words.get("items").map_or(Vec::new(), |items| items.split(';').collect());
    let item = |item: &str| {
        let parts: Vec<&str> = item.split('|').collect();
        let value = ItemValue::parse(parts[0], parts[2]).unwrap();
        ParamItem { value, count: parts[1].parse().unwrap() }
    };
    ParamRule {
        resource: "r".into(),
        regex: false,
        param_idx: words.get("idx").unwrap().parse().unwrap(),
        count: words.get("count").unwrap().parse().unwrap(),
        grade: u32::try_from(words.number("grade", 1)).unwrap(),
        behavior: match words.number("cb", 0) {
            2 => ControlBehavior::Pacing,
            _ => ControlBehavior::Reject,
        },
        max_queueing_time_ms: u32::try_from(words.number("mq", 0)).unwrap(),
        burst_count: u32::try_from(words.number("burst", 0)).unwrap(),
        duration_sec: words.number("dur", 1),
        items: items.into_iter().map(item).collect(),
        cluster: None,
    }
}

/// The `name=value` of a line.
struct Words<'t>(Vec<(&'t str, &'t str)>);

impl<'t> Words<'t> {
    fn of(line: &'t str) -> Self {
        Self(line.split_whitespace().filter_map(|word| word.split_once('=')).collect())
    }

    fn get(&self, name: &str) -> Option<&'t str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.get(name).map_or(default, |value| value.parse().unwrap())
    }
}

fn in_words(answers: Vec<String>) -> String {
    let mut runs: Vec<(String, usize)> = Vec::new();
    for answer in answers {
        match runs.last_mut() {
            Some((last, times)) if *last == answer => *times += 1,
            _ => runs.push((answer, 1)),
        }
    }
    let word = |(answer, times): &(String, usize)| match times {
        1 => answer.clone(),
        times => format!("{answer}*{times}"),
    };
    runs.iter().map(word).collect::<Vec<_>>().join(" ")
}
