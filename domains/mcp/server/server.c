/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/server/server.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "domains/mcp/mcp.h"
#include "runtime/base/check.h"
#include "support/access.h"
#include "support/clock.h"
#include "turnphase/turn.h"

enum { ASK_WAIT_MS = 20000, TASK_AFTER_MS = 10000, SWEEP_MS = 1000 };

#define PREFIX "mcp__"

/* ---- what several files use ---- */

void tp__mcp_sink_ref(tp__mcp_sink *sink) { tp__references_ref(&sink->refs); }

void tp__mcp_sink_unref(tp__mcp_sink *sink) {
  if (sink && tp__references_unref(&sink->refs)) sink->free(sink);
}

void tp__mcp_server_session_unref(tp__mcp_server_session *session) {
  if (!session || !tp__references_unref(&session->refs)) return;
  tp__mcp_sink_unref(session->stream);
  tp__heap_free(session, sizeof *session);
}

bool tp__mcp_random(char ret_text[33]) {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return false;
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(ret_text + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

/* ---- tools ---- */

typedef struct listing {
  const tp_mcp_server_options *options;
  tp_writer *writer; /* NULL: the tools are only counted */
  size_t count;
} listing;

/* Returns a name without the prefix that hosts add themselves, unless nothing would be left. */
static const char *shown_name(const char *name) {
  size_t prefix = sizeof PREFIX - 1;
  return strncmp(name, PREFIX, prefix) == 0 && name[prefix] != 0 ? name + prefix : name;
}

static void write_tool(tp_writer *w, const tp_tool *tool) {
  bool has_description = tool->description && *tool->description;
  bool has_schema = tp_value_kind_of(tool->schema) == TP_VALUE_MAP;
  tp_text output = tp__mcp_tool_output_schema(tool);
  tp_write_map(w, 2U + has_description + (output.size > 0));
  tp_write_string(w, "name");
  tp_write_string(w, shown_name(tool->name));
  if (has_description) tp_write_string(w, "description"), tp_write_string(w, tool->description);
  tp_write_string(w, "inputSchema");
  if (has_schema) {
    tp_write_value(w, tool->schema);
  } else {
    tp_write_map(w, 1);
    tp_write_string(w, "type");
    tp_write_string(w, "object");
  }
  if (output.size > 0) tp_write_string(w, "outputSchema"), tp_write_value(w, output);
}

static bool take_tool(void *ctx, const tp_tool_listing *shown) {
  listing *l = ctx;
  if (l->options->offers && !l->options->offers(l->options->ctx, shown)) return true;
  if (l->writer) write_tool(l->writer, shown->tool);
  l->count++;
  return true;
}

/* Writes the array of tools. A first listing counts them; when a later listing has another count, the array is written
 * again. */
static tp_status gather_tools(tp_mcp_server *server, tp_writer *writer, tp_text *ret_value, tp_fault *fault) {
  listing l = {.options = &server->options};
  tp_status status = tp_runtime_tools(server->runtime, take_tool, &l, NULL, fault);
  for (int attempt = 0; status == TP_OK && attempt < 5; attempt++) {
    size_t count = l.count;
    l = (listing){.options = &server->options, .writer = writer};
    tp_writer_reset(writer);
    tp_write_array(writer, count);
    status = tp_runtime_tools(server->runtime, take_tool, &l, NULL, fault);
    if (status == TP_OK && l.count == count) return tp_writer_finish(writer, ret_value);
  }
  return status == TP_OK ? tp__refuse(fault, TP_ERR_CONFLICT, NULL, "the tools change all the time") : status;
}

/* @param ret_changed  may be NULL. */
static tp_status refresh_tools(tp_mcp_server *server, bool *ret_changed, tp_fault *fault) {
  tp_writer *writer = NULL;
  tp_text value = {0};
  tp_status status = tp_writer_new(NULL, &writer);
  if (status == TP_OK) status = gather_tools(server, writer, &value, fault);
  if (status == TP_OK) {
    tp__lock_acquire(&server->lock);
    bool changed = !tp__same(tp__bytes_text(&server->tools), value);
    if (changed) {
      tp__bytes_clear(&server->tools);
      tp__bytes_put_text(&server->tools, value);
      if (server->tools.failed) status = TP_ERR_NO_MEMORY;
    }
    tp__lock_release(&server->lock);
    if (ret_changed) *ret_changed = changed;
  }
  tp_writer_free(writer);
  return status;
}

static tp_text find_tool_locked(tp_mcp_server *server, tp_text name) {
  TP__LOCKED(&server->lock);
  tp_value_walk walk = {0};
  while (tp_value_next(tp__bytes_text(&server->tools), &walk))
    if (tp__same(tp_value_text(tp_value_get(walk.value, "name")), name)) return walk.value;
  return (tp_text){0};
}

/* Finds the tool of a name. A name without the prefix may fit a tool of a server and a tool of the host: the host's
 * tool comes first. */
bool tp__mcp_tool_find(tp_mcp_server *server, tp_text name, tp__bytes *ret_name, tp__bytes *ret_schema,
                       bool *ret_has_output) {
  tp__lock_acquire(&server->lock);
  tp_text tool = find_tool_locked(server, name);
  bool is_upstream = tool.size > 0 && memmem(name.data, name.size, "__", 2) != NULL;
  bool is_offered = tool.size > 0 || !server->options.offers;
  if (ret_schema) tp__bytes_put_text(ret_schema, tp_value_get(tool, "inputSchema"));
  if (ret_has_output) *ret_has_output = tp_value_get(tool, "outputSchema").size > 0;
  tp__lock_release(&server->lock);
  if (!ret_name) return !ret_schema->failed;
  if (!is_offered) return true;
  if (is_upstream) tp__bytes_put_string(ret_name, PREFIX);
  tp__bytes_put_text(ret_name, name);
  return !ret_name->failed && !(ret_schema && ret_schema->failed);
}

/* ---- the thread for what may block ---- */

bool tp__mcp_work_add(tp_mcp_server *server, tp__mcp_work_kind kind, tp__mcp_exchange *exchange, tp_mcp_call *call) {
  tp__mcp_work *work = tp__heap_alloc(sizeof *work);
  if (!work) {
    if (exchange) tp__mcp_reply_error(exchange, TP__MCP_INTERNAL_ERROR, "no memory", (tp_text){0});
    if (call) tp_mcp_call_fail(call, TP__MCP_INTERNAL_ERROR, "no memory", (tp_text){0});
    return false;
  }
  *work = (tp__mcp_work){.kind = kind, .exchange = exchange, .call = call};
  tp__lock_acquire(&server->lock);
  *(server->last_work ? &server->last_work->next : &server->first_work) = work;
  server->last_work = work;
  tp__lock_condition_broadcast(&server->changed);
  tp__lock_release(&server->lock);
  return true;
}

static void do_tools(tp_mcp_server *server, tp__mcp_exchange *exchange) {
  tp_fault fault = {0};
  bool changed = false;
  tp_status status = refresh_tools(server, &changed, &fault);
  if (exchange && status == TP_OK) tp__mcp_reply_tools(exchange);
  else if (exchange) tp__mcp_reply_error(exchange, TP__MCP_INTERNAL_ERROR, fault.message, (tp_text){0});
  if (changed) tp__mcp_notify_changed(server, "tools");
}

/* @return NULL: it is time for a sweep, or the server ends. */
static tp__mcp_work *take_work(tp_mcp_server *server, bool *ret_ends) {
  tp__lock_acquire(&server->lock);
  bool in_time = true;
  while (!server->first_work && !server->ends && in_time)
    in_time = tp__lock_condition_wait_until(&server->changed, &server->lock, server->sweep_ms * TP__NS_IN_MS);
  tp__mcp_work *work = server->first_work;
  if (work) {
    server->first_work = work->next;
    if (!work->next) server->last_work = NULL;
    if (work->kind == TP__MCP_WORK_TOOLS && !work->exchange) server->refreshes = false;
  }
  *ret_ends = server->ends && !work;
  tp__lock_release(&server->lock);
  return work;
}

/* @return whether it is time for a sweep. */
static bool begin_sweep(tp_mcp_server *server) {
  int64_t now_ms = tp__monotonic_ms();
  tp__lock_acquire(&server->lock);
  bool is_time = now_ms >= server->sweep_ms;
  if (is_time) server->sweep_ms = now_ms + SWEEP_MS;
  tp__lock_release(&server->lock);
  return is_time;
}

static void sweep_sessions(tp_mcp_server *server) {
  int64_t now_ms = tp__monotonic_ms();
  tp__mcp_server_session *idle = NULL;
  tp__lock_acquire(&server->lock);
  for (tp__mcp_server_session **at = &server->sessions; *at;) {
    tp__mcp_server_session *session = *at;
    if (session->stream || now_ms - session->used_ms < TP__MCP_SESSION_IDLE_MS) {
      at = &session->next;
      continue;
    }
    *at = session->next;
    server->session_count--;
    session->next = idle;
    idle = session;
  }
  tp__lock_release(&server->lock);
  while (idle) {
    tp__mcp_server_session *next = idle->next;
    tp__mcp_server_session_unref(idle);
    idle = next;
  }
}

static void *run_worker(void *ctx) {
  tp_mcp_server *server = ctx;
  for (bool ends = false; !ends;) {
    tp__mcp_work *work = take_work(server, &ends);
    if (work && work->kind == TP__MCP_WORK_TOOLS) do_tools(server, work->exchange);
    if (work && work->kind == TP__MCP_WORK_HOST) tp__mcp_call_run_host(work->call);
    tp__heap_free(work, sizeof *work);
    if (!begin_sweep(server)) continue;
    tp__mcp_call_sweep(server);
    sweep_sessions(server);
  }
  return NULL;
}

static void upstream_changed(void *ctx) { tp_mcp_server_tools_changed(ctx); }
static tp_mcp_call *find_call(void *ctx, const void *data) { return tp__mcp_call_find(ctx, data); }

/* ---- progress ---- */

static void hear_progress(void *ctx, const tp_event *event) {
  tp__mcp_call_progressed(ctx, tp_event_data(event, TP_ID_TURN), event->done, event->total, event->text);
}

static void hears_no_more(void *ctx) {
  tp_mcp_server *server = ctx;
  tp__lock_acquire(&server->lock);
  server->hears = false;
  tp__lock_condition_broadcast(&server->changed);
  tp__lock_release(&server->lock);
}

static tp_status begin_to_hear(tp_mcp_server *server, tp_fault *fault) {
  const tp_listener listener = {.struct_size = sizeof listener,
                                .on_event = hear_progress,
                                .destroy = hears_no_more,
                                .ctx = server,
                                .kinds = UINT64_C(1) << TP_EVENT_TOOL_PROGRESS};
  server->hears = true;
  tp_status status = tp_runtime_listen(server->runtime, &listener, &server->hears_id, fault);
  server->hears = status == TP_OK;
  return status;
}

static void end_hearing(tp_mcp_server *server) {
  tp__lock_acquire(&server->lock);
  bool hears = server->hears;
  tp__lock_release(&server->lock);
  if (hears) (void)!tp_runtime_unlisten(server->runtime, server->hears_id, NULL);
  tp__lock_acquire(&server->lock);
  while (server->hears) tp__lock_condition_wait(&server->changed, &server->lock);
  tp__lock_release(&server->lock);
}

/* ---- lists of the host ---- */

static tp_status keep_list(tp_mcp_server *server, tp_mcp_list list, tp_text items, tp_fault *fault) {
  tp_status status = tp_value_check(items, fault);
  if (status != TP_OK) return status;
  if (tp_value_kind_of(items) != TP_VALUE_ARRAY)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "the items are an array of maps");
  tp__lock_acquire(&server->lock);
  tp__bytes *of = &server->lists[list];
  tp__bytes_clear(of);
  tp__bytes_put_text(of, items);
  if (of->failed) status = tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the list");
  of->failed = false;
  tp__lock_release(&server->lock);
  return status;
}

tp_status tp_mcp_server_set_list(tp_mcp_server *server, tp_mcp_list list, tp_text items, tp_fault *fault) {
  if (!server || list < TP_MCP_LIST_PROMPTS || list > TP_MCP_LIST_TEMPLATES)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_mcp_server_set_list() needs a server and a list of it");
  tp_status status = keep_list(server, list, items, fault);
  if (status == TP_OK) tp__mcp_notify_changed(server, list == TP_MCP_LIST_PROMPTS ? "prompts" : "resources");
  return status;
}

static tp_status keep_first_lists(tp_mcp_server *server, const tp_mcp_server_options *o, tp_fault *fault) {
  const tp_text lists[] = {[TP_MCP_LIST_PROMPTS] = o->prompts,
                           [TP_MCP_LIST_RESOURCES] = o->resources,
                           [TP_MCP_LIST_TEMPLATES] = o->templates};
  for (tp_mcp_list list = TP_MCP_LIST_PROMPTS; list <= TP_MCP_LIST_TEMPLATES; list++) {
    tp_status status = lists[list].size > 0 ? keep_list(server, list, lists[list], fault) : TP_OK;
    if (status != TP_OK) return status;
  }
  return TP_OK;
}

void tp_mcp_server_tools_changed(tp_mcp_server *server) {
  if (!server) return;
  tp__lock_acquire(&server->lock);
  bool is_new = !server->refreshes;
  server->refreshes = true;
  tp__lock_release(&server->lock);
  if (is_new && !tp__mcp_work_add(server, TP__MCP_WORK_TOOLS, NULL, NULL)) {
    tp__lock_acquire(&server->lock);
    server->refreshes = false; /* without memory the next change, or the next list, finds it */
    tp__lock_release(&server->lock);
  }
}

/* ---- start and end ---- */

static tp_status check_options(const tp_mcp_server_options *o, tp_fault *fault) {
  if (!o->stdio && !o->http_address && !o->mounted)
    return tp__refuse(fault, TP_ERR_USAGE, "tp_mcp_server_options", "stdio, http_address or mounted must be set");
  if (o->mounted && (o->stdio || o->http_address || o->http_port || o->keys || o->keys_required))
    return tp__refuse(fault, TP_ERR_USAGE, "mounted",
                      "a server that is mounted has the port and the keys of the other server, and none of its own");
  if ((o->prompts.size > 0 && !o->get_prompt) ||
      ((o->resources.size > 0 || o->templates.size > 0) && !o->read_resource))
    return tp__refuse(fault, TP_ERR_USAGE, "tp_mcp_server_options",
                      "prompts need get_prompt, and resources and templates read_resource");
  if (o->reserved_more_) return tp__refuse(fault, TP_ERR_USAGE, "reserved_more_", "reserved_more_ must be zero");
  if (o->http_port > UINT16_MAX) return tp__refuse(fault, TP_ERR_USAGE, "http_port", "http_port is at most 65535");
  for (const char *const *key = o->keys; key && *key; key++)
    if (strlen(*key) < 16)
      return tp__refuse(fault, TP_ERR_USAGE, "keys",
                        "a key has at least 16 characters: openssl rand -hex 32 makes one");
  if (o->http_address && !tp__is_this_machine(o->http_address) && !(o->keys && o->keys[0]))
    return tp__refuse(fault, TP_ERR_USAGE, o->http_address,
                      "%s is reached from other machines: set tp_mcp_server_options.keys, or listen on 127.0.0.1",
                      o->http_address);
  return TP_OK;
}

static tp_status fill(tp_mcp_server *server, const tp_mcp_server_options *o, tp_fault *fault) {
  server->options = *o;
  if (!server->options.ask_wait_ms) server->options.ask_wait_ms = ASK_WAIT_MS;
  if (!server->options.task_after_ms) server->options.task_after_ms = TASK_AFTER_MS;
  server->name = tp__heap_copy(tp_text_of(o->name ? o->name : "turnphase"));
  server->version = tp__heap_copy(tp_text_of(o->version ? o->version : tp_version()));
  if (o->instructions) server->instructions = tp__heap_copy(tp_text_of(o->instructions));
  server->keys = tp__heap_copy_strings(o->keys, tp__string_count(o->keys));
  server->origins = tp__heap_copy_strings(o->origins, tp__string_count(o->origins));
  server->options.http_address = o->http_address ? tp__heap_copy(tp_text_of(o->http_address)) : NULL;
  server->options.keys = server->options.origins = NULL;
  server->options.state_directory = NULL;
  tp_status status = tp__mcp_kept_open(server, o->state_directory, fault);
  if (status != TP_OK) return status;
  if (server->name && server->version && server->keys && server->origins && !server->instructions == !o->instructions &&
      !server->options.http_address == !o->http_address)
    return TP_OK;
  return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the server");
}

static void end_worker(tp_mcp_server *server) {
  tp__lock_acquire(&server->lock);
  server->ends = true;
  tp__lock_condition_broadcast(&server->changed);
  tp__lock_release(&server->lock);
  if (server->worker_runs) pthread_join(server->worker, NULL);
  server->worker_runs = false;
  for (tp__mcp_work *next, *work = server->first_work; work; work = next) { /* items that are left because the worker
                                                                               could not be started */
    assert(!work->exchange && !work->call);
    next = work->next;
    tp__heap_free(work, sizeof *work);
  }
  server->first_work = server->last_work = NULL;
}

static void server_free(tp_mcp_server *server) {
  assert(!server->calls && !server->first_work && !server->listeners);
  for (tp__mcp_server_session *next, *session = server->sessions; session; session = next) {
    next = session->next;
    tp__mcp_server_session_unref(session);
  }
  tp__mcp_server_session_unref(server->stdio_session);
  tp__mcp_sink_unref(server->stdio);
  tp__bytes_fini(&server->tools);
  for (size_t i = 0; i < sizeof server->lists / sizeof *server->lists; i++) tp__bytes_fini(&server->lists[i]);
  tp__heap_string_free(server->name);
  tp__heap_string_free(server->version);
  tp__heap_string_free(server->instructions);
  tp__heap_string_free(server->states);
  tp__heap_string_free((char *)(uintptr_t)server->options.http_address);
  tp__heap_strings_free(server->keys);
  tp__heap_strings_free(server->origins);
  tp__lock_condition_fini(&server->changed);
  tp__lock_fini(&server->lock);
  tp__heap_free(server, sizeof *server);
}

/* Waits until the calls have ended, or the time is over. @return whether they have ended. */
static bool wait_for_calls(tp_mcp_server *server, int64_t until_ms) {
  tp__lock_acquire(&server->lock);
  bool in_time = true;
  while (server->call_count > server->parked_count && in_time)
    in_time = tp__lock_condition_wait_until(&server->changed, &server->lock, until_ms * TP__NS_IN_MS);
  bool ended = server->call_count <= server->parked_count;
  tp__lock_release(&server->lock);
  return ended;
}

static void wait_for_all(tp_mcp_server *server) {
  tp__lock_acquire(&server->lock);
  while (server->live_count > 0) tp__lock_condition_wait(&server->changed, &server->lock);
  tp__lock_release(&server->lock);
}

void tp__mcp_server_end_calls(tp_mcp_server *server, int64_t until_ms) {
  tp__lock_acquire(&server->lock);
  server->stops = true;
  tp__lock_release(&server->lock);
  (void)wait_for_calls(server, until_ms);
  tp__mcp_call_drop_kept(server);
  tp__mcp_call_cancel_all(server);
  wait_for_all(server);
}

void tp_mcp_server_free(tp_mcp_server *server, uint32_t limit_ms) {
  if (!server) return;
  tp__lock_acquire(&server->lock);
  server->stops = true;
  tp__lock_release(&server->lock);
  tp__mcp_changed_leave(&server->watch);
  if (server->web) tp__mcp_web_stop_accepting(server);
  tp__mcp_server_end_calls(server, tp__monotonic_ms() + (int64_t)limit_ms);
  end_hearing(server);
  end_worker(server);
  if (server->stdio) tp__mcp_stdio_stop(server);
  if (server->web) tp__mcp_web_stop(server);
  server_free(server);
}

tp_status tp_mcp_server_start(tp_runtime *runtime, const tp_mcp_server_options *options, tp_mcp_server **ret_server,
                              tp_fault *fault) {
  tp_mcp_server_options ours;
  if (!runtime || !ret_server)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_mcp_server_start() needs a runtime and a place for the server");
  tp_status status = tp__struct_read(&ours, sizeof ours, options, "tp_mcp_server_options", fault);
  if (status == TP_OK) status = check_options(&ours, fault);
  if (status != TP_OK) return status;
  tp_mcp_server *server = tp__heap_alloc(sizeof *server);
  if (!server) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the server");
  server->runtime = runtime;
  tp__lock_init(&server->lock, TP__LOCK_mcp_server);
  tp__lock_condition_init(&server->changed);
  status = fill(server, &ours, fault);
  server->watch = (tp__mcp_watch){.runtime = runtime, .on_changed = upstream_changed, .find = find_call, .ctx = server};
  tp__mcp_changed_enter(&server->watch); /* entered before the first list is made, so that the worker sees changes that
                                            come meanwhile */
  if (status == TP_OK) status = keep_first_lists(server, &ours, fault);
  if (status == TP_OK) status = refresh_tools(server, NULL, fault);
  if (status == TP_OK) {
    int error = tp__thread_spawn(&server->worker, run_worker, server);
    server->worker_runs = error == 0;
    if (error) status = tp__refuse_errno(fault, TP_ERR_NO_THREAD, NULL, error, "no thread for the server");
  }
  if (status == TP_OK) status = begin_to_hear(server, fault);
  if (status == TP_OK && (ours.http_address || ours.mounted)) status = tp__mcp_web_start(server, fault);
  if (status == TP_OK && ours.stdio) status = tp__mcp_stdio_start(server, fault);
  if (status == TP_OK) *ret_server = server;
  else tp_mcp_server_free(server, 0);
  return status;
}

uint32_t tp_mcp_server_port(const tp_mcp_server *server) {
  return server && server->web ? tp__mcp_web_port(server) : 0;
}

tp_mount *tp_mcp_server_mount(tp_mcp_server *server) {
  return server && server->options.mounted ? tp__mcp_web_mount(server) : NULL;
}
