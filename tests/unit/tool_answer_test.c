/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of tools that have a value and parts in addition to a text: from the function, the token and the inbox to
 * results, events, the model, the history and tasks; refusals, and answers that are too large. */
#include "tests/support/test.h"
#include "tests/support/model.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION };

#define VALUE "\x81\xa1n\x07" /* {"n": 7} */
#define PNG "\x89PNG\0\1"

static const tp_part image = {
    .struct_size = sizeof image, .kind = TP_PART_IMAGE, .bytes = TEXT(PNG), .media_type = TEXT("image/png")};
static const tp_part link_to = {.struct_size = sizeof link_to, .kind = TP_PART_LINK, .uri = TEXT("file:///r")};
static const tp_part *const two_parts[] = {&image, &link_to};
static const tp_tool_answer whole = {
    .struct_size = sizeof whole, .text = TEXT("seen"), .value = TEXT(VALUE), .parts = two_parts, .part_count = 2};

/* ---- a tool that answers as set, and what was heard of it ---- */

typedef struct world {
  tp_runtime *runtime;
  const tp_tool_answer *answer;
  bool defers;
  tp_token token;
  tp_fault fault; /* of tp_tool_answer_with() */
  tp_tool tool;
  latch heard;
  /* of the newest TOOL_END */
  tp_tool_result result;
  char text[512], value[64], parts[512];
  /* of diagnostics and warnings */
  char diagnostic[256], log[512];
} world;

static tp_answer answer_as_set(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  if (!w->defers) return tp_tool_answer_with(run, w->answer, &w->fault);
  const tp_deferral deferral = {.struct_size = sizeof deferral};
  tp_answer answer = tp_tool_defer(run, &deferral, &w->token);
  (void)!tp_tool_complete_with(w->token, w->answer, &w->fault);
  return answer;
}

/* "[image (image/png, 6 bytes)][text]" */
static void show_parts(char *to, size_t size, tp_text parts) {
  char line[256];
  to[0] = '\0';
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);) {
    tp_part part = {.struct_size = sizeof part};
    size_t used = strlen(to);
    if (tp_part_read(walk.value, &part, NULL) != TP_OK) snprintf(line, sizeof line, "broken");
    else if (part.kind == TP_PART_TEXT) snprintf(line, sizeof line, "%.*s", (int)part.text.size, part.text.data);
    else tp_part_describe(&part, line, sizeof line);
    snprintf(to + used, size - used, "[%s]", line);
  }
}

static void show_value(char *to, size_t size, tp_text value) {
  tp_writer *writer;
  tp_text json = TEXT("");
  if (tp_writer_new(NULL, &writer) != TP_OK) abort();
  if (value.size > 0 && tp_json_encode(value, writer, &json, NULL) != TP_OK) json = (tp_text)TEXT("broken");
  snprintf(to, size, "%.*s", (int)json.size, json.size ? json.data : "");
  tp_writer_free(writer);
}

static void keep_result(world *w, const tp_tool_result *result) {
  w->result = *result;
  snprintf(w->text, sizeof w->text, "%.*s", (int)result->text.size, result->text.size ? result->text.data : "");
  show_value(w->value, sizeof w->value, result->value);
  show_parts(w->parts, sizeof w->parts, result->parts);
}

static void hear(void *ctx, const tp_event *event) {
  world *w = ctx;
  if (event->kind == TP_EVENT_DIAGNOSTIC)
    snprintf(w->diagnostic, sizeof w->diagnostic, "%.*s: %.*s", (int)event->contribution->key.size,
             event->contribution->key.data, (int)event->text.size, event->text.data);
  if (event->kind != TP_EVENT_TOOL_END) return;
  keep_result(w, event->tool_result);
  latch_hit(&w->heard);
}

static void take_log(void *ctx, const tp_log_record *record) {
  world *w = ctx;
  if (record->level == TP_LOG_WARNING) snprintf(w->log, sizeof w->log, "%s", record->message);
}

static void open_world(world *w, const tp_tool_answer *answer) {
  w->answer = answer;
  w->heard = (latch)LATCH;
  w->runtime = open_runtime(&(tp_runtime_options){
      .struct_size = sizeof(tp_runtime_options), .log = take_log, .log_ctx = w, .log_level = TP_LOG_WARNING});
  const tp_listener listener = {.struct_size = sizeof listener, .on_event = hear, .ctx = w};
  assert_int_equal(tp_runtime_listen(w->runtime, &listener, NULL, NULL), TP_OK);
  w->tool.struct_size = sizeof w->tool;
  w->tool.name = "t";
  if (!w->tool.inbox) w->tool.run = answer_as_set;
  w->tool.ctx = w;
  tp_fault fault = {0};
  if (tp_tool_add(w->runtime, &w->tool, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static tp_tool_result call_tool(world *w) {
  tp_turn *turn = begin_bare(w->runtime, 0);
  assert_int_equal(run_phase(turn, TOOLS, NULL).outcome, TP_OK);
  const tp_tool_call call = {.id = TEXT("c"), .name = TEXT("t")};
  tp_tool_result result;
  assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
  keep_result(w, &result);
  tp_turn_end(turn);
  return result;
}

/* ---- ways to answer ---- */

TEST(text_value_and_parts_come_to_the_result_however_the_tool_runs) {
  for (int way = 0; way < 4; way++) {
    world w = {.defers = way >= 2, .tool.placement = way % 2 ? TP_PLACEMENT_THREAD : TP_PLACEMENT_INLINE};
    open_world(&w, &whole);
    assert_int_equal(call_tool(&w).kind, TP_TOOL_OK);
    assert_string_equal(w.text, "seen");
    assert_string_equal(w.value, "{\"n\":7}");
    assert_string_equal(w.parts, "[image (image/png, 6 bytes)][link <file:///r>]");
    close_runtime(w.runtime);
  }
}

TEST(an_inbox_tool_answers_with_parts) {
  world w = {.defers = false};
  tp_inbox *inbox;
  tp_inbox_options options = {.struct_size = sizeof options};
  open_world(&w, &whole);
  assert_int_equal(tp_inbox_new(w.runtime, &options, &inbox, NULL), TP_OK);
  const tp_tool tool = {.struct_size = sizeof tool, .name = "far", .inbox = inbox};
  assert_int_equal(tp_tool_add(w.runtime, &tool, NULL), TP_OK);
  tp_turn *turn = begin_bare(w.runtime, 0);
  assert_int_equal(run_phase(turn, TOOLS, NULL).outcome, TP_OK);
  const tp_tool_call call = {.struct_size = sizeof call, .id = TEXT("c"), .name = TEXT("far")};
  const tp_tool_call *const calls[] = {&call};
  tp_end *end;
  assert_int_equal(tp_end_new(inbox, NULL, &end, NULL), TP_OK);
  assert_int_equal(tp_tools_submit(turn, calls, 1, tp_end_of_tools, end, NULL), TP_OK);
  const tp_work *work = NULL;
  while (!work) assert_int_equal(tp_inbox_next(inbox, &work), TP_OK);
  assert_int_equal(work->kind, TP_WORK_TOOL);
  assert_int_equal(tp_tool_answer_with((tp_tool_run *)(uintptr_t)work->run, &whole, NULL), TP_ANSWER_DONE);
  assert_int_equal(tp_tool_complete_with(work->token, &whole, NULL), TP_OK);
  for (work = NULL; !work;) assert_int_equal(tp_inbox_next(inbox, &work), TP_OK);
  assert_int_equal(work->kind, TP_WORK_END);
  keep_result(&w, work->end->results[0]);
  assert_string_equal(w.text, "seen");
  assert_string_equal(w.value, "{\"n\":7}");
  assert_string_equal(w.parts, "[image (image/png, 6 bytes)][link <file:///r>]");
  assert_int_equal(tp_work_release(work), TP_OK);
  tp_turn_end(turn);
  close_runtime(w.runtime);
  tp_inbox_free(inbox);
}

TEST(a_tool_that_failed_may_say_more_than_a_text) {
  tp_tool_answer failed = whole;
  failed.is_error = true;
  world w = {.defers = false};
  open_world(&w, &failed);
  assert_int_equal(call_tool(&w).kind, TP_TOOL_HANDLER_ERROR);
  assert_string_equal(w.parts, "[image (image/png, 6 bytes)][link <file:///r>]");
  close_runtime(w.runtime);
}

TEST(a_value_without_a_text_is_read_as_json) {
  const tp_tool_answer answer = {.struct_size = sizeof answer, .value = TEXT(VALUE)};
  for (int cut = 0; cut < 2; cut++) {
    world w = {.tool.result_bytes_max = cut ? 4 : 0};
    open_world(&w, &answer);
    assert_int_equal(call_tool(&w).kind, TP_TOOL_OK);
    assert_string_equal(w.text, cut ? "{\"\n[… 3 bytes left out …]\n7}" : "{\"n\":7}");
    assert_string_equal(w.value, "{\"n\":7}");
    close_runtime(w.runtime);
  }
}

/* ---- wrong answers ---- */

TEST(an_answer_that_cannot_be_used_is_refused_by_its_member) {
  static const tp_part no_media = {.struct_size = sizeof no_media, .kind = TP_PART_IMAGE, .bytes = TEXT("x")};
  static const tp_part unset = {.kind = TP_PART_TEXT};
  static const tp_part *const second_is_wrong[] = {&image, &no_media}, *const hole[] = {NULL},
                              *const without_size[] = {&unset};
  static const struct {
    tp_tool_answer answer;
    tp_status code;
    const char *words;
  } cases[] = {
      {{.struct_size = 0}, TP_ERR_VERSION, "tp_tool_answer: struct_size is 0"},
      {{.struct_size = sizeof(tp_tool_answer), .text = TEXT("\xff")}, TP_ERR_UTF8, "tp_tool_answer.text is not UTF-8"},
      {{.struct_size = sizeof(tp_tool_answer), .value = TEXT("\x81")}, TP_ERR_MALFORMED, "tp_tool_answer.value"},
      {{.struct_size = sizeof(tp_tool_answer), .reserved_ = {1}}, TP_ERR_USAGE, "reserved_"},
      {{.struct_size = sizeof(tp_tool_answer), .part_count = 2}, TP_ERR_USAGE, "2 parts, and the list is NULL"},
      {{.struct_size = sizeof(tp_tool_answer), .parts = hole, .part_count = 1}, TP_ERR_USAGE, "parts[0] is NULL"},
      {{.struct_size = sizeof(tp_tool_answer), .parts = without_size, .part_count = 1},
       TP_ERR_VERSION,
       "parts[0]: tp_part: struct_size is 0"},
      {{.struct_size = sizeof(tp_tool_answer), .parts = second_is_wrong, .part_count = 2},
       TP_ERR_USAGE,
       "parts[1]: tp_part.media_type is missing"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    world w = {.defers = false};
    tp_fault fault = {0};
    open_world(&w, &cases[i].answer);
    assert_int_equal(call_tool(&w).kind, TP_TOOL_HANDLER_ERROR);
    if (!strstr(w.text, cases[i].words)) fail_msg("\"%s\" is not in \"%s\"", cases[i].words, w.text);
    assert_string_equal(w.text, w.fault.message);
    assert_int_equal(w.fault.code, cases[i].code);
    assert_int_equal(tp_tool_complete_with((tp_token){7}, &cases[i].answer, &fault), cases[i].code);
    assert_string_equal(fault.message, w.fault.message);
    close_runtime(w.runtime);
  }
}

/* The token can be completed with another answer. */
TEST(a_refused_answer_completes_nothing) {
  const tp_tool_answer wrong = {.struct_size = sizeof wrong, .value = TEXT("\x81")};
  world w = {.defers = true, .tool = {.placement = TP_PLACEMENT_THREAD, .limit_ms = 60000}};
  open_world(&w, &wrong);
  const tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t"};
  const tp_task_result *result = NULL;
  w.answer = &whole;
  assert_int_equal(tp_task_call(w.runtime, &spec, &result, NULL), TP_OK);
  assert_int_equal(tp_tool_complete_with(w.token, &wrong, NULL), TP_ERR_MALFORMED);
  assert_int_equal(tp_tool_complete_with(w.token, &whole, NULL), TP_ERR_STALE);
  tp_task_result_free(result);
  close_runtime(w.runtime);
}

/* ---- too large ---- */

static char megabyte[1 << 20];

TEST(what_does_not_fit_is_named_and_those_who_watch_are_told) {
  static const tp_part large = {.struct_size = sizeof large,
                                .kind = TP_PART_IMAGE,
                                .name = TEXT("map"),
                                .bytes = {megabyte, sizeof megabyte},
                                .media_type = TEXT("image/png")};
  const tp_part *const parts[] = {&image, &large, &link_to};
  const tp_tool_answer answer = {
      .struct_size = sizeof answer, .value = TEXT(VALUE), .parts = parts, .part_count = COUNT(parts)};
  static const struct {
    uint32_t bytes_max;
    const char *value, *parts;
    bool partial;
  } cases[] = {
      {0, "{\"n\":7}", "[image (image/png, 6 bytes)][image map (image/png, 1,048,576 bytes)][link <file:///r>]", false},
      {1000, "{\"n\":7}",
       "[image (image/png, 6 bytes)][[left out, since the tool's answer is too large: image map (image/png, 1,048,576 "
       "bytes)]][link <file:///r>]",
       true},
      {3, "",
       "[[left out, since the tool's answer is too large: image (image/png, 6 bytes)]][[left out, since the tool's "
       "answer is too large: image map (image/png, 1,048,576 bytes)]][[left out, since the tool's answer is too large: "
       "link <file:///r>]]",
       true},
  };
  for (size_t i = 0; i < COUNT(cases); i++)
    for (int far = 0; far < 2; far++) {
      world w = {.tool = {.parts_bytes_max = cases[i].bytes_max,
                          .placement = far ? TP_PLACEMENT_THREAD : TP_PLACEMENT_INLINE}};
      open_world(&w, &answer);
      assert_int_equal(call_tool(&w).kind, TP_TOOL_OK);
      assert_string_equal(w.text, "{\"n\":7}");
      assert_string_equal(w.value, cases[i].value);
      assert_string_equal(w.parts, cases[i].parts);
      assert_int_equal(strstr(w.log, "tool `t`: its answer is too large") != NULL, cases[i].partial);
      assert_int_equal(strstr(w.diagnostic, "tool.parts: tool `t`: its answer is too large") != NULL, cases[i].partial);
      if (cases[i].partial) assert_non_null(strstr(w.log, "tp_tool.parts_bytes_max is "));
      close_runtime(w.runtime);
    }
}

TEST(more_than_256_parts_are_counted_in_the_last) {
  const tp_part *parts[300];
  for (size_t i = 0; i < COUNT(parts); i++) parts[i] = &link_to;
  for (size_t count = 256; count <= 300; count += 44) {
    const tp_tool_answer answer = {.struct_size = sizeof answer, .parts = parts, .part_count = count};
    world w = {.defers = false};
    open_world(&w, &answer);
    tp_turn *turn = begin_bare(w.runtime, 0);
    assert_int_equal(run_phase(turn, TOOLS, NULL).outcome, TP_OK);
    const tp_tool_call call = {.id = TEXT("c"), .name = TEXT("t")};
    tp_tool_result result;
    assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
    assert_int_equal(tp_value_count(result.parts), count == 256 ? 256 : 257);
    tp_part last = {.struct_size = sizeof last};
    assert_int_equal(tp_part_read(tp_value_at(result.parts, tp_value_count(result.parts) - 1), &last, NULL), TP_OK);
    if (count > 256) assert_text(last.text, "[44 more parts are left out, since the tool's answer has more than 256]");
    assert_int_equal(last.kind, count == 256 ? TP_PART_LINK : TP_PART_TEXT);
    tp_turn_end(turn);
    close_runtime(w.runtime);
  }
}

/* ---- a driven turn ---- */

TEST(events_the_model_and_the_history_have_value_and_parts) {
  static const reply replies[] = {{.calls = {{.id = TEXT("c1"), .name = TEXT("t")}}, .call_count = 1},
                                  {.text = "done"}};
  world w = {.defers = false};
  recorder *model = recorder_new(replies, 2);
  open_world(&w, &whole);
  tp_session *session;
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = recorder_model(model, true)};
  assert_int_equal(tp_session_open(w.runtime, &options, &session, NULL), TP_OK);
  for (int turn = 0; turn < 2; turn++) {
    const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("look")};
    const tp_turn_result *result;
    assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    tp_turn_result_free(result);
  }
  latch_wait(&w.heard, 1);
  assert_string_equal(w.text, "seen");
  assert_string_equal(w.value, "{\"n\":7}");
  assert_string_equal(w.parts, "[image (image/png, 6 bytes)][link <file:///r>]");
  static const char said[] = "U<look>A<>C<t>T<seen>=<c1>P<image (image/png, 6 bytes)>P<link <file:///r>>V<4>";
  assert_non_null(strstr(model->requests[1], said));
  assert_non_null(strstr(model->requests[2], said)); /* the second turn reads it in the history */
  tp_session_close(session, NULL, NULL);
  close_runtime(w.runtime);
  recorder_free(model);
}

/* The copy that waits in an inbox. */
TEST(an_event_in_an_inbox_has_value_and_parts) {
  world w = {.defers = false};
  tp_inbox *inbox;
  tp_inbox_options options = {.struct_size = sizeof options};
  open_world(&w, &whole);
  assert_int_equal(tp_inbox_new(w.runtime, &options, &inbox, NULL), TP_OK);
  const tp_listener listener = {.struct_size = sizeof listener, .inbox = inbox};
  assert_int_equal(tp_runtime_listen(w.runtime, &listener, NULL, NULL), TP_OK);
  call_tool(&w);
  bool found = false;
  for (const tp_work *work;;) {
    assert_int_equal(tp_inbox_next(inbox, &work), TP_OK);
    if (!work) break;
    if (work->event->kind == TP_EVENT_TOOL_END) {
      found = true;
      keep_result(&w, work->event->tool_result);
      assert_string_equal(w.value, "{\"n\":7}");
      assert_string_equal(w.parts, "[image (image/png, 6 bytes)][link <file:///r>]");
    }
    assert_int_equal(tp_work_release(work), TP_OK);
  }
  assert_true(found);
  close_runtime(w.runtime);
  tp_inbox_free(inbox);
}

/* ---- tasks ---- */

static void take_task(void *ctx, const tp_task_result *result) {
  world *w = ctx;
  snprintf(w->text, sizeof w->text, "%.*s", (int)result->text.size, result->text.data);
  show_value(w->value, sizeof w->value, result->value);
  show_parts(w->parts, sizeof w->parts, result->parts);
  latch_hit(&w->heard);
}

TEST(the_result_of_a_task_has_value_and_parts) {
  for (int way = 0; way < 3; way++) {
    world w = {.defers = false};
    tp_inbox *inbox = NULL;
    open_world(&w, &whole);
    const tp_task_spec spec = {.struct_size = sizeof spec, .tool = "t"};
    if (way == 0) {
      const tp_task_result *result = NULL;
      assert_int_equal(tp_task_call(w.runtime, &spec, &result, NULL), TP_OK);
      take_task(&w, result);
      tp_task_result_free(result);
    } else if (way == 1) {
      int before = latch_count(&w.heard);
      assert_int_equal(tp_task_submit(w.runtime, TP_TASK_CALL, &spec, take_task, &w, NULL, NULL), TP_OK);
      latch_wait(&w.heard, before + 2); /* its event, and its end */
    } else {
      tp_end *end;
      const tp_work *work = NULL;
      const tp_inbox_options options = {.struct_size = sizeof options};
      assert_int_equal(tp_inbox_new(w.runtime, &options, &inbox, NULL), TP_OK);
      assert_int_equal(tp_end_new(inbox, NULL, &end, NULL), TP_OK);
      assert_int_equal(tp_task_submit(w.runtime, TP_TASK_CALL, &spec, tp_end_of_task, end, NULL, NULL), TP_OK);
      while (!work) assert_int_equal(tp_inbox_next(inbox, &work), TP_OK);
      take_task(&w, work->end->task);
      assert_int_equal(tp_work_release(work), TP_OK);
    }
    assert_string_equal(w.text, "seen");
    assert_string_equal(w.value, "{\"n\":7}");
    assert_string_equal(w.parts, "[image (image/png, 6 bytes)][link <file:///r>]");
    close_runtime(w.runtime);
    tp_inbox_free(inbox);
  }
}

/* ---- hooks ---- */

/** A hook that keeps what it sees of the result, and replaces what is set. */
typedef struct seer {
  tp_text text, value, parts; /* data set: replaces it */
  char saw_text[256], saw_value[64], saw_parts[512], saw_summary[512];
  tp_status status;
} seer;

static void keep_field(char *to, size_t size, tp_text text) {
  snprintf(to, size, "%.*s", (int)text.size, text.size ? text.data : "");
}

static tp_answer see(void *ctx, tp_call *call) {
  seer *s = ctx;
  tp_field fields[3];
  size_t count = 0;
  keep_field(s->saw_text, sizeof s->saw_text, tp_call_text(call, TP_FIELD_RESULT));
  keep_field(s->saw_summary, sizeof s->saw_summary, tp_call_text(call, TP_FIELD_OUTPUT_SUMMARY));
  show_value(s->saw_value, sizeof s->saw_value, tp_call_text(call, TP_FIELD_RESULT_VALUE));
  show_parts(s->saw_parts, sizeof s->saw_parts, tp_call_text(call, TP_FIELD_RESULT_PARTS));
  if (s->text.data) fields[count++] = (tp_field){.id = TP_FIELD_RESULT, .kind = TP_FIELD_KIND_TEXT, .text = s->text};
  if (s->value.data)
    fields[count++] = (tp_field){.id = TP_FIELD_RESULT_VALUE, .kind = TP_FIELD_KIND_VALUE, .text = s->value};
  if (s->parts.data)
    fields[count++] = (tp_field){.id = TP_FIELD_RESULT_PARTS, .kind = TP_FIELD_KIND_VALUE, .text = s->parts};
  if (count) s->status = tp_call_replace(call, fields, count, NULL);
  return TP_ANSWER_DONE;
}

#define BOTH_PARTS "[image (image/png, 6 bytes)][link <file:///r>]"
#define ONE_TEXT "\x91\x81\xa4text\xa4only" /* [{"text": "only"}] */

/* A hook that only knows the text removes the parts that it does not know; the next hook, and tool.post, see the
 * rest. */
TEST(a_hook_replaces_the_text_alone_or_with_value_and_parts) {
  static const struct {
    seer filter;
    const char *text, *value, *parts;
  } cases[] = {
      {{.text = {NULL, 0}}, "seen", "{\"n\":7}", BOTH_PARTS},
      {{.text = TEXT("removed")}, "removed", "", ""},
      {{.text = TEXT("new"), .value = TEXT("\x05")}, "new", "5", ""},
      {{.text = TEXT("new"), .parts = TEXT(ONE_TEXT)}, "new", "", "[only]"},
      {{.text = TEXT("new"), .value = TEXT("\x05"), .parts = TEXT(ONE_TEXT)}, "new", "5", "[only]"},
      {{.parts = TEXT(ONE_TEXT)}, "seen", "{\"n\":7}", "[only]"},
      {{.parts = TEXT("\x90")}, "seen", "{\"n\":7}", ""},
      {{.value = TEXT("\x05")}, "seen", "5", BOTH_PARTS},
      {{.value = TEXT("\xc0")}, "seen", "", BOTH_PARTS},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    seer filter = cases[i].filter, second = {.text = {NULL, 0}}, post = {.text = {NULL, 0}};
    const hook hooks[] = {
        {.id = "filter", .phase = TP_PHASE_TOOL_RESULT, .run = see, .ctx = &filter},
        {.id = "second", .phase = TP_PHASE_TOOL_RESULT, .run = see, .ctx = &second, .after = "filter"},
        {.id = "post", .phase = TP_PHASE_TOOL_POST, .run = see, .ctx = &post},
    };
    world w = {.defers = false};
    open_world(&w, &whole);
    add_hooks(w.runtime, hooks, 3);
    assert_int_equal(call_tool(&w).kind, TP_TOOL_OK);
    assert_int_equal(filter.status, TP_OK);
    assert_string_equal(filter.saw_text, "seen");
    assert_string_equal(filter.saw_value, "{\"n\":7}");
    assert_string_equal(filter.saw_parts, BOTH_PARTS);
    assert_string_equal(second.saw_text, cases[i].text);
    assert_string_equal(second.saw_parts, cases[i].parts);
    if (cases[i].filter.value.size != 1 || cases[i].filter.value.data[0] != '\xc0')
      assert_string_equal(second.saw_value, cases[i].value);
    assert_string_equal(w.text, cases[i].text);
    assert_string_equal(w.value, cases[i].value);
    assert_string_equal(w.parts, cases[i].parts);
    assert_string_equal(post.saw_text, cases[i].text);
    assert_string_equal(post.saw_value, cases[i].value);
    assert_string_equal(post.saw_parts, cases[i].parts);
    close_runtime(w.runtime);
  }
}

/* The chain goes on with what there was. */
TEST(parts_of_a_hook_that_are_none_are_refused) {
  static const tp_text wrong[] = {TEXT("\x91\x80"), TEXT("\x80"), TEXT("\x91\x81\xa4page\xa1x"), TEXT("\x91")};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    seer filter = {.parts = wrong[i]};
    const hook hooks[] = {{.id = "filter", .phase = TP_PHASE_TOOL_RESULT, .run = see, .ctx = &filter}};
    world w = {.defers = false};
    open_world(&w, &whole);
    add_hooks(w.runtime, hooks, 1);
    call_tool(&w);
    assert_int_equal(filter.status, TP_ERR_MALFORMED);
    assert_string_equal(w.parts, BOTH_PARTS);
    close_runtime(w.runtime);
  }
}

TEST(a_result_of_tool_rewrite_has_value_and_parts) {
  seer rewrite = {.text = TEXT("from the cache"), .value = TEXT("\x05"), .parts = TEXT(ONE_TEXT)}, post = {0};
  const hook hooks[] = {{.id = "cache", .phase = TP_PHASE_TOOL_REWRITE, .run = see, .ctx = &rewrite},
                        {.id = "post", .phase = TP_PHASE_TOOL_POST, .run = see, .ctx = &post}};
  world w = {.defers = false};
  open_world(&w, &whole);
  add_hooks(w.runtime, hooks, 2);
  tp_tool_result result = call_tool(&w);
  assert_int_equal(result.kind, TP_TOOL_OK);
  assert_false(result.started);
  assert_string_equal(w.text, "from the cache");
  assert_string_equal(w.value, "5");
  assert_string_equal(w.parts, "[only]");
  assert_string_equal(post.saw_parts, "[only]");
  close_runtime(w.runtime);
}

TEST(the_summary_of_a_result_without_text_names_its_parts) {
  tp_tool_answer answer = whole;
  answer.text = answer.value = (tp_text){NULL, 0};
  seer post = {0};
  const hook hooks[] = {{.id = "post", .phase = TP_PHASE_TOOL_POST, .run = see, .ctx = &post}};
  world w = {.defers = false};
  open_world(&w, &answer);
  add_hooks(w.runtime, hooks, 1);
  call_tool(&w);
  assert_string_equal(post.saw_text, "");
  assert_string_equal(post.saw_summary, "[image (image/png, 6 bytes)]\n[link <file:///r>]");
  close_runtime(w.runtime);
}
