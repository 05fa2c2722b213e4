/* SPDX-License-Identifier: Apache-2.0
 *
 * To which tool call a fragment of a stream belongs, whatever errors indexes, ids, names and arguments have: the
 * decision table of calls.h, with fragments as servers of each API send them. */
#include "tests/support/test.h"
#include "tests/support/answers.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { CHUNKS_MAX = 8 };

/* In the rows ' stands for a double quote, and ` for one within a text. */
static void put_row(tp__bytes *to, const char *row) {
  for (; *row; row++) {
    if (*row == '`') tp__bytes_put_string(to, "\\\"");
    else tp__bytes_put(to, *row == '\'' ? "\"" : row, 1);
  }
}

typedef struct case_row {
  const char *what;
  const char *chunks[CHUNKS_MAX]; /* each the delta's tool_calls, or the members of the delta */
  const char *calls;              /* "|id name arguments…" */
} case_row;

static void put_chunk(tp__bytes *to, const char *chunk) {
  bool is_list = chunk[0] == '[' || chunk[0] == '{' || strcmp(chunk, "null") == 0;
  tp__bytes_put_string(to, "data: {\"choices\":[{\"index\":0,\"delta\":{");
  if (is_list) tp__bytes_put_string(to, "\"tool_calls\":");
  put_row(to, chunk);
  tp__bytes_put_string(to, "}}]}\n\n");
}

static void run_rows(const case_row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    tp__bytes bytes = {0}, expected = {0};
    for (size_t j = 0; j < CHUNKS_MAX && rows[i].chunks[j]; j++) put_chunk(&bytes, rows[i].chunks[j]);
    tp__bytes_put_string(&bytes, "data: [DONE]\n\n");
    tp__bytes_put_string(&expected, "|tool_use|0,0");
    put_row(&expected, rows[i].calls);
    for (size_t split = 0; split < 2; split++) {
      tp__openai_stream stream = begin(TP_OPENAI_CHAT, 1 << 20);
      char *seen = come_to(&stream, tp__bytes_text(&bytes), split ? bytes.size + 1 : 0);
      if (strcmp(seen, tp__bytes_string(&expected)) != 0)
        fail_msg("%s:\n  %s\n  not\n  %s", rows[i].what, seen, tp__bytes_string(&expected));
      free(seen);
    }
    tp__bytes_fini(&bytes);
    tp__bytes_fini(&expected);
  }
}

TEST(two_calls_are_two_whatever_names_them) {
  static const case_row rows[] = {
      {"no index, no id, one chunk",
       {"[{'function':{'name':'f','arguments':'{`t`:`a`}'}},{'function':{'name':'f','arguments':'{`t`:`b`}'}}]"},
       "| f {'t':'a'}| f {'t':'b'}"},
      {"no index, empty ids, one chunk",
       {"[{'id':'','function':{'name':'f','arguments':'{`t`:1}'}},{'id':'','function':{'name':'g','arguments':'{}'}}]"},
       "| f {'t':1}| g {}"},
      {"no index, no id, a chunk each",
       {"[{'function':{'name':'f','arguments':'{`t`:`a`}'}}]", "[{'function':{'name':'f','arguments':'{`t`:`b`}'}}]"},
       "| f {'t':'a'}| f {'t':'b'}"},
      {"index 0 for both, no id",
       {"[{'index':0,'function':{'name':'f','arguments':'{`t`:`a`}'}}]",
        "[{'index':0,'function':{'name':'f','arguments':'{`t`:`b`}'}}]"},
       "| f {'t':'a'}| f {'t':'b'}"},
      {"index 0 for both, an id each",
       {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{`t`:`a`}'}}]",
        "[{'index':0,'id':'b','function':{'name':'f','arguments':'{`t`:`a`}'}}]"},
       "|a f {'t':'a'}|b f {'t':'a'}"},
      {"index 0 for both, one id",
       {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{`t`:`a`}'}}]",
        "[{'index':0,'id':'a','function':{'name':'f','arguments':'{`t`:`b`}'}}]"},
       "|a f {'t':'a'}|a_2 f {'t':'b'}"},
      {"index 0 for both, in fragments",
       {"[{'index':0,'id':'a','function':{'name':'f','arguments':''}}]", "[{'index':0,'function':{'arguments':'{'}}]",
        "[{'index':0,'function':{'arguments':'}'}}]", "[{'index':0,'id':'b','function':{'name':'g','arguments':''}}]",
        "[{'index':0,'function':{'arguments':'{`n`:'}}]", "[{'index':0,'function':{'arguments':'1}'}}]"},
       "|a f {}|b g {'n':1}"},
      {"index 0 for both, the first one cut",
       {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{`t`'}}]",
        "[{'index':0,'id':'b','function':{'name':'f','arguments':'{`t`:1}'}}]"},
       "|a f malformed {'t'|b f {'t':1}"},
      {"no index and no id, in fragments",
       {"[{'function':{'name':'f','arguments':'{`t`'}}]", "[{'function':{'arguments':':1}'}}]",
        "[{'function':{'name':'f','arguments':'{`t`'}}]", "[{'function':{'arguments':':2}'}}]"},
       "| f {'t':1}| f {'t':2}"},
      {"indexes, and one id for both",
       {"[{'index':0,'id':'call_0','function':{'name':'f','arguments':'{`t`:`a`}'}},"
        "{'index':1,'id':'call_0','function':{'name':'f','arguments':'{`t`:`b`}'}}]"},
       "|call_0 f {'t':'a'}|call_0_2 f {'t':'b'}"},
      {"ids only, interleaved",
       {"[{'id':'a','function':{'name':'f','arguments':''}}]", "[{'id':'b','function':{'name':'g','arguments':''}}]",
        "[{'id':'a','function':{'arguments':'{`n`:'}}]", "[{'id':'b','function':{'arguments':'{`m`:'}}]",
        "[{'id':'b','function':{'arguments':'2}'}}]", "[{'id':'a','function':{'arguments':'1}'}}]"},
       "|a f {'n':1}|b g {'m':2}"},
      {"indexes only, interleaved",
       {"[{'index':0,'function':{'name':'f','arguments':''}},{'index':1,'function':{'name':'f','arguments':''}}]",
        "[{'index':1,'function':{'arguments':'{`m`:2}'}},{'index':0,'function':{'arguments':'{`n`:1}'}}]"},
       "| f {'n':1}| f {'m':2}"},
      {"indexes from 1, with a gap",
       {"[{'index':1,'id':'a','function':{'name':'f','arguments':'{}'}}]",
        "[{'index':3,'id':'b','function':{'name':'g','arguments':'{'}}]", "[{'index':3,'function':{'arguments':'}'}}]"},
       "|a f {}|b g {}"},
      {"no arguments at all, an id each",
       {"[{'index':0,'id':'a','function':{'name':'f','arguments':''}}]",
        "[{'index':0,'id':'b','function':{'name':'f','arguments':''}}]"},
       "|a f {}|b f {}"},
      {"no arguments at all, nothing but names, one chunk",
       {"[{'function':{'name':'f'}},{'function':{'name':'f'}}]"},
       "| f {}| f {}"},
      {"the id begins a call, its name follows",
       {"[{'id':'a','function':{'name':'f','arguments':'{}'}}]", "[{'id':'b'}]",
        "[{'function':{'name':'g','arguments':'{}'}}]"},
       "|a f {}|b g {}"},
      {"three ids for one call each, arguments as objects",
       {"[{'id':'a','function':{'name':'f','arguments':{'n':1}}},{'id':'b','function':{'name':'f','arguments':{'n':2}}}"
        ","
        "{'id':'c','function':{'name':'f','arguments':{}}}]"},
       "|a f {'n':1}|b f {'n':2}|c f {}"},
  };
  run_rows(rows, COUNT(rows));
}

TEST(one_call_is_one_whatever_changes_between_its_fragments) {
  static const case_row rows[] = {
      {"a fresh id in each fragment",
       {"[{'index':0,'id':'c1','function':{'name':'f','arguments':''}}]",
        "[{'index':0,'id':'c2','function':{'arguments':'{`t`:'}}]",
        "[{'index':0,'id':'c3','function':{'arguments':'1}'}}]"},
       "|c1 f {'t':1}"},
      {"a fresh id in each fragment, no index",
       {"[{'id':'c1','function':{'name':'f','arguments':''}}]", "[{'id':'c2','function':{'arguments':'{`t`:'}}]",
        "[{'id':'c3','function':{'arguments':'1}'}}]"},
       "|c1 f {'t':1}"},
      {"a fresh id and the name in each fragment",
       {"[{'index':0,'id':'c1','function':{'name':'f','arguments':'{`t`'}}]",
        "[{'index':0,'id':'c2','function':{'name':'f','arguments':':1'}}]",
        "[{'index':0,'id':'c3','function':{'name':'f','arguments':'}'}}]"},
       "|c1 f {'t':1}"},
      {"the name in each fragment",
       {"[{'index':0,'id':'c1','function':{'name':'f','arguments':''}}]",
        "[{'index':0,'id':'c1','function':{'name':'f','arguments':'{`t`:'}}]",
        "[{'index':0,'id':'c1','function':{'name':'f','arguments':'1}'}}]"},
       "|c1 f {'t':1}"},
      {"the name in each fragment, nothing else",
       {"[{'function':{'name':'f','arguments':''}}]", "[{'function':{'name':'f','arguments':'{`t`:'}}]",
        "[{'function':{'name':'f','arguments':'1}'}}]", "[{'function':{'name':'f','arguments':''}}]"},
       "| f {'t':1}"},
      {"the name late",
       {"[{'index':0,'id':'c1','function':{'name':'','arguments':''}}]",
        "[{'index':0,'id':'c1','function':{'name':'f','arguments':'{}'}}]"},
       "|c1 f {}"},
      {"the name after the arguments",
       {"[{'index':0,'id':'c1','function':{'arguments':'{`t`:1}'}}]", "[{'index':0,'function':{'name':'f'}}]"},
       "|c1 f {'t':1}"},
      {"the name in two pieces",
       {"[{'index':0,'id':'c1','function':{'name':'no','arguments':''}}]",
        "[{'index':0,'function':{'name':'te','arguments':'{}'}}]"},
       "|c1 note {}"},
      {"the name in two pieces, with the id again",
       {"[{'id':'c1','function':{'name':'no','arguments':''}}]",
        "[{'id':'c1','function':{'name':'te','arguments':'{}'}}]"},
       "|c1 note {}"},
      {"the name grows",
       {"[{'index':0,'id':'c1','function':{'name':'no','arguments':''}}]",
        "[{'index':0,'id':'c1','function':{'name':'note','arguments':'{}'}}]"},
       "|c1 note {}"},
      {"the id late",
       {"[{'index':0,'function':{'name':'f','arguments':'{'}}]",
        "[{'index':0,'id':'c1','function':{'arguments':'}'}}]"},
       "|c1 f {}"},
      {"the index late",
       {"[{'id':'c1','function':{'name':'f','arguments':'{'}}]", "[{'index':0,'function':{'arguments':'}'}}]"},
       "|c1 f {}"},
      {"the index gone after the first fragment",
       {"[{'index':0,'id':'c1','function':{'name':'f','arguments':'{'}}]", "[{'function':{'arguments':'}'}}]"},
       "|c1 f {}"},
      {"the index counts fragments",
       {"[{'index':0,'id':'c1','function':{'name':'f','arguments':'{`t`'}}]",
        "[{'index':1,'function':{'arguments':':1'}}]", "[{'index':2,'function':{'arguments':'}'}}]"},
       "|c1 f {'t':1}"},
      {"the index counts fragments that have the id",
       {"[{'index':0,'id':'c1','function':{'name':'f','arguments':''}}]",
        "[{'index':1,'id':'c1','function':{'arguments':'{}'}}]"},
       "|c1 f {}"},
      {"nulls", /* of a fragment that has nothing */
       {"[{'index':0,'id':'c1','type':'function','function':{'name':'f','arguments':null}}]",
        "[{'index':0,'id':null,'type':null,'function':{'name':null,'arguments':'{}'}}]",
        "[{'index':null,'id':null,'function':{'name':null,'arguments':null}}]", "[null]", "null"},
       "|c1 f {}"},
      {"one call, and no list", {"{'index':0,'id':'c1','function':{'name':'f','arguments':'{}'}}"}, "|c1 f {}"},
      {"no function around it", {"[{'id':'c1','name':'f','arguments':'{`t`:1}'}]"}, "|c1 f {'t':1}"},
      {"an index in quotes",
       {"[{'index':'0','id':'c1','function':{'name':'f','arguments':'{'}}]",
        "[{'index':'0','function':{'arguments':'}'}}]"},
       "|c1 f {}"},
  };
  run_rows(rows, COUNT(rows));
}

TEST(arguments_that_are_repeated_are_taken_once) {
  static const case_row rows[] = {
      {"all of them again",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'{`t`:1}'}}]",
        "[{'index':0,'id':'c','function':{'name':'f','arguments':'{`t`:1}'}}]"},
       "|c f {'t':1}"},
      {"all of them again, without a name",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'{`t`:1}'}}]",
        "[{'index':0,'function':{'arguments':'{`t`:1}'}}]"},
       "|c f {'t':1}"},
      {"all of them again, with other blanks",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'{`t`:1}'}}]",
        "[{'index':0,'id':'c','function':{'name':'f','arguments':'{`t`: 1}'}}]"},
       "|c f {'t':1}"},
      {"all of them after the pieces",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'{`t`'}}]",
        "[{'index':0,'function':{'arguments':':1}'}}]",
        "[{'index':0,'id':'c','function':{'name':'f','arguments':'{`t`:1}'}}]"},
       "|c f {'t':1}"},
      {"all of them after a part",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'{`t`'}}]",
        "[{'index':0,'id':'c','function':{'name':'f','arguments':'{`t`:1}'}}]"},
       "|c f {'t':1}"},
      {"an empty object first",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'{}'}}]",
        "[{'index':0,'function':{'arguments':'{`t`:'}}]", "[{'index':0,'function':{'arguments':'1}'}}]"},
       "|c f {'t':1}"},
      {"an object, and the same as a text",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':{'t':1}}}]",
        "[{'index':0,'function':{'arguments':'{`t`:1}'}}]"},
       "|c f {'t':1}"},
      {"a piece that repeats the beginning is a piece",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'{`a`:'}}]",
        "[{'index':0,'function':{'arguments':'{`a`:'}}]", "[{'index':0,'function':{'arguments':'1}}'}}]"},
       "|c f {'a':{'a':1}}"},
      {"two pieces that are alike",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'{`a`:`'}}]",
        "[{'index':0,'function':{'arguments':'ha'}}]", "[{'index':0,'function':{'arguments':'ha'}}]",
        "[{'index':0,'function':{'arguments':'`}'}}]"},
       "|c f {'a':'haha'}"},
      {"blanks at the end",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'{`a`:1}'}}]",
        "[{'index':0,'function':{'arguments':' '}}]"},
       "|c f {'a':1}"},
      {"null", {"[{'index':0,'id':'c','function':{'name':'f','arguments':'null'}}]"}, "|c f {}"},
      {"a text that is JSON, encoded twice",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'\\\"{\\\\\\\"t\\\\\\\":1}\\\"'}}]"},
       "|c f {'t':1}"},
      {"a comma too many",
       {"[{'index':0,'id':'c','function':{'name':'f','arguments':'{`t`:[1,],}'}}]"},
       "|c f {'t':[1]}"},
  };
  run_rows(rows, COUNT(rows));
}

TEST(the_older_form_of_one_call_is_read) {
  static const case_row rows[] = {
      {"at once", {"'function_call':{'name':'f','arguments':'{`t`:1}'}"}, "| f {'t':1}"},
      {"in pieces",
       {"'function_call':{'name':'f','arguments':''}", "'function_call':{'arguments':'{`t`'}",
        "'function_call':{'arguments':':1}'}"},
       "| f {'t':1}"},
      {"the name in each piece",
       {"'function_call':{'name':'f','arguments':'{`t`'}", "'function_call':{'name':'f','arguments':':1}'}"},
       "| f {'t':1}"},
      {"the name after nothing",
       {"'function_call':{'arguments':''}", "'function_call':{'name':'f','arguments':'{}'}"},
       "| f {}"},
      {"an object", {"'function_call':{'name':'f','arguments':{'t':1}}"}, "| f {'t':1}"},
      {"no arguments", {"'function_call':{'name':'f'}"}, "| f {}"},
      {"null arguments", {"'function_call':{'name':'f','arguments':null}"}, "| f {}"},
      {"both forms in one delta",
       {"'function_call':{'name':'f','arguments':'{}'},'tool_calls':[{'id':'c','function':{'name':'f','arguments':'{}'}"
        "}]"},
       "|c f {}"},
      {"both forms in each delta",
       {"'tool_calls':[{'index':0,'id':'c','function':{'name':'f','arguments':'{'}}],'function_call':{'name':'f','"
        "arguments':"
        "'{'}",
        "'tool_calls':[{'index':0,'function':{'arguments':'}'}}],'function_call':{'arguments':'}'}"},
       "|c f {}"},
      {"null beside a list",
       {"'tool_calls':[{'index':0,'id':'c','function':{'name':'f','arguments':'{}'}}],'function_call':null"},
       "|c f {}"},
      {"a list that is null", {"'tool_calls':null,'function_call':{'name':'f','arguments':'{}'}"}, "| f {}"},
  };
  run_rows(rows, COUNT(rows));
}

/* The same calls again in a message as a whole, after deltas. */
TEST(a_snapshot_adds_only_what_no_delta_had) {
  static const struct {
    const char *delta, *message, *calls;
  } rows[] = {
      {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{`t`:1}'}}]",
       "[{'id':'a','function':{'name':'f','arguments':'{`t`:1}'}}]", "|a f {'t':1}"},
      {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{`t`:'}}]",
       "[{'id':'a','function':{'name':'f','arguments':'{`t`:1}'}}]", "|a f {'t':1}"},
      {"[{'index':0,'id':'a','function':{'name':'f','arguments':''}}]",
       "[{'id':'a','function':{'name':'f','arguments':'{`t`:1}'}}]", "|a f {'t':1}"},
      {"[{'function':{'name':'f','arguments':'{`t`:1}'}},{'function':{'name':'f','arguments':'{`t`:2}'}}]",
       "[{'function':{'name':'f','arguments':'{`t`:1}'}},{'function':{'name':'f','arguments':'{`t`:2}'}}]",
       "| f {'t':1}| f {'t':2}"},
      {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{}'}}]",
       "[{'id':'a','function':{'name':'f','arguments':'{}'}},{'id':'b','function':{'name':'g','arguments':'{}'}}]",
       "|a f {}|b g {}"},
      {"[{'id':'a','function':{'name':'f','arguments':'{`n`:1}'}},{'id':'b','function':{'name':'f','arguments':'{`n`:2}"
       "'}}]",
       "[{'id':'b','function':{'name':'f','arguments':'{`n`:2}'}},{'id':'a','function':{'name':'f','arguments':'{`n`:1}"
       "'}}]",
       "|a f {'n':1}|b f {'n':2}"},
      {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{`n`:1}'}}]",
       "[{'id':'a','function':{'name':'f','arguments':''}}]", "|a f {'n':1}"},
      {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{`n`:1}'}}]",
       "[{'id':'a','function':{'name':'f','arguments':'{`n`'}}]", "|a f {'n':1}"},
      {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{`n`:1}'}}]",
       "[{'id':'a','function':{'name':'f','arguments':{'n':1}}}]", "|a f {'n':1}"},
      {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{`n`:1}'}}]", "[]", "|a f {'n':1}"},
      {"[{'index':0,'id':'a','function':{'name':'f','arguments':'{`n`:1}'}}]", "null", "|a f {'n':1}"},
      {"[]", "[{'id':'a','function':{'name':'f','arguments':'{`n`:1}'}}]", "|a f {'n':1}"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp__bytes bytes = {0}, expected = {0};
    put_chunk(&bytes, rows[i].delta);
    tp__bytes_put_string(&bytes, "data: {\"choices\":[{\"index\":0,\"message\":{\"content\":null,\"tool_calls\":");
    put_row(&bytes, rows[i].message);
    tp__bytes_put_string(&bytes, "},\"finish_reason\":\"tool_calls\"}]}\n\n");
    tp__bytes_put_string(&expected, "|tool_use|0,0");
    put_row(&expected, rows[i].calls);
    assert_comes_to(TP_OPENAI_CHAT, tp__bytes_string(&bytes), tp__bytes_string(&expected));
    tp__bytes_fini(&bytes);
    tp__bytes_fini(&expected);
  }
}

static void assert_events_come_to(tp_openai_api api, const char *rows[], const char *calls) {
  tp__bytes bytes = {0}, expected = {0};
  for (size_t i = 0; rows[i]; i++) {
    tp__bytes_put_string(&bytes, "data: ");
    put_row(&bytes, rows[i]);
    tp__bytes_put_string(&bytes, "\n\n");
  }
  put_row(&expected, calls);
  assert_comes_to(api, tp__bytes_string(&bytes), tp__bytes_string(&expected));
  tp__bytes_fini(&bytes);
  tp__bytes_fini(&expected);
}

#define START(index, id, input)                                                                  \
  "{'type':'content_block_start','index':" index ",'content_block':{'type':'tool_use','id':'" id \
  "','name':'f','input':" input "}}"
#define JSON_DELTA(index, json) \
  "{'type':'content_block_delta','index':" index ",'delta':{'type':'input_json_delta','partial_json':'" json "'}}"
#define END "{'type':'message_delta','delta':{'stop_reason':'tool_use'}}", "{'type':'message_stop'}", NULL

TEST(blocks_of_the_messages_api_are_calls_of_their_own) {
  assert_events_come_to(TP_OPENAI_MESSAGES, (const char *[]){START("0", "a", "{}"), JSON_DELTA("0", "{`t`:1}"), END},
                        "|tool_use|0,0|a f {'t':1}");
  assert_events_come_to(
      TP_OPENAI_MESSAGES, /* the start has the input, and deltas repeat it */
      (const char *[]){START("0", "a", "{'t':1}"), JSON_DELTA("0", "{`t`:"), JSON_DELTA("0", "1}"), END},
      "|tool_use|0,0|a f {'t':1}");
  assert_events_come_to(TP_OPENAI_MESSAGES, (const char *[]){START("0", "a", "{'t':1}"), END},
                        "|tool_use|0,0|a f {'t':1}");
  assert_events_come_to(TP_OPENAI_MESSAGES, /* index 0 for every block */
                        (const char *[]){START("0", "a", "{}"), JSON_DELTA("0", "{`t`:1}"), START("0", "b", "{}"),
                                         JSON_DELTA("0", "{`t`:2}"), START("0", "c", "{}"), END},
                        "|tool_use|0,0|a f {'t':1}|b f {'t':2}|c f {}");
  assert_events_come_to(TP_OPENAI_MESSAGES, /* no index */
                        (const char *[]){START("null", "a", "{}"), JSON_DELTA("null", "{`t`:1}"),
                                         START("null", "b", "{}"), JSON_DELTA("null", "{`t`:2}"), END},
                        "|tool_use|0,0|a f {'t':1}|b f {'t':2}");
  assert_events_come_to(TP_OPENAI_MESSAGES, /* one id for two */
                        (const char *[]){START("0", "a", "{}"), JSON_DELTA("0", "{`t`:1}"), START("1", "a", "{}"),
                                         JSON_DELTA("1", "{`t`:2}"), END},
                        "|tool_use|0,0|a f {'t':1}|a_2 f {'t':2}");
  assert_events_come_to(TP_OPENAI_MESSAGES, /* a start that comes twice */
                        (const char *[]){START("0", "a", "{}"), START("0", "a", "{}"), JSON_DELTA("0", "{`t`:1}"), END},
                        "|tool_use|0,0|a f {'t':1}");
}

#define ITEM(id, call_id, arguments) \
  "'item':{'type':'function_call','id':'" id "','call_id':'" call_id "','name':'f','arguments':'" arguments "'}"
#define ADDED(index, id, call_id) \
  "{'type':'response.output_item.added','output_index':" index "," ITEM(id, call_id, "") "}"
#define DONE_ITEM(index, id, call_id, arguments) \
  "{'type':'response.output_item.done','output_index':" index "," ITEM(id, call_id, arguments) "}"
#define ARGUMENTS(index, id, json) \
  "{'type':'response.function_call_arguments.delta','output_index':" index ",'item_id':'" id "','delta':'" json "'}"
#define COMPLETED(output) "{'type':'response.completed','response':{'status':'completed','output':[" output "]}}", NULL
#define OUTPUT(id, call_id, arguments) \
  "{'type':'function_call','id':'" id "','call_id':'" call_id "','name':'f','arguments':'" arguments "'}"

TEST(items_of_the_responses_api_are_calls_of_their_own) {
  assert_events_come_to(
      TP_OPENAI_RESPONSES, /* everything four times */
      (const char *[]){ADDED("0", "i", "a"), ARGUMENTS("0", "i", "{`t`:1}"),
                       "{'type':'response.function_call_arguments.done','output_index':0,'item_id':'i',"
                       "'arguments':'{`t`:1}'}",
                       DONE_ITEM("0", "i", "a", "{`t`:1}"), COMPLETED(OUTPUT("i", "a", "{`t`:1}"))},
      "|tool_use|0,0|a f {'t':1}");
  assert_events_come_to(TP_OPENAI_RESPONSES, /* index 0 for all: the item's id says which */
                        (const char *[]){ADDED("0", "i", "a"), ADDED("0", "j", "b"), ARGUMENTS("0", "i", "{`t`:"),
                                         ARGUMENTS("0", "j", "{`t`:"), ARGUMENTS("0", "i", "1}"),
                                         ARGUMENTS("0", "j", "2}"), COMPLETED("")},
                        "|tool_use|0,0|a f {'t':1}|b f {'t':2}");
  assert_events_come_to(TP_OPENAI_RESPONSES, /* no index */
                        (const char *[]){ADDED("null", "i", "a"), ARGUMENTS("null", "i", "{`t`:1}"),
                                         ADDED("null", "j", "b"), ARGUMENTS("null", "j", "{`t`:2}"), COMPLETED("")},
                        "|tool_use|0,0|a f {'t':1}|b f {'t':2}");
  assert_events_come_to(TP_OPENAI_RESPONSES, /* the list leaves out the reasoning, which has an index */
                        (const char *[]){ADDED("1", "i", "a"), ARGUMENTS("1", "i", "{`t`:1}"), ADDED("2", "j", "b"),
                                         ARGUMENTS("2", "j", "{`t`:2}"),
                                         COMPLETED(OUTPUT("i", "a", "{`t`:1}") "," OUTPUT("j", "b", "{`t`:2}"))},
                        "|tool_use|0,0|a f {'t':1}|b f {'t':2}");
  assert_events_come_to(TP_OPENAI_RESPONSES, /* only done, only completed, cut and completed */
                        (const char *[]){DONE_ITEM("0", "i", "a", "{`t`:1}"), COMPLETED("")},
                        "|tool_use|0,0|a f {'t':1}");
  assert_events_come_to(TP_OPENAI_RESPONSES, (const char *[]){COMPLETED(OUTPUT("i", "a", "{`t`:1}"))},
                        "|tool_use|0,0|a f {'t':1}");
  assert_events_come_to(
      TP_OPENAI_RESPONSES,
      (const char *[]){ADDED("0", "i", "a"), ARGUMENTS("0", "i", "{`t`"), COMPLETED(OUTPUT("i", "a", "{`t`:1}"))},
      "|tool_use|0,0|a f {'t':1}");
}

FOR_ALL_TESTS(NULL, free_deltas);
