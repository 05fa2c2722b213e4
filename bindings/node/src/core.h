/* SPDX-License-Identifier: Apache-2.0
 *
 * core.h: the addon turnphase.node: the functions of the library that JavaScript needs, and nothing that JavaScript can
 * do itself. It converts between structs and objects (fields.c, by the tables of bindings/fields.py) and between values
 * and objects (value.c), and takes work from an inbox (runtime.c, work.c). The package on top of it is written in
 * JavaScript (lib/).
 *
 * No reference to a JavaScript object is ever in the library: ctx and data of everything that is registered are
 * numbers, keys of a Map of the package, and no function of JavaScript is called by a thread of the library. So an
 * environment (a process, a worker) may end at any time, and no thread of the library ever waits for one.
 *
 * Functions that may wait (opening files, starting threads and programs, joining them) run on a thread of libuv's pool
 * and settle a promise; all others return at once.
 *
 * Errors: a function that returns false or NULL has thrown into its environment.
 * Threads: that of the environment, unless a function says otherwise. */
#ifndef TURNPHASE_BINDINGS_NODE_CORE_H
#define TURNPHASE_BINDINGS_NODE_CORE_H

#define NAPI_VERSION 8 /* for Node 16 and all later ones */
#include <node_api.h>
#include <uv.h>

#include "bindings/logs.h"
#include "bindings/tables.h"
#include "turnphase/turnphase.h"

/* ---- the environment ---- */

/** The addon in one environment: its strings for property names, and the functions that lib/ has set. */
typedef struct tpn_state tpn_state;
tpn_state *tpn_state_of(napi_env env);
/** The string of a static text, in camelCase for a property (limit_ms: limitMs), or unchanged. It is made once. */
napi_value tpn_name(napi_env env, const char *text, bool camel);
/** The class that lib/ has for a struct, whose constructor gets its members in their order; NULL: none, or an exception
 *  is pending. */
napi_value tpn_class(napi_env env, const tpb_struct *table);
/** Symbol.iterator. */
napi_value tpn_iterator(napi_env env);

/** Throws the error of a fault, by errorOf() of lib/errors.js. @return NULL. */
napi_value tpn_throw(napi_env env, tp_status status, const tp_fault *fault);
/** The same error as a value; NULL with an exception. */
napi_value tpn_error(napi_env env, tp_status status, const tp_fault *fault);
/** Throws a TypeError or a RangeError. @return false. */
bool tpn_type_error(napi_env env, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool tpn_range_error(napi_env env, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Returns undefined, or NULL with the exception of the status. */
napi_value tpn_done(napi_env env, tp_status status, const tp_fault *fault);
napi_value tpn_undefined(napi_env env);
napi_value tpn_bool(napi_env env, bool value);
bool tpn_is_pending(napi_env env);
/** Whether it is undefined or null. */
bool tpn_is_none(napi_env env, napi_value value);

enum { TPN_ARGUMENTS_MAX = 8 };
/** Gets the arguments of a call; those that are missing are undefined. False with an exception. */
bool tpn_arguments(napi_env env, napi_callback_info info, size_t count, napi_value *arguments);

/* ---- memory of what is read ---- */

typedef struct tpn_chunk tpn_chunk;
/** Memory that lives until tpn_arena_end(): data that was read into it does not need the JavaScript objects any more.
 *  It begins as {0}. */
typedef struct tpn_arena {
  size_t used;       /* used bytes of first */
  char *at, *end;    /* the free space in the last chunk */
  tpn_chunk *chunks; /* NULL: only first is used */
  _Alignas(16) char first[4096];
} tpn_arena;
void tpn_arena_begin(tpn_arena *arena);
void tpn_arena_end(tpn_arena *arena);
/** Allocates zeroed memory, aligned for every type. NULL without memory, with an exception. */
void *tpn_alloc(napi_env env, tpn_arena *arena, size_t size);

/* ---- structs and objects ---- */

/** Clears a struct, sets its struct_size, and fills it from the own properties of an object, whose names are those of
 *  the members in camelCase. A property that is undefined or null counts as missing.
 *  @param object  undefined or null: nothing.
 *  @return false with an exception that names the member. */
bool tpn_read(napi_env env, napi_value object, const tpb_struct *table, void *target, tpn_arena *arena);
/** Makes an object of the struct's class, or one with the members that are not zero; values of enums are their names.
 *  64-bit numbers whose names end with _ns, and those that a number cannot hold, are BigInts. NULL with an
 *  exception. */
napi_value tpn_show(napi_env env, const void *source, const tpb_struct *table);
/** Makes an array of such objects. NULL with an exception. */
napi_value tpn_show_list(napi_env env, const void *const *items, size_t count, const tpb_struct *table);
/** Reads an array of objects: *ret_items gets pointers to structs in the arena; table NULL: an array of strings. False
 *  with an exception. */
bool tpn_read_list(napi_env env, napi_value list, const tpb_struct *table, tpn_arena *arena,
                   const void *const **ret_items, size_t *ret_count);
/** Shows one member of a struct: undefined if it is zero. */
napi_value tpn_show_member(napi_env env, const void *source, const tpb_field *field);
/** The name of a number, or the number itself if the table has no name. */
napi_value tpn_word(napi_env env, const tpb_enum *table, int32_t number);
/** The number of a name of an enum. False with an exception that lists the names. */
bool tpn_number(napi_env env, const tpb_enum *table, const char *name, int32_t *ret_number);

/* ---- values, texts ---- */

/** Writes an object as a value, as JSON would (toJSON(), no undefined); a Uint8Array becomes bytes, and a BigInt an
 *  integer. False with an exception that names what cannot be written, also when the library refuses it. */
bool tpn_value(napi_env env, napi_value object, tpn_arena *arena, tp_text *ret_value);
/** Makes the object of a value; broken bytes become a string. NULL with an exception. */
napi_value tpn_object(napi_env env, tp_text value);
napi_value tpn_string(napi_env env, tp_text text);
/** Makes a number, or a BigInt if a number cannot hold it. */
napi_value tpn_int(napi_env env, int64_t number);
napi_value tpn_uint(napi_env env, uint64_t number);
/** Copies a string as UTF-8, with a NUL after it that does not count. False with an exception. */
bool tpn_text(napi_env env, napi_value string, tpn_arena *arena, tp_text *ret_text);
/** The same, but refuses a NUL inside, which would hide what follows. NULL with an exception. */
const char *tpn_chars(napi_env env, napi_value string, tpn_arena *arena);
/** Reads a key of the package's Map, or another whole number. False with an exception. */
bool tpn_key(napi_env env, napi_value number, uint64_t *ret_key);

/* ---- runtimes and their handles ---- */

/** A call that was taken and not answered. */
typedef struct tpn_slot {
  const tp_work *work; /* NULL: it was answered */
  tp_token token;
  uint32_t generation, next; /* next: index + 1 of the next slot with the same hash, or of the next free one */
} tpn_slot;

/** A runtime of the addon. It lives until the environment has ended its use and no handle of it is left. */
typedef struct tpn_runtime {
  napi_env env;
  uint32_t references;
  uint32_t jobs;   /* how many jobs on threads of the pool use it */
  bool is_ended;   /* set when it was freed, or its environment ends: no function may use it */
  bool is_cleaned; /* set when its environment ends */
  bool is_closed;  /* nothing of it is in the loop any more, once the callbacks of uv_close() have run */
  bool is_polled;
  tp_runtime *runtime; /* NULL: freed, or not made yet */
  tp_inbox *inbox;
  tpb_logs *logs;
  uv_poll_t poll, log_poll;
  bool is_pumped;       /* set for a runtime without threads that was started: the next two are open */
  uv_poll_t pump_poll;  /* polls whether something is ready */
  uv_timer_t pump_time; /* expires at its next deadline */
  uint32_t handles;     /* how many of them are open */
  napi_async_cleanup_hook_handle cleanup;
  napi_async_context context;
  napi_ref ready;
  double *rows; /* the memory of a Float64Array of lib/, with ROW_NUMBERS for each work */
  napi_ref rows_ref;
  tpn_slot *slots;
  uint32_t *hashes; /* as many as slots: index + 1 of the first slot, by the bits of the token */
  uint32_t slot_count, slot_free;
} tpn_runtime;

/** The kind of object that a handle refers to. */
typedef enum tpn_kind { TPN_RUNTIME, TPN_SESSION, TPN_AGENT, TPN_SUBMISSION, TPN_MODEL, TPN_TURN } tpn_kind;
typedef struct tpn_handle {
  tpn_kind kind;
  void *pointer; /* NULL: closed, taken or removed */
  tpn_runtime *runtime;
} tpn_handle;
/** Makes a handle. Takes the pointer, also on failure. */
napi_value tpn_handle_new(napi_env env, tpn_runtime *runtime, tpn_kind kind, void *pointer);
/** Returns the runtime of the first argument, if it may be used. NULL with an exception. */
tpn_runtime *tpn_usable(napi_env env, napi_value handle);
/** Returns the handle, if it has this kind and runtime, and a pointer; else NULL with an exception. */
tpn_handle *tpn_handle_get(napi_env env, const tpn_runtime *runtime, napi_value object, tpn_kind kind);
/** Makes an end whose work has this key as ctx; NULL with an exception. */
tp_end *tpn_end_new(napi_env env, tpn_runtime *runtime, uint64_t key);
/** Makes a slot. @return its id in JavaScript; -1 without memory. */
double tpn_slot_new(tpn_runtime *runtime, const tp_work *work);
/** The id of a call that was not answered; -1: it was answered. */
double tpn_slot_find(const tpn_runtime *runtime, tp_token token);
/** The call of an id. NULL: it was answered. */
tpn_slot *tpn_slot_get(tpn_runtime *runtime, napi_env env, napi_value id);
/** Ends the slot of a call that is over: nothing of the call is read after this. */
void tpn_slot_end(tpn_runtime *runtime, tpn_slot *slot);
/** Abandons all calls without an answer, so that their turns do not wait until the limits. */
void tpn_slots_abandon(tpn_runtime *runtime);
/** Ends a reference. */
void tpn_runtime_unref(tpn_runtime *runtime);

/* ---- taking ---- */

enum {
  TPN_AT_ONCE = 64,   /* how many works are taken before the loop runs again */
  TPN_ROW_NUMBERS = 4 /* kind, key of the object, key of the turn, id of the call or kind of the end */
};
/** The callback of the poll of the inbox: passes the waiting work to lib/. */
void tpn_on_ready(uv_poll_t *poll, int status, int events);
void tpn_on_log(uv_poll_t *poll, int status, int events);
/** The callback of the pump's poll: first runs what is ready of a runtime without threads. */
void tpn_on_pump(uv_poll_t *poll, int status, int events);
/** Passes all remaining work to lib/, at the end of a runtime. */
void tpn_take_all(napi_env env, tpn_runtime *runtime);

/* ---- jobs ---- */

/** A function that may wait, on a thread of libuv's pool. */
typedef struct tpn_job {
  tpn_runtime *runtime;
  void (*run)(struct tpn_job *job); /* Sets status and fault. Threads: one of the pool. */
  /** Makes the value for the promise; NULL: undefined. Also called after a failure. NULL with an exception. */
  napi_value (*end)(napi_env env, struct tpn_job *job);
  void *data; /* in the job's arena */
  tp_status status;
  tp_fault fault;
  tpn_arena arena;
  napi_deferred deferred;
  napi_async_work work;
} tpn_job;
/** Makes a job. NULL with an exception. */
tpn_job *tpn_job_new(napi_env env, tpn_runtime *runtime);
void tpn_job_free(tpn_job *job);
/** Starts a job, and takes it. @return its promise. */
napi_value tpn_job_start(napi_env env, tpn_job *job);

/* ---- functions of the addon ---- */

typedef struct tpn_function {
  const char *name; /* NULL ends the list */
  napi_callback call;
} tpn_function;
extern const tpn_function tpn_life_functions[], tpn_runtime_functions[], tpn_work_functions[], tpn_domain_functions[];

typedef struct tpn_database {
  tp_store *store;
  tp_shared_history *history;
} tpn_database;
/** Reads the options of a SQLite store for tpn_database_open(). NULL with an exception. */
const void *tpn_database_read(napi_env env, napi_value options, tpn_arena *arena);
/** Threads: any. */
tp_status tpn_database_open(const void *options, tpn_database *database, tp_fault *fault);

#endif
