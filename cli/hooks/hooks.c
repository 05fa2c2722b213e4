/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks.c: the actions of the command hooks that start no program: check, trust and untrust. */
#include "cli/hooks/hooks.h"

#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/common/quantity.h"
#include "cli/common/visible.h"
#include "cli/run/host.h"
#include "cli/run/model.h"
#include "runtime/base/check.h"
#include "support/text.h"

enum { CHANGED_SIZE = 1400 };

/* ---- reading and trust ---- */

void cli_hooks_print_text(cli_output *output, tp_text text) {
  for (size_t at = 0; at < text.size;) {
    uint32_t code;
    cli_visibility visibility;
    char escape[CLI_ESCAPE_SIZE];
    size_t bytes = cli_visible_step((tp_text){text.data + at, text.size - at}, &code, &visibility);
    if (visibility == CLI_VISIBLE) cli_print(output, text.data + at, bytes);
    else if (code == '\n' || code == '\t' || code == '\r') cli_print(output, " ", 1);
    else cli_print(output, escape, cli_visible_escape(code, escape));
    at += bytes;
  }
}

/* The subject of the fault is the file, or the directory. */
static int refuse_hooks(const char *directory, tp_status status, const tp_fault *fault) {
  return cli_fault(fault->subject[0] ? fault->subject : directory, status, fault);
}

enum helper { SANDBOX, WEBHOOK, HELPERS };

/* A command that was built and not installed finds the helper in its build directory. Otherwise the library knows the
 * place. */
static const char *built_helper(enum helper which) {
  static const char *const names[] = {"sandbox", "webhook"};
  static char paths[HELPERS][4096]; /* only the main thread calls this */
  char own[4000];
  ssize_t size = readlink("/proc/self/exe", own, sizeof own);
  const char *slash = size > 0 ? memrchr(own, '/', (size_t)size) : NULL;
  if (!slash) return NULL;
  snprintf(paths[which], sizeof paths[which], "%.*s/../domains/declared/turnphase-%s", (int)(slash - own), own,
           names[which]);
  return access(paths[which], X_OK) == 0 ? paths[which] : NULL;
}

/* The user's name, as the owner of the list of trusted content. */
static const char *user_name(void) {
  static char name[TP_ID_BYTES_MAX + 1]; /* only the main thread calls this */
  char texts[4096];
  struct passwd entry, *found = NULL;
  uid_t user = geteuid();
  bool is_known = getpwuid_r(user, &entry, texts, sizeof texts, &found) == 0 && found && found->pw_name[0];
  if (is_known) snprintf(name, sizeof name, "%s", found->pw_name);
  for (char *at = name; *at; at++) is_known = is_known && (unsigned char)*at > ' ' && (unsigned char)*at < 0x7f;
  if (!is_known) snprintf(name, sizeof name, "uid-%lu", (unsigned long)user);
  return name;
}

tp_hooks_options cli_hooks_options(const cli_arguments *arguments, const char *directory) {
  tp_hooks_options options = {.struct_size = sizeof(tp_hooks_options),
                              .directory = directory,
                              /* Trusting the content grants the rights that its files request; the action trust shows
                               * them. */
                              .grants = TP_GRANT_REWRITE | TP_GRANT_PRIVILEGED_HOOKS,
                              .sandbox_helper = built_helper(SANDBOX),
                              .sandbox_all = arguments->sandbox,
                              .webhook_hosts = arguments->webhooks.items,
                              .webhook_helper = built_helper(WEBHOOK),
                              .model = cli_hook_model(),
                              .trusted_by = user_name()};
  cli_content_decide(arguments, directory, &options);
  return options;
}

int cli_hooks_read(tp_runtime *runtime, const tp_hooks_options *options, tp_hooks **ret_hooks) {
  int found = cli_data_check_hooks(options->directory);
  if (found != CLI_OK) return found;
  tp_fault fault = {0};
  tp_status status = tp_hooks_read(runtime, options, ret_hooks, &fault);
  return status == TP_OK ? CLI_OK : refuse_hooks(options->directory, status, &fault);
}

static int trusted_hash(const char *directory, char ret_hash[CLI_HASH_SIZE]) {
  char *path;
  int status = cli_trust_path(directory, &path);
  if (status != CLI_OK) return status;
  status = cli_trust_get(path, ret_hash);
  free(path);
  return status;
}

/* For commands that only show: when there is no place for the list, nothing is trusted, and everything else still
 * works. */
static int hash_to_show(const char *directory, char ret_hash[CLI_HASH_SIZE]) {
  ret_hash[0] = '\0';
  if (cli_trust_has_place()) return trusted_hash(directory, ret_hash);
  cli_error("warning: no place for what is trusted, so nothing is: set HOME or XDG_CONFIG_HOME to an absolute path");
  return CLI_OK;
}

/* @param changed  the files that differ from the trusted content; empty: not known. */
static int refuse_trust(const char *directory, bool was_trusted, const char *changed) {
  cli_error_at(directory, 0, 0, "%s%s%s%s: nothing of it runs; look at it, then: turnphase hooks trust %s",
               was_trusted ? "has changed since it was trusted" : "is not trusted", changed[0] ? " (" : "", changed,
               changed[0] ? ")" : "", directory);
  return CLI_CONFIG;
}

/* Adds an audit row with what the library cannot know: which files differ from the content that the user trusted. */
static void audit_lost_trust(tp_runtime *runtime, const char *directory, const char *changed) {
  char detail[CHANGED_SIZE + 4096];
  snprintf(detail, sizeof detail, "lost: %s; %s", changed[0] ? changed : "other content than was trusted", directory);
  tp__make_printable(detail);
  (void)!tp_runtime_audit_add(runtime, user_name(), "trust", tp_text_of(detail), TP_ERR_USAGE, NULL);
}

int cli_hooks_need_trust(tp_runtime *runtime, const char *directory, tp_hooks *hooks) {
  char hash[CLI_HASH_SIZE];
  int status = trusted_hash(directory, hash);
  if (status != CLI_OK) return status;
  if (strcmp(hash, tp_hooks_hash(hooks)) == 0) return CLI_OK;
  char changed[CHANGED_SIZE];
  cli_content_compare(hash, hooks, changed, sizeof changed);
  if (hash[0]) audit_lost_trust(runtime, directory, changed);
  else (void)!tp_hooks_commit(hooks, NULL, NULL, NULL, NULL); /* it is refused, and the audit has that */
  return refuse_trust(directory, hash[0] != '\0', changed);
}

static bool is_switched_off(const char *directory) {
  const char *disabled = getenv("TURNPHASE_DISABLE_HOOKS");
  if (!disabled || strcmp(disabled, "1") != 0) return false;
  cli_error("warning: TURNPHASE_DISABLE_HOOKS=1: the hooks of %s are not registered", directory);
  return true;
}

static bool print_warning(void *ctx, const tp_hook_warning *warning) {
  (void)ctx;
  cli_error_at(warning->file, warning->line, 1, "warning: %s: %s", warning->hook, warning->message);
  return true;
}

/* Two names of one directory would register its hooks twice. */
static int check_directories(const cli_words *directories) {
  int status = CLI_OK;
  for (size_t i = 0; i < directories->count && status == CLI_OK; i++) {
    for (size_t j = 0; j < i && status == CLI_OK; j++) {
      char *one = realpath(directories->items[i], NULL), *other = realpath(directories->items[j], NULL);
      bool is_same = one && other && strcmp(one, other) == 0;
      free(one);
      free(other);
      if (is_same) cli_error("--hooks %s is given twice", directories->items[i]);
      if (is_same) status = CLI_USAGE;
    }
  }
  return status;
}

/* Two directories that were made independently, for example by import, may have equal ids. Then the ids of the later
 * one begin with the name of its directory. */
typedef struct clash {
  tp_hooks *later;
  const char *id;
  bool is_found;
} clash;

static bool find_id(void *ctx, const tp_hook_info *info) {
  clash *c = ctx;
  c->is_found = c->is_found || strcmp(info->id, c->id) == 0;
  return !c->is_found;
}

static bool find_in_later(void *ctx, const tp_hook_info *info) {
  clash *c = ctx;
  c->id = info->id;
  tp_hooks_each(c->later, find_id, c);
  return !c->is_found;
}

static bool has_clash(tp_runtime *runtime, const cli_arguments *arguments, size_t index) {
  clash c = {.later = NULL};
  assert(index < arguments->hooks.count);
  tp_hooks_options options = cli_hooks_options(arguments, arguments->hooks.items[index]);
  if (index > 0 && tp_hooks_read(runtime, &options, &c.later, NULL) != TP_OK) return false; /* it is said elsewhere */
  for (size_t i = 0; i < index && !c.is_found; i++) {
    tp_hooks *before;
    options = cli_hooks_options(arguments, arguments->hooks.items[i]);
    if (tp_hooks_read(runtime, &options, &before, NULL) != TP_OK) continue;
    tp_hooks_each(before, find_in_later, &c);
    tp_hooks_free(before);
  }
  tp_hooks_free(c.later);
  return c.is_found;
}

tp_hooks_options cli_hooks_options_at(tp_runtime *runtime, const cli_arguments *arguments, size_t index,
                                      char prefix[CLI_HOOKS_PREFIX_SIZE]) {
  const char *directory = arguments->hooks.items[index];
  tp_hooks_options options = cli_hooks_options(arguments, directory);
  if (!has_clash(runtime, arguments, index)) return options;
  char *path = realpath(directory, NULL);
  const char *slash = path ? strrchr(path, '/') : NULL;
  snprintf(prefix, CLI_HOOKS_PREFIX_SIZE, "%.100s/", slash ? slash + 1 : "later");
  for (char *at = prefix; *at; at++)
    if ((unsigned char)*at <= ' ' || *at == 0x7f) *at = '_';
  free(path);
  options.id_prefix = prefix;
  return options;
}

bool cli_hooks_asks_model(const char *kind) { return strcmp(kind, "prompt") == 0 || strcmp(kind, "agent") == 0; }

/* A command without a conversation has no model, either. */
static bool warn_of_model(void *ctx, const tp_hook_info *info) {
  (void)ctx;
  if (!info->enabled || !cli_hooks_asks_model(info->kind) || cli_hook_model()) return true;
  cli_error_at(
      info->file, 0, 0,
      "warning: the hook %s asks a model, and without --hook-model only turns of a conversation have one: else "
      "it gives no answer%s",
      info->id, info->failure == TP_FAILURE_BEST_EFFORT ? "" : ", and a guard denies");
  return true;
}

static int load_one(tp_runtime *runtime, const cli_arguments *arguments, size_t index) {
  const char *directory = arguments->hooks.items[index];
  char prefix[CLI_HOOKS_PREFIX_SIZE];
  tp_hooks_options options = cli_hooks_options_at(runtime, arguments, index, prefix);
  tp_hooks *hooks;
  int status = cli_hooks_read(runtime, &options, &hooks);
  if (status != CLI_OK) return status;
  status = cli_hooks_need_trust(runtime, directory, hooks);
  if (status == CLI_OK) {
    tp_fault fault = {0};
    tp_status committed = tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault);
    if (committed != TP_OK) status = refuse_hooks(directory, committed, &fault);
  }
  if (status == CLI_OK) tp_hooks_each_warning(hooks, true, print_warning, NULL);
  if (status == CLI_OK) tp_hooks_each(hooks, warn_of_model, NULL);
  tp_hooks_free(hooks);
  return status;
}

int cli_hooks_load(tp_runtime *runtime, const cli_arguments *arguments) {
  int status = check_directories(&arguments->hooks);
  for (size_t i = 0; i < arguments->hooks.count && status == CLI_OK; i++)
    if (!is_switched_off(arguments->hooks.items[i])) status = load_one(runtime, arguments, i);
  return status;
}

/* ---- hooks that change while turns run ---- */

struct cli_follower {
  cli_follower *next;
  const char *directory;
  tp_hooks_watch *watch;
  int trust_status;      /* under the lock of the watch */
  bool was_trusted;      /* the same */
  atomic_bool is_behind; /* the last change was refused */
};

static bool trusts(void *ctx, const char *hash) {
  cli_follower *f = ctx;
  char trusted[CLI_HASH_SIZE] = "";
  f->trust_status = trusted_hash(f->directory, trusted);
  f->was_trusted = trusted[0] != '\0';
  return f->trust_status == CLI_OK && strcmp(trusted, hash) == 0;
}

static void on_reload(void *ctx, tp_status status, const tp_fault *fault) {
  cli_follower *f = ctx;
  atomic_store(&f->is_behind, status != TP_OK);
  if (status == TP_OK) {
    cli_error_at(f->directory, 0, 0, "has changed: turns from now on have its hooks");
  } else if (status == TP_ERR_USAGE) {
    cli_error_at(f->directory, 0, 0,
                 "has changed and is not trusted: the hooks before it stay (%s); look at it, then: turnphase hooks "
                 "trust %s",
                 fault->message, f->directory);
  } else {
    refuse_hooks(f->directory, status, fault);
    cli_error_at(f->directory, 0, 0, "the change is refused: the hooks before it stay");
  }
}

/* The watch has freed the hooks that it read, so they are read again for the names of their files. */
static int refuse_start(tp_runtime *runtime, const cli_follower *f, const tp_hooks_options *options) {
  tp_hooks *hooks = NULL;
  char hash[CLI_HASH_SIZE] = "", changed[CHANGED_SIZE] = "";
  if (trusted_hash(f->directory, hash) == CLI_OK && tp_hooks_read(runtime, options, &hooks, NULL) == TP_OK)
    cli_content_compare(hash, hooks, changed, sizeof changed);
  tp_hooks_free(hooks);
  if (f->was_trusted) audit_lost_trust(runtime, f->directory, changed);
  return refuse_trust(f->directory, f->was_trusted, changed);
}

static int follow(tp_runtime *runtime, const cli_arguments *arguments, size_t index, bool only_when_asked,
                  cli_follower **ret_follower) {
  cli_follower *f = cli_alloc(sizeof *f);
  char prefix[CLI_HOOKS_PREFIX_SIZE];
  *f = (cli_follower){.directory = arguments->hooks.items[index]};
  tp_hooks_options hooks = cli_hooks_options_at(runtime, arguments, index, prefix);
  tp_hooks_watch_options options = {.struct_size = sizeof options,
                                    .hooks = &hooks,
                                    .trusts = trusts,
                                    .on_reload = only_when_asked ? NULL : on_reload,
                                    .ctx = f,
                                    .only_when_asked = only_when_asked};
  tp_fault fault = {0};
  tp_status status = tp_hooks_watch_new(runtime, &options, &f->watch, &fault);
  int result = CLI_OK;
  if (status == TP_ERR_USAGE) result = f->trust_status;
  if (status == TP_ERR_USAGE && result == CLI_OK) result = refuse_start(runtime, f, &hooks);
  else if (status != TP_OK && result == CLI_OK) result = refuse_hooks(f->directory, status, &fault);
  if (status == TP_OK) *ret_follower = f;
  else free(f);
  return result;
}

int cli_follower_new(tp_runtime *runtime, const cli_arguments *arguments, bool only_when_asked,
                     cli_follower **ret_follower) {
  cli_follower **last = ret_follower;
  *ret_follower = NULL;
  int status = check_directories(&arguments->hooks);
  for (size_t i = 0; i < arguments->hooks.count && status == CLI_OK; i++) {
    if (is_switched_off(arguments->hooks.items[i])) continue;
    status = follow(runtime, arguments, i, only_when_asked, last);
    if (status == CLI_OK) last = &(*last)->next;
  }
  for (cli_follower *f = *ret_follower; f && status == CLI_OK; f = f->next)
    tp_hooks_watch_each_warning(f->watch, true, print_warning, NULL);
  if (status != CLI_OK) cli_follower_free(*ret_follower);
  if (status != CLI_OK) *ret_follower = NULL;
  return status;
}

/* A new trust changes no file of the directory. */
void cli_follower_retry(cli_follower *f) {
  for (; f; f = f->next) {
    tp_fault fault = {0};
    if (atomic_load(&f->is_behind) && tp_hooks_watch_reload(f->watch, &fault) == TP_OK) on_reload(f, TP_OK, NULL);
  }
}

static void undo_until(cli_follower *f, const cli_follower *end) {
  for (; f != end; f = f->next) {
    tp_fault fault = {0};
    tp_status status = tp_hooks_watch_undo(f->watch, &fault);
    if (status != TP_OK) (void)cli_fault(f->directory, status, &fault);
  }
}

int cli_follower_update(cli_follower *follower) {
  for (cli_follower *f = follower; f; f = f->next) {
    tp_fault fault = {0};
    bool changed = false;
    tp_status status = tp_hooks_watch_update(f->watch, &changed, &fault);
    if (changed || status != TP_OK) on_reload(f, status, &fault);
    if (status == TP_OK) continue;
    undo_until(follower, f);
    return cli_exit_of(status);
  }
  return CLI_OK;
}

void cli_follower_undo(cli_follower *follower) { undo_until(follower, NULL); }

void cli_follower_free(cli_follower *f) {
  while (f) {
    cli_follower *next = f->next;
    tp_hooks_watch_free(f->watch);
    free(f);
    f = next;
  }
}

/* ---- what the actions share ---- */

bool cli_hooks_is_trusted(const cli_hooks_opened *o) { return strcmp(o->trusted, tp_hooks_hash(o->hooks)) == 0; }

void cli_hooks_close(cli_hooks_opened *o) {
  tp_hooks_free(o->hooks);
  tp_runtime_free(o->runtime);
}

int cli_hooks_open(const cli_arguments *arguments, cli_hooks_opened *o) {
  *o = (cli_hooks_opened){.directory = arguments->operands[1]};
  tp_hooks_options options = cli_hooks_options(arguments, o->directory);
  int status = hash_to_show(o->directory, o->trusted);
  if (status == CLI_OK) status = cli_host_open(arguments, NULL, NULL, &o->runtime);
  if (status == CLI_OK) status = cli_hooks_read(o->runtime, &options, &o->hooks);
  if (status != CLI_OK) cli_hooks_close(o);
  return status;
}

/* ---- check ---- */

static void write_place(cli_map *p, const tp_fault *fault) {
  cli_map_add_string(p, "file", fault->subject);
  cli_map_add_int(p, "line", fault->line);
  cli_map_add_int(p, "column", fault->column);
  cli_map_add_string(p, "code", tp_status_name(fault->code));
  cli_map_add_string(p, "message", fault->message);
}

static bool write_warning(void *ctx, const tp_hook_warning *warning) {
  cli_map *p = ctx;
  cli_map_open(p, NULL);
  cli_map_add_string(p, "hook", warning->hook);
  cli_map_add_string(p, "file", warning->file);
  cli_map_add_string(p, "code", warning->code);
  cli_map_add_string(p, "message", warning->message);
  cli_map_close(p);
  return true;
}

static int print_check_json(const cli_hooks_opened *o, tp_status status, const tp_fault *fault, cli_output *output) {
  cli_map p = {0};
  cli_map_add_bool(&p, "ok", status == TP_OK);
  cli_map_add_string(&p, "directory", o->directory);
  if (o->hooks) {
    cli_map_add_string(&p, "hash", tp_hooks_hash(o->hooks));
    cli_map_add_bool(&p, "trusted", cli_hooks_is_trusted(o));
    cli_map_add_int(&p, "hooks", (int64_t)tp_hooks_each(o->hooks, NULL, NULL));
    cli_map_open_list(&p, "warnings");
    tp_hooks_each_warning(o->hooks, false, write_warning, &p);
    cli_map_close(&p);
  }
  if (status != TP_OK) write_place(&p, fault);
  int printed = cli_map_print(&p, output);
  return printed != CLI_OK ? printed : status == TP_OK ? CLI_OK : (int)cli_exit_of(status);
}

void cli_hooks_say_none(const char *directory) {
  char below[4096];
  struct stat found;
  snprintf(below, sizeof below, "%s/hooks", directory);
  bool has_below = stat(below, &found) == 0 && S_ISDIR(found.st_mode);
  cli_error("%s has no hooks: no file *.yaml or *.yml%s%s%s", directory, has_below ? "; did you mean '" : "",
            has_below ? below : "", has_below ? "'?" : "");
}

static void print_check(const cli_hooks_opened *o, cli_output *output) {
  if (tp_hooks_each(o->hooks, NULL, NULL) == 0) cli_hooks_say_none(o->directory);
  cli_printf(output, "%zu hooks, all of them could be committed\n", tp_hooks_each(o->hooks, NULL, NULL));
  cli_printf(output, "content %s, %s\n", tp_hooks_hash(o->hooks), cli_hooks_is_trusted(o) ? "trusted" : "not trusted");
  if (!cli_hooks_is_trusted(o)) cli_printf(output, "look at it, then: turnphase hooks trust %s\n", o->directory);
}

/* The commit is made in a separate runtime, in which no turn runs. */
static int check_hooks(const cli_arguments *arguments, cli_output *output) {
  cli_hooks_opened o = {.directory = arguments->operands[1]};
  tp_hooks_options options = cli_hooks_options(arguments, o.directory);
  tp_fault fault = {0};
  unsetenv("TURNPHASE_DISABLE_HOOKS"); /* it would make every commit a good one */
  int status = hash_to_show(o.directory, o.trusted);
  cli_redactor_try(o.directory);
  if (status == CLI_OK) status = cli_host_open(arguments, NULL, NULL, &o.runtime);
  if (status != CLI_OK) return status;
  tp_status committed = tp_hooks_read(o.runtime, &options, &o.hooks, &fault);
  if (committed == TP_OK) committed = tp_hooks_commit(o.hooks, NULL, tp_hooks_hash(o.hooks), NULL, &fault);
  if (arguments->json) status = print_check_json(&o, committed, &fault, output);
  else if (committed != TP_OK) status = refuse_hooks(o.directory, committed, &fault);
  else print_check(&o, output);
  if (committed == TP_OK && !arguments->json) tp_hooks_each_warning(o.hooks, false, print_warning, NULL);
  cli_hooks_close(&o);
  return status;
}

/* ---- trust and untrust ---- */

static int print_untrust_json(cli_output *output, const char *path) {
  cli_map p = {0};
  cli_map_add_string(&p, "directory", path);
  cli_map_add_bool(&p, "trusted", false);
  return cli_map_print(&p, output);
}

static bool add_trusted_file(void *ctx, const tp_hook_file *file) {
  static const char *const uses[] = {"", "declaration", "program", "script", "helper", "data"};
  cli_map *p = ctx;
  if (!file->is_there) return true;
  cli_map_open(p, NULL);
  cli_map_add_string(p, "name", file->name);
  cli_map_add_string(p, "use", uses[file->use]);
  cli_map_add_bool(p, "code", file->is_code);
  cli_map_add_bool(p, "unclear", file->is_unclear);
  cli_map_add_string(p, "hook", file->hook);
  cli_map_add_string(p, "digest", file->digest);
  cli_map_close(p);
  return true;
}

static int print_trust_json(const cli_hooks_opened *o, cli_output *output, const char *path) {
  cli_map p = {0};
  cli_map_add_string(&p, "directory", path);
  cli_map_add_bool(&p, "trusted", true);
  cli_map_add_string(&p, "hash", tp_hooks_hash(o->hooks));
  cli_map_open_list(&p, "files");
  tp_hooks_each_file(o->hooks, add_trusted_file, &p);
  cli_map_close(&p);
  return cli_map_print(&p, output);
}

static bool print_trusted(void *ctx, const tp_hook_info *info) {
  cli_output *output = ctx;
  cli_print_string(output, "  ");
  cli_hooks_print_text(output, tp_text_of(info->id));
  cli_print_string(output, "  ");
  /* Prints the program that a hook runs, or the file that it writes. */
  cli_printf(output, "%s ", info->kind);
  cli_hooks_print_text(output, tp_text_of(info->target));
  for (size_t i = 1; info->arguments && info->arguments[0] && info->arguments[i]; i++) {
    cli_print(output, " ", 1);
    cli_hooks_print_text(output, tp_text_of(info->arguments[i]));
  }
  bool is_request = info->phase == TP_PHASE_MODEL_REQUEST, is_answer = info->phase == TP_PHASE_MODEL_RESPONSE;
  if (info->rewrites)
    cli_print_string(output, is_request  ? "  (changes requests to the model, or answers in its place)"
                             : is_answer ? "  (changes answers of the model)"
                                         : "  (rewrites what tools are called with, or their results)");
  else if (is_request || is_answer || info->phase == TP_PHASE_TURN_POST_PROMPT_COMPILE)
    cli_printf(output, "  (reads what %s the model)", is_answer ? "comes from" : "is sent to");
  cli_print_string(output, info->enabled ? "\n" : "  (disabled)\n");
  return true;
}

typedef struct pattern {
  tp_text glob;
  bool fits;
} pattern;

static bool try_pattern(void *ctx, const tp_hook_file *file) {
  pattern *p = ctx;
  const char *name = strncmp(file->name, "./", 2) == 0 ? file->name + 2 : file->name;
  p->fits = tp_pattern_fits(p->glob, tp_text_of(name)) || tp_pattern_fits(p->glob, tp_text_of(file->name)) ||
            tp_pattern_fits(p->glob, tp_text_of(file->path));
  return !p->fits;
}

/* Warns of a decision about a name that is not there: it may be a typing error. A decision about a file that is created
 * later is still valid. */
static void warn_of_decisions(const cli_hooks_opened *o, const cli_words *patterns) {
  for (size_t i = 0; i < patterns->count; i++) {
    pattern p = {.glob = tp_text_of(patterns->items[i])};
    tp_hooks_each_file(o->hooks, try_pattern, &p);
    if (!p.fits) cli_error_at(o->directory, 0, 0, "warning: no file is named %s at this moment", patterns->items[i]);
  }
}

/* A missing or unclear file is not covered by the trust. All other warnings are shown by check. */
static bool print_open_code(void *ctx, const tp_hook_warning *warning) {
  bool is_shown = strcmp(warning->code, "code") == 0 || strcmp(warning->code, "program") == 0;
  return !is_shown || print_warning(ctx, warning);
}

void cli_hooks_warn_of_files(const tp_hooks *hooks) { tp_hooks_each_warning(hooks, false, print_open_code, NULL); }

static int trust(const cli_arguments *arguments, cli_output *output) {
  cli_hooks_opened o;
  char *path;
  int status = cli_trust_path(arguments->operands[1], &path);
  if (status != CLI_OK) return status;
  status = cli_hooks_open(arguments, &o);
  if (status == CLI_OK) {
    tp_hooks_options options = cli_hooks_options(arguments, o.directory);
    char *content = cli_content_write(o.hooks, &options);
    status = cli_trust_set(path, tp_hooks_hash(o.hooks), content, NULL);
    if (status == CLI_OK && arguments->json) {
      status = print_trust_json(&o, output, path);
    } else if (status == CLI_OK) {
      cli_printf(output, "trusted: %s, content %s\n", path, tp_hooks_hash(o.hooks));
      tp_hooks_each(o.hooks, print_trusted, output);
      cli_content_print(o.hooks, arguments->verbose, output);
    }
    cli_hooks_warn_of_files(o.hooks);
    warn_of_decisions(&o, &arguments->data_files);
    warn_of_decisions(&o, &arguments->code_files);
    free(content);
    cli_hooks_close(&o);
  }
  free(path);
  return status;
}

/* A directory that no longer exists can be untrusted by its absolute path. */
static int untrust(const cli_arguments *arguments, cli_output *output) {
  const char *directory = arguments->operands[1];
  char *path = realpath(directory, NULL);
  const char *name = path ? path : directory;
  bool was = false;
  int status = CLI_OK;
  if (!path && directory[0] != '/') {
    cli_error_at(directory, 0, 0, "is not there: name a directory that is gone by its absolute path");
    status = CLI_IO;
  }
  if (status == CLI_OK) status = cli_trust_set(name, NULL, NULL, &was);
  if (status == CLI_OK && arguments->json) status = print_untrust_json(output, name);
  else if (status == CLI_OK) cli_printf(output, "%s: %s\n", was ? "no longer trusted" : "was not trusted", name);
  free(path);
  return status;
}

/* ---- the command ---- */

static const struct action {
  const char *name;
  size_t operands; /* after the action */
  const char *usage;
  int (*run)(const cli_arguments *arguments, cli_output *output);
} actions[] = {
    {"list", 1, "DIR [-v] [--sandbox]", cli_hooks_list},
    {"check", 1, "DIR [--sandbox]", check_hooks},
    {"trust", 1, "DIR [--data-file NAME] [--code-file NAME]", trust},
    {"untrust", 1, "DIR", untrust},
    {"run", 2, "DIR ID [--payload JSON] [--sandbox]", cli_hooks_run},
    {"stats", 1, "DATA [--since WHEN] [--hooks DIR]", cli_hooks_stats},
    {"import", 1, "SETTINGS.json… [--write DIR] [--fail-closed] [--rewrite] [--tool OURS=THEIRS]", cli_hooks_import},
    {"new", 3, "KIND ID DIR [--language sh|python|js]", cli_hooks_new},
};

enum { ACTIONS = sizeof actions / sizeof actions[0] };

/* An option that only another action has is refused, not ignored. */
static int check_action_options(const struct action *action, const cli_arguments *arguments) {
  bool runs = action->run == cli_hooks_run, makes = action->run == cli_hooks_new;
  bool imports = action->run == cli_hooks_import, looks = action->run == cli_hooks_list || action->run == check_hooks;
  const char *foreign = arguments->payload && !runs                                    ? "--payload"
                        : arguments->language && !makes                                ? "--language"
                        : arguments->since && action->run != cli_hooks_stats           ? "--since"
                        : arguments->hooks.count > 0 && action->run != cli_hooks_stats ? "--hooks"
                        : arguments->json && makes                                     ? "--json"
                        : arguments->write && !imports                                 ? "--write"
                        : arguments->fail_closed && !imports                           ? "--fail-closed"
                        : arguments->rewrite && !imports                               ? "--rewrite"
                        : arguments->sandbox && !looks && !runs                        ? "--sandbox"
                        : arguments->webhooks.count > 0 && makes                       ? "--webhook"
                        : arguments->tools.count > 0 && !imports                       ? "--tool"
                        : arguments->data_files.count > 0 && action->run != trust      ? "--data-file"
                        : arguments->code_files.count > 0 && action->run != trust      ? "--code-file"
                                                                                       : NULL;
  if (!foreign) return CLI_OK;
  cli_error("hooks %s does not take %s", action->name, foreign);
  return CLI_USAGE;
}

int cli_hooks(const cli_arguments *arguments, cli_output *output) {
  for (size_t i = 0; i < ACTIONS; i++) {
    if (strcmp(actions[i].name, arguments->operand) != 0) continue;
    bool takes_more = actions[i].run == cli_hooks_import && arguments->operand_count > 1;
    if (arguments->operand_count != actions[i].operands + 1 && !takes_more) {
      cli_error("usage: turnphase hooks %s %s", actions[i].name, actions[i].usage);
      return CLI_USAGE;
    }
    int status = check_action_options(&actions[i], arguments);
    return status == CLI_OK ? actions[i].run(arguments, output) : status;
  }
  return CLI_USAGE; /* never reached: the command table has the same actions */
}
