// SPDX-License-Identifier: Apache-2.0
//! A guard, a match and a tool in Rust, each of which also panics: denied, denied, handler_error. No crate is needed.
//!
//!     rustc --edition 2021 guard.rs $(pkg-config --libs-only-L turnphase) && ./guard [LAYOUT]

mod ffi;
mod turnphase;

use ffi::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use turnphase::{Error, Model, Result, Runtime, Session, Tool, Turn};

fn check(what: &str, holds: bool) {
    println!("{}: {}", if holds { "ok" } else { "WRONG" }, what);
    if !holds {
        std::process::exit(1);
    }
}

/// Whether the structs of ffi.rs lie as those of the headers do (tests/headers/layout.txt of the source tree).
fn check_layout(path: &str) -> Result<()> {
    let remedy = "name tests/headers/layout.txt of the source tree";
    let table = std::fs::read(path).map_err(|error| Error(format!("{}: {}; {}", path, error, remedy)))?;
    let mut places = HashMap::new(); // "tp_hook" -> (0, size); "tp_hook.id" -> (offset, size)
    let mut name = String::new();
    for line in String::from_utf8_lossy(&table).lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| cells.get(index).and_then(|cell| cell.parse::<usize>().ok());
        if let (true, Some(size)) = (line.starts_with("tp_"), number(1)) {
            name = cells[0].into();
            places.insert(name.clone(), (0, size));
        } else if let (Some(offset), Some(size), 3) = (number(0), number(1), cells.len()) {
            places.insert(format!("{}.{}", name, cells[2]), (offset, size));
        }
    }
    if !places.contains_key("tp_text") {
        return Err(Error(format!("{} has no table of structs; {}", path, remedy)));
    }
    for (name, size, fields) in ffi::places() {
        for (field, offset, size) in fields {
            // self and match are words of Rust's own
            let field = if field.starts_with("reserved_") { field } else { field.trim_end_matches('_') };
            if places.get(&format!("{}.{}", name, field)) != Some(&(offset, size)) {
                return Err(Error(format!("{}.{} does not lie as the header says", name, field)));
            }
        }
        // The library writes all of a fault.
        if name == "tp_fault" && places.get(name) != Some(&(0, size)) {
            return Err(Error(format!("{} has another size than the header says", name)));
        }
    }
    Ok(())
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
    if let Some(path) = std::env::args().nth(1) {
        check_layout(&path)?;
    }
    std::panic::set_hook(Box::new(|_| {})); // the panics of the callbacks are meant
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let host = Runtime::new()?;
    host.add("guard", "turn.intake", TP_FAILURE_REQUIRED, |call| match call.text(TP_FIELD_TEXT).as_str() {
        "panic" => panic!("a guard that panics"),
        "deny" => call.deny("not today"),
        _ => call.allow(),
    })?;
    let broken = Tool::new("broken", || panic!("a tool that panics"));
    host.add("tools", "turn.pre_tool_materialization", TP_FAILURE_DEFAULT, move |call| call.bring(&broken))?;
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
