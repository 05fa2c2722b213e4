/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks.c: a directory of hooks: its files, the content that a trust covers, and the commit. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domains/declared/hook_protocol.h"
#include "domains/declared/hook_read.h"
#include "domains/declared/hook_run.h"
#include "domains/declared/hook_tool.h"
#include "domains/declared/hook_worker.h"
#include "domains/declared/redact.h"
#include "domains/declared/transcript.h"
#include "domains/declared/trust.h"
#include "domains/declared/webhook.h"
#include "domains/declared/yaml.h"

enum { HOOKS_MAX = 1024 };
#define OWNER "declared"

/* ---- memory of what was read ---- */

struct tp__block {
  struct tp__block *next;
  max_align_t memory[];
};

void *tp__hooks_alloc(tp_hooks *hooks, size_t size) {
  assert(size > 0);
  struct tp__block *block = calloc(1, sizeof *block + size);
  if (!block) return NULL;
  block->next = hooks->blocks;
  hooks->blocks = block;
  return block->memory;
}

const char *tp__hooks_copy(tp_hooks *hooks, tp_text text) {
  char *copy = tp__hooks_alloc(hooks, text.size + 1);
  if (copy && text.size > 0) memcpy(copy, text.data, text.size);
  return copy;
}

const char *tp__hooks_pair(tp_hooks *hooks, const char *name, const char *value) {
  assert(*name && !strchr(name, '='));
  size_t size = strlen(name) + strlen(value) + 2;
  char *pair = tp__hooks_alloc(hooks, size);
  if (pair) snprintf(pair, size, "%s=%s", name, value);
  return pair;
}

#ifdef TP_CHECKS
static void hooks_check_locked(const tp_hooks *hooks) {
  TP__LOCKED(&hooks->mutex);
  size_t looked = 0;
  /* The caller holds a reference. */
  assert(hooks->references > 0);
  /* The count of hooks agrees with the list. */
  for (const tp__hook *hook = hooks->first; hook && looked < TP__CHECK_ITEMS_MAX; hook = hook->next, looked++) {
    assert(hook->hooks == hooks && hook->id && hook->file);
    assert(hook->trusted_count <= TP__HOOK_FILES_MAX && hook->argument_count <= TP__HOOK_ARGUMENTS_MAX);
    assert(!hook->worker || hook->kind == TP__HOOK_WORKER);
    assert(!hook->tool || hook->kind == TP__HOOK_TOOL);
  }
  assert(looked == TP__CHECK_ITEMS_MAX || looked == hooks->count);
}
#endif

void tp__hooks_ref(tp_hooks *hooks) {
  tp__lock_acquire(&hooks->mutex);
  TP__CHECK(hooks_check_locked(hooks));
  hooks->references++;
  tp__lock_release(&hooks->mutex);
}

void tp__hooks_ref_handler(tp_hooks *hooks) {
  tp__hooks_ref(hooks);
  tp__lock_acquire(&hooks->mutex);
  hooks->handlers++;
  tp__lock_release(&hooks->mutex);
}

void tp__hooks_unref_handler(tp_hooks *hooks) {
  tp__lock_acquire(&hooks->mutex);
  assert(hooks->handlers > 0 && hooks->handlers < hooks->references + 1);
  bool is_last = --hooks->handlers == 0;
  tp__lock_release(&hooks->mutex);
  if (is_last) tp_process_loop_end(hooks->loop);
  tp__hooks_unref(hooks);
}

void tp__hooks_unref(tp_hooks *hooks) {
  tp__lock_acquire(&hooks->mutex);
  assert(hooks->references > 0);
  size_t left = --hooks->references;
  tp__lock_release(&hooks->mutex);
  if (left > 0) return;
  tp_process_loop_free(hooks->loop);
  tp__transcripts_fini(hooks);
  for (tp__hook *hook = hooks->first; hook; hook = hook->next) tp__worker_free(hook->worker);
  for (struct tp__hook_matcher *one = hooks->matchers; one; one = one->next) tp__matcher_fini(&one->matcher);
  while (hooks->blocks) {
    struct tp__block *block = hooks->blocks;
    hooks->blocks = block->next;
    free(block);
  }
  tp__lock_condition_fini(&hooks->notified);
  tp__lock_fini(&hooks->mutex);
  free(hooks);
}

void tp__hooks_note_loop(tp_hooks *hooks) {
  tp__lock_acquire(&hooks->mutex);
  hooks->loop_thread = pthread_self();
  hooks->has_loop_thread = true;
  tp__lock_release(&hooks->mutex);
}

bool tp__hooks_in_loop(tp_hooks *hooks) {
  tp__lock_acquire(&hooks->mutex);
  bool is_inside = hooks->has_loop_thread && pthread_equal(hooks->loop_thread, pthread_self());
  tp__lock_release(&hooks->mutex);
  return is_inside;
}

bool tp__hooks_have_listener(tp_hooks *hooks) {
  tp__lock_acquire(&hooks->mutex);
  bool has_listener = hooks->on_program != NULL;
  tp__lock_release(&hooks->mutex);
  return has_listener;
}

void tp__hooks_notify(tp_hooks *hooks, const tp_hook_program *program) {
  tp__lock_acquire(&hooks->mutex);
  tp_hook_program_fn on_program = hooks->on_program;
  void *ctx = hooks->program_ctx;
  if (on_program) hooks->notifying++;
  tp__lock_release(&hooks->mutex);
  if (!on_program) return;
  on_program(ctx, program);
  tp__lock_acquire(&hooks->mutex);
  assert(hooks->notifying > 0);
  if (--hooks->notifying == 0) tp__lock_condition_broadcast(&hooks->notified);
  tp__lock_release(&hooks->mutex);
}

void tp_hooks_free(tp_hooks *hooks) {
  if (!hooks) return;
  tp__lock_acquire(&hooks->mutex);
  TP__CHECK(hooks_check_locked(hooks));
  hooks->on_program = NULL;
  while (hooks->notifying > 0) tp__lock_condition_wait(&hooks->notified, &hooks->mutex);
  tp__lock_release(&hooks->mutex);
  tp__hooks_unref(hooks);
}

/* ---- files ---- */

static tp_status refuse_io(tp_fault *fault, const char *path, int error) {
  return tp__refuse_errno(fault, TP_ERR_IO, path, error, "cannot be read");
}

static tp_status refuse_hooks_memory(tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the hooks");
}

static int is_yaml(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return entry->d_name[0] != '.' && dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static int by_bytes(const struct dirent **one, const struct dirent **other) {
  return strcmp((*one)->d_name, (*other)->d_name);
}

/* The runtime's redactor must have the file's patterns; otherwise the commit is refused. */
struct tp__redact_file {
  struct tp__redact_file *next;
  const char *file;
  tp_text text;
};

static tp_status keep_patterns(tp_hooks *hooks, const char *file, tp_text text, tp_fault *fault) {
  struct tp__redact_file *kept = tp__hooks_alloc(hooks, sizeof *kept);
  const char *copy = kept ? tp__hooks_copy(hooks, text) : NULL;
  if (!copy) return refuse_hooks_memory(fault);
  *kept = (struct tp__redact_file){hooks->redacts, file, {copy, text.size}};
  hooks->redacts = kept;
  return TP_OK;
}

static tp_status check_patterns(const tp_hooks *hooks, tp_fault *fault) {
  void *ctx;
  assert(hooks->runtime);
  tp_redact_fn redact = tp_runtime_redact(hooks->runtime, &ctx);
  for (const struct tp__redact_file *one = hooks->redacts; one; one = one->next) {
    if (redact != tp_redactor_redact)
      return tp__refuse(fault, TP_ERR_USAGE, one->file,
                        "it has patterns of secrets, and the runtime does not use them: make a tp_redactor, read this "
                        "directory with tp_redactor_read(), and set tp_runtime_options.redact to tp_redactor_redact");
    if (!tp__redact_has(ctx, one->text))
      return tp__refuse(fault, TP_ERR_USAGE, one->file,
                        "its patterns of secrets are not those that the runtime began with: start it again");
  }
  return TP_OK;
}

static tp_status read_one(tp_hooks *hooks, const char *name, tp__hook ***last, tp_fault *fault) {
  char path[4096];
  int size = snprintf(path, sizeof path, "%s/%s", hooks->directory, name);
  const char *file = size > 0 && (size_t)size < sizeof path ? tp__hooks_copy(hooks, tp_text_of(path)) : NULL;
  if (!file) return refuse_hooks_memory(fault);
  tp__bytes text = {0};
  tp__hook *hook;
  int error = tp__file_read(AT_FDCWD, file, TP__YAML_BYTES_MAX, &text);
  tp_status status = error ? tp__file_refuse(fault, file, error, TP__YAML_BYTES_MAX, "cannot be read")
                           : tp__trust_add_declaration(hooks, file, tp__bytes_text(&text), fault);
  if (status == TP_OK) status = tp__hook_read(hooks, file, tp__bytes_text(&text), &hook, fault);
  if (status == TP_OK && !hook) status = keep_patterns(hooks, file, tp__bytes_text(&text), fault);
  tp__bytes_fini(&text);
  if (status != TP_OK || !hook) return status;
  **last = hook;
  *last = &hook->next;
  hooks->count++;
  return TP_OK;
}

static tp_status read_hook_files(tp_hooks *hooks, tp_fault *fault) {
  struct dirent **names;
  int count = scandir(hooks->directory, &names, is_yaml, by_bytes);
  if (count < 0) return refuse_io(fault, hooks->directory, errno);
  tp__hook **last = &hooks->first;
  tp_status status = TP_OK;
  if (count > HOOKS_MAX)
    status = tp__refuse(fault, TP_ERR_TOO_LARGE, hooks->directory, "more than %d hooks", HOOKS_MAX);
  for (int i = 0; i < count; i++) {
    if (status == TP_OK) status = read_one(hooks, names[i]->d_name, &last, fault);
    free(names[i]);
  }
  free(names);
  return status;
}

/* ---- reading ---- */

/* Stores the variables of the host's environment that a program gets, by name. A program gets no other variables. PATH
 * is always included. */
static tp_status read_environment(tp_hooks *hooks, tp_fault *fault) {
  static const char *const names[] = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ"};
  size_t count = 0;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = getenv(names[i]);
    if (!value && i == 0) value = "/usr/local/bin:/usr/bin:/bin";
    if (!value) continue;
    hooks->environment[count] = tp__hooks_pair(hooks, names[i], value);
    if (!hooks->environment[count++]) return refuse_hooks_memory(fault);
  }
  return TP_OK;
}

/* @return a list ended by NULL; NULL without memory. */
static const char *const *copy_list(tp_hooks *hooks, const char *const *list) {
  size_t count = 0;
  while (list && list[count]) count++;
  const char **copy = tp__hooks_alloc(hooks, (count + 1) * sizeof *copy);
  for (size_t i = 0; copy && i < count; i++) {
    copy[i] = tp__hooks_copy(hooks, tp_text_of(list[i]));
    if (!copy[i]) return NULL;
  }
  return copy;
}

static void prefix_targets(const tp_hooks *hooks, tp__edges *edges) {
  for (size_t i = 0; i < edges->count; i++) {
    for (const tp__hook *hook = hooks->first; hook; hook = hook->next)
      if (!hook->tool && strcmp(hook->id + strlen(hooks->prefix), edges->items[i].target) == 0)
        edges->items[i].target = hook->id;
  }
}

static void prefix_edges(tp_hooks *hooks) {
  assert(hooks->prefix[0]);
  for (tp__hook *hook = hooks->first; hook; hook = hook->next) {
    prefix_targets(hooks, &hook->after);
    prefix_targets(hooks, &hook->before);
    prefix_targets(hooks, &hook->needs);
  }
}

static tp_status fill_hooks(tp_hooks *hooks, const tp_hooks_options *options, tp_fault *fault) {
  char here[4096];
  const char *root = options->root;
  if (!root) root = getcwd(here, sizeof here);
  if (!root) return refuse_io(fault, ".", errno);
  char *absolute = realpath(root, NULL);
  if (!absolute) return refuse_io(fault, root, errno);
  hooks->root = tp__hooks_copy(hooks, tp_text_of(absolute));
  free(absolute);
  absolute = realpath(options->directory, NULL);
  if (!absolute) return refuse_io(fault, options->directory, errno);
  hooks->folder = tp__hooks_copy(hooks, tp_text_of(absolute));
  free(absolute);
  hooks->directory = tp__hooks_copy(hooks, tp_text_of(options->directory));
  hooks->prefix = tp__hooks_copy(hooks, tp_text_of(options->id_prefix ? options->id_prefix : ""));
  if (!hooks->prefix) return refuse_hooks_memory(fault);
  if (options->only) hooks->only = tp__hooks_copy(hooks, tp_text_of(options->only));
  if (options->trusted_by) hooks->trusted_by = tp__hooks_copy(hooks, tp_text_of(options->trusted_by));
  hooks->data_files = copy_list(hooks, options->data_files);
  hooks->code_files = copy_list(hooks, options->code_files);
  if (!hooks->data_files || !hooks->code_files) return refuse_hooks_memory(fault);
  if (!hooks->root || !hooks->directory || !hooks->folder || (options->only && !hooks->only) ||
      (options->trusted_by && !hooks->trusted_by))
    return refuse_hooks_memory(fault);
  hooks->grants = options->grants;
  hooks->sandboxes_all = options->sandbox_all;
  hooks->helper = TP__SANDBOX_HELPER;
  if (options->sandbox_helper) hooks->helper = tp__hooks_copy(hooks, tp_text_of(options->sandbox_helper));
  hooks->webhook_helper = TP__WEBHOOK_HELPER;
  if (options->webhook_helper) hooks->webhook_helper = tp__hooks_copy(hooks, tp_text_of(options->webhook_helper));
  if (!hooks->helper || !hooks->webhook_helper) return refuse_hooks_memory(fault);
  hooks->webhook_hosts = options->webhook_hosts;
  hooks->model = options->model;
  hooks->on_program = options->on_program;
  hooks->program_ctx = options->program_ctx;
  tp_status status = read_environment(hooks, fault);
  if (status == TP_OK) status = tp_process_loop_new(NULL, &hooks->loop, fault);
  if (status == TP_OK) status = read_hook_files(hooks, fault);
  hooks->webhook_hosts = NULL;
  if (status == TP_OK && hooks->prefix[0]) prefix_edges(hooks);
  return status == TP_OK ? tp__trust_hash(hooks, fault) : status;
}

static bool is_domain_name(const char *text) {
  size_t size = strlen(text);
  return size > 0 && size <= TP_ID_BYTES_MAX && !text[strcspn(text, " \t\n\v\f\r")] &&
         tp_utf8_valid(tp_text_of(text), NULL);
}

static tp_status options_read(const tp_hooks_options *theirs, tp_hooks_options *options, tp_fault *fault) {
  *options = (tp_hooks_options){0};
  size_t size = theirs ? theirs->struct_size : 0;
  if (size < offsetof(tp_hooks_options, only) || size > 4096)
    return tp__refuse(fault, TP_ERR_VERSION, NULL, "tp_hooks_options.struct_size is not set");
  for (size_t i = sizeof *options; i < size; i++) {
    if (((const char *)theirs)[i] != 0)
      return tp__refuse(fault, TP_ERR_VERSION, NULL, "tp_hooks_options has a field that is newer");
  }
  memcpy(options, theirs, size < sizeof *options ? size : sizeof *options);
  if (options->grants & ~(tp_grant)(TP_GRANT_REWRITE | TP_GRANT_PRIVILEGED_HOOKS))
    return tp__refuse(
        fault, TP_ERR_USAGE, NULL,
        "tp_hooks_options.grants takes TP_GRANT_REWRITE and TP_GRANT_PRIVILEGED_HOOKS: hooks have no other");
  for (size_t i = 0; i < sizeof options->reserved_; i++) {
    if (options->reserved_[i] != 0)
      return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_hooks_options.reserved_ must be zero");
  }
  if (options->trusted_by && !is_domain_name(options->trusted_by))
    return tp__refuse(fault, TP_ERR_BAD_ID, NULL,
                      "tp_hooks_options.trusted_by is 1 to %d bytes of UTF-8 without blanks", TP_ID_BYTES_MAX);
  const char *wrong = tp__webhook_wrong_host(options->webhook_hosts);
  if (wrong)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_hooks_options.webhook_hosts has \"%s\": host, or host:port",
                      wrong);
  if (options->model && (options->model->struct_size == 0 || !options->model->start == !options->model->inbox))
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_hooks_options.model needs struct_size, and start or an inbox");
  if (options->directory && options->directory[0]) return TP_OK;
  return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_hooks_options.directory is missing");
}

tp_status tp_hooks_read(tp_runtime *runtime, const tp_hooks_options *theirs, tp_hooks **ret_hooks, tp_fault *fault) {
  tp_hooks_options options;
  tp_status status = options_read(theirs, &options, fault);
  if (status == TP_OK && !runtime) status = tp__refuse(fault, TP_ERR_USAGE, NULL, "hooks are read for a runtime");
  if (status != TP_OK) return status;
  tp_hooks *hooks = calloc(1, sizeof *hooks);
  if (!hooks) return refuse_hooks_memory(fault);
  tp__lock_init(&hooks->mutex, TP__LOCK_hooks);
  tp__lock_condition_init(&hooks->notified);
  hooks->references = 1;
  hooks->runtime = runtime;
  status = fill_hooks(hooks, &options, fault);
  if (status == TP_OK) *ret_hooks = hooks;
  else tp__hooks_unref(hooks);
  return status;
}

const char *tp_hooks_hash(const tp_hooks *hooks) { return hooks->hash; }

static bool is_program(const tp__hook *hook) {
  return hook->kind == TP__HOOK_SCRIPT || hook->kind == TP__HOOK_WORKER || hook->kind == TP__HOOK_TOOL;
}

static const char *target_of(const tp__hook *hook) {
  if (is_program(hook)) return hook->arguments[0];
  if (hook->kind == TP__HOOK_PROMPT) return hook->prompt;
  return hook->kind == TP__HOOK_WEBHOOK ? hook->shown_url : tp__hook_is_native(hook) ? hook->question : hook->path;
}

size_t tp_hooks_each(const tp_hooks *hooks, tp_hook_info_fn each, void *ctx) {
  if (!hooks) return 0;
  for (const tp__hook *hook = hooks->first; hook && each; hook = hook->next) {
    tp_hook_info info = {.struct_size = sizeof info,
                         .id = hook->id,
                         .file = hook->file,
                         .event = hook->event,
                         .kind = hook->kind_name,
                         .target = target_of(hook),
                         .match = hook->match,
                         .match_summary = hook->match_summary,
                         .summary = hook->summary,
                         .phase = hook->phase,
                         .limit_ms = hook->limit_ms,
                         .failure = hook->failure,
                         .enabled = hook->is_enabled,
                         .blocking = hook->is_blocking,
                         .rewrites = hook->rewrites,
                         .protocol = tp__protocol_name(hook->protocol),
                         .arguments = is_program(hook) ? hook->arguments : NULL};
    if (!each(ctx, &info)) break;
  }
  return hooks->count;
}

size_t tp_hooks_each_file(const tp_hooks *hooks, tp_hook_file_fn each, void *ctx) {
  size_t count = 0;
  for (const tp__trust_file *file = hooks ? hooks->files : NULL; file; file = file->next) {
    tp_hook_file info = {.struct_size = sizeof info,
                         .path = file->path,
                         .name = file->shown,
                         .digest = file->digest,
                         .hook = file->hook ? file->hook : "",
                         .use = file->use,
                         .is_code = file->is_code,
                         .is_there = file->is_code ? file->is_there : access(file->path, F_OK) == 0,
                         .is_unclear = file->is_unclear};
    count++;
    if (each && !each(ctx, &info)) break;
  }
  return count;
}

/* ---- the commit ---- */

/* Checks the needs of a hook on this machine. A disabled hook needs nothing. */
static tp_status check_helpers(const tp__hook *hook, tp_fault *fault) {
  if (!hook->hooks->only && !hook->is_enabled) return TP_OK;
  const char *lacks = hook->sandbox.is_on ? tp__sandbox_lacks(hook->hooks->helper) : NULL;
  if (lacks) return tp__refuse_at(fault, TP_ERR_SYSTEM, hook->id, hook->place, "it demands a sandbox, and %s", lacks);
  if (hook->kind == TP__HOOK_WEBHOOK && access(hook->hooks->webhook_helper, X_OK) != 0)
    return tp__refuse_at(fault, TP_ERR_SYSTEM, hook->id, hook->place,
                         "a webhook needs turnphase-webhook, which is not there: it is built where libcurl is");
  return TP_OK;
}

static tp_status add_hook_handler(tp_edit *edit, tp__hook *hook, tp_fault *fault) {
  tp_status helped = check_helpers(hook, fault);
  if (helped != TP_OK) return helped;
  if (hook->kind == TP__HOOK_WORKER && !hook->worker) hook->worker = tp__worker_new(hook);
  if (hook->kind == TP__HOOK_WORKER && !hook->worker) return refuse_hooks_memory(fault);
  tp_handler handler = {.struct_size = sizeof handler,
                        .id = hook->id,
                        .summary = hook->summary,
                        .run = tp__hook_run,
                        .ctx = hook,
                        .destroy = tp__hook_destroy,
                        .phases = &hook->phase,
                        .phase_count = 1,
                        .capabilities = (hook->row->kinds & (TP_CAPABILITY_EMIT_SIGNAL | TP_CAPABILITY_EMIT_REMINDER)) |
                                        (hook->row->stop ? TP_CAPABILITY_DECIDE : 0) |
                                        (hook->rewrites ? TP_CAPABILITY_REPLACE_PAYLOAD : 0),
                        .placement = tp__hook_is_native(hook) ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD,
                        .origin_file = hook->file,
                        .origin_line = hook->place.line,
                        .kind = is_program(hook) ? TP_HANDLER_SCRIPT : TP_HANDLER_NATIVE};
  if (hook->tool) tp__hook_tool_handler(&handler);
  tp_status status = tp_edit_add_handler(edit, &handler, fault);
  if (status == TP_OK) tp__hooks_ref_handler(hook->hooks);
  return status;
}

/* Whether the match can exclude anything: `min_duration_ms: 0` is written, but always holds. */
static bool has_condition(const tp__hook *hook) {
  return hook->scopes.count > 0 || hook->agents.count > 0 || hook->modes.count > 0 || hook->changed_paths.count > 0 ||
         hook->duration_ms_min > 0 || tp__hook_has_matches(hook);
}

static tp_status add_subscription(tp_edit *edit, tp__hook *hook, tp_fault *fault) {
  bool alone = hook->hooks->only != NULL;
  tp_match match = {.struct_size = sizeof match,
                    .tools = hook->scopes.items,
                    .tool_count = hook->scopes.count,
                    .agents = hook->agents.items,
                    .agent_count = hook->agents.count,
                    .modes = hook->modes.items,
                    .mode_count = hook->modes.count,
                    .changed_paths = hook->changed_paths.items,
                    .changed_path_count = hook->changed_paths.count,
                    .duration_ms_min = hook->duration_ms_min,
                    .matches = tp__hook_has_matches(hook) ? tp__hook_matches : NULL,
                    .ctx = hook,
                    .description = hook->match};
  tp_subscription subscription = {.struct_size = sizeof subscription,
                                  .id = hook->id,
                                  .handler = hook->id,
                                  .phase_name = hook->protocol ? hook->row->name : hook->event,
                                  .disabled = !alone && !hook->is_enabled,
                                  .priority = hook->priority,
                                  .execution = hook->is_blocking ? TP_EXECUTION_BLOCKING : TP_EXECUTION_FIRE_AND_RECORD,
                                  .limit_ms = hook->limit_ms,
                                  .failure = hook->failure,
                                  .max_concurrent = hook->max_concurrent,
                                  .sequential = hook->sequential,
                                  .after = hook->after.list,
                                  .after_count = alone ? 0 : hook->after.count,
                                  .before = hook->before.list,
                                  .before_count = alone ? 0 : hook->before.count,
                                  .needs = hook->needs.list,
                                  .needs_count = alone ? 0 : hook->needs.count,
                                  .match = has_condition(hook) ? &match : NULL,
                                  .metadata = hook->file};
  tp_contribution bundle;
  const tp_contribution *const bundles[] = {&bundle};
  if (hook->tool) {
    bundle = tp__hook_tool_bundle(hook);
    subscription.limit_ms = 0; /* the hook's is that of a call */
    subscription.fallback = bundles;
    subscription.fallback_count = 1;
  }
  return tp_edit_add_subscription(edit, &subscription, fault);
}

/* A refusal of the commit names an id. This adds the file that declares it, and the place, for the operator. */
static void name_file(const tp_hooks *hooks, tp_fault *fault) {
  if (!fault) return;
  for (const tp__hook *hook = hooks->first; hook; hook = hook->next) {
    if (strcmp(hook->id, fault->subject) != 0) continue;
    fault->line = hook->place.line;
    fault->column = hook->place.column;
    size_t size = strlen(hook->file), most = sizeof fault->subject - 1;
    snprintf(fault->subject, sizeof fault->subject, "%s", size > most ? hook->file + (size - most) : hook->file);
    return;
  }
}

static tp_status check_trust(tp_hooks *hooks, const tp_hooks *before, const char *trusted, tp_fault *fault) {
  char what[TP__TRUST_WHY_SIZE] = "";
  if (trusted && strcmp(trusted, hooks->hash) == 0) return TP_OK;
  if (before) tp__trust_difference(before, hooks, what);
  tp__trust_audit_refused(hooks, (tp_hooks *)(uintptr_t)before, what);
  if (what[0])
    return tp__refuse(fault, TP_ERR_USAGE, hooks->directory, "%s; the hash is %s: look at it, then trust this hash",
                      what, hooks->hash);
  return tp__refuse(fault, TP_ERR_USAGE, hooks->directory,
                    "the content has the hash %s, and %s was trusted: look at it, then trust this hash", hooks->hash,
                    trusted ? "another one" : "none");
}

/* A disabled hook is registered as disabled. So an edge to it is refused by its name, and a plan shows it. */
static bool is_wanted_hook(const tp__hook *hook) {
  const char *only = hook->hooks->only;
  return only ? strcmp(hook->id, only) == 0 : hook->is_enabled || !hook->tool;
}

static tp_status remove_all(tp_edit *edit, const tp_hooks *before, tp_fault *fault) {
  tp_status status = TP_OK;
  for (const tp__hook *hook = before ? before->first : NULL; hook && status == TP_OK; hook = hook->next) {
    if (!hook->is_registered) continue;
    status = tp_edit_remove_subscription(edit, hook->id, fault);
    if (status == TP_OK) status = tp_edit_remove_handler(edit, hook->id, fault);
  }
  return status;
}

static tp_status add_all(tp_edit *edit, const tp_hooks *hooks, tp_fault *fault) {
  tp_status status = TP_OK;
  bool found = false;
  for (tp__hook *hook = hooks->first; hook && status == TP_OK; hook = hook->next) {
    if (!is_wanted_hook(hook)) continue;
    found = true;
    status = add_hook_handler(edit, hook, fault);
    if (status == TP_OK) status = add_subscription(edit, hook, fault);
  }
  if (status == TP_OK && hooks->only && !found)
    status = tp__refuse(fault, TP_ERR_NOT_FOUND, hooks->directory, "there is no hook %s", hooks->only);
  return status;
}

tp_status tp_hooks_replace(tp_hooks *hooks, const tp_hooks *before, const char *owner_name, const char *trusted,
                           tp_commit_report *ret_report, tp_fault *fault) {
  if (!hooks) return tp__refuse(fault, TP_ERR_USAGE, NULL, "no hooks were read");
  const char *disabled = getenv("TURNPHASE_DISABLE_HOOKS");
  bool is_off = disabled && strcmp(disabled, "1") == 0;
  if (is_off && !before) return TP_OK;
  snprintf(hooks->owner, sizeof hooks->owner, "%s", owner_name && owner_name[0] ? owner_name : OWNER);
  tp_status status = check_trust(hooks, before, trusted, fault);
  if (status == TP_OK) status = check_patterns(hooks, fault);
  if (status != TP_OK) return status;
  tp_owner owner = {.struct_size = sizeof owner,
                    .name = owner_name ? owner_name : OWNER,
                    .trust = TP_TRUST_DECLARED,
                    .grants = hooks->grants};
  tp_edit *edit;
  status = tp_edit_begin(hooks->runtime, &owner, &edit, fault);
  if (status != TP_OK) return status;
  status = remove_all(edit, before, fault);
  if (status == TP_OK && !is_off) status = add_all(edit, hooks, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, ret_report, fault);
  if (status == TP_OK) {
    for (tp__hook *hook = hooks->first; hook; hook = hook->next) hook->is_registered = !is_off && is_wanted_hook(hook);
    if (!is_off) tp__trust_audit_given(hooks, before);
    return TP_OK;
  }
  tp_edit_discard(edit);
  name_file(hooks, fault);
  return status;
}

tp_status tp_hooks_commit(tp_hooks *hooks, const char *owner, const char *trusted, tp_commit_report *ret_report,
                          tp_fault *fault) {
  return tp_hooks_replace(hooks, NULL, owner, trusted, ret_report, fault);
}
