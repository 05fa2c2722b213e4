/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers: programs that keep running, the effect of each kind of end on their requests, and how a program is ended. */
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/hook_files.h"

/* @param more  further lines of the handler. The shell has the request's number in $id, and `say` answers it. */
static void write_worker(const char *script, const char *more) {
  char text[1024];
  snprintf(text, sizeof text,
           "next() { read -r line || return 1; id=${line#*:}; id=${id%%%%,*}; }\n"
           "say() { echo \"{\\\"id\\\": $id, \\\"result\\\": $1}\"; }\n%s\n",
           script);
  write_named("worker.sh", text);
  snprintf(text, sizeof text, "id: w\nevent_type: tool.pre\nhandler: {kind: worker, command: [sh, worker.sh]%s}\n",
           more);
  write_named("a.yaml", text);
}

static tp_runtime *open_worker(const char *script, const char *more) {
  write_worker(script, more);
  return open_with_hooks(NULL);
}

static tp_phase_result ask(tp_turn *turn) {
  const tp_field fields[] = {{.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = TEXT("shell")},
                             {.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_VALUE, .text = TEXT("\x80")}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2, .budget_ms = 30000};
  tp_phase_result result = {.struct_size = sizeof result};
  tp_fault fault = {0};
  if (tp_phase_run(turn, TP_PHASE_TOOL_PRE, &input, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  return result;
}

/* The reason of a new turn's answer. */
static void ask_once(tp_runtime *runtime, tp_status outcome, char ret_reason[256]) {
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = ask(turn);
  snprintf(ret_reason, 256, "%.*s", (int)result.reason.size, result.reason.size ? result.reason.data : "");
  if (result.outcome != outcome) fail_msg("%s: %s", tp_status_name(result.outcome), ret_reason);
  tp_turn_end(turn);
}

/* ---- requests ---- */

FOR_EACH_TEST(make_directory, remove_directory);

TEST(one_program_answers_all_requests) {
  tp_runtime *runtime = open_worker(
      "while next; do say \"{\\\"continue\\\": false, \\\"reason\\\": \\\"of $$\\\"}\"; "
      "next || exit; say '{}'; done",
      "");
  char first[256], reason[256];
  ask_once(runtime, TP_ERR_DENIED, first);
  assert_non_null(strstr(first, "of "));
  for (int i = 0; i < 20; i++) {
    ask_once(runtime, TP_OK, reason);
    ask_once(runtime, TP_ERR_DENIED, reason);
    assert_string_equal(reason, first);
  }
  close_runtime(runtime);
}

TEST(bytes_of_a_reply_that_are_not_utf8_are_replaced) {
  char reason[256];
  tp_runtime *runtime = open_worker(
      "while next; do printf '{\"id\": %s, \"result\": {\"continue\": false, \"reason\": \"caf\\351\"}}\\n' $id; done",
      "");
  ask_once(runtime, TP_ERR_DENIED, reason);
  assert_string_equal(reason, "caf\xEF\xBF\xBD");
  close_runtime(runtime);
}

typedef struct asker {
  pthread_t thread;
  tp_runtime *runtime;
  char reason[256];
  tp_status outcome;
} asker;

static void *run_asker(void *arg) {
  asker *a = arg;
  tp_turn *turn = begin_bare(a->runtime, 60000);
  tp_phase_result result = ask(turn);
  a->outcome = result.outcome;
  snprintf(a->reason, sizeof a->reason, "%.*s", (int)result.reason.size, result.reason.size ? result.reason.data : "");
  tp_turn_end(turn);
  return NULL;
}

/* It answers when it has got both, the newer one first. */
TEST(several_are_in_flight_and_answered_in_any_order) {
  tp_runtime *runtime = open_worker(
      "next; one=$id; next; say '{\"continue\": false, \"reason\": \"second\"}'; "
      "id=$one; say '{\"continue\": false, \"reason\": \"first\"}'; cat",
      "");
  asker askers[2];
  for (int i = 0; i < 2; i++) {
    askers[i].runtime = runtime;
    pthread_create(&askers[i].thread, NULL, run_asker, &askers[i]);
  }
  for (int i = 0; i < 2; i++) pthread_join(askers[i].thread, NULL);
  assert_int_equal(askers[0].outcome, TP_ERR_DENIED);
  assert_int_equal(askers[1].outcome, TP_ERR_DENIED);
  assert_string_not_equal(askers[0].reason, askers[1].reason);
  close_runtime(runtime);
}

/* Of no answer each is named by its own reason, and a required guard denies. */
TEST(what_is_no_answer_denies_and_is_named) {
  static const struct {
    const char *script;
    tp_reason why;
    const char *part;
  } cases[] = {
      {"exit 3", TP_REASON_CRASH, "exited with code 3"},
      {"next; echo broken >&2; exit 1", TP_REASON_CRASH,
       "exited with code 1 before it answered; its standard error is not kept: keep it with "},
      {"next; kill -KILL $$", TP_REASON_CRASH, "killed by signal 9"},
      {"next; echo no; cat", TP_REASON_CRASH, "no JSON object"},
      {"next; echo '[1]'; cat", TP_REASON_CRASH, "no JSON object"},
      {"next; echo '{\"result\": {}}'; cat", TP_REASON_CRASH, "without the id of a request"},
      {"next; id=99; say '{}'; cat", TP_REASON_CRASH, "without the id of a request"},
      {"next; head -c 2000000 /dev/zero | tr '\\0' x; cat", TP_REASON_CRASH, "above 1 MiB"},
      {"next; exec <&-; exec sleep 100", TP_REASON_TIMEOUT, NULL},
      {"next; say '7'; cat", TP_REASON_MALFORMED, "result of the reply is no object"},
      {"next; say '{\"continue\": 7}'; cat", TP_REASON_MALFORMED, "continue of the result"},
      {"next; echo \"{\\\"id\\\": $id, \\\"error\\\": \\\"no disk\\\"}\"; cat", TP_REASON_MALFORMED, "no disk"},
      {"cat > /dev/null", TP_REASON_TIMEOUT, NULL},
      {"trap '' TERM; sleep 100", TP_REASON_TIMEOUT, NULL},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    bool waits = cases[i].why == TP_REASON_TIMEOUT;
    tp_runtime *runtime = open_worker(cases[i].script, waits ? ", timeout_ms: 100" : ", timeout_ms: 20000");
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = ask(turn);
    const tp_run_record *run = tp_phase_result_run(&result, 0);
    if (result.outcome != TP_ERR_DENIED || run->reason != cases[i].why ||
        (cases[i].part && !memmem(result.reason.data, result.reason.size, cases[i].part, strlen(cases[i].part))))
      fail_msg("%s: %s, %s: %.*s", cases[i].script, tp_status_name(result.outcome), tp_reason_name(run->reason),
               (int)result.reason.size, result.reason.data);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(program_that_cannot_start_denies) {
  write_named("a.yaml", "id: w\nevent_type: tool.pre\nhandler: {kind: worker, command: ./missing}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = ask(turn);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_int_equal(tp_phase_result_run(&result, 0)->reason, TP_REASON_CANNOT_START);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(program_that_hangs_is_started_anew) {
  tp_runtime *runtime = open_worker(
      "next; say '{}'; [ -e hung ] || { touch hung; exec sleep 100; }\n"
      "while next; do say '{}'; done",
      ", timeout_ms: 150");
  char reason[256];
  ask_once(runtime, TP_OK, reason);
  ask_once(runtime, TP_ERR_DENIED, reason); /* hangs */
  tp_status outcome = TP_ERR_DENIED;
  for (int i = 0; i < 50 && outcome != TP_OK; i++) { /* the old one is on its way out */
    tp_turn *turn = begin_bare(runtime, 60000);
    outcome = ask(turn).outcome;
    tp_turn_end(turn);
  }
  assert_int_equal(outcome, TP_OK);
  close_runtime(runtime);
}

/* A program that is only slow with one request stays, because another request was answered meanwhile. */
TEST(program_that_has_answered_others_is_not_ended) {
  tp_runtime *runtime = open_worker(
      "next; next; say \"{\\\"continue\\\": false, \\\"reason\\\": \\\"$$\\\"}\"\n"
      "while next; do say \"{\\\"continue\\\": false, \\\"reason\\\": \\\"$$\\\"}\"; "
      "done",
      ", timeout_ms: 300");
  asker unanswered = {.runtime = runtime};
  char first[256], reason[256] = "";
  pthread_create(&unanswered.thread, NULL, run_asker, &unanswered);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = ask(turn); /* one of the two is never answered */
  snprintf(first, sizeof first, "%.*s", (int)result.reason.size, result.reason.data);
  tp_turn_end(turn);
  pthread_join(unanswered.thread, NULL);
  const char *pid = strstr(first, "timeout") ? unanswered.reason : first;
  ask_once(runtime, TP_ERR_DENIED, reason);
  assert_string_equal(reason, pid);
  close_runtime(runtime);
}

TEST(program_that_never_answers_is_given_pauses) {
  tp_runtime *runtime = open_worker("exit 1", "");
  bool paused = false;
  for (int i = 0; i < 20 && !paused; i++) {
    tp_turn *turn = begin_bare(runtime, 60000);
    tp_phase_result result = ask(turn);
    assert_int_equal(result.outcome, TP_ERR_DENIED);
    paused = tp_phase_result_run(&result, 0)->reason == TP_REASON_CANNOT_START;
    if (paused) assert_non_null(memmem(result.reason.data, result.reason.size, "in a row", 8));
    tp_turn_end(turn);
  }
  assert_true(paused);
  close_runtime(runtime);
}

/* ---- frames ---- */

TEST(frames_of_msgpack_have_their_length_in_front) {
  tp_runtime *runtime = open_worker(
      "dd bs=1 count=5 2>/dev/null > head\n"
      "printf '\\000\\000\\000\\015\\202\\242id\\001\\246result\\200'; cat > /dev/null",
      ", frames: msgpack");
  char reason[256], file[160];
  ask_once(runtime, TP_OK, reason);
  snprintf(file, sizeof file, "%s/head", directory);
  unsigned char head[5];
  FILE *stream = fopen(file, "re");
  assert_non_null(stream);
  assert_int_equal(fread(head, 1, 5, stream), 5);
  fclose(stream);
  assert_int_equal(head[0] | head[1], 0);
  assert_true(head[3] > 0);
  assert_int_equal(head[4], 0x82); /* a map of id and context */
  close_runtime(runtime);
}

/* ---- the end ---- */

static bool exists(const char *name) {
  char file[160];
  snprintf(file, sizeof file, "%s/%s", directory, name);
  return access(file, F_OK) == 0;
}

TEST(program_gets_end_of_file_and_time_to_finish) {
  char reason[256];
  tp_runtime *runtime = open_worker("while next; do say '{}'; done; touch drained", "");
  ask_once(runtime, TP_OK, reason);
  assert_false(exists("drained"));
  close_runtime(runtime);
  assert_true(exists("drained"));
  runtime = open_worker("next; say '{}'; trap 'touch stubborn' TERM; while :; do sleep 0.01; done", "");
  ask_once(runtime, TP_OK, reason);
  close_runtime(runtime); /* it ignores both, and is killed */
  assert_true(exists("stubborn"));
}

/* ---- the libraries ---- */

static bool is_program(const char *name) {
  char line[64];
  snprintf(line, sizeof line, "command -v %s >/dev/null", name);
  return system(line) == 0;
}

/* @param text  with a %s for where the sources are. */
static void serve_with(const char *program, const char *text) {
  char whole[4400], yaml[256], reason[256];
  const char *source = getenv("TURNPHASE_SOURCE");
  assert_non_null(source);
  snprintf(whole, sizeof whole, text, source);
  write_named("worker", whole);
  snprintf(yaml, sizeof yaml,
           "id: w\nevent_type: tool.pre\nhandler: {kind: worker, timeout_ms: 20000, "
           "command: [%s, worker]}\n",
           program);
  write_named("a.yaml", yaml);
  tp_runtime *runtime = open_with_hooks(NULL);
  for (int k = 0; k < 5; k++) {
    ask_once(runtime, TP_ERR_DENIED, reason);
    assert_string_equal(reason, "shell");
  }
  close_runtime(runtime);
}

TEST(worker_can_be_written_with_the_python_library) {
  serve_with("python3",
             "import sys\nsys.path.insert(0, '%s/examples/worker')\nimport turnphase_worker\n"
             "@turnphase_worker.serve\ndef guard(context):\n    print('a log')\n"
             "    return {'continue': False, 'reason': context['ability_id']}\n");
}

TEST(worker_can_be_written_with_the_javascript_library) {
  serve_with("node",
             "require('%s/examples/worker/turnphase_worker.js').serve(async (context) => {\n"
             "  console.log('a log');\n  return { continue: false, reason: context.ability_id };\n});\n");
}

/* ---- files ---- */

TEST(wrong_file_of_a_worker_is_refused_with_its_place) {
  static const struct {
    const char *yaml;
    uint32_t line;
    const char *part;
  } cases[] = {
      {"id: a\nevent: tool.pre\nhandler: {kind: worker}\n", 3, "needs command"},
      {"id: a\nevent: tool.pre\nhandler: {kind: worker, command: x, frames: xml}\n", 3, "json or msgpack"},
      {"id: a\nevent: tool.pre\nhandler: {kind: script, command: x, frames: json}\n", 3, "has no frames"},
      {"id: a\nevent: tool.pre\nhandler: {kind: worker, path: x}\n", 3, "has no path"},
      {"id: a\nprotocol: claude-code\nevent: PreToolUse\nhandler: {kind: worker, command: x}\n", 4, "our own protocol"},
      {"id: a\nevent: tool.pre\nhandler: {kind: demon, command: x}\n", 3, "script, worker, log"},
  };
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(cases); i++) {
    write_named("a.yaml", cases[i].yaml);
    tp_hooks *hooks;
    tp_fault fault = {0};
    assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_ERR_MALFORMED);
    if (!strstr(fault.message, cases[i].part) || fault.line != cases[i].line)
      fail_msg("%s: %u: %s", cases[i].yaml, fault.line, fault.message);
  }
  tp_runtime_free(runtime);
}

/* What this machine lacks is neither run nor counted. */
TEST_MAIN(count, arguments) {
  if (!is_program("python3")) test_leave_out("worker_can_be_written_with_the_python_library");
  if (!is_program("node")) test_leave_out("worker_can_be_written_with_the_javascript_library");
  return test_main(count, arguments);
}
