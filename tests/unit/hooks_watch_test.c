/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory of hooks that is followed: the effect of a change on disk, the state after a refused one, and 1,000
 * reloads during 1,000 turns. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/hook_files.h"
#include "tests/support/leftovers.h"

enum { LONG_QUIET_MS = 60000, SHORT_QUIET_MS = 20, ONLY_WHEN_ASKED = 1 };

/* A hook whose question says which version it is. */
static void write_version(const char *id, const char *event, int version) {
  char name[32], text[256];
  snprintf(name, sizeof name, "%s.yaml", id);
  snprintf(text, sizeof text, "id: %s\nevent: %s\nhandler: {kind: approve, question: 'version %d'}\n", id, event,
           version);
  write_named(name, text);
}

/* ---- a host that follows a directory ---- */

typedef struct host {
  tp_runtime *runtime;
  tp_hooks_watch *watch;
  latch reloaded;
  uint32_t reloads; /* that the test has waited for */
  _Atomic bool distrusts;
  pthread_mutex_t mutex;
  tp_status newest_status; /* under mutex: of the newest reload */
  tp_fault newest_fault;
  tp_fault fault; /* of the one that was waited for */
} host;

static bool trusts(void *ctx, const char *hash) { return strlen(hash) == 64 && !((host *)ctx)->distrusts; }

static void on_reload(void *ctx, tp_status status, const tp_fault *fault) {
  host *h = ctx;
  pthread_mutex_lock(&h->mutex);
  h->newest_status = status;
  h->newest_fault = *fault;
  pthread_mutex_unlock(&h->mutex);
  latch_hit(&h->reloaded);
}

static void wait_reload(host *h, tp_status status) {
  latch_wait(&h->reloaded, ++h->reloads);
  pthread_mutex_lock(&h->mutex);
  tp_status newest = h->newest_status;
  h->fault = h->newest_fault;
  pthread_mutex_unlock(&h->mutex);
  if (newest != status) fail_msg("%s: %s", tp_status_name(newest), h->fault.message);
}

/* @param quiet_ms  ONLY_WHEN_ASKED: of none. */
static tp_status follow(host *h, uint32_t quiet_ms, tp_fault *fault) {
  bool only_when_asked = quiet_ms == ONLY_WHEN_ASKED;
  const tp_hooks_options hooks = hooks_options();
  const tp_hooks_watch_options options = {.struct_size = sizeof options,
                                          .hooks = &hooks,
                                          .trusts = trusts,
                                          .on_reload = only_when_asked ? NULL : on_reload,
                                          .ctx = h,
                                          .quiet_ms = only_when_asked ? 0 : quiet_ms,
                                          .only_when_asked = only_when_asked};
  h->reloaded = (latch)LATCH;
  return tp_hooks_watch_new(h->runtime, &options, &h->watch, fault);
}

static void open_host(host *h, uint32_t quiet_ms) {
  tp_fault fault = {0};
  h->runtime = open_runtime(NULL);
  if (follow(h, quiet_ms, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static void close_host(host *h) {
  tp_hooks_watch_free(h->watch);
  close_runtime(h->runtime);
}

/* The version that a phase of the turn runs; -1: none. */
static int version_in(tp_turn *turn, uint32_t phase) {
  tp_phase_result result = run_phase(turn, phase, NULL);
  int version = -1;
  if (result.verdict == TP_VERDICT_ASK) sscanf(result.reason.data, "version %d", &version);
  return version;
}

static int version_now(host *h) {
  tp_turn *turn = begin_bare(h->runtime, 60000);
  int version = version_in(turn, TP_PHASE_TOOL_PRE);
  tp_turn_end(turn);
  return version;
}

/* ---- changes on disk ---- */

FOR_EACH_TEST(make_directory, remove_directory);

TEST(change_is_picked_up_and_turns_that_run_keep_theirs) {
  host h = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  write_version("a", "tool.pre", 1);
  open_host(&h, SHORT_QUIET_MS);
  tp_turn *old = begin_bare(h.runtime, 60000);
  assert_int_equal(version_in(old, TP_PHASE_TOOL_PRE), 1);
  write_version("a", "tool.pre", 2);
  wait_reload(&h, TP_OK);
  assert_int_equal(version_in(old, TP_PHASE_TOOL_PRE), 1);
  assert_int_equal(version_now(&h), 2);
  tp_turn_end(old);
  char file[160];
  snprintf(file, sizeof file, "%s/a.yaml", directory);
  assert_int_equal(unlink(file), 0);
  wait_reload(&h, TP_OK);
  assert_int_equal(version_now(&h), -1);
  write_version("b", "tool.pre", 3);
  wait_reload(&h, TP_OK);
  assert_int_equal(version_now(&h), 3);
  close_host(&h);
}

TEST(refused_change_leaves_the_old_and_is_said) {
  host h = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  write_version("a", "tool.pre", 1);
  open_host(&h, SHORT_QUIET_MS);
  write_named("b.yaml", "id: b\nevent: tool.pre\ncolour: red\n");
  wait_reload(&h, TP_ERR_MALFORMED);
  assert_non_null(strstr(h.fault.subject, "b.yaml"));
  assert_int_equal(h.fault.line, 3);
  assert_int_equal(version_now(&h), 1);
  write_named("b.yaml", "id: b\nevent: tool.pre\nafter: [missing]\nhandler: {kind: approve}\n");
  wait_reload(&h, TP_ERR_MISSING_DEPENDENCY); /* by the commit */
  assert_int_equal(version_now(&h), 1);
  write_named("b.yaml", "id: b\nevent: tool.post\nhandler: {kind: log, path: log}\n");
  wait_reload(&h, TP_OK);
  assert_int_equal(version_now(&h), 1);
  close_host(&h);
}

TEST(content_that_is_not_trusted_waits_for_its_trust) {
  host h = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  write_version("a", "tool.pre", 1);
  open_host(&h, SHORT_QUIET_MS);
  h.distrusts = true;
  write_version("a", "tool.pre", 2);
  wait_reload(&h, TP_ERR_USAGE);
  assert_non_null(strstr(h.fault.message, "trust this hash"));
  assert_int_equal(version_now(&h), 1);
  assert_int_equal(tp_hooks_watch_reload(h.watch, NULL), TP_ERR_USAGE);
  h.distrusts = false;
  assert_int_equal(tp_hooks_watch_reload(h.watch, NULL), TP_OK);
  assert_int_equal(version_now(&h), 2);
  close_host(&h);
  h = (host){.mutex = PTHREAD_MUTEX_INITIALIZER, .distrusts = true, .runtime = open_runtime(NULL)};
  assert_int_equal(follow(&h, 0, NULL), TP_ERR_USAGE); /* the first is no different */
  close_runtime(h.runtime);
}

TEST(an_update_is_made_at_once_and_may_be_taken_back) {
  host h = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  bool changed = true;
  write_version("a", "tool.pre", 1);
  open_host(&h, ONLY_WHEN_ASKED);
  assert_int_equal(tp_hooks_watch_update(h.watch, &changed, NULL), TP_OK);
  assert_false(changed);
  assert_int_equal(tp_hooks_watch_undo(h.watch, NULL), TP_OK); /* of nothing */
  assert_int_equal(version_now(&h), 1);
  write_version("a", "tool.pre", 2);
  assert_int_equal(tp_hooks_watch_update(h.watch, &changed, NULL), TP_OK);
  assert_true(changed);
  assert_int_equal(version_now(&h), 2);
  assert_int_equal(tp_hooks_watch_undo(h.watch, NULL), TP_OK);
  assert_int_equal(version_now(&h), 1);
  assert_int_equal(tp_hooks_watch_undo(h.watch, NULL), TP_OK); /* once only */
  assert_int_equal(version_now(&h), 1);
  h.distrusts = true;
  assert_int_equal(tp_hooks_watch_update(h.watch, &changed, NULL), TP_ERR_USAGE);
  assert_int_equal(version_now(&h), 1);
  h.distrusts = false;
  assert_int_equal(tp_hooks_watch_update(h.watch, NULL, NULL), TP_OK); /* the files are as they were left */
  assert_int_equal(version_now(&h), 2);
  assert_int_equal(tp_hooks_watch_reload(h.watch, NULL), TP_OK); /* a commit of its own: nothing is taken back */
  assert_int_equal(tp_hooks_watch_undo(h.watch, NULL), TP_OK);
  assert_int_equal(version_now(&h), 2);
  assert_int_equal(tp_hooks_watch_update(NULL, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_hooks_watch_undo(NULL, NULL), TP_ERR_USAGE);
  close_host(&h);
}

static int inotify_descriptors(void) {
  int count = 0;
  char link[64], target[64];
  for (int fd = 0; fd < 256; fd++) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, target, sizeof target);
    count += size > 0 && memmem(target, (size_t)size, "inotify", 7);
  }
  return count;
}

/* Without a descriptor nothing can notice the files. */
TEST(a_watch_that_waits_to_be_asked_notices_nothing_by_itself) {
  host h = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  char file[160];
  snprintf(file, sizeof file, "%s/a.yaml", directory);
  write_version("a", "tool.pre", 1);
  open_host(&h, ONLY_WHEN_ASKED);
  assert_int_equal(inotify_descriptors(), 0);
  write_version("a", "tool.pre", 2);
  assert_int_equal(version_now(&h), 1);
  assert_int_equal(tp_hooks_watch_reload(h.watch, NULL), TP_OK);
  assert_int_equal(version_now(&h), 2);
  assert_int_equal(unlink(file), 0);
  assert_int_equal(version_now(&h), 2);
  assert_int_equal(tp_hooks_watch_update(h.watch, NULL, NULL), TP_OK);
  assert_int_equal(version_now(&h), -1);
  close_host(&h);
}

TEST(a_watch_that_follows_makes_no_updates) {
  host h = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  tp_fault fault = {0};
  write_version("a", "tool.pre", 1);
  open_host(&h, LONG_QUIET_MS);
  assert_int_equal(inotify_descriptors(), 1);
  assert_int_equal(tp_hooks_watch_update(h.watch, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "only_when_asked"));
  assert_int_equal(tp_hooks_watch_undo(h.watch, NULL), TP_ERR_USAGE);
  close_host(&h);
}

TEST(folders_are_followed_and_a_directory_that_comes_back) {
  host h = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  char inner[160], away[160];
  snprintf(inner, sizeof inner, "%s/scripts", directory);
  snprintf(away, sizeof away, "%s.away", directory);
  write_version("a", "tool.pre", 1);
  assert_int_equal(mkdir(inner, 0700), 0);
  open_host(&h, SHORT_QUIET_MS);
  write_named("scripts/x.sh", "one");
  wait_reload(&h, TP_OK);
  write_named("scripts/x.sh", "two");
  wait_reload(&h, TP_OK);
  assert_int_equal(rename(directory, away), 0);
  wait_reload(&h, TP_ERR_IO);
  assert_int_equal(version_now(&h), 1);
  assert_int_equal(rename(away, directory), 0);
  while (version_now(&h) != 4) { /* found again, then followed again */
    write_version("a", "tool.pre", 4);
    sleep_ms(1);
    (void)!tp_hooks_watch_reload(h.watch, NULL);
  }
  close_host(&h);
}

TEST(switch_takes_hooks_away_at_the_next_reload) {
  host h = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  write_version("a", "tool.pre", 1);
  open_host(&h, LONG_QUIET_MS);
  setenv("TURNPHASE_DISABLE_HOOKS", "1", 1);
  assert_int_equal(tp_hooks_watch_reload(h.watch, NULL), TP_OK);
  unsetenv("TURNPHASE_DISABLE_HOOKS");
  assert_int_equal(version_now(&h), -1);
  assert_int_equal(tp_hooks_watch_reload(h.watch, NULL), TP_OK);
  assert_int_equal(version_now(&h), 1);
  close_host(&h);
}

TEST(bad_options_are_refused) {
  const tp_hooks_options hooks = {.struct_size = sizeof hooks, .directory = directory};
  const tp_hooks_options only = {.struct_size = sizeof only, .directory = directory, .only = "a"};
  const tp_hooks_options none = {.struct_size = sizeof none};
  const struct {
    tp_hooks_watch_options options;
    const char *part;
  } cases[] = {
      {{0}, "struct_size"},
      {{.struct_size = sizeof(tp_hooks_watch_options)}, "hooks is missing"},
      {{.struct_size = sizeof(tp_hooks_watch_options), .hooks = &only}, "only"},
      {{.struct_size = sizeof(tp_hooks_watch_options), .hooks = &none}, "directory"},
      {{.struct_size = sizeof(tp_hooks_watch_options), .hooks = &hooks, .quiet_ms = 60001}, "quiet_ms"},
      {{.struct_size = sizeof(tp_hooks_watch_options), .hooks = &hooks, .reserved_ = {1}}, "reserved_"},
      {{.struct_size = sizeof(tp_hooks_watch_options), .hooks = &hooks, .reserved_ = {0, 0, 1}}, "reserved_"},
      {{.struct_size = sizeof(tp_hooks_watch_options), .hooks = &hooks, .quiet_ms = 1, .only_when_asked = true},
       "only_when_asked"},
      {{.struct_size = sizeof(tp_hooks_watch_options),
        .hooks = &hooks,
        .on_reload = on_reload,
        .only_when_asked = true},
       "only_when_asked"}};
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_hooks_watch *watch = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_hooks_watch_new(runtime, &cases[i].options, &watch, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, cases[i].part));
  }
  assert_int_equal(tp_hooks_watch_reload(NULL, NULL), TP_ERR_USAGE);
  tp_hooks_watch_free(NULL);
  tp_runtime_free(runtime);
}

/* ---- 1,000 reloads beside 1,000 turns ---- */

enum { RELOADS = 1000, TURNS = 1000, THREADS = 4 };

typedef struct runner {
  pthread_t thread;
  tp_runtime *runtime;
  int mixed, backwards;
} runner;

static void *run_turns(void *arg) {
  runner *r = arg;
  int last = 0;
  for (int i = 0; i < TURNS / THREADS; i++) {
    tp_turn *turn = begin_bare(r->runtime, 60000);
    int create = version_in(turn, TP_PHASE_TOOL_CREATE), pre = version_in(turn, TP_PHASE_TOOL_PRE);
    r->mixed += create != pre || create < 1;
    r->backwards += pre < last;
    last = pre;
    tp_turn_end(turn);
  }
  return NULL;
}

/* Another owner that commits meanwhile; when a reload comes in between, its own commit is given up. */
typedef struct committer {
  pthread_t thread;
  tp_runtime *runtime;
  _Atomic bool stops;
  act act;
} committer;

static void *run_commits(void *arg) {
  committer *c = arg;
  for (bool is_there = false; !c->stops;) {
    tp_edit *edit;
    if (tp_edit_begin(c->runtime, NULL, &edit, NULL) != TP_OK) continue;
    tp_status status = is_there ? tp_edit_remove_subscription(edit, "other", NULL)
                                : hook_add(edit, &(hook){.id = "other", .phase = TP_PHASE_MODEL_POST, .ctx = &c->act});
    if (status == TP_OK && is_there) status = tp_edit_remove_handler(edit, "other", NULL);
    if (status == TP_OK) status = tp_edit_commit(edit, NULL, NULL);
    if (status == TP_OK) is_there = !is_there;
    else tp_edit_discard(edit);
    sleep_ms(1);
  }
  return NULL;
}

TEST(each_turn_sees_one_version_while_hooks_are_reloaded) {
  host h = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  size_t before = open_descriptors();
  runner runners[THREADS];
  write_version("a", "tool.create", 1);
  write_version("b", "tool.pre", 1);
  open_host(&h, LONG_QUIET_MS); /* both files change as one: the test says when */
  for (int i = 0; i < THREADS; i++) {
    runners[i] = (runner){.runtime = h.runtime};
    pthread_create(&runners[i].thread, NULL, run_turns, &runners[i]);
  }
  committer other = {.runtime = h.runtime};
  pthread_create(&other.thread, NULL, run_commits, &other);
  for (int i = 2; i <= RELOADS + 1; i++) {
    write_version("a", "tool.create", i);
    write_version("b", "tool.pre", i);
    assert_int_equal(tp_hooks_watch_reload(h.watch, NULL), TP_OK);
  }
  other.stops = true;
  pthread_join(other.thread, NULL);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(runners[i].thread, NULL);
    assert_int_equal(runners[i].mixed, 0);
    assert_int_equal(runners[i].backwards, 0);
  }
  assert_int_equal(version_now(&h), RELOADS + 1);
  close_host(&h);
  assert_int_equal(open_descriptors(), before);
}
