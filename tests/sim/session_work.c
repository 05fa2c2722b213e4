/* SPDX-License-Identifier: Apache-2.0 */
#include "session_work.h"

#include "history.h"

#include <stdio.h>
#include <stdlib.h>

enum { TURN_LIMIT_MS = 300, JOB_ATTEMPTS = 3, POSTPONED_MAX = 4 };

/* ---- the model: says one thing, at once or later ---- */

typedef struct answer {
  session_work *c;
  tp_token token;
} answer;

static void answer_now(answer *a) {
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("as the model says")};
  tp_status status = tp_model_complete(a->token, &response, NULL);
  if (status != TP_OK && status != TP_ERR_STALE)
    world_fail(a->c->w, "a completion is taken or stale", "of a session workload: %s", tp_status_name(status));
  free(a);
}

static void answer_later(void *arg) {
  tp__sim_sleep_ns(world_pause_ns(2000));
  answer_now(arg);
}

static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  session_work *c = ctx;
  answer *a = malloc(sizeof *a);
  if (!a) abort();
  *a = (answer){c, token};
  added_work_check(&c->added, request);
  if (world_one_in(2) || !world_start("model", answer_later, a)) answer_now(a);
}

static void model_destroy(void *ctx) {
  session_work *c = ctx;
  c->models_destroyed++;
  world_destructor(c->w);
}

/* ---- what hears of it ---- */

static session_work *heard(void *ctx, const tp_call *call) {
  session_work *c = ((world *)ctx)->session_work;
  return c && tp_text_is(tp_call_id(call, TP_ID_SESSION), "q") ? c : NULL;
}

static session_work_turn *turn_of(session_work *c, tp_text id) {
  for (uint32_t h = 0; h < c->host_count; h++)
    for (uint32_t i = 0; i < SESSION_WORK_TURNS_MAX; i++)
      if (tp_text_is(id, c->hosts[h].turns[i].id)) return &c->hosts[h].turns[i];
  return NULL;
}

/* False when a jump of the clock may time out a handler: then a phase may end without calling the next one. */
static bool phases_are_certain(const world *w) { return w->s->fault_level < FAULTS_CLOCK; }

/* Whose host waits for it hears of its end later than the next turn begins. */
static bool is_over(const session_work_turn *turn) {
  return turn->ends || turn->posts || (turn->waited_for && !phases_are_certain(turn->host->session_work->w));
}

static void look_around(session_work *c, const session_work_turn *turn) {
  for (uint32_t h = 0; h < c->host_count; h++)
    for (uint32_t i = 0; i < SESSION_WORK_TURNS_MAX; i++) {
      const session_work_turn *other = &c->hosts[h].turns[i];
      if (other != turn && other->begun && !is_over(other))
        world_fail(c->w, "one turn of a session at a time", "%s and %s", other->id, turn->id);
    }
}

static tp_answer hear_intake(void *ctx, tp_call *call) {
  session_work *c = heard(ctx, call);
  session_work_turn *turn = c ? turn_of(c, tp_call_id(call, TP_ID_TURN)) : NULL;
  if (!turn || is_over(turn)) return TP_ANSWER_DONE; /* called late, its turn is over */
  turn->begun = true;
  look_around(c, turn);
  tp__sim_sleep_ns(world_pause_ns(2000));
  return TP_ANSWER_DONE;
}

static tp_answer hear_post(void *ctx, tp_call *call) {
  session_work *c = heard(ctx, call);
  session_work_turn *turn = c ? turn_of(c, tp_call_id(call, TP_ID_TURN)) : NULL;
  if (turn && ++turn->posts == 1) turn->post_place = ++c->posts;
  return TP_ANSWER_DONE;
}

/* Background work of a session: in the order of its turns, one at a time, each once. */
static void check_job(session_work *c, const session_work_turn *turn, uint32_t attempt) {
  /* When time jumps, a run may come too late, and a drain may cancel it: then the job is tried again. */
  bool at_ease = phases_are_certain(c->w) && !c->w->draining;
  uint32_t runs_max = (at_ease ? JOB_ATTEMPTS : JOB_ATTEMPTS + 4) + turn->postponed;
  if (turn->jobs > runs_max) world_fail(c->w, "a job succeeds once", "of %s: %u runs", turn->id, turn->jobs);
  if (!at_ease) return;
  if (turn->job_done) world_fail(c->w, "a job succeeds once", "of %s: it is called again", turn->id);
  if (turn->jobs - turn->postponed != attempt)
    world_fail(c->w, "a job knows its attempt, and what is postponed is none",
               "of %s: call %u, %u postponed, is attempt %u", turn->id, turn->jobs, turn->postponed, attempt);
  if (c->working > 1) world_fail(c->w, "one job of a session at a time", "of %s: beside another one", turn->id);
  if (c->w->s->jobs_max && c->w->s->backlog > TP_BACKLOG_WAIT) return; /* one before it may never have been stored */
  for (uint32_t h = 0; h < c->host_count; h++)
    for (uint32_t i = 0; i < SESSION_WORK_TURNS_MAX; i++) {
      const session_work_turn *other = &c->hosts[h].turns[i];
      if (other->post_place && other->post_place < turn->post_place && !other->job_done)
        world_fail(c->w, "jobs of a session run in order", "of %s: before that of %s", turn->id, other->id);
    }
}

static tp_answer do_job(void *ctx, tp_call *call) {
  session_work *c = heard(ctx, call);
  session_work_turn *turn = c ? turn_of(c, tp_call_id(call, TP_ID_TURN)) : NULL;
  if (!turn) return TP_ANSWER_DONE;
  c->working++;
  turn->jobs++;
  uint32_t attempt = tp_call_attempt(call);
  check_job(c, turn, attempt);
  tp__sim_sleep_ns(world_pause_ns(2000));
  c->working--;
  if (turn->postponed < POSTPONED_MAX && world_one_in(4)) {
    turn->postponed++;
    return tp_call_postpone(call, 1, "as the job says");
  }
  if (attempt < JOB_ATTEMPTS && world_one_in(4)) return tp_call_fail_retryable(call, 1, "as the job says");
  turn->job_done = true;
  return TP_ANSWER_DONE;
}

static tp_answer hear_end(void *ctx, tp_call *call) {
  session_work *c = heard(ctx, call);
  if (c) c->session_ends++;
  return TP_ANSWER_DONE;
}

static tp_answer hear_unregister(void *ctx, tp_call *call) {
  (void)call;
  ((world *)ctx)->session_work->unregistered++;
  return TP_ANSWER_DONE;
}

/* Two handlers that register agents; the second may refuse. */
static tp_answer count_registration(session_work *c, int index, tp_call *call) {
  bool registers = tp_call_phase(call) == TP_PHASE_AGENT_REGISTER;
  if (registers && index == 1 && c->refuses) return tp_call_deny(call, "as the registrar says");
  if (!phases_are_certain(c->w)) return TP_ANSWER_DONE; /* after a time jump the run may not count */
  if (registers && c->registered[index]++) world_fail(c->w, "an agent is registered once", "by registrar %d", index);
  if (!registers && c->registered[index]-- == 0)
    world_fail(c->w, "who has not registered an agent does not unregister it", "registrar %d", index);
  return TP_ANSWER_DONE;
}
static tp_answer first_registrar(void *ctx, tp_call *call) {
  return count_registration(((world *)ctx)->session_work, 0, call);
}
static tp_answer second_registrar(void *ctx, tp_call *call) {
  return count_registration(((world *)ctx)->session_work, 1, call);
}

tp_status session_work_register(world *w, tp_edit *edit) {
  static const world_hook hooks[] = {
      {.id = "y.job", .phase = TP_PHASE_TURN_POST_TURN, .run = do_job, .background = true, .attempts = JOB_ATTEMPTS},
      {.id = "y.one",
       .phase = TP_PHASE_AGENT_REGISTER,
       .also = TP_PHASE_AGENT_UNREGISTER,
       .run = first_registrar,
       .is_inline = true,
       .alias = "on_register_agent"},
      {.id = "y.two",
       .phase = TP_PHASE_AGENT_REGISTER,
       .also = TP_PHASE_AGENT_UNREGISTER,
       .run = second_registrar,
       .is_inline = true,
       .capabilities = TP_CAPABILITY_DECIDE},
      {.id = "y.intake", .phase = TP_PHASE_TURN_INTAKE, .run = hear_intake, .alias = "PromptSubmit"},
      {.id = "y.post", .phase = TP_PHASE_TURN_POST_TURN, .run = hear_post, .is_inline = true},
      {.id = "y.end", .phase = TP_PHASE_SESSION_END, .run = hear_end, .is_inline = true, .alias = "SessionStop"},
      {.id = "y.unregister",
       .phase = TP_PHASE_AGENT_UNREGISTER,
       .run = hear_unregister,
       .is_inline = true,
       .alias = "on_unregister_agent"}};
  for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
    world_hook hook = hooks[i];
    if (hook.background) hook.backlog = w->s->backlog;
    TP__TRY(world_subscribe(w, edit, &hook));
  }
  return TP_OK;
}

/* ---- turns ---- */

static void turn_ended(session_work_turn *turn, const tp_turn_result *result) {
  session_work *c = turn->host->session_work;
  turn->end_place = ++c->ends;
  if (++turn->ends > 1) world_fail(c->w, "a turn ends once", "%s", turn->id);
  bool completed = result->outcome == TP_TURN_COMPLETED;
  added_work_turn_ended(&c->added, result->outcome);
  if (world_is_fault_free(c->w) && !completed)
    world_fail(c->w, "a turn without trouble is completed", "%s is %s", turn->id,
               tp_turn_outcome_name(result->outcome));
  turn->unbegun = result->started_ns == 0;
  if (turn->unbegun && (completed || turn->begun || turn->posts))
    world_fail(c->w, "a turn that ends in the queue fires nothing", "%s is %s", turn->id,
               tp_turn_outcome_name(result->outcome));
  if (turn->posts > 1 || (phases_are_certain(c->w) && !turn->unbegun && turn->posts != 1))
    world_fail(c->w, "post_turn exactly once", "%s, %s: %u times", turn->id, tp_turn_outcome_name(result->outcome),
               turn->posts);
}

static void submitted_ended(void *ctx, const tp_turn_result *result) { turn_ended(ctx, result); }

static void check_status(const session_work *c, tp_status status) {
  if (status == TP_ERR_FULL && c->queued_max) return;
  world_check_status(c->w, "a turn of a session workload", status);
}

static void submit(session_work_turn *turn, const tp_turn_request *request) {
  session_work *c = turn->host->session_work;
  turn->taken = true; /* it may end before the submit returns */
  tp_status status = tp_turn_submit(c->session, request, submitted_ended, turn, &turn->turn, NULL);
  if (status != TP_OK) turn->taken = false;
  check_status(c, status);
}

static void run_here(session_work_turn *turn, const tp_turn_request *request) {
  const tp_turn_result *result;
  turn->waited_for = true;
  tp_status status = tp_turn_run(turn->host->session_work->session, request, &result, NULL);
  check_status(turn->host->session_work, status);
  if (status != TP_OK) return;
  turn->taken = true;
  turn_ended(turn, result);
  tp_turn_result_free(result);
}

/* Adds a message to one of its turns, or to the running one; the turn may wait, run, be about to end, or have ended. */
static void add_one(session_work_host *host) {
  session_work *c = host->session_work;
  const session_work_turn *turn = &host->turns[tp__sim_random(host->turn_count)];
  const char *id = world_one_in(2) ? NULL : turn->id;
  added_work_add(&c->added, (uint32_t)(host - c->hosts), c->session, id, world_one_in(2) ? turn->turn : NULL);
}

static void cancel_one(session_work_host *host) {
  session_work_turn *turn = &host->turns[tp__sim_random(host->turn_count)];
  if (!turn->turn) return;
  tp_submission_cancel(turn->turn);
}

static void host_run(void *arg) {
  session_work_host *host = arg;
  session_work *c = host->session_work;
  for (uint32_t i = 0; i < host->turn_count; i++) {
    session_work_turn *turn = &host->turns[i];
    tp_turn_request request = {.struct_size = sizeof request,
                               .id = turn->id,
                               .text = tp_text_of("hello"),
                               .limit_ms = world_is_fault_free(c->w) ? 0 : TURN_LIMIT_MS};
    tp__sim_sleep_ns(world_pause_ns(1500));
    if (c->w->s->options.no_engine_workers || world_one_in(4)) run_here(turn, &request);
    else submit(turn, &request);
    for (uint32_t adds = (uint32_t)tp__sim_random(4); adds > 0; adds--) {
      tp__sim_sleep_ns(world_pause_ns(500));
      add_one(host);
    }
    if (!world_is_fault_free(c->w) && world_one_in(4)) cancel_one(host);
  }
  for (uint32_t i = 0; i < host->turn_count; i++)
    if (host->turns[i].turn) tp_submission_unref(host->turns[i].turn);
}

/* ---- the session and its agent ---- */

static void hear_event(void *ctx, const tp_event *event) { added_work_hear(&((session_work *)ctx)->added, event); }

static tp_model model_of(session_work *c) {
  return (tp_model){.struct_size = sizeof(tp_model),
                    .name = "shared",
                    .ctx = c,
                    .start = model_start,
                    .destroy = model_destroy,
                    .placement = world_one_in(2) ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
}

/* A drain cancels what adds an agent. */
static void check_add(const session_work *c, tp_status status) {
  if (status != TP_ERR_CANCELLED || !c->w->draining) world_check_status(c->w, "tp_agent_add", status);
}

/* Refused by a registrar: nothing of it is left, and its id is free. */
static void refuse_agent(session_work *c, const tp_agent_config *config) {
  tp_agent *agent;
  c->refuses = true;
  tp_status status = tp_agent_add(c->w->runtime, config, &agent, NULL);
  c->refuses = false;
  if (status == TP_ERR_DENIED) c->agents_refused++;
  else if (status == TP_OK) world_fail(c->w, "an agent that is refused is not added", "it was");
  else check_add(c, status);
  if (phases_are_certain(c->w) && (c->registered[0] || c->registered[1]))
    world_fail(c->w, "a refused agent is unregistered where it was registered", "%u, %u", c->registered[0],
               c->registered[1]);
}

static void add_agent(session_work *c) {
  const tp_model model = model_of(c);
  tp_agent_config config = {.struct_size = sizeof config, .id = "shared", .system = "be kind", .model = &model};
  if (world_one_in(3)) refuse_agent(c, &config);
  tp_status status = tp_agent_add(c->w->runtime, &config, &c->agent, NULL);
  bool denied = status == TP_ERR_DENIED && !phases_are_certain(c->w); /* by a registrar that came too late */
  if (denied) c->agents_refused++;
  else check_add(c, status);
  if (status != TP_OK) c->agent = NULL;
  else c->agents_made++, c->model_taken = true;
  tp_agent *twin;
  if (c->agent && tp_agent_add(c->w->runtime, &config, &twin, NULL) == TP_OK)
    world_fail(c->w, "an agent's id is its own", "a second one was taken");
}

/* A second handle of an open session is refused. */
static void open_twice(const session_work *c) {
  tp_session_options options = {.struct_size = sizeof options, .id = "q"};
  tp_session *second;
  tp_status status = tp_session_open(c->w->runtime, &options, &second, NULL);
  if (status == TP_OK) world_fail(c->w, "a session has one handle", "a second one was opened");
  if (status != TP_ERR_BUSY) world_check_status(c->w, "tp_session_open of an open session", status);
}

static tp_status open_session(session_work *c) {
  tp_session_options options = {.struct_size = sizeof options,
                                .id = "q",
                                .agent = c->agent,
                                .turns_queued_max = c->queued_max,
                                .on_event = hear_event,
                                .event_ctx = c};
  tp_model model;
  if (!c->agent) {
    model = model_of(c);
    options.model = &model;
  }
  tp_status status = tp_session_open(c->w->runtime, &options, &c->session, NULL);
  if (status == TP_OK) c->model_taken = true;
  world_check_status(c->w, "tp_session_open", status);
  return status;
}

static void remove_agent(session_work *c) {
  bool submitted = !c->w->s->options.no_engine_workers && world_one_in(2) &&
                   tp_agent_remove_submit(c->agent, NULL, NULL, NULL) == TP_OK;
  if (!submitted) tp_agent_remove(c->agent);
  c->agent = NULL;
}

static void phase_ended(void *ctx) {
  session_work *c = ctx;
  c->phases_ended++;
  if (c->closed) world_fail(c->w, "a session's end is reported last", "a phase of it ended behind");
}

static void end_phase(session_work *c) {
  const tp_session_end end = {.struct_size = sizeof end,
                              .reason = "for a change",
                              .changed_files = {"\x91\xa1"
                                                "f",
                                                3}};
  bool submitted = !c->w->s->options.no_engine_workers && world_one_in(2);
  uint32_t ended = c->phases_ended;
  tp_status status = submitted ? tp_session_end_phase_submit(c->session, &end, phase_ended, c, NULL)
                               : tp_session_end_phase(c->session, &end, NULL);
  check_status(c, status);
  if (status != TP_OK && c->phases_ended != ended)
    world_fail(c->w, "what was refused is not reported", "the end of a phase of a session workload's session");
  if (status != TP_OK) return;
  c->session_ends_wanted++;
  c->phases_submitted += submitted;
}

static void use_session(session_work *c) {
  tp__thread *threads[SESSION_WORK_HOSTS_MAX];
  if (world_one_in(2)) open_twice(c);
  for (uint32_t i = 0; i < c->host_count; i++) {
    threads[i] = world_start_joined("guest", host_run, &c->hosts[i]);
    if (!threads[i]) host_run(&c->hosts[i]);
  }
  if (world_one_in(3)) remove_agent(c);
  if (world_one_in(3)) end_phase(c);
  for (uint32_t i = 0; i < c->host_count; i++)
    if (threads[i]) tp__thread_join(threads[i]);
}

static void session_closed(void *ctx) {
  session_work *c = ctx;
  if (c->closed) world_fail(c->w, "a session's end is reported once", "of a session workload: twice");
  for (uint32_t h = 0; h < c->host_count; h++)
    for (uint32_t i = 0; i < SESSION_WORK_TURNS_MAX; i++)
      if (c->hosts[h].turns[i].taken && !c->hosts[h].turns[i].ends)
        world_fail(c->w, "a session's end is reported last", "%s has not ended", c->hosts[h].turns[i].id);
  if (phases_are_certain(c->w) && !c->w->s->options.turns_max && c->session_ends != c->session_ends_wanted)
    world_fail(c->w, "a session's end is reported last", "session.end came %u times", c->session_ends);
  c->closed = true;
  tp__parker_unpark(&c->parker);
}

void session_work_run(void *arg) {
  session_work *c = arg;
  tp__sim_sleep_ns(world_pause_ns(3000));
  if (world_one_in(2)) add_agent(c);
  if (open_session(c) == TP_OK) {
    use_session(c);
    c->session_ends_wanted++;
    tp_session_close(c->session, session_closed, c);
    if (world_one_in(2)) remove_agent(c);
    while (!c->closed) tp__parker_park_until(&c->parker, TP__NEVER);
    history_delete(c->w, "q");
  }
  remove_agent(c);
}

void session_work_name(session_work *c, world *w) {
  *c = (session_work){.w = w,
                      .added = {.w = w},
                      .host_count = 1 + (uint32_t)(w->s->tool_work_stream % SESSION_WORK_HOSTS_MAX),
                      .queued_max = (uint32_t)(w->s->tool_work_stream >> 8) % 4};
  for (uint32_t h = 0; h < c->host_count; h++) {
    session_work_host *host = &c->hosts[h];
    host->session_work = c;
    host->turn_count = 1 + (uint32_t)(w->s->tool_work_stream >> (16 + 2 * h)) % SESSION_WORK_TURNS_MAX;
    for (uint32_t i = 0; i < SESSION_WORK_TURNS_MAX; i++) {
      host->turns[i].host = host;
      snprintf(host->turns[i].id, sizeof host->turns[i].id, "q%u.%u", h % 10, i % 10);
    }
  }
}

/* ---- the end ---- */

static void check_turns(const session_work_host *host) {
  const world *w = host->session_work->w;
  uint32_t place = 0;
  for (uint32_t i = 0; i < host->turn_count; i++) {
    const session_work_turn *turn = &host->turns[i];
    if (turn->ends != turn->taken) world_fail((world *)w, "a turn ends once", "%s: %u times", turn->id, turn->ends);
    if (turn->unbegun) continue; /* its end came from the queue */
    if (turn->taken && turn->end_place < place)
      world_fail((world *)w, "turns of a session end in order", "%s before the one before it", turn->id);
    if (turn->taken) place = turn->end_place;
  }
}

/* A job is done; or it was refused or left out by the policy for a full backlog, and counted. */
static void check_jobs(const session_work *c) {
  world *w = c->w;
  uint64_t missing = 0;
  const tp_backlog backlog = w->s->jobs_max ? w->s->backlog : TP_BACKLOG_WAIT;
  for (uint32_t h = 0; h < c->host_count; h++)
    for (uint32_t i = 0; i < c->hosts[h].turn_count; i++)
      missing += c->hosts[h].turns[i].posts > 0 && !c->hosts[h].turns[i].job_done;
  if (!world_is_fault_free(w) || w->s->drain_ns) return;
  /* Turns of other sessions have this job, too, and nested ones do not wait. */
  const uint64_t counted = backlog == TP_BACKLOG_REFUSE ? w->jobs_refused
                           : backlog == TP_BACKLOG_SHED ? w->jobs_shed
                                                        : 0;
  if (missing > counted || (backlog != TP_BACKLOG_SHED && w->jobs_shed > 0))
    world_fail(w, "a job is done, or was refused by its policy and counted",
               "of %llu that are missing %llu were refused and %llu shed, and the policy is %s",
               (unsigned long long)missing, (unsigned long long)w->jobs_refused, (unsigned long long)w->jobs_shed,
               tp_backlog_name(backlog));
}

void session_work_ended(const session_work *c) {
  world *w = c->w;
  for (uint32_t i = 0; i < c->host_count; i++) check_turns(&c->hosts[i]);
  check_jobs(c);
  if (c->models_destroyed != c->model_taken)
    world_fail(w, "a model is destroyed exactly once", "a session workload's: %u times", c->models_destroyed);
  bool sure = phases_are_certain(w) && !w->s->options.turns_max;
  if (c->session_ends > c->session_ends_wanted || (sure && c->session_ends != c->session_ends_wanted))
    world_fail(w, "session.end exactly once", "of a session workload: %u times instead of %u", c->session_ends,
               c->session_ends_wanted);
  if (c->phases_ended != c->phases_submitted)
    world_fail(w, "the end of a phase is reported once", "of a session workload: %u times instead of %u",
               c->phases_ended, c->phases_submitted);
  if (c->unregistered > c->agents_made + c->agents_refused)
    world_fail(w, "agent.unregister at most once", "of a session workload: %u times", c->unregistered);
  if (sure && !w->s->drain_ns && c->unregistered != c->agents_made + c->agents_refused)
    world_fail(w, "agent.unregister exactly once", "of a session workload: %u times", c->unregistered);
  if (sure && !w->s->drain_ns && (c->registered[0] || c->registered[1]))
    world_fail(w, "agent.unregister exactly once", "of a session workload: %u and %u are left", c->registered[0],
               c->registered[1]);
}
