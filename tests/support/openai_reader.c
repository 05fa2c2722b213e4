/* SPDX-License-Identifier: Apache-2.0
 *
 * openai_reader: reads answers of the three APIs as the provider does, for openai_oracle.py. On standard input each one
 * has a line "API SIZE" (api: chat, responses or messages) and SIZE bytes; on standard output each has a line of JSON:
 * text, finish, calls (id, name, arguments) and thinking, or error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "providers/openai/stream.h"
#include "turnphase/value.h"

static void put_text(tp_writer *writer, const char *key, tp_text text) {
  tp_write_string(writer, key);
  tp_write_text(writer, text);
}

static void put_call(tp_writer *writer, const tp_tool_call *call) {
  tp_write_map(writer, 3);
  put_text(writer, "id", call->id);
  put_text(writer, "name", call->name);
  tp_write_string(writer, "arguments");
  if (call->malformed) tp_write_text(writer, call->arguments);
  else tp_write_value(writer, call->arguments);
}

static void put_answer(tp_writer *writer, tp__openai_stream *stream) {
  tp_model_response response;
  tp__bytes thinking = {0};
  if (tp__openai_answer_response(&stream->answer, &response) != TP_OK) {
    tp_write_map(writer, 1);
    put_text(writer, "error", tp_text_of(stream->answer.failure.message));
    return;
  }
  for (size_t i = 0; i < stream->answer.block_count; i++)
    tp__bytes_put_text(&thinking, tp__bytes_text(&stream->answer.blocks[i].text));
  tp_write_map(writer, 6);
  put_text(writer, "text", response.text);
  put_text(writer, "finish", tp_text_of(tp_finish_name(response.finish)));
  put_text(writer, "thinking", tp__bytes_text(&thinking));
  tp_write_string(writer, "input_tokens");
  tp_write_int(writer, response.input_tokens);
  tp_write_string(writer, "output_tokens");
  tp_write_int(writer, response.output_tokens);
  tp_write_string(writer, "calls");
  tp_write_array(writer, response.call_count);
  for (size_t i = 0; i < response.call_count; i++) put_call(writer, response.calls[i]);
  tp__bytes_fini(&thinking);
}

static const tp__openai_form *form_named(const char *name) {
  for (int api = TP_OPENAI_CHAT; api <= TP_OPENAI_MESSAGES; api++)
    if (strcmp(tp_openai_api_name((tp_openai_api)api), name) == 0) return tp__openai_form_of((tp_openai_api)api);
  return NULL;
}

/* Reads one answer, in pieces of changing size. */
static bool read_one(const tp__openai_form *form, const char *bytes, size_t size, tp_writer *writer) {
  tp__openai_stream stream = {.form = form, .bytes_max = 16 << 20};
  tp_text value, json;
  bool good = tp__openai_stream_init(&stream) == TP_OK;
  for (size_t at = 0, piece = 1; good && at < size; at += piece) {
    piece = 1 + (at * 7 + size) % 61;
    if (piece > size - at) piece = size - at;
    if (!tp__openai_stream_feed(&stream, bytes + at, piece)) break;
  }
  (void)tp__openai_stream_end(&stream);
  tp_writer_reset(writer);
  put_answer(writer, &stream);
  good = good && tp_writer_finish(writer, &value) == TP_OK && tp_json_encode(value, writer, &json, NULL) == TP_OK;
  if (good) printf("%s\n", json.data);
  tp__openai_stream_fini(&stream);
  return good;
}

int main(void) {
  char api[32];
  size_t size;
  tp_writer *writer;
  if (tp_writer_new(NULL, &writer) != TP_OK) return 1;
  while (scanf("%31s %zu", api, &size) == 2) {
    const tp__openai_form *form = form_named(api);
    char *bytes = malloc(size + 1);
    bool good = form && bytes && getchar() == '\n' && fread(bytes, 1, size, stdin) == size &&
                read_one(form, bytes, size, writer);
    free(bytes);
    if (!good) return 1;
  }
  tp_writer_free(writer);
  return 0;
}
