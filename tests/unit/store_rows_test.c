/* SPDX-License-Identifier: Apache-2.0
 *
 * Data that a runtime gives its store in addition to entries and jobs: the record of each driven turn, and audit rows.
 * Also functions of a store that a runtime refuses because it would not call them. */
#include "tests/support/test.h"
#include "tests/support/model.h"

static tp_session *open_session(tp_runtime *runtime, recorder *model, const char *id) {
  tp_session *session = NULL;
  tp_session_options options = {.struct_size = sizeof options, .id = id, .tenant = "t"};
  if (model) options.model = recorder_model(model, true);
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  return session;
}

typedef struct turns {
  tp_turn_record rows[8];
  char turn_ids[8][64], sessions[8][16], subscriptions[8][16], reasons[8][128];
  size_t count;
} turns;

static void copy(char *to, size_t size, tp_text text) {
  snprintf(to, size, "%.*s", (int)text.size, text.size ? text.data : "");
}

static bool keep_turn(void *ctx, const tp_turn_record *record) {
  turns *t = ctx;
  size_t i = t->count++;
  t->rows[i] = *record;
  copy(t->turn_ids[i], sizeof t->turn_ids[i], record->ids[TP_ID_TURN]);
  copy(t->sessions[i], sizeof t->sessions[i], record->ids[TP_ID_SESSION]);
  copy(t->subscriptions[i], sizeof t->subscriptions[i], record->subscription);
  copy(t->reasons[i], sizeof t->reasons[i], record->reason);
  return true;
}

static turns read_turns(tp_runtime *runtime) {
  turns t = {.count = 0};
  assert_int_equal(tp_runtime_turns(runtime, NULL, keep_turn, &t, NULL), TP_OK);
  return t;
}

static bool first_run_id(void *ctx, const tp_entry_record *record) {
  *(uint64_t *)ctx = record->process_run_id;
  return false;
}

TEST(driven_turn_leaves_its_record_before_its_end_is_notified) {
  static const reply replies[] = {{.text = "hi", .input_tokens = 7, .output_tokens = 3, .cost_micros = 11}};
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(replies, 1);
  act silent = {0};
  add_hooks(runtime, &(hook){.id = "h", .phase = TP_PHASE_TURN_INTAKE, .ctx = &silent}, 1);
  tp_session *session = open_session(runtime, model, "s");
  tp_turn_request request = {.struct_size = sizeof request, .id = "my-turn", .text = TEXT("hello")};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  turns t = read_turns(runtime);
  assert_int_equal(t.count, 1);
  const tp_turn_record *row = &t.rows[0];
  uint64_t run_id = 0;
  assert_int_equal(tp_runtime_records(runtime, NULL, first_run_id, &run_id, NULL), TP_OK);
  assert_true(run_id != 0 && row->process_run_id == run_id);
  assert_int_equal(row->number, 1);
  assert_string_equal(t.turn_ids[0], "my-turn");
  assert_string_equal(t.sessions[0], "s");
  assert_int_equal(row->outcome, TP_TURN_COMPLETED);
  assert_int_equal(row->code, TP_OK);
  assert_int_equal(row->started_ns, result->started_ns);
  assert_int_equal(row->ended_ns, result->ended_ns);
  assert_true(row->started_unix_ms > 0 && row->ended_unix_ms >= row->started_unix_ms);
  assert_true(row->model_ns > 0 && row->model_ns <= row->ended_ns - row->started_ns);
  assert_int_equal(row->load_ns + row->append_ns + row->tools_ns, 0); /* it has neither */
  assert_int_equal(row->iterations, 1);
  assert_int_equal(row->input_tokens, 7);
  assert_int_equal(row->output_tokens, 3);
  assert_int_equal(row->cost_micros, 11);
  assert_int_equal(row->phase, 0);
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
}

TEST(record_of_a_denied_turn_says_who_and_why) {
  tp_runtime *runtime = open_runtime(NULL);
  act deny = {.kind = TP_ANSWER_DENY, .reason = "not here"};
  add_hooks(runtime, &(hook){.id = "guard", .phase = TP_PHASE_TURN_INTAKE, .ctx = &deny}, 1);
  tp_session *session = open_session(runtime, NULL, "s");
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  for (int i = 0; i < 2; i++) assert_int_equal(tp_turn_run(session, &request, NULL, NULL), TP_OK);
  turns t = read_turns(runtime);
  assert_int_equal(t.count, 2);
  assert_int_equal(t.rows[0].number, 2); /* newest first */
  assert_int_equal(t.rows[0].outcome, TP_TURN_DENIED);
  assert_int_equal(t.rows[0].code, TP_ERR_DENIED);
  assert_int_equal(t.rows[0].phase, TP_PHASE_TURN_INTAKE);
  assert_string_equal(t.subscriptions[0], "guard");
  assert_non_null(strstr(t.reasons[0], "not here"));
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
}

/* ---- a store of the host's ---- */

typedef struct rows_store {
  tp_store *inner;
  tp_store face;
  char audit[4096]; /* "action:detail;" */
  int turns, wrong;
  bool opened;
  tp_runtime *runtime;
} rows_store;

static tp_status rows_open(void *ctx, const tp_store_owner *owner, tp_fault *fault) {
  (void)owner, (void)fault;
  ((rows_store *)ctx)->opened = true;
  return TP_OK;
}

static tp_answer silent_hook(void *ctx, tp_call *call) {
  (void)ctx, (void)call;
  return TP_ANSWER_DONE;
}

static void commit_one(tp_runtime *runtime, const char *id) {
  tp_hook h = {.struct_size = sizeof h, .id = id, .phase = "turn.intake", .run = silent_hook};
  if (tp_hook_add(runtime, &h, NULL) != TP_OK) abort();
}

/* A row may lead to another one: that comes after it. */
static tp_status rows_audit(void *ctx, const tp_audit *row) {
  rows_store *s = ctx;
  if (!s->opened || row->struct_size != sizeof *row) s->wrong++;
  size_t used = strlen(s->audit);
  bool first = used == 0;
  snprintf(s->audit + used, sizeof s->audit - used, "%s:%s;", row->action, row->detail);
  if (first) commit_one(s->runtime, "from-inside");
  return strcmp(row->action, "kill_switch") == 0 ? TP_ERR_STORE_FULL : TP_OK;
}

static tp_status rows_turn(void *ctx, const tp_turn_record *record) {
  rows_store *s = ctx;
  if (record->number != (uint64_t)++s->turns) s->wrong++;
  return TP_OK;
}

static void rows_destroy(void *ctx) { tp_store_free(((rows_store *)ctx)->inner); }

#define FORWARD(call) ((rows_store *)ctx)->inner->call
static tp_status rows_record(void *ctx, const tp_entry_record *record) { return FORWARD(record)(FORWARD(ctx), record); }
static tp_status rows_insert(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  return FORWARD(job_insert)(FORWARD(ctx), job, ret_id, ret_existed, fault);
}
static tp_status rows_claim(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  return FORWARD(job_claim)(FORWARD(ctx), request, ret_next_ms, fault);
}
static tp_status rows_finish(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault) {
  return FORWARD(job_finish)(FORWARD(ctx), request, ret_state, fault);
}
static tp_status rows_renew(void *ctx, const tp_job_renew *request, tp_fault *fault) {
  return FORWARD(job_renew)(FORWARD(ctx), request, fault);
}
static tp_status rows_job_open(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault) {
  return FORWARD(job_open)(FORWARD(ctx), order_key, ret_count, fault);
}

static const tp_store *make_store(rows_store *s) {
  *s = (rows_store){.wrong = 0};
  assert_int_equal(tp_store_memory_new(NULL, NULL, &s->inner, NULL), TP_OK);
  s->face = (tp_store){.struct_size = sizeof s->face,
                       .ctx = s,
                       .name = "rows",
                       .open = rows_open,
                       .record = rows_record,
                       .turn_record = rows_turn,
                       .audit = rows_audit,
                       .job_insert = rows_insert,
                       .job_claim = rows_claim,
                       .job_renew = rows_renew,
                       .job_finish = rows_finish,
                       .job_open = rows_job_open,
                       .destroy = rows_destroy};
  return &s->face;
}

static int count_of(const char *text, const char *what) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, what)); at++) count++;
  return count;
}

TEST(store_is_given_each_audit_row_once_and_in_order) {
  rows_store s;
  tp_runtime_options options = {.struct_size = sizeof options, .store = make_store(&s)};
  assert_int_equal(tp_runtime_new(&options, &s.runtime, NULL), TP_OK);
  commit_one(s.runtime, "early");
  assert_string_equal(s.audit, ""); /* it is not open yet */
  assert_int_equal(tp_runtime_start(s.runtime, NULL), TP_OK);
  assert_int_equal(count_of(s.audit, "commit:"), 2); /* and the one from inside */
  commit_one(s.runtime, "late");
  assert_int_equal(count_of(s.audit, "commit:"), 3);
  assert_int_equal(tp_subscription_kill(s.runtime, "late", true, NULL), TP_OK); /* the store does not keep this one */
  assert_int_equal(count_of(s.audit, "kill_switch:"), 1);
  tp_session *session = open_session(s.runtime, NULL, "s");
  act deny = {.kind = TP_ANSWER_DENY, .reason = "not here"};
  add_hooks(s.runtime, &(hook){.id = "guard", .phase = TP_PHASE_TURN_INTAKE, .ctx = &deny}, 1);
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  assert_int_equal(tp_turn_run(session, &request, NULL, NULL), TP_OK);
  assert_int_equal(count_of(s.audit, "denial:not here"), 1);
  assert_true(strstr(s.audit, "kill_switch:") < strstr(s.audit, "denial:"));
  assert_int_equal(s.turns, 1);
  assert_int_equal(tp_runtime_turns(s.runtime, NULL, keep_turn, NULL, NULL), TP_ERR_STORE); /* it cannot read them */
  tp_session_close(session, NULL, NULL);
  close_runtime(s.runtime);
  assert_int_equal(s.wrong, 0);
}

/* ---- batches ---- */

enum { BATCHES_MAX = 16 };
/** A store that reads no batch before its end. */
typedef struct batch_store {
  rows_store rows;
  tp_entry_batch batches[BATCHES_MAX];
  tp_text ids[BATCHES_MAX][TP_ID_COUNT];
  char turns[BATCHES_MAX][32];
  size_t count;
  int records; /* that came alone */
} batch_store;

static struct { size_t entries, hooks, others; } read_at_the_end;

static tp_status batch_keep(void *ctx, const tp_entry_batch *batch) {
  batch_store *s = ctx;
  size_t i = s->count++;
  if (i >= BATCHES_MAX || batch->struct_size != sizeof *batch || batch->id_count != TP_ID_COUNT) abort();
  void *packed = malloc(batch->packed_bytes);
  if (!packed) abort();
  s->batches[i] = *batch;
  s->batches[i].packed = memcpy(packed, batch->packed, batch->packed_bytes);
  s->batches[i].ids = s->ids[i];
  copy(s->turns[i], sizeof s->turns[i], batch->ids[TP_ID_TURN]);
  s->ids[i][TP_ID_TURN] = tp_text_of(s->turns[i]);
  return TP_OK;
}

static tp_status batch_record(void *ctx, const tp_entry_record *record) {
  (void)record;
  ((batch_store *)ctx)->records++;
  return TP_OK;
}

static void batch_read(const tp_entry_batch *batch) {
  tp_entry_record entry = {.struct_size = sizeof entry};
  size_t offset = 0, count = 0;
  for (; batch->entry(batch, &offset, &entry); count++) {
    if (entry.ids[TP_ID_TURN].size != 7 || memcmp(entry.ids[TP_ID_TURN].data, "my-turn", 7) != 0) abort();
    for (size_t i = 0; i < entry.run_count; i++) {
      tp_run_record run = {.struct_size = sizeof run};
      if (!entry.run(entry.source, i, &run)) abort();
      if (strcmp(run.subscription, "a-hook") == 0) read_at_the_end.hooks++;
      else read_at_the_end.others++;
    }
  }
  if (count != batch->entry_count) abort();
  read_at_the_end.entries += count;
}

static void batch_destroy(void *ctx) {
  batch_store *s = ctx;
  for (size_t i = 0; i < s->count; i++) {
    batch_read(&s->batches[i]);
    free((void *)(uintptr_t)s->batches[i].packed);
  }
  rows_destroy(ctx);
}

TEST(records_of_a_turn_come_in_batches_that_can_be_read_until_the_end_of_the_store) {
  static batch_store s;
  (void)make_store(&s.rows);
  s.rows.face.record = batch_record;
  s.rows.face.record_batch = batch_keep;
  s.rows.face.destroy = batch_destroy;
  s.rows.face.audit = NULL;
  tp_runtime_options options = {.struct_size = sizeof options, .store = &s.rows.face};
  tp_runtime *runtime = open_runtime(&options);
  act silent = {0};
  add_hooks(runtime, &(hook){.id = "a-hook", .phase = TP_PHASE_TURN_INTAKE, .ctx = &silent}, 1);
  static const reply replies[] = {{.text = "hi"}};
  recorder *model = recorder_new(replies, 1);
  tp_session *session = open_session(runtime, model, "s");
  tp_turn_request request = {.struct_size = sizeof request, .id = "my-turn", .text = TEXT("hello")};
  assert_int_equal(tp_turn_run(session, &request, NULL, NULL), TP_OK);
  tp_session_close(session, NULL, NULL);
  assert_true(s.count > 0);
  assert_int_equal(s.records, 0);
  assert_int_equal(read_at_the_end.entries, 0);
  close_runtime(runtime);
  assert_true(read_at_the_end.entries > 0);
  assert_int_equal(read_at_the_end.hooks, 1);
  recorder_free(model);
}

/* ---- groups ---- */

static tp_status never_start(void *ctx, const tp_tool_start_record *start, uint64_t *ret_start_id,
                             tp_tool_end_fn earlier, void *earlier_ctx, tp_fault *fault) {
  return (void)ctx, (void)start, (void)ret_start_id, (void)earlier, (void)earlier_ctx, (void)fault, TP_OK;
}
static tp_status never_end(void *ctx, const tp_tool_end_record *end, tp_fault *fault) {
  return (void)ctx, (void)end, (void)fault, TP_OK;
}
static tp_status never_put(void *ctx, const tp_task_record *record, tp_fault *fault) {
  return (void)ctx, (void)record, (void)fault, TP_OK;
}
static tp_status never_take(void *ctx, tp_text key, tp_task_record_fn take, void *take_ctx, tp_fault *fault) {
  return (void)ctx, (void)key, (void)take, (void)take_ctx, (void)fault, TP_ERR_NOT_FOUND;
}
static tp_status never_settle(void *ctx, tp_text key, bool stays, tp_fault *fault) {
  return (void)ctx, (void)key, (void)stays, (void)fault, TP_OK;
}

/* A group is whole or absent: of each, all but one function. */
TEST(store_that_has_a_part_of_a_group_is_refused_and_not_taken) {
  static const struct {
    size_t offset;
    const char *says;
  } cases[] = {
      {offsetof(tp_store, record), "tp_store.record is not set: every store keeps records"},
      {offsetof(tp_store, job_insert), "tp_store.job_insert is not: the functions of jobs go together"},
      {offsetof(tp_store, job_claim), "tp_store.job_claim is not"},
      {offsetof(tp_store, job_renew), "tp_store.job_renew is not"},
      {offsetof(tp_store, job_finish), "tp_store.job_finish is not"},
      {offsetof(tp_store, job_open), "tp_store.job_open is not"},
      {offsetof(tp_store, job_redrive), "tp_store.job_redrive is not: the functions of dead letters go together"},
      {offsetof(tp_store, job_discard), "tp_store.job_discard is not"},
      {offsetof(tp_store, tool_start), "tp_store.tool_end is set and tp_store.tool_start is not"},
      {offsetof(tp_store, tool_end), "tp_store.tool_start is set and tp_store.tool_end is not"},
      {offsetof(tp_store, task_put), "tp_store.task_put is not: the functions of tasks go together"},
      {offsetof(tp_store, task_take), "tp_store.task_take is not"},
      {offsetof(tp_store, task_settle), "tp_store.task_settle is not"},
  };
  tp_store *memory;
  assert_int_equal(tp_store_memory_new(NULL, NULL, &memory, NULL), TP_OK);
  tp_store whole = *memory;
  whole.tool_start = never_start; /* of the groups that the memory store lacks */
  whole.tool_end = never_end;
  whole.task_put = never_put;
  whole.task_take = never_take;
  whole.task_settle = never_settle;
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_store store = whole;
    memset((char *)&store + cases[i].offset, 0, sizeof(void (*)(void)));
    tp_runtime_options options = {.struct_size = sizeof options, .store = &store};
    tp_runtime *runtime = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
    assert_null(runtime);
    if (!strstr(fault.message, cases[i].says))
      fail_msg("case %zu: `%s` is not in `%s`", i, cases[i].says, fault.message);
  }
  tp_runtime_options options = {.struct_size = sizeof options, .store = &whole};
  tp_runtime *runtime = NULL;
  assert_int_equal(tp_runtime_new(&options, &runtime, NULL), TP_OK);
  tp_runtime_free(runtime);
}

/* ---- steps ---- */

typedef struct step_list {
  tp_turn_step items[2048];
  char names[2048][16];
  size_t count;
  uint64_t dropped;
} step_list;

static bool keep_steps(void *ctx, const tp_turn_record *record) {
  step_list *list = ctx;
  list->dropped = record->steps_dropped;
  for (list->count = 0; list->count < record->step_count; list->count++) {
    tp_turn_step *step = &list->items[list->count];
    *step = (tp_turn_step){.struct_size = sizeof *step};
    assert_true(record->step(record->step_source, list->count, step));
    copy(list->names[list->count], sizeof list->names[0], step->name);
  }
  tp_turn_step none = {.struct_size = sizeof none};
  assert_false(record->step(record->step_source, record->step_count, &none));
  return false;
}

static tp_answer look(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("seen"));
}

static tp_answer contribute_look(void *ctx, tp_call *call) {
  (void)ctx;
  static const tp_tool tool = {.struct_size = sizeof tool,
                               .name = "look",
                               .description = "looks",
                               .run = look,
                               .idempotent = true,
                               .placement = TP_PLACEMENT_INLINE};
  const tp_tool *tools[] = {&tool};
  tp_call_emit_tool_bundle(call, "b", tools, 1, NULL);
  return TP_ANSWER_DONE;
}

static step_list *steps_of_a_turn(const reply *replies, size_t count, uint32_t iterations_max) {
  step_list *list = calloc(1, sizeof *list);
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(replies, count);
  add_hooks(runtime, &(hook){.id = "b", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .run = contribute_look}, 1);
  tp_session *session = open_session(runtime, model, "s");
  tp_turn_request request = {.struct_size = sizeof request,
                             .id = "t",
                             .text = TEXT("hello"),
                             .iterations_max = iterations_max,
                             .tool_calls_max = 5000};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  assert_int_equal(tp_runtime_turns(runtime, NULL, keep_steps, list, NULL), TP_OK);
  tp_turn_result_free(result);
  tp_session_close(session, NULL, NULL);
  tp_runtime_free(runtime);
  recorder_free(model);
  return list;
}

TEST(each_request_and_tool_call_is_a_step_of_the_record) {
  static const reply replies[] = {{.text = "",
                                   .calls = {{.id = {"1", 1}, .name = {"look", 4}, .arguments = {"\x80", 1}},
                                             {.id = {"2", 1}, .name = {"nope", 4}, .arguments = {"\x80", 1}}},
                                   .call_count = 2},
                                  {.text = "done"}};
  step_list *list = steps_of_a_turn(replies, 2, 0);
  assert_int_equal(list->count, 4);
  static const uint32_t kinds[] = {TP_STEP_MODEL, TP_STEP_TOOL, TP_STEP_TOOL, TP_STEP_MODEL}, rounds[] = {1, 1, 1, 2};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(list->items[i].kind, kinds[i]);
    assert_int_equal(list->items[i].round, rounds[i]);
    assert_true(list->items[i].started_ns > 0 && list->items[i].ended_ns >= list->items[i].started_ns);
    if (i > 0) assert_true(list->items[i].started_ns >= list->items[i - 1].started_ns);
  }
  assert_string_equal(list->names[0], "recorder");
  assert_string_equal(list->names[3], "recorder");
  assert_string_equal(list->names[1], "look");
  assert_int_equal(list->items[1].outcome, TP_TOOL_OK);
  assert_int_equal(list->items[1].place, 0);
  assert_string_equal(list->names[2], "nope");
  assert_int_equal(list->items[2].outcome, TP_TOOL_UNKNOWN_TOOL);
  assert_int_equal(list->items[2].place, 1);
  assert_int_equal(list->items[2].ended_ns, list->items[2].started_ns);
  assert_int_equal(list->dropped, 0);
  free(list);
}

TEST(steps_beyond_the_bound_are_counted) {
  enum { ROUNDS = 130 };
  reply many = {.text = "", .call_count = 8};
  for (int i = 0; i < 8; i++) many.calls[i] = (tp_tool_call){.name = {"look", 4}, .arguments = {"\x80", 1}};
  step_list *list = steps_of_a_turn(&many, 1, ROUNDS);
  assert_int_equal(list->count, 1024);
  assert_int_equal(list->dropped, ROUNDS * 9 - 1024);
  assert_string_equal(list->names[1023], list->items[1023].kind == TP_STEP_TOOL ? "look" : "");
  free(list);
}
