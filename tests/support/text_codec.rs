//! Messages of gRPC that are plain text.

use bytes::{Buf, BufMut};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// Writes and reads messages that are text, in place of a schema.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextCodec;

impl Codec for TextCodec {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for TextCodec {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for TextCodec {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        let text = String::from_utf8(bytes.into());
        text.map(Some).map_err(|_| Status::invalid_argument("the message is no text"))
    }
}
