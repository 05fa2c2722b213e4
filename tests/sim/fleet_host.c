/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "fleet.h"

enum {
  ASK_MS = 25000, /* the line gives up before the engine does */
  BUSY_WAIT_MS = 20000,
  SUBMITS_MAX = 3, /* submits of one turn */
  DRAIN_MS = 1000,
  HOST_FIBERS = 2, /* fibers that submit turns */
};

/** A turn that was submitted to a host. */
typedef struct fleet_run {
  struct fleet_run *next;
  fleet_turn *turn;
  size_t events[FLEET_BATCH_MAX]; /* appends */
  size_t event_count;
} fleet_run;

/** The newest claim of a session. */
typedef struct fleet_slot {
  uint64_t fence, ordinal;
  size_t event;
} fleet_slot;

typedef struct fleet_load {
  struct fleet_load *next;
  struct fleet_host *host;
  const tp_history_load *request;
  tp_token token;
  bool has_left;
} fleet_load;

typedef struct fleet_host {
  struct fleet_host *next;
  fleet_world *w;
  fleet_line line;
  bool by_token; /* its history answers by tokens; else it blocks */
  bool waits;    /* it waits for a busy session */
  tp_runtime *runtime;
  tp_shared_history *history;
  tp_session *sessions[FLEET_SESSIONS_MAX];
  fleet_slot slots[FLEET_SESSIONS_MAX];
  fleet_run *runs; /* newest first */
  fleet_load *loads;
  uint32_t submitting; /* fibers that use the runtime */
  bool is_gone;        /* its runtime was freed */
} fleet_host;

static uint32_t session_of(tp_text name) { return (uint32_t)fleet_number_of((tp_text){name.data + 1, name.size - 1}); }

/* ---- the history ---- */

static void give_claim(fleet_host *h, const tp_history_load *request, uint32_t session, const fleet_answer *answer,
                       size_t event) {
  request->claim->number = answer->number;
  request->claim->fence = answer->fence;
  request->claim->position = answer->position;
  request->claim->first = answer->first;
  h->slots[session] = (fleet_slot){.fence = answer->fence, .ordinal = answer->ordinal, .event = event};
  fleet_event *e = &h->w->events[event];
  e->number = answer->number;
  e->fence = answer->fence;
  e->hash = FLEET_HASH;
  fleet_end_event(h->w, event, FLEET_DONE);
}

static fleet_request *claim_request(fleet_host *h, const tp_history_load *load) {
  fleet_request *r = fleet_request_new(&h->line, FLEET_REQUEST_CLAIM, session_of(load->session));
  r->number = load->number;
  r->after = load->after;
  return r;
}

static void end_claim(fleet_host *h, uint32_t session, uint64_t number, uint64_t fence, uint64_t position) {
  fleet_answer answer;
  fleet_request *r = fleet_request_new(&h->line, FLEET_REQUEST_APPEND, session);
  r->number = number;
  r->fence = fence;
  r->position = position;
  (void)fleet_line_ask(&h->line, r, 0, NULL, &answer);
  fleet_request_unref(r);
}

/* The claim was given up, and may have been made: it is made once more, whenever the database answers, and ended. */
static void claim_again(fleet_host *h, fleet_request *r) {
  fleet_answer answer;
  if (h->w->bug == FLEET_BUG_LEFT_CLAIM || !fleet_line_ask(&h->line, r, 0, NULL, &answer)) return;
  if (answer.status == TP_OK) end_claim(h, r->session, answer.number, answer.fence, answer.position);
}

/* Blocks. The messages that are given are the database's, as they were when the session was claimed: the answer may be
 * late, and others may have appended since. */
static tp_status claim(fleet_host *h, const tp_history_load *request, const bool *has_left,
                       const fleet_message **ret_first, size_t *ret_count) {
  uint32_t session = session_of(request->session);
  fleet_answer answer = {.status = TP_ERR_STORE};
  fleet_line_enter(&h->line, session);
  size_t event = fleet_begin_event(h->w, (fleet_event){.kind = FLEET_CLAIM, .session = session});
  fleet_request *r = claim_request(h, request);
  bool is_answered = fleet_line_ask(&h->line, r, ASK_MS, has_left, &answer);
  if (!is_answered) claim_again(h, r);
  if (is_answered && answer.status == TP_OK) give_claim(h, request, session, &answer, event);
  else if (is_answered) request->claim->retry_ms = answer.retry_ms;
  *ret_count = is_answered && answer.status == TP_OK ? answer.position - answer.first : 0;
  *ret_first = *ret_count ? fleet_database_messages(h->w->db, session, answer.first) : NULL;
  fleet_request_unref(r);
  fleet_line_leave(&h->line, session);
  return is_answered ? answer.status : TP_ERR_STORE;
}

static const tp_message **list_messages(const fleet_message *first, size_t count) {
  const tp_message **list = calloc(count + 1, sizeof *list);
  if (!list) abort();
  for (size_t i = 0; i < count; i++, first = first->next) list[i] = &first->message;
  return list;
}

static void answer_load(void *arg) {
  fleet_load *load = arg;
  const fleet_message *first;
  size_t count;
  tp_status status = claim(load->host, load->request, &load->has_left, &first, &count);
  const tp_message **list = list_messages(first, count);
  fleet_load **at = &load->host->loads;
  while (*at != load) at = &(*at)->next;
  *at = load->next;
  (void)tp_history_complete_load(load->token, status, count ? list : NULL, count, NULL, NULL);
  free((void *)list);
  free(load);
}

static void load_start(void *ctx, const tp_history_load *request, tp_token token) {
  fleet_host *h = ctx;
  fleet_load *load = calloc(1, sizeof *load);
  if (!load) abort();
  *load = (fleet_load){.next = h->loads, .host = h, .request = request, .token = token};
  h->loads = load;
  fleet_start("load", answer_load, load);
}

static void load_cancel(void *ctx, tp_token token) {
  for (fleet_load *load = ((fleet_host *)ctx)->loads; load; load = load->next)
    if (load->token.bits == token.bits) load->has_left = true;
}

static tp_status load(void *ctx, const tp_history_load *request, tp_fault *fault) {
  const fleet_message *first;
  (void)fault;
  size_t count;
  tp_status status = claim(ctx, request, NULL, &first, &count);
  for (size_t i = 0; status == TP_OK && i < count; i++, first = first->next)
    status = request->each(request->ctx, &first->message);
  return status;
}

static fleet_run *run_of(const fleet_host *h, tp_text turn_id) {
  uint64_t id = fleet_number_of((tp_text){turn_id.data + 1, turn_id.size - 1});
  fleet_run *run = h->runs;
  while (run && run->turn->id != id) run = run->next;
  return run;
}

static fleet_request *append_request(fleet_host *h, const tp_history_append *append) {
  uint32_t session = session_of(append->session);
  fleet_request *r = fleet_request_new(&h->line, FLEET_REQUEST_APPEND, session);
  fleet_run *run = append->message_count ? run_of(h, append->messages[0]->turn_id) : NULL;
  uint64_t ordinal = h->slots[session].ordinal;
  if (!append->claim) fleet_fail(h->w, "an append of a shared history has a claim");
  else {
    r->number = append->claim->number;
    r->fence = append->claim->fence;
    r->position = append->claim->position;
  }
  for (size_t i = 0; i < append->message_count; i++) {
    const tp_message *m = append->messages[i];
    uint64_t id = fleet_number_of(m->text);
    fleet_request_add(r, m);
    if (!id) continue;
    if (run && run->event_count < FLEET_BATCH_MAX)
      run->events[run->event_count++] = fleet_begin_event(h->w, (fleet_event){.kind = FLEET_APPEND,
                                                                              .session = session,
                                                                              .id = id,
                                                                              .number = r->number,
                                                                              .fence = r->fence,
                                                                              .position = ordinal});
    ordinal++;
  }
  return r;
}

static tp_status do_append(fleet_host *h, fleet_request *r) {
  fleet_answer answer;
  fleet_line_enter(&h->line, r->session);
  bool is_answered = fleet_line_ask(&h->line, r, ASK_MS, NULL, &answer);
  fleet_line_leave(&h->line, r->session);
  fleet_request_unref(r);
  return is_answered ? answer.status : TP_ERR_STORE;
}

typedef struct late_append {
  fleet_host *host;
  fleet_request *request;
  tp_token token;
} late_append;

static void answer_append(void *arg) {
  late_append *a = arg;
  (void)tp_history_complete(a->token, do_append(a->host, a->request), NULL, NULL);
  free(a);
}

static void append_start(void *ctx, const tp_history_append *append, tp_token token) {
  late_append *a = calloc(1, sizeof *a);
  if (!a) abort();
  *a = (late_append){ctx, append_request(ctx, append), token};
  fleet_start("append", answer_append, a);
}

static tp_status append(void *ctx, const tp_history_append *request, tp_fault *fault) {
  (void)fault;
  return do_append(ctx, append_request(ctx, request));
}

static void send_release(void *arg) {
  late_append *a = arg;
  fleet_answer answer;
  fleet_line_enter(&a->host->line, a->request->session);
  (void)fleet_line_ask(&a->host->line, a->request, 0, NULL, &answer);
  fleet_line_leave(&a->host->line, a->request->session);
  fleet_request_unref(a->request);
  free(a);
}

static void release(void *ctx, const tp_history_release *request) {
  late_append *a = calloc(1, sizeof *a);
  fleet_host *h = ctx;
  if (!a) abort();
  *a = (late_append){.host = h,
                     .request = fleet_request_new(&h->line, FLEET_REQUEST_APPEND, session_of(request->session))};
  a->request->number = request->claim->number;
  a->request->fence = request->claim->fence;
  a->request->position = request->claim->position;
  fleet_start("release", send_release, a);
}

/* ---- the store ---- */

static void beat(void *arg) {
  fleet_host *h = arg;
  while (!h->line.is_dead && !h->is_gone) {
    fleet_answer answer;
    fleet_request *r = fleet_request_new(&h->line, FLEET_REQUEST_BEAT, 0);
    (void)fleet_line_ask(&h->line, r, FLEET_LEASE_MS / 3, NULL, &answer);
    fleet_request_unref(r);
    tp__sim_sleep_ns(fleet_ns(FLEET_LEASE_MS / 3));
  }
}

static tp_status ask(fleet_host *h, fleet_request *r, fleet_answer *ret_answer) {
  bool is_answered = fleet_line_ask(&h->line, r, ASK_MS, NULL, ret_answer);
  fleet_request_unref(r);
  return is_answered ? ret_answer->status : TP_ERR_STORE;
}

static tp_status store_open(void *ctx, const tp_store_owner *owner, tp_fault *fault) {
  fleet_host *h = ctx;
  fleet_answer answer;
  (void)fault;
  h->line.process = owner->process_run_id;
  fleet_request *r = fleet_request_new(&h->line, FLEET_REQUEST_BEAT, 0);
  while (!h->line.is_dead && !fleet_line_ask(&h->line, r, ASK_MS, NULL, &answer)) continue;
  fleet_request_unref(r);
  fleet_start("beat", beat, h);
  return TP_OK;
}

static tp_status store_record(void *ctx, const tp_entry_record *record) {
  (void)ctx, (void)record;
  return TP_OK;
}

static tp_status store_commit(void *ctx, tp_fault *fault) {
  (void)ctx, (void)fault;
  return TP_OK;
}

static tp_status tool_start(void *ctx, const tp_tool_start_record *record, uint64_t *ret_start_id,
                            tp_tool_end_fn earlier, void *earlier_ctx, tp_fault *fault) {
  fleet_host *h = ctx;
  fleet_answer answer;
  (void)fault;
  tp_text turn = record->ids[TP_ID_TURN];
  uint32_t session = session_of(record->ids[TP_ID_SESSION]);
  fleet_request *r = fleet_request_new(&h->line, FLEET_REQUEST_CALL, session);
  r->key = fleet_number_of((tp_text){turn.data + 1, turn.size - 1});
  r->fence = record->fence;
  size_t event = fleet_begin_event(
      h->w, (fleet_event){.kind = FLEET_TOOL, .session = session, .id = fleet_new_id(h->w), .fence = record->fence});
  if (!record->fence) fleet_fail(h->w, "the start of a call has its turn's fence");
  tp_status status = ask(h, r, &answer);
  if (status == TP_OK && answer.existed) {
    const tp_tool_end_record end = {.struct_size = sizeof end,
                                    .kind = answer.had_ended ? TP_TOOL_OK : TP_TOOL_INTERRUPTED,
                                    .text = tp_text_of("done before")};
    earlier(earlier_ctx, &end);
  } else if (status == TP_OK) {
    *ret_start_id = answer.id;
    h->w->calls++;
    fleet_end_event(h->w, event, FLEET_DONE);
  }
  return status;
}

static tp_status tool_end(void *ctx, const tp_tool_end_record *record, tp_fault *fault) {
  fleet_host *h = ctx;
  fleet_answer answer;
  (void)fault;
  fleet_request *r = fleet_request_new(&h->line, FLEET_REQUEST_CALL_END, 0);
  r->key = record->start_id;
  return ask(h, r, &answer);
}

static uint64_t key_of(tp_text text) {
  uint64_t hash = FLEET_HASH;
  for (size_t i = 0; i < text.size; i++) hash = fleet_hash(hash, (unsigned char)text.data[i]);
  return hash;
}

static tp_status job_insert(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  fleet_host *h = ctx;
  fleet_answer answer;
  (void)fault;
  uint32_t session = session_of(job->order_key);
  fleet_request *r = fleet_request_new(&h->line, FLEET_REQUEST_JOB, session);
  r->key = key_of(job->idempotency_key);
  r->fence = job->fence;
  r->row = fleet_job_row_new(job);
  if (tp_text_is(job->subscription, "job.early") && !job->fence)
    fleet_fail(h->w, "a job that is stored before the append has its turn's fence");
  size_t event =
      fleet_begin_event(h->w, (fleet_event){.kind = FLEET_JOB, .session = session, .id = r->key, .fence = job->fence});
  tp_status status = ask(h, r, &answer);
  if (status == TP_ERR_FENCED) fleet_end_event(h->w, event, FLEET_REFUSED);
  if (status != TP_OK) return status;
  fleet_end_event(h->w, event, FLEET_DONE);
  h->w->stored++;
  *ret_id = answer.id;
  *ret_existed = answer.existed;
  return TP_OK;
}

static tp_status job_claim(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault) {
  fleet_host *h = ctx;
  fleet_answer answer;
  (void)fault;
  *ret_next_ms = request->now_ms + 500;
  tp_status status = ask(h, fleet_request_new(&h->line, FLEET_REQUEST_JOB_CLAIM, 0), &answer);
  if (status != TP_OK) return status;
  tp_job job = answer.row->job;
  job.claim = answer.fence;
  request->take(request->ctx, &job);
  return TP_OK;
}

static tp_status job_renew(void *ctx, const tp_job_renew *renew, tp_fault *fault) {
  fleet_host *h = ctx;
  fleet_answer answer;
  (void)fault;
  fleet_request *r = fleet_request_new(&h->line, FLEET_REQUEST_JOB_RENEW, 0);
  r->job = renew->id;
  r->job_claim = renew->claim;
  return ask(h, r, &answer);
}

static tp_status job_finish(void *ctx, const tp_job_finish *finish, uint32_t *ret_state, tp_fault *fault) {
  fleet_host *h = ctx;
  fleet_answer answer;
  (void)fault;
  fleet_request *r = fleet_request_new(&h->line, FLEET_REQUEST_JOB_END, 0);
  r->job = finish->id;
  r->job_claim = finish->claim;
  r->succeeds = finish->end == TP_JOB_END_SUCCEEDED;
  size_t event = fleet_begin_event(h->w, (fleet_event){.kind = FLEET_FINISH});
  tp_status status = ask(h, r, &answer);
  if (status != TP_OK) return status;
  *ret_state = answer.state;
  h->w->events[event].id = answer.id;
  if (answer.state == TP_JOB_SUCCEEDED) fleet_end_event(h->w, event, FLEET_DONE);
  return TP_OK;
}

static tp_status job_open(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault) {
  (void)order_key, (void)fault;
  *ret_count = fleet_database_open_jobs(((fleet_host *)ctx)->w->db);
  return TP_OK;
}

/* ---- the model, the tool, the job ---- */

static void number_text(char text[24], uint64_t number) { snprintf(text, 24, "%llu", (unsigned long long)number); }

/* The index of the turn's own message; a message of an earlier run of the turn may precede it. */
static size_t own_message(const tp_model_request *request) {
  size_t at = request->message_count - 1;
  while (at > 0 && request->messages[at]->role != TP_ROLE_USER) at--;
  return at;
}

/* What the model reads of its session is a beginning of the session's list, and then the turn's own message. */
static void note_past(fleet_host *h, const tp_model_request *request) {
  fleet_event *e = &h->w->events[h->slots[session_of(request->ids[TP_ID_SESSION])].event];
  uint64_t count = 0, hash = FLEET_HASH;
  for (size_t i = 0; i < own_message(request); i++) {
    uint64_t id = fleet_number_of(request->messages[i]->text);
    if (!id) continue;
    count++;
    hash = fleet_hash(hash, id);
  }
  e->count = e->position = count;
  e->hash = hash;
}

typedef struct later_response {
  tp_token token;
  char text[24];
  bool calls;
} later_response;

static void respond(void *arg) {
  static const tp_tool_call call = {.struct_size = sizeof call, .name = {"charge", 6}};
  static const tp_tool_call *const calls[] = {&call};
  later_response *later = arg;
  uint64_t dice = tp__sim_random(20);
  if (dice > 1) tp__sim_sleep_ns(fleet_random_ns(dice == 2 ? 2 * FLEET_LEASE_MS : 2));
  const tp_model_response response = {.struct_size = sizeof response,
                                      .text = tp_text_of(later->text),
                                      .calls = later->calls ? calls : NULL,
                                      .call_count = later->calls};
  if (tp_model_complete(later->token, &response, NULL) == TP_ERR_USAGE) abort();
  free(later);
}

static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  fleet_host *h = ctx;
  const tp_message *last = request->messages[request->message_count - 1];
  fleet_run *run = run_of(h, request->ids[TP_ID_TURN]);
  later_response *later = calloc(1, sizeof *later);
  if (!later) abort();
  note_past(h, request);
  later->token = token;
  later->calls = last->role == TP_ROLE_USER && run && run->turn->calls_tool;
  number_text(later->text, fleet_new_id(h->w));
  fleet_start("model", respond, later);
}

/* Runs once for each turn, however often the turn is submitted, and on whatever host. A killed host runs nothing. */
static tp_answer charge(void *ctx, tp_tool_run *run) {
  fleet_host *h = ctx;
  tp_text id = tp_tool_run_id(run, TP_ID_TURN);
  fleet_run *of = run_of(h, id);
  if (of && !h->line.is_dead && ++of->turn->tool_runs > 1)
    fleet_fail(h->w, "a call of a turn runs once: that of turn %llu ran again", (unsigned long long)of->turn->id);
  if (fleet_one_in(4)) tp__sim_sleep_ns(fleet_random_ns(FLEET_LEASE_MS));
  return tp_tool_ok(run, tp_text_of("charged"));
}

static tp_answer emit_tools(void *ctx, tp_call *call) {
  const tp_tool tool = {.struct_size = sizeof tool, .name = "charge", .run = charge, .ctx = ctx};
  const tp_tool *list[] = {&tool};
  return tp_call_emit_tool_bundle(call, "fleet", list, 1, NULL) == TP_OK ? TP_ANSWER_DONE
                                                                         : tp_call_fail(call, 1, "no tools");
}

static tp_answer do_job(void *ctx, tp_call *call) {
  (void)ctx, (void)call;
  if (fleet_one_in(3)) tp__sim_sleep_ns(fleet_random_ns(20));
  return TP_ANSWER_DONE;
}

static tp_status subscribe(fleet_host *h, tp_edit *edit, const char *id, tp_phase_id phase, tp_handler_fn run) {
  bool emits = run == emit_tools;
  const tp_handler handler = {.struct_size = sizeof handler,
                              .id = id,
                              .run = run,
                              .ctx = h,
                              .phases = &phase,
                              .phase_count = 1,
                              .capabilities = emits ? TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE : 0,
                              .placement = emits ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD,
                              .idempotent = !emits};
  const tp_subscription subscription = {.struct_size = sizeof subscription,
                                        .id = id,
                                        .handler = id,
                                        .phase = phase,
                                        .execution = emits ? TP_EXECUTION_DEFAULT : TP_EXECUTION_BACKGROUND};
  TP__TRY(tp_edit_add_handler(edit, &handler, NULL));
  return tp_edit_add_subscription(edit, &subscription, NULL);
}

static tp_status subscribe_all(fleet_host *h) {
  static const tp_owner owner = {
      .struct_size = sizeof owner, .name = "host", .trust = TP_TRUST_HOST, .grants = TP_GRANT_PRIVILEGED_HOOKS};
  tp_edit *edit;
  TP__TRY(tp_edit_begin(h->runtime, &owner, &edit, NULL));
  tp_status status = subscribe(h, edit, "tools", TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, emit_tools);
  if (status == TP_OK) status = subscribe(h, edit, "job.early", TP_PHASE_TURN_INTAKE, do_job);
  if (status == TP_OK) status = subscribe(h, edit, "job.late", TP_PHASE_TURN_POST_TURN, do_job);
  if (status == TP_OK) return tp_edit_commit(edit, NULL, NULL);
  tp_edit_discard(edit);
  return status;
}

/* ---- begin and end ---- */

static tp_status open_host(fleet_host *h) {
  const tp_history history = {.struct_size = sizeof history,
                              .ctx = h,
                              .shared = 1,
                              .release = release,
                              .load = h->by_token ? NULL : load,
                              .load_start = h->by_token ? load_start : NULL,
                              .load_cancel = h->by_token ? load_cancel : NULL,
                              .append = h->by_token ? NULL : append,
                              .append_start = h->by_token ? append_start : NULL};
  const tp_store store = {.struct_size = sizeof store,
                          .ctx = h,
                          .name = "fleet",
                          .durable = 1,
                          .open = store_open,
                          .commit = store_commit,
                          .record = store_record,
                          .tool_start = tool_start,
                          .tool_end = tool_end,
                          .job_insert = job_insert,
                          .job_claim = job_claim,
                          .job_renew = job_renew,
                          .job_finish = job_finish,
                          .job_open = job_open};
  TP__TRY(tp_history_share(&fleet_allocator, &history, &h->history, NULL));
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .allocator = fleet_allocator,
                                      .engine_workers = 1,
                                      .store = &store,
                                      .shared_history = h->history,
                                      .durability = TP_DURABILITY_SYNC,
                                      .job_lease_ms = FLEET_LEASE_MS};
  TP__TRY(tp_runtime_new(&options, &h->runtime, NULL));
  TP__TRY(subscribe_all(h));
  TP__TRY(tp_runtime_start(h->runtime, NULL));
  const tp_model model = {
      .struct_size = sizeof model, .name = "m", .ctx = h, .start = model_start, .placement = TP_PLACEMENT_INLINE};
  for (uint32_t s = 0; s < h->w->session_count; s++) {
    char name[16];
    snprintf(name, sizeof name, "s%u", s);
    const tp_session_options session = {.struct_size = sizeof session,
                                        .id = name,
                                        .model = &model,
                                        .busy = h->waits ? TP_BUSY_WAIT : TP_BUSY_REFUSE,
                                        .busy_wait_ms = h->waits ? BUSY_WAIT_MS : 0};
    TP__TRY(tp_session_open(h->runtime, &session, &h->sessions[s], NULL));
  }
  return TP_OK;
}

static void close_host(fleet_host *h) {
  for (uint32_t s = 0; s < h->w->session_count; s++)
    if (h->sessions[s]) tp_session_close(h->sessions[s], NULL, NULL);
  (void)!tp_runtime_drain(h->runtime, h->line.is_dead ? 0 : DRAIN_MS, NULL, NULL);
  tp_runtime_free(h->runtime);
  tp_shared_history_unref(h->history);
  h->is_gone = true;
}

/* ---- turns ---- */

static fleet_turn *new_turn(fleet_world *w) {
  fleet_turn *turn = calloc(1, sizeof *turn);
  if (!turn || w->turn_count == sizeof w->turns / sizeof *w->turns) abort();
  turn->id = fleet_new_id(w);
  turn->session = (uint32_t)tp__sim_random(w->session_count);
  turn->calls_tool = fleet_one_in(2);
  w->turns[w->turn_count++] = turn;
  return turn;
}

static void note_end(fleet_host *h, const fleet_run *run, const tp_turn_result *result) {
  fleet_world *w = h->w;
  bool completed = result->outcome == TP_TURN_COMPLETED;
  if (completed) w->acknowledged++;
  else if (result->code == TP_ERR_BUSY) w->busy++;
  else if (result->code == TP_ERR_FENCED) w->fenced++;
  else w->failed++;
  if (h->line.is_dead) return; /* the result reaches no one */
  if (result->code == TP_ERR_FENCED && w->trouble == TROUBLE_NONE && !w->clock_jumps)
    fleet_fail(w, "no turn loses its session without trouble: turn %llu did", (unsigned long long)run->turn->id);
  if (completed) run->turn->acknowledged = true;
  if (completed && run->event_count == 0 && !result->is_stored)
    fleet_fail(w, "turn %llu is completed, and nothing of it was appended", (unsigned long long)run->turn->id);
  if (w->trouble == TROUBLE_NONE && w->host_count == 1 && !w->clock_jumps && !completed &&
      result->outcome != TP_TURN_CANCELLED && result->outcome != TP_TURN_TIMED_OUT)
    fleet_fail(w, "a turn without trouble is completed: %.*s", (int)result->reason.size, result->reason.data);
  for (size_t i = 0; i < run->event_count; i++)
    if (completed || result->code == TP_ERR_FENCED)
      fleet_end_event(w, run->events[i], completed ? FLEET_DONE : FLEET_REFUSED);
}

typedef struct ended {
  bool done;
  fleet_host *host;
  fleet_run *run;
} ended;

static void turn_ended(void *ctx, const tp_turn_result *result) {
  ended *e = ctx;
  note_end(e->host, e->run, result);
  e->done = true;
}

static void submit(fleet_host *h, fleet_turn *turn) {
  char id[32], text[32];
  fleet_run *run = calloc(1, sizeof *run);
  ended end = {.host = h, .run = run};
  tp_submission *submission;
  if (!run) abort();
  *run = (fleet_run){.next = h->runs, .turn = turn};
  h->runs = run;
  snprintf(id, sizeof id, "t%llu", (unsigned long long)turn->id);
  snprintf(text, sizeof text, "say %llu", (unsigned long long)turn->id);
  const tp_turn_request request = {.struct_size = sizeof request,
                                   .id = id,
                                   .text = tp_text_of(text),
                                   .limit_ms = fleet_one_in(6) ? 1 + (uint32_t)tp__sim_random(20000) : 0};
  if (tp_turn_submit(h->sessions[turn->session], &request, turn_ended, &end, &submission, NULL) != TP_OK) return;
  if (fleet_one_in(8)) {
    tp__sim_sleep_ns(fleet_random_ns(2000));
    tp_submission_cancel(submission);
  }
  while (!end.done) tp__sim_sleep_ns(fleet_ns(10));
  tp_submission_unref(submission);
}

static void submit_turns(void *arg) {
  fleet_host *h = arg;
  fleet_world *w = h->w;
  for (uint32_t i = 0; i < w->turns_each && !h->line.is_dead; i++) {
    fleet_turn *turn = new_turn(w);
    for (int n = 0; n < SUBMITS_MAX && !turn->acknowledged && (n == 0 || !fleet_one_in(3)); n++) {
      if (h->line.is_dead) break;
      submit(h, turn);
      tp__sim_sleep_ns(fleet_random_ns(1000));
    }
    if (!turn->acknowledged && w->left_count < FLEET_LEFT_MAX) w->left[w->left_count++] = turn;
    while (w->left_count > 0 && !h->line.is_dead && fleet_one_in(2)) submit(h, w->left[--w->left_count]);
  }
  h->submitting--;
  if (h->submitting == 0) w->living--;
}

static void live(void *arg) {
  fleet_host *h = arg;
  if (open_host(h) != TP_OK) fleet_fail(h->w, "a host starts");
  for (int i = 0; i < HOST_FIBERS; i++) fleet_start("turns", submit_turns, h);
}

static fleet_host *new_host(fleet_world *w) {
  fleet_host *h = calloc(1, sizeof *h);
  if (!h) abort();
  h->w = h->line.w = w;
  h->by_token = fleet_one_in(2);
  h->waits = fleet_one_in(2);
  h->submitting = HOST_FIBERS;
  h->next = w->hosts;
  w->hosts = h;
  return h;
}

void fleet_host_start(fleet_world *w) {
  w->living++;
  fleet_start("host", live, new_host(w));
}

/* ---- trouble ---- */

static fleet_host *any_host(const fleet_world *w) {
  fleet_host *found = NULL;
  uint64_t seen = 0;
  for (fleet_host *h = w->hosts; h; h = h->next)
    if (!h->line.is_dead && h->runtime && h->submitting > 0 && tp__sim_random(++seen) == 0) found = h;
  return found;
}

void fleet_hosts_trouble(fleet_world *w) {
  fleet_host *h = any_host(w);
  if (!h) return;
  if (w->trouble >= TROUBLE_KILLS && fleet_one_in(2) && w->kills < FLEET_KILLS_MAX) {
    w->kills++;
    h->line.is_dead = true;
    fleet_host_start(w);
  } else {
    h->line.holds = fleet_one_in(2);
    h->line.cut_until_ns = tp__now_ns() + fleet_random_ns(3 * FLEET_LEASE_MS);
  }
}

/* ---- the end ---- */

/* A fiber that is about to ask is not counted yet, so it must stay quiet for a while. */
void fleet_hosts_settle(fleet_world *w) {
  for (int quiet = 0; quiet < 3; quiet++) {
    tp__sim_sleep_ns(fleet_ns(1000));
    for (const fleet_host *h = w->hosts; h; h = h->next)
      if (!h->line.is_dead && h->line.asking > 0) quiet = -1;
  }
}

void fleet_hosts_close(fleet_world *w) {
  for (fleet_host *h = w->hosts; h; h = h->next)
    if (h->runtime && !h->is_gone) close_host(h);
}

void fleet_hosts_fini(fleet_world *w) {
  while (w->hosts) {
    fleet_host *h = w->hosts;
    w->hosts = h->next;
    while (h->runs) {
      fleet_run *run = h->runs;
      h->runs = run->next;
      free(run);
    }
    free(h);
  }
}
