/* SPDX-License-Identifier: Apache-2.0
 *
 * The codec of MCP: which text is read as which kind of message, refusals and the answers to them, writing, _meta, and
 * the headers of HTTP with the examples of the specification. */
#include "domains/mcp/lines.h"
#include "domains/mcp/message.h"
#include "tests/support/test.h"
#include "tests/unit/value_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct world {
  tp_writer *reader, *writer;
  tp__mcp_packet packet;
  tp__mcp_message message;
  tp_fault fault;
} world;

static int set_up(void **state) {
  static world w;
  w = (world){0};
  assert_int_equal(tp_writer_new(NULL, &w.reader), TP_OK);
  assert_int_equal(tp_writer_new(NULL, &w.writer), TP_OK);
  *state = &w;
  return 0;
}

static int tear_down(void **state) {
  world *w = *state;
  tp_writer_free(w->reader);
  tp_writer_free(w->writer);
  return 0;
}

FOR_EACH_TEST(set_up, tear_down);

/* The first message of a text; BROKEN also where there is none. */
static const tp__mcp_message *read_first(world *w, const char *json, tp_mcp_version version) {
  w->fault = (tp_fault){0};
  if (tp__mcp_decode(tp_text_of(json), 1 << 20, version, w->reader, &w->packet, &w->message, &w->fault))
    assert_true(tp__mcp_next(&w->packet, &w->message, &w->fault));
  return &w->message;
}

/* ---- versions ---- */

/* ---- lines ---- */

static void heard_line(void *ctx, tp_text line) { tp__bytes_printf(ctx, "[%.*s]", (int)line.size, line.data); }
static void heard_loss(void *ctx, bool is_too_long) { tp__bytes_put_string(ctx, is_too_long ? "!" : "?"); }

TEST(lines_are_the_same_in_whatever_pieces_they_come) {
  static const struct {
    const char *text;
    size_t bytes_max;
    const char *heard;
  } rows[] = {
      {"", 4, ""},
      {"a", 4, ""}, /* not a line yet */
      {"a\n", 4, "[a]"},
      {"\n\n", 4, "[][]"},
      {"ab\ncd\n", 4, "[ab][cd]"},
      {"abcd\n", 4, "[abcd]"},
      {"abcde\n", 4, "!"},
      {"abcde", 4, "!"}, /* said as soon as it is known */
      {"abcdefghijklmnopqrstuvwxyz\n", 4, "!"},
      {"abcdefghijklmnopqrstuvwxyz\nab\n", 4, "![ab]"},
      {"ab\nabcdefgh\n\nabcdefgh\ncd\n", 4, "[ab]![]![cd]"},
      {"a\r\n", 1, "!"},
      {"a\n", 1, "[a]"},
      {"abcdefgh\nabcdefg\n", 7, "![abcdefg]"},
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    for (size_t first = 0; first <= strlen(rows[i].text); first++)
      for (size_t each = 1; each <= strlen(rows[i].text) + 1; each++) {
        tp__bytes heard = {0};
        tp__mcp_lines lines = {
            .on_line = heard_line, .on_lost = heard_loss, .ctx = &heard, .bytes_max = rows[i].bytes_max};
        tp_text left = tp_text_of(rows[i].text);
        for (size_t size = first; left.size > 0; size = each) {
          if (size > left.size) size = left.size;
          tp__mcp_lines_feed(&lines, (tp_text){left.data, size});
          left = (tp_text){left.data + size, left.size - size};
          assert_true(lines.line.size <= rows[i].bytes_max && (!lines.skips || lines.line.capacity == 0));
        }
        if (strcmp(tp__bytes_string(&heard), rows[i].heard) != 0)
          fail_msg("%s in pieces of %zu and %zu: %s", rows[i].text, first, each, heard.data);
        tp__mcp_lines_fini(&lines);
        tp__bytes_fini(&heard);
      }
}

TEST(a_version_has_what_the_table_says) {
  static const struct {
    const char *text;
    bool initialize, meta, streams, batches, header, structured, elicitation, url;
  } rows[] = {
      {"2024-11-05", true, false, false, false, false, false, false, false},
      {"2025-03-26", true, false, true, true, false, false, false, false},
      {"2025-06-18", true, false, true, false, true, true, true, false},
      {"2025-11-25", true, false, true, false, true, true, true, true},
      {"2026-07-28", false, true, true, false, true, true, true, true},
  };
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_mcp_version version = tp__mcp_version_of(tp_text_of(rows[i].text));
    assert_int_equal(version, i + 1);
    assert_string_equal(tp_mcp_version_name(version), rows[i].text);
    assert_int_equal(tp__mcp_version_has(version, TP__MCP_HAS_INITIALIZE), rows[i].initialize);
    assert_int_equal(tp__mcp_version_has(version, TP__MCP_HAS_META), rows[i].meta);
    assert_int_equal(tp__mcp_version_has(version, TP__MCP_HAS_STREAMS), rows[i].streams);
    assert_int_equal(tp__mcp_version_has(version, TP__MCP_HAS_BATCHES), rows[i].batches);
    assert_int_equal(tp__mcp_version_has(version, TP__MCP_HAS_HEADER), rows[i].header);
    assert_int_equal(tp__mcp_version_has(version, TP__MCP_HAS_STRUCTURED), rows[i].structured);
    assert_int_equal(tp__mcp_version_has(version, TP__MCP_HAS_ELICITATION), rows[i].elicitation);
    assert_int_equal(tp__mcp_version_has(version, TP__MCP_HAS_URL_ELICITATION), rows[i].url);
  }
  assert_int_equal(tp__mcp_version_of(tp_text_of("2099-01-01")), TP_MCP_VERSION_NONE);
  assert_false(tp__mcp_version_has(TP_MCP_VERSION_NONE, TP__MCP_HAS_STREAMS));
  assert_string_equal(tp_mcp_version_name((tp_mcp_version)77), "unknown");
}

TEST(versions_are_listed_newest_first) {
  world *w = *state;
  tp_text value, json;
  tp__mcp_versions_write(w->writer, TP__MCP_HAS_INITIALIZE);
  assert_int_equal(tp_writer_finish(w->writer, &value), TP_OK);
  assert_int_equal(tp_json_encode(value, w->writer, &json, NULL), TP_OK);
  assert_string_equal(json.data, "[\"2025-11-25\",\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"]");
}

/* ---- reading ---- */

TEST(each_kind_is_read_as_what_it_is) {
  world *w = *state;
  const tp__mcp_message *m =
      read_first(w, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"a\":1}}", 5);
  assert_int_equal(m->kind, TP__MCP_REQUEST);
  assert_true(tp_text_is(m->method, "tools/call"));
  assert_int_equal(tp__mcp_id_number(m->id), 7);
  assert_int_equal(tp_value_int(tp_value_get(m->params, "a"), 0), 1);
  assert_false(tp__mcp_next(&w->packet, &w->message, NULL));

  m = read_first(w, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", 4);
  assert_int_equal(m->kind, TP__MCP_NOTIFICATION);
  assert_int_equal(m->params.size, 0);

  m = read_first(w, "{\"jsonrpc\":\"2.0\",\"id\":\"a-1\",\"result\":{\"tools\":[]}}", 4);
  assert_int_equal(m->kind, TP__MCP_RESULT);
  assert_int_equal(tp_value_kind_of(tp_value_get(m->result, "tools")), TP_VALUE_ARRAY);

  m = read_first(
      w, "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32022,\"message\":\"no\",\"data\":{\"supported\":[]}}}",
      5);
  assert_int_equal(m->kind, TP__MCP_ERROR);
  assert_int_equal(m->code, TP__MCP_UNSUPPORTED_VERSION);
  assert_true(tp_text_is(m->words, "no"));
  assert_true(m->data.size > 0 && tp__mcp_code_is_modern(m->code));
}

/* Forms that peers send against the specification, whose meaning is still clear. */
TEST(what_cannot_be_misunderstood_is_read) {
  static const struct {
    const char *json;
    tp__mcp_kind kind;
  } rows[] = {
      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":null}", TP__MCP_REQUEST},
      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":null}", TP__MCP_RESULT},
      {"{\"jsonrpc\":\"2.0\",\"id\":1.0,\"result\":{}}", TP__MCP_RESULT},
      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"out of order\"}", TP__MCP_ERROR},
      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", TP__MCP_ERROR},
      {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"parse\"}}", TP__MCP_ERROR},
      {"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"Forbidden\"}}", TP__MCP_ERROR},
      {" {\"extra\":[1,{}],\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n", TP__MCP_RESULT},
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++)
    if (read_first(w, rows[i].json, 4)->kind != rows[i].kind) fail_msg("%s: %s", rows[i].json, w->fault.message);
}

TEST(what_is_broken_has_a_code_an_id_and_words) {
  static const struct {
    const char *json;
    int64_t code, id; /* -1: none */
    const char *words;
  } rows[] = {
      {"", TP__MCP_PARSE_ERROR, -1, ""},
      {"Server listening on stdio", TP__MCP_PARSE_ERROR, -1, ""},
      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"a\"}", TP__MCP_PARSE_ERROR, -1, ""},
      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}", TP__MCP_PARSE_ERROR, -1, ""},
      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"} {}", TP__MCP_PARSE_ERROR, -1, ""},
      {"7", TP__MCP_INVALID_REQUEST, -1, "JSON object"},
      {"{}", TP__MCP_INVALID_REQUEST, -1, "jsonrpc"},
      {"{\"jsonrpc\":\"1.0\",\"id\":5,\"method\":\"a\"}", TP__MCP_INVALID_REQUEST, 5, "jsonrpc"},
      {"{\"jsonrpc\":2.0,\"id\":5,\"method\":\"a\"}", TP__MCP_INVALID_REQUEST, 5, "jsonrpc"},
      {"{\"jsonrpc\":\"2.0\",\"id\":5}", TP__MCP_INVALID_REQUEST, 5, "no method"},
      {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\"}", TP__MCP_INVALID_REQUEST, -1, "id of a request"},
      {"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"a\"}", TP__MCP_INVALID_REQUEST, -1, "id of a request"},
      {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"a\"}", TP__MCP_INVALID_REQUEST, -1, "id of a request"},
      {"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":7}", TP__MCP_INVALID_REQUEST, 5, "method"},
      {"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"a\",\"params\":[1]}", TP__MCP_INVALID_PARAMS, 5, "params"},
      {"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"a\",\"result\":{}}", TP__MCP_INVALID_REQUEST, 5, "a method and"},
      {"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{},\"error\":{}}", TP__MCP_INVALID_REQUEST, 5, "and an error"},
      {"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":7}", TP__MCP_INVALID_REQUEST, 5, "no object"},
      {"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":null}", TP__MCP_INVALID_REQUEST, 5, "no object"},
      {"{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":7}", TP__MCP_INVALID_REQUEST, 5, "no object"},
      {"{\"jsonrpc\":\"2.0\",\"result\":{}}", TP__MCP_INVALID_REQUEST, -1, "no id"},
      {"{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}}", TP__MCP_INVALID_REQUEST, -1, "no id"},
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    const tp__mcp_message *m = read_first(w, rows[i].json, 4);
    if (m->kind != TP__MCP_BROKEN || m->code != rows[i].code) fail_msg("%s: %lld", rows[i].json, (long long)m->code);
    assert_int_equal(tp__mcp_id_number(m->id), rows[i].id);
    assert_non_null(strstr(w->fault.message, rows[i].words));
    assert_true(w->fault.code != TP_OK);
  }
}

TEST(a_message_has_a_bound_of_size_and_of_depth) {
  world *w = *state;
  char deep[256] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":";
  const char *fits = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}";
  memset(deep + strlen(deep), '[', 40);
  assert_int_equal(read_first(w, deep, 4)->kind, TP__MCP_BROKEN);
  assert_int_equal(w->fault.code, TP_ERR_TOO_DEEP);
  assert_false(tp__mcp_decode(tp_text_of(fits), strlen(fits) - 1, 4, w->reader, &w->packet, &w->message, &w->fault));
  assert_int_equal(w->message.kind, TP__MCP_BROKEN);
  assert_int_equal(w->fault.code, TP_ERR_TOO_LARGE);
  assert_true(tp__mcp_decode(tp_text_of(fits), strlen(fits), 4, w->reader, &w->packet, &w->message, &w->fault));
}

TEST(batches_are_of_one_version_only) {
  static const char batch[] =
      "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},7,{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}]";
  world *w = *state;
  for (int version = TP_MCP_VERSION_NONE; version <= TP_MCP_VERSION_2026_07_28; version++) {
    const tp__mcp_message *m = read_first(w, batch, (tp_mcp_version)version);
    if (version != TP_MCP_VERSION_2025_03_26) {
      assert_int_equal(m->kind, TP__MCP_BROKEN);
      assert_non_null(strstr(w->fault.message, "2025-03-26"));
      continue;
    }
    assert_int_equal(m->kind, TP__MCP_RESULT);
    assert_true(tp__mcp_next(&w->packet, &w->message, &w->fault));
    assert_int_equal(m->kind, TP__MCP_BROKEN);
    assert_true(tp__mcp_next(&w->packet, &w->message, &w->fault));
    assert_int_equal(m->kind, TP__MCP_NOTIFICATION);
    assert_false(tp__mcp_next(&w->packet, &w->message, &w->fault));
  }
  assert_int_equal(read_first(w, "[]", TP_MCP_VERSION_2025_03_26)->kind, TP__MCP_BROKEN);
}

TEST(ids_are_compared_by_what_they_mean) {
  static const struct {
    const char *a, *b;
    bool same;
  } rows[] = {{"1", "1", true},         {"1", "1.0", true},     {"1", "2", false},         {"\"1\"", "1", false},
              {"\"1\"", "\"1\"", true}, {"\"\"", "\"\"", true}, {"\"a\"", "\"b\"", false}, {"null", "null", false},
              {"1.5", "1", false},      {"[1]", "[1]", false}};
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_writer_reset(w->reader);
    tp_writer_reset(w->writer);
    tp_text a, b;
    assert_int_equal(tp_json_decode(tp_text_of(rows[i].a), w->reader, NULL), TP_OK);
    assert_int_equal(tp_json_decode(tp_text_of(rows[i].b), w->writer, NULL), TP_OK);
    assert_int_equal(tp_writer_finish(w->reader, &a), TP_OK);
    assert_int_equal(tp_writer_finish(w->writer, &b), TP_OK);
    if (tp__mcp_id_equal(a, b) != rows[i].same) fail_msg("%s and %s", rows[i].a, rows[i].b);
    assert_int_equal(tp__mcp_id_equal(b, a), rows[i].same);
  }
  assert_int_equal(tp__mcp_id_number(read_first(w, "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{}}", 4)->id), 7);
  assert_int_equal(tp__mcp_id_number(read_first(w, "{\"jsonrpc\":\"2.0\",\"id\":7.5,\"result\":{}}", 4)->id), -1);
  assert_int_equal(tp__mcp_id_number(read_first(w, "{\"jsonrpc\":\"2.0\",\"id\":7.0,\"result\":{}}", 4)->id), 7);
  assert_int_equal(tp__mcp_id_number(read_first(w, "{\"jsonrpc\":\"2.0\",\"id\":1e300,\"result\":{}}", 4)->id), -1);
}

TEST(a_text_is_the_number_that_it_writes_and_no_other) {
  static const char *const rows[] = {"", "0", "07", "+7", " 7", "7 ", "7.0", "7e0", "x", "-7", "9999999999999999999"};
  world *w = *state;
  char json[96];
  for (size_t i = 0; i < COUNT(rows); i++) {
    snprintf(json, sizeof json, "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"result\":{}}", rows[i]);
    if (tp__mcp_id_number(read_first(w, json, 4)->id) != -1) fail_msg("\"%s\"", rows[i]);
  }
}

/* ---- what is not read ---- */

TEST(what_is_not_read_still_has_the_id_of_its_request) {
  static const struct {
    const char *json, *found; /* each with its kind */
  } rows[] = {
      {"{'id':7,'result':{'a':NaN}}", "7 answer;"},
      {"{'id':'7','result':{}}", "7 answer;"},
      {"{'id':'7','method':'a'}", ""},
      {"{'method':'a','id':7,'params':{'result':1}}", "7 request;"},
      {"\t{ 'id' :\t7 , 'error' : [[[", ""},
      {"{'result':{'id':8,'method':'x'},'id':7}", "7 answer;"},
      {"{'result':{'id':8}}", ""},
      {"{'result':['id',8],'x':'id','y':7}", ""},
      {"{'a':'\\'id\\':8,\\'result\\':','id':7,'result':1}", "7 answer;"},
      {"{'a':'\\\\','id':7,'result':1}", "7 answer;"},
      {"{'id':7,'id':8,'result':1}", ""},
      {"{'id':7,'id':7,'result':1}", "7 answer;"},
      {"{'id':7,'result':1,'method':'a'}", ""},
      {"{'id':7}", ""},
      {"{'id':-7,'result':1}", ""},
      {"{'id':7.5,'result':1}", ""},
      {"{'id':7e1,'result':1}", ""},
      {"{'id':1234567890123456,'result':1}", ""},
      {"{'id':null,'result':1}", ""},
      {"{'id':{},'result':1}", ""},
      {"[{'id':7,'result':1},5,{'id':8,'method':'a'},{'id':9,'error':", "7 answer;8 request;"},
      {"}}]]{'id':7,'result':1}", "7 answer;"},
      {"{'id':7,'result':1} {'id':8,'result':1}", "7 answer;8 answer;"},
      {"{'id", ""},
      {"{'id\\", ""},
      {"{'id':", ""},
      {"{'id':7", ""},
      {"", ""},
      {"Listening on 7", ""},
  };
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    char json[256], found[256] = "";
    tp__mcp_unread unread;
    snprintf(json, sizeof json, "%s", rows[i].json);
    for (char *c = json; *c; c++)
      if (*c == '\'') *c = '"';
    for (size_t at = 0; tp__mcp_next_unread(tp_text_of(json), &at, &unread);)
      snprintf(found + strlen(found), sizeof found - strlen(found), "%lld %s;", (long long)unread.id,
               unread.is_answer ? "answer" : "request");
    if (strcmp(found, rows[i].found) != 0) fail_msg("%s: %s", json, found);
  }
}

/* ---- writing ---- */

static void assert_written(world *w, const char *expected) {
  tp_text json;
  assert_int_equal(tp__mcp_encode(w->writer, &json, &w->fault), TP_OK);
  assert_string_equal(json.data, expected);
}

TEST(each_kind_is_written_on_one_line) {
  world *w = *state;
  tp__mcp_begin_request(w->writer, 3, "tools/list");
  tp_write_map(w->writer, 1);
  tp_write_string(w->writer, "a");
  tp_write_string(w->writer, "line\nline\xE2\x80\xA8");
  assert_written(w,
                 "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\",\"params\":{\"a\":\"line\\nline\\u2028\"}}");

  tp__mcp_begin_notification(w->writer, "notifications/initialized");
  tp_write_map(w->writer, 0);
  assert_written(w, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\",\"params\":{}}");

  tp_text id = read_first(w, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\"}", 4)->id;
  tp__mcp_begin_result(w->writer, id);
  tp_write_map(w->writer, 0);
  assert_written(w, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}");

  tp__mcp_write_error(w->writer, id, TP__MCP_METHOD_NOT_FOUND, tp_text_of("no"), (tp_text){"", 0});
  assert_written(w, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":-32601,\"message\":\"no\"}}");

  tp__mcp_write_error(w->writer, (tp_text){"", 0}, TP__MCP_PARSE_ERROR, tp_text_of("no"), id);
  assert_written(w, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"no\",\"data\":\"x\"}}");

  tp__mcp_begin_request(w->writer, 3, "tools/list"); /* without its params */
  tp_text json;
  assert_int_equal(tp__mcp_encode(w->writer, &json, &w->fault), TP_ERR_MALFORMED);
}

/* ---- _meta ---- */

TEST(meta_is_read_and_written) {
  static const char request[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"_meta\":{"
      "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
      "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"ExampleClient\",\"version\":\"1.0.0\"},"
      "\"io.modelcontextprotocol/clientCapabilities\":{},\"progressToken\":\"abc\",\"traceparent\":\"00-1\",\"x/"
      "y\":1}}}";
  world *w = *state;
  tp__mcp_meta meta;
  assert_int_equal(tp__mcp_meta_read(read_first(w, request, 5)->params, &meta, &w->fault), TP_OK);
  assert_int_equal(meta.version, TP_MCP_VERSION_2026_07_28);
  assert_true(tp_text_is(tp_value_text(tp_value_get(meta.client_info, "name")), "ExampleClient"));
  assert_true(tp_text_is(tp_value_text(meta.progress_token), "abc"));
  assert_true(tp_text_is(meta.traceparent, "00-1"));
  assert_int_equal(tp__mcp_meta_check(&meta, &w->fault), TP_OK);
  assert_int_equal(tp__mcp_meta_count(&meta), 5);
  tp__mcp_begin_notification(w->writer, "a");
  tp__mcp_meta_write(w->writer, &meta);
  assert_written(
      w,
      "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{"
      "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
      "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"ExampleClient\",\"version\":\"1.0.0\"},"
      "\"io.modelcontextprotocol/clientCapabilities\":{},\"progressToken\":\"abc\",\"traceparent\":\"00-1\"}}");
}

TEST(meta_that_lacks_something_says_what) {
  static const struct {
    const char *meta, *words;
    bool is_read;
  } rows[] = {
      {"{}", "protocolVersion", true},
      {"{\"io.modelcontextprotocol/clientCapabilities\":{}}", "protocolVersion", true},
      {"{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}", "clientCapabilities", true},
      {"{\"io.modelcontextprotocol/protocolVersion\":\"1900-01-01\"}", "clientCapabilities", true},
      {"{\"io.modelcontextprotocol/protocolVersion\":7}", "is not text", false},
      {"{\"io.modelcontextprotocol/clientCapabilities\":[]}", "is not an object", false},
      {"{\"progressToken\":null}", "is not text or a number", false},
      {"[]", "_meta is not an object", false},
  };
  world *w = *state;
  char json[512];
  tp__mcp_meta meta;
  for (size_t i = 0; i < COUNT(rows); i++) {
    snprintf(json, sizeof json, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"_meta\":%s}}",
             rows[i].meta);
    tp_status status = tp__mcp_meta_read(read_first(w, json, 5)->params, &meta, &w->fault);
    assert_int_equal(status == TP_OK, rows[i].is_read);
    if (status == TP_OK) assert_int_equal(tp__mcp_meta_check(&meta, &w->fault), TP_ERR_NOT_FOUND);
    assert_non_null(strstr(w->fault.message, rows[i].words));
  }
  assert_int_equal(tp__mcp_meta_read((tp_text){"", 0}, &meta, &w->fault), TP_OK);
  assert_int_equal(tp__mcp_meta_count(&meta), 0);
}

/* ---- headers ---- */

TEST(headers_are_encoded_as_the_specification_has_it) {
  static const struct {
    const char *text, *header;
  } rows[] = {
      {"us-west1", "us-west1"},
      {"Hello, \xE4\xB8\x96\xE7\x95\x8C", "=?base64?SGVsbG8sIOS4lueVjA==?="},
      {" padded ", "=?base64?IHBhZGRlZCA=?="},
      {"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
      {"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
      {"", ""},
      {"a\tb", "a\tb"},
      {"\ta", "=?base64?CWE=?="},
      {"a\x7F", "=?base64?YX8=?="},
      {"=?base64?", "=?base64?"},
      {"=?BASE64?aa?=", "=?BASE64?aa?="},
      {"file:///projects/myapp/config.json", "file:///projects/myapp/config.json"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp__bytes header = {0}, text = {0};
    tp__mcp_header_encode(tp_text_of(rows[i].text), &header);
    assert_string_equal(tp__bytes_string(&header), rows[i].header);
    assert_true(tp__mcp_header_decode(tp__bytes_text(&header), &text));
    assert_string_equal(tp__bytes_string(&text), rows[i].text);
    tp__bytes_fini(&header);
    tp__bytes_fini(&text);
  }
}

TEST(headers_that_no_client_sends_are_refused) {
  static const char *const rows[] = {
      "=?base64?a?=", "=?base64?*?=", "=?base64?/w==?=", "a\nb", "\xE4\xB8\x96", "=?base64?aa=a?=", " a", "a\x01"};
  tp__bytes text = {0};
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    if (tp__mcp_header_decode(tp_text_of(rows[i]), &text)) fail_msg("%s", rows[i]);
  tp__bytes_fini(&text);
}

static bool list_header(void *ctx, const tp__mcp_header *header) {
  tp__bytes *list = ctx;
  if (header->value.size == 0) return true;
  tp__bytes_put_text(list, header->name);
  tp__bytes_put_string(list, "=");
  if (!tp__mcp_header_encode_value(header->value, list)) tp__bytes_put_string(list, "(none)");
  tp__bytes_put_string(list, ";");
  return true;
}

TEST(parameters_become_headers_where_the_schema_says_so) {
  static const struct {
    const char *schema, *arguments, *expected; /* NULL: refused */
  } rows[] = {
      {"{\"properties\":{\"r\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"}}}", "{\"r\":\"us\"}", "Region=us;"},
      {"{\"properties\":{\"r\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"}}}", "{\"r\":null}", ""},
      {"{\"properties\":{\"r\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"}}}", "{}", ""},
      {"{\"properties\":{\"a\":{\"properties\":{\"b\":{\"type\":\"integer\",\"x-mcp-header\":\"B\"}}}}}",
       "{\"a\":{\"b\":-7}}", "B=-7;"},
      {"{\"properties\":{\"a\":{\"type\":\"boolean\",\"x-mcp-header\":\"A\"}}}", "{\"a\":true}", "A=true;"},
      {"{\"properties\":{\"a\":{\"type\":\"integer\",\"x-mcp-header\":\"A\"}}}", "{\"a\":42.0}", "A=42;"},
      {"{\"properties\":{\"a\":{\"type\":\"integer\",\"x-mcp-header\":\"A\"}}}", "{\"a\":9007199254740992}",
       "A=(none);"},
      {"{\"properties\":{\"a\":{\"type\":[\"string\",\"null\"],\"x-mcp-header\":\"A\"}}}", "{\"a\":\"\"}", "A=;"},
      {"{\"properties\":{\"x-mcp-header\":{\"type\":\"string\"}}}", "{\"x-mcp-header\":\"a\"}", ""},
      {"{\"properties\":{\"a\":{\"enum\":[{\"x-mcp-header\":\"A\"}]}}}", "{}", ""},
      {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"\"}}}", "{}", NULL},
      {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"a b\"}}}", "{}", NULL},
      {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"a\\nb\"}}}", "{}", NULL},
      {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":7}}}", "{}", NULL},
      {"{\"properties\":{\"a\":{\"type\":\"number\",\"x-mcp-header\":\"A\"}}}", "{}", NULL},
      {"{\"properties\":{\"a\":{\"type\":\"object\",\"x-mcp-header\":\"A\"}}}", "{}", NULL},
      {"{\"properties\":{\"a\":{\"x-mcp-header\":\"A\"}}}", "{}", NULL},
      {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"},"
       "\"b\":{\"type\":\"string\",\"x-mcp-header\":\"a\"}}}",
       "{}", NULL},
      {"{\"x-mcp-header\":\"A\"}", "{}", NULL},
      {"{\"properties\":{\"a\":{\"items\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}}", "{}", NULL},
      {"{\"anyOf\":[{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}]}", "{}", NULL},
      {"{\"$defs\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}", "{}", NULL},
      {"{\"properties\":{\"a\":{\"if\":{\"x-mcp-header\":\"A\"}}}}", "{}", NULL},
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp__bytes list = {0};
    tp_text schema, arguments;
    tp_writer_reset(w->reader);
    tp_writer_reset(w->writer);
    assert_int_equal(tp_json_decode(tp_text_of(rows[i].schema), w->reader, NULL), TP_OK);
    assert_int_equal(tp_json_decode(tp_text_of(rows[i].arguments), w->writer, NULL), TP_OK);
    assert_int_equal(tp_writer_finish(w->reader, &schema), TP_OK);
    assert_int_equal(tp_writer_finish(w->writer, &arguments), TP_OK);
    tp_status status = tp__mcp_headers_of(schema, arguments, list_header, &list, &w->fault);
    if ((status == TP_OK) != (rows[i].expected != NULL)) fail_msg("%s: %d", rows[i].schema, (int)status);
    if (status == TP_OK) assert_string_equal(tp__bytes_string(&list), rows[i].expected);
    else assert_non_null(strstr(w->fault.message, "x-mcp-header"));
    tp__bytes_fini(&list);
  }
}

TEST(a_header_matches_what_the_body_says) {
  static const struct {
    const char *header, *value;
    bool same;
  } rows[] = {{"us", "\"us\"", true},  {"us", "\"US\"", false}, {"42", "42", true},        {"42.0", "42", true},
              {"42.5", "42", false},   {"-7", "-7", true},      {"", "0", false},          {"true", "true", true},
              {"True", "true", false}, {"42", "\"42\"", true},  {"042", "42", false},      {"42", "42.5", false},
              {"null", "null", false}, {"42.", "42", true},     {"42.00001", "42", false}, {"x", "{}", false}};
  world *w = *state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_text value;
    tp_writer_reset(w->reader);
    assert_int_equal(tp_json_decode(tp_text_of(rows[i].value), w->reader, NULL), TP_OK);
    assert_int_equal(tp_writer_finish(w->reader, &value), TP_OK);
    if (tp__mcp_header_matches(tp_text_of(rows[i].header), value) != rows[i].same)
      fail_msg("%s and %s", rows[i].header, rows[i].value);
  }
}

TEST(the_name_header_is_of_three_methods) {
  world *w = *state;
  static const char params[] =
      "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{\"name\":\"n\",\"uri\":\"file:///u\"}}";
  tp_text value = read_first(w, params, 5)->params;
  assert_true(tp_text_is(tp__mcp_header_name(tp_text_of("tools/call"), value), "n"));
  assert_true(tp_text_is(tp__mcp_header_name(tp_text_of("prompts/get"), value), "n"));
  assert_true(tp_text_is(tp__mcp_header_name(tp_text_of("resources/read"), value), "file:///u"));
  assert_int_equal(tp__mcp_header_name(tp_text_of("tools/list"), value).size, 0);
}
