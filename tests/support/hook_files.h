/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_files: files of declared hooks in a test's directory, and their commit. */
#ifndef TEST_HOOK_FILES_H
#define TEST_HOOK_FILES_H

#include <sys/stat.h>

#include "tests/support/directory.h"
#include "tests/support/host.h"
#include "turnphase/declared.h"

/* In one step, so that one write is one change. */
static inline void write_file(const char *name, const char *text, mode_t mode) {
  char file[160], other[160];
  snprintf(file, sizeof file, "%s/%s", directory, name);
  snprintf(other, sizeof other, "%s.new", directory);
  FILE *stream = fopen(other, "we");
  assert_non_null(stream);
  assert_true(fputs(text, stream) >= 0);
  assert_int_equal(fclose(stream), 0);
  assert_int_equal(chmod(other, mode), 0);
  assert_int_equal(rename(other, file), 0);
}

static inline void write_named(const char *name, const char *text) { write_file(name, text, 0600); }
static inline void write_program(const char *name, const char *text) { write_file(name, text, 0700); }

/* What a program wrote. */
static inline void read_back(const char *name, char *ret_text, size_t size) {
  char file[160];
  snprintf(file, sizeof file, "%s/%s", directory, name);
  FILE *stream = fopen(file, "re");
  assert_non_null(stream);
  size_t got = fread(ret_text, 1, size - 1, stream);
  ret_text[got] = '\0';
  fclose(stream);
}

/* Programs run in the test's directory, too. */
static inline tp_hooks_options hooks_options(void) {
  return (tp_hooks_options){.struct_size = sizeof(tp_hooks_options), .directory = directory, .root = directory};
}

/* @param options  NULL: hooks_options(). */
static inline tp_status read_hooks(tp_runtime *runtime, const tp_hooks_options *options, tp_hooks **ret_hooks,
                                   tp_fault *fault) {
  const tp_hooks_options defaults = hooks_options();
  return tp_hooks_read(runtime, options ? options : &defaults, ret_hooks, fault);
}

static inline void commit_hooks(tp_runtime *runtime, const tp_hooks_options *options) {
  tp_hooks *hooks;
  tp_fault fault = {0};
  if (read_hooks(runtime, options, &hooks, &fault) != TP_OK)
    fail_msg("%s:%u: %s", fault.subject, fault.line, fault.message);
  tp_status status = tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault);
  if (status != TP_OK) fail_msg("%s: %s", fault.subject, fault.message);
  tp_hooks_free(hooks);
}

static inline tp_runtime *open_with_hooks(const tp_hooks_options *options) {
  tp_runtime *runtime = open_runtime(NULL);
  commit_hooks(runtime, options);
  return runtime;
}

#endif
