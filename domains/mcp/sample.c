/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/sample.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "domains/mcp/changed.h"
#include "domains/mcp/server/server.h"
#include "support/base64.h"
#include "support/text.h"
#include "turnphase/turn.h"

enum { MESSAGES_MAX = 1000, ID_BYTES = 96 };

/* A request of a server to a model. References: one that ends with the answer, and those of functions that work with
 * it. */
typedef struct tp__mcp_sample {
  tp__references refs;
  tp__mcp_session *session; /* holds a reference */
  tp__mcp_origin *origin;   /* the owner of the origin is referenced */
  tp__mcp_sample_fn on_answer;
  void *ctx;
  tp__bytes system;    /* the server's system text */
  tp_writer *stops;    /* the writer that has `stop` */
  tp_text stop;        /* value: array of texts; or empty */
  tp_session *asks_in; /* the session of its turn; closed with the answer */
  /* under the session's lock */
  tp_submission *submission;
  bool is_linked, is_cancelled;
  struct tp__mcp_sample *next;
} sample;

static void sample_unref(sample *m) {
  if (!tp__references_unref(&m->refs)) return;
  assert(!m->is_linked);
  tp_submission_unref(m->submission);
  tp_session_close(m->asks_in, NULL, NULL);
  m->origin->unref(m->origin->owner);
  tp__mcp_session_unref(m->session);
  tp__bytes_fini(&m->system);
  tp_writer_free(m->stops);
  tp__heap_free(m, sizeof *m);
}

static void answer_sample(sample *m, tp_text result, const char *words) {
  tp__lock_acquire(&m->session->lock);
  sample **at = &m->session->samples;
  while (*at && *at != m) at = &(*at)->next;
  assert(m->is_linked && *at == m);
  *at = m->next;
  m->is_linked = false;
  tp__lock_release(&m->session->lock);
  m->on_answer(m->ctx, result, words);
  sample_unref(m);
}

static void refuse_sample(sample *m, const char *words) { answer_sample(m, (tp_text){"", 0}, words); }

/* ---- the client of a gateway ---- */

static void client_answered(void *ctx, tp_text answers) {
  tp_text result = tp_value_at(answers, 0);
  if (tp_value_kind_of(result) == TP_VALUE_MAP) answer_sample(ctx, result, NULL);
  else refuse_sample(ctx, answers.size > 0 ? "the client refused it" : "the client gave no answer");
}

/* @return false: the call is not one of a client, or the client does not offer sampling. */
static bool ask_client(sample *m, tp_text params) {
  tp_mcp_call *call = tp__mcp_changed_find(m->session->runtime, m->origin->data);
  if (!call) return false;
  bool is_asked = tp__mcp_call_pass_on(call, "sampling/createMessage", params, client_answered, m);
  tp__mcp_call_unref(call);
  return is_asked;
}

/* ---- what a model is asked ---- */

/* A message that is being made. */
typedef struct draft {
  tp_role role;
  tp__bytes text;
  tp_writer *writer; /* the writer that has the parts; NULL: none */
  tp_text parts;
} draft;

typedef struct drafts {
  draft *items;
  size_t count, capacity;
  const char *wrong; /* what is wrong with the message; NULL: nothing */
} drafts;

static void drafts_free(drafts *d) {
  for (size_t i = 0; i < d->count; i++) {
    tp__bytes_fini(&d->items[i].text);
    tp_writer_free(d->items[i].writer);
  }
  tp__heap_free(d->items, d->capacity * sizeof *d->items);
}

static void put_media(drafts *d, draft *to, tp_text item, tp_part_kind kind) {
  tp_text data = tp_value_text(tp_value_get(item, "data"));
  tp_part part = {
      .struct_size = sizeof part, .kind = kind, .media_type = tp_value_text(tp_value_get(item, "mimeType"))};
  tp__bytes bytes = {0};
  size_t size = 0;
  bool is_decoded =
      tp__bytes_reserve(&bytes, tp__base64_size_max(data.size) + 1) && tp__base64_decode(data, bytes.data, &size);
  part.bytes = (tp_text){bytes.data, size};
  if (!is_decoded || size == 0 || tp_part_write(&part, to->writer, NULL) != TP_OK)
    d->wrong = "an image or audio is not base64 with a mimeType";
  tp__bytes_fini(&bytes);
}

static void put_item(drafts *d, draft *to, tp_text item) {
  tp_text type = tp_value_text(tp_value_get(item, "type"));
  if (tp__is_word(type, "text")) {
    if (to->text.size > 0) tp__bytes_put_string(&to->text, "\n");
    tp__bytes_put_text(&to->text, tp_value_text(tp_value_get(item, "text")));
  } else if (tp__is_word(type, "image") && to->writer) {
    put_media(d, to, item, TP_PART_IMAGE);
  } else if (tp__is_word(type, "audio") && to->writer) {
    put_media(d, to, item, TP_PART_AUDIO);
  } else {
    d->wrong = "a message has other content than texts, and images and audio of the user";
  }
}

static size_t count_media(tp_text content) {
  size_t count = 0;
  for (tp_value_walk walk = {0}; tp_value_next(content, &walk);)
    count += !tp__is_word(tp_value_text(tp_value_get(walk.value, "type")), "text");
  return count;
}

/* Adds a message, whose content is one item or an array of items. */
static void put_message(drafts *d, tp_text message) {
  draft *to = &d->items[d->count++];
  tp_text role = tp_value_text(tp_value_get(message, "role")), content = tp_value_get(message, "content");
  bool is_list = tp_value_kind_of(content) == TP_VALUE_ARRAY;
  size_t media = is_list ? count_media(content) : !tp__is_word(tp_value_text(tp_value_get(content, "type")), "text");
  to->role = tp__is_word(role, "assistant") ? TP_ROLE_ASSISTANT : TP_ROLE_USER;
  if (!tp__is_one_of(role, "user assistant")) d->wrong = "a message has another role than user and assistant";
  if (media > 0 && to->role == TP_ROLE_USER && !d->wrong) {
    if (tp_writer_new(NULL, &to->writer) == TP_OK) tp_write_array(to->writer, media);
    else d->wrong = "there is no memory";
  }
  if (!is_list) put_item(d, to, content);
  for (tp_value_walk walk = {0}; is_list && !d->wrong && tp_value_next(content, &walk);) put_item(d, to, walk.value);
  if (!d->wrong && to->writer && tp_writer_finish(to->writer, &to->parts) != TP_OK) d->wrong = "there is no memory";
  if (!d->wrong && to->text.failed) d->wrong = "there is no memory";
  if (!d->wrong && to->text.size == 0 && to->parts.size == 0) d->wrong = "a message is empty";
}

/* The text of the last message becomes the turn's own text; its parts become a message before it. */
static void read_messages(drafts *d, tp_text messages) {
  size_t count = tp_value_kind_of(messages) == TP_VALUE_ARRAY ? tp_value_count(messages) : 0;
  if (count == 0 || count > MESSAGES_MAX) {
    d->wrong = "it has 1 to 1000 messages";
    return;
  }
  d->items = tp__heap_alloc((count + 1) * sizeof *d->items);
  if (!d->items) {
    d->wrong = "there is no memory";
    return;
  }
  d->capacity = count + 1;
  for (tp_value_walk walk = {0}; !d->wrong && tp_value_next(messages, &walk);) put_message(d, walk.value);
  if (d->wrong) return;
  draft *last = &d->items[d->count - 1];
  if (last->role != TP_ROLE_USER || last->text.size == 0) {
    d->wrong = "its last message is not a text of the user";
  } else if (last->parts.size > 0) {
    d->items[d->count++] = (draft){.role = TP_ROLE_USER, .text = last->text};
    last->text = (tp__bytes){0};
  }
}

/* Writes {max_tokens, temperature}. */
static tp_status write_parameters(const sample *m, tp_text params, tp_writer *writer, tp_text *ret_value) {
  tp_text temperature = tp_value_get(params, "temperature");
  int64_t most = m->session->settings.sampling.answer_tokens_max;
  int64_t wanted = tp_value_int(tp_value_get(params, "maxTokens"), most);
  tp_write_map(writer, 1U + (temperature.size > 0));
  tp_write_string(writer, "max_tokens");
  tp_write_int(writer, wanted > 0 && wanted < most ? wanted : most);
  if (temperature.size > 0) tp_write_string(writer, "temperature"), tp_write_value(writer, temperature);
  return tp_writer_finish(writer, ret_value);
}

/* Returns what the server demands and this client did not declare. @return NULL: nothing. */
static const char *check_params(tp_text params) {
  tp_text temperature = tp_value_get(params, "temperature"), stop = tp_value_get(params, "stopSequences");
  tp_value_kind kind = tp_value_kind_of(temperature);
  if (tp_value_count(tp_value_get(params, "tools")) > 0) return "it has tools, which are not offered";
  if (temperature.size > 0 && kind != TP_VALUE_INT && kind != TP_VALUE_DOUBLE) return "temperature is no number";
  if (stop.size > 0 && tp_value_kind_of(stop) != TP_VALUE_ARRAY) return "stopSequences is no array of texts";
  for (tp_value_walk walk = {0}; stop.size > 0 && tp_value_next(stop, &walk);)
    if (tp_value_text(walk.value).size == 0) return "stopSequences is no array of texts";
  return NULL;
}

/* ---- its turn ---- */

/* Finds where the first of the stop sequences begins. @return text.size: there is none. */
static size_t find_stop(tp_text text, tp_text stop) {
  size_t first = text.size;
  for (tp_value_walk walk = {0}; stop.size > 0 && tp_value_next(stop, &walk);) {
    tp_text word = tp_value_text(walk.value);
    const char *at = text.size > 0 ? memmem(text.data, first, word.data, word.size) : NULL;
    if (at) first = (size_t)(at - text.data);
  }
  return first;
}

static void answer_text(sample *m, const tp_turn_result *result) {
  size_t size = find_stop(result->text, m->stop);
  const char *name = m->session->settings.model.name, *why = "endTurn";
  tp_writer *writer = NULL;
  tp_text value = {"", 0};
  if (size < result->text.size) why = "stopSequence";
  else if (result->finish == TP_FINISH_LENGTH) why = "maxTokens";
  else if (result->finish != TP_FINISH_STOP && result->finish != TP_FINISH_UNKNOWN)
    why = tp_finish_name(result->finish);
  if (tp_writer_new(NULL, &writer) == TP_OK) {
    tp_write_map(writer, 4);
    tp_write_string(writer, "role");
    tp_write_string(writer, "assistant");
    tp_write_string(writer, "content");
    tp_write_map(writer, 2);
    tp_write_string(writer, "type");
    tp_write_string(writer, "text");
    tp_write_string(writer, "text");
    tp_write_text(writer, (tp_text){result->text.data, size});
    tp_write_string(writer, "model");
    tp_write_string(writer, name ? name : "unknown");
    tp_write_string(writer, "stopReason");
    tp_write_string(writer, why);
    if (tp_writer_finish(writer, &value) != TP_OK) value = (tp_text){"", 0};
  }
  answer_sample(m, value, "there is no memory");
  tp_writer_free(writer);
}

static void turn_ended(void *ctx, const tp_turn_result *result) {
  sample *m = ctx;
  char words[TP_FAULT_MESSAGE_SIZE];
  tp__lock_acquire(&m->session->lock);
  m->origin->sample_tokens += result->input_tokens + result->output_tokens;
  tp__lock_release(&m->session->lock);
  if (result->outcome == TP_TURN_COMPLETED) {
    answer_text(m, result);
    return;
  }
  tp__show(words, sizeof words, result->reason);
  refuse_sample(m, words[0] ? words : tp_turn_outcome_name(result->outcome));
}

static tp_status open_sample_session(sample *m, tp_fault *fault) {
  tp__mcp_session *s = m->session;
  char id[ID_BYTES], workspace[ID_BYTES];
  tp_history *history = NULL;
  tp__lock_acquire(&s->lock);
  unsigned long long number = ++s->sample_sessions;
  tp__lock_release(&s->lock);
  snprintf(id, sizeof id, "mcp.%s.sampling.%llx.%llu", s->settings.options.name,
           (unsigned long long)m->origin->token.bits, number);
  snprintf(workspace, sizeof workspace, "mcp.%s", s->settings.options.name); /* a workspace of its own, so that a memory
                                                                                keeps these texts apart */
  tp_session_options options = {.struct_size = sizeof options,
                                .id = id,
                                .tenant = m->origin->tenant[0] ? m->origin->tenant : NULL,
                                .workspace = workspace,
                                .model = &s->settings.model};
  tp_status status = tp_history_memory_new(NULL, &history, fault);
  if (status != TP_OK) return status;
  options.history = history;
  status = tp_session_open(s->runtime, &options, &m->asks_in, fault);
  if (status != TP_OK) tp_history_free(history);
  return status;
}

static tp_status submit_sample(sample *m, const drafts *d, tp_text parameters, int64_t tokens_left, tp_fault *fault) {
  const size_t count = d->count - 1;
  tp_message *messages = tp__heap_alloc((count + 1) * sizeof *messages);
  const tp_message **list = tp__heap_alloc((count + 1) * sizeof *list);
  char by[64];
  tp_submission *submission = NULL;
  snprintf(by, sizeof by, "mcp.%s", m->session->settings.options.name);
  tp_turn_request request = {.struct_size = sizeof request,
                             .data = m,
                             .text = tp__bytes_text(&d->items[count].text),
                             .messages = count > 0 ? list : NULL,
                             .message_count = count,
                             .system = tp__bytes_text(&m->system),
                             .parameters = parameters,
                             .iterations_max = 1,
                             .tokens_max = tokens_left,
                             .triggered_by = by};
  tp_status status = messages && list ? TP_OK : TP_ERR_NO_MEMORY;
  for (size_t i = 0; status == TP_OK && i < count; i++) {
    messages[i] = (tp_message){.struct_size = sizeof *messages,
                               .role = d->items[i].role,
                               .text = tp__bytes_text(&d->items[i].text),
                               .parts = d->items[i].parts};
    list[i] = &messages[i];
  }
  if (status == TP_OK)
    status = tp_tool_submit_turn_late(m->origin->token, m->asks_in, &request, turn_ended, m, &submission, fault);
  tp__heap_free(messages, (count + 1) * sizeof *messages);
  tp__heap_free(list, (count + 1) * sizeof *list);
  if (status != TP_OK) return status;
  tp__lock_acquire(&m->session->lock);
  m->submission = submission;
  bool is_cancelled = m->is_cancelled;
  tp__lock_release(&m->session->lock);
  if (is_cancelled) tp_submission_cancel(submission);
  return TP_OK;
}

static void ask_model(sample *m, tp_text params) {
  drafts d = {.wrong = check_params(params)};
  tp_writer *writer = NULL;
  tp_text parameters = {"", 0};
  tp_fault fault = {.message = "there is no memory"};
  tp__lock_acquire(&m->session->lock);
  int64_t left = m->session->settings.sampling.tokens_max - m->origin->sample_tokens;
  tp__lock_release(&m->session->lock);
  if (!d.wrong && left <= 0) d.wrong = "the call has used the tokens that its server may have";
  if (!d.wrong) read_messages(&d, tp_value_get(params, "messages"));
  tp_status status = d.wrong ? TP_ERR_MALFORMED : tp_writer_new(NULL, &writer);
  if (status == TP_OK) status = write_parameters(m, params, writer, &parameters);
  if (status == TP_OK) status = open_sample_session(m, &fault);
  if (status == TP_OK) status = submit_sample(m, &d, parameters, left, &fault);
  if (status != TP_OK) refuse_sample(m, d.wrong ? d.wrong : fault.message);
  drafts_free(&d);
  tp_writer_free(writer);
}

/* ---- what its requests have ---- */

static bool write_said(void *ctx, const tp_message *message) {
  tp_writer *writer = ctx;
  if (message->role != TP_ROLE_USER && message->role != TP_ROLE_ASSISTANT) return true;
  tp_write_map(writer, 2U + (message->parts.size > 0));
  tp_write_string(writer, "role");
  tp_write_string(writer, message->role == TP_ROLE_USER ? "user" : "assistant");
  tp_write_string(writer, "text");
  tp_write_text(writer, message->text);
  if (message->parts.size > 0) tp_write_string(writer, "parts"), tp_write_value(writer, message->parts);
  return true;
}

static bool count_said(void *ctx, const tp_message *message) {
  *(size_t *)ctx += message->role == TP_ROLE_USER || message->role == TP_ROLE_ASSISTANT;
  return true;
}

tp_answer tp__mcp_sample_shape(void *ctx, tp_call *tp) {
  tp__mcp_session *s = ctx;
  const void *data = tp_call_data(tp, TP_ID_TURN);
  static const char none[] = "\x90";
  size_t count = 0;
  tp_writer *writer = NULL;
  tp_fault fault = {.message = "no memory for what an MCP server wants from a model"};
  tp__lock_acquire(&s->lock);
  sample *m = s->samples; /* the data may be a host's pointer, so it is only compared */
  while (m && m != data) m = m->next;
  if (m) tp__references_ref(&m->refs);
  tp__lock_release(&s->lock);
  if (!m) return TP_ANSWER_DONE;
  tp_field fields[] = {{.id = TP_FIELD_SYSTEM, .kind = TP_FIELD_KIND_TEXT, .text = tp__bytes_text(&m->system)},
                       {.id = TP_FIELD_TOOLS, .kind = TP_FIELD_KIND_VALUE, .text = {none, 1}},
                       {.id = TP_FIELD_MESSAGES, .kind = TP_FIELD_KIND_VALUE}};
  tp_status status = tp_writer_new(NULL, &writer);
  if (status == TP_OK) {
    (void)tp_call_messages(tp, count_said, &count);
    tp_write_array(writer, count);
    (void)tp_call_messages(tp, write_said, writer);
    status = tp_writer_finish(writer, &fields[2].text);
  }
  if (status == TP_OK) status = tp_call_replace(tp, fields, sizeof fields / sizeof *fields, &fault);
  tp_writer_free(writer);
  sample_unref(m);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(tp, status, fault.message);
}

/* ---- begin and end ---- */

/* @return NULL; or the reason why the request cannot begin. */
static const char *link_sample(sample *m) {
  const char *wrong = NULL;
  tp__mcp_session *s = m->session;
  tp__lock_acquire(&s->lock);
  if (m->origin->is_over) wrong = "the call is over";
  else if (m->origin->sample_count >= s->settings.sampling.count_max)
    wrong = "its server has wanted as many answers of a model during the call as it may";
  else {
    m->origin->sample_count++;
    m->next = s->samples;
    s->samples = m;
    m->is_linked = true;
  }
  tp__lock_release(&s->lock);
  return wrong;
}

void tp__mcp_sample_begin(tp__mcp_session *session, tp_text params, tp__mcp_origin *origin, tp__mcp_sample_fn on_answer,
                          void *ctx) {
  if (!origin) {
    on_answer(ctx, (tp_text){"", 0}, "it belongs to no call that is under way");
    return;
  }
  sample *m = tp__heap_alloc(sizeof *m);
  if (!m) {
    on_answer(ctx, (tp_text){"", 0}, "there is no memory");
    origin->unref(origin->owner);
    return;
  }
  tp__references_init(&m->refs);
  tp__mcp_session_ref(session);
  m->session = session;
  m->origin = origin;
  m->on_answer = on_answer;
  m->ctx = ctx;
  tp__bytes_put_text(&m->system, tp_value_text(tp_value_get(params, "systemPrompt")));
  tp_text stop = tp_value_get(params, "stopSequences");
  bool is_whole = !m->system.failed && tp_writer_new(NULL, &m->stops) == TP_OK;
  if (is_whole && stop.size > 0) {
    tp_write_value(m->stops, stop);
    is_whole = tp_writer_finish(m->stops, &m->stop) == TP_OK;
  }
  const char *wrong = is_whole ? link_sample(m) : "there is no memory";
  if (wrong) {
    on_answer(ctx, (tp_text){"", 0}, wrong);
    sample_unref(m);
    return;
  }
  tp__references_ref(&m->refs);
  if (!ask_client(m, params)) {
    if (session->settings.has_model) ask_model(m, params);
    else refuse_sample(m, "there is no client that answers it");
  }
  sample_unref(m);
}

void tp__mcp_sample_end(tp__mcp_session *s, tp__mcp_origin *origin) {
  if (!s->settings.has_sampling) return;
  while (true) {
    tp__lock_acquire(&s->lock);
    origin->is_over = true;
    sample *m = s->samples;
    while (m && (m->origin != origin || m->is_cancelled)) m = m->next;
    if (m) {
      m->is_cancelled = true;
      tp__references_ref(&m->refs);
    }
    tp_submission *submission = m ? m->submission : NULL;
    tp__lock_release(&s->lock);
    if (!m) return;
    tp_submission_cancel(submission); /* if submission is not set yet, the function that sets it cancels it */
    sample_unref(m);
  }
}
