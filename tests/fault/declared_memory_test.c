/* SPDX-License-Identifier: Apache-2.0
 *
 * Every malloc is refused in turn, including those of libyaml: this program has a malloc of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "turnphase/declared.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAVE_OWN_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HAVE_OWN_MALLOC 0
#endif
#endif
#if !defined(HAVE_OWN_MALLOC) && defined(__GLIBC__)
#define HAVE_OWN_MALLOC 1
#endif

#if HAVE_OWN_MALLOC

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void __libc_free(void *memory);

static size_t requests, refuse_at; /* refuse_at 0: never */
static long open_blocks;

static bool refused(void) { return ++requests == refuse_at; }

static void *counted(void *memory) {
  open_blocks += memory != NULL;
  return memory;
}

/* libyaml must use this malloc, too, but names are hidden by default: hence TP_API. */
TP_API void *malloc(size_t size) { return refused() ? NULL : counted(__libc_malloc(size)); }

TP_API void *calloc(size_t count, size_t size) { return refused() ? NULL : counted(__libc_calloc(count, size)); }

TP_API void *realloc(void *memory, size_t size) {
  if (refused()) return NULL;
  void *moved = __libc_realloc(memory, size);
  return memory ? moved : counted(moved);
}

TP_API void free(void *memory) {
  open_blocks -= memory != NULL;
  __libc_free(memory);
}

/* Runs a function with its first allocation refused, then its second, and so on, until none is refused any more. */
static size_t refuse_each(tp_status (*run)(tp_fault *fault)) {
  for (size_t n = 1;; n++) {
    tp_fault fault = {.code = TP_OK};
    long before = open_blocks;
    requests = 0;
    refuse_at = n;
    tp_status status = run(&fault);
    size_t seen = requests;
    refuse_at = 0;
    assert_int_equal(open_blocks, before);
    assert_int_equal(fault.code, status);
    if (seen < n) {
      assert_int_equal(status, TP_OK);
      return n - 1;
    }
    if (status != TP_ERR_NO_MEMORY) fail_msg("request %zu: %s: %s", n, tp_status_name(status), fault.message);
  }
}

/* A writer stores the first error that it meets; here that error is its result. */
static tp_status finish(tp_writer *writer, tp_status status, tp_fault *fault) {
  tp_text value;
  if (status == TP_OK) status = tp_writer_finish(writer, &value);
  tp_writer_free(writer);
  fault->code = status;
  return status;
}

static tp_status decode_yaml(tp_fault *fault) {
  static const char yaml[] =
      "responses:\n"
      "  - text: \"Hello\\n with a text that is long enough to make buffers grow \xc3\xa9\"\n"
      "    usage: {input_tokens: 1, list: [2, 'x y', ~, 1.5, true]}\n"
      "  - text: |\n      one\n      two\n    folded: >-\n      three\n      four\n"
      "  - - - - - - - - - - - - - - - - - - deep\n";
  tp_writer *writer;
  tp_status status = tp_writer_new(NULL, &writer);
  if (status != TP_OK) return fault->code = status;
  return finish(writer, tp_yaml_decode(tp_text_of(yaml), "a.yaml", writer, fault), fault);
}

static tp_status load_script(tp_fault *fault) {
  static const char yaml[] =
      "responses:\n  - text: a\n  - tool_calls:\n      - {id: c1, name: b, arguments: {c: [d]}}\n";
  tp_model *model;
  tp_status status = tp_script_model_load(tp_text_of(yaml), "a.yaml", &model, fault);
  if (status == TP_OK) tp_model_free(model);
  return status;
}

TEST(yaml_without_memory_is_refused_cleanly) { assert_true(refuse_each(decode_yaml) > 50); }

TEST(script_without_memory_is_refused_cleanly) { assert_true(refuse_each(load_script) > 30); }

#else

TEST_MAIN(count, arguments) {
  printf("1..0 # SKIP malloc cannot be replaced here\n");
  return 0;
}

#endif
