//! Arguments of a call.

use limiter::{Param, local::Arg};

/// What `args=` holds: `i:7` is an int, `l:7` a long, `c:a/b` a collection, `null` nothing, and
/// everything else text.
pub(super) struct Args<'a>(Vec<Word<'a>>);

enum Word<'a> {
    Null,
    One(Param<'a>),
    Many(Vec<Param<'a>>),
}

impl<'a> Args<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, String> {
        let words = text.split(',').filter(|_| !text.is_empty());
        words.map(Word::new).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn list(&self) -> Vec<Arg<'_>> {
        self.0.iter().map(Word::arg).collect()
    }
}

impl<'a> Word<'a> {
    fn new(word: &'a str) -> Result<Self, String> {
        let wrong = |_| format!("{word} is no number");
        Ok(match word.split_once(':') {
            Some(("i", number)) => Self::One(Param::Int(number.parse().map_err(wrong)?)),
            Some(("l", number)) => Self::One(Param::Long(number.parse().map_err(wrong)?)),
            Some(("c", words)) => {
                Self::Many(words.split('/').map(|word| Param::Str(word.into())).collect())
            }
            _ if word == "null" => Self::Null,
            _ => Self::One(Param::Str(word.into())),
        })
    }

    fn arg(&self) -> Arg<'_> {
        match self {
            Self::Null => Arg::Null,
            Self::One(value) => Arg::One(value.clone()),
            Self::Many(values) => Arg::Many(values),
        }
    }
}
