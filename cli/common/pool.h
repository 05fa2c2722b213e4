/* SPDX-License-Identifier: Apache-2.0
 *
 * pool: memory of the command. The caller always gets it: without memory, the command prints a message and ends. */
#ifndef CLI_POOL_H
#define CLI_POOL_H

#include "support/bytes.h"
#include "turnphase/turnphase.h"

/** Zero-filled memory, and realloc; both end the process (CLI_UNAVAILABLE) when there is none. Freed by free(). */
void *cli_alloc(size_t size);
void *cli_realloc(void *memory, size_t size);
/** Reserves space for one more item of an array that grows by doubling. */
void *cli_reserve(void *array, size_t count, size_t *capacity, size_t item_size);
/** A tp_print_fn: adds to the tp__bytes in ctx, and ends the process without memory. */
void cli_buffer_add(void *ctx, const char *bytes, size_t size);
/** Adds a value as JSON. @return as tp_json_encode(), but without memory the process ends. */
tp_status cli_buffer_add_json(tp__bytes *buffer, tp_text value, tp_fault *fault);
/** Ends the process, as cli_alloc() does, if the library has reported a lack of memory. */
void cli_need(tp_status status);

/** Texts that are all freed at once. Zero-filled means empty. */
typedef struct cli_pool {
  struct cli_chunk *chunks;
} cli_pool;
/** A copy with a NUL after it. */
char *cli_pool_copy(cli_pool *pool, tp_text text);
void cli_pool_free(cli_pool *pool);

#endif
