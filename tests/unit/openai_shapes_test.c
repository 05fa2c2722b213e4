/* SPDX-License-Identifier: Apache-2.0
 *
 * The forms in which servers send an answer, an error, a repetition of everything, and the end. The rows have the texts
 * of the named servers; ' stands for a double quote. */
#include "tests/support/test.h"
#include "tests/support/answers.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* With ' in place of a double quote. To be freed. */
static char *unquoted(const char *row) {
  char *copy = strdup(row);
  assert_non_null(copy);
  for (char *at = copy; *at; at++)
    if (*at == '\'') *at = '"';
  return copy;
}

static char *seen_of(tp_openai_api api, const char *row, bool bytewise) {
  char *bytes = unquoted(row);
  tp__openai_stream stream = begin(api, 1 << 20);
  char *seen = come_to(&stream, tp_text_of(bytes), bytewise ? strlen(bytes) + 1 : 0);
  free(bytes);
  return seen;
}

static void assert_row(tp_openai_api api, const char *row, const char *expected) {
  for (int i = 0; i < 2; i++) {
    char *seen = seen_of(api, row, i == 1);
    if (strcmp(seen, expected) != 0) fail_msg("%s\n  %s\n  not\n  %s", row, seen, expected);
    free(seen);
  }
}

/* ---- frames ---- */

#define C(text) "{'choices':[{'index':0,'delta':{'content':'" text "'}}]}"
#define F "{'choices':[{'index':0,'delta':{},'finish_reason':'stop'}]}"
#define MESSAGE                                                                                                        \
  "{'object':'chat.completion','choices':[{'index':0,'message':{'role':'assistant','content':'hello'},'finish_reason'" \
  ":'stop'}]}"

TEST(an_answer_is_the_same_in_every_frame) {
  static const char *const rows[] = {
      "data: " C("hel") "\n\ndata: " C("lo") "\n\ndata: " F "\n\ndata: [DONE]\n\n",
      "data: " C("hel") "\ndata: " C("lo") "\ndata: " F "\ndata: [DONE]\n",     /* one LF between events */
      "data:" C("hel") "\r\rdata:" C("lo") "\r\rdata:" F "\r\rdata:[DONE]\r\r", /* CR */
      "data: " C("hel") "\r\n\r\ndata: " C("lo") "\r\n\r\ndata: [DONE]\r\n",    /* no reason of the end */
      "data: " C("hel") "\n\ndata: " C("lo") "\n\ndata: " F "\n\n",             /* no [DONE] */
      "data: " C("hel") "\n\ndata: " C("lo") "\n\ndata: " F "\n\ndata: [DONE]", /* no blank line at the end */
      "data: " C("hel") "\n\ndata: " C("lo") "\n\ndata: " F,                    /* nor [DONE] */
      "data: " C("hel") "\n\ndata: " C("lo") "\n\ndata:   [DONE]  \n\n",        /* blanks around it */
      C("hel") "\n" C("lo") "\n" F "\n",                                        /* JSON, an object a line */
      C("hel") "\n" C("lo") "\n" F,                                             /* the last without its LF */
      C("hel") "\n\n" C("lo") "\n\n" F "\n\n[DONE]\n",                          /* and blank lines */
      "[" C("hel") ",\n" C("lo") ",\n" F "]",                                   /* a list of them */
      "data: " C("hel") "\n\n" C("lo") "\n\ndata: " F "\n\n",                   /* one without its data: */
      "event: ping\ndata: ping\n\ndata: " C("hello") "\n\ndata: " F "\n\n",     /* keep-alives */
      ": OPENROUTER PROCESSING\n\ndata:\n\n:\n\ndata: " C("hello") "\n\ndata: " F "\n\n",
      "data: heartbeat\n\ndata: " C("hello") "\n\ndata: 1\n\ndata: " F "\n\n",
      "event: message\nid: 1\nretry: 100\ndata: " C("hello") "\n\nevent: done\ndata: [DONE]\n\n",
      "data: " C("hello") "\n\ndata: {'type':'stats','tokens':3}\n\ndata: {}\n\ndata: []\n\ndata: " F "\n\n",
      "data: {'choices':[{'index':0,\ndata: 'delta':{'content':'hello'}}]}\n\ndata: " F "\n\n", /* over two lines */
      "data: {\n  'choices': [{'index': 0,\n  'delta': {'content': 'hello'}}]\n}\n\ndata: [DONE]\n\n",
      "data: {'choices':[{'index':0,'delta':{'content':'hello','logprobs':[NaN,-Infinity,]}}]}\n\ndata: [DONE]\n\n",
      "data: {'choices':[{'delta':{'role':'assistant','content':'hello','role':'assistant'}}]}\n\ndata: [DONE]\n\n",
      "data: " MESSAGE "\n\n",
      "data: " MESSAGE,
      MESSAGE,
      MESSAGE "\n",
      "{\n 'choices': [\n  {'message':\n   {'content': 'hello'}, 'finish_reason': 'stop'}\n ]\n}\n",
      "{'choices':[{'message':{'content':'hello'}}]}", /* nothing says why it ended */
      "  data: " C("hello") "\n\n  data: [DONE]\n\n",
  };
  for (size_t i = 0; i < COUNT(rows); i++) assert_row(TP_OPENAI_CHAT, rows[i], "hello|end_turn|0,0");
}

TEST(other_forms_have_such_frames_too) {
  static const char *const messages[] = {
      "event: content_block_delta\ndata: {'index':0,'delta':{'type':'text_delta','text':'hello'}}\n\n" /* no type */
      "event: message_delta\ndata: {'delta':{'stop_reason':'end_turn'}}\n\nevent: message_stop\ndata: {}\n\n",
      "event: content_block_delta\ndata: {'index':0,'delta':{'text':'hello'}}\n" /* nor a blank line */
      "event: message_delta\ndata: {'delta':{'stop_reason':'end_turn'}}\nevent: message_stop\ndata: {}\n",
      "data: {'type':'content_block_delta','index':0,'delta':{'text':'hello'}}\n"
      "data: {'type':'message_delta','delta':{'stop_reason':'end_turn'}}\n",
      "{'type':'content_block_delta','index':0,'delta':{'type':'text_delta','text':'hello'}}\n"
      "{'type':'message_delta','delta':{'stop_reason':'end_turn'}}\n",
      "data: {'type':'message','content':[{'type':'text','text':'hello'}],'stop_reason':'end_turn'}\n\n",
      "{'type':'message','content':[{'type':'text','text':'hello'}]}",
      "data: {'type':'content_block_delta','index':0,'delta':{'type':'text_delta','text':'hello'}}\n\ndata: [DONE]\n\n",
  };
  static const char *const responses[] = {
      "event: response.output_text.delta\ndata: {'output_index':0,'delta':'hello'}\n\n"
      "event: response.completed\ndata: {'response':{'status':'completed'}}\n\n",
      "data: {'type':'response.output_text.delta','delta':'hello'}\n"
      "data: {'type':'response.completed','response':{'status':'completed','output':[]}}\n",
      "data: {'object':'response','status':'completed','output':[{'type':'message','content':[{'type':'output_text',"
      "'text':'hello'}]}]}\n\n",
      "data: {'type':'response.output_text.delta','delta':'hello'}\n\n"
      "data: {'type':'response.done','response':{'status':'completed'}}\n\n",
      "data: {'type':'response.output_text.delta','delta':'hello'}\n\ndata: [DONE]\n\n",
  };
  static const char item[] = /* thinking is no part of the answer, even when its part has the type of a text */
      "data: "
      "{'type':'response.output_item.added','output_index':0,'item':{'type':'reasoning','content':[{'type':'text',"
      "'text':'hm'}]}}\n\ndata: {'type':'response.output_text.delta','output_index':1,'delta':'hello'}\n\n"
      "data: {'type':'response.completed','response':{'status':'completed'}}\n\n";
  assert_row(TP_OPENAI_RESPONSES, item, "hello|end_turn|0,0");
  for (size_t i = 0; i < COUNT(messages); i++) assert_row(TP_OPENAI_MESSAGES, messages[i], "hello|end_turn|0,0");
  for (size_t i = 0; i < COUNT(responses); i++) assert_row(TP_OPENAI_RESPONSES, responses[i], "hello|end_turn|0,0");
}

/* ---- all of it a second time ---- */

#define D(text) "data: " C(text) "\n\n"
#define WHOLE(text) "data: {'choices':[{'index':0,'finish_reason':'stop','message':{'content':" text "}}]}\n\n"
#define LAST(text) "data: {'choices':[{'index':0,'delta':{'content':'" text "'},'finish_reason':'stop'}]}\n\n"

TEST(text_that_is_repeated_is_taken_once) {
  static const struct {
    const char *bytes, *text;
  } rows[] = {
      {D("hello ") D("world") WHOLE("'hello world'"), "hello world|end_turn|0,0"},
      {D("hello ") D("world") WHOLE("'hello world!'"), "hello world!|end_turn|0,0"},
      {D("hello") WHOLE("' hello\\n'"), "hello|end_turn|0,0"},
      {D(" hello\\n") WHOLE("'hello'"), " hello\n|end_turn|0,0"},
      {D("hello") WHOLE("''"), "hello|end_turn|0,0"},
      {D("hello") WHOLE("null"), "hello|end_turn|0,0"},
      {D("hello") WHOLE("[{'type':'text','text':'hello'}]"), "hello|end_turn|0,0"},
      {WHOLE("'hello'"), "hello|end_turn|0,0"},
      {WHOLE("'hello'") WHOLE("'hello'"), "hello|end_turn|0,0"},
      {D("hello ") D("world") LAST("hello world"), "hello world|end_turn|0,0"},
      {D("a text that is long") LAST("a text that is long"), "a text that is long|end_turn|0,0"},
      {D("ha") LAST("ha"), "haha|end_turn|0,0"}, /* two pieces that are alike */
      {D("hello ") D("world") LAST("!"), "hello world!|end_turn|0,0"},
      {D("ha") D("ha") D("haha") LAST(""), "hahahaha|end_turn|0,0"},
      {"data: {'choices':[{'delta':{'content':''},'message':{'content':'hello'},'finish_reason':'stop'}]}\n\n",
       "hello|end_turn|0,0"},
      {D("hello") "data: {'choices':[{'delta':{},'message':{'content':'hello'},'finish_reason':'stop'}]}\n\n",
       "hello|end_turn|0,0"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) assert_row(TP_OPENAI_CHAT, rows[i].bytes, rows[i].text);
}

#define B(index, text) \
  "data: {'type':'content_block_start','index':" index ",'content_block':{'type':'text','text':'" text "'}}\n\n"
#define T(index, text) \
  "data: {'type':'content_block_delta','index':" index ",'delta':{'type':'text_delta','text':'" text "'}}\n\n"
#define E "data: {'type':'message_delta','delta':{'stop_reason':'end_turn'}}\n\ndata: {'type':'message_stop'}\n\n"

TEST(a_start_that_has_what_its_deltas_bring_is_taken_once) {
  static const struct {
    const char *bytes, *text;
  } rows[] = {
      {B("0", "hello") T("0", "hello") E, "hello|end_turn|0,0"},
      {B("0", "hello") T("0", "hel") T("0", "lo") E, "hello|end_turn|0,0"},
      {B("0", "hello") E, "hello|end_turn|0,0"},
      {B("0", "hello") T("0", " world") E, "hello world|end_turn|0,0"},
      {B("0", "hello") T("0", "hello world") E, "hello world|end_turn|0,0"},
      {B("0", "he") T("0", "hel") T("0", "lo") E, "hello|end_turn|0,0"},
      {B("0", "hello") T("0", "help") E, "hellohelp|end_turn|0,0"},
      {B("0", "hello") T("0", "he") T("0", "x") E, "hellohex|end_turn|0,0"},
      {B("0", "") T("0", "hello") E, "hello|end_turn|0,0"},
      {B("0", "a") T("0", "a") B("1", "a") T("1", "a") E, "aa|end_turn|0,0"},
      {"data: {'type':'message_start','message':{'content':[{'type':'text','text':'hello'}]}}\n\n" B("0", "hello")
           T("0", "hello") E,
       "hello|end_turn|0,0"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) assert_row(TP_OPENAI_MESSAGES, rows[i].bytes, rows[i].text);
}

#define R(type, rest) "data: {'type':'response." type "'," rest "}\n\n"
#define RD(index, text) R("output_text.delta", "'output_index':" index ",'content_index':0,'delta':'" text "'")
#define RT(index, text) R("output_text.done", "'output_index':" index ",'content_index':0,'text':'" text "'")
#define RM(text) "{'type':'message','content':[{'type':'output_text','text':'" text "'}]}"
#define RI(index, text) R("output_item.done", "'output_index':" index ",'item':" RM(text))
#define RC(output) R("completed", "'response':{'status':'completed','output':[" output "]}")

TEST(items_that_are_repeated_are_taken_once) {
  static const struct {
    const char *bytes, *text;
  } rows[] = {
      {RD("0", "hello") RT("0", "hello") RI("0", "hello") RC(RM("hello")), "hello|end_turn|0,0"},
      {RT("0", "hello") RC(RM("hello")), "hello|end_turn|0,0"},
      {RI("0", "hello") RC(""), "hello|end_turn|0,0"},
      {RC(RM("hello")), "hello|end_turn|0,0"},
      {RD("0", "hel") RT("0", "hello") RC(""), "hello|end_turn|0,0"},
      {RD("0", "hel") RC(RM("hello")), "hello|end_turn|0,0"},
      {RD("1", "hello") RC(RM("hello")), "hello|end_turn|0,0"}, /* the list leaves out an item */
      {RD("1", "a") RD("2", "b") RC(RM("a") "," RM("b")), "ab|end_turn|0,0"},
      {RD("0", "a") RC(RM("a") "," RM("b")), "ab|end_turn|0,0"},
      {R("output_text.delta", "'delta':'hello'") RC(RM("hello")), "hello|end_turn|0,0"}, /* no index */
      {R("content_part.added", "'output_index':0,'content_index':0,'part':{'type':'output_text','text':'hello'}")
           RD("0", "hello") RC(""),
       "hello|end_turn|0,0"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) assert_row(TP_OPENAI_RESPONSES, rows[i].bytes, rows[i].text);
}

/* ---- errors ---- */

/* What stands in the body, its class, and the words that a person reads. */
TEST(an_error_says_its_words_in_every_shape) {
  static const struct {
    const char *body;
    tp_status code;
    bool retryable;
    const char *says;
  } rows[] = {
      {"{'error':{'message':'M','type':'invalid_request_error','code':null}}", TP_ERR_MODEL, false,
       "M (invalid_request_error); the endpoint does not take the request"},
      {"{'error':'M'}", TP_ERR_MODEL, false, "M; "},
      {"{'error':['M','N']}", TP_ERR_MODEL, false, "M; N"},
      {"{'error':true,'message':'M'}", TP_ERR_MODEL, false, "M; "},
      {"{'error':{'error':{'message':'M'}}}", TP_ERR_MODEL, false, "M; "},
      {"{'errors':[{'message':'M'},{'message':'N'}]}", TP_ERR_MODEL, false, "M; N"},
      {"{'message':'M','code':400}", TP_ERR_MODEL, false, "M (400); the endpoint does not take"},
      {"{'detail':'M'}", TP_ERR_MODEL, false, "M; "},
      {"{'detail':[{'type':'extra_forbidden','loc':['body','x',0],'msg':'M','input':{}}]}", TP_ERR_MODEL, false,
       "body.x.0: M (extra_forbidden)"},
      {"{'detail':[{'loc':['body','x'],'msg':'M'},{'loc':['body','y'],'msg':'N'}]}", TP_ERR_MODEL, false,
       "body.x: M; body.y: N"},
      {"{'detail':{'message':'M','code':'model_not_found'}}", TP_ERR_MODEL, false,
       "M (model_not_found); check base_url"},
      {"{'title':'Bad','detail':'M','status':429}", TP_ERR_MODEL, true, "M (429)"},
      {"{'object':'error','message':'M','type':'BadRequestError','param':null,'code':400}", TP_ERR_MODEL, false,
       "M (400)"},
      {"{'object':'error','message':{'detail':[{'loc':['body','n'],'msg':'M'}]},'type':'invalid_request_error'}",
       TP_ERR_MODEL, false, "body.n: M (invalid_request_error)"},
      {"{'error':{'code':429,'message':'M','status':'RESOURCE_EXHAUSTED'}}", TP_ERR_MODEL, true,
       "M (429); send fewer requests"},
      {"[{'error':{'code':503,'message':'M','status':'UNAVAILABLE'}}]", TP_ERR_MODEL, true, "M (503); try again"},
      {"{'error':{'message':'M','code':'429'}}", TP_ERR_MODEL, true, "M (429); send fewer requests"},
      {"{'error':{'message':'Provider returned error','code':502,'metadata':{'raw':'N','provider_name':'x'}}}",
       TP_ERR_MODEL, true, "Provider returned error: N (502); try again"},
      {"{'error':{'message':'M','type':'tokens','code':'rate_limit_exceeded'}}", TP_ERR_MODEL, true,
       "M (rate_limit_exceeded); send fewer requests"},
      {"{'error':{'message':'M','type':'RateLimitError'}}", TP_ERR_MODEL, true, "M (RateLimitError)"},
      {"{'type':'error','error':{'type':'overloaded_error','message':'M'}}", TP_ERR_MODEL, true,
       "M (overloaded_error); the endpoint is overloaded"},
      {"{'error':{'type':'authentication_error','message':'M'}}", TP_ERR_MODEL, false,
       "M (authentication_error); the key was refused"},
      {"{'error':{'message':'M','type':'permission_error'}}", TP_ERR_MODEL, false, "the key may not do this"},
      {"{'error':{'code':'content_filter','message':'M','innererror':{'code':'ResponsibleAIPolicyViolation'}}}",
       TP_ERR_MODEL, false, "M (content_filter); the endpoint refuses the content"},
      {"{'error':{'message':'M','code':'insufficient_quota'}}", TP_ERR_MODEL, false, "check the account"},
      {"{'error':{'message':'M','code':'context_length_exceeded'}}", TP_ERR_CONTEXT_LENGTH, false,
       "shorten the history"},
      {"{'error':{'message':'prompt is too long: 9 tokens > 8'}}", TP_ERR_CONTEXT_LENGTH, false, "shorten the history"},
      {"{'message':'the request exceeds the available context size','code':400}", TP_ERR_CONTEXT_LENGTH, false,
       "shorten the history"},
      {"{'error':{'message':'model is loading','code':'loading'}}", TP_ERR_MODEL, true, "model is loading (loading)"},
      {"{'error':'model requires more memory','error_type':'overloaded'}", TP_ERR_MODEL, true,
       "more memory (overloaded)"},
      {"{'choices':null,'error_message':'M','code':500}", TP_ERR_MODEL, true, "M (500); try again"},
      {"{'base_resp':{'status_code':1002,'status_msg':'M'}}", TP_ERR_MODEL, false, "M (1002)"},
      {"{'__type':'ThrottlingException','message':'M'}", TP_ERR_MODEL, true, "M (ThrottlingException)"},
      {"{'msg':'M','status_code':401}", TP_ERR_MODEL, false, "M (401); the key was refused"},
      {"{'id':'x','choices':[{'index':0,'delta':{'content':''},'finish_reason':'error'}],'error':{'code':'server_error'"
       ","
       "'message':'M'}}",
       TP_ERR_MODEL, true, "M (server_error); try again"},
      {"{'choices':[{'index':0,'delta':{},'finish_reason':'error','error':{'code':502,'message':'M'}}]}", TP_ERR_MODEL,
       true, "M (502); try again"},
      {"{'error':{}}", TP_ERR_MODEL, false, "has no answer in it; it begins with"},
  };
  static const char *const frames[] = {"data: %s\n\n",
                                       "%s",
                                       "data: %s",
                                       "error: %s\n\n",
                                       "event: error\ndata: %s\n\n",
                                       "data: {'choices':[{'delta':{'content':'half'}}]}\n\ndata: %s\n\n"};
  for (size_t i = 0; i < COUNT(rows); i++) {
    for (size_t j = 0; j < COUNT(frames); j++) {
      char *bytes = NULL, start[80];
      bool of_chat_only = strstr(rows[i].body, "choices") != NULL;
      bool is_nothing = strcmp(rows[i].body, "{'error':{}}") == 0;
      if (is_nothing && j > 1) continue; /* the name of the event says that it is one */
      assert_true(asprintf(&bytes, frames[j], rows[i].body) > 0);
      for (int api = TP_OPENAI_CHAT; api <= (of_chat_only || j == 5 ? TP_OPENAI_CHAT : TP_OPENAI_MESSAGES); api++) {
        char *seen = seen_of((tp_openai_api)api, bytes, false);
        snprintf(start, sizeof start, "%s%s: ", tp_status_name(rows[i].code), rows[i].retryable ? " retryable" : "");
        if (strncmp(seen, start, strlen(start)) != 0 || !strstr(seen, rows[i].says))
          fail_msg("%s\n  %s\n  not\n  %s…%s", bytes, seen, start, rows[i].says);
        free(seen);
      }
      free(bytes);
    }
  }
}

/* The same message with a status of its own: FastAPI, Flask, Express, nginx, and others. */
TEST(a_refusal_says_its_words_whatever_made_it) {
  static const struct {
    long status;
    const char *body, *says;
    tp_status code;
    bool retryable;
  } rows[] = {
      {422, "{'detail':[{'type':'missing','loc':['body','messages'],'msg':'Field required','input':null}]}",
       "body.messages: Field required (missing); the endpoint does not take the request", TP_ERR_MODEL, false},
      /* FastAPI; Spring, its problem details; ASP.NET; Express and Nest; Laravel; Rails; Django; Go */
      {422, "{'detail':[{'loc':['body','a',0],'msg':'X'},{'loc':['query','b'],'msg':'Y'}]}", "body.a.0: X; query.b: Y",
       TP_ERR_MODEL, false},
      {400,
       "{'timestamp':'2026-01-01T00:00:00.000+00:00','status':400,'error':'Bad Request','message':'Required request "
       "body is missing','path':'/v1/chat/completions'}",
       "Bad Request: Required request body is missing (400)", TP_ERR_MODEL, false},
      {400,
       "{'type':'about:blank','title':'Bad Request','status':400,'detail':'Failed to read request','instance':'/v1'}",
       ": Failed to read request (400)", TP_ERR_MODEL, false},
      {400,
       "{'type':'https://tools.ietf.org/html/rfc9110#section-15.5.1','title':'One or more validation errors "
       "occurred.','status':400,'errors':{'Model':['The Model field is required.'],'Messages':['Empty.','No role.']},"
       "'traceId':'00-1'}",
       "One or more validation errors occurred.: Model: The Model field is required.; Messages: Empty.; No role.",
       TP_ERR_MODEL, false},
      {400, "{'statusCode':400,'message':['model must be a string','top_p too large'],'error':'Bad Request'}",
       "Bad Request: model must be a string; top_p too large", TP_ERR_MODEL, false},
      {400,
       "{'statusCode':400,'code':'FST_ERR_VALIDATION','error':'Bad Request','message':'body/model must be string'}",
       "Bad Request: body/model must be string (FST_ERR_VALIDATION)", TP_ERR_MODEL, false},
      {422, "{'message':'The given data was invalid.','errors':{'model':['The model field is required.']}}",
       "The given data was invalid.: model: The model field is required.", TP_ERR_MODEL, false},
      {422, "{'errors':{'model':['must be given'],'messages':['is invalid']}}",
       "model: must be given; messages: is invalid", TP_ERR_MODEL, false},
      {500, "{'status':500,'error':'Internal Server Error','exception':'#<NoMethodError>'}",
       ": Internal Server Error (500); try again", TP_ERR_MODEL, true},
      {400, "{'model':['This field is required.'],'messages':['Expected a list.']}",
       "model: This field is required.; messages: Expected a list.", TP_ERR_MODEL, false},
      {400, "{'non_field_errors':['Too few messages.']}", "non_field_errors: Too few messages.", TP_ERR_MODEL, false},
      {400, "{'error':'Key: Req.Model Error:Field validation for Model failed on the required tag'}",
       ": Key: Req.Model Error:Field validation", TP_ERR_MODEL, false},
      {404, "404 page not found\n", ": 404 page not found; check", TP_ERR_MODEL, false},
      /* five fields in each other are read, and no more */
      {400, "{'error':{'a':{'b':{'c':{'d':{'e':'deep'}}}}}}", ": a: b: c: d: e: deep; the", TP_ERR_MODEL, false},
      {400, "{'error':{'a':{'b':{'c':{'d':{'e':{'f':'deep'}}}}}}}", ": no reason was given; the", TP_ERR_MODEL, false},
      /* gRPC-gateway, LiteLLM, vLLM, llama.cpp, Ollama, TGI, Azure, AWS, Cloudflare, JSON:API, OAuth */
      {400, "{'code':3,'message':'proto: syntax error','details':[]}", ": proto: syntax error (3)", TP_ERR_MODEL,
       false},
      {429, "{'code':8,'message':'quota','details':[{'@type':'type.googleapis.com/x','reason':'R'}]}", ": quota (8)",
       TP_ERR_MODEL, true},
      {400,
       "{'error':{'message':'litellm.BadRequestError: OpenAIException - bad','type':null,'param':null,'code':'400'}}",
       ": litellm.BadRequestError: OpenAIException - bad (400)", TP_ERR_MODEL, false},
      {404,
       "{'object':'error','message':'The model `x` does not exist.','type':'NotFoundError','param':null,'code':404}",
       ": The model `x` does not exist. (404); check", TP_ERR_MODEL, false},
      {500, "{'error':{'code':500,'message':'slot is gone','type':'server_error'}}", ": slot is gone (500); try again",
       TP_ERR_MODEL, true},
      {404, "{'error':'model x not found, try pulling it first'}", ": model x not found, try pulling it first; check",
       TP_ERR_MODEL, false},
      {422, "{'error':'Input validation error: inputs must be short','error_type':'validation'}",
       ": Input validation error: inputs must be short (validation)", TP_ERR_MODEL, false},
      {404, "{'error':{'code':'DeploymentNotFound','message':'The API deployment does not exist.'}}",
       ": The API deployment does not exist. (DeploymentNotFound)", TP_ERR_MODEL, false},
      {401, "{'statusCode':401,'message':'Access denied due to invalid subscription key.'}", ": Access denied due to",
       TP_ERR_MODEL, false},
      {400, "{'error':{'code':'content_filter','message':'M','innererror':{'code':'ResponsibleAIPolicyViolation'}}}",
       ": M (content_filter); the endpoint refuses", TP_ERR_MODEL, false},
      {400, "{'__type':'ValidationException','Message':'M'}", ": M (ValidationException)", TP_ERR_MODEL, false},
      {400, "{'success':false,'errors':[{'code':7000,'message':'No route for the URI'}],'messages':[],'result':null}",
       ": No route for the URI", TP_ERR_MODEL, false},
      {422, "{'errors':[{'status':'422','title':'Invalid','detail':'model is missing','source':{'pointer':'/model'}}]}",
       ": model is missing", TP_ERR_MODEL, false},
      {401, "{'error':'invalid_token','error_description':'The token is expired'}",
       ": invalid_token: The token is expired", TP_ERR_MODEL, false},
      {400, "{'error':'the same','message':'the same'}", ": the same; the endpoint", TP_ERR_MODEL, false},
      {404, "{'detail':'Not Found'}", "Not Found; check base_url", TP_ERR_MODEL, false},
      {404,
       "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n<p>The requested URL</p>",
       "404 Not Found Not Found The requested URL; check base_url", TP_ERR_MODEL, false},
      {404, "<html><body><pre>Cannot POST /v1/chat/completions</pre></body></html>",
       "Cannot POST /v1/chat/completions;", TP_ERR_MODEL, false},
      {502,
       "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><center><h1>502 Bad Gateway</h1></center>"
       "<hr><center>nginx/1.22</center></body></html>",
       "502 Bad Gateway 502 Bad Gateway nginx/1.22; try again", TP_ERR_MODEL, true},
      {503, "<html><style>p{color:red}</style><script>var a = '<b>';</script><p>busy</p></html>", ": busy; try again",
       TP_ERR_MODEL, true},
      {400, "upstream connect error", "upstream connect error;", TP_ERR_MODEL, false},
      {401, "", "no reason was given; the key was refused", TP_ERR_MODEL, false},
      {400, "data: {'error':{'message':'M'}}\n\n", "M; the endpoint", TP_ERR_MODEL, false},
      {400, "{'error': {'message': 'M', 'logprob': NaN,}}", "M; the endpoint", TP_ERR_MODEL, false},
      {429, "{'error':{'message':'M','type':'insufficient_quota'}}", "check the account", TP_ERR_MODEL, false},
      {400, "{'error':{'message':'M','code':'429'}}", "M (429)", TP_ERR_MODEL, false},
      {400, "{'error':{'message':'M','code':'rate_limit_exceeded'}}", "M (rate_limit_exceeded)", TP_ERR_MODEL, true},
      {429, "{'error':{'message':'M','type':'invalid_request_error'}}", "send fewer requests", TP_ERR_MODEL, true},
      {500, "{'error':'maximum context length'}", "maximum context length; try again", TP_ERR_MODEL, true},
      {400, "{'error':'{\\'error\\':{\\'message\\':\\'M\\',\\'code\\':\\'context_length_exceeded\\'}}'}",
       "M (context_length_exceeded); shorten", TP_ERR_CONTEXT_LENGTH, false},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp__openai_failure failure = {.code = TP_OK};
    char *body = unquoted(rows[i].body);
    tp__openai_fail_said(&failure, "HTTP from h", rows[i].status, tp_text_of(body), NULL);
    if (failure.code != rows[i].code || failure.retryable != rows[i].retryable ||
        !strstr(failure.message, rows[i].says))
      fail_msg("%s\n  %s %d %s\n  not %s", body, tp_status_name(failure.code), failure.retryable, failure.message,
               rows[i].says);
    free(body);
  }
}

TEST(what_nobody_can_read_is_quoted) {
  static const struct {
    const char *bytes, *says;
  } rows[] = {
      {"hello", "TP_ERR_MODEL: what the endpoint sent has no answer in it; it begins with 'hello'; check base_url"},
      {"hello\nworld\n", "begins with 'hello\\nworld'"},
      {"\x01\xff tab\there", "begins with '\\x01\\xff tab\\there'"},
      {"data: hello\n\n", "begins with 'hello'"},
      {"{'ok':1}", "begins with '{\"ok\":1}'"},
      {"data: {'ok':1}\n\n", "begins with '{\"ok\":1}'"},
      {"<html><title>Log in</title></html>", "but a page for people: 'Log in'; check base_url"},
      {"data: {'choices': oops}\n\n", "event 1 of the endpoint, 1:13: not valid JSON"},
      {"{'choices'",
       "retryable: the stream ended in the middle, after 0 events; it begins with '{\"choices\"'; try again"},
      {"data: {'type':'unknown.kind'}\n\n", "after 1 events; it begins with"},
      {"", "retryable: the stream ended in the middle, after 0 events; try again"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    char *seen = seen_of(TP_OPENAI_MESSAGES, rows[i].bytes, false);
    if (!strstr(seen, rows[i].says)) fail_msg("%s\n  %s\n  not %s", rows[i].bytes, seen, rows[i].says);
    free(seen);
  }
}

/* ---- how it ended ---- */

TEST(how_an_answer_ended_is_read_from_each_form) {
  static const struct {
    tp_openai_api api;
    const char *bytes;
    tp_finish finish; /* UNKNOWN: it failed */
    const char *word; /* or what the failure says */
  } rows[] = {
      {TP_OPENAI_CHAT, D("a") "data: " F "\n\n", TP_FINISH_STOP, "stop"},
      {TP_OPENAI_CHAT, D("a") "data: {'choices':[{'delta':{},'finish_reason':'length'}]}\n\n", TP_FINISH_LENGTH,
       "length"},
      {TP_OPENAI_CHAT, "data: {'choices':[{'delta':{'content':''},'finish_reason':'content_filter'}]}\n\n",
       TP_FINISH_FILTER, "content_filter"},
      {TP_OPENAI_CHAT, "data: {'choices':[{'delta':{'refusal':'No.'},'finish_reason':'stop'}]}\n\n", TP_FINISH_REFUSAL,
       "stop"},
      {TP_OPENAI_CHAT, D("a") "data: {'choices':[{'delta':{},'finish_reason':'eos'}]}\n\n", TP_FINISH_STOP, "eos"},
      {TP_OPENAI_CHAT, D("a") "data: {'choices':[{'delta':{},'finish_reason':'odd'}]}\n\n", TP_FINISH_STOP, "odd"},
      {TP_OPENAI_CHAT, "data: {'choices':[{'delta':{'content':''},'finish_reason':'stop'}]}\n\n", TP_FINISH_STOP,
       "stop"},
      {TP_OPENAI_CHAT, "data: {'choices':[{'delta':{'content':''},'finish_reason':'tool_calls'}]}\n\n",
       TP_FINISH_UNKNOWN, "retryable: the answer ended with 'tool_calls' and has no call in it; try again"},
      {TP_OPENAI_CHAT, D("a") "data: {'choices':[{'delta':{},'finish_reason':'error'}]}\n\n", TP_FINISH_UNKNOWN,
       "retryable: the endpoint broke the answer off: it ended with 'error'; try again"},
      {TP_OPENAI_CHAT, D("a") "data: {'choices':[{'delta':{},'finish_reason':'insufficient_system_resource'}]}\n\n",
       TP_FINISH_UNKNOWN, "it ended with 'insufficient_system_resource'"},
      {TP_OPENAI_MESSAGES, T("0", "a") E, TP_FINISH_STOP, "end_turn"},
      {TP_OPENAI_MESSAGES, T("0", "a") "data: {'type':'message_delta','delta':{'stop_reason':'max_tokens'}}\n\n",
       TP_FINISH_LENGTH, "max_tokens"},
      {TP_OPENAI_MESSAGES, "data: {'type':'message_delta','delta':{'stop_reason':'refusal'}}\n\n", TP_FINISH_REFUSAL,
       "refusal"},
      {TP_OPENAI_MESSAGES, T("0", "a") "data: {'type':'message_delta','delta':{'stop_reason':'pause_turn'}}\n\n",
       TP_FINISH_PAUSE, "pause_turn"},
      {TP_OPENAI_MESSAGES,
       T("0", "a") "data: {'type':'message_delta','delta':{'stop_reason':'model_context_window_exceeded'}}\n\n",
       TP_FINISH_LENGTH, "model_context_window_exceeded"},
      {TP_OPENAI_RESPONSES, RD("0", "a") RC(""), TP_FINISH_STOP, "completed"},
      {TP_OPENAI_RESPONSES,
       RD("0", "a") R("incomplete",
                      "'response':{'status':'incomplete','output':[],'incomplete_details':"
                      "{'reason':'max_output_tokens'}}"),
       TP_FINISH_LENGTH, "max_output_tokens"},
      {TP_OPENAI_RESPONSES,
       R("incomplete",
         "'response':{'status':'incomplete','output':[],'incomplete_details':{'reason':'content_filter'}}"),
       TP_FINISH_FILTER, "content_filter"},
      {TP_OPENAI_RESPONSES, R("refusal.delta", "'output_index':0,'content_index':0,'delta':'No.'") RC(""),
       TP_FINISH_REFUSAL, "completed"},
      {TP_OPENAI_RESPONSES, RC("{'type':'message','content':[{'type':'refusal','refusal':'No.'}]}"), TP_FINISH_REFUSAL,
       "completed"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    char *bytes = unquoted(rows[i].bytes);
    tp__openai_stream stream = begin(rows[i].api, 1 << 20);
    tp_model_response response;
    assert_int_equal(tp__openai_stream_init(&stream), TP_OK);
    tp__openai_stream_feed(&stream, bytes, strlen(bytes));
    (void)tp__openai_stream_end(&stream);
    tp_status status = tp__openai_answer_response(&stream.answer, &response);
    if (rows[i].finish == TP_FINISH_UNKNOWN) {
      if (status == TP_OK || !strstr(rows[i].word, stream.answer.failure.retryable ? "" : "!") ||
          !strstr(stream.answer.failure.message, strstr(rows[i].word, ": ") && strncmp(rows[i].word, "retry", 5) == 0
                                                     ? strstr(rows[i].word, ": ") + 2
                                                     : rows[i].word))
        fail_msg("%s: %s", bytes, stream.answer.failure.message);
      assert_true(stream.answer.failure.retryable);
    } else if (status != TP_OK || response.finish != rows[i].finish ||
               !tp_text_is(response.finish_word, rows[i].word)) {
      fail_msg("%s: %s", bytes, status == TP_OK ? tp_finish_name(response.finish) : stream.answer.failure.message);
    }
    tp__openai_stream_fini(&stream);
    free(bytes);
  }
}

/* Blocks of thinking are stored, in their order, with their further data; they are no text. */
TEST(thinking_passes_without_loss) {
  static const char messages[] =
      "data: "
      "{'type':'content_block_start','index':0,'content_block':{'type':'thinking','thinking':'','signature':''}}\n\n"
      "data: {'type':'content_block_delta','index':0,'delta':{'type':'thinking_delta','thinking':'Hm'}}\n\n"
      "data: {'type':'content_block_delta','index':0,'delta':{'type':'thinking_delta','thinking':'m.'}}\n\n"
      "data: {'type':'content_block_delta','index':0,'delta':{'type':'signature_delta','signature':'SIG'}}\n\n"
      "data: {'type':'content_block_start','index':1,'content_block':{'type':'redacted_thinking','data':'x'}}\n\n" T(
          "2", "a") E;
  char *bytes = unquoted(messages);
  tp__openai_stream stream = begin(TP_OPENAI_MESSAGES, 1 << 20);
  assert_int_equal(tp__openai_stream_init(&stream), TP_OK);
  tp__openai_stream_feed(&stream, bytes, strlen(bytes));
  assert_true(tp__openai_stream_end(&stream));
  assert_int_equal(stream.answer.block_count, 2);
  const tp__openai_block *blocks = stream.answer.blocks;
  assert_true(tp_text_is(tp__bytes_text(&blocks[0].kind), "thinking"));
  assert_true(tp_text_is(tp__bytes_text(&blocks[0].text), "Hmm."));
  assert_true(tp_text_is(tp__bytes_text(&blocks[0].signature), "SIG"));
  assert_true(tp_text_is(tp__bytes_text(&blocks[1].kind), "redacted_thinking"));
  assert_true(tp_text_is(tp_value_text(tp_value_get(tp__bytes_text(&blocks[1].value), "data")), "x"));
  assert_true(tp_text_is(tp__bytes_text(&stream.answer.text), "a"));
  tp__openai_stream_fini(&stream);
  free(bytes);
}

FOR_ALL_TESTS(NULL, free_deltas);
