// SPDX-License-Identifier: Apache-2.0
//! A few types over the C functions: a runtime and a session that end themselves, faults as errors, and closures as
//! callbacks. No panic crosses C: one that panics answers 0, which is no answer, so that a required guard that panics
//! denies. That needs panics that unwind: with `-C panic=abort` the first one ends the process.

use crate::ffi::*;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

/// The words of a fault.
#[derive(Debug)]
pub struct Error(pub String);
pub type Result<T> = std::result::Result<T, Error>;

/// Calls a function whose last parameter is a fault.
fn call(function: impl FnOnce(*mut tp_fault) -> tp_status) -> Result<()> {
    let mut fault = tp_fault::default();
    match function(&mut fault) {
        TP_OK => Ok(()),
        _ => Err(Error(unsafe { CStr::from_ptr(fault.message.as_ptr()) }.to_string_lossy().into_owned())),
    }
}

fn c(words: &str) -> CString {
    CString::new(words).expect("no NUL in it")
}

/// Borrows: what it is made of must outlive it.
fn text(words: &str) -> tp_text {
    tp_text { data: words.as_ptr().cast(), size: words.len() }
}

unsafe fn words(text: tp_text) -> String {
    if text.size == 0 {
        return String::new();
    }
    String::from_utf8_lossy(std::slice::from_raw_parts(text.data.cast(), text.size)).into_owned()
}

// ---- callbacks: each is a boxed closure, which the library gives back to destroy() ----------------------------------

/// One execution of a handler, for as long as it runs.
pub struct Call(*mut c_void);

impl Call {
    pub fn text(&self, field: u32) -> String {
        unsafe { words(tp_call_text(self.0, field)) }
    }
    pub fn allow(&self) -> i32 {
        unsafe { tp_call_allow(self.0) }
    }
    pub fn deny(&self, reason: &str) -> i32 {
        unsafe { tp_call_deny(self.0, c(reason).as_ptr()) }
    }
}

/// They come on any thread of the library, several at once.
pub type Handler = Box<dyn Fn(&Call) -> i32 + Send + Sync>;
pub type Match = Box<dyn Fn() -> bool + Send + Sync>;
pub type ToolFn = Box<dyn Fn() -> i32 + Send + Sync>;
pub type AsyncTool = Box<dyn Fn(Later) + Send + Sync>;
pub type Listener = Box<dyn Fn(&tp_event) + Send + Sync>;

/// The answer of a tool that comes later, from any thread: it holds no thread of the library. Where it is dropped
/// without an answer, the call fails at once.
pub struct Later(tp_token);
unsafe impl Send for Later {}

impl Later {
    pub fn answer(self, said: &str) {
        unsafe { tp_tool_complete(self.0, false, text(said), ptr::null_mut()) };
        std::mem::forget(self);
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        unsafe { tp_token_abandon(self.0, ptr::null_mut()) };
    }
}

fn answer(run: impl FnOnce() -> i32) -> i32 {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(TP_ANSWER_NONE)
}

unsafe extern "C" fn run_handler(run: *mut c_void, call: *mut c_void) -> i32 {
    answer(|| (*(run as *const Handler))(&Call(call)))
}

unsafe extern "C" fn run_tool(run: *mut c_void, _: *mut c_void) -> i32 {
    answer(|| (*(run as *const ToolFn))())
}

unsafe extern "C" fn run_async_tool(run: *mut c_void, call: *mut c_void) -> i32 {
    let mut token = tp_token::default();
    let deferred = tp_tool_defer(call, ptr::null(), &mut token);
    if deferred == TP_ANSWER_DEFERRED {
        let later = Later(token);
        answer(|| {
            (*(run as *const AsyncTool))(later); // a panic drops it
            TP_ANSWER_DONE
        });
    }
    deferred
}

unsafe extern "C" fn run_match(run: *mut c_void, _: *const c_void) -> i32 {
    answer(|| if (*(run as *const Match))() { TP_MATCH_YES } else { TP_MATCH_NO }) // NONE is 0, too
}

unsafe extern "C" fn run_listener(run: *mut c_void, event: *const tp_event) {
    answer(|| {
        (*(run as *const Listener))(&*event);
        TP_ANSWER_DONE
    });
}

unsafe extern "C" fn destroy<T>(boxed: *mut c_void) {
    drop(Box::from_raw(boxed as *mut T));
}

/// Gives a closure to a function that takes it on success only.
fn give<T>(closure: T, function: impl FnOnce(*mut c_void) -> Result<()>) -> Result<()> {
    let boxed = Box::into_raw(Box::new(closure)) as *mut c_void;
    let given = function(boxed);
    if given.is_err() {
        unsafe { destroy::<T>(boxed) };
    }
    given
}

// ---- runtime, session, turn -----------------------------------------------------------------------------------------

pub struct Runtime(*mut c_void);

impl Runtime {
    pub fn new() -> Result<Runtime> {
        let mut made = ptr::null_mut();
        call(|fault| unsafe { tp_runtime_new(ptr::null(), &mut made, fault) })?;
        Ok(Runtime(made))
    }

    pub fn add(&self, id: &str, phase: &str, failure: u32,
               run: impl Fn(&Call) -> i32 + Send + Sync + 'static) -> Result<()> {
        let (id, phase) = (c(id), c(phase));
        give::<Handler>(Box::new(run), |run| {
            let hook = made!(tp_hook {
                id: id.as_ptr(),
                phase: phase.as_ptr(),
                run: Some(run_handler),
                ctx: run,
                destroy: Some(destroy::<Handler>),
                failure: failure,
            });
            call(|fault| unsafe { tp_hook_add(self.0, &hook, fault) })
        })
    }

    /// A required guard of turn.intake with a match.
    pub fn add_with_match(&self, id: &str, run: impl Fn(&Call) -> i32 + Send + Sync + 'static,
                          matches: impl Fn() -> bool + Send + Sync + 'static) -> Result<()> {
        let (id, phase, description) = (c(id), c("turn.intake"), c("a closure"));
        give::<Handler>(Box::new(run), |run| {
            give::<Match>(Box::new(matches), |matches| {
                let matching = made!(tp_match {
                    matches: Some(run_match),
                    destroy: Some(destroy::<Match>),
                    ctx: matches,
                    description: description.as_ptr(),
                });
                let hook = made!(tp_hook {
                    id: id.as_ptr(),
                    phase: phase.as_ptr(),
                    run: Some(run_handler),
                    ctx: run,
                    destroy: Some(destroy::<Handler>),
                    failure: TP_FAILURE_REQUIRED,
                    match_: &matching,
                });
                call(|fault| unsafe { tp_hook_add(self.0, &hook, fault) })
            })
        })
    }

    /// A tool whose function hands its answer on, to a thread or a task of an executor, and returns.
    pub fn add_async_tool(&self, name: &str, run: impl Fn(Later) + Send + Sync + 'static) -> Result<()> {
        let name = c(name);
        give::<AsyncTool>(Box::new(run), |run| {
            let tool = made!(tp_tool {
                name: name.as_ptr(),
                run: Some(run_async_tool),
                ctx: run,
                destroy: Some(destroy::<AsyncTool>),
            });
            call(|fault| unsafe { tp_tool_add(self.0, &tool, fault) })
        })
    }

    /// A tool that every turn has.
    pub fn add_tool(&self, name: &str, run: impl Fn() -> i32 + Send + Sync + 'static) -> Result<()> {
        let name = c(name);
        give::<ToolFn>(Box::new(run), |run| {
            let tool = made!(tp_tool {
                name: name.as_ptr(),
                run: Some(run_tool),
                ctx: run,
                destroy: Some(destroy::<ToolFn>),
            });
            call(|fault| unsafe { tp_tool_add(self.0, &tool, fault) })
        })
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        unsafe { tp_runtime_free(self.0) }
    }
}

/// A model that asks for one tool, then says a sentence, and so on.
pub struct Model(*mut tp_model);

impl Model {
    pub fn script(tool: &str, sentence: &str) -> Result<Model> {
        let wanted = made!(tp_tool_call { name: text(tool) });
        let wanted: *const tp_tool_call = &wanted;
        let asks = made!(tp_model_response { calls: &wanted, call_count: 1 });
        let says = made!(tp_model_response { text: text(sentence) });
        let responses: [*const tp_model_response; 2] = [&asks, &says];
        let mut made = ptr::null_mut();
        call(|fault| unsafe { tp_script_model_new(responses.as_ptr(), 2, true, &mut made, fault) })?;
        Ok(Model(made))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { tp_model_free(self.0) } // NULL once a session has taken it
    }
}

pub struct Session<'a>(*mut c_void, PhantomData<&'a Runtime>);

/// What came of a turn.
pub struct Turn {
    pub outcome: u32,
    pub state: u32,
    pub why: u32,
    pub text: String,
    pub subscription: String,
    pub reason: String,
}

impl<'a> Session<'a> {
    pub fn open(runtime: &'a Runtime, id: &str, mut model: Model,
                on_event: impl Fn(&tp_event) + Send + Sync + 'static) -> Result<Session<'a>> {
        let id = c(id);
        let options = made!(tp_session_options { id: id.as_ptr(), model: model.0 });
        let mut opened = ptr::null_mut();
        call(|fault| unsafe { tp_session_open(runtime.0, &options, &mut opened, fault) })?;
        model.0 = ptr::null_mut();
        let session = Session(opened, PhantomData);
        give::<Listener>(Box::new(on_event), |on_event| {
            let listener = made!(tp_listener {
                on_event: Some(run_listener),
                ctx: on_event,
                destroy: Some(destroy::<Listener>),
            });
            call(|fault| unsafe { tp_session_listen(opened, &listener, ptr::null_mut(), fault) })
        })?;
        Ok(session)
    }

    pub fn run(&self, message: &str) -> Result<Turn> {
        let request = made!(tp_turn_request { text: text(message) });
        let mut result = ptr::null();
        call(|fault| unsafe { tp_turn_run(self.0, &request, &mut result, fault) })?;
        unsafe {
            let ended = &*result;
            let turn = Turn {
                outcome: ended.outcome,
                state: ended.state,
                why: ended.why,
                text: words(ended.text),
                subscription: words(ended.subscription),
                reason: words(ended.bare_reason),
            };
            tp_turn_result_free(result);
            Ok(turn)
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        unsafe { tp_session_close(self.0, None, ptr::null_mut()) }
    }
}
