/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer that is made from the input: pieces of text, in one of the APIs, framed as servers do it, with keep-alives
 * and unknown events between them, and characters that are cut in two. Its text is known, so:
 *   - read in whatever parts, the response has exactly this text;
 *   - cut anywhere, every piece whose event was complete was passed on;
 *   - with garbage after some event, every piece before it was passed on, and what follows is an answer or a
 * failure. */
#include "providers/openai/stream.h"
#include "tests/fuzz/must.h"

enum { BYTES_MAX = 1 << 20, PIECES_MAX = 48 };

typedef struct script {
  const uint8_t *data;
  size_t size, at;
  tp_openai_api api;
  gathered bytes; /* the bytes of the answer */
  gathered text;  /* the text of the answer */
  struct {
    size_t bytes, text; /* how many bytes and how much of the text have come completely */
  } marks[PIECES_MAX + 1];
  size_t mark_count;
} script;

static gathered deltas;

static tp_status on_text(void *ctx, tp_text piece, bool thinking) {
  (void)ctx;
  MUST(piece.size > 0 && tp_utf8_valid(piece, NULL) && !thinking);
  gather(&deltas, piece.data, piece.size);
  return TP_OK;
}

static uint8_t next(script *s) { return s->at < s->size ? s->data[s->at++] : 0; }
static void put(script *s, const char *string) { gather(&s->bytes, string, strlen(string)); }

/* Adds a character as JSON has it: unchanged, or as escapes. */
static void put_character(script *s, const char *character, bool escaped) {
  char escape[16];
  uint32_t c = (unsigned char)character[0];
  size_t size = strlen(character);
  if (size == 2) c = (c & 0x1f) << 6 | (character[1] & 0x3f);
  if (size == 3) c = (c & 0xf) << 12 | (uint32_t)(character[1] & 0x3f) << 6 | (character[2] & 0x3f);
  if (size == 4)
    c = (c & 7) << 18 | (uint32_t)(character[1] & 0x3f) << 12 | (uint32_t)(character[2] & 0x3f) << 6 |
        (character[3] & 0x3f);
  if (!escaped && c >= 0x20 && c != '"' && c != '\\') {
    put(s, character);
  } else if (c >= 0x10000) {
    snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
    put(s, escape);
  } else {
    snprintf(escape, sizeof escape, "\\u%04x", c);
    put(s, escape);
  }
}

static const char *const characters[] = {"a",
                                         "b",
                                         " ",
                                         "\n",
                                         "\"",
                                         "\\",
                                         "{",
                                         "}",
                                         ",",
                                         ":",
                                         "\xC3\xB6",
                                         "\xE2\x82\xAC",
                                         "\xF0\x9F\x98\x80",
                                         "\xF4\x8F\xBE\x80",
                                         "[",
                                         "0"};

/* ---- frames ---- */

static void begin_event(script *s, uint8_t how) {
  const char *name =
      s->api == TP_OPENAI_RESPONSES ? "event: response.output_text.delta\n" : "event: content_block_delta\n";
  switch (how % 6) {
    case 1:
      put(s, ": keep\n\n");
      break;
    case 2:
      put(s, "event: ping\ndata: ping\n\n");
      break;
    case 3:
      put(s, "data:\n\nid: 7\nretry: 1\n");
      break;
    case 4:
      put(s, "data: {\"type\":\"some.kind\",\"n\":1}\n\n");
      break;
    case 5:
      if (s->api != TP_OPENAI_CHAT) put(s, name);
      break;
    default:
      break;
  }
  put(s, how / 6 % 5 == 4 ? "" : how / 6 % 5 == 3 ? "data:" : "data: ");
}

static void end_event(script *s, uint8_t how) {
  static const char *const ends[] = {"\n\n", "\r\n\r\n", "\n", "\r\r", "\n"};
  put(s, ends[how / 6 % 5]);
}

static void put_head(script *s) {
  if (s->api == TP_OPENAI_CHAT) put(s, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
  else if (s->api == TP_OPENAI_RESPONSES)
    put(s, "{\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"");
  else put(s, "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"");
}

/* In some inputs, characters that JSON forbids follow the text. */
static void put_tail(script *s, uint8_t how) {
  static const char *const odd[] = {"", ",\"n\":NaN", ",\"n\":01", ",\"n\":1,\"n\":2", ",", ",'m':None"};
  put(s, "\"");
  put(s, odd[how % 6]);
  put(s, s->api == TP_OPENAI_CHAT ? "}}]}" : s->api == TP_OPENAI_RESPONSES ? "}" : "}}");
}

static void mark(script *s, size_t text) {
  s->marks[s->mark_count].bytes = s->bytes.size;
  s->marks[s->mark_count++].text = text;
}

/* A character whose bytes, or halves, stand in two events. */
static void put_cut(script *s, uint8_t how, uint8_t odd) {
  size_t before = s->text.size;
  begin_event(s, how);
  put_head(s);
  put(s, odd & 1 ? "\\ud83d" : "\xF0\x9F");
  put_tail(s, odd);
  end_event(s, how);
  mark(s, before);
  begin_event(s, (uint8_t)(how % 30 / 6 * 6)); /* with nothing between them */
  put_head(s);
  put(s, odd & 1 ? "\\ude00" : "\x98\x80");
  put_tail(s, odd);
  end_event(s, how);
  gather(&s->text, "\xF0\x9F\x98\x80", 4);
  mark(s, s->text.size);
}

static void put_piece(script *s) {
  uint8_t how = next(s), odd = next(s), count = next(s);
  if (count >= 0xf0) {
    put_cut(s, how, odd);
    return;
  }
  begin_event(s, how);
  put_head(s);
  for (int i = 0; i < count % 9; i++) {
    uint8_t which = next(s);
    const char *character = characters[which % 16];
    gather(&s->text, character, strlen(character));
    put_character(s, character, which & 0x10);
  }
  put_tail(s, odd);
  end_event(s, how);
  mark(s, s->text.size);
}

static void put_end(script *s, uint8_t how) {
  if (s->api == TP_OPENAI_CHAT)
    put(s, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
  else if (s->api == TP_OPENAI_RESPONSES)
    put(s, "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n");
  else put(s, "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n");
  if (how & 1) put(s, how & 2 ? "data: [DONE]\n\n" : "data: [DONE]");
}

/* ---- reading ---- */

/* @return whether there is a response; its text is then everything that was passed on. */
static bool read_bytes(const script *s, tp_text bytes, size_t split) {
  tp__openai_stream stream = {.form = tp__openai_form_of(s->api), .bytes_max = BYTES_MAX, .on_text = on_text};
  tp_model_response response;
  bool goes_on = true;
  deltas.size = 0;
  MUST(tp__openai_stream_init(&stream) == TP_OK);
  for (size_t at = 0; goes_on && at < bytes.size;) {
    size_t piece = split > bytes.size ? 1 : at < split ? split : bytes.size - at;
    goes_on = tp__openai_stream_feed(&stream, bytes.data + at, piece);
    at += piece;
  }
  bool done = tp__openai_stream_end(&stream) && tp__openai_answer_response(&stream.answer, &response) == TP_OK;
  if (done) MUST(same_bytes(response.text, (tp_text){deltas.text, deltas.size}));
  else MUST(stream.answer.failure.message[0]);
  tp__openai_stream_fini(&stream);
  return done;
}

static void must_begin_with(const script *s, size_t size) {
  MUST(deltas.size >= size && (size == 0 || memcmp(deltas.text, s->text.text, size) == 0));
}

static void check_cut(const script *s, size_t at) {
  size_t text = 0;
  for (size_t i = 0; i < s->mark_count; i++)
    if (s->marks[i].bytes <= at) text = s->marks[i].text;
  (void)read_bytes(s, (tp_text){s->bytes.text, at}, 0);
  must_begin_with(s, text);
}

static void check_garbage(const script *s, size_t which, tp_text garbage) {
  gathered bytes = {0};
  size_t at = s->mark_count > 0 ? s->marks[which % s->mark_count].bytes : 0;
  size_t text = s->mark_count > 0 ? s->marks[which % s->mark_count].text : 0;
  gather(&bytes, s->bytes.text, at);
  gather(&bytes, "\n", 1);
  gather(&bytes, garbage.data, garbage.size);
  gather(&bytes, s->bytes.text + at, s->bytes.size - at);
  (void)read_bytes(s, (tp_text){bytes.text, bytes.size}, 0);
  must_begin_with(s, text);
  free(bytes.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  script s = {.data = data, .size = size};
  if (size < 8) return 0;
  s.api = (tp_openai_api)(next(&s) % 3);
  uint8_t pieces = next(&s) % (PIECES_MAX / 2), end = next(&s), split = next(&s), cut = next(&s), which = next(&s);
  for (uint8_t i = 0; i < pieces && s.at < s.size; i++) put_piece(&s);
  put_end(&s, end);
  tp_text bytes = {s.bytes.text, s.bytes.size};
  size_t splits[] = {0, bytes.size * split / 256, bytes.size + 1};
  for (size_t i = 0; i < 3; i++) {
    MUST(read_bytes(&s, bytes, splits[i]));
    MUST(same_bytes((tp_text){deltas.text, deltas.size}, (tp_text){s.text.text, s.text.size}));
  }
  check_cut(&s, bytes.size * cut / 256);
  check_garbage(&s, which, (tp_text){(const char *)data + s.at, s.size - s.at});
  free(s.bytes.text);
  free(s.text.text);
  free(deltas.text);
  deltas = (gathered){0};
  return 0;
}
