// SPDX-License-Identifier: Apache-2.0
//! A guard, a match and a tool in Rust, each of which also panics: denied, denied, handler_error. No crate is needed.
//!
//!     python3 generate.py >ffi.rs
//!     rustc --edition 2021 guard.rs $(pkg-config --libs-only-L turnphase) && ./guard

mod ffi;
mod turnphase;

use ffi::*;
use std::sync::{Arc, Mutex};
use turnphase::{Error, Model, Result, Runtime, Session, Turn};

fn check(what: &str, holds: bool) {
    println!("{}: {}", if holds { "ok" } else { "WRONG" }, what);
    if !holds {
        std::process::exit(1);
    }
}

fn denied_by(turn: &Turn, subscription: &str) -> bool {
    turn.outcome == TP_TURN_DENIED && turn.subscription == subscription
}

/// It answered, and denied: a server says 403.
fn answered(turn: &Turn) -> bool {
    turn.state == TP_STATE_SUCCEEDED && turn.why == TP_REASON_NONE
}

/// It is required and did not answer: a server says 503.
fn failed(turn: &Turn) -> bool {
    turn.state == TP_STATE_FAILED && turn.why == TP_REASON_MALFORMED
}

fn play() -> Result<()> {
    if let Some(field) = ffi::misplaced() {
        return Err(Error(format!("{} does not lie as the header says", field)));
    }
    std::panic::set_hook(Box::new(|_| {})); // the panics of the callbacks are meant
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let host = Runtime::new()?;
    host.add("guard", "turn.intake", TP_FAILURE_REQUIRED, |call| match call.text(TP_FIELD_TEXT).as_str() {
        "panic" => panic!("a guard that panics"),
        "deny" => call.deny("not today"),
        _ => call.allow(),
    })?;
    host.add_tool("broken", || panic!("a tool that panics"))?;
    let seen = Arc::clone(&kinds);
    let session = Session::open(&host, "first", Model::script("broken", "It is done.")?, move |event| {
        if event.kind == TP_EVENT_TOOL_END {
            seen.lock().unwrap().push(unsafe { (*event.tool_result).kind });
        }
    })?;

    let turn = session.run("hello")?;
    check("a turn completes", turn.outcome == TP_TURN_COMPLETED && turn.text == "It is done.");
    check("a tool that panics is a handler_error", *kinds.lock().unwrap() == [TP_TOOL_HANDLER_ERROR]);
    let turn = session.run("deny")?;
    check("a guard denies", denied_by(&turn, "guard") && answered(&turn) && turn.reason == "not today");
    let turn = session.run("panic")?;
    check("a guard that panics denies", denied_by(&turn, "guard") && failed(&turn));
    for (name, what) in [("waits", "an answer from another thread"), ("drops", "one that is dropped fails"),
                         ("panics", "one whose function panics fails")] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&seen);
        host.add_async_tool(name, move |later| match name {
            "waits" => { std::thread::spawn(move || later.answer("after a while")); }
            "drops" => drop(later),
            _ => panic!("an async tool that panics"),
        })?;
        let session = Session::open(&host, name, Model::script(name, "It is done.")?, move |event| {
            if event.kind == TP_EVENT_TOOL_END {
                said.lock().unwrap().push(unsafe { (*event.tool_result).kind });
            }
        })?;
        let turn = session.run("hello")?;
        let wanted = if name == "waits" { TP_TOOL_OK } else { TP_TOOL_HANDLER_ERROR };
        check(what, turn.outcome == TP_TURN_COMPLETED && *seen.lock().unwrap() == [wanted]);
    }
    host.add_with_match("strict", |call| call.deny("never"), || panic!("a match that panics"))?;
    let turn = session.run("hello")?;
    check("a match that panics denies", denied_by(&turn, "strict") && failed(&turn));
    let refused = host.add("nowhere", "no.such.phase", TP_FAILURE_DEFAULT, |_| TP_ANSWER_DONE);
    check("a refusal is an error with the words of the fault",
          refused.map_or_else(|Error(words)| words.contains("no.such.phase"), |()| false));
    Ok(())
}

fn main() {
    if let Err(Error(words)) = play() {
        eprintln!("{}", words);
        std::process::exit(1);
    }
}
