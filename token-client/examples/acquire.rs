//! Asks a token server until it refuses.
//!
//! ```text
//! cargo run -p token-server -- --rules DIR &
//! cargo run -p token-client --example acquire -- [ADDRESS] [FLOW_ID]
//! ```

use std::{error::Error, time::Duration};

use token_client::{Client, DecidedBy};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().unwrap_or_else(|| "127.0.0.1:18730".into());
    let flow_id = arguments.next().map_or(Ok(101), |text| text.parse())?;

    let client = Client::builder().server(&server).namespace("default").build()?;
    client.ready(Duration::from_secs(3)).await?;
    for passed in 0..10_000 {
        let outcome = client.check(flow_id, 1, false).await;
        if outcome.decided_by != DecidedBy::Server {
            println!("{passed} passed, then the client decided by itself: {outcome:?}");
            return Ok(());
        }
        if outcome.is_block() {
            println!("{passed} passed, and the next call was refused");
            return Ok(());
        }
    }
    println!("10000 passed, and none was refused");
    Ok(())
}
