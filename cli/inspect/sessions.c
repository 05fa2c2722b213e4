/* SPDX-License-Identifier: Apache-2.0
 *
 * The command sessions: lists the data of each session in a data directory, and erases it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/date.h"
#include "cli/common/exit_status.h"
#include "cli/common/kept_sessions.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/common/quantity.h"
#include "cli/common/table.h"
#include "cli/inspect/forget.h"
#include "cli/inspect/progress.h"
#include "cli/run/conversation.h"
#include "cli/run/event.h"
#include "cli/run/timeline.h"
#include "runtime/base/check.h"
#include "support/text.h"

enum { CALL_BYTES = 200 }; /* of a call that is shown */

/** What a command works on. */
typedef struct work {
  const cli_arguments *arguments;
  cli_output *output;
  cli_data data;
  tp_kept_query query;
  size_t shown;
  bool has_more;
  uint64_t messages, turns, jobs, questions, tasks; /* of the sessions that fit */
  char tenant[TP_ID_BYTES_MAX + 1];                 /* of the first of them */
  cli_pool pool;
  struct said_call *calls; /* of the session that is shown, in the order of its messages */
  size_t call_count, call_capacity, call_next;
} work;

/** A call that a message of the model has. */
typedef struct said_call {
  int64_t message;
  char *words; /* "files_read {"path": …}" */
} said_call;

/* ---- list ---- */

static void add_session(cli_map *p, const tp_kept_session *s) {
  cli_map_add_text(p, "tenant", s->tenant);
  cli_map_add_text(p, "session", s->session);
  const struct {
    const char *name;
    uint64_t count;
  } rows[] = {{"messages", s->messages}, {"turns", s->turns}, {"entries", s->entries},     {"calls", s->calls},
              {"audits", s->audits},     {"jobs", s->jobs},   {"questions", s->questions}, {"tasks", s->tasks}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) cli_map_add_int(p, rows[i].name, (int64_t)rows[i].count);
  if (s->first_unix_ms) cli_map_add_int(p, "first_unix_ms", s->first_unix_ms);
  if (s->last_unix_ms) cli_map_add_int(p, "last_unix_ms", s->last_unix_ms);
  if (s->process_id) cli_map_add_int(p, "process_id", s->process_id);
  if (s->holder.size) cli_map_add_text(p, "holder", s->holder);
  if (s->lease_ms) cli_map_add_int(p, "lease_ms", s->lease_ms);
}

/* "process 12", or in a database the address of one. */
static void write_holder(const tp_kept_session *s, char *buffer, size_t size) {
  buffer[0] = '\0';
  if (s->holder.size) snprintf(buffer, size, "  in use by %.*s", tp__cut_word(s->holder, 128), s->holder.data);
  else if (s->process_id) snprintf(buffer, size, "  in use by process %lld", (long long)s->process_id);
}

static void print_session(cli_output *output, const tp_kept_session *s) {
  static const cli_column columns[] = {{.head = "", .width = 24}, {.head = ""}, {.head = "", .kind = CLI_COLUMN_TEXT}};
  char time[40], rest[512], holder[160];
  tp__bytes name = {0};
  write_holder(s, holder, sizeof holder);
  int size = snprintf(rest, sizeof rest, "%llu messages, %llu turns, %llu jobs, %llu questions, %llu tasks%s",
                      (unsigned long long)s->messages, (unsigned long long)s->turns, (unsigned long long)s->jobs,
                      (unsigned long long)s->questions, (unsigned long long)s->tasks, holder);
  if (s->lease_ms)
    snprintf(rest + size, sizeof rest - (size_t)size, ", whose turn has it for %lld.%lld s more",
             (long long)(s->lease_ms / 1000), (long long)(s->lease_ms % 1000 / 100));
  tp__bytes_put_text(&name, s->tenant);
  if (s->tenant.size) tp__bytes_put_string(&name, "/");
  tp__bytes_put_text(&name, s->session);
  const cli_cell cells[] = {{tp_text_of(s->last_unix_ms ? cli_data_time(s->last_unix_ms, time) : "-"), CLI_NORMAL},
                            {tp__bytes_text(&name), CLI_NORMAL},
                            {tp_text_of(rest), CLI_NORMAL}};
  cli_table table;
  cli_table_begin(&table, output, columns, 3, 0);
  cli_table_row(&table, cells);
  cli_table_end(&table);
  tp__bytes_fini(&name);
}

/* Whether it is a session, and not the records of phases that ran without one: a command listed its tools there. */
static bool is_session(const tp_kept_session *s) {
  return s->session.size > 0 || s->messages + s->turns + s->jobs + s->questions + s->tasks > 0;
}

static bool show_session(void *ctx, const tp_kept_session *s) {
  work *w = ctx;
  if (!is_session(s)) return true;
  w->has_more = w->shown == cli_limit(w->arguments, CLI_LIMIT);
  if (w->has_more) return false;
  w->shown++;
  if (w->arguments->json) {
    cli_map p = {0};
    add_session(&p, s);
    cli_map_print(&p, w->output);
  } else {
    print_session(w->output, s);
  }
  return !w->output->error;
}

static int sessions_list(work *w) {
  tp_fault fault = {0};
  bool is_left = false;
  tp_status status = cli_sessions_each(&w->data, &w->query, show_session, w, &fault);
  if (status == TP_OK) status = cli_sessions_erasure_is_left(&w->data, &is_left, &fault);
  if (status != TP_OK) return cli_fault(w->data.path, status, &fault);
  if (w->has_more) cli_error("there are more; --limit 0 shows all");
  bool has_filter = w->query.tenant || w->query.before_unix_ms;
  if (w->shown == 0 && !w->arguments->json)
    cli_error("%s has no session%s", w->data.path, has_filter ? " that fits" : ": no turn of one has ended or runs");
  if (is_left)
    cli_error("an erasure is not over: copies of deleted rows are left in %s; call it again, or sessions delete",
              w->data.path);
  return CLI_OK;
}

/* ---- one session ---- */

static bool sum_session(void *ctx, const tp_kept_session *s) {
  work *w = ctx;
  if (w->shown++ == 0) snprintf(w->tenant, sizeof w->tenant, "%.*s", (int)s->tenant.size, s->tenant.data);
  w->messages += s->messages;
  w->turns += s->turns;
  w->jobs += s->jobs;
  w->questions += s->questions;
  w->tasks += s->tasks;
  return true;
}

static int sum_sessions(work *w) {
  tp_fault fault = {0};
  tp_status status = cli_sessions_each(&w->data, &w->query, sum_session, w, &fault);
  return status == TP_OK ? CLI_OK : cli_fault(w->data.path, status, &fault);
}

static bool export_row(void *ctx, const char *kind, tp_text row) {
  work *w = ctx;
  cli_map p = {0};
  cli_map_add_string(&p, "kind", kind);
  cli_map_add_value(&p, "row", row);
  return cli_map_print(&p, w->output) == CLI_OK && !w->output->error;
}

static void print_labelled(work *w, tp_text row, const char *label, const char *key) {
  tp_text text = tp_value_text(tp_value_get(row, key));
  if (!text.size) return;
  cli_print_string(w->output, label);
  cli_print_cut(w->output, text, SIZE_MAX);
}

/* Rows of calls come after the rows of all messages, and are shown with their messages. */
static bool take_call(void *ctx, const char *kind, tp_text row) {
  work *w = ctx;
  if (strcmp(kind, "tool_call") != 0) return true;
  tp__bytes words = {0};
  tp__bytes_put_text(&words, tp_value_text(tp_value_get(row, "name")));
  tp__bytes_put_string(&words, " ");
  tp_text arguments = tp_value_get(row, "arguments");
  if (arguments.size) (void)!cli_buffer_add_json(&words, arguments, NULL);
  w->calls = cli_reserve(w->calls, w->call_count, &w->call_capacity, sizeof *w->calls);
  w->calls[w->call_count++] = (said_call){.message = tp_value_int(tp_value_get(row, "message"), 0),
                                          .words = cli_pool_copy(&w->pool, tp__bytes_text(&words))};
  tp__bytes_fini(&words);
  return true;
}

static void show_message(work *w, tp_text row) {
  tp_text text = tp_value_text(tp_value_get(row, "text")), name = tp_value_text(tp_value_get(row, "name"));
  tp_text role = tp_value_text(tp_value_get(row, "role"));
  int64_t id = tp_value_int(tp_value_get(row, "id"), 0);
  size_t next = w->call_next;
  bool has_call = next < w->call_count && w->calls[next].message == id;
  if (text.size || !has_call) {
    cli_print_cut(w->output, role, SIZE_MAX);
    cli_print_string(w->output, name.size ? " " : "");
    cli_print_cut(w->output, name, SIZE_MAX);
    cli_print_string(w->output, text.size ? ": " : "");
    cli_print_cut(w->output, text, SIZE_MAX);
    cli_print_string(w->output, "\n");
  }
  for (; w->call_next < w->call_count && w->calls[w->call_next].message == id; w->call_next++) {
    cli_print_cut(w->output, role, SIZE_MAX);
    cli_print_string(w->output, " calls ");
    cli_print_cut(w->output, tp_text_of(w->calls[w->call_next].words), CALL_BYTES);
    cli_print_string(w->output, "\n");
  }
}

static bool show_row(void *ctx, const char *kind, tp_text row) {
  work *w = ctx;
  if (strcmp(kind, "message") == 0) show_message(w, row);
  static const struct {
    const char *kind, *label, *key, *more_label, *more;
  } rows[] = {{"turn", "turn ", "turn", "  why: ", "reason"},
              {"job", "job of ", "handler", "  ", "message"},
              {"question", "question ", "tool", "  ", "reason"},
              {"task", "task ", "key", "  ", "tool"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(rows[i].kind, kind) != 0) continue;
    print_labelled(w, row, rows[i].label, rows[i].key);
    print_labelled(w, row, rows[i].more_label, rows[i].more);
    cli_print_string(w->output, "\n");
  }
  return !w->output->error;
}

/* Finds the named session. If several tenants have a session with this name, the user must name the tenant. */
static int find_one(work *w) {
  assert(w->query.session && w->shown == 0);
  int status = sum_sessions(w);
  if (status != CLI_OK) return status;
  if (w->shown != 1) {
    if (w->shown) cli_error("%zu tenants have a session %s: name one with --tenant", w->shown, w->query.session);
    else {
      const char *data = w->arguments->operands[1];
      cli_error("there is no session %s in %s; see: turnphase sessions list %s", w->query.session, data, data);
    }
    return w->shown ? CLI_USAGE : CLI_NEGATIVE;
  }
  return CLI_OK;
}

static int each_row(work *w, tp_kept_row_fn each) {
  tp_fault fault = {0};
  int status = find_one(w);
  if (status != CLI_OK) return status;
  tp_status read = cli_session_rows(&w->data, w->tenant, w->query.session, each, w, &fault);
  return read == TP_OK ? CLI_OK : cli_fault(w->data.path, read, &fault);
}

static int sessions_show(work *w) {
  if (w->arguments->json) return each_row(w, export_row);
  int status = each_row(w, take_call);
  w->shown = 0;
  if (status == CLI_OK) status = each_row(w, show_row);
  free(w->calls);
  cli_pool_free(&w->pool);
  return status;
}
static int sessions_export(work *w) { return each_row(w, export_row); }

/* ---- forking ---- */

static int sessions_fork(work *w) {
  tp_fault fault = {0};
  uint64_t messages = 0;
  const char *new_session = w->arguments->operands[3];
  if (!tp__is_id(tp_text_of(new_session))) {
    cli_error("sessions fork: NEW must have 1 to 128 bytes of UTF-8 without white space");
    return CLI_USAGE;
  }
  int status = find_one(w);
  if (status != CLI_OK) return status;
  const tp_kept_fork request = {.struct_size = sizeof request,
                                .tenant = w->tenant,
                                .session = w->query.session,
                                .new_session = new_session,
                                .turn = w->arguments->turn};
  tp_status forked = cli_session_fork(&w->data, &request, &messages, &fault);
  if (forked == TP_ERR_NOT_FOUND || forked == TP_ERR_DUPLICATE_ID) {
    cli_error("%s", fault.message);
    return CLI_NEGATIVE;
  }
  if (forked != TP_OK) return cli_fault(w->data.path, forked, &fault);
  if (!w->arguments->json) {
    cli_printf(w->output, "%s has %llu messages of %s\n", new_session, (unsigned long long)messages, w->query.session);
    return CLI_OK;
  }
  cli_map p = {0};
  cli_map_add_text(&p, "tenant", tp_text_of(w->tenant));
  cli_map_add_string(&p, "session", new_session);
  cli_map_add_int(&p, "messages", (int64_t)messages);
  return cli_map_print(&p, w->output);
}

/* ---- erasing ---- */

static int may_erase(const work *w) {
  cli_error("%zu sessions with %llu messages, %llu turns, %llu jobs, %llu questions and %llu tasks are erased for good",
            w->shown, (unsigned long long)w->messages, (unsigned long long)w->turns, (unsigned long long)w->jobs,
            (unsigned long long)w->questions, (unsigned long long)w->tasks);
  return cli_forget_confirm(w->arguments);
}

static int print_erased(work *w, const tp_kept_erased *erased) {
  if (!w->arguments->json) {
    cli_error("%llu sessions (%llu rows) were erased%s", (unsigned long long)erased->sessions,
              (unsigned long long)erased->rows,
              w->data.is_database ? "; the server has copies until it vacuums, and in its log and backups" : "");
    return CLI_OK;
  }
  cli_map p = {0};
  cli_map_add_int(&p, "sessions", (int64_t)erased->sessions);
  cli_map_add_int(&p, "rows", (int64_t)erased->rows);
  cli_map_add_bool(&p, "complete", erased->is_complete);
  return cli_map_print(&p, w->output);
}

static int erase(work *w, tp_kept_erased *erased) {
  tp_fault fault = {0};
  cli_progress progress;
  assert(w->query.tenant || w->query.session || w->query.before_unix_ms);
  cli_progress_start(&progress, "erasing");
  const tp_kept_choice request = {.struct_size = sizeof request,
                                  .tenant = w->query.tenant,
                                  .session = w->query.session,
                                  .before_unix_ms = w->query.before_unix_ms};
  tp_status status = cli_sessions_erase(&w->data, &request, erased, &fault);
  cli_progress_stop(&progress);
  if (status == TP_OK) return CLI_OK;
  int exit_status = cli_fault(w->data.path, status, &fault);
  return status == TP_ERR_BUSY ? CLI_RETRY : exit_status;
}

static int sessions_delete(work *w) {
  tp_kept_erased erased;
  if (!w->query.session && !w->query.tenant && !w->query.before_unix_ms) {
    cli_error("which sessions? name one, or give --tenant or --age");
    return CLI_USAGE;
  }
  int status = sum_sessions(w);
  if (status == CLI_OK) status = may_erase(w);
  if (status == CLI_OK) status = erase(w, &erased);
  return status == CLI_OK ? print_erased(w, &erased) : status;
}

static int read_query(work *w, const char *session) {
  const cli_arguments *a = w->arguments;
  w->query = (tp_kept_query){.struct_size = sizeof w->query, .tenant = a->tenant, .session = session};
  if (!a->age || cli_date_read_since(a->age, &w->query.before_unix_ms)) return CLI_OK;
  cli_error("--age takes 12h, 30d or 2026-11-22, not '%s'", a->age);
  return CLI_USAGE;
}

/* ---- the command ---- */

int cli_sessions(const cli_arguments *arguments, cli_output *output) {
  static const struct {
    const char *name;
    size_t least, most; /* operands after the action */
    int (*run)(work *w);
  } actions[] = {{"list", 1, 1, sessions_list},
                 {"show", 2, 2, sessions_show},
                 {"export", 2, 2, sessions_export},
                 {"fork", 3, 3, sessions_fork},
                 {"delete", 1, 2, sessions_delete}};
  work w = {.arguments = arguments, .output = output};
  for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
    if (strcmp(arguments->operand, actions[i].name) != 0) continue;
    size_t given = arguments->operand_count - 1;
    if (given < actions[i].least || given > actions[i].most) break;
    if (arguments->yes && actions[i].run != sessions_delete) break;
    if (arguments->turn && actions[i].run != sessions_fork) break;
    if (arguments->limit != CLI_LIMIT_NOT_GIVEN && actions[i].run != sessions_list) break;
    int status = read_query(&w, given > 1 ? arguments->operands[2] : NULL);
    if (status == CLI_OK) status = cli_data_open(arguments->operands[1], &w.data);
    if (status != CLI_OK) return status;
    status = actions[i].run(&w);
    cli_data_close(&w.data);
    return status;
  }
  cli_error(
      "sessions takes list DIR, show|export DIR SESSION, fork DIR SESSION NEW [--turn ID] or delete DIR [SESSION]"
      " --yes; see: turnphase sessions"
      " --help");
  return CLI_USAGE;
}
