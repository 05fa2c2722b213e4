/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "runtime/base/base.h"
#include "turnphase/runtime.h"

/* An allocator that counts, checks sizes, and refuses the n-th request. */
typedef struct counting {
  size_t open_bytes, requests, refuse_at; /* refuse_at 0: never */
  bool wrong_size;
} counting;

static void *counting_alloc(void *ctx, size_t size) {
  counting *c = ctx;
  if (++c->requests == c->refuse_at) return NULL;
  size_t *memory = malloc(16 + size);
  if (!memory) return NULL;
  *memory = size;
  c->open_bytes += size;
  return (char *)memory + 16;
}

static void counting_release(void *ctx, void *memory, size_t size) {
  counting *c = ctx;
  size_t *real = (size_t *)((char *)memory - 16);
  if (*real != size) c->wrong_size = true;
  c->open_bytes -= *real;
  free(real);
}

static tp_allocator allocator_over(counting *c) { return (tp_allocator){counting_alloc, counting_release, c}; }

/* ---- status ---- */

TEST(every_status_has_its_name_text_and_category) {
  assert_string_equal(tp_status_name(TP_OK), "TP_OK");
#define TP_STATUS_ROW(name, number, category, text)        \
  assert_int_equal(name, number);                          \
  assert_string_equal(tp_status_name(name), #name);        \
  assert_string_equal(tp_status_category(name), category); \
  assert_string_equal(tp_status_text(name), text);
#include "turnphase/status.def"
#undef TP_STATUS_ROW
}

TEST(hundreds_digit_of_a_status_is_its_category) {
  static const char *const categories[] = {"",     "usage", "limit",  "timeout", "canceled",
                                           "hook", "store", "system", "internal"};
#define TP_STATUS_ROW(name, number, category, text) assert_string_equal(categories[(number) / 100], category);
#include "turnphase/status.def"
#undef TP_STATUS_ROW
}

TEST(number_that_is_no_status_is_still_named) {
  static const int numbers[] = {-1, 1, 99, 199, 999999};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    assert_string_equal(tp_status_name((tp_status)numbers[i]), "TP_ERR_UNKNOWN");
    assert_string_equal(tp_status_category((tp_status)numbers[i]), "internal");
    assert_true(strlen(tp_status_text((tp_status)numbers[i])) > 0);
  }
}

TEST(number_of_an_unknown_status_is_kept) {
  char name[32], cut[8];
  assert_string_equal(tp_status_name_r(TP_ERR_CYCLE, name, sizeof name), "TP_ERR_CYCLE");
  assert_string_equal(tp_status_name_r(TP_OK, name, sizeof name), "TP_OK");
  assert_string_equal(tp_status_name_r((tp_status)612, name, sizeof name), "TP_ERR_UNKNOWN_612");
  assert_string_equal(tp_status_name_r((tp_status)INT32_MIN, name, sizeof name), "TP_ERR_UNKNOWN_-2147483648");
  assert_string_equal(tp_status_name_r(TP_ERR_CYCLE, cut, sizeof cut), "TP_ERR_");
}

TEST(version_of_the_headers_and_of_the_library_agree) {
  int major, minor, patch;
  assert_int_equal(sscanf(tp_version(), "%d.%d.%d", &major, &minor, &patch), 3);
  assert_int_equal(major, TP_VERSION_MAJOR);
  assert_int_equal(minor, TP_VERSION_MINOR);
  assert_int_equal(patch, TP_VERSION_PATCH);
  assert_int_equal(tp_version_number(), TP_VERSION_NUMBER);
  assert_int_equal(tp_version_number(), major << 16 | minor << 8 | patch);
}

TEST(feature_is_one_that_the_library_was_built_with) {
#ifdef NDEBUG
  assert_false(tp_feature("assertions"));
#else
  assert_true(tp_feature("assertions"));
#endif
  assert_false(tp_feature("simulator"));
  assert_false(tp_feature("teleportation"));
  assert_false(tp_feature(""));
  assert_false(tp_feature(NULL));
}

TEST(log_levels_have_names) {
  assert_string_equal(tp_log_level_name(TP_LOG_ERROR), "error");
  assert_string_equal(tp_log_level_name(TP_LOG_WARNING), "warning");
  assert_string_equal(tp_log_level_name(TP_LOG_INFO), "info");
  assert_string_equal(tp_log_level_name(TP_LOG_DEBUG), "debug");
  assert_string_equal(tp_log_level_name((tp_log_level)77), "unknown");
}

TEST(numbers_of_enums_have_words) {
  assert_string_equal(tp_execution_name(TP_EXECUTION_FIRE_AND_RECORD), "fire_and_record");
  assert_string_equal(tp_execution_name(TP_EXECUTION_DEFAULT), "default");
  assert_string_equal(tp_failure_name(TP_FAILURE_REQUIRED), "required");
  assert_string_equal(tp_backoff_name(TP_BACKOFF_EXPONENTIAL), "exponential");
  assert_string_equal(tp_visibility_name(TP_VISIBILITY_USER_VISIBLE), "user_visible");
  assert_string_equal(tp_severity_name(TP_SEVERITY_ERROR), "error");
  assert_string_equal(tp_caller_name(TP_CALLER_MANUAL_CLI), "manual_cli");
  assert_string_equal(tp_mode_name(TP_MODE_OBSERVE), "observe");
  assert_string_equal(tp_trust_name(TP_TRUST_BUILTIN), "builtin");
  assert_string_equal(tp_mode_name((tp_mode)0), "unknown");
  assert_string_equal(tp_execution_name((tp_execution)77), "unknown");
  assert_string_equal(tp_failure_name((tp_failure)-1), "unknown");
  assert_string_equal(tp_caller_name(TP_CALLER_FORCE_32), "unknown");
  assert_string_equal(tp_trust_name((tp_trust)77), "unknown");
}

/* ---- faults ---- */

TEST(fail_fills_the_fault_and_returns_the_code) {
  tp_fault fault;
  memset(&fault, 0xff, sizeof fault);
  assert_int_equal(tp__fail(&fault, TP_ERR_CYCLE, "guard", "%s -> %s", "a", "b"), TP_ERR_CYCLE);
  assert_int_equal(fault.code, TP_ERR_CYCLE);
  assert_string_equal(fault.subject, "guard");
  assert_string_equal(fault.message, "a -> b");
  assert_int_equal(fault.phase, 0);
  assert_int_equal(fault.line, 0);
  assert_int_equal(fault.column, 0);
  assert_int_equal(fault.system_error, 0);
}

TEST(fail_without_a_fault_gives_the_code_alone) {
  assert_int_equal(tp__fail(NULL, TP_ERR_FULL, NULL, "no fault takes this %d", 1), TP_ERR_FULL);
}

TEST(fault_without_subject_has_an_empty_one) {
  tp_fault fault;
  (void)tp__fail(&fault, TP_ERR_IO, NULL, "x");
  assert_string_equal(fault.subject, "");
}

TEST(long_message_is_cut_at_a_code_point) {
  /* 511 bytes fit; for an odd number of bytes before it, the two-byte letter begins at the last of them. */
  for (int before = 505; before < 515; before++) {
    char text[600];
    for (int i = 0; i < before; i++) text[i] = i % 2 ? ' ' : 'x'; /* no word is cut */
    snprintf(text + before, sizeof text - (size_t)before, "%s", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
    tp_fault fault;
    (void)tp__fail(&fault, TP_ERR_IO, NULL, "%s", text);
    size_t length = strlen(fault.message);
    assert_in_range(length, TP_FAULT_MESSAGE_SIZE - 2, TP_FAULT_MESSAGE_SIZE - 1);
    if (before < 510) assert_int_equal((length - (size_t)before) % 2, 0);
    assert_memory_equal(fault.message, text, length);
  }
}

TEST(long_message_is_cut_between_words) {
  static const struct {
    int before, after, kept; /* bytes of blank-separated words, of one word, of the message */
  } cases[] = {{400, 112, 399}, {400, 111, 511}, {500, 12, 499}, {500, 11, 511}, {510, 1, 511}, {510, 2, 509}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[700];
    tp_fault fault;
    memset(text, ' ', (size_t)cases[i].before);
    for (int at = 0; at < cases[i].before - 1; at++) text[at] = 'a';
    memset(text + cases[i].before, 'z', (size_t)cases[i].after);
    text[cases[i].before + cases[i].after] = '\0';
    (void)tp__fail(&fault, TP_ERR_IO, NULL, "%s", text);
    size_t kept = strlen(fault.message), cut = kept > 0 && fault.message[kept - 1] == ' ' ? kept - 1 : kept;
    if (cut != (size_t)cases[i].kept) fail_msg("case %zu: %zu bytes", i, cut);
  }
  char word[600];
  tp_fault fault;
  memset(word, 'w', sizeof word - 1);
  word[sizeof word - 1] = '\0';
  (void)tp__fail(&fault, TP_ERR_IO, NULL, "%s", word);
  assert_string_equal(fault.message, "(its message is one word of more than 511 bytes)");
}

TEST(message_that_just_fits_is_whole) {
  char text[TP_FAULT_MESSAGE_SIZE];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  tp_fault fault;
  (void)tp__fail(&fault, TP_ERR_IO, NULL, "%s", text);
  assert_string_equal(fault.message, text);
}

TEST(long_subject_is_cut_at_a_code_point) {
  char subject[200];
  memset(subject, 's', 126);
  snprintf(subject + 126, sizeof subject - 126, "%s", "\xe2\x82\xac tail");
  tp_fault fault;
  (void)tp__fail(&fault, TP_ERR_IO, subject, "x");
  assert_int_equal(strlen(fault.subject), 126);
}

TEST(fault_may_wrap_its_own_message) {
  tp_fault fault;
  (void)tp__fail(&fault, TP_ERR_IO, "file", "no such file");
  (void)tp__fail(&fault, TP_ERR_STORE, fault.subject, "store: %s", fault.message);
  assert_string_equal(fault.subject, "file");
  assert_string_equal(fault.message, "store: no such file");
}

/* ---- options ---- */

typedef struct options {
  size_t struct_size;
  int a, b;
} options;

typedef struct newer_options {
  size_t struct_size;
  int a, b, c, d;
} newer_options;

TEST(options_of_our_size_are_copied) {
  options ours, theirs = {sizeof theirs, 1, 2};
  assert_int_equal(tp__options_read(&ours, sizeof ours, &theirs, "tp_x", NULL), TP_OK);
  assert_memory_equal(&ours, &theirs, sizeof ours);
}

TEST(older_options_get_zeroes_for_what_they_do_not_have) {
  newer_options ours = {0, 7, 7, 7, 7}, theirs = {sizeof(options), 1, 2, 99, 99};
  assert_int_equal(tp__options_read(&ours, sizeof ours, &theirs, "tp_x", NULL), TP_OK);
  assert_int_equal(ours.struct_size, sizeof ours);
  assert_int_equal(ours.b, 2);
  assert_int_equal(ours.c, 0);
  assert_int_equal(ours.d, 0);
}

TEST(newer_options_pass_only_with_zeroes_beyond_ours) {
  options ours = {0};
  newer_options theirs = {sizeof theirs, 1, 2, 0, 0};
  assert_int_equal(tp__options_read(&ours, sizeof ours, &theirs, "tp_x", NULL), TP_OK);
  assert_int_equal(ours.struct_size, sizeof ours);
  theirs.d = 1;
  theirs.a = 5;
  tp_fault fault;
  assert_int_equal(tp__options_read(&ours, sizeof ours, &theirs, "tp_x", &fault), TP_ERR_VERSION);
  assert_int_equal(ours.a, 1); /* untouched */
  assert_string_equal(fault.message,
                      "tp_x: byte 20 is set, but this library is older (0.1.0) and knows the first 16 bytes only; "
                      "leave the newer field zero, or install a newer turnphase");
}

TEST(options_whose_size_was_not_set_are_refused_without_being_read) {
  static const size_t sizes[] = {0, 3, sizeof(size_t) - 1, sizeof(size_t) + 1, 4097, 4104, 1u << 20, SIZE_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    /* On the heap, so that ASan sees a byte that is read beyond it. */
    size_t *theirs = malloc(sizeof *theirs);
    options ours = {1, 2, 3};
    tp_fault fault;
    char expected[80];
    assert_non_null(theirs);
    *theirs = sizes[i];
    assert_int_equal(tp__options_read(&ours, sizeof ours, theirs, "tp_x", &fault), TP_ERR_VERSION);
    assert_int_equal(ours.a, 2);
    snprintf(expected, sizeof expected, "tp_x: struct_size is %zu; set it to sizeof(tp_x)", sizes[i]);
    assert_string_equal(fault.message, expected);
    free(theirs);
  }
}

TEST(no_options_are_all_zero) {
  options ours = {1, 2, 3};
  assert_int_equal(tp__options_read(&ours, sizeof ours, NULL, "tp_x", NULL), TP_OK);
  assert_int_equal(ours.struct_size, sizeof ours);
  assert_int_equal(ours.a, 0);
  assert_int_equal(ours.b, 0);
}

/* ---- allocation ---- */

TEST(zero_allocator_is_the_c_library) {
  tp_allocator zero = {0};
  tp_allocator of_null = tp__allocator_of(NULL), of_zero = tp__allocator_of(&zero);
  assert_ptr_equal(of_null.alloc, of_zero.alloc);
  void *memory = tp__alloc(&of_null, 100);
  assert_non_null(memory);
  memset(memory, 1, 100);
  tp__release(&of_null, memory, 100);
}

TEST(allocator_of_the_host_is_used) {
  counting c = {0};
  tp_allocator given = allocator_over(&c), used = tp__allocator_of(&given);
  void *memory = tp__alloc(&used, 10);
  assert_int_equal(c.open_bytes, 10);
  tp__release(&used, memory, 10);
  assert_int_equal(c.open_bytes, 0);
}

TEST(allocator_never_sees_size_zero) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  void *memory = tp__alloc_zero(&allocator, 0);
  assert_non_null(memory);
  assert_int_equal(c.open_bytes, 1);
  tp__release(&allocator, memory, 0);
  assert_false(c.wrong_size);
  assert_int_equal(c.open_bytes, 0);
}

TEST(zeroed_memory_is_zero) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  unsigned char *memory = tp__alloc_zero(&allocator, 1000);
  for (size_t i = 0; i < 1000; i++) assert_int_equal(memory[i], 0);
  tp__release(&allocator, memory, 1000);
  tp__release(&allocator, NULL, 1000); /* harmless */
}

TEST(strings_are_copied_and_freed_with_their_size) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  char *copy;
  assert_int_equal(tp__string_copy(&allocator, "abc", &copy), TP_OK);
  assert_string_equal(copy, "abc");
  tp__string_free(&allocator, copy);
  assert_int_equal(tp__string_copy(&allocator, "", &copy), TP_OK);
  assert_string_equal(copy, "");
  tp__string_free(&allocator, copy);
  assert_int_equal(tp__string_copy(&allocator, NULL, &copy), TP_OK);
  assert_null(copy);
  tp__string_free(&allocator, NULL);
  assert_false(c.wrong_size);
  assert_int_equal(c.open_bytes, 0);
}

TEST(refused_copy_leaves_the_result_alone) {
  counting c = {.refuse_at = 1};
  tp_allocator allocator = allocator_over(&c);
  char before[] = "before", *copy = before;
  assert_int_equal(tp__string_copy(&allocator, "abc", &copy), TP_ERR_NO_MEMORY);
  assert_ptr_equal(copy, before);
}

TEST(array_grows_and_keeps_its_items) {
  counting c = {0};
  tp_allocator allocator = allocator_over(&c);
  void *array = NULL;
  size_t capacity = 0;
  for (size_t i = 0; i < 1000; i++) {
    assert_int_equal(tp__array_grow(&allocator, &array, &capacity, i + 1, sizeof(int)), TP_OK);
    assert_true(capacity > i);
    ((int *)array)[i] = (int)i;
  }
  assert_true(c.requests < 12); /* doubled, not grown one by one */
  for (size_t i = 0; i < 1000; i++) assert_int_equal(((int *)array)[i], (int)i);
  tp__release(&allocator, array, capacity * sizeof(int));
  assert_false(c.wrong_size);
  assert_int_equal(c.open_bytes, 0);
}

TEST(array_that_cannot_grow_is_as_before) {
  counting c = {.refuse_at = 2};
  tp_allocator allocator = allocator_over(&c);
  void *array = NULL;
  size_t capacity = 0;
  assert_int_equal(tp__array_grow(&allocator, &array, &capacity, 1, 8), TP_OK);
  void *before = array;
  size_t capacity_before = capacity;
  assert_int_equal(tp__array_grow(&allocator, &array, &capacity, capacity + 1, 8), TP_ERR_NO_MEMORY);
  assert_int_equal(tp__array_grow(&allocator, &array, &capacity, SIZE_MAX, 8), TP_ERR_NO_MEMORY);
  assert_int_equal(tp__array_grow(&allocator, &array, &capacity, SIZE_MAX / 8 + 2, 8), TP_ERR_NO_MEMORY);
  assert_ptr_equal(array, before);
  assert_int_equal(capacity, capacity_before);
  assert_int_equal(c.requests, 2); /* sizes that overflow never reach the allocator */
  tp__release(&allocator, array, capacity * 8);
}

/* ---- lists ---- */

TEST(list_keeps_the_order_of_pushes) {
  tp__link head, items[3];
  tp__list_init(&head);
  assert_true(tp__list_empty(&head));
  for (int i = 0; i < 3; i++) tp__list_push(&head, &items[i]);
  assert_ptr_equal(head.next, &items[0]);
  assert_ptr_equal(head.prev, &items[2]);
  tp__list_remove(&items[1]);
  tp__list_remove(&items[1]); /* harmless the second time */
  assert_ptr_equal(items[0].next, &items[2]);
  tp__list_remove(&items[0]);
  tp__list_remove(&items[2]);
  assert_true(tp__list_empty(&head));
}

/* ---- ids and text ---- */

TEST(good_ids_are_valid) {
  static const char *const ids[] = {
      "a", "memory.recall", "tool:fs/read", "\xc3\xa9t\xc3\xa9", "\xe4\xbd\xa0\xe5\xa5\xbd", "\xf0\x9f\x90\xb1",
      "!", "a\xcc\x81"};
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) assert_true(tp__id_valid(ids[i]));
  char longest[TP_ID_BYTES_MAX + 2];
  memset(longest, 'x', sizeof longest);
  longest[TP_ID_BYTES_MAX] = '\0';
  assert_true(tp__id_valid(longest));
  longest[TP_ID_BYTES_MAX] = 'x';
  longest[TP_ID_BYTES_MAX + 1] = '\0';
  assert_false(tp__id_valid(longest));
}

TEST(bad_ids_are_refused) {
  static const char *const ids[] = {"",
                                    " ",
                                    "a b",
                                    "a\t",
                                    "\n",
                                    "a\x01",
                                    "\x7f",
                                    "a\x1b[31m",
                                    "\xc2\xa0",
                                    "\xc2\x85",
                                    "\xe2\x80\x83",
                                    "\xe2\x80\xa8",
                                    "\xe3\x80\x80",
                                    "\xe1\x9a\x80", /* white space of Unicode */
                                    "\x80",
                                    "\xff",
                                    "\xfe",
                                    "\xc3",
                                    "a\xe2\x82",
                                    "\xf0\x9f\x90",
                                    "\xc3(",
                                    "\xe2(\xa1", /* not UTF-8 or cut off */
                                    "\xc0\xaf",
                                    "\xc1\xbf",
                                    "\xe0\x80\xaf",
                                    "\xe0\x9f\xbf",
                                    "\xf0\x80\x80\xaf",
                                    "\xf0\x8f\xbf\xbf", /* overlong */
                                    "\xed\xa0\x80",
                                    "\xed\xbf\xbf",
                                    "\xf4\x90\x80\x80",
                                    "\xf5\x80\x80\x80",
                                    "\xf8\x88\x80\x80\x80"};
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) assert_false(tp__id_valid(ids[i]));
  assert_false(tp__id_valid(NULL));
}

TEST(texts_are_compared_by_bytes) {
  assert_true(tp_text_equal((tp_text){NULL, 0}, (tp_text){"x", 0}));
  assert_true(tp_text_equal(tp_text_of(NULL), tp_text_of("")));
  assert_true(tp_text_is((tp_text){"a\0b", 1}, "a"));
  assert_false(tp_text_is((tp_text){"a\0b", 3}, "a"));
  assert_false(tp_text_is((tp_text){"ab", 2}, "ac"));
  assert_true(tp_text_is((tp_text){"abc", 2}, "ab"));
  assert_int_equal(tp_text_of("hello").size, 5);
}

TEST(cut_keeps_code_points_whole) {
  tp_text text = tp_text_of("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xb1z"); /* boundaries at 0 1 3 6 10 11 */
  static const size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11, 11};
  for (size_t max = 0; max < sizeof cuts / sizeof cuts[0]; max++) assert_int_equal(tp__utf8_cut(text, max), cuts[max]);
  assert_int_equal(tp__utf8_cut(text, SIZE_MAX), text.size);
  assert_int_equal(tp__utf8_cut((tp_text){NULL, 0}, 0), 0);
}

TEST(cut_of_what_is_not_utf8_still_ends) {
  char bytes[64];
  memset(bytes, 0x80, sizeof bytes);
  for (size_t max = 0; max < sizeof bytes; max++) {
    size_t cut = tp__utf8_cut((tp_text){bytes, sizeof bytes}, max);
    assert_true(cut <= max);
    assert_true(max - cut <= 3);
  }
}

TEST(texts_are_compared_by_their_bytes) {
  assert_true(tp_text_is(tp_text_of("abc"), "abc"));
  assert_false(tp_text_is(tp_text_of("abc"), "ab"));
  assert_false(tp_text_is(tp_text_of("ab"), "abc"));
  assert_true(tp_text_is((tp_text){NULL, 0}, ""));
  assert_true(tp_text_is((tp_text){"x", 0}, NULL));
  assert_false(tp_text_is((tp_text){"a\0b", 3}, "a"));
  assert_true(tp_text_equal((tp_text){"a\0b", 3}, (tp_text){"a\0b", 3}));
  assert_false(tp_text_equal((tp_text){"a\0b", 3}, (tp_text){"a\0c", 3}));
  assert_true(tp_text_equal((tp_text){NULL, 0}, (tp_text){"x", 0}));
}
