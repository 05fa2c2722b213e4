/* SPDX-License-Identifier: Apache-2.0
 *
 * base.h: the types that every other public header uses: status, fault, text, allocator, log, token, version.
 * Rules that hold for the whole library:
 *  - A fallible function returns tp_status; zero is success. Results leave by ret_ parameters or by the parameter that
 *    the declaration names, and are untouched on failure.
 *  - A tp_fault parameter may be NULL; where it is given it is filled on failure only.
 *  - Growth. A struct that may grow begins with struct_size, is never a member of another, never returned by value,
 *  never an array element: it is passed by pointer, and a list is an array of pointers. The code that fills the struct
 *  sets struct_size to its own sizeof (the library does for structs that it passes out). The code that reads it reads
 *  no further, and takes the fields beyond it as zero. Zero in any other field means its default; in a field that was
 *  added later it means what the library did before. Such a struct has no padding at its end (reserved_ fields must be
 *  zero). A struct_size that is not set is refused with TP_ERR_VERSION. So is a field that a newer program has set and
 *  this library does not have; the fault names it.
 *  - These structs never change, and only these are passed by value or stand side by side in arrays: tp_text, tp_token,
 *    tp_allocator, tp_field, tp_fault, tp_value_walk, tp_breadcrumb.
 *  - Taken on success only: what a declaration calls taken (a handler, a model, a history, a store, a match, a hook)
 *    belongs to the library from the moment at which the call returns TP_OK; the struct itself is copied, and its
 *    destroy function is called exactly once, later. When the call fails nothing was taken and destroy is not called.
 *  - NULL where a function needs an object is refused: TP_ERR_USAGE. A function without a status returns 0, NULL, false
 *    or an empty text, or does nothing; a tp_call that is NULL counts as cancelled, and its answer is a failure.
 *  - Nothing is accepted and then ignored. An unknown enum value, a nonsense number and a reserved field that is not
 *    zero are refused. A field that is marked "not yet used" is reserved for later work, and is refused when it is not
 *    zero.
 *  - Enums have 32 bits. A newer library may return unknown values: treat them as "other". The …_FORCE_32 constants are
 *    never returned.
 *  - Threads: every function and callback type has a Threads: line; declarations in a row under one comment share it.
 *  - The library never ends its host, never prints, never changes signal handlers or the working directory.
 * Threads: any, for every function of this file. */
#ifndef TURNPHASE_BASE_H
#define TURNPHASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if UINTPTR_MAX < UINT64_MAX
#error "turnphase runs on 64-bit machines only: compile without -m32, -mx32 and -mabi=ilp32"
#endif

#ifdef __cplusplus
#define TP_BEGIN_DECLS extern "C" {
#define TP_END_DECLS }
#else
#define TP_BEGIN_DECLS
#define TP_END_DECLS
#endif

#if defined(__GNUC__)
#define TP_API __attribute__((visibility("default")))
#define TP_MUST_USE __attribute__((warn_unused_result))
#define TP_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#else
#define TP_API
#define TP_MUST_USE
#define TP_PRINTF(format_index, first_index)
#endif

#if defined(__cplusplus) && __cplusplus >= 201103L
#define TP_STATIC_ASSERT(condition, message) static_assert(condition, message)
#elif !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define TP_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#else
#define TP_STATIC_ASSERT(condition, message) struct tp_no_static_assert
#endif

TP_BEGIN_DECLS

/* ---- version ---------------------------------------------------------------------------------------------------- */

/** The version of these headers; the functions return that of the loaded library. Until 1.0 each minor version
 *  may break the ABI and has a soname of its own (docs/abi.md). */
#define TP_VERSION_MAJOR 0
#define TP_VERSION_MINOR 1
#define TP_VERSION_PATCH 0
#define TP_VERSION_NUMBER ((TP_VERSION_MAJOR << 16) | (TP_VERSION_MINOR << 8) | TP_VERSION_PATCH)

/** "0.1.0". Static text. Threads: any. */
TP_API const char *tp_version(void);
/** TP_VERSION_NUMBER of the library: major << 16 | minor << 8 | patch. Threads: any. */
TP_API uint32_t tp_version_number(void);
/** Whether the library was built with a feature: "assertions" (it checks its invariants and aborts on a broken one),
 *  "simulator" (it runs on a simulated machine), "inbox" (inbox.h). False for a name that it does not know, and for
 *  NULL. Threads: any. */
TP_API bool tp_feature(const char *name);

/* ---- status ----------------------------------------------------------------------------------------------------- */

/** The result of a call. The numbers are stable; status.def has the table. */
typedef enum tp_status {
  TP_OK = 0, /* success */
#define TP_STATUS_ROW(name, number, category, text) name = number,
#include "turnphase/status.def"
#undef TP_STATUS_ROW
  TP_STATUS_FORCE_32 = 0x7fffffff
} tp_status;

/** The constant's name ("TP_ERR_CYCLE"), its sentence, and its category ("usage", "limit", "timeout", "canceled",
 *  "hook", "store", "system", "internal"). Static text; never NULL, also for a number that is no status, whose name is
 *  "TP_ERR_UNKNOWN". Threads: any. */
TP_API const char *tp_status_name(tp_status status);
TP_API const char *tp_status_text(tp_status status);
TP_API const char *tp_status_category(tp_status status);
/** Whether the same call may succeed later, unchanged: what it needs is busy, full, locked, out of reach or out of
 *  time. A handler of a background job postpones its work on such a status (tp_call_postpone(), handler.h). Threads:
 *  any. */
TP_API bool tp_status_is_transient(tp_status status) TP_MUST_USE;
/** The name; of an unknown status with its number: "TP_ERR_UNKNOWN_612".
 *  @param buffer  gets the name with a NUL, cut to size bytes; 32 are enough for every status.
 *  @return buffer.
 *  Threads: any. */
TP_API char *tp_status_name_r(tp_status status, char *buffer, size_t size);

/* ---- phases ----------------------------------------------------------------------------------------------------- */

/** Phase ids. phases/merge/phases.def has their rows; tp_phase_find() turns a name or alias into an id. Stores keep the
 *  numbers. Phases that a host adds are numbered from TP_PHASE_HOST in the order of tp_runtime_options.phases. */
typedef uint32_t tp_phase_id;
enum tp_phase_ids {
  TP_PHASE_NONE = 0,
  TP_PHASE_AGENT_BUILD = 1,
  TP_PHASE_AGENT_REGISTER = 2,
  TP_PHASE_AGENT_UNREGISTER = 3,
  TP_PHASE_SESSION_START = 4,
  TP_PHASE_TURN_INTAKE = 5,
  TP_PHASE_TURN_PRE_POLICY = 6,
  TP_PHASE_TURN_PRE_PROMPT_CONTEXT = 7,
  TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION = 8,
  TP_PHASE_TURN_PRE_PROMPT_COMPILE = 9,
  TP_PHASE_TURN_POST_PROMPT_COMPILE = 10,
  TP_PHASE_MODEL_PRE = 11,
  TP_PHASE_MODEL_RESPONSE = 12,
  TP_PHASE_MODEL_POST = 13,
  TP_PHASE_TOOL_CREATE = 14,
  TP_PHASE_TOOL_REWRITE = 15,
  TP_PHASE_TOOL_PRE = 16,
  TP_PHASE_TOOL_RESULT = 17,
  TP_PHASE_TOOL_POST = 18,
  TP_PHASE_TOOL_BATCH = 19,
  TP_PHASE_TURN_PRE_COMPACTION = 20,
  TP_PHASE_TURN_POST_TURN = 21,
  TP_PHASE_SESSION_END = 22,
  TP_PHASE_RUNTIME_ERROR = 23,
  TP_PHASE_TURN_STOP = 24,
  TP_PHASE_TOOL_ASK = 25,
  TP_PHASE_TOOL_DENIED = 26,
  TP_PHASE_TURN_POST_COMPACTION = 27,
  TP_PHASE_MODEL_REQUEST = 28,
  TP_PHASE_HOST = 64,
  TP_PHASE_LIMIT = 128 /* ids are below this */
};

/* ---- text, faults, memory, log, tokens -------------------------------------------------------------------------- */

/** Borrowed bytes. Not NUL-terminated. data may be NULL when size is 0. */
typedef struct tp_text {
  const char *data;
  size_t size;
} tp_text;
TP_STATIC_ASSERT(sizeof(tp_text) == 2 * sizeof(void *), "tp_text is frozen");

/** The view of a NUL-terminated string; NULL gives the empty text. Threads: any. */
TP_API tp_text tp_text_of(const char *string);
/** Whether the text has exactly the bytes of a NUL-terminated string; NULL is the empty text. Threads: any. */
TP_API bool tp_text_is(tp_text text, const char *string);
/** Whether both texts have the same bytes. Threads: any. */
TP_API bool tp_text_equal(tp_text a, tp_text b);

/** Sizes. */
enum tp_size_limits {
  TP_ID_BYTES_MAX = 128,      /* longest id */
  TP_FAULT_MESSAGE_SIZE = 512 /* of tp_fault.message, with its NUL */
};

/** What failed, where and why. The caller owns it and may reuse it; no pointer in it needs freeing. The library writes
 *  all of its 768 bytes, so it need not be initialised, and it never grows. */
typedef struct tp_fault {
  tp_status code;
  tp_phase_id phase;                   /* TP_PHASE_*, 0 when the failure has none */
  uint32_t line, column;               /* from 1; 0 when the failure has no position in a text */
  int32_t system_error;                /* errno, or 0 */
  uint32_t reserved_;                  /* 0 */
  uint64_t reserved_words_[12];        /* 0 */
  char subject[TP_ID_BYTES_MAX + 1];   /* id of the subscription, handler, tool or file at fault; may be empty */
  char message[TP_FAULT_MESSAGE_SIZE]; /* one sentence: what is wrong and what to do about it */
  uint8_t reserved_bytes_[7];          /* 0 */
} tp_fault;
TP_STATIC_ASSERT(sizeof(tp_fault) == 768, "tp_fault is frozen");

/** Where memory comes from. Zero-filled means malloc and free. All three are set, or none.
 *  alloc returns memory aligned for any type, or NULL; size is never 0. release takes what alloc gave, with its size.
 *  Threads: called from every thread of the runtime at once. */
typedef struct tp_allocator {
  void *(*alloc)(void *ctx, size_t size);
  void (*release)(void *ctx, void *memory, size_t size);
  void *ctx;
} tp_allocator;
TP_STATIC_ASSERT(sizeof(tp_allocator) == 3 * sizeof(void *), "tp_allocator is frozen");

/** Levels of the log callback. */
typedef enum tp_log_level {
  TP_LOG_ERROR = 1,
  TP_LOG_WARNING = 2,
  TP_LOG_INFO = 3,
  TP_LOG_DEBUG = 4,
  TP_LOG_FORCE_32 = 0x7fffffff
} tp_log_level;
/** "error", "warning", "info", "debug"; "unknown" for any other number. Threads: any. */
TP_API const char *tp_log_level_name(tp_log_level level);

/** One log message of the library. Everything is borrowed until the callback returns. A field that does not apply is
 *  empty, NULL or 0. struct_size is set by the library. */
typedef struct tp_log_record {
  size_t struct_size;
  tp_log_level level;
  tp_status status; /* the error; TP_OK: there is none */
  int64_t unix_ms;
  const char *message;      /* one sentence, without raw content of turns; never NULL */
  const char *subscription; /* id of the subscription; of a denied tool call the name of what denied it */
  tp_text turn_id, session_id;
  tp_phase_id phase;  /* TP_PHASE_* */
  uint32_t reserved_; /* 0 */
} tp_log_record;

/** Receives log records. Called without any lock of ours; must not call back into the runtime. Threads: any. */
typedef void (*tp_log_fn)(void *ctx, const tp_log_record *record);

/** Where a text goes after it was redacted. */
typedef enum tp_redact_place {
  TP_REDACT_RECORD = 1, /* messages and reasons in records of attempts, turns and jobs, and in a turn's result */
  TP_REDACT_AUDIT = 2,  /* the detail of an audit row */
  TP_REDACT_LOG = 3,    /* the message of a log record */
  TP_REDACT_EVENT = 4,  /* text and key of an event of kind DIAGNOSTIC, AUDIT, RUN or PHASE_END */
  TP_REDACT_MEMORY = 5, /* what a long-term memory stores */
  TP_REDACT_FORCE_32 = 0x7fffffff
} tp_redact_place;

/** A text that leaves a turn. The size of its place cuts it after the callback. struct_size, place, text and capacity
 *  are set by the library; everything is borrowed until the callback returns. */
typedef struct tp_redaction {
  size_t struct_size;
  tp_redact_place place;
  /** 1: the text was longer than 4,096 bytes and was cut between two words; else 0. */
  uint32_t is_cut;
  /** The callback changes it; UTF-8, without a NUL at its end. */
  char *text;
  /** Bytes of the text: 1 to 4,096. The callback sets it when it makes the text shorter or longer. */
  size_t size;
  /** The longest text that the callback may leave. */
  size_t capacity;
} tp_redaction;

/** Takes secrets out of a text, in place. A text may be passed several times, also after it was redacted. The callback
 *  is called without any lock of ours; it must neither block nor call back into the runtime.
 *  @return false when it could not do its work. Then "[redacted]" takes the place of the text, as it does when size is
 *          above capacity, or the text is not UTF-8.
 *  Threads: any, also several at once. */
typedef bool (*tp_redact_fn)(void *ctx, tp_redaction *redaction);

/** Names one attempt that is still open. It is a number: it may be copied, stored and used by any thread. 0 is
 *  never valid. */
typedef struct tp_token {
  uint64_t bits;
} tp_token;
TP_STATIC_ASSERT(sizeof(tp_token) == 8, "tp_token is frozen");

/** What one library of turnphase answers at a path of a server of another, which has the same version:
 *  tp_mcp_server_mount(), tp_server_options.mount. */
typedef struct tp_mount tp_mount;

TP_END_DECLS
#endif
