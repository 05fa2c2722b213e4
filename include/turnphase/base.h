/* SPDX-License-Identifier: Apache-2.0
 *
 * base.h: the words that every other public header uses: status, fault, text, allocator, log, token.
 * Rules that hold for the whole library:
 *  - A fallible function returns tp_status; zero is success. Results leave by ret_ parameters or by the parameter that
 *    the declaration names, and are untouched on failure.
 *  - A tp_fault parameter may be NULL; where it is given it is filled on failure only.
 *  - Structs of options and descriptors begin with struct_size = sizeof the struct; zero in any other field means its
 *    default. Fields beyond the caller's struct_size are read as zero.
 *  - The library never ends its host, never prints, never changes signal handlers or the working directory. */
#ifndef TURNPHASE_BASE_H
#define TURNPHASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

TP_BEGIN_DECLS

/** What a call came to. The numbers are stable; status.def has the table. */
typedef enum tp_status {
  TP_OK = 0,
#define X(name, number, category, text) name = number,
#include "turnphase/status.def"
#undef X
} tp_status;

/** The constant's name ("TP_ERR_CYCLE"), its sentence, and its category ("usage", "limit", "timeout", "canceled",
 *  "hook", "store", "system", "internal"). Static text; never NULL, also for a number that is no status. Threads: any.
 *  */
TP_API const char *tp_status_name(tp_status status);
TP_API const char *tp_status_text(tp_status status);
TP_API const char *tp_status_category(tp_status status);

/** Bytes that somebody else owns. Not NUL-terminated. data may be NULL when size is 0. */
typedef struct tp_text {
  const char *data;
  size_t size;
} tp_text;

/** The view of a NUL-terminated string; NULL gives the empty text. */
TP_API tp_text tp_text_of(const char *string);

enum {
  TP_ID_BYTES_MAX = 128,    /* longest id */
  TP_FAULT_MESSAGE_SIZE = 512
};

/** The story of a failure. The caller owns it and may reuse it; no pointer in it needs freeing. */
typedef struct tp_fault {
  tp_status code;
  uint32_t phase;                          /* TP_PHASE_*, 0 when the failure has none */
  uint32_t line, column;                   /* from 1; 0 when the failure has no place in a text */
  int32_t system_error;                    /* errno, or 0 */
  char subject[TP_ID_BYTES_MAX + 1];       /* id of the subscription, handler, tool or file at fault; may be empty */
  char message[TP_FAULT_MESSAGE_SIZE];     /* one sentence: what is wrong and what to do about it */
} tp_fault;

/** Where memory comes from. Zero-filled means malloc and free. All three are set, or none.
 *  alloc returns memory aligned for any type, or NULL; size is never 0. release takes what alloc gave, with its size.
 *  Threads: called from every thread of the runtime at once. */
typedef struct tp_allocator {
  void *(*alloc)(void *ctx, size_t size);
  void (*release)(void *ctx, void *memory, size_t size);
  void *ctx;
} tp_allocator;

/** Levels of the log callback. */
typedef enum tp_log_level { TP_LOG_ERROR = 1, TP_LOG_WARNING = 2, TP_LOG_INFO = 3, TP_LOG_DEBUG = 4 } tp_log_level;

/** Receives what the library has to say. message holds no raw content of turns; borrowed till return. Called without
 *  any lock of ours, from any thread; must not call back into the runtime. */
typedef void (*tp_log_fn)(void *ctx, tp_log_level level, const char *message);

/** Names one attempt that is still open. Plain data: copy it, store it, hand it to any thread. 0 is never valid. */
typedef struct tp_token {
  uint64_t bits;
} tp_token;

/** The library's version, "0.1.0". */
TP_API const char *tp_version(void);

TP_END_DECLS
#endif
