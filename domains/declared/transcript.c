/* SPDX-License-Identifier: Apache-2.0
 *
 * transcript.c: files of conversations. The list of the files is under the lock of the hooks. Files are written outside
 * of the lock. */
#include "domains/declared/transcript.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domains/declared/hook_input.h"
#include "domains/declared/hook_protocol.h"
#include "support/file.h"
#include "turnphase/turn.h"

/** One session that has a file. */
struct tp__transcript {
  struct tp__transcript *next;
  char *tenant, *session; /* after this struct */
  char path[TP__TRANSCRIPT_PATH_SIZE];
};

/* ---- one line for each message ---- */

typedef struct writing {
  const tp__hook *hook;
  const tp_call *call;
  tp_writer *writer;
  tp__bytes text;
  size_t number;
  tp_status status;
} writing;

static void write_pair(tp_writer *writer, const char *key, tp_text text) {
  tp_write_string(writer, key);
  tp_write_text(writer, text);
}

static void write_string(tp_writer *writer, const char *key, const char *string) {
  write_pair(writer, key, tp_text_of(string));
}

static void write_answer(writing *w, const tp_message *message) {
  size_t texts = message->text.size > 0;
  tp_write_array(w->writer, texts + message->call_count);
  if (texts > 0) {
    tp_write_map(w->writer, 2);
    write_string(w->writer, "type", "text");
    write_pair(w->writer, "text", message->text);
  }
  for (size_t i = 0; i < message->call_count; i++) {
    const tp_tool_call *call = message->calls[i];
    tp_write_map(w->writer, 4);
    write_string(w->writer, "type", "tool_use");
    write_pair(w->writer, "id", call->id);
    write_pair(w->writer, "name", tp__protocol_tool(w->hook, call->name));
    tp_write_string(w->writer, "input");
    tp__protocol_write_input(w->hook, call->name, call->arguments, w->writer);
  }
}

/* uuid is the number of the message, so that it is the same in each version of the file. */
static void write_message(writing *w, const tp_message *message) {
  char uuid[32], parent[32];
  const char *type = message->role == TP_ROLE_ASSISTANT ? "assistant" : "user";
  snprintf(uuid, sizeof uuid, "%zu", w->number);
  snprintf(parent, sizeof parent, "%zu", w->number - 1);
  tp_write_map(w->writer, 6);
  write_string(w->writer, "type", type);
  write_string(w->writer, "uuid", uuid);
  tp_write_string(w->writer, "parentUuid");
  if (w->number > 1) tp_write_string(w->writer, parent);
  else tp_write_null(w->writer);
  write_pair(w->writer, "sessionId", tp_call_id(w->call, TP_ID_SESSION));
  write_string(w->writer, "cwd", w->hook->hooks->root);
  tp_write_string(w->writer, "message");
  tp_write_map(w->writer, 2);
  write_string(w->writer, "role", type);
  tp_write_string(w->writer, "content");
  if (message->role == TP_ROLE_ASSISTANT) write_answer(w, message);
  else if (message->role == TP_ROLE_TOOL) {
    tp_write_array(w->writer, 1);
    tp_write_map(w->writer, 4);
    write_string(w->writer, "type", "tool_result");
    write_pair(w->writer, "tool_use_id", message->call_id);
    write_pair(w->writer, "content", message->text);
    tp_write_string(w->writer, "is_error");
    tp_write_bool(w->writer, message->is_error);
  } else tp_write_text(w->writer, message->text);
}

static bool add_message(void *ctx, const tp_message *message) {
  writing *w = ctx;
  tp_text value;
  if (message->role == TP_ROLE_END) return true;
  w->number++;
  tp_writer_reset(w->writer);
  write_message(w, message);
  w->status = tp_writer_finish(w->writer, &value);
  if (w->status == TP_OK) w->status = tp__line_add_json(&w->text, value, w->writer);
  return w->status == TP_OK;
}

/* ---- files ---- */

static bool make_folder_locked(tp_hooks *hooks) {
  TP__LOCKED(&hooks->mutex);
  const char *tmp = getenv("TMPDIR");
  if (hooks->transcript_folder[0]) return true;
  snprintf(hooks->transcript_folder, sizeof hooks->transcript_folder, "%s/turnphase-XXXXXX",
           tmp && tmp[0] == '/' && strlen(tmp) < 200 ? tmp : "/tmp");
  if (mkdtemp(hooks->transcript_folder)) return true;
  hooks->transcript_folder[0] = '\0';
  return false;
}

static bool is_session_name(const char *session) {
  static const char legal[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  return session[0] && strlen(session) < 100 && session[strspn(session, legal)] == '\0';
}

static bool has_path_locked(const tp_hooks *hooks, const char *path) {
  TP__LOCKED(&hooks->mutex);
  const struct tp__transcript *each = hooks->transcripts;
  while (each && strcmp(each->path, path) != 0) each = each->next;
  return each != NULL;
}

/* The path is SESSION.jsonl, unless another tenant has a session with the same name. */
static void choose_path_locked(tp_hooks *hooks, struct tp__transcript *made) {
  TP__LOCKED(&hooks->mutex);
  snprintf(made->path, sizeof made->path, "%s/%s.jsonl", hooks->transcript_folder, made->session);
  if (is_session_name(made->session) && !has_path_locked(hooks, made->path)) return;
  snprintf(made->path, sizeof made->path, "%s/session.%llu.jsonl", hooks->transcript_folder,
           (unsigned long long)++hooks->transcript_number);
}

static struct tp__transcript *find_transcript_locked(const tp_hooks *hooks, tp_text tenant, tp_text session) {
  TP__LOCKED(&hooks->mutex);
  struct tp__transcript *each = hooks->transcripts;
  while (each && !(tp_text_is(session, each->session) && tp_text_is(tenant, each->tenant))) each = each->next;
  return each;
}

static struct tp__transcript *add_locked(tp_hooks *hooks, tp_text tenant, tp_text session) {
  TP__LOCKED(&hooks->mutex);
  struct tp__transcript *made = calloc(1, sizeof *made + tenant.size + session.size + 2);
  if (!made) return NULL;
  made->tenant = (char *)(made + 1);
  made->session = made->tenant + tenant.size + 1;
  if (tenant.size > 0) memcpy(made->tenant, tenant.data, tenant.size);
  memcpy(made->session, session.data, session.size);
  choose_path_locked(hooks, made);
  made->next = hooks->transcripts;
  hooks->transcripts = made;
  return made;
}

static bool is_over(const tp_hooks *hooks, const struct tp__transcript *transcript) {
  tp_session *session =
      tp_session_find(hooks->runtime, transcript->tenant[0] ? transcript->tenant : NULL, transcript->session);
  tp_session_unref(session);
  return !session;
}

/* Removes the files of other sessions that are over. */
static struct tp__transcript *sweep_locked(tp_hooks *hooks, const struct tp__transcript *kept) {
  TP__LOCKED(&hooks->mutex);
  struct tp__transcript **at = &hooks->transcripts, *over = NULL;
  while (*at) {
    struct tp__transcript *each = *at;
    if (each == kept || !is_over(hooks, each)) {
      at = &each->next;
      continue;
    }
    *at = each->next;
    each->next = over;
    over = each;
  }
  return over;
}

static void remove_all(struct tp__transcript *each) {
  while (each) {
    struct tp__transcript *next = each->next;
    unlink(each->path);
    free(each);
    each = next;
  }
}

static bool find_path(tp_hooks *hooks, const tp_call *call, char ret_path[TP__TRANSCRIPT_PATH_SIZE]) {
  tp_text tenant = tp_call_id(call, TP_ID_TENANT), session = tp_call_id(call, TP_ID_SESSION);
  tp__lock_acquire(&hooks->mutex);
  struct tp__transcript *own = make_folder_locked(hooks) ? find_transcript_locked(hooks, tenant, session) : NULL,
                        *over = NULL;
  if (!own && hooks->transcript_folder[0]) {
    own = add_locked(hooks, tenant, session);
    over = sweep_locked(hooks, own);
  }
  if (own) memcpy(ret_path, own->path, sizeof own->path);
  tp__lock_release(&hooks->mutex);
  remove_all(over);
  return own != NULL;
}

/* Readers see either the old file or the new one. @return 0 or errno. */
static int replace(const char *path, tp_text text) {
  char name[TP__TRANSCRIPT_PATH_SIZE + 8];
  snprintf(name, sizeof name, "%s.XXXXXX", path);
  int fd = mkostemp(name, O_CLOEXEC), error = 0; /* its mode is 0600 */
  if (fd < 0) return errno;
  for (size_t written = 0; error == 0 && written < text.size;) {
    ssize_t size = write(fd, text.data + written, text.size - written);
    if (size > 0) written += (size_t)size;
    else if (size == 0 || errno != EINTR) error = size == 0 ? EIO : errno;
  }
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(name, path) != 0) error = errno;
  if (error != 0) unlink(name);
  return error;
}

void tp__transcript_write(const tp__hook *hook, tp_call *call, char ret_path[TP__TRANSCRIPT_PATH_SIZE]) {
  writing w = {.hook = hook, .call = call};
  ret_path[0] = '\0';
  bool has_session = tp_call_id(call, TP_ID_SESSION).size > 0 && tp_call_messages(call, NULL, NULL) > 0;
  if (!has_session || tp_writer_new(NULL, &w.writer) != TP_OK) return;
  (void)tp_call_messages(call, add_message, &w);
  tp_writer_free(w.writer);
  bool is_whole = w.status == TP_OK && !w.text.failed;
  int error =
      !is_whole || !find_path(hook->hooks, call, ret_path) ? ENOMEM : replace(ret_path, tp__bytes_text(&w.text));
  tp__bytes_fini(&w.text);
  if (error == 0) return;
  ret_path[0] = '\0';
  (void)!tp_call_emit_diagnostic(call, TP_SEVERITY_WARNING, "transcript",
                                 "the transcript could not be written: transcript_path is empty", NULL);
}

void tp__transcripts_fini(tp_hooks *hooks) {
  remove_all(hooks->transcripts);
  hooks->transcripts = NULL;
  if (hooks->transcript_folder[0]) rmdir(hooks->transcript_folder);
}
