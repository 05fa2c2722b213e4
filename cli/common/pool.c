/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/pool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "runtime/base/check.h"

enum { CHUNK_BYTES = 64 * 1024 };

struct cli_chunk {
  struct cli_chunk *next;
  size_t used, size;
  char bytes[];
};

/* Not exit(): other threads may still use what exit() would free. */
static void *or_end(void *memory) {
  if (memory) return memory;
  cli_error("no memory");
  _exit(CLI_UNAVAILABLE);
}

void *cli_alloc(size_t size) { return or_end(calloc(1, size ? size : 1)); }
void *cli_realloc(void *memory, size_t size) { return or_end(realloc(memory, size ? size : 1)); }

void *cli_reserve(void *array, size_t count, size_t *capacity, size_t item_size) {
  assert(item_size > 0);
  if (count < *capacity) return array;
  *capacity = *capacity ? 2 * *capacity : 16;
  return cli_realloc(array, *capacity * item_size);
}

void cli_buffer_add(void *ctx, const char *bytes, size_t size) {
  tp__bytes *buffer = ctx;
  tp__bytes_put(buffer, bytes, size);
  if (buffer->failed) or_end(NULL);
}

void cli_need(tp_status status) {
  if (status != TP_OK) or_end(NULL);
}

tp_status cli_buffer_add_json(tp__bytes *buffer, tp_text value, tp_fault *fault) {
  tp_writer *writer;
  tp_text json;
  cli_need(tp_writer_new(NULL, &writer));
  tp_status status = tp_json_encode(value, writer, &json, fault);
  if (status == TP_OK) cli_buffer_add(buffer, json.data, json.size);
  tp_writer_free(writer);
  if (status == TP_ERR_NO_MEMORY) cli_need(status);
  return status;
}

char *cli_pool_copy(cli_pool *pool, tp_text text) {
  assert(text.data || text.size == 0);
  size_t need = text.size + 1;
  struct cli_chunk *chunk = pool->chunks;
  if (!chunk || chunk->size - chunk->used < need) {
    size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
    chunk = cli_alloc(sizeof *chunk + size);
    *chunk = (struct cli_chunk){.next = pool->chunks, .size = size};
    pool->chunks = chunk;
  }
  char *copy = chunk->bytes + chunk->used;
  if (text.size > 0) memcpy(copy, text.data, text.size);
  copy[text.size] = '\0';
  chunk->used += need;
  return copy;
}

void cli_pool_free(cli_pool *pool) {
  while (pool->chunks) {
    struct cli_chunk *next = pool->chunks->next;
    free(pool->chunks);
    pool->chunks = next;
  }
}
