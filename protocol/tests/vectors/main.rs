//! Byte streams recorded from Sentinel's Java codec, and what ours makes of them.
//!
//! `vectors/*.json` were written by the real Java classes. `vectors/ours.json` lists each vector
//! for which ours gives something else, with our value and the reason; every other vector has to
//! come out as Java's. A listed value that is Java's after all, or that belongs to no vector, is
//! a failure too, so the list says exactly where the two differ.

#![expect(clippy::indexing_slicing, reason = "a vector that lacks a key fails its test")]

mod book;
mod decode;
mod encode;
mod event;

use book::Book;

const REQUESTS: &str = include_str!("../../vectors/requests.json");
const RESPONSES: &str = include_str!("../../vectors/responses.json");
const CHARSETS: &str = include_str!("../../vectors/charset-variants.json");
const DECODE_REQUESTS: &str = include_str!("../../vectors/decode-requests.json");
const DECODE_RESPONSES: &str = include_str!("../../vectors/decode-responses.json");

#[test]
fn requests_are_the_bytes_of_javas_client_and_are_read_back() {
    let mut book = Book::open("requests.json", REQUESTS, 147);
    while let Some(vector) = book.next() {
        encode::request(&mut book, &vector);
    }
    book.close();
}

#[test]
fn requests_of_clients_with_another_charset_are_read() {
    let mut book = Book::open("charset-variants.json", CHARSETS, 12);
    while let Some(vector) = book.next() {
        encode::request(&mut book, &vector);
    }
    book.close();
}

#[test]
fn responses_are_the_bytes_of_javas_server_and_are_read_back() {
    let mut book = Book::open("responses.json", RESPONSES, 72);
    while let Some(vector) = book.next() {
        encode::response(&mut book, &vector);
    }
    book.close();
}

#[test]
fn request_streams_are_read_as_javas_server_reads_them() {
    let mut book = Book::open("decode-requests.json", DECODE_REQUESTS, 77);
    while let Some(vector) = book.next() {
        decode::requests(&mut book, &vector);
    }
    book.close();
}

#[test]
fn response_streams_are_read_as_javas_client_reads_them() {
    let mut book = Book::open("decode-responses.json", DECODE_RESPONSES, 37);
    while let Some(vector) = book.next() {
        decode::responses(&mut book, &vector);
    }
    book.close();
}
