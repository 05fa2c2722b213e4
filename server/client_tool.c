/* SPDX-License-Identifier: Apache-2.0
 *
 * client_tool: tools that the client runs. To the runtime each is a tool whose function defers, so its calls pass the
 * gates, and its results pass the hooks of results. When all other calls of the response have ended, the exchange ends
 * and gives the client the calls that wait. The turn stays; the client's next request has the results, and is the
 * turn's next exchange. The id of a call contains a random key of the turn, by which that request finds the turn.
 *
 * A turn whose client does not come back ends at the limit of its calls. Since the runtime may also have turns of its
 * host, a hook of the server checks whether a turn is known before it reads the turn's data. */
#include <stdio.h>
#include <string.h>

#include "server/server.h"

enum { WAITING_MAX = 10000, CALLS_MAX = 128, LIMIT_MS = 600000, RESULT_BYTES_MAX = 16 << 20 };

/* ---- lists ---- */

static tp__server_turn **known_bucket(tp_server *server, const void *turn) {
  uint64_t hash = (uint64_t)(uintptr_t)turn * UINT64_C(0x9e3779b97f4a7c15);
  return &server->known[hash >> 32 & (TP__TURN_BUCKETS - 1)];
}

static tp__server_turn **waiting_bucket(tp_server *server, const char *key) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (; *key; key++) hash = (hash ^ (unsigned char)*key) * UINT64_C(1099511628211);
  return &server->waiting[(hash ^ hash >> 32) & (TP__TURN_BUCKETS - 1)];
}

void tp__server_turn_list_locked(tp__server_turn *turn) {
  tp_server *server = turn->server;
  TP__LOCKED(&server->lock);
  assert(!turn->is_listed);
  turn->next = server->turns;
  if (turn->next) turn->next->previous = turn;
  server->turns = turn;
  server->turn_count++;
  tp__server_turn **bucket = known_bucket(server, turn);
  turn->known_next = *bucket;
  *bucket = turn;
  turn->is_listed = true;
}

void tp__client_calls_unlist_locked(tp__server_turn *turn) {
  TP__LOCKED(&turn->server->lock);
  if (!turn->is_waiting) return;
  tp__server_turn **at = waiting_bucket(turn->server, turn->key);
  while (*at != turn) at = &(*at)->waiting_next;
  *at = turn->waiting_next;
  turn->is_waiting = false;
  turn->server->waiting_count--;
  if (turn->session->waiting == turn) turn->session->waiting = NULL;
}

void tp__server_turn_unlist_locked(tp__server_turn *turn) {
  tp_server *server = turn->server;
  TP__LOCKED(&server->lock);
  assert(turn->is_listed && !turn->is_waiting && server->turn_count > 0);
  *(turn->previous ? &turn->previous->next : &server->turns) = turn->next;
  if (turn->next) turn->next->previous = turn->previous;
  turn->previous = turn->next = NULL;
  tp__server_turn **at = known_bucket(server, turn);
  while (*at != turn) at = &(*at)->known_next;
  *at = turn->known_next;
  turn->is_listed = false;
  server->turn_count--;
  tp__lock_condition_broadcast(&server->changed);
}

/* @return NULL: the turn is not one of this server. */
static tp__server_turn *turn_of(tp_server *server, const void *data) {
  tp__lock_acquire(&server->lock);
  tp__server_turn *turn = *known_bucket(server, data);
  while (turn && turn != data) turn = turn->known_next;
  tp__lock_release(&server->lock);
  return turn; /* the turn cannot end while a handler of it runs */
}

bool tp__client_tool_has(tp_server *server, const void *data, tp_text name) {
  tp__server_turn *turn = turn_of(server, data);
  tp_value_walk walk = {0};
  if (!turn || turn->tools.size == 0) return false;
  while (tp_value_next(turn->tools, &walk))
    if (tp__same(tp_value_text(tp_value_get(walk.value, "name")), name)) return true;
  return false;
}

/* ---- calls ---- */

static void calls_clear_locked(tp__server_turn *turn) {
  TP__LOCKED(&turn->lock);
  for (size_t i = 0; i < turn->call_count; i++) {
    tp__bytes_fini(&turn->calls[i].name);
    tp__bytes_fini(&turn->calls[i].arguments);
  }
  turn->call_count = 0;
}

void tp__client_calls_fini(tp__server_turn *turn) {
  tp__lock_acquire(&turn->lock);
  calls_clear_locked(turn);
  tp__heap_free(turn->calls, turn->call_capacity * sizeof *turn->calls);
  turn->calls = NULL;
  turn->call_capacity = 0;
  tp__lock_release(&turn->lock);
  tp__bytes_fini(&turn->tools_copy);
}

/* @return false: too many calls wait, or there is no memory. */
static bool add_call_locked(tp__server_turn *turn, const tp_tool_run *run, tp_token token) {
  TP__LOCKED(&turn->lock);
  void *calls = turn->calls;
  tp_writer *writer = NULL;
  tp_text json = {0};
  if (turn->call_count >= CALLS_MAX ||
      !tp__grow(tp__heap, &calls, &turn->call_capacity, turn->call_count + 1, sizeof *turn->calls))
    return false;
  turn->calls = calls;
  tp__client_call *call = &turn->calls[turn->call_count];
  *call = (tp__client_call){.token = token};
  snprintf(call->id, sizeof call->id, "call_%s_%u", turn->key, ++turn->calls_made);
  tp__bytes_put_text(&call->name, tp_tool_run_name(run));
  if (tp_writer_new(NULL, &writer) == TP_OK && tp_json_encode(tp_tool_run_arguments(run), writer, &json, NULL) == TP_OK)
    tp__bytes_put_text(&call->arguments, json);
  tp_writer_free(writer);
  turn->call_count++; /* counted, so that it is freed */
  return json.size > 0 && !call->name.failed && !call->arguments.failed;
}

/* Called when the limit of the call has passed, or the turn ends: no request can complete the waiting calls any
 * more. */
static void cancel_turn(void *ctx) {
  tp__server_turn *turn = ctx;
  tp_token tokens[CALLS_MAX];
  tp__server_turn_cancel(turn);
  tp__lock_acquire(&turn->lock);
  size_t count = turn->call_count;
  assert(count <= CALLS_MAX);
  for (size_t i = 0; i < count; i++) tokens[i] = turn->calls[i].token;
  calls_clear_locked(turn);
  tp__lock_release(&turn->lock);
  for (size_t i = 0; i < count; i++) (void)!tp_token_abandon(tokens[i], NULL);
}
static void unref_turn(void *ctx) { tp__server_turn_unref(ctx); }

static bool wait_for_client(tp__server_turn *turn) {
  tp_server *server = turn->server;
  tp__lock_acquire(&server->lock);
  bool fits = turn->is_waiting || server->waiting_count < WAITING_MAX;
  if (fits && !turn->is_waiting) {
    tp__server_turn **bucket = waiting_bucket(server, turn->key);
    turn->waiting_next = *bucket;
    *bucket = turn;
    turn->is_waiting = true;
    turn->session->waiting = turn;
    server->waiting_count++;
  }
  tp__lock_release(&server->lock);
  return fits;
}

static tp_answer run_client_tool(void *ctx, tp_tool_run *run) {
  tp__server_turn *turn = ctx;
  tp_token token = {0};
  const tp_deferral deferral = {
      .struct_size = sizeof deferral, .cancel = cancel_turn, .destroy = unref_turn, .ctx = turn};
  if (!wait_for_client(turn)) return tp_tool_error(run, tp_text_of("too many turns wait for their clients"));
  tp__references_ref(&turn->refs);
  tp_answer answer = tp_tool_defer(run, &deferral, &token);
  if (token.bits == 0) {
    tp__server_turn_unref(turn);
    return answer;
  }
  tp__lock_acquire(&turn->lock);
  bool cancelled = turn->cancelled, added = cancelled || add_call_locked(turn, run, token);
  if (added && !cancelled) tp__client_calls_look_locked(turn);
  tp__lock_release(&turn->lock);
  if (cancelled) (void)!tp_token_abandon(token, NULL);
  if (!added) (void)!tp_tool_complete(token, true, tp_text_of("too many calls in one response"), NULL);
  return answer;
}

void tp__client_calls_look_locked(tp__server_turn *turn) {
  TP__LOCKED(&turn->lock);
  if (turn->waits || turn->call_count == 0 || turn->call_count + turn->over < turn->expected) return;
  turn->waits = true;
  tp__exchange_hand_over_locked(turn);
}

/* ---- the hooks ---- */

/** The newest turn of a conversation that has completed. */
typedef struct newest {
  tp_text own, last, before;
} newest;

static bool look_at_message(void *ctx, const tp_message *message) {
  newest *n = ctx;
  if (message->turn_id.size == 0 || tp__same(message->turn_id, n->own)) return true;
  if (!tp__same(message->turn_id, n->last)) {
    n->before = n->last;
    n->last = message->turn_id;
  }
  if (message->role == TP_ROLE_END) n->last = n->before; /* that turn failed, or was cancelled */
  return true;
}

/* Whether the turn continues the newest response of its session. A response has the id of its turn; later exchanges of
 * the turn add a number to it. */
static bool follows_previous(tp_call *call, const tp__server_turn *turn) {
  newest n = {.own = tp_call_id(call, TP_ID_TURN)};
  if (!turn->previous_id[0]) return true;
  (void)tp_call_messages(call, look_at_message, &n);
  const char *number = strchr(turn->previous_id + 5, '_');
  size_t size = number ? (size_t)(number - turn->previous_id) : strlen(turn->previous_id);
  return tp__same(n.last, (tp_text){turn->previous_id, size});
}

static tp_answer emit_tools(void *ctx, tp_call *call) {
  tp__server_turn *turn = turn_of(ctx, tp_call_data(call, TP_ID_TURN));
  if (turn && !follows_previous(call, turn)) {
    tp__lock_acquire(&turn->lock);
    turn->lost_previous = true;
    tp__lock_release(&turn->lock);
    return tp_call_fail(call, TP_ERR_NOT_FOUND, "the response that this one continues is not the newest");
  }
  tp_tool tools[CALLS_MAX];
  const tp_tool *list[CALLS_MAX];
  char names[CALLS_MAX][TP_ID_BYTES_MAX + 1];
  size_t count = 0;
  if (!turn || turn->tools.size == 0) return TP_ANSWER_DONE;
  tp__bytes words = {0};
  size_t descriptions[CALLS_MAX];
  for (tp_value_walk walk = {0}; count < CALLS_MAX && tp_value_next(turn->tools, &walk); count++) {
    (void)tp__copy_cut(names[count], sizeof names[count], tp_value_text(tp_value_get(walk.value, "name")));
    descriptions[count] = words.size;
    tp__bytes_put_text(&words, tp_value_text(tp_value_get(walk.value, "description")));
    tp__bytes_put(&words, "", 1);
    tools[count] = (tp_tool){.struct_size = sizeof tools[count],
                             .name = names[count],
                             .schema = tp_value_get(walk.value, "schema"),
                             .run = run_client_tool,
                             .ctx = turn,
                             .placement = TP_PLACEMENT_INLINE,
                             .limit_ms = LIMIT_MS,
                             .result_bytes_max = RESULT_BYTES_MAX,
                             .destroy = unref_turn};
    list[count] = &tools[count];
  }
  tp_fault fault = {0};
  tp_status status = words.failed ? TP_ERR_NO_MEMORY : TP_OK;
  for (size_t i = 0; status == TP_OK && i < count; i++) {
    tools[i].description = words.data + descriptions[i];
    tp__references_ref(&turn->refs);
  }
  if (status == TP_OK && (status = tp_call_emit_tool_bundle(call, "client", list, count, &fault)) != TP_OK)
    for (size_t i = 0; i < count; i++) tp__server_turn_unref(turn);
  tp__bytes_fini(&words);
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, (uint32_t)status, fault.message);
}

/* Counts the calls of a response, before they begin. */
static tp_answer count_calls(void *ctx, tp_call *call) {
  tp__server_turn *turn = turn_of(ctx, tp_call_data(call, TP_ID_TURN));
  if (!turn) return TP_ANSWER_DONE;
  tp__lock_acquire(&turn->lock);
  calls_clear_locked(turn);
  turn->expected = (size_t)tp_call_int(call, TP_FIELD_CALL_COUNT);
  turn->over = 0;
  turn->waits = false;
  tp__lock_release(&turn->lock);
  return TP_ANSWER_DONE;
}

static void unref_server(void *ctx) { tp__server_unref(ctx); }

/* Adds a hook. Turns of the host that began before the end of the server may still call it. */
static tp_status add_hook(tp_server *server, tp_edit *edit, const char *name, tp_phase_id phase, tp_handler_fn run,
                          tp_failure failure, char *ret_id, tp_fault *fault) {
  snprintf(ret_id, sizeof server->calls_hook, "%s.%s", server->owner, name);
  const tp_handler handler = {.struct_size = sizeof handler,
                              .id = ret_id,
                              .run = run,
                              .ctx = server,
                              .destroy = unref_server,
                              .phases = &phase,
                              .phase_count = 1,
                              .placement = TP_PLACEMENT_INLINE};
  const tp_subscription subscription = {
      .struct_size = sizeof subscription, .id = ret_id, .handler = ret_id, .phase = phase, .failure = failure};
  tp__references_ref(&server->refs);
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  if (status == TP_OK) return tp_edit_add_subscription(edit, &subscription, fault);
  tp__server_unref(server);
  return status;
}

static tp_status change_hooks(tp_server *server, bool adds, tp_fault *fault) {
  const tp_owner owner = {.struct_size = sizeof owner, .name = server->owner, .trust = TP_TRUST_HOST};
  tp_commit_report report = {.struct_size = sizeof report};
  tp_edit *edit;
  tp_status status = tp_edit_begin(server->runtime, &owner, &edit, fault);
  if (status != TP_OK) return status;
  if (adds) {
    status = add_hook(server, edit, "tools", TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, emit_tools, TP_FAILURE_REQUIRED,
                      server->tools_hook, fault);
    if (status == TP_OK)
      status = add_hook(server, edit, "calls", TP_PHASE_MODEL_POST, count_calls, TP_FAILURE_BEST_EFFORT,
                        server->calls_hook, fault);
  } else {
    status = tp_edit_remove_handler(edit, server->tools_hook, fault);
    if (status == TP_OK) status = tp_edit_remove_handler(edit, server->calls_hook, fault);
    if (status == TP_OK) status = tp_edit_remove_subscription(edit, server->tools_hook, fault);
    if (status == TP_OK) status = tp_edit_remove_subscription(edit, server->calls_hook, fault);
  }
  if (status == TP_OK) status = tp_edit_commit(edit, &report, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

/* Adds the hooks with an owner of the server's own, so that a client's tool never replaces a tool of the host. */
tp_status tp__client_tools_add(tp_server *server, tp_fault *fault) {
  char digits[9];
  tp_status status;
  if (!tp__server_random(digits, 8)) return tp__refuse(fault, TP_ERR_SYSTEM, NULL, "there is no randomness");
  snprintf(server->owner, sizeof server->owner, "server-%s", digits);
  do status = change_hooks(server, true, fault);
  while (status == TP_ERR_CONFLICT); /* another commit came in between */
  server->has_hooks = status == TP_OK;
  return status;
}

void tp__client_tools_remove(tp_server *server) {
  tp_status status = TP_ERR_CONFLICT;
  while (server->has_hooks && status == TP_ERR_CONFLICT) status = change_hooks(server, false, NULL);
  server->has_hooks = false;
}

/* ---- the results of the client ---- */

tp__server_turn *tp__client_calls_find(tp_server *server, const tp__ask *ask, const char *tenant) {
  char key[TP__TURN_KEY_DIGITS + 1];
  if (ask->results == 0) return NULL;
  tp_text id = ask->messages[ask->result_at].call_id;
  if (!tp__begins(id, "call_") || id.size < 5 + TP__TURN_KEY_DIGITS + 2) return NULL;
  (void)tp__copy_cut(key, sizeof key, (tp_text){id.data + 5, TP__TURN_KEY_DIGITS});
  tp__lock_acquire(&server->lock);
  tp__server_turn *turn = *waiting_bucket(server, key);
  while (turn && !(strcmp(turn->key, key) == 0 && strcmp(turn->session->tenant, tenant) == 0))
    turn = turn->waiting_next;
  if (turn) tp__references_ref(&turn->refs);
  tp__lock_release(&server->lock);
  return turn;
}

static const tp_message *result_of(const tp__ask *ask, const char *id) {
  for (size_t i = ask->result_at; i < ask->result_at + ask->results; i++)
    if (tp__is_word(ask->messages[i].call_id, id)) return &ask->messages[i];
  return NULL;
}

/* Checks that each call has one result, and each result has a call. */
static bool check_results_locked(const tp__server_turn *turn, const tp__ask *ask, tp__refusal *refusal) {
  TP__LOCKED(&turn->lock);
  for (size_t i = 0; i < turn->call_count; i++)
    if (!result_of(ask, turn->calls[i].id))
      return tp__refusal_fill(refusal, 400, "invalid_value", "messages", "there is no result of the call %s",
                              turn->calls[i].id);
  if (ask->results == turn->call_count) return true;
  return tp__refusal_fill(refusal, 400, "invalid_value", "messages", "there are %zu results of %zu calls", ask->results,
                          turn->call_count);
}

bool tp__client_calls_answer(tp__server_turn *turn, const tp__ask *ask, tp__refusal *refusal) {
  tp_token tokens[CALLS_MAX];
  tp_text texts[CALLS_MAX];
  size_t count = 0;
  tp__lock_acquire(&turn->lock);
  bool fits = turn->waits && !turn->ended;
  if (!fits) (void)tp__refusal_fill(refusal, 409, "calls_ended", NULL, "the calls of these results have ended");
  fits = fits && check_results_locked(turn, ask, refusal);
  for (; fits && count < turn->call_count; count++) {
    tokens[count] = turn->calls[count].token;
    texts[count] = result_of(ask, turn->calls[count].id)->text;
  }
  if (fits) turn->waits = false;
  if (fits) calls_clear_locked(turn);
  tp_submission *submission = turn->submission;
  tp__lock_release(&turn->lock);
  if (!fits) return false;
  tp__lock_acquire(&turn->server->lock);
  tp__client_calls_unlist_locked(turn);
  tp__lock_release(&turn->server->lock);
  tp_added_message added = {.struct_size = sizeof added, .text = tp__bytes_text(&ask->text), .files = ask->files};
  if (added.text.size > 0 || added.files.size > 0) (void)!tp_submission_add_message(submission, &added, NULL);
  for (size_t i = 0; i < count; i++) (void)!tp_tool_complete(tokens[i], false, texts[i], NULL);
  return true;
}

void tp__client_calls_cancel(tp_server *server, tp__server_session *session) {
  tp__server_turn *turn = NULL;
  for (bool more = true; more;) {
    tp__lock_acquire(&server->lock);
    turn = session ? session->waiting : NULL;
    for (tp__server_turn *t = server->turns; !session && t && !turn; t = t->next)
      if (t->is_waiting) turn = t;
    if (turn) tp__references_ref(&turn->refs);
    if (turn) tp__client_calls_unlist_locked(turn);
    tp__lock_release(&server->lock);
    more = turn != NULL;
    if (!turn) continue;
    tp__server_turn_cancel(turn);
    tp__server_turn_unref(turn);
  }
}
