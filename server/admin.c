/* SPDX-License-Identifier: Apache-2.0 */
#include "server/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/live.h"
#include "server/metrics.h"
#include "support/clock.h"
#include "support/text.h"

enum { HANDLERS_MAX = 50, JOBS_MAX = 500 };

/* ---- answers ---- */

static void answer_json(tp__operator_request *r, tp__bytes *out) {
  static const tp__http_field fields[] = {{"Content-Type", "application/json"},
                                          {"Cache-Control", "no-store"},
                                          {"X-Content-Type-Options", "nosniff"},
                                          {NULL, NULL}};
  tp__bytes_put(out, "\n", 1);
  tp__http_answer(r->request, out->failed ? 503 : 200, fields, out->failed ? (tp_text){0} : tp__bytes_text(out));
  tp__bytes_fini(out);
}

static void answer_done(tp__operator_request *r) {
  tp__bytes out = {0};
  tp__bytes_put_string(&out, "{\"done\":true}");
  answer_json(r, &out);
}

static void refuse_status(tp__operator_request *r, tp_status status, const tp_fault *fault) {
  tp__refusal refusal;
  if (status == TP_ERR_NOT_FOUND)
    (void)tp__refusal_fill(&refusal, 404, "not_found", NULL, "%s", fault->message[0] ? fault->message : "not there");
  else if (status == TP_ERR_BUSY || status == TP_ERR_STALE || status == TP_ERR_FULL)
    (void)tp__refusal_fill(&refusal, 409, "conflict", NULL, "%s", fault->message[0] ? fault->message : "not now");
  else tp__refusal_of_status(&refusal, status, fault);
  tp__refusal_answer(&refusal, r->request);
}

/* ---- bodies ---- */

/** A member of a body: a text, a whole number above 0, or a bool. */
typedef struct member {
  const char *name;
  enum { MEMBER_TEXT, MEMBER_NUMBER, MEMBER_BOOL } kind;
  bool is_required;
  void *to; /* tp_text *, int64_t * or bool *, by the kind */
} member;

static bool read_member(tp_text value, const member *m) {
  switch (m->kind) {
    case MEMBER_TEXT:
      *(tp_text *)m->to = tp_value_text(value);
      return tp_value_kind_of(value) == TP_VALUE_TEXT;
    case MEMBER_NUMBER:
      *(int64_t *)m->to = tp_value_int(value, 0);
      return tp_value_kind_of(value) == TP_VALUE_INT && *(int64_t *)m->to > 0;
    default:
      *(bool *)m->to = tp_value_bool(value, false);
      return tp_value_kind_of(value) == TP_VALUE_BOOL;
  }
}

/* Reads the members of a body. @return false: the refusal names the member. */
static bool read_members(tp_text map, const member *members, size_t count, tp__refusal *refusal) {
  tp_value_walk walk = {0};
  if (tp_value_kind_of(map) != TP_VALUE_MAP)
    return tp__refusal_fill(refusal, 400, "invalid_json", NULL, "the body is one JSON object");
  while (tp_value_next(map, &walk)) {
    size_t i = 0;
    while (i < count && !tp__is_word(walk.key, members[i].name)) i++;
    if (i == count)
      return tp__refusal_fill(refusal, 400, "unknown_parameter", NULL, "there is no member '%.*s' here",
                              tp__cut(walk.key, 64), walk.key.data);
    if (!read_member(walk.value, &members[i]))
      return tp__refusal_fill(refusal, 400, "invalid_value", members[i].name, "'%s' is of another type",
                              members[i].name);
  }
  for (size_t i = 0; i < count; i++)
    if (members[i].is_required && tp_value_get(map, members[i].name).size == 0)
      return tp__refusal_fill(refusal, 400, "invalid_value", members[i].name, "'%s' is missing", members[i].name);
  return true;
}

/* Reads a body. The members point into the writer. @return NULL: the request was refused. */
static tp_writer *read_body(tp__operator_request *r, const member *members, size_t count) {
  tp_writer *writer = NULL;
  tp_text value = {0};
  tp_fault fault = {0};
  tp__refusal refusal;
  tp_status status = tp_writer_new(NULL, &writer);
  if (status == TP_OK) status = tp_json_decode(tp__bytes_text(&r->body), writer, &fault);
  if (status == TP_OK) status = tp_writer_finish(writer, &value);
  bool reads = status == TP_OK ? read_members(value, members, count, &refusal)
                               : tp__refusal_fill(&refusal, 400, "invalid_json", NULL, "%s", fault.message);
  if (reads) return writer;
  tp_writer_free(writer);
  tp__refusal_answer(&refusal, r->request);
  return NULL;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void audit_action(tp_server *server, const char *action, tp_text what, tp_status decision) {
  what.size = (size_t)tp__cut(what, 255);
  (void)!tp_runtime_audit_add(server->runtime, "operator", action, what, decision, NULL);
}

/* ---- what there is ---- */

static void put_handlers(tp_server *server, tp__bytes *out) {
  tp__metrics_summary *all = tp__heap_alloc(HANDLERS_MAX * sizeof *all);
  size_t count = all ? tp__metrics_largest(server->metrics, TP__METRIC_handler_duration, all, HANDLERS_MAX) : 0;
  out->failed |= !all;
  tp__bytes_put(out, "[", 1);
  for (size_t i = 0; i < count; i++) {
    tp__bytes_put_string(out, i > 0 ? ",{\"handler\":" : "{\"handler\":");
    tp__put_json(out, tp_text_of(all[i].label));
    const double numbers[] = {all[i].sum_s, all[i].sum_s / (double)all[i].count, all[i].p95_s, all[i].max_s};
    static const char *const names[] = {"total_us", "mean_us", "p95_us", "max_us"};
    tp__bytes_printf(out, ",\"count\":%" PRIu64, all[i].count);
    for (size_t k = 0; k < COUNT(names); k++)
      tp__bytes_printf(out, ",\"%s\":%" PRId64, names[k], (int64_t)(numbers[k] * 1e6));
    tp__bytes_put(out, "}", 1);
  }
  tp__bytes_put(out, "]", 1);
  tp__heap_free(all, HANDLERS_MAX * sizeof *all);
}

void tp__admin_put_state(tp_server *server, tp__bytes *out) {
  tp_runtime_stats s = {.struct_size = sizeof s};
  tp_runtime_stats_get(server->runtime, &s);
  tp__lock_acquire(&server->lock);
  size_t turns = server->turn_count, sessions = server->open_count;
  tp__lock_release(&server->lock);
  const char *unready = tp__server_unready(server);
  tp__bytes_printf(out, "{\"version\":\"%s\",\"ready\":%s,\"now_ms\":%" PRId64 ",\"started_ms\":%" PRId64, tp_version(),
                   unready ? "false" : "true", tp__wall_ms(), server->started_ms);
  if (unready) tp__bytes_printf(out, ",\"unready\":\"%s\"", unready);
  const struct {
    const char *name;
    uint64_t value;
  } rows[] = {{"requests_open", turns},
              {"sessions_open", sessions},
              {"turns_open", s.turns_open},
              {"turns_waiting", s.turns_waiting},
              {"turns_queued", s.turns_queued},
              {"turns_completed", s.turns_completed},
              {"turns_failed", s.turns_failed},
              {"turns_denied", s.turns_denied},
              {"turns_cancelled", s.turns_cancelled},
              {"turns_timed_out", s.turns_timed_out},
              {"turns_refused", s.turns_refused},
              {"denials", s.denials},
              {"handler_failures", s.failures},
              {"breakers_opened", s.breakers_opened},
              {"calls_waiting", s.attempts_waiting},
              {"calls_abandoned", s.attempts_abandoned},
              {"jobs_open", s.jobs_open},
              {"jobs_dead", s.jobs_dead},
              {"tokens_open", s.tokens_open},
              {"handler_threads", s.handler_threads}};
  for (size_t i = 0; i < COUNT(rows); i++) tp__bytes_printf(out, ",\"%s\":%" PRIu64, rows[i].name, rows[i].value);
  tp__server_put_revision(server, out);
  if (server->live) tp__bytes_printf(out, ",\"unlisted\":%" PRIu64, tp__live_unlisted(server->live));
  tp__bytes_put(out, "}", 1);
}

void tp__admin_state(tp_server *server, tp__operator_request *r) {
  tp__bytes out = {0};
  tp__admin_put_state(server, &out);
  answer_json(r, &out);
}

void tp__admin_turns(tp_server *server, tp__operator_request *r) {
  tp__bytes out = {0};
  tp__live_put_turns(server->live, &out);
  answer_json(r, &out);
}

void tp__admin_questions(tp_server *server, tp__operator_request *r) {
  tp__bytes out = {0};
  tp__live_put_questions(server->live, &out);
  answer_json(r, &out);
}

void tp__admin_denials(tp_server *server, tp__operator_request *r) {
  tp__bytes out = {0};
  tp__live_put_denials(server->live, &out);
  answer_json(r, &out);
}

void tp__admin_handlers(tp_server *server, tp__operator_request *r) {
  tp__bytes out = {0};
  put_handlers(server, &out);
  answer_json(r, &out);
}

void tp__admin_plan(tp_server *server, tp__operator_request *r) {
  tp__bytes out = {0};
  out.failed |= tp_plan_print(server->runtime, TP_PHASE_NONE, TP_PLAN_JSON, tp__bytes_print, &out) != TP_OK;
  answer_json(r, &out);
}

static bool put_breaker(void *ctx, const tp_subscription_info *info) {
  tp__bytes *out = ctx;
  tp__bytes_put_string(out, out->size > 1 ? ",{\"subscription\":" : "{\"subscription\":");
  tp__put_json(out, tp_text_of(info->id));
  tp__bytes_put_string(out, ",\"phase\":");
  tp__put_json(out, tp_text_of(info->phase_name));
  tp__bytes_printf(out, ",\"tripped\":%s,\"open\":%s}", info->tripped ? "true" : "false",
                   info->breaker_open ? "true" : "false");
  return !out->failed;
}

void tp__admin_breakers(tp_server *server, tp__operator_request *r) {
  tp__bytes out = {0};
  tp__bytes_put(&out, "[", 1);
  out.failed |= tp_runtime_subscriptions(server->runtime, NULL, put_breaker, &out, NULL) != TP_OK;
  tp__bytes_put(&out, "]", 1);
  answer_json(r, &out);
}

static bool put_job(void *ctx, const tp_job *job) {
  tp__bytes *out = ctx;
  tp__bytes_printf(out, "%s{\"id\":%" PRIu64 ",\"state\":\"%s\",\"attempt\":%u,\"attempts_max\":%u",
                   out->size > 1 ? "," : "", job->id, tp_job_state_name((tp_job_state)job->state), job->attempt,
                   job->attempts_max);
  const struct {
    const char *name;
    tp_text text;
  } rows[] = {{"handler", job->handler},
              {"subscription", job->subscription},
              {"order_key", job->order_key},
              {"message", job->message}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp__bytes_printf(out, ",\"%s\":", rows[i].name);
    tp__put_json(out, (tp_text){rows[i].text.data, (size_t)tp__cut(rows[i].text, 512)});
  }
  tp__bytes_printf(out, ",\"inserted_ms\":%" PRId64 ",\"claimable_ms\":%" PRId64 "}", job->inserted_ms,
                   job->claimable_ms);
  return !out->failed;
}

void tp__admin_jobs(tp_server *server, tp__operator_request *r) {
  const tp_job_query query = {.struct_size = sizeof query, .limit = JOBS_MAX};
  tp__bytes out = {0};
  tp_fault fault = {0};
  tp__bytes_put(&out, "[", 1);
  tp_status status = tp_jobs_list(server->runtime, &query, put_job, &out, &fault);
  tp__bytes_put(&out, "]", 1);
  if (status == TP_OK) {
    answer_json(r, &out);
    return;
  }
  tp__bytes_fini(&out);
  refuse_status(r, status, &fault);
}

/* ---- what operators do ---- */

void tp__admin_cancel(tp_server *server, tp__operator_request *r) {
  tp_text tenant = {0}, session = {0}, id = {0};
  const member members[] = {{"tenant", MEMBER_TEXT, false, &tenant},
                            {"session", MEMBER_TEXT, true, &session},
                            {"turn", MEMBER_TEXT, true, &id}};
  tp_writer *writer = read_body(r, members, COUNT(members));
  if (!writer) return;
  tp__lock_acquire(&server->lock);
  tp__server_turn *turn = server->turns;
  while (turn && !(tp__same(tp_text_of(turn->turn_id), id) && tp__same(tp_text_of(turn->session_id), session) &&
                   tp__same(tp_text_of(turn->tenant), tenant)))
    turn = turn->next;
  if (turn) tp__references_ref(&turn->refs);
  tp__lock_release(&server->lock);
  tp_fault fault = {0};
  if (turn) {
    tp__server_turn_cancel(turn);
    tp__server_turn_unref(turn);
    audit_action(server, "cancel", id, TP_OK);
    answer_done(r);
  } else {
    refuse_status(r, tp__refuse(&fault, TP_ERR_NOT_FOUND, NULL, "no turn of a client with this id runs"), &fault);
  }
  tp_writer_free(writer);
}

static bool read_decision(tp_text verdict, tp_text hash, tp_decision *decision, tp__refusal *refusal) {
  if (tp__is_word(verdict, "allow")) decision->verdict = TP_VERDICT_ALLOW;
  else if (tp__is_word(verdict, "deny")) decision->verdict = TP_VERDICT_DENY;
  else return tp__refusal_fill(refusal, 400, "invalid_value", "verdict", "verdict is allow or deny");
  if (hash.size == 0)
    return tp__refusal_fill(refusal, 400, "invalid_value", "arguments_hash",
                            "arguments_hash is that of the question: of the arguments that the person has seen");
  decision->arguments_hash = hash;
  return true;
}

void tp__admin_answer(tp_server *server, tp__operator_request *r) {
  tp_text key = {0}, verdict = {0}, hash = {0};
  tp_decision decision = {.struct_size = sizeof decision};
  const member members[] = {{"key", MEMBER_TEXT, true, &key},
                            {"verdict", MEMBER_TEXT, true, &verdict},
                            {"arguments_hash", MEMBER_TEXT, true, &hash},
                            {"reason", MEMBER_TEXT, false, &decision.reason},
                            {"person", MEMBER_TEXT, false, &decision.person}};
  tp_writer *writer = read_body(r, members, COUNT(members));
  tp__refusal refusal;
  tp_fault fault = {0};
  tp_token token;
  if (!writer) return;
  if (!read_decision(verdict, hash, &decision, &refusal)) {
    tp__refusal_answer(&refusal, r->request);
  } else if (!tp__live_question_find(server->live, key, &token)) {
    refuse_status(r, tp__refuse(&fault, TP_ERR_NOT_FOUND, NULL, "no question of this key is open"), &fault);
  } else {
    if (decision.person.size == 0) decision.person = tp_text_of("operator");
    tp_status status = tp_question_answer(token, &decision, &fault);
    if (status == TP_OK || status == TP_ERR_STALE) tp__live_question_end(server->live, key);
    if (status == TP_OK) answer_done(r);
    else refuse_status(r, status, &fault);
  }
  tp_writer_free(writer);
}

static void change_job(tp_server *server, tp__operator_request *r, const char *action,
                       tp_status (*change)(tp_runtime *, uint64_t, tp_fault *)) {
  int64_t id = 0;
  char what[32];
  tp_fault fault = {0};
  const member members[] = {{"id", MEMBER_NUMBER, true, &id}};
  tp_writer *writer = read_body(r, members, COUNT(members));
  if (!writer) return;
  tp_status status = change(server->runtime, (uint64_t)id, &fault);
  snprintf(what, sizeof what, "job %" PRId64, id);
  audit_action(server, action, tp_text_of(what), status);
  if (status == TP_OK) answer_done(r);
  else refuse_status(r, status, &fault);
  tp_writer_free(writer);
}

void tp__admin_redrive(tp_server *server, tp__operator_request *r) { change_job(server, r, "redrive", tp_job_redrive); }

void tp__admin_discard(tp_server *server, tp__operator_request *r) { change_job(server, r, "discard", tp_job_discard); }

void tp__admin_trip(tp_server *server, tp__operator_request *r) {
  tp_text subscription = {0};
  bool tripped = false;
  char id[TP_ID_BYTES_MAX + 2];
  tp_fault fault = {0};
  const member members[] = {{"subscription", MEMBER_TEXT, true, &subscription},
                            {"tripped", MEMBER_BOOL, true, &tripped}};
  tp_writer *writer = read_body(r, members, COUNT(members));
  if (!writer) return;
  (void)tp__copy_cut(id, sizeof id, subscription);
  tp_status status = tp_subscription_trip(server->runtime, id, tripped, &fault);
  audit_action(server, tripped ? "trip" : "untrip", subscription, status);
  if (status == TP_OK) answer_done(r);
  else refuse_status(r, status, &fault);
  tp_writer_free(writer);
}

void tp__admin_drain(tp_server *server, tp__operator_request *r) {
  tp_writer *writer = r->body.size > 0 ? read_body(r, NULL, 0) : NULL;
  if (r->body.size > 0 && !writer) return;
  tp_writer_free(writer);
  tp_server_drain(server);
  audit_action(server, "drain", tp_text_of("new turns are refused"), TP_OK);
  answer_done(r);
}

/* ---- events ---- */

static bool read_filter(const tp__http_request *request, tp__watch_filter *filter, tp__refusal *refusal) {
  const struct {
    const char *name;
    char *to;
  } rows[] = {{"tenant", filter->tenant}, {"session", filter->session}, {"turn", filter->turn}};
  char kinds[256] = "";
  unsigned known = 0;
  filter->kinds = tp__live_kinds();
  for (size_t i = 0; i < COUNT(rows); i++) {
    if (!tp__http_query_count(request, rows[i].name)) continue;
    known++;
    if (!tp__http_query(request, rows[i].name, rows[i].to, sizeof filter->turn))
      return tp__refusal_fill(refusal, 400, "invalid_value", rows[i].name, "'%s' is no id", rows[i].name);
  }
  if (tp__http_query_count(request, "kinds")) {
    known++;
    filter->kinds = tp__http_query(request, "kinds", kinds, sizeof kinds) ? tp__live_kinds_of(tp_text_of(kinds)) : 0;
    if (filter->kinds == 0)
      return tp__refusal_fill(refusal, 400, "invalid_value", "kinds",
                              "kinds is a list with commas, such as turn_begin,tool_end; docs/serve.md has all");
  }
  if (known == tp__http_query_count(request, NULL)) return true;
  return tp__refusal_fill(refusal, 400, "unknown_parameter", NULL,
                          "the query has kinds, tenant, session and turn, each at most once");
}

void tp__admin_events(tp_server *server, tp__http_request *request) {
  tp__watch_filter filter = {0};
  tp__refusal refusal;
  if (read_filter(request, &filter, &refusal)) (void)tp__live_watch(server->live, request, &filter);
  else tp__refusal_answer(&refusal, request);
}
