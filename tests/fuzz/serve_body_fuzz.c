/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the body of a request to turnphase-server; the first byte chooses the API. The result must be
 * consistent: the turn has a text, files, or results; each message is in the list once, each call in one message; a
 * refusal is an answer with a status that blames the client, as one line of JSON. */
#include <string.h>

#include "server/server.h"
#include "tests/fuzz/must.h"

static void must_be_an_answer(const tp__refusal *refusal) {
  tp__bytes json = {0};
  tp_writer *writer;
  MUST(refusal->status == 400 && refusal->type && refusal->code && refusal->message[0]);
  tp__refusal_put(refusal, &json);
  MUST(!memchr(json.data, '\n', json.size));
  MUST(tp_writer_new(NULL, &writer) == TP_OK);
  MUST(tp_json_decode(tp__bytes_text(&json), writer, NULL) == TP_OK);
  tp_writer_free(writer);
  tp__bytes_fini(&json);
}

static void must_be_a_url(tp_text file) {
  tp_text url = tp_value_text(file);
  MUST(tp__begins(url, "data:image/") || tp__begins(url, "https://") || tp__begins(url, "http://"));
}

static void must_hold_together(const tp__ask *ask) {
  size_t calls = 0;
  MUST(ask->text.size > 0 || tp_value_count(ask->files) > 0 || ask->results > 0);
  MUST(tp_utf8_valid(tp__bytes_text(&ask->text), NULL));
  MUST(ask->result_at + ask->results <= ask->message_count && ask->message_count <= ask->message_capacity);
  for (size_t i = 0; i < ask->message_count; i++) {
    const tp_message *message = ask->message_list[i];
    MUST(message == &ask->messages[i] && message->role >= TP_ROLE_USER && message->role <= TP_ROLE_SYSTEM);
    MUST(message->call_count == 0 || message->role == TP_ROLE_ASSISTANT);
    for (size_t k = 0; k < message->call_count; k++) {
      MUST(message->calls[k] == &ask->calls[calls++]);
      MUST(message->calls[k]->malformed || message->calls[k]->arguments.size == 0 ||
           tp_value_kind_of(message->calls[k]->arguments) == TP_VALUE_MAP);
    }
    for (tp_value_walk walk = {0}; tp_value_next(message->parts, &walk);)
      must_be_a_url(tp_value_get(walk.value, "image"));
  }
  MUST(calls == ask->call_count);
  for (size_t i = 0; i < ask->results; i++) MUST(ask->messages[ask->result_at + i].role == TP_ROLE_TOOL);
  for (tp_value_walk walk = {0}; tp_value_next(ask->files, &walk);) must_be_a_url(walk.value);
  for (tp_value_walk walk = {0}; tp_value_next(ask->tools, &walk);)
    MUST(tp_value_kind_of(tp_value_get(walk.value, "schema")) == TP_VALUE_MAP);
  if (ask->parameters_value.size > 0) MUST(tp_value_check(ask->parameters_value, NULL) == TP_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tp__ask ask = {0};
  tp__refusal refusal = {0};
  if (size < 1) return 0;
  tp_text body = {(const char *)data + 1, size - 1};
  bool reads = data[0] == 'r' ? tp__ask_read_response(&ask, body, &refusal) : tp__ask_read_chat(&ask, body, &refusal);
  if (reads) must_hold_together(&ask);
  else must_be_an_answer(&refusal);
  tp__ask_fini(&ask);
  return 0;
}
