/* SPDX-License-Identifier: Apache-2.0
 *
 * Data of a provider other than text and calls: it is stored with the message, shown as thinking, and sent back at its
 * place to the provider and API that gave it, and to no other. No network. */
#include <stdlib.h>

#include "tests/support/test.h"
#include "providers/openai/given.h"
#include "providers/openai/request.h"
#include "providers/openai/stream.h"
#include "tests/support/json_text.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { EVENTS_MAX = 8 };

typedef struct gift {
  const char *name;
  tp_openai_api api;
  const char *events[EVENTS_MAX]; /* data of the stream, or with whole one JSON text; ' stands for " */
  bool whole;
  const char *thinking; /* what events show */
  const char *data;     /* without provider and api; NULL: there is none */
  const char *sent;     /* in the next request; NULL: nothing of it */
} gift;

#define CALL(id, args, more)                                           \
  "{'choices':[{'index':0,'delta':{'tool_calls':[{'index':0,'id':'" id \
  "','type':'function','function':{'name': "                           \
  "'note','arguments':'" args "'}" more "}]}}]}"
#define DELTA(pairs) "{'choices':[{'index':0,'delta':{" pairs "}}]}"
#define STOP(reason) "{'choices':[{'index':0,'delta':{},'finish_reason':'" reason "'}]}"
#define BLOCK(index, block) "{'type':'content_block_start','index':" #index ",'content_block':{" block "}}"
#define PIECE(index, delta) "{'type':'content_block_delta','index':" #index ",'delta':{" delta "}}"
#define TOOL(index, id) BLOCK(index, "'type':'tool_use','id':'" id "','name':'note','input':{}")
#define END "{'type':'message_delta','delta':{'stop_reason':'tool_use'}}", "{'type':'message_stop'}"
#define ITEM(index, item) "{'type':'response.output_item.done','output_index':" #index ",'item':{" item "}}"
#define FUNCTION(id) "'type':'function_call','call_id':'" id "','name':'note','arguments':'{}'"
#define COMPLETED "{'type':'response.completed','response':{'status':'completed'}}"
#define DETAIL(piece) "'reasoning_details':[{'type':'reasoning.text','index':0,'format':'x'," piece "}]"

static const gift gifts[] = {
    {"reasoning_content in pieces",
     TP_OPENAI_CHAT,
     {DELTA("'reasoning_content':'I sh'"), DELTA("'reasoning_content':'ould.'"), CALL("c1", "{}", ""),
      STOP("tool_calls")},
     .thinking = "I should.",
     .data = "'thinking':'I should.','fields':{'reasoning_content':'I should.'}",
     .sent = "'content':null,'reasoning_content':'I should.','tool_calls'"},
    {"reasoning only in the field reasoning",
     TP_OPENAI_CHAT,
     {DELTA("'reasoning':'hm'"), DELTA("'content':'Hi'"), STOP("stop")},
     .thinking = "hm",
     .data = "'thinking':'hm','fields':{'reasoning':'hm'}",
     .sent = "'content':'Hi','reasoning':'hm'}"},
    {"the same reasoning in two fields is shown once",
     TP_OPENAI_CHAT,
     {DELTA("'reasoning_content':'hm','reasoning':'hm'"), DELTA("'content':'Hi'"), STOP("stop")},
     .thinking = "hm",
     .data = "'thinking':'hm','fields':{'reasoning_content':'hm','reasoning':'hm'}",
     .sent = "'reasoning_content':'hm','reasoning':'hm'}"},
    {"details in pieces, with a signature",
     TP_OPENAI_CHAT,
     {DELTA("'reasoning':'a'," DETAIL("'text':'a'")), DELTA("'reasoning':'b'," DETAIL("'text':'b'")),
      DELTA(DETAIL("'signature':'S'")), CALL("c1", "{}", ""), STOP("tool_calls")},
     .thinking = "ab",
     .data = "'thinking':'ab','fields':{'reasoning':'ab','reasoning_details':[{'type':'reasoning.text','index':0,"
             "'format':'x','text':'ab','signature':'S'}]}",
     .sent = "'reasoning':'ab','reasoning_details':[{'type':'reasoning.text','index':0,'format':'x','text':'ab',"
             "'signature':'S'}],'tool_calls'"},
    {"an encrypted detail",
     TP_OPENAI_CHAT,
     {DELTA("'reasoning_details':[{'type':'reasoning.encrypted','data':'E','id':'r'}]"), CALL("c1", "{}", ""),
      STOP("tool_calls")},
     .thinking = "",
     .data = "'fields':{'reasoning_details':[{'type':'reasoning.encrypted','id':'r','data':'E'}]}",
     .sent = "'reasoning_details':[{'type':'reasoning.encrypted','id':'r','data':'E'}]"},
    {"a signature in the extra content of a call",
     TP_OPENAI_CHAT,
     {CALL("c1", "{}", ",'extra_content':{'google':{'thought_signature':'S'}}"), STOP("tool_calls")},
     .thinking = "",
     .data = "'calls':[{'id':'c1','extra':{'extra_content':{'google':{'thought_signature':'S'}}}}]",
     .sent = "'arguments':'{}'},'extra_content':{'google':{'thought_signature':'S'}}}]"},
    {"the first of two calls has a signature",
     TP_OPENAI_CHAT,
     {DELTA("'tool_calls':[{'index':0,'id':'a','function':{'name':'note','arguments':'{}'},'extra_content':{'s':1}},"
            "{'index':1,'id':'b','function':{'name':'note','arguments':'{}'}}]"),
      STOP("tool_calls")},
     .thinking = "",
     .data = "'calls':[{'id':'a','extra':{'extra_content':{'s':1}}},{'id':'b'}]",
     .sent = "'extra_content':{'s':1}},{'id':'b'"},
    {"a signature beside the text",
     TP_OPENAI_CHAT,
     {DELTA("'content':'Hi','extra_content':{'google':{'thought_signature':'S'}}"), STOP("stop")},
     .thinking = "",
     .data = "'fields':{'extra_content':{'google':{'thought_signature':'S'}}}",
     .sent = "'content':'Hi','extra_content':{'google':{'thought_signature':'S'}}}"},
    {"a whole message",
     TP_OPENAI_CHAT,
     {"{'choices':[{'index':0,'message':{'role':'assistant','content':'Hi','reasoning_content':'hm'},"
      "'finish_reason':'stop'}]}"},
     .whole = true,
     .thinking = "",
     .data = "'thinking':'hm','fields':{'reasoning_content':'hm'}",
     .sent = "'content':'Hi','reasoning_content':'hm'}"},
    {"nothing", TP_OPENAI_CHAT, {DELTA("'content':'Hi'"), STOP("stop")}, .thinking = ""},
    {"a thinking block with its signature",
     TP_OPENAI_MESSAGES,
     {BLOCK(0, "'type':'thinking','thinking':''"), PIECE(0, "'type':'thinking_delta','thinking':'hm'"),
      PIECE(0, "'type':'signature_delta','signature':'SIG'"), TOOL(1, "t1"), END},
     .thinking = "hm",
     .data = "'thinking':'hm','items':[{'at':0,'item':{'type':'thinking','thinking':'hm','signature':'SIG'}}]",
     .sent = "'content':[{'type':'thinking','thinking':'hm','signature':'SIG'},{'type':'tool_use'"},
    {"a redacted block",
     TP_OPENAI_MESSAGES,
     {BLOCK(0, "'type':'redacted_thinking','data':'X'"), BLOCK(1, "'type':'text','text':''"),
      PIECE(1, "'type':'text_delta','text':'Hi'"), END},
     .thinking = "",
     .data = "'items':[{'at':0,'item':{'type':'redacted_thinking','data':'X'}}]",
     .sent = "'content':[{'type':'redacted_thinking','data':'X'},{'type':'text','text':'Hi'}]"},
    {"thinking between calls",
     TP_OPENAI_MESSAGES,
     {BLOCK(0, "'type':'thinking','thinking':'a','signature':'A'"), TOOL(1, "t1"),
      BLOCK(2, "'type':'thinking','thinking':'b','signature':'B'"), TOOL(3, "t2"), END},
     .thinking = "ab",
     .data = "'thinking':'a\\n\\nb','items':[{'at':0,'item':{'type':'thinking','thinking':'a','signature':'A'}},"
             "{'at':2,'item':{'type':'thinking','thinking':'b','signature':'B'}}]",
     .sent =
         "'signature':'A'},{'type':'tool_use','id':'t1','name':'note','input':{}},{'type':'thinking','thinking':'b',"
         "'signature':'B'},{'type':'tool_use','id':'t2'"},
    {"thinking after text",
     TP_OPENAI_MESSAGES,
     {BLOCK(0, "'type':'text','text':'Hi'"), BLOCK(1, "'type':'thinking','thinking':'b','signature':'B'"),
      TOOL(2, "t1"), END},
     .thinking = "b",
     .data = "'thinking':'b','items':[{'at':1,'item':{'type':'thinking','thinking':'b','signature':'B'}}]",
     .sent = "'text':'Hi'},{'type':'thinking','thinking':'b','signature':'B'},{'type':'tool_use'"},
    {"a reasoning item with its content",
     TP_OPENAI_RESPONSES,
     {"{'type':'response.reasoning_summary_text.delta','output_index':0,'delta':'hm'}",
      ITEM(0,
           "'type':'reasoning','id':'rs_1','status':null,'summary':[{'type':'summary_text','text':'hm'}],"
           "'encrypted_content':'E'"),
      ITEM(1, FUNCTION("c1")), COMPLETED},
     .thinking = "hm",
     .data = "'thinking':'hm','items':[{'at':0,'item':{'type':'reasoning','summary':[{'type':'summary_text','text':"
             "'hm'}],'id':'rs_1','encrypted_content':'E'}}]",
     .sent = "{'type':'reasoning','summary':[{'type':'summary_text','text':'hm'}],'id':'rs_1','encrypted_content':'E'},"
             "{'type':'function_call'"},
    {"what belongs to a call by its id, after another call",
     TP_OPENAI_CHAT,
     {DELTA("'tool_calls':[{'index':0,'id':'a','function':{'name':'note','arguments':'{}'}},"
            "{'index':1,'id':'b','function':{'name':'note','arguments':'{}'}}]"),
      DELTA("'tool_calls':[{'index':0,'id':'a','extra_content':{'s':1}}]"), STOP("tool_calls"), "[DONE]"},
     .thinking = "",
     .data = "'calls':[{'id':'a','extra':{'extra_content':{'s':1}}},{'id':'b'}]",
     .sent = "'extra_content':{'s':1}"},
    {"null belongs to no call",
     TP_OPENAI_CHAT,
     {CALL("c1", "{}", ",'extra_content':null"), STOP("tool_calls"), "[DONE]"},
     .thinking = ""},
    {"details that the whole message has again",
     TP_OPENAI_CHAT,
     {DELTA(DETAIL("'text':'hm'")),
      "{'choices':[{'message':{'content':'x'," DETAIL("'text':'hm'") "},'finish_reason':'stop'}]}"},
     .thinking = "hm",
     .data = "'thinking':'hm','fields':{'reasoning_details':[{'type':'reasoning.text','index':0,'format':'x','text':"
             "'hm'}]}",
     .sent = "'text':'hm'}]}"},
    {"details in another order",
     TP_OPENAI_CHAT,
     {DELTA("'reasoning_details':[{'type':'reasoning.text','index':1,'text':'b'}]"),
      DELTA("'reasoning_details':[{'type':'reasoning.text','index':0,'text':'a'}]"),
      DELTA("'reasoning_details':[{'type':'reasoning.text','index':1,'text':'c'}]"), DELTA("'content':'x'"),
      STOP("stop"), "[DONE]"},
     .thinking = "bac",
     .data = "'thinking':'bc\\n\\na','fields':{'reasoning_details':[{'type':'reasoning.text','index':1,'text':'bc'},"
             "{'type':'reasoning.text','index':0,'text':'a'}]}",
     .sent = "'index':1,'text':'bc'},{"},
    {"a detail keeps what only its first piece has",
     TP_OPENAI_CHAT,
     {DELTA("'reasoning_details':[{'type':'reasoning.text','index':0,'id':'i','text':'a'}]"),
      DELTA("'reasoning_details':[{'type':'reasoning.text','index':0,'text':'b'}]"), CALL("c1", "{}", ""),
      STOP("tool_calls"), "[DONE]"},
     .thinking = "ab",
     .data =
         "'thinking':'ab','fields':{'reasoning_details':[{'type':'reasoning.text','index':0,'id':'i','text':'ab'}]}",
     .sent = "'id':'i','text':'ab'"},
    {"a summary in pieces",
     TP_OPENAI_CHAT,
     {DELTA("'reasoning_details':[{'type':'reasoning.summary','index':0,'summary':'a'}]"),
      DELTA("'reasoning_details':[{'type':'reasoning.summary','index':0,'summary':'b'}]"), DELTA("'content':'x'"),
      STOP("stop"), "[DONE]"},
     .thinking = "ab",
     .data = "'thinking':'ab','fields':{'reasoning_details':[{'type':'reasoning.summary','index':0,'summary':'ab'}]}",
     .sent = "'summary':'ab'"},
    {"thinking of which only the signature is shown",
     TP_OPENAI_MESSAGES,
     {BLOCK(0, "'type':'thinking','thinking':'','signature':''"),
      PIECE(0, "'type':'signature_delta','signature':'SIG'"), TOOL(1, "t1"), END},
     .thinking = "",
     .data = "'items':[{'at':0,'item':{'type':'thinking','thinking':'','signature':'SIG'}}]",
     .sent = "{'type':'thinking','thinking':'','signature':'SIG'},{'type':'tool_use'"},
    {"thinking without a signature",
     TP_OPENAI_MESSAGES,
     {BLOCK(0, "'type':'thinking','thinking':'hm'"), TOOL(1, "t1"), END},
     .thinking = "hm",
     .data = "'thinking':'hm','items':[{'at':0,'item':{'type':'thinking','thinking':'hm'}}]",
     .sent = "{'type':'thinking','thinking':'hm'},{'type':'tool_use'"},
    {"a whole response, whose calls have no index",
     TP_OPENAI_RESPONSES,
     {"{'status':'completed','output':[{'type':'reasoning','summary':[],'encrypted_content':'E'},{" FUNCTION(
         "c1") "}]}"},
     .whole = true,
     .thinking = "",
     .data = "'items':[{'at':0,'item':{'type':'reasoning','summary':[],'encrypted_content':'E'}}]",
     .sent = "'encrypted_content':'E'},{'type':'function_call','call_id':'c1'"},
    {"the input of the endpoint's own tool comes in pieces only, or is no object",
     TP_OPENAI_MESSAGES,
     {BLOCK(0, "'type':'server_tool_use','id':'a'"), PIECE(0, "'type':'input_json_delta','partial_json':'{\\'q\\':1}'"),
      BLOCK(1, "'type':'server_tool_use','id':'b','input':{}"),
      PIECE(1, "'type':'input_json_delta','partial_json':'[1]'"),
      BLOCK(2, "'type':'server_tool_use','id':'c','input':{}"),
      PIECE(2, "'type':'input_json_delta','partial_json':'{\\'q'"), BLOCK(3, "'type':'text','text':'So.'"),
      "{'type':'message_stop'}"},
     .thinking = "",
     .data = "'items':[{'at':0,'item':{'type':'server_tool_use','id':'a','input':{'q':1}}},"
             "{'at':0,'item':{'type':'server_tool_use','id':'b','input':{}}},"
             "{'at':0,'item':{'type':'server_tool_use','id':'c','input':{}}}]"},
    {"a pause, with a call of the endpoint's own tool",
     TP_OPENAI_MESSAGES,
     {BLOCK(0, "'type':'text','text':'I look.'"),
      BLOCK(1, "'type':'server_tool_use','id':'srv_1','name':'web_search','input':{}"),
      PIECE(1, "'type':'input_json_delta','partial_json':'{\\'q\\''"),
      PIECE(1, "'type':'input_json_delta','partial_json':':1}'"),
      "{'type':'message_delta','delta':{'stop_reason':'pause_turn'}}", "{'type':'message_stop'}"},
     .thinking = "",
     .data = "'items':[{'at':1,'item':{'type':'server_tool_use','id':'srv_1','name':'web_search','input':{'q':1}}}],"
             "'paused':true",
     .sent = "{'type':'text','text':'I look.'},{'type':'server_tool_use','id':'srv_1','name':'web_search','input':"
             "{'q':1}}]"},
    {"a pause with nothing but a result of the endpoint's own tool",
     TP_OPENAI_MESSAGES,
     {BLOCK(0, "'type':'web_search_tool_result','tool_use_id':'srv_1','content':[{'t':1}]"),
      "{'type':'message_delta','delta':{'stop_reason':'pause_turn'}}", "{'type':'message_stop'}"},
     .thinking = "",
     .data = "'items':[{'at':0,'item':{'type':'web_search_tool_result','tool_use_id':'srv_1','content':[{'t':1}]}}],"
             "'paused':true",
     .sent = "'content':[{'type':'web_search_tool_result','tool_use_id':'srv_1','content':[{'t':1}]}]"},
    {"a refusal in pieces",
     TP_OPENAI_CHAT,
     {DELTA("'refusal':'I will '"), DELTA("'refusal':'not.'"), STOP("stop"), "[DONE]"},
     .thinking = "",
     .data = "'refusal':'I will not.'",
     .sent = "'content':'I will not.'"},
    {"a refusal as a whole, after some text",
     TP_OPENAI_CHAT,
     {"{'choices':[{'message':{'role':'assistant','content':'Well. ','refusal':'No.'},'finish_reason':'stop'}]}"},
     .whole = true,
     .thinking = "",
     .data = "'refusal':'No.'",
     .sent = "'content':'Well. No.'"},
    {"a refusal of a response, in pieces and whole",
     TP_OPENAI_RESPONSES,
     {"{'type':'response.refusal.delta','output_index':0,'content_index':0,'delta':'No'}",
      "{'type':'response.refusal.delta','output_index':0,'content_index':0,'delta':'.'}",
      "{'type':'response.refusal.done','output_index':0,'content_index':0,'refusal':'No.'}",
      ITEM(0, "'type':'message','content':[{'type':'refusal','refusal':'No.'}]"), COMPLETED},
     .thinking = "",
     .data = "'refusal':'No.'",
     .sent = "{'type':'output_text','text':'No.'}"},
    {"a reasoning item that only the endpoint has",
     TP_OPENAI_RESPONSES,
     {ITEM(0, "'type':'reasoning','id':'rs_1','summary':[]"), ITEM(1, FUNCTION("c1")), COMPLETED},
     .thinking = "",
     .data = ""},
    {"reasoning between calls",
     TP_OPENAI_RESPONSES,
     {ITEM(0, FUNCTION("a")), ITEM(1, "'type':'reasoning','summary':[],'encrypted_content':'E'"),
      ITEM(2, FUNCTION("b")), COMPLETED},
     .thinking = "",
     .data = "'items':[{'at':2,'item':{'type':'reasoning','summary':[],'encrypted_content':'E'}}]",
     .sent = "'call_id':'a','name':'note','arguments':'{}'},{'type':'reasoning','summary':[],'encrypted_content':'E'},"
             "{'type':'function_call','call_id':'b'"},
};

static const char *quoted(const char *text) {
  static _Thread_local char buffers[2][2048];
  static _Thread_local int next;
  char *to = buffers[next++ % 2];
  snprintf(to, 2048, "%s", text);
  for (char *at = to; *at; at++)
    if (*at == '\'') *at = '"';
  return to;
}

static tp__openai_config configure(tp_openai_api api, const char *base_url) {
  tp__openai_config config = {0};
  tp_openai_options options = {.struct_size = sizeof options, .api = api, .model = "m", .base_url = base_url};
  assert_int_equal(tp__openai_config_init(&config, &options, NULL), TP_OK);
  return config;
}

static tp_status show(void *ctx, tp_text piece, bool thinking) {
  if (thinking) tp__bytes_put_text(ctx, piece);
  return TP_OK;
}

/* The stream of a gift, read to its end. */
static void take(const gift *g, tp__openai_stream *stream, tp__bytes *shown) {
  *stream =
      (tp__openai_stream){.form = tp__openai_form_of(g->api), .bytes_max = 1 << 20, .on_text = show, .ctx = shown};
  assert_int_equal(tp__openai_stream_init(stream), TP_OK);
  for (size_t i = 0; i < EVENTS_MAX && g->events[i]; i++) {
    char event[2100];
    snprintf(event, sizeof event, g->whole ? "%s" : "data: %s\n\n", quoted(g->events[i]));
    (void)tp__openai_stream_feed(stream, event, strlen(event));
  }
  if (!tp__openai_stream_end(stream)) fail_msg("%s: %s", g->name, stream->answer.failure.message);
}

/* The body of the request after the message and results of its calls. */
static void write_next(const tp__openai_config *config, const tp_model_response *response, tp__bytes *json) {
  tp_message user = {.struct_size = sizeof user, .role = TP_ROLE_USER, .text = tp_text_of("Go.")};
  tp_message said = {.struct_size = sizeof said,
                     .role = TP_ROLE_ASSISTANT,
                     .text = response->text,
                     .calls = response->calls,
                     .call_count = response->call_count,
                     .provider_data = response->provider_data};
  tp_message results[4];
  const tp_message *list[8] = {&user, &said};
  size_t count = 2;
  for (size_t i = 0; i < response->call_count && i < 4; i++) {
    results[i] = (tp_message){.struct_size = sizeof results[i],
                              .role = TP_ROLE_TOOL,
                              .call_id = response->calls[i]->id,
                              .text = tp_text_of("done")};
    list[count++] = &results[i];
  }
  if (response->call_count == 0) list[count++] = &user;
  tp_model_request request = {.struct_size = sizeof request, .messages = list, .message_count = count};
  assert_int_equal(tp__openai_request_write(config, &request, json, NULL, NULL), TP_OK);
}

static void check_sent(const gift *g, const tp_model_response *response, const char *base_url, bool is_own) {
  static const char *const traces[] = {"hm",    "\"reasoning", "thinking", "signature", "encrypted_content",
                                       "extra", "SIG",         "\"E\""};
  tp__openai_config config = configure(g->api, base_url);
  tp__bytes json = {0};
  write_next(&config, response, &json);
  const char *body = tp__bytes_string(&json);
  if (is_own && g->sent && !strstr(body, quoted(g->sent)))
    fail_msg("%s: %s\nis not in\n%s", g->name, quoted(g->sent), body);
  for (size_t i = 0; (!is_own || !g->sent) && i < COUNT(traces); i++)
    if (strstr(body, traces[i])) fail_msg("%s: %s is in %s", g->name, traces[i], body);
  tp__bytes_fini(&json);
  tp__openai_config_fini(&config);
}

TEST(what_a_provider_gives_is_kept_shown_and_sent_back_to_it_only) {
  for (size_t i = 0; i < COUNT(gifts); i++) {
    const gift *g = &gifts[i];
    tp__openai_config config = configure(g->api, "http://127.0.0.1:1/v1");
    tp__openai_stream stream;
    tp__bytes shown = {0};
    tp_model_response response;
    tp_writer *writer;
    take(g, &stream, &shown);
    assert_int_equal(tp__openai_answer_response(&stream.answer, &response), TP_OK);
    assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
    assert_int_equal(tp__openai_given_write(&config, &stream.answer, writer, &response.provider_data), TP_OK);
    if (strcmp(tp__bytes_string(&shown), g->thinking) != 0)
      fail_msg("%s: \"%s\" is shown", g->name, tp__bytes_string(&shown));
    assert_int_equal(response.provider_data.size > 0, g->data != NULL);
    if (g->data) {
      char want[2100], *data = json_text(response.provider_data);
      snprintf(want, sizeof want, "{\"provider\":\"127.0.0.1:1\",\"api\":\"%s\"%s%s}", tp_openai_api_name(g->api),
               g->data[0] ? "," : "", quoted(g->data));
      if (strcmp(data, want) != 0) fail_msg("%s:\n%s\nis not\n%s", g->name, data, want);
      free(data);
    }
    check_sent(g, &response, "http://127.0.0.1:1/v1", true);
    check_sent(g, &response, "http://127.0.0.1:2/v1", false);
    tp_writer_free(writer);
    tp__openai_stream_fini(&stream);
    tp__bytes_fini(&shown);
    tp__openai_config_fini(&config);
  }
}
