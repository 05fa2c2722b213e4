/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/sqlite/batch.h"

#include <stdint.h>
#include <string.h>

/* Counts the content of a block, or writes it; one walk does both. */
typedef struct block {
  char *memory; /* NULL: count */
  size_t used;
} block;

static void *take_block(block *b, size_t size) {
  size_t at = (b->used + 7) & ~(size_t)7;
  b->used = at + size;
  return b->memory ? b->memory + at : NULL;
}

static tp_text put_block_text(block *b, tp_text text) {
  if (text.size == 0) return (tp_text){"", 0};
  char *copy = take_block(b, text.size);
  if (copy) memcpy(copy, text.data, text.size);
  return (tp_text){copy, text.size};
}

static const tp_tool_call *const *put_calls(block *b, const tp_message *from) {
  const tp_tool_call **list = take_block(b, from->call_count * sizeof *list);
  tp_tool_call *calls = take_block(b, from->call_count * sizeof *calls);
  for (size_t i = 0; i < from->call_count; i++) {
    tp_tool_call call = *from->calls[i];
    call.id = put_block_text(b, call.id);
    call.name = put_block_text(b, call.name);
    call.arguments = put_block_text(b, call.arguments);
    if (!b->memory) continue;
    calls[i] = call;
    list[i] = &calls[i];
  }
  return list;
}

static tp_message put_block_message(block *b, const tp_message *from) {
  tp_message message = *from;
  message.turn_id = put_block_text(b, from->turn_id);
  message.text = put_block_text(b, from->text);
  message.call_id = put_block_text(b, from->call_id);
  message.name = put_block_text(b, from->name);
  message.parts = put_block_text(b, from->parts);
  message.value = put_block_text(b, from->value);
  message.provider_data = put_block_text(b, from->provider_data);
  message.ending = put_block_text(b, from->ending);
  message.calls = from->call_count ? put_calls(b, from) : NULL;
  return message;
}

static void put_request(block *b, const tp_history_append *from, tp_history_append *ret_copy) {
  *ret_copy = *from;
  ret_copy->tenant = put_block_text(b, from->tenant);
  ret_copy->session = put_block_text(b, from->session);
  if (from->claim) {
    tp_history_claim *claim = take_block(b, sizeof *claim);
    if (claim) *claim = *from->claim;
    ret_copy->claim = claim;
  }
  const tp_message **list = take_block(b, from->message_count * sizeof *list);
  tp_message *messages = take_block(b, from->message_count * sizeof *messages);
  for (size_t i = 0; i < from->message_count; i++) {
    tp_message message = put_block_message(b, from->messages[i]);
    if (!b->memory) continue;
    messages[i] = message;
    list[i] = &messages[i];
  }
  ret_copy->messages = list;
}

tp__batch *tp__batch_new(const tp_history_append *request) {
  tp_history_append copy;
  block b = {.used = sizeof(tp__batch)};
  put_request(&b, request, &copy);
  tp__batch *batch = sqlite3_malloc64(b.used);
  if (!batch) return NULL;
  *batch = (tp__batch){.queued = {.bytes = b.used, .count = 1}};
  b = (block){.memory = (char *)batch, .used = sizeof(tp__batch)};
  put_request(&b, request, &batch->request);
  return batch;
}
