//! The connection loop: read, let a [`Handler`] answer, write.
//!
//! ```text
//!   socket ──read──► input ──Handler::batch──► out ──write──► socket
//!             ▲                                          │
//!             └── only when every answer has been taken ─┘
//! ```
//!
//! One read is answered with one write, or with a few when the handler bounds its batches. Nothing
//! more is read while answers wait for the peer to take them, so a connection never holds more
//! than one read and one batch of answers, whatever its peer does. A connection that never has to
//! wait for its peer lets others go first every few batches.

use std::{
    convert::Infallible,
    future::poll_fn,
    io::ErrorKind,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::yield_now,
    time::{Sleep, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::Close;

/// Bytes of a connection's read buffer: some two hundred flow requests, after which the system
/// call is a small part of the cost, and little enough to keep for an idle connection.
const READ_LEN: usize = 4096;

/// Batches of a connection that are answered one after the other while others wait: some three
/// thousand requests, a fraction of a millisecond. The runtime by itself lets a connection go on for
/// 128 reads; a quarter of this number costs a fifth more of a core while all connections are so busy.
const TURN: u32 = 16;

/// How long a closing connection waits for its peer to close too. Closing with unread bytes makes
/// the kernel send a reset, which can take answers away that the peer has not read yet.
const LINGER: Duration = Duration::from_secs(1);

/// Reads after a stop: 64 KiB, more than a peer has under way that waits for answers.
const LAST_READS: usize = 16;

/// What a connection does with the bytes that come in.
pub trait Handler: Send {
    /// Takes whole frames off the front of `input` and appends their answers to `out`.
    ///
    /// A call may stop early to bound `out`: it is called again, after `out` was written, until it
    /// takes nothing. What it leaves then is the start of a frame, and stands in front of the next
    /// bytes.
    ///
    /// # Errors
    ///
    /// Why the connection is to be closed. What is in `out` is written first.
    fn batch(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Result<(), Close>;

    /// Whether the stream stands inside a frame of which nothing is left in `input`.
    fn is_skipping(&self) -> bool {
        false
    }
}

/// How long a connection waits for its peer.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the rest of a started frame.
    pub frame: Duration,
    /// For the peer to take a batch of answers.
    pub write: Duration,
    /// For the next bytes between frames; `None`: for ever, as Sentinel's clients ping but once.
    pub idle: Option<Duration>,
}

/// Serves one connection until it ends, and says why it did.
///
/// When `stop` is cancelled, what has come in by then is answered and the connection is closed.
pub async fn serve_connection(
    stream: TcpStream,
    handler: &mut impl Handler,
    patience: Patience,
    stop: &CancellationToken,
) -> Close {
    let input = BytesMut::with_capacity(READ_LEN);
    let out = BytesMut::new();
    let mut connection = Connection { stream, handler, patience, input, out, turn: 0 };
    let Err(close) = connection.converse(stop).await;
    if close == Close::Draining {
        connection.say_goodbye().await;
    }
    close
}

struct Connection<'h, H> {
    stream: TcpStream,
    handler: &'h mut H,
    patience: Patience,
    /// Bytes that were read and not taken yet.
    input: BytesMut,
    /// Answers that were not written yet.
    out: BytesMut,
    /// Batches since others had their turn.
    turn: u32,
}

impl<H: Handler> Connection<'_, H> {
    async fn converse(&mut self, stop: &CancellationToken) -> Result<Infallible, Close> {
        let mut stopped = pin!(stop.cancelled());
        let mut timer = pin!(self.patience.idle.map(sleep));
        let mut in_frame = false;
        loop {
            self.make_room();
            let mut waits = false;
            let read = tokio::select! {
                biased;
                read = self.stream.read_buf(&mut self.input) => read?,
                // Looked at only when there is nothing to read.
                never = poll_fn(|_| { waits = true; Poll::<Infallible>::Pending }) => match never {},
                () = stopped.as_mut() => return self.finish().await,
                () = expired(timer.as_mut()) => {
                    return Err(if in_frame { Close::SlowFrame } else { Close::Idle });
                }
            };
            if read == 0 {
                return Err(Close::PeerClosed);
            }
            if waits {
                self.turn = 0;
            }
            let was_skipping = self.handler.is_skipping();
            let passed_border = self.answer().await? && !was_skipping;
            if stop.is_cancelled() {
                return self.finish().await;
            }
            let now_in_frame = !self.input.is_empty() || self.handler.is_skipping();
            if now_in_frame {
                // The time runs from the start of the frame, however its bytes drip in.
                if !in_frame || passed_border {
                    timer.set(Some(sleep(self.patience.frame)));
                }
            } else if in_frame || self.patience.idle.is_some() {
                timer.set(self.patience.idle.map(sleep));
            }
            in_frame = now_in_frame;
        }
    }

    /// Makes room for a read. This moves no more than the start of a frame, and never allocates:
    /// half of the buffer is free as soon as the place of what was taken is used again.
    fn make_room(&mut self) {
        if self.input.capacity() - self.input.len() < READ_LEN / 2 {
            self.input.reserve(READ_LEN / 2);
        }
    }

    /// Answers every whole frame that was read. True when bytes were taken.
    #[inline]
    async fn answer(&mut self) -> Result<bool, Close> {
        let read = self.input.len();
        loop {
            let before = self.input.len();
            let verdict = self.handler.batch(&mut self.input, &mut self.out);
            if !self.out.is_empty() {
                self.write().await?;
                self.out.clear();
            }
            verdict?;
            self.turn += 1;
            if self.turn == TURN {
                self.turn = 0;
                yield_now().await;
            }
            if self.input.is_empty() || self.input.len() == before {
                return Ok(self.input.len() < read);
            }
        }
    }

    /// Writes all answers. A timer is made only when the socket has no room for them.
    #[inline]
    async fn write(&mut self) -> Result<(), Close> {
        let written = match self.stream.try_write(&self.out) {
            Ok(written) if written == self.out.len() => return Ok(()),
            Ok(written) => written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error.into()),
        };
        self.out.advance(written);
        match timeout(self.patience.write, self.stream.write_all(&self.out)).await {
            Ok(done) => Ok(done?),
            Err(_elapsed) => Err(Close::SlowReader),
        }
    }

    /// Answers what has come in by now; what comes later is not read.
    async fn finish(&mut self) -> Result<Infallible, Close> {
        // Lets the runtime look at the socket once more.
        yield_now().await;
        for _ in 0..LAST_READS {
            self.make_room();
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) => return Err(Close::PeerClosed),
                Ok(_) => self.answer().await?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            };
        }
        Err(Close::Draining)
    }

    /// Closes our side and throws away what still comes, until the peer has closed too.
    async fn say_goodbye(&mut self) {
        let until_closed = async {
            self.stream.shutdown().await?;
            let mut unread = [0; 512];
            while self.stream.read(&mut unread).await? > 0 {}
            std::io::Result::Ok(())
        };
        // Whatever goes wrong now, all answers were handed over.
        drop(timeout(LINGER, until_closed).await);
    }
}

/// Ends when the timer does; never without one.
async fn expired(timer: Pin<&mut Option<Sleep>>) {
    match timer.as_pin_mut() {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        sync::{Arc, Mutex},
    };

    use bytes::BufMut;
    use tokio::{net::TcpListener, task::JoinSet};

    use super::*;

    const PATIENCE: Patience =
        Patience { frame: Duration::from_secs(10), write: Duration::from_secs(10), idle: None };

    #[expect(clippy::disallowed_methods, reason = "the clock of a paused runtime is the test's")]
    fn paused_clock() -> tokio::time::Instant {
        tokio::time::Instant::now()
    }

    /// Frames of four bytes, each answered with itself, two a batch at most. A frame of zeros is
    /// answered with a megabyte, a frame of ones ends the stream.
    #[derive(Debug, Default)]
    struct Fours {
        room: usize,
    }

    impl Handler for Fours {
        fn batch(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Result<(), Close> {
            assert!(out.is_empty(), "every answer was written before the next batch");
            self.room = self.room.max(input.capacity());
            for _ in 0..2 {
                let Some(&frame) = input.first_chunk::<4>() else { break };
                input.advance(4);
                match frame {
                    [0, 0, 0, 0] => out.put_bytes(0, 1 << 20),
                    [1, 1, 1, 1] => return Err(Close::Stream(protocol::FrameError::TooManyBad)),
                    frame => out.put_slice(&frame),
                }
            }
            Ok(())
        }
    }

    /// A served connection and its other end.
    struct Served {
        peer: TcpStream,
        served: JoinSet<(Close, usize)>,
        stop: CancellationToken,
    }

    impl Served {
        async fn open(patience: Patience) -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let addr = listener.local_addr().unwrap();
            let (peer, accepted) = tokio::join!(TcpStream::connect(addr), listener.accept());
            let (stream, _) = accepted.unwrap();
            let (stop, mut served) = (CancellationToken::new(), JoinSet::new());
            let token = stop.clone();
            served.spawn(async move {
                let mut handler = Fours::default();
                let close = serve_connection(stream, &mut handler, patience, &token).await;
                (close, handler.room)
            });
            Self { peer: peer.unwrap(), served, stop }
        }

        async fn send(&mut self, bytes: &[u8]) {
            self.peer.write_all(bytes).await.unwrap();
        }

        async fn receive(&mut self, len: usize) -> Vec<u8> {
            let mut bytes = vec![0; len];
            self.peer.read_exact(&mut bytes).await.unwrap();
            bytes
        }

        async fn closed(mut self) -> Close {
            self.served.join_next().await.unwrap().unwrap().0
        }
    }

    #[tokio::test]
    async fn frames_are_answered_in_order_however_they_are_cut() {
        let mut c = Served::open(PATIENCE).await;
        let frames: Vec<u8> = (0..100).flat_map(|n| [n, 2, 3, 4]).collect();
        c.send(&frames).await;
        assert_eq!(c.receive(400).await, frames);
        for byte in &frames[..40] {
            c.send(&[*byte]).await;
        }
        assert_eq!(c.receive(40).await, frames[..40]);
    }

    #[tokio::test]
    async fn a_flood_does_not_make_the_read_buffer_grow() {
        let mut c = Served::open(PATIENCE).await;
        let frames: Vec<u8> = [9, 2, 3, 4].repeat(25_000);
        for cut in [1, 3, 4_093, 50_001] {
            let (first, rest) = frames.split_at(cut);
            c.send(first).await;
            c.send(rest).await;
            assert_eq!(c.receive(frames.len()).await, frames);
        }
        c.peer.shutdown().await.unwrap();
        let (close, room) = c.served.join_next().await.unwrap().unwrap();
        assert_eq!((close, room), (Close::PeerClosed, READ_LEN));
    }

    /// Answers every 256 bytes with one, a batch each, and writes down whose turn it was.
    #[derive(Debug)]
    struct Turns {
        me: usize,
        turns: Arc<Mutex<Vec<usize>>>,
    }

    impl Handler for Turns {
        fn batch(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Result<(), Close> {
            if !input.is_empty() {
                input.advance(input.len().min(256));
                out.put_u8(0);
                self.turns.lock().unwrap().push(self.me);
            }
            Ok(())
        }
    }

    #[tokio::test]
    async fn connections_that_always_have_something_to_read_take_turns() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let turns = Arc::<Mutex<Vec<usize>>>::default();
        let (stop, mut serving, mut peers) = (CancellationToken::new(), JoinSet::new(), Vec::new());
        for me in 0..3 {
            let (peer, accepted) = tokio::join!(TcpStream::connect(addr), listener.accept());
            let (mut peer, (stream, _)) = (peer.unwrap(), accepted.unwrap());
            // As much as the kernel holds for it, before anything is read.
            socket2::SockRef::from(&peer).set_send_buffer_size(1 << 20).unwrap();
            peer.write_all(&[9; 40 * READ_LEN]).await.unwrap();
            peers.push(peer);
            let (mut handler, stop) = (Turns { me, turns: Arc::clone(&turns) }, stop.clone());
            serving.spawn(
                async move { serve_connection(stream, &mut handler, PATIENCE, &stop).await },
            );
        }
        for peer in &mut peers {
            peer.shutdown().await.unwrap();
        }
        while serving.join_next().await.is_some() {}
        let turns = turns.lock().unwrap();
        assert!(turns.len() >= 3 * 40 * READ_LEN / 256, "{turns:?}");
        let all_have_more = turns.len() / 2;
        // The runtime keeps no strict order: it may look at the sockets between two turns, or not.
        for in_a_row in turns[..all_have_more].chunk_by(|a, b| a == b) {
            assert!(in_a_row.len() <= 3 * TURN as usize, "{turns:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_before_a_half_close_is_answered() {
        let mut c = Served::open(PATIENCE).await;
        c.send(&[9, 9, 9, 9, 8]).await;
        c.peer.shutdown().await.unwrap();
        assert_eq!(c.receive(4).await, [9, 9, 9, 9]);
        assert_eq!(c.closed().await, Close::PeerClosed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reset_is_the_end_of_a_connection_and_of_nothing_else() {
        let c = Served::open(PATIENCE).await;
        socket2::SockRef::from(&c.peer).set_linger(Some(Duration::ZERO)).unwrap();
        let Served { peer, mut served, .. } = c;
        drop(peer);
        let (close, _) = served.join_next().await.unwrap().unwrap();
        assert_eq!(close, Close::Lost(ErrorKind::ConnectionReset));
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_before_the_loss_of_the_stream_is_answered() {
        let mut c = Served::open(PATIENCE).await;
        c.send(&[9, 9, 9, 9, 1, 1, 1, 1]).await;
        assert_eq!(c.receive(4).await, [9, 9, 9, 9]);
        assert_eq!(c.closed().await, Close::Stream(protocol::FrameError::TooManyBad));
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_drips_in_is_given_up_ten_seconds_after_its_start() {
        let mut c = Served::open(PATIENCE).await;
        for second in 0..4 {
            c.send(&[second]).await;
            sleep(Duration::from_secs(3)).await;
        }
        // That one was finished after nine seconds, and silence between frames has no end.
        assert_eq!(c.receive(4).await, [0, 1, 2, 3]);
        sleep(Duration::from_secs(86_400)).await;
        let started = paused_clock();
        c.send(&[9]).await;
        sleep(Duration::from_secs(9)).await;
        // More bytes of the same frame do not buy time.
        c.send(&[9]).await;
        assert_eq!(c.closed().await, Close::SlowFrame);
        assert_eq!(started.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn each_started_frame_has_its_own_ten_seconds() {
        let mut c = Served::open(PATIENCE).await;
        c.send(&[9]).await;
        for _ in 0..5 {
            sleep(Duration::from_secs(6)).await;
            // The rest of one frame and the start of the next.
            c.send(&[9, 9, 9, 9]).await;
            assert_eq!(c.receive(4).await, [9; 4]);
        }
        assert_eq!(c.closed().await, Close::SlowFrame);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_is_given_up() {
        let mut c = Served::open(PATIENCE).await;
        let started = paused_clock();
        // Megabytes of answers, until the kernel takes no more of them.
        c.send(&[0; 400]).await;
        let close = c.served.join_next().await.unwrap().unwrap().0;
        assert_eq!(close, Close::SlowReader);
        assert_eq!(started.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_connection_only_where_it_is_told_to() {
        let idle = Some(Duration::from_secs(60));
        let mut c = Served::open(Patience { idle, ..PATIENCE }).await;
        for _ in 0..3 {
            sleep(Duration::from_secs(59)).await;
            c.send(&[9; 4]).await;
            assert_eq!(c.receive(4).await, [9; 4]);
        }
        assert_eq!(c.closed().await, Close::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_answers_what_was_sent_and_says_goodbye() {
        let mut c = Served::open(PATIENCE).await;
        c.send(&[9; 4]).await;
        assert_eq!(c.receive(4).await, [9; 4]);
        c.send(&[8; 4]).await;
        c.stop.cancel();
        assert_eq!(c.receive(4).await, [8; 4]);
        assert_eq!(c.peer.read(&mut [0]).await.unwrap(), 0, "the end, not a reset");
        drop(c.peer);
        assert_eq!(c.served.join_next().await.unwrap().unwrap().0, Close::Draining);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_does_not_wait_for_a_peer_that_stays() {
        let mut c = Served::open(PATIENCE).await;
        c.send(&[9; 4]).await;
        assert_eq!(c.receive(4).await, [9; 4]);
        let started = paused_clock();
        c.stop.cancel();
        assert_eq!(c.served.join_next().await.unwrap().unwrap().0, Close::Draining);
        assert_eq!(started.elapsed(), LINGER);
    }
}
