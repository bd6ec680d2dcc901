//! Functions with the attribute.

use limiter::{
    local::Block,
    rule::{Contents, parse},
};

use super::engine::{ended, node, with_flow};
use crate::{Engine, guard};

#[derive(Debug, PartialEq)]
enum Error {
    Refused(Block),
    Own(u64),
}

impl From<Block> for Error {
    fn from(block: Block) -> Self {
        Self::Refused(block)
    }
}

/// Fails for odd numbers.
#[guard(resource = "halve", key = "order:create:{user_id}")]
async fn halve(engine: &Engine, user_id: u64, number: String) -> Result<u64, Error> {
    let number: u64 = number.parse().map_err(|_| Error::Own(0))?;
    if number % 2 == 1 {
        return Err(Error::Own(user_id));
    }
    Ok(number / 2)
}

struct Shop {
    engine: Engine,
    name: &'static str,
    sold: u64,
}

impl Shop {
    #[guard(resource = self.name, origin = from, inbound, fallback = Self::sold_out)]
    async fn sell(&mut self, from: &str, item: String) -> Result<String, ()> {
        self.sold += 1;
        Ok(item)
    }

    async fn sold_out(&mut self, from: &str, item: String, block: Block) -> Result<String, ()> {
        Ok(format!("no {item} for {from}: {block}"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_is_a_call_whose_key_is_an_argument() {
    let engine = with_flow("[]");
    let rules = r#"[{"resource": "halve", "paramIdx": 0, "count": 9, "paramFlowItemList":
        [{"object": "order:create:7", "classType": "String", "count": 2}]}]"#;
    let rules = parse(rules, "test", "", Contents::Param, false).unwrap().rules;
    engine.local().load_param(rules.param);
    let of = async |user, number: &str| halve(&engine, user, number.to_owned()).await;
    assert_eq!(of(7, "8").await, Ok(4));
    assert_eq!(of(7, "9").await, Err(Error::Own(7)));
    assert_eq!(ended(&engine, "halve"), (0, 2, 1));
    assert!(matches!(of(7, "8").await, Err(Error::Refused(_))));
    assert_eq!(of(8, "no number").await, Err(Error::Own(0)));
    assert_eq!(ended(&engine, "halve"), (0, 3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_method_has_its_own_engine_and_a_fallback_gets_what_it_would_have_got() {
    let rules = r#"[{"resource": "till", "count": 1, "limitApp": "desk"}]"#;
    let mut shop = Shop { engine: with_flow(rules), name: "till", sold: 0 };
    assert_eq!(shop.sell("desk", "tea".into()).await, Ok("tea".into()));
    let expected = "no tea for desk: flow rule of till: 1 calls per second for origin desk";
    assert_eq!(shop.sell("desk", "tea".into()).await, Ok(expected.into()));
    assert_eq!(shop.sell("post", "tea".into()).await, Ok("tea".into()));
    assert_eq!((shop.sold, node(&shop.engine, "till").total_block), (2, 1));
    assert_eq!(shop.engine.local().inbound(shop.engine.now()).total_pass, 2);
}
