/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/stdio.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "domains/mcp/io.h"
#include "domains/mcp/lines.h"

enum { ERRORS_MAX = 64 << 10, GRACE_MS = 500 };

/* The variables that every program needs, the same that the official libraries pass on. */
static const char *const passed[] = {"HOME",      "LANG", "LC_ALL",         "LC_CTYPE",       "LOGNAME",
                                     "NODE_PATH", "PATH", "SHELL",          "TERM",           "TMPDIR",
                                     "TZ",        "USER", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"};

/** One run of the program. References: one of the session's link while this is the newest run, and one of the
 *  process. */
typedef struct child {
  tp__mcp_session *session; /* holds a reference */
  uint64_t process;         /* under the session's lock */
  /* the loop's thread only */
  tp__mcp_lines lines;
  bool is_flooding; /* set when a line was longer than a message may be: the program is being ended */
} child;

/* ---- the environment ---- */

static bool is_set(const char *const *environment, const char *name) {
  size_t size = strlen(name);
  for (size_t i = 0; environment && environment[i]; i++)
    if (strncmp(environment[i], name, size) == 0 && environment[i][size] == '=') return true;
  return false;
}

/* The value of PATH that the program will have. */
static const char *path_of(const char *const *environment) {
  for (size_t i = 0; environment && environment[i]; i++)
    if (strncmp(environment[i], "PATH=", 5) == 0) return environment[i] + 5;
  const char *path = getenv("PATH");
  return path && *path ? path : "/usr/local/bin:/usr/bin:/bin";
}

/* @return NULL without memory. Freed with each of its strings that is passed on. */
static const char **make_environment(const char *const *own, size_t *ret_size, tp__bytes *strings) {
  size_t count = 0, used = 0, offsets[sizeof passed / sizeof *passed], offset_count = 0;
  while (own && own[count]) count++;
  for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
    const char *value = getenv(passed[i]);
    if (!value || is_set(own, passed[i])) continue;
    offsets[offset_count++] = strings->size;
    tp__bytes_printf(strings, "%s=%s", passed[i], value);
    tp__bytes_put(strings, "", 1);
  }
  *ret_size = (count + offset_count + 1) * sizeof(char *);
  const char **environment = strings->failed ? NULL : tp__heap_alloc(*ret_size);
  if (!environment) return NULL;
  for (size_t i = 0; i < offset_count; i++) environment[used++] = strings->data + offsets[i];
  for (size_t i = 0; i < count; i++) environment[used++] = own[i];
  return environment;
}

/* Finds the file of a program: the name itself if it has a slash, else the first one in PATH that can be run. */
static bool find_program(const char *name, const char *path, tp__bytes *ret_file) {
  struct stat stat_of;
  if (strchr(name, '/')) {
    tp__bytes_put_string(ret_file, name);
    return !ret_file->failed;
  }
  for (const char *at = path; *at;) {
    size_t size = strcspn(at, ":");
    tp__bytes_clear(ret_file);
    tp__bytes_put(ret_file, size ? at : ".", size ? size : 1);
    tp__bytes_put_string(ret_file, "/");
    tp__bytes_put_string(ret_file, name);
    const char *file = tp__bytes_string(ret_file);
    if (stat(file, &stat_of) == 0 && S_ISREG(stat_of.st_mode) && access(file, X_OK) == 0) return true;
    at += size + (at[size] == ':');
  }
  return false;
}

/* ---- what the program writes ---- */

static void take_line(void *ctx, tp_text line) {
  child *c = ctx;
  if (!c->is_flooding) tp__mcp_session_take(c->session, line);
}

/* Ends a program whose line is too long, or for whose line there is no memory. */
static void end_flood(void *ctx, bool is_too_long) {
  child *c = ctx;
  char words[128];
  if (c->is_flooding) return;
  if (is_too_long) snprintf(words, sizeof words, "it wrote a line of more than %zu bytes", c->lines.bytes_max);
  else snprintf(words, sizeof words, "there is no memory for a line that it wrote");
  c->is_flooding = true;
  tp__mcp_session_broken(c->session, words);
}

static void program_wrote(void *ctx, tp_text piece) {
  child *c = ctx;
  tp__mcp_io_note_loop();
  if (!c->is_flooding) tp__mcp_lines_feed(&c->lines, piece);
}

static void program_ended(void *ctx, const tp_process_result *result) {
  child *c = ctx;
  tp__mcp_session *session = c->session;
  char how[96], shown[256], words[TP_FAULT_MESSAGE_SIZE];
  tp__mcp_io_note_loop();
  if (result->end == TP_PROCESS_EXITED) snprintf(how, sizeof how, "it exited with code %d", result->exit_code);
  else if (result->end == TP_PROCESS_KILLED) snprintf(how, sizeof how, "it was killed by signal %d", result->signal);
  else snprintf(how, sizeof how, "it was ended (%s)", tp_process_end_name(result->end));
  tp_text errors = result->errors; /* shows the end of its errors, which says more than the beginning */
  if (errors.size > sizeof shown - 1)
    errors = (tp_text){errors.data + errors.size - (sizeof shown - 1), sizeof shown - 1};
  tp__show(shown, sizeof shown, errors);
  snprintf(words, sizeof words, "%s%s%s", how, errors.size ? ": " : "", shown);
  tp__lock_acquire(&session->lock);
  if (session->link == c) session->link = NULL;
  tp__lock_release(&session->lock);
  tp__mcp_lines_fini(&c->lines);
  tp__heap_free(c, sizeof *c);
  tp__mcp_session_lost(session, words);
  tp__mcp_session_unref(session);
}

/* ---- the transport ---- */

static tp_status start_program(tp__mcp_session *session, child *c, const char **arguments, tp_fault *fault) {
  const tp_mcp_options *o = &session->settings.options;
  tp__bytes file = {0}, strings = {0};
  size_t size = 0;
  tp_status status = TP_OK;
  const char *program = arguments[0], **environment = make_environment(o->environment, &size, &strings);
  if (!find_program(program, path_of(o->environment), &file))
    status = tp__refuse(fault, TP_ERR_SYSTEM, o->name, "the program %s is not in PATH", program);
  else if (!environment) status = tp__refuse(fault, TP_ERR_NO_MEMORY, o->name, "no memory for the program %s", program);
  if (status == TP_OK) {
    arguments[0] = tp__bytes_string(&file);
    const tp_process_options options = {.struct_size = sizeof options,
                                        .arguments = arguments,
                                        .environment = environment,
                                        .directory = o->directory,
                                        .grace_ms = GRACE_MS,
                                        .errors_max = ERRORS_MAX,
                                        .on_output = program_wrote};
    status = tp_process_start(tp__mcp_io_loop(), &options, program_ended, c, &c->process, fault);
    arguments[0] = program;
  }
  if (environment) tp__heap_free(environment, size);
  tp__bytes_fini(&strings);
  tp__bytes_fini(&file);
  return status;
}

/* on_end may come before this returns, on the loop's thread, and waits for the lock. */
static tp_status stdio_start_locked(tp__mcp_session *session, tp_fault *fault) {
  TP__LOCKED(&session->lock);
  assert(!session->link);
  child *c = tp__heap_alloc(sizeof *c);
  if (!c) return tp__refuse(fault, TP_ERR_NO_MEMORY, session->settings.options.name, "no memory for a program");
  tp__mcp_session_ref(session);
  c->session = session;
  c->lines = (tp__mcp_lines){
      .on_line = take_line, .on_lost = end_flood, .ctx = c, .bytes_max = session->settings.options.message_bytes_max};
  session->link = c;
  tp_status status = start_program(session, c, (const char **)(uintptr_t)session->settings.options.arguments, fault);
  if (status == TP_OK) return TP_OK;
  session->link = NULL;
  tp__heap_free(c, sizeof *c);
  tp__mcp_session_unref(session);
  return status;
}

static tp_status stdio_send_locked(tp__mcp_session *session, int64_t id, const char *method, tp_text params,
                                   tp_text json, tp_fault *fault) {
  TP__LOCKED(&session->lock);
  const child *c = session->link;
  tp__bytes line = {0};
  (void)id, (void)method, (void)params;
  if (!c) return tp__refuse(fault, TP_ERR_STALE, NULL, "it has ended");
  tp__bytes_put_text(&line, json);
  tp__bytes_put_string(&line, "\n");
  tp_status status =
      line.failed ? TP_ERR_NO_MEMORY : tp_process_write(tp__mcp_io_loop(), c->process, tp__bytes_text(&line));
  tp__bytes_fini(&line);
  if (status == TP_ERR_STALE) status = TP_OK; /* the program is ending, and its end reports the reason */
  if (status == TP_OK) return TP_OK;
  return tp__refuse(
      fault, status, NULL, "%s",
      status == TP_ERR_FULL ? "it does not read: 16 MiB of messages wait for it" : "no memory for a message");
}

static bool stdio_stop_locked(tp__mcp_session *session) {
  TP__LOCKED(&session->lock);
  const child *c = session->link;
  if (c) tp_process_close_input(tp__mcp_io_loop(), c->process);
  return true;
}

static void stdio_kill_locked(tp__mcp_session *session) {
  TP__LOCKED(&session->lock);
  const child *c = session->link;
  if (c) tp_process_cancel(tp__mcp_io_loop(), c->process);
}

const tp__mcp_transport tp__mcp_stdio = {.start_locked = stdio_start_locked,
                                         .send_locked = stdio_send_locked,
                                         .stop_locked = stdio_stop_locked,
                                         .kill_locked = stdio_kill_locked};
