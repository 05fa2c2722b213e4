// SPDX-License-Identifier: Apache-2.0
//! The structs and functions of the C headers that a guard, a match, a tool and a turn need, as bindgen would write
//! them. Enums are numbers, never Rust's enums: a newer library may give values that no variant has. places() says
//! where each field lies, for a comparison with tests/headers/layout.txt.
#![allow(non_camel_case_types)]

use std::mem::{self, MaybeUninit};
use std::os::raw::{c_char, c_void};
use std::ptr;

pub const TP_OK: i32 = 0;
pub const TP_ANSWER_NONE: i32 = 0;
pub const TP_ANSWER_DONE: i32 = 1;
pub const TP_ANSWER_FAILED: i32 = 5;
pub const TP_MATCH_YES: i32 = 1;
pub const TP_MATCH_NO: i32 = 2;
pub const TP_TURN_COMPLETED: u32 = 1;
pub const TP_TURN_DENIED: u32 = 3;
pub const TP_STATE_SUCCEEDED: u32 = 3;
pub const TP_STATE_FAILED: u32 = 4;
pub const TP_REASON_NONE: u32 = 0;
pub const TP_REASON_MALFORMED: u32 = 6;
pub const TP_FAILURE_DEFAULT: u32 = 0;
pub const TP_FAILURE_REQUIRED: u32 = 3;
pub const TP_CAPABILITY_DECIDE: u64 = 1 << 32;
pub const TP_PHASE_TURN_INTAKE: u32 = 5;
pub const TP_FIELD_TEXT: u32 = 1;
pub const TP_EVENT_TOOL_END: u32 = 9;
pub const TP_TOOL_HANDLER_ERROR: u32 = 2;

/// The callbacks: a handler, a match or a tool; an event's; a destructor.
pub type tp_answer_fn = unsafe extern "C" fn(*mut c_void, *mut c_void) -> i32;
pub type tp_event_fn = unsafe extern "C" fn(*mut c_void, *const tp_event);
pub type tp_destroy_fn = unsafe extern "C" fn(*mut c_void);

fn size_of_target<T>(_: *const T) -> usize {
    mem::size_of::<T>()
}

macro_rules! structs {
    ($($name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct $name {
                $(pub $field: $type),*
            }
            /// All zero, which is every field's default; struct_size is to be set (made!).
            impl Default for $name {
                fn default() -> Self {
                    // Numbers, raw pointers and functions that may be absent: zero is a value of each.
                    unsafe { mem::zeroed() }
                }
            }
        )*
        /// Of each struct its name and size; of each of its fields name, offset and size.
        pub fn places() -> Vec<(&'static str, usize, Vec<(&'static str, usize, usize)>)> {
            vec![$({
                let place = MaybeUninit::<$name>::uninit();
                let base = place.as_ptr();
                let fields = vec![$({
                    let field = unsafe { ptr::addr_of!((*base).$field) };
                    (stringify!($field), field as usize - base as usize, size_of_target(field))
                }),*];
                (stringify!($name), mem::size_of::<$name>(), fields)
            }),*]
        }
    };
}

/// A struct that may grow, with its struct_size; what is not named is zero.
macro_rules! made {
    ($name:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $name { struct_size: std::mem::size_of::<$name>(), $($field: $value,)* ..Default::default() }
    };
}
pub(crate) use made;

structs! {
    tp_text { data: *const c_char, size: usize }
    tp_fault {
        code: i32, phase: u32, line: u32, column: u32, system_error: i32, reserved_: u32, reserved_words_: [u64; 12],
        subject: [c_char; 129], message: [c_char; 512], reserved_bytes_: [u8; 7],
    }
    tp_hook {
        struct_size: usize, id: *const c_char, phase: *const c_char, run: Option<tp_answer_fn>, inbox: *mut c_void,
        ctx: *mut c_void, destroy: Option<tp_destroy_fn>, failure: u32, limit_ms: u32, placement: u32, reserved_: u32,
    }
    tp_handler {
        struct_size: usize, id: *const c_char, summary: *const c_char, run: Option<tp_answer_fn>, inbox: *mut c_void,
        ctx: *mut c_void, destroy: Option<tp_destroy_fn>, phases: *const u32, phase_count: usize, capabilities: u64,
        contract_version: u32, placement: u32, idempotent: bool, reserved_: [u8; 7],
    }
    tp_match {
        struct_size: usize, matches: Option<tp_answer_fn>, destroy: Option<tp_destroy_fn>, ctx: *mut c_void,
        description: *const c_char, fields: *const u32, field_count: usize,
    }
    tp_subscription {
        struct_size: usize, id: *const c_char, handler: *const c_char, phase: u32, phase_name: *const c_char,
        disabled: bool, priority: i32, execution: u32, limit_ms: u32, failure: u32, fallback_verdict: u32,
        fallback: *const c_void, fallback_count: usize, attempts: u32, backoff: u32, backoff_ms: u32,
        max_concurrent: u32, sequential: u32, visibility: u32, after: *const c_void, before: *const c_void,
        needs: *const c_void, after_count: usize, before_count: usize, needs_count: usize,
        match_: *const tp_match, metadata: *const c_char,
    }
    tp_tool {
        struct_size: usize, name: *const c_char, description: *const c_char, schema: tp_text,
        run: Option<tp_answer_fn>, ctx: *mut c_void, placement: u32, idempotent: bool, max_concurrent: u32,
        limit_ms: u32, result_bytes_max: u32, reserved_: u32,
    }
    tp_tool_call {
        struct_size: usize, id: tp_text, name: tp_text, arguments: tp_text, malformed: bool, reserved_: u32,
    }
    tp_tool_result {
        struct_size: usize, kind: u32, started: bool, completion_order: u32, reserved_: u32, call_id: tp_text,
        name: tp_text, text: tp_text, duration_ns: i64,
    }
    tp_model_response {
        struct_size: usize, text: tp_text, calls: *const *const tp_tool_call, call_count: usize, stop_reason: tp_text,
        input_tokens: i64, output_tokens: i64, cost_micros: i64,
    }
    tp_event {
        struct_size: usize, kind: u32, phase: u32, sequence: u64, time_ns: i64, unix_ms: i64, ids: *const tp_text,
        id_count: u32, status: i32, visibility: u32, call_index: u32, text: tp_text, subscription: *const c_char,
        run: *const c_void, contribution: *const c_void, tool_call: *const tp_tool_call,
        tool_result: *const tp_tool_result,
    }
    tp_listener {
        struct_size: usize, on_event: Option<tp_event_fn>, ctx: *mut c_void, destroy: Option<tp_destroy_fn>, kinds: u64,
        phases: *const u32, phase_count: usize, visibility_min: u32, reserved_: u32,
    }
    tp_session_options {
        struct_size: usize, id: *const c_char, tenant: *const c_char, workspace: *const c_char, thread: *const c_char,
        agent: *mut c_void, model: *const c_void,
    }
    tp_turn_request {
        struct_size: usize, id: *const c_char, task: *const c_char, run: *const c_char, mode: *const c_char,
        caller: u32, text: tp_text,
    }
    tp_turn_result {
        struct_size: usize, outcome: u32, code: i32, text: tp_text, reason: tp_text, turn_id: tp_text, phase: u32,
        state: u32, why: u32, iterations: u32, tool_calls: u32, reserved_: u32, subscription: tp_text,
        bare_reason: tp_text,
    }
}

type status = i32;
type handle = *mut c_void;

#[link(name = "turnphase")]
extern "C" {
    pub fn tp_runtime_new(options: *const c_void, ret_runtime: *mut handle, fault: *mut tp_fault) -> status;
    pub fn tp_runtime_free(runtime: handle);
    pub fn tp_hook_add(runtime: handle, hook: *const tp_hook, fault: *mut tp_fault) -> status;
    pub fn tp_edit_begin(runtime: handle, owner: *const c_void, ret_edit: *mut handle, fault: *mut tp_fault) -> status;
    pub fn tp_edit_add_handler(edit: handle, handler: *const tp_handler, fault: *mut tp_fault) -> status;
    pub fn tp_edit_add_subscription(edit: handle, added: *const tp_subscription, fault: *mut tp_fault) -> status;
    pub fn tp_edit_commit(edit: handle, report: *mut c_void, fault: *mut tp_fault) -> status;
    pub fn tp_edit_discard(edit: handle);
    pub fn tp_script_model_new(responses: *const *const tp_model_response, count: usize, repeat: bool,
                               ret_model: *mut handle, fault: *mut tp_fault) -> status;
    pub fn tp_model_free(model: handle);
    pub fn tp_session_open(runtime: handle, options: *const tp_session_options, ret_session: *mut handle,
                           fault: *mut tp_fault) -> status;
    pub fn tp_session_listen(session: handle, listener: *const tp_listener, ret_id: *mut u64,
                             fault: *mut tp_fault) -> status;
    pub fn tp_session_close(session: handle, on_end: Option<tp_destroy_fn>, ctx: *mut c_void);
    pub fn tp_turn_run(session: handle, request: *const tp_turn_request, ret_result: *mut *const tp_turn_result,
                       fault: *mut tp_fault) -> status;
    pub fn tp_turn_result_free(result: *const tp_turn_result);
    pub fn tp_call_text(call: *const c_void, field: u32) -> tp_text;
    pub fn tp_call_allow(call: handle) -> i32;
    pub fn tp_call_deny(call: handle, reason: *const c_char) -> i32;
    pub fn tp_call_emit_tool_bundle(call: handle, id: *const c_char, tools: *const *const tp_tool,
                                    count: usize) -> status;
}
