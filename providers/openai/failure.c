/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "providers/openai/lenient.h"
#include "runtime/base/check.h"
#include "turnphase/value.h"

enum { SAID_SIZE = 300, EXCERPT_SIZE = 200, QUOTED_SIZE = 300, CODE_SIZE = 64, DEPTH_MAX = 6 };

tp_status tp__openai_fail(tp__openai_failure *failure, tp_status code, bool retryable, const char *format, ...) {
  assert(code != TP_OK);
  if (failure->code != TP_OK) return failure->code;
  char message[TP_FAULT_MESSAGE_SIZE + 4];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  failure->code = code;
  failure->retryable = retryable;
  tp__show(failure->message, sizeof failure->message, tp_text_of(message));
  return code;
}

/* ---- what endpoints say ---- */

/* The subject of an error, for errors that no status describes. */
enum { CONTEXT = 1, QUOTA = 2, REFUSED = 3 };

/* Parts of the codes and types that come with an error's message, in any case; the first that fits counts. */
static const struct word {
  const char *part;
  long status; /* the status with the same meaning; or one of the above */
} words[] = {
    {"context_length", CONTEXT},
    {"context_window", CONTEXT},
    {"context_size", CONTEXT},
    {"string_above_max_length", CONTEXT},
    {"request_too_large", CONTEXT},
    {"insufficient_quota", QUOTA},
    {"billing", QUOTA},
    {"payment_required", QUOTA},
    {"insufficient_balance", QUOTA},
    {"rate_limit", 429},
    {"ratelimit", 429},
    {"too_many_requests", 429},
    {"throttl", 429},
    {"resource_exhausted", 429},
    {"overloaded", 529},
    {"unavailable", 503},
    {"loading", 503},
    {"timeout", 504},
    {"deadline_exceeded", 504},
    {"content_filter", REFUSED},
    {"content_policy", REFUSED},
    {"moderation", REFUSED},
    {"safety", REFUSED},
    {"data_inspection", REFUSED},
    {"authentication", 401},
    {"api_key", 401},
    {"unauthorized", 401},
    {"unauthenticated", 401},
    {"permission", 403},
    {"forbidden", 403},
    {"access_denied", 403},
    {"not_found", 404},
    {"notfound", 404},
    {"invalid", 400},
    {"bad_request", 400},
    {"badrequest", 400},
    {"validation", 422},
    {"unprocessable", 422},
    {"server_error", 500},
    {"internal", 500},
    {"api_error", 500},
};

/* Phrases of messages, used when no code tells the subject. Only the text of a refusal is searched. */
static const char *const too_long[] = {
    "maximum context length",
    "context length exceeded",
    "prompt is too long",
    "prompt too long",
    "exceed context limit",
    "exceeds the context window",
    "context window exceeded",
    "exceeds the available context size",
    "exceeds the context size",
    "exceed the context size",
    "input is too long",
    "too many input tokens",
    "reduce the length of the messages",
    "longer than the model's context length",
    "exceeds the model's maximum context",
    "exceeds the maximum number of tokens",
};

static const struct row {
  long status;
  bool retryable;
  tp_status code;
  const char *remedy;
} rows[] = {
    {CONTEXT, false, TP_ERR_CONTEXT_LENGTH, "shorten the history or the tools"},
    {QUOTA, false, TP_ERR_MODEL, "check the account that the key belongs to"},
    {REFUSED, false, TP_ERR_MODEL, "the endpoint refuses the content: change what is asked"},
    {400, false, TP_ERR_MODEL,
     "the endpoint does not take the request: compare parameters and body with its documentation"},
    {401, false, TP_ERR_MODEL, "the key was refused: check key_env or key_file"},
    {402, false, TP_ERR_MODEL, "check the account that the key belongs to"},
    {403, false, TP_ERR_MODEL, "the key may not do this: check its permissions"},
    {404, false, TP_ERR_MODEL, "check base_url, api and the model's name"},
    {405, false, TP_ERR_MODEL, "check base_url and api"},
    {408, true, TP_ERR_MODEL, "try again"},
    {413, false, TP_ERR_MODEL, "send less"},
    {415, false, TP_ERR_MODEL, "check base_url and api"},
    {422, false, TP_ERR_MODEL,
     "the endpoint does not take the request: compare parameters and body with its documentation"},
    {429, true, TP_ERR_MODEL, "send fewer requests, or ask for a higher limit"},
    {500, true, TP_ERR_MODEL, "try again"},
    {502, true, TP_ERR_MODEL, "try again"},
    {503, true, TP_ERR_MODEL, "try again"},
    {504, true, TP_ERR_MODEL, "try again"},
    {529, true, TP_ERR_MODEL, "the endpoint is overloaded: try again"},
};

static const struct row *find_row(long status) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].status == status) return &rows[i];
  return NULL;
}

/** What an error says. */
typedef struct said {
  tp__bytes message;
  char code[CODE_SIZE], type[CODE_SIZE]; /* as people read them; may be empty */
  int64_t number;                        /* a code that is a number; -1: none is */
} said;

static long word_of(const char *code) {
  char plain[CODE_SIZE];
  size_t size = 0;
  for (; code[size] && size + 1 < sizeof plain; size++) plain[size] = strchr("- .", code[size]) ? '_' : code[size];
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (tp__contains((tp_text){plain, size}, words[i].part)) return words[i].status;
  return 0;
}

static bool says_too_long(tp_text message) {
  for (size_t i = 0; i < sizeof too_long / sizeof *too_long; i++)
    if (tp__contains(message, too_long[i])) return true;
  return false;
}

/* ---- reading it ---- */

int64_t tp__openai_int(tp_text value) {
  tp_value_kind kind = tp_value_kind_of(value);
  if (kind == TP_VALUE_DOUBLE) {
    double number = tp_value_double(value, -1);
    return number >= 0 && number < 9e15 && number == (double)(int64_t)number ? (int64_t)number : -1;
  }
  if (kind == TP_VALUE_TEXT) {
    tp_text text = tp_value_text(value);
    int64_t number = 0;
    if (text.size == 0 || text.size > 15) return -1;
    for (size_t i = 0; i < text.size; i++) {
      if (text.data[i] < '0' || text.data[i] > '9') return -1;
      number = number * 10 + (text.data[i] - '0');
    }
    return number;
  }
  int64_t number = tp_value_int(value, -1);
  return number < 0 ? -1 : number;
}

static bool has_content(tp_text value) {
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_TEXT:
      return tp_value_text(value).size > 0;
    case TP_VALUE_MAP:
    case TP_VALUE_ARRAY:
      return tp_value_count(value) > 0;
    case TP_VALUE_BOOL:
      return tp_value_bool(value, false);
    default:
      return false;
  }
}

static bool is_failed_base(tp_text value) {
  return tp__openai_int(tp_value_get(tp_value_get(value, "base_resp"), "status_code")) > 0;
}

/* One walk, because every event of a stream is checked. */
bool tp__openai_is_error(tp_text value, tp_text *ret_type) {
  bool is_error = false;
  *ret_type = (tp_text){NULL, 0};
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk);) {
    tp_text key = walk.key;
    if (key.size < 4 || key.size > 6) continue;
    if (tp__is_word(key, "type")) *ret_type = tp_value_text(walk.value);
    else if (tp__is_word(key, "error") || tp__is_word(key, "errors")) is_error = is_error || has_content(walk.value);
    else if (tp__is_word(key, "object")) is_error = is_error || tp__is_word(tp_value_text(walk.value), "error");
  }
  return is_error || tp__is_word(*ret_type, "error");
}

/* The keys under which an error has its words, the best first. */
static const char *const message_keys[] = {
    "error",        "message",           "errors",      "detail", "details",    "msg",     "error_message", "error_msg",
    "errorMessage", "error_description", "description", "reason", "status_msg", "Message", "title",         "base_resp",
    "choices",
};
static const char *const code_keys[] = {"code",        "error_code", "errorCode", "errcode",
                                        "status_code", "statusCode", "status",    "http_status"};
static const char *const type_keys[] = {"type", "error_type", "errorType", "__type", "kind"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

bool tp__openai_looks_like_error(tp_text value) {
  tp_text type;
  if (tp__openai_is_error(value, &type) || is_failed_base(value)) return true;
  for (size_t i = 0; i < COUNT(message_keys) - 2; i++) /* these two stand in answers, too */
    if (has_content(tp_value_get(value, message_keys[i]))) return true;
  for (size_t i = 0; i < COUNT(code_keys); i++)
    if (tp__openai_int(tp_value_get(value, code_keys[i])) >= 400) return true;
  return false;
}

static void read_words(said *s, tp_text value, int depth);

/* A text; JSON in it is read as what it is. */
static void read_said_text(said *s, tp_text text, int depth) {
  tp_writer *writer = NULL;
  tp_text value, trimmed = tp__openai_trim(text);
  size_t before = s->message.size;
  if (tp__begins(trimmed, "{") && tp_writer_new(tp__heap, &writer) == TP_OK &&
      tp_json_decode(trimmed, writer, NULL) == TP_OK && tp_writer_finish(writer, &value) == TP_OK)
    read_words(s, value, depth + 1);
  tp_writer_free(writer);
  if (s->message.size == before) tp__bytes_put_text(&s->message, trimmed);
}

static void read_list(said *s, tp_text list, int depth) {
  size_t before = s->message.size, first = before;
  for (tp_value_walk walk = {0}; tp_value_next(list, &walk) && s->message.size < 4 * SAID_SIZE;) {
    if (s->message.size > before) tp__bytes_put_string(&s->message, "; ");
    size_t joined = s->message.size;
    read_words(s, walk.value, depth + 1);
    if (s->message.size == joined && joined > first) s->message.size = joined - 2; /* it had none */
    before = first;
  }
}

/* "body.messages.0: ", when a validator names the place. */
static void read_place(said *s, tp_text place) {
  bool begun = false;
  if (tp_value_kind_of(place) != TP_VALUE_ARRAY) return;
  for (tp_value_walk walk = {0}; tp_value_next(place, &walk); begun = true) {
    if (begun) tp__bytes_put_string(&s->message, ".");
    if (tp_value_kind_of(walk.value) == TP_VALUE_INT)
      tp__bytes_printf(&s->message, "%lld", (long long)tp_value_int(walk.value, 0));
    else tp__bytes_put_text(&s->message, tp_value_text(walk.value));
  }
  if (begun) tp__bytes_put_string(&s->message, ": ");
}

static void read_code(said *s, tp_text value, const char *const *keys, size_t count, char *code) {
  for (size_t i = 0; i < count; i++) {
    tp_text found = tp_value_get(value, keys[i]), text = tp_value_text(found);
    int64_t number = tp__openai_int(found);
    if (s->number < 0 && number >= 100) s->number = number;
    if (code[0] || tp__is_word(text, "error")) continue;
    if (text.size > 0 && tp_value_kind_of(found) == TP_VALUE_TEXT) tp__show(code, CODE_SIZE, text);
    else if (number > 0) snprintf(code, CODE_SIZE, "%lld", (long long)number);
  }
}

static bool is_one_of(tp_text key, const char *const *keys, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (tp__is_word(key, keys[i])) return true;
  return false;
}

static bool has_own_words(tp_text map) {
  for (size_t i = 0; i < COUNT(message_keys); i++)
    if (has_content(tp_value_get(map, message_keys[i]))) return true;
  return false;
}

/* {"model": ["is required"]}: a validator's messages, by the field that they are about. */
static void read_fields(said *s, tp_text map, int depth) {
  for (tp_value_walk walk = {0}; tp_value_next(map, &walk) && s->message.size < 4 * SAID_SIZE;) {
    size_t before = s->message.size;
    tp_value_kind kind = tp_value_kind_of(walk.value);
    if ((kind != TP_VALUE_TEXT && kind != TP_VALUE_ARRAY && kind != TP_VALUE_MAP) || !has_content(walk.value) ||
        walk.key.size > CODE_SIZE || tp__begins(walk.key, "@") || is_one_of(walk.key, code_keys, COUNT(code_keys)) ||
        is_one_of(walk.key, type_keys, COUNT(type_keys)))
      continue;
    if (before > 0 && s->message.data[before - 1] != ' ') tp__bytes_put_string(&s->message, "; ");
    tp__bytes_put_text(&s->message, walk.key);
    tp__bytes_put_string(&s->message, ": ");
    size_t named = s->message.size;
    read_words(s, walk.value, depth + 1);
    if (s->message.size == named) s->message.size = before;
  }
}

/* "Bad Request: Required request body is missing": a short phrase of the framework, followed by the actual error. */
static void read_more(said *s, tp_text value, const char *key, size_t begin, int depth) {
  static const char *const more_keys[] = {"message", "detail", "msg", "error_description", "description", "reason"};
  if (strcmp(key, "error") != 0 || tp_value_kind_of(tp_value_get(value, key)) != TP_VALUE_TEXT) return;
  for (size_t i = 0; i < COUNT(more_keys); i++) {
    tp_text more = tp_value_get(value, more_keys[i]);
    if (!has_content(more) || tp_value_kind_of(more) == TP_VALUE_BOOL) continue;
    said other = {.number = 0};
    read_words(&other, more, depth + 1);
    tp_text words_of = tp__bytes_text(&other.message);
    tp_text first = {s->message.data + begin, s->message.size - begin};
    if (words_of.size > 0 &&
        !(first.size >= words_of.size && memmem(first.data, first.size, words_of.data, words_of.size))) {
      tp__bytes_put_string(&s->message, ": ");
      tp__bytes_put_text(&s->message, words_of);
    }
    tp__bytes_fini(&other.message);
    return;
  }
}

static void read_words(said *s, tp_text value, int depth) {
  tp_value_kind kind = tp_value_kind_of(value);
  if (depth > DEPTH_MAX) return;
  if (kind == TP_VALUE_TEXT) read_said_text(s, tp_value_text(value), depth);
  if (kind == TP_VALUE_ARRAY) read_list(s, value, depth);
  if (kind != TP_VALUE_MAP) return;
  size_t before = s->message.size;
  read_place(s, tp_value_get(value, "loc"));
  size_t begin = s->message.size;
  tp_text fields = tp_value_get(value, "errors");
  bool by_field = tp_value_kind_of(fields) == TP_VALUE_MAP && !has_own_words(fields);
  for (size_t i = 0; i < COUNT(message_keys) && s->message.size == begin; i++) {
    tp_text words_of = tp_value_get(value, message_keys[i]);
    if (!has_content(words_of) || tp_value_kind_of(words_of) == TP_VALUE_BOOL) continue;
    if (by_field && strcmp(message_keys[i], "errors") == 0) continue;
    read_words(s, words_of, depth + 1);
    if (s->message.size > begin) read_more(s, value, message_keys[i], begin, depth);
  }
  if (by_field) {
    if (s->message.size > begin) tp__bytes_put_string(&s->message, ": ");
    read_fields(s, fields, depth + 1);
  } else if (s->message.size == begin && depth > 0) {
    read_fields(s, value, depth);
  }
  if (s->message.size == begin) s->message.size = before;
  tp_text raw = tp_value_text(tp_value_get(tp_value_get(value, "metadata"), "raw"));
  if (raw.size > 0) { /* a router quotes the provider */
    tp__bytes_put_string(&s->message, ": ");
    read_said_text(s, raw, depth + 1);
  }
  read_code(s, value, code_keys, COUNT(code_keys), s->code);
  read_code(s, value, type_keys, COUNT(type_keys), s->type);
}

/* ---- judging it ---- */

static void fail_with(tp__openai_failure *failure, const char *place, long status, const said *s,
                      const tp__secrets *secrets) {
  static const struct row unknown = {0, false, TP_ERR_MODEL, "check base_url and api"},
                          in_stream = {0, false, TP_ERR_MODEL, "see the documentation of the endpoint"};
  tp_text message = tp__bytes_text(&s->message);
  long word = word_of(s->code);
  if (word == 0) word = word_of(s->type);
  if (word != CONTEXT && (status == 0 || (status >= 400 && status < 429)) && says_too_long(message)) word = CONTEXT;
  bool is_own = word > 0 && word < 100; /* says more than a status */
  const struct row *row = find_row(is_own ? word : status);
  if (!row && status == 0 && s->number >= 400 && s->number < 600) row = find_row((long)s->number);
  if (!row && status == 0) row = find_row(word);
  if (!row) row = status == 0 ? &in_stream : &unknown;
  const struct row *other = find_row(word);
  bool retryable = row->retryable || (!is_own && other && other->retryable);
  if (is_own && status >= 500) retryable = word != CONTEXT && find_row(status) && find_row(status)->retryable;
  tp__bytes all = {0};
  char shown[SAID_SIZE];
  tp__put_without(&all, message, secrets);
  if (s->code[0] || s->type[0]) {
    tp__bytes_put_string(&all, " (");
    tp__put_without(&all, tp_text_of(s->code[0] ? s->code : s->type), secrets);
    tp__bytes_put_string(&all, ")");
  }
  tp_text whole = tp__bytes_text(&all);
  whole.size = (size_t)tp__cut_word(whole, sizeof shown - 1);
  tp__show(shown, sizeof shown, whole);
  tp__bytes_fini(&all);
  (void)tp__openai_fail(failure, row->code, retryable, "%s: %s; %s", place, shown[0] ? shown : "no reason was given",
                        row->remedy);
}

void tp__openai_fail_value(tp__openai_failure *failure, const char *place, long status, tp_text value,
                           const tp__secrets *secrets) {
  said s = {.number = -1};
  tp_text error = tp_value_get(value, "error");
  tp_value_kind kind = tp_value_kind_of(error);
  if (kind == TP_VALUE_MAP || kind == TP_VALUE_ARRAY || kind == TP_VALUE_TEXT) read_words(&s, error, 0);
  said outer = {.number = -1};
  read_words(&outer, value, 0);
  if (outer.message.size == 0) read_fields(&outer, value, 0);
  if (s.message.size == 0 || kind == TP_VALUE_TEXT) {
    tp__bytes_clear(&s.message);
    tp__bytes_put_text(&s.message, tp__bytes_text(&outer.message));
  }
  if (!s.code[0] && !s.type[0]) {
    memcpy(s.code, outer.code, sizeof s.code);
    memcpy(s.type, outer.type, sizeof s.type);
  }
  if (s.number < 0) s.number = outer.number;
  fail_with(failure, place, status, &s, secrets);
  tp__bytes_fini(&s.message);
  tp__bytes_fini(&outer.message);
}

/* The visible words of a page: text outside of tags, with blanks joined, without scripts and styles. */
static void put_page(tp__bytes *to, tp_text page) {
  bool in_tag = false, blank = false;
  const char *until = NULL;
  for (size_t i = 0; i < page.size && to->size < SAID_SIZE; i++) {
    tp_text rest = {page.data + i, page.size - i};
    char c = page.data[i];
    if (until) {
      if (rest.size < strlen(until) || !tp__contains((tp_text){rest.data, strlen(until)}, until)) continue;
      until = NULL;
    }
    if (c == '<') {
      if (rest.size > 7 && tp__contains((tp_text){rest.data, 7}, "<script")) until = "</script";
      else if (rest.size > 6 && tp__contains((tp_text){rest.data, 6}, "<style")) until = "</style";
      in_tag = true;
    }
    bool is_blank = in_tag || strchr(" \t\r\n", c);
    if (!is_blank && blank && to->size > 0) tp__bytes_put_string(to, " ");
    if (!is_blank) tp__bytes_put(to, &c, 1);
    blank = is_blank;
    if (c == '>') in_tag = false;
  }
}

/* Decodes JSON, also with other text around it, or with violations of JSON. */
static bool decode_body(tp_text body, tp_writer *writer, tp_text *ret_value) {
  const char *begin = body.size > 0 ? memchr(body.data, '{', body.size) : NULL;
  const char *end = body.size > 0 ? memrchr(body.data, '}', body.size) : NULL;
  tp__bytes repaired = {0};
  bool has_marks;
  bool good = tp_json_decode(body, writer, NULL) == TP_OK;
  if (!good && begin && end > begin) {
    tp__openai_repair((tp_text){begin, (size_t)(end - begin) + 1}, &repaired, &has_marks);
    good = !repaired.failed && tp_json_decode(tp__bytes_text(&repaired), writer, NULL) == TP_OK;
  }
  tp__bytes_fini(&repaired);
  if (!good || tp_writer_finish(writer, ret_value) != TP_OK) return false;
  tp_value_kind kind = tp_value_kind_of(*ret_value);
  return kind == TP_VALUE_MAP || kind == TP_VALUE_ARRAY;
}

void tp__openai_fail_said(tp__openai_failure *failure, const char *place, long status, tp_text body,
                          const tp__secrets *secrets) {
  tp_writer *writer;
  tp_text value = {NULL, 0}, text = tp__openai_trim(body);
  if (tp_writer_new(tp__heap, &writer) != TP_OK) {
    (void)tp__openai_fail(failure, TP_ERR_NO_MEMORY, false, "%s, and no memory to read why", place);
    return;
  }
  if (!tp__begins(text, "<") && decode_body(text, writer, &value)) {
    tp__openai_fail_value(failure, place, status, value, secrets);
  } else {
    said s = {.number = -1};
    tp__bytes page = {0};
    bool is_page = tp__begins(text, "<");
    if (is_page) put_page(&page, text);
    tp__put_without(&s.message, is_page ? tp__bytes_text(&page) : text, secrets);
    s.message.size = (size_t)tp__cut_word(tp__bytes_text(&s.message), EXCERPT_SIZE);
    fail_with(failure, place, status, &s, NULL);
    tp__bytes_fini(&page);
    tp__bytes_fini(&s.message);
  }
  tp_writer_free(writer);
}

static void put_escaped(tp__bytes *to, tp_text bytes) {
  size_t size = (size_t)tp__cut_word(bytes, EXCERPT_SIZE);
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)bytes.data[i];
    if (c == '\n') tp__bytes_put_string(to, "\\n");
    else if (c == '\r') tp__bytes_put_string(to, "\\r");
    else if (c == '\t') tp__bytes_put_string(to, "\\t");
    else if (c < 0x20 || c >= 0x7f) tp__bytes_printf(to, "\\x%02x", c);
    else tp__bytes_put(to, bytes.data + i, 1);
  }
  to->size = (size_t)tp__cut_word(tp__bytes_text(to), QUOTED_SIZE);
}

void tp__openai_fail_unread(tp__openai_failure *failure, const char *what, bool retryable, tp_text bytes,
                            const tp__secrets *secrets) {
  tp__bytes page = {0}, clean = {0}, quoted = {0};
  const char *remedy = retryable ? "try again" : "check base_url and api, and what stands between";
  tp_text text = tp__openai_trim(bytes);
  bool is_page = tp__begins(text, "<");
  if (is_page) put_page(&page, text);
  tp__put_without(&clean, is_page ? tp__bytes_text(&page) : text, secrets);
  put_escaped(&quoted, tp__bytes_text(&clean));
  if (is_page)
    (void)tp__openai_fail(failure, TP_ERR_MODEL, retryable, "%s, but a page for people: '%s'; check base_url", what,
                          tp__bytes_string(&quoted));
  else if (quoted.size == 0) (void)tp__openai_fail(failure, TP_ERR_MODEL, retryable, "%s; %s", what, remedy);
  else
    (void)tp__openai_fail(failure, TP_ERR_MODEL, retryable, "%s; it begins with '%s'; %s", what,
                          tp__bytes_string(&quoted), remedy);
  tp__bytes_fini(&page);
  tp__bytes_fini(&clean);
  tp__bytes_fini(&quoted);
}
