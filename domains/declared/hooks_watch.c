/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_watch.c: follows a directory of hooks. A thread waits for inotify, then for a moment without further changes,
 * and makes one commit of the directory's content. The commit removes the old hooks; running turns keep them. With
 * only_when_asked there is no thread, and only calls of the host commit. The watch owns the hooks that were committed
 * last. It has one lock for them, held while a directory is read and committed, so that the host and the thread take
 * turns. */
#include <errno.h>
#include <fts.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "domains/declared/hook.h"

enum {
  QUIET_MS = 100,
  QUIET_MS_MAX = 60000,
  DELAY_MS_MAX = 2000, /* how long further changes can postpone a reload */
  AWAY_MS = 500,       /* how often a missing directory is searched for */
  CONFLICTS_MAX = 20
};
#define CHANGES \
  (IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

struct tp_hooks_watch {
  /* never changes after new */
  tp_runtime *runtime;
  tp_hooks_watch_options options;
  tp_hooks_options hooks_options;
  char *directory, *root, *owner, *helper, *webhook_helper, *prefix, *trusted_by;
  char **webhook_hosts, **data_files, **code_files; /* ended by NULL; NULL: none */
  int inotify, stop;
  pthread_t thread;
  tp__lock mutex;
  /* under mutex */
  tp_hooks *hooks;  /* committed last; NULL: none yet */
  tp_hooks *before; /* the hooks that the last update replaced; NULL: none that could be restored */
};

/* ---- one reload ---- */

static bool is_trusted(const tp_hooks_watch *watch, const char *hash) {
  return !watch->options.trusts || watch->options.trusts(watch->options.ctx, hash);
}

/* If another commit came in between, this tries again. */
static tp_status replace(tp_hooks_watch *watch, tp_hooks *hooks, const char *trusted, tp_fault *fault) {
  tp_status status = TP_ERR_CONFLICT;
  for (int i = 0; i < CONFLICTS_MAX && status == TP_ERR_CONFLICT; i++)
    status = tp_hooks_replace(hooks, watch->hooks, watch->owner, trusted, NULL, fault);
  return status;
}

/* @param if_changed  unchanged hooks are not committed again.
 * @param keeps       the hooks committed last are kept, so that they can be restored. */
static tp_status reload(tp_hooks_watch *watch, bool if_changed, bool keeps, bool *ret_did, tp_fault *fault) {
  tp_hooks *hooks = NULL, *stale = NULL;
  tp__lock_acquire(&watch->mutex);
  tp_status status = tp_hooks_read(watch->runtime, &watch->hooks_options, &hooks, fault);
  bool is_same =
      status == TP_OK && if_changed && watch->hooks && strcmp(tp_hooks_hash(hooks), tp_hooks_hash(watch->hooks)) == 0;
  const char *trusted = status == TP_OK && is_trusted(watch, tp_hooks_hash(hooks)) ? tp_hooks_hash(hooks) : NULL;
  if (status == TP_OK && !is_same) status = replace(watch, hooks, trusted, fault);
  bool did = status == TP_OK && !is_same;
  tp_hooks *gone = hooks;
  if (did) {
    gone = watch->hooks;
    watch->hooks = hooks;
  }
  if (did || keeps) {
    stale = watch->before;
    watch->before = did && keeps ? gone : NULL;
    if (watch->before) gone = NULL;
  }
  tp__lock_release(&watch->mutex);
  tp_hooks_free(gone);
  tp_hooks_free(stale);
  if (ret_did) *ret_did = !is_same;
  return status;
}

tp_status tp_hooks_watch_reload(tp_hooks_watch *watch, tp_fault *fault) {
  if (!watch) return tp__refuse(fault, TP_ERR_USAGE, NULL, "there is no watch");
  return reload(watch, false, false, NULL, fault);
}

/* Refuses a watch that follows its directory by itself: it could register hooks before other changes that belong to
 * them. */
static tp_status check_asked(const tp_hooks_watch *watch, tp_fault *fault) {
  if (watch && watch->options.only_when_asked) return TP_OK;
  return tp__refuse(
      fault, TP_ERR_USAGE, NULL, "%s",
      watch ? "this watch registers changes by itself: open it with only_when_asked" : "there is no watch");
}

tp_status tp_hooks_watch_update(tp_hooks_watch *watch, bool *ret_changed, tp_fault *fault) {
  tp_status status = check_asked(watch, fault);
  if (status != TP_OK) return status;
  return reload(watch, true, true, ret_changed, fault);
}

tp_status tp_hooks_watch_undo(tp_hooks_watch *watch, tp_fault *fault) {
  tp_status status = check_asked(watch, fault);
  if (status != TP_OK) return status;
  tp__lock_acquire(&watch->mutex);
  tp_hooks *before = watch->before, *gone = NULL;
  if (before) status = replace(watch, before, tp_hooks_hash(before), fault); /* which was trusted */
  if (before && status == TP_OK) {
    gone = watch->hooks;
    watch->hooks = before;
    watch->before = NULL;
  }
  tp__lock_release(&watch->mutex);
  tp_hooks_free(gone);
  return status;
}

size_t tp_hooks_watch_each_warning(tp_hooks_watch *watch, bool has_all_tools, tp_hook_warning_fn each, void *ctx) {
  if (!watch) return 0;
  tp__lock_acquire(&watch->mutex);
  tp_hooks *hooks = watch->hooks;
  if (hooks) tp__hooks_ref(hooks);
  tp__lock_release(&watch->mutex);
  size_t count = tp_hooks_each_warning(hooks, has_all_tools, each, ctx);
  if (hooks) tp__hooks_unref(hooks);
  return count;
}

/* ---- the thread ---- */

/* Watches the directory and its folders. A folder that is watched already keeps its watch. @return false: the directory
 * is gone. */
static bool watch_folders(const tp_hooks_watch *watch) {
  char *paths[] = {watch->directory, NULL};
  bool is_there = inotify_add_watch(watch->inotify, watch->directory, CHANGES) >= 0;
  FTS *tree = is_there ? fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
  if (!tree) return is_there;
  for (FTSENT *entry = fts_read(tree); entry; entry = fts_read(tree))
    if (entry->fts_info == FTS_D) (void)inotify_add_watch(watch->inotify, entry->fts_path, CHANGES);
  fts_close(tree);
  return true;
}

static void drain_events(int inotify) {
  char events[8192];
  while (read(inotify, events, sizeof events) > 0) {}
}

/* @return false: the thread must stop. @param ret_changed  an event came before the time was over. */
static bool wait_for(const tp_hooks_watch *watch, int limit_ms, bool *ret_changed) {
  struct pollfd fds[] = {{.fd = watch->stop, .events = POLLIN}, {.fd = watch->inotify, .events = POLLIN}};
  int count = poll(fds, 2, limit_ms);
  *ret_changed = count > 0 && fds[1].revents != 0;
  if (*ret_changed) drain_events(watch->inotify);
  return count <= 0 || fds[0].revents == 0;
}

/* Editors write a file in several steps, and people change several files. */
static bool wait_for_quiet(const tp_hooks_watch *watch) {
  int quiet_ms = (int)watch->options.quiet_ms;
  int64_t latest_ms = tp__monotonic_ms() + DELAY_MS_MAX + quiet_ms;
  bool goes_on = true, changed = true;
  while (goes_on && changed && tp__monotonic_ms() < latest_ms) goes_on = wait_for(watch, quiet_ms, &changed);
  return goes_on;
}

static void *watch_run(void *arg) {
  tp_hooks_watch *watch = arg;
  bool is_there = true, goes_on = true;
  while (goes_on) {
    bool changed = false, was_there = is_there;
    goes_on = wait_for(watch, is_there ? -1 : AWAY_MS, &changed);
    if (goes_on && changed) goes_on = wait_for_quiet(watch);
    is_there = watch_folders(watch);
    if (goes_on && (changed || is_there != was_there)) {
      tp_fault fault = {0};
      bool did = true;
      tp_status status = reload(watch, true, false, &did, &fault);
      if (did && watch->options.on_reload) watch->options.on_reload(watch->options.ctx, status, &fault);
    }
  }
  return NULL;
}

/* ---- life ---- */

static void free_list(char **list) {
  for (char **item = list; item && *item; item++) free(*item);
  free(list);
}

static void watch_free(tp_hooks_watch *watch) {
  tp_hooks_free(watch->hooks);
  tp_hooks_free(watch->before);
  if (watch->inotify >= 0) close(watch->inotify);
  if (watch->stop >= 0) close(watch->stop);
  tp__lock_fini(&watch->mutex);
  free(watch->directory);
  free(watch->root);
  free(watch->owner);
  free(watch->helper);
  free(watch->prefix);
  free(watch->trusted_by);
  free(watch->webhook_helper);
  free_list(watch->webhook_hosts);
  free_list(watch->data_files);
  free_list(watch->code_files);
  free(watch);
}

static tp_status system_error(tp_fault *fault, int error, const char *what) {
  return tp__refuse_errno(fault, TP_ERR_SYSTEM, NULL, error, "%s", what);
}

static bool copy_text(const char *text, char **ret_copy) {
  *ret_copy = text ? strdup(text) : NULL;
  return !text || *ret_copy;
}

static bool copy_list(const char *const *list, char ***ret_copy) {
  size_t count = 0;
  while (list && list[count]) count++;
  if (count == 0) return true;
  char **copy = calloc(count + 1, sizeof *copy);
  bool is_copied = copy != NULL;
  *ret_copy = copy;
  for (size_t i = 0; is_copied && i < count; i++) is_copied = copy_text(list[i], &copy[i]);
  return is_copied;
}

static tp_status copy_options(tp_hooks_watch *watch, tp_fault *fault) {
  const tp_hooks_options *theirs = watch->options.hooks;
  tp_hooks_options *options = &watch->hooks_options;
  char here[4096];
  const char *root = theirs->root ? theirs->root : getcwd(here, sizeof here);
  memcpy(options, theirs, theirs->struct_size < sizeof *options ? theirs->struct_size : sizeof *options);
  options->struct_size = sizeof *options;
  if (!copy_text(theirs->directory, &watch->directory) || !copy_text(root, &watch->root) ||
      !copy_text(options->sandbox_helper, &watch->helper) ||
      !copy_text(options->webhook_helper, &watch->webhook_helper) ||
      !copy_list(options->webhook_hosts, &watch->webhook_hosts) || !copy_text(options->id_prefix, &watch->prefix) ||
      !copy_list(options->data_files, &watch->data_files) || !copy_list(options->code_files, &watch->code_files) ||
      !copy_text(options->trusted_by, &watch->trusted_by) || !copy_text(watch->options.owner, &watch->owner))
    return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory to watch hooks");
  options->directory = watch->directory;
  options->root = watch->root;
  options->sandbox_helper = watch->helper;
  options->webhook_helper = watch->webhook_helper;
  options->webhook_hosts = (const char *const *)watch->webhook_hosts;
  options->data_files = (const char *const *)watch->data_files;
  options->code_files = (const char *const *)watch->code_files;
  options->id_prefix = watch->prefix;
  options->trusted_by = watch->trusted_by;
  return TP_OK;
}

static tp_status open_thread(tp_hooks_watch *watch, tp_fault *fault) {
  watch->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (watch->inotify < 0) return system_error(fault, errno, "no inotify for hooks");
  watch->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (watch->stop < 0) return system_error(fault, errno, "no descriptor to watch hooks");
  (void)watch_folders(watch); /* first, so that nothing is missed */
  tp_status status = reload(watch, false, false, NULL, fault);
  if (status != TP_OK) return status;
  int error = tp__thread_spawn(&watch->thread, watch_run, watch);
  return error == 0 ? TP_OK : system_error(fault, error, "no thread to watch hooks");
}

static tp_status open_watch(tp_hooks_watch *watch, tp_fault *fault) {
  tp_status status = copy_options(watch, fault);
  if (status != TP_OK) return status;
  return watch->options.only_when_asked ? reload(watch, false, false, NULL, fault) : open_thread(watch, fault);
}

static tp_status check_watch_options(const tp_hooks_watch_options *options, tp_fault *fault) {
  const char *wrong = NULL;
  if (!options || options->struct_size != sizeof *options) wrong = "struct_size is not set, or is of another version";
  else if (options->reserved_[0] || options->reserved_[1] || options->reserved_[2]) wrong = "reserved_ must be zero";
  else if (!options->hooks || options->hooks->struct_size < offsetof(tp_hooks_options, on_program))
    wrong = "hooks is missing";
  else if (options->hooks->struct_size > sizeof *options->hooks) wrong = "hooks has a field that is newer";
  else if (!options->hooks->directory) wrong = "hooks->directory is missing";
  else if (options->hooks->only) wrong = "hooks->only is for a hook alone, which is not watched";
  else if (options->only_when_asked && (options->quiet_ms || options->on_reload))
    wrong = "only_when_asked has neither quiet_ms nor on_reload";
  else if (options->quiet_ms > QUIET_MS_MAX) wrong = "quiet_ms is at most 60,000";
  if (!wrong) return TP_OK;
  return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_hooks_watch_options: %s", wrong);
}

tp_status tp_hooks_watch_new(tp_runtime *runtime, const tp_hooks_watch_options *options, tp_hooks_watch **ret_watch,
                             tp_fault *fault) {
  tp_status status = check_watch_options(options, fault);
  if (status != TP_OK) return status;
  tp_hooks_watch *watch = calloc(1, sizeof *watch);
  if (!watch) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory to watch hooks");
  tp__lock_init(&watch->mutex, TP__LOCK_hooks_watch);
  watch->runtime = runtime;
  watch->options = *options;
  if (watch->options.quiet_ms == 0) watch->options.quiet_ms = QUIET_MS;
  watch->inotify = watch->stop = -1;
  status = open_watch(watch, fault);
  if (status == TP_OK) *ret_watch = watch;
  else watch_free(watch);
  return status;
}

void tp_hooks_watch_free(tp_hooks_watch *watch) {
  if (!watch) return;
  uint64_t one = 1;
  while (!watch->options.only_when_asked && write(watch->stop, &one, sizeof one) < 0 && errno == EINTR) {}
  if (!watch->options.only_when_asked) pthread_join(watch->thread, NULL);
  watch_free(watch);
}
