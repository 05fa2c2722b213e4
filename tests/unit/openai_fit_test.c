/* SPDX-License-Identifier: Apache-2.0
 *
 * The step that adapts a request to its API: the effect of each repair; and that for every history, the request
 * satisfies the strictest server of each form, and the history is not changed. No network. */
#include <stdlib.h>

#include "tests/support/strict_api.h"
#include "tests/support/test.h"
#include "providers/openai/request.h"
#include "tests/unit/value_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define T(string) \
  { (string), sizeof(string) - 1 }
#define ME "127.0.0.1:1"

static tp__openai_config configure(tp_openai_api api) {
  tp__openai_config config = {0};
  tp_openai_options options = {.struct_size = sizeof options, .api = api, .model = "m", .base_url = "http://" ME "/v1"};
  tp_fault fault = {0};
  if (tp__openai_config_init(&config, &options, &fault) != TP_OK) fail_msg("%s", fault.message);
  return config;
}

/* ---- random histories ---- */

static uint64_t draw;
static uint32_t pick(uint32_t below) {
  draw = draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(draw >> 33) % below;
}

static const tp_text texts[] = {T(""),  T("hello"), T(" \n\t"), T("Gr\xc3\xbc\xc3\x9f dich"), T("two\n\nlines "),
                                T("\0")};
static const tp_text ids[] = {T("c1"),
                              T("c1"),
                              T(""),
                              T("call_0"),
                              T("functions.note:0"),
                              T("toolu_01A09q90qw90lq917835lq9"),
                              T("an id with blanks"),
                              T("\xc3\xa4|1"),
                              T("call_a_very_long_one_that_no_api_takes_0123456789012345678901234567890123456789"),
                              T("call_45_bytes_which_only_two_of_three_take_12")};
static const tp_text names[] = {T("note"),
                                T("note"),
                                T("functions.note"),
                                T("a b"),
                                T(""),
                                T("na\xc3\xafve"),
                                T("a_name_that_is_much_too_long_for_any_api_because_it_has_seventy_bytes_x")};
static const struct {
  tp_text arguments;
  bool malformed;
} arguments[] = {{T("\x81\xa1t\xa1"
                    "a"),
                  false},
                 {T(""), false},
                 {T("\x80"), false},
                 {T("\x93\x01\x02\x03"), false},
                 {T("\xa5"
                    "words"),
                  false},
                 {T("\x81\xa1"
                    "b\xc4\x02\0\xff"),
                  false},
                 {T("{\"t\":\"aaaa"), true},
                 {T(""), true},
                 {T("not \xff UTF-8"), true},
                 {T("\"a string\""), true},
                 {T("a\0b"), true}};

#define OWN(api, rest)  \
  "\xa8provider\xab" ME \
  "\xa3"                \
  "api" api rest
static const tp_text given[] = {
    T(""),
    /* {"provider": ME, "api": "chat", "fields": {"reasoning_content": "hm"}} */
    T("\x83" OWN("\xa4"
                 "chat",
                 "\xa6"
                 "fields\x81\xb1reasoning_content\xa2hm")),
    /* {…, "items": [{"at": 0, "item": {"type": "thinking", "thinking": "hm", "signature": "S"}}]} */
    T("\x83" OWN("\xa8messages",
                 "\xa5items\x91\x82\xa2"
                 "at\x00\xa4item\x83\xa4type\xa8thinking\xa8thinking\xa2hm"
                 "\xa9signature\xa1S")),
    /* {…, "items": [{"at": 0, "item": {"type": "reasoning", "encrypted_content": "E"}}]} */
    T("\x83" OWN("\xa9responses",
                 "\xa5items\x91\x82\xa2"
                 "at\x00\xa4item\x82\xa4type\xa9reasoning\xb1"
                 "encrypted_content\xa1"
                 "E")),
    T("\x83\xa8provider\xa1x\xa3"
      "api\xa8messages\xa5items\x91\x82\xa2"
      "at\x00\xa4item\x81\xa4type\xa8thinking"),
    T("\x80"),
};

enum { MESSAGES_MAX = 24, CALLS_MAX = 4 };

/** A history, and what it was. */
typedef struct history {
  tp_message messages[MESSAGES_MAX];
  tp_tool_call calls[MESSAGES_MAX][CALLS_MAX];
  const tp_tool_call *lists[MESSAGES_MAX][CALLS_MAX];
  const tp_message *list[MESSAGES_MAX];
  size_t count;
} history;

static tp_message *next_message(history *h, tp_role role) {
  tp_message *m = &h->messages[h->count];
  h->list[h->count++] = m;
  *m = (tp_message){.struct_size = sizeof *m, .role = role, .text = texts[pick(COUNT(texts) - 1)]};
  return m;
}

static void ask(history *h) {
  size_t at = h->count, count = pick(3) ? pick(CALLS_MAX) : 0;
  tp_message *m = next_message(h, TP_ROLE_ASSISTANT);
  m->provider_data = given[pick(COUNT(given))];
  for (size_t i = 0; i < count; i++) {
    size_t which = pick(COUNT(arguments));
    h->calls[at][i] = (tp_tool_call){.struct_size = sizeof(tp_tool_call),
                                     .id = ids[pick(COUNT(ids))],
                                     .name = names[pick(COUNT(names))],
                                     .arguments = arguments[which].arguments,
                                     .malformed = arguments[which].malformed};
    h->lists[at][i] = &h->calls[at][i];
  }
  m->calls = count ? h->lists[at] : NULL;
  m->call_count = count;
}

static void answer(history *h, const tp_message *asked) {
  for (size_t i = 0; i < asked->call_count && h->count < MESSAGES_MAX; i++) {
    if (pick(6) == 0) continue; /* a turn that ended in the middle */
    size_t which = pick(8) ? i : pick((uint32_t)asked->call_count);
    tp_message *m = next_message(h, pick(12) ? TP_ROLE_TOOL : TP_ROLE_USER);
    if (m->role != TP_ROLE_TOOL) continue;
    m->call_id = pick(10) ? asked->calls[which]->id : ids[pick(COUNT(ids))];
    m->name = asked->calls[which]->name;
    m->is_error = pick(3) == 0;
  }
}

static void make_history(history *h) {
  static const tp_role roles[] = {TP_ROLE_USER, TP_ROLE_USER, TP_ROLE_TOOL, TP_ROLE_SYSTEM, TP_ROLE_END, (tp_role)9};
  size_t count = pick(MESSAGES_MAX + 1);
  h->count = 0;
  while (h->count < count) {
    if (pick(2)) {
      ask(h);
      answer(h, h->list[h->count - 1]);
      continue;
    }
    tp_message *m = next_message(h, roles[pick(COUNT(roles))]);
    if (m->role == TP_ROLE_TOOL) m->call_id = ids[pick(COUNT(ids))];
    if (m->role == TP_ROLE_END) m->name = (tp_text)T("cancelled");
  }
  size_t from = pick(4) ? 0 : pick((uint32_t)h->count + 1); /* compaction, anywhere */
  memmove(h->list, h->list + from, (h->count - from) * sizeof *h->list);
  h->count -= from;
}

#define LONG_NAME "a_name_that_is_longer_than_sixty_four_letters_and_differs_at_its_end_only_"
static const tp_tool tools_[] = {
    {.struct_size = sizeof(tp_tool), .name = "note"},
    {.struct_size = sizeof(tp_tool), .name = "functions.note"},
    {.struct_size = sizeof(tp_tool), .name = "functions_note"},
    {.struct_size = sizeof(tp_tool), .name = "a b"},
    {.struct_size = sizeof(tp_tool), .name = "a/b"},
    {.struct_size = sizeof(tp_tool), .name = LONG_NAME "a"},
    {.struct_size = sizeof(tp_tool), .name = LONG_NAME "b"},
    {.struct_size = sizeof(tp_tool), .name = "sixty letters with blanks between them, near the greatest size"}};
static const tp_tool *const tools[] = {&tools_[0], &tools_[1], &tools_[2], &tools_[3],
                                       &tools_[4], &tools_[5], &tools_[6], &tools_[7]};

/* What a body is refused for; "": it is taken. */
static void judge(tp_openai_api api, bool thinks, const char *body, char *why, size_t size) {
  strict s = {.why = ""};
  tp_writer *writer;
  tp_text value = {NULL, 0};
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(tp_json_decode(tp_text_of(body), writer, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  if (api == TP_OPENAI_CHAT) strict_chat(&s, value, thinks);
  if (api == TP_OPENAI_MESSAGES) strict_messages(&s, value);
  if (api == TP_OPENAI_RESPONSES) strict_responses(&s, value);
  strict_tools(&s, value, api == TP_OPENAI_CHAT ? "function" : NULL);
  snprintf(why, size, "%s", s.why);
  tp_writer_free(writer);
}

static bool gives_reasoning(const history *h) {
  for (size_t i = 0; i < h->count; i++)
    if (h->list[i]->role == TP_ROLE_ASSISTANT && h->list[i]->provider_data.data == given[1].data &&
        (h->list[i]->call_count > 0 || !strict_blank(h->list[i]->text)))
      return true;
  return false;
}

static uint64_t sum_of(const void *bytes, size_t size, uint64_t sum) {
  for (size_t i = 0; i < size; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
  return sum;
}

static void check_history(const history *h, const tp__openai_config *configs, uint64_t seed) {
  uint64_t before = sum_of(h, sizeof *h, 0);
  tp_model_request request = {.struct_size = sizeof request,
                              .messages = h->list,
                              .message_count = h->count,
                              .tools = tools,
                              .tool_count = pick(COUNT(tools) + 1),
                              .system = texts[pick(2)]};
  bool thinks = gives_reasoning(h);
  for (int api = 0; api < 3; api++) {
    tp__bytes json = {0};
    tp_fault fault = {0};
    char why[256];
    if (tp__openai_request_write(&configs[api], &request, &json, NULL, &fault) != TP_OK)
      fail_msg("seed %llu, %s: %s", (unsigned long long)seed, configs[api].form->name, fault.message);
    if (h->count > 0) {
      /* joined answers keep the data of the second: the first may be the one that made the server think */
      judge((tp_openai_api)api, thinks && strstr(tp__bytes_string(&json), "reasoning_content"), tp__bytes_string(&json),
            why, sizeof why);
      if (why[0])
        fail_msg("seed %llu, %s: %s\n%s", (unsigned long long)seed, configs[api].form->name, why,
                 tp__bytes_string(&json));
    }
    tp__bytes_fini(&json);
  }
  assert_true(sum_of(h, sizeof *h, 0) == before); /* what is stored is not changed */
}

/* 2,000 histories over three forms; of ./dev test --long 100,000. */
TEST(every_history_becomes_a_request_that_strict_servers_take) {
  const char *text = getenv("TURNPHASE_ROUNDS"), *one = getenv("TURNPHASE_SEED");
  uint64_t rounds = text && atoi(text) > 1 ? 100000 : 2000, first = one ? strtoull(one, NULL, 10) : 1;
  tp__openai_config configs[] = {configure(TP_OPENAI_CHAT), configure(TP_OPENAI_RESPONSES),
                                 configure(TP_OPENAI_MESSAGES)};
  history *h = calloc(1, sizeof *h);
  assert_non_null(h);
  for (uint64_t i = 0; i < (one ? 1 : rounds); i++) {
    draw = (first + i) * UINT64_C(0x9e3779b97f4a7c15);
    make_history(h);
    check_history(h, configs, first + i);
  }
  free(h);
  for (size_t i = 0; i < COUNT(configs); i++) tp__openai_config_fini(&configs[i]);
}

/* The judge refuses what is wrong: else the test above would say nothing. */
TEST(strict_servers_refuse_what_is_not_fit) {
  static const struct {
    tp_openai_api api;
    const char *body, *why;
  } rows[] = {
      {TP_OPENAI_CHAT, "{'messages':[{'role':'user','content':'a'},{'role':'user','content':'b'}]}", "alternate"},
      {TP_OPENAI_CHAT,
       "{'messages':[{'role':'user','content':'a'},{'role':'assistant','content':''},"
       "{'role':'user','content':'b'}]}",
       "empty"},
      {TP_OPENAI_CHAT, "{'messages':[{'role':'assistant','content':'a'},{'role':'user','content':'b'}]}", "first"},
      {TP_OPENAI_CHAT, "{'messages':[{'role':'user','content':'a'},{'role':'assistant','content':'b'}]}", "last role"},
      {TP_OPENAI_CHAT,
       "{'messages':[{'role':'user','content':'a'},{'role':'assistant','content':null,'tool_calls':"
       "[{'id':'c','type':'function','function':{'name':'n','arguments':'{'}}]},"
       "{'role':'tool','tool_call_id':'c','content':'x'}]}",
       "JSON object"},
      {TP_OPENAI_CHAT,
       "{'messages':[{'role':'user','content':'a'},{'role':'assistant','content':null,'tool_calls':"
       "[{'id':'c','type':'function','function':{'name':'n.','arguments':'{}'}}]},"
       "{'role':'tool','tool_call_id':'c','content':'x'}]}",
       "match"},
      {TP_OPENAI_CHAT,
       "{'messages':[{'role':'user','content':'a'},{'role':'assistant','content':null,'tool_calls':"
       "[{'id':'c','type':'function','function':{'name':'n','arguments':'{}'}}]},"
       "{'role':'user','content':'x'}]}",
       "without their results"},
      {TP_OPENAI_CHAT, "{'messages':[{'role':'user','content':'a'},{'role':'tool','tool_call_id':'c','content':'x'}]}",
       "does not answer"},
      {TP_OPENAI_CHAT,
       "{'messages':[{'role':'user','content':'a'},{'role':'system','content':'b'},"
       "{'role':'user','content':'b'}]}",
       "beginning"},
      {TP_OPENAI_MESSAGES, "{'messages':[{'role':'user','content':[{'type':'text','text':' '}]}]}", "non-empty"},
      {TP_OPENAI_MESSAGES, "{'messages':[{'role':'user','content':[]}]}", "at least one"},
      {TP_OPENAI_MESSAGES,
       "{'messages':[{'role':'user','content':[{'type':'text','text':'a'}]},{'role':'assistant',"
       "'content':[{'type':'tool_use','id':'c:','name':'n','input':{}}]},{'role':'user','content':"
       "[{'type':'tool_result','tool_use_id':'c:','content':'x'}]}]}",
       "match"},
      {TP_OPENAI_MESSAGES,
       "{'messages':[{'role':'user','content':[{'type':'text','text':'a'}]},{'role':'assistant',"
       "'content':[{'type':'tool_use','id':'c','name':'n','input':{}}]},{'role':'user','content':"
       "[{'type':'text','text':'x'}]}]}",
       "without tool_result"},
      {TP_OPENAI_MESSAGES,
       "{'messages':[{'role':'user','content':[{'type':'text','text':'a'}]},{'role':'assistant',"
       "'content':[{'type':'text','text':'x'},{'type':'thinking','thinking':'t','signature':'s'}]},"
       "{'role':'user','content':[{'type':'text','text':'a'}]}]}",
       "out of its place"},
      {TP_OPENAI_RESPONSES, "{'input':[{'type':'function_call_output','call_id':'c','output':'x'}]}", "No tool call"},
      {TP_OPENAI_RESPONSES, "{'input':[{'type':'function_call','call_id':'c','name':'n','arguments':'{}'}]}",
       "No tool output"},
      {TP_OPENAI_RESPONSES, "{'input':[{'type':'reasoning','encrypted_content':'E'},{'role':'user','content':'a'}]}",
       "following item"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    char body[1024], why[256];
    snprintf(body, sizeof body, "%s", rows[i].body);
    for (char *at = body; *at; at++)
      if (*at == '\'') *at = '"';
    judge(rows[i].api, false, body, why, sizeof why);
    if (!strstr(why, rows[i].why)) fail_msg("row %zu: \"%s\" is not in \"%s\"", i, rows[i].why, why);
  }
}

/* ---- what each repair does ---- */

#define ASKS(id_, name_, arguments_, bad) \
  { .struct_size = sizeof(tp_tool_call), .id = T(id_), .name = T(name_), .arguments = T(arguments_), .malformed = bad }
#define SAID(role_, ...) \
  { .struct_size = sizeof(tp_message), .role = TP_ROLE_##role_, __VA_ARGS__ }

static const tp_tool_call call_a = ASKS("a", "note", "\x80", false), call_b = ASKS("b", "note", "\x80", false);
static const tp_tool_call call_cut = ASKS("a", "note", "{\"t", true), call_list = ASKS("a", "note", "\x91\x01", false);
#define THOUGHT                        \
  T("\x83" OWN("\xa8messages",         \
               "\xa5items\x91\x82\xa2" \
               "at\x00\xa4item\x83\xa4type\xa8thinking\xa8thinking\xa2hm\xa9signature\xa1S"))
#define THOUGHT_OF_OTHERS                  \
  T("\x83\xa8provider\xa1x\xa3"            \
    "api\xa8messages\xa5items\x91\x82\xa2" \
    "at\x00\xa4item\x81\xa4type\xa8thinking")
#define LETTERS_63 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"
static const tp_tool_call call_64 = ASKS(LETTERS_63 "l", "note", "\x80", false),
                          call_65 = ASKS(LETTERS_63 "lm", "note", "\x80", false);
static const tp_tool_call *const asks_64[] = {&call_64}, *const asks_65[] = {&call_65};
/* {…, "paused": true} */
#define PAUSED                                  \
  .provider_data = T("\x83" OWN("\xa8messages", \
                                "\xa6"          \
                                "paused\xc3"))
static const tp_tool_call call_blank = ASKS("", "note", "\x80", false);
static const tp_tool_call *const asks_a[] = {&call_a}, *const asks_both[] = {&call_a, &call_b};
static const tp_tool_call *const asks_twice[] = {&call_a, &call_a}, *const asks_cut[] = {&call_cut};
static const tp_tool_call *const asks_list[] = {&call_list}, *const asks_blank[] = {&call_blank};
#define CALLS(list) .calls = (list), .call_count = COUNT(list)
#define ID(id_) .call_id = T(id_)

typedef struct repair_row {
  const char *name;
  tp_message said[6];
  const char *outline, *repairs;
} repair_row;

/* "U<text>A<text>(id name arguments)T<id text>", with "!" for an error. */
static void put_outline(const tp_model_request *request, char *to, size_t size) {
  for (size_t i = 0; i < request->message_count; i++) {
    const tp_message *m = request->messages[i];
    size_t used = strlen(to);
    const char *label = m->role == TP_ROLE_USER        ? "U"
                        : m->role == TP_ROLE_ASSISTANT ? "A"
                        : m->role == TP_ROLE_TOOL      ? "T"
                                                       : "S";
    snprintf(to + used, size - used, "%s%s<%.*s%s%.*s>", label, m->is_error ? "!" : "", (int)m->call_id.size,
             m->call_id.size ? m->call_id.data : "", m->call_id.size ? " " : "", (int)m->text.size, m->text.data);
    for (size_t k = 0; k < m->call_count; k++) {
      used = strlen(to);
      snprintf(to + used, size - used, "(%.*s %.*s %zu)", (int)m->calls[k]->id.size, m->calls[k]->id.data,
               (int)m->calls[k]->name.size, m->calls[k]->name.data, m->calls[k]->arguments.size);
    }
  }
}

static const repair_row chat_rows[] = {
    {"nothing to repair",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_a)), SAID(TOOL, .text = T("r"), ID("a"))},
     "U<q>A<>(a note 1)T<a r>",
     ""},
    {"an empty answer is left out",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(" \n")), SAID(USER, .text = T("again"))},
     "U<q>U<again>",
     "empty messages (1)"},
    {"an empty question has a line", {SAID(USER, .text = T(" "))}, "U<[empty message]>", "empty messages (1)"},
    {"an empty result has a line",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_a)), SAID(TOOL, .text = T(""), ID("a"))},
     "U<q>A<>(a note 1)T<a [no output]>",
     ""},
    {"a missing result is an error that does not say that nothing ran",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_both)),
      SAID(TOOL, .text = T("r"), ID("b"))},
     "U<q>A<>(a note 1)(b note 1)T!<a [the result is not known: the call may have run, or not]>T<b r>",
     "missing results (1), results in order (1)"},
    {"results in another order",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_both)), SAID(TOOL, .text = T("2"), ID("b")),
      SAID(TOOL, .text = T("1"), ID("a"))},
     "U<q>A<>(a note 1)(b note 1)T<a 1>T<b 2>",
     "results in order (2)"},
    {"a result after a user's words",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_a)), SAID(USER, .text = T("wait")),
      SAID(TOOL, .text = T("r"), ID("a"))},
     "U<q>A<>(a note 1)T<a r>A<[no answer]>U<wait>",
     "roles (1), results in order (1)"},
    {"a result without a call, and one too many",
     {SAID(TOOL, .text = T("x"), ID("z")), SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_a)),
      SAID(TOOL, .text = T("1"), ID("a")), SAID(TOOL, .text = T("2"), ID("a"))},
     "U<q>A<>(a note 1)T<a 1>",
     "results without a call (2)"},
    {"one id for two calls of an answer: the results stay in order",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_twice)),
      SAID(TOOL, .text = T("1"), ID("a")), SAID(TOOL, .text = T("2"), ID("a"))},
     "U<q>A<>(a note 1)(call_af63dc4c8601ec8c note 1)T<a 1>T<call_af63dc4c8601ec8c 2>",
     "ids of calls (1)"},
    {"a result is not taken from the answer after the next one",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_a)),
      SAID(ASSISTANT, .text = T(""), CALLS(asks_a)), SAID(TOOL, .text = T("2"), ID("a"))},
     "U<q>A<>(a note 1)T!<a [the result is not known: the call may have run, or not]>A<>(call_af63dc4c8601ec8c note 1)"
     "T<call_af63dc4c8601ec8c 2>",
     "missing results (1), ids of calls (1)"},
    {"arguments that were cut",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_cut)), SAID(TOOL, .text = T("r"), ID("a"))},
     "U<q>A<>(a note 29)T<a r>",
     "arguments (1)"},
    {"arguments that are a list",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_list)),
      SAID(TOOL, .text = T("r"), ID("a"))},
     "U<q>A<>(a note 13)T<a r>",
     "arguments (1)"},
    {"no id",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_blank)), SAID(TOOL, .text = T("r"))},
     "U<q>A<>(call_cbf29ce484222325 note 1)T<call_cbf29ce484222325 r>",
     "ids of calls (1)"},
    {"two answers after one another",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T("one")), SAID(ASSISTANT, .text = T("two")),
      SAID(USER, .text = T("so?"))},
     "U<q>A<one\n\ntwo>U<so?>",
     "roles (1)"},
    {"the beginning is not there, and nobody waits",
     {SAID(ASSISTANT, .text = T("one"))},
     "U<[what was said before is not shown]>A<one>U<[go on]>",
     "roles (2)"},
    {"the system's words stand first",
     {SAID(USER, .text = T("q")), SAID(SYSTEM, .text = T("s")), SAID(SYSTEM, .text = T(" "))},
     "S<s>U<q>",
     "empty messages (1)"},
    {"blanks next to parts are left out",
     {SAID(USER, .text = T(" \n"), .parts = T("\x91\x80"))},
     "U<>",
     "empty messages (1)"},
    {"a result of parts only needs no line",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_a)),
      SAID(TOOL, .text = T(" "), .parts = T("\x91\x80"), ID("a"))},
     "U<q>A<>(a note 1)T<a >",
     ""},
    {"a pause is one for its own provider only",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T("one"), PAUSED)},
     "U<q>A<one>U<[go on]>",
     "roles (1)"},
    {"answers without reasoning are counted where others have some",
     {SAID(USER, .text = T("q")),
      SAID(ASSISTANT, .text = T("1"),
           .provider_data = T("\x83" OWN("\xa4"
                                         "chat",
                                         "\xa6"
                                         "fields\x81\xb1reasoning_content\xa2hm"))),
      SAID(USER, .text = T("r")), SAID(ASSISTANT, .text = T("2")), SAID(USER, .text = T("s"))},
     "U<q>A<1>U<r>A<2>U<s>",
     "missing thinking (1)"},
    {"marks are no messages", {SAID(USER, .text = T("q")), SAID(END, .text = T("why"))}, "U<q>", ""},
};
static const repair_row responses_rows[] = {
    {"an id of 64 letters is kept",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_64)),
      SAID(TOOL, .text = T("r"), ID(LETTERS_63 "l"))},
     "U<q>A<>(" LETTERS_63 "l note 1)T<" LETTERS_63 "l r>",
     ""},
    {"an id of 65 letters is another one",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_65)),
      SAID(TOOL, .text = T("r"), ID(LETTERS_63 "lm"))},
     "U<q>A<>(call_8b20a743e82c0cac note 1)T<call_8b20a743e82c0cac r>",
     "ids of calls (1)"},
};
static const repair_row messages_rows[] = {
    {"what follows a pause is an answer of its own",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T("one"), PAUSED), SAID(ASSISTANT, .text = T("two")),
      SAID(USER, .text = T("so?"))},
     "U<q>A<one>A<two>U<so?>",
     ""},
    {"a pause may be the end, and without text",
     {SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), PAUSED)},
     "U<q>A<>",
     ""},
};
static const struct {
  const repair_row *rows;
  size_t count;
} repair_rows[] = {[TP_OPENAI_CHAT] = {chat_rows, COUNT(chat_rows)},
                   [TP_OPENAI_RESPONSES] = {responses_rows, COUNT(responses_rows)},
                   [TP_OPENAI_MESSAGES] = {messages_rows, COUNT(messages_rows)}};

static void check_repairs(tp_openai_api api) {
  tp__openai_config config = configure(api);
  for (size_t i = 0; i < repair_rows[api].count; i++) {
    const repair_row *row = &repair_rows[api].rows[i];
    const tp_message *list[COUNT(row->said)];
    char outline[1024] = "", repairs[256];
    size_t count = 0;
    for (; count < COUNT(row->said) && row->said[count].role; count++) list[count] = &row->said[count];
    tp_model_request request = {.struct_size = sizeof request, .messages = list, .message_count = count};
    tp__openai_fit fit = {.blocks = NULL};
    assert_int_equal(tp__openai_fit_init(&fit, &config, &request), TP_OK);
    put_outline(&fit.request, outline, sizeof outline);
    (void)tp__openai_fit_describe(&fit, repairs, sizeof repairs);
    if (strcmp(outline, row->outline) != 0 || strcmp(repairs, row->repairs) != 0)
      fail_msg("%s:\n%s: %s\nis not\n%s: %s", row->name, outline, repairs, row->outline, row->repairs);
    for (size_t size = 1; size <= sizeof repairs; size += 5) {
      char some[sizeof repairs];
      size_t used = tp__openai_fit_describe(&fit, some, size);
      assert_int_equal(used, strlen(some));
      assert_int_equal(used, strlen(repairs) < size ? strlen(repairs) : size - 1);
    }
    tp__openai_fit_fini(&fit);
  }
  tp__openai_config_fini(&config);
}

TEST(each_repair_does_what_it_says_and_is_counted) {
  for (int api = 0; api < 3; api++) check_repairs((tp_openai_api)api);
}

/* The Messages API refuses thinking while calls without a thinking block are being answered. */
TEST(thinking_is_not_asked_for_while_calls_lack_it) {
  static const struct {
    tp_message said[4];
    bool lacks;
  } rows[] = {
      {{SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_a)), SAID(TOOL, .text = T("r"), ID("a"))},
       true},
      {{SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_a), .provider_data = THOUGHT),
        SAID(TOOL, .text = T("r"), ID("a"))},
       false},
      {{SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_a), .provider_data = THOUGHT_OF_OTHERS),
        SAID(TOOL, .text = T("r"), ID("a"))},
       true},
      {{SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T("a")), SAID(USER, .text = T("r"))}, false},
      {{SAID(USER, .text = T("q")), SAID(ASSISTANT, .text = T(""), CALLS(asks_a)), SAID(TOOL, .text = T("r"), ID("a")),
        SAID(USER, .text = T("r"))},
       false},
  };
  tp__openai_config config = configure(TP_OPENAI_MESSAGES);
  for (size_t i = 0; i < COUNT(rows); i++) {
    const tp_message *list[COUNT(rows[i].said)];
    size_t count = 0;
    for (; count < COUNT(rows[i].said) && rows[i].said[count].role; count++) list[count] = &rows[i].said[count];
    tp_model_request request = {.struct_size = sizeof request, .messages = list, .message_count = count};
    tp__openai_fit fit = {.blocks = NULL};
    assert_int_equal(tp__openai_fit_init(&fit, &config, &request), TP_OK);
    if (fit.no_thinking != rows[i].lacks) fail_msg("row %zu", i);
    tp__openai_fit_fini(&fit);
  }
  tp__openai_config_fini(&config);
}

/* A tool is sent under a name that the API takes, and is called by its own. */
TEST(names_are_found_again) {
  tp__openai_config config = configure(TP_OPENAI_MESSAGES);
  const tp_message user = SAID(USER, .text = T("q"));
  const tp_message *const list[] = {&user};
  tp_model_request request = {
      .struct_size = sizeof request, .messages = list, .message_count = 1, .tools = tools, .tool_count = COUNT(tools)};
  tp__openai_fit fit = {.blocks = NULL};
  assert_int_equal(tp__openai_fit_init(&fit, &config, &request), TP_OK);
  for (size_t i = 0; i < COUNT(tools); i++) {
    tp_tool_call call = {.struct_size = sizeof call, .id = T("a"), .name = tp_text_of(fit.request.tools[i]->name)};
    const tp_tool_call *const calls[] = {&call};
    tp_model_response response = {.struct_size = sizeof response, .calls = calls, .call_count = 1};
    tp__openai_names_restore(&fit.names, &response);
    assert_true(strlen(fit.request.tools[i]->name) <= 64);
    assert_true(tp_text_is(call.name, tools[i]->name));
  }
  assert_true(tp_text_is(tp__openai_names_find(&fit.names, tp_text_of("other")), "other"));
  tp__openai_fit_fini(&fit);
  tp__openai_config_fini(&config);
}
