/* SPDX-License-Identifier: Apache-2.0
 *
 * support/: texts, bytes, faults, structs by their size, clocks, bounded reading of files. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "support/base64.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/references.h"
#include "support/secrets.h"
#include "turnphase/value.h"

#define TEXT(literal) \
  { literal, sizeof(literal) - 1 }

/* ---- text ---- */

TEST(texts_are_compared_by_bytes) {
  static const struct {
    tp_text text;
    const char *other;
    bool same, begins, ends, contains;
  } rows[] = {
      {TEXT(""), "", true, true, true, true},
      {{NULL, 0}, "", true, true, true, true},
      {{NULL, 0}, "a", false, false, false, false},
      {TEXT("a"), "", false, true, true, true},
      {TEXT("a"), "a", true, true, true, true},
      {TEXT("ab"), "a", false, true, false, true},
      {TEXT("ab"), "b", false, false, true, true},
      {TEXT("ab"), "abc", false, false, false, false},
      {TEXT("aBc"), "Bc", false, false, true, true},
      {TEXT("aBc"), "bC", false, false, false, true},
      {TEXT("a\0b"), "a", false, true, false, true},
      {TEXT("\xc3\xa4"), "\xc3\xa4", true, true, true, true},
      {TEXT("\xc3\xa4"), "\xc3\x84", false, false, false, false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_int_equal(tp__same(rows[i].text, tp_text_of(rows[i].other)), rows[i].same);
    assert_int_equal(tp__is_word(rows[i].text, rows[i].other), rows[i].same);
    assert_int_equal(tp__begins(rows[i].text, rows[i].other), rows[i].begins);
    assert_int_equal(tp__ends(rows[i].text, rows[i].other), rows[i].ends);
    assert_int_equal(tp__contains(rows[i].text, rows[i].other), rows[i].contains);
  }
}

/* Stores and the command refuse the ids that the core would refuse later: each code point, and each length. */
TEST(ids_are_those_of_the_core) {
  char id[TP_ID_BYTES_MAX + 8];
  int accepted = 0;
  for (uint32_t point = 1; point <= 0x10ffff; point++) {
    size_t size = 0;
    if (point < 0x80) {
      id[size++] = (char)point;
    } else {
      int tails = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
      id[size++] = (char)((0xff00 >> (tails + 1) & 0xff) | (point >> (6 * tails)));
      while (tails-- > 0) id[size++] = (char)(0x80 | (point >> (6 * tails) & 0x3f));
    }
    id[size] = '\0';
    accepted += tp__is_id((tp_text){id, size});
    if (tp__is_id((tp_text){id, size}) != tp__id_valid(id)) fail_msg("U+%04X", point);
  }
  assert_int_equal(accepted, 1111980); /* all but the surrogates, and 83 that are white space or control characters */
  for (size_t size = 0; size < sizeof id - 1; size++) {
    memset(id, 'x', size);
    id[size] = '\0';
    assert_int_equal(tp__is_id((tp_text){id, size}), size > 0 && size <= TP_ID_BYTES_MAX);
  }
  assert_false(tp__is_id((tp_text)TEXT("a\xc3")));
  assert_false(tp__is_id((tp_text)TEXT("a\0b")));
}

TEST(base64_is_read_in_every_form) {
  static const struct {
    const char *text, *bytes; /* NULL: text is not base64 */
  } rows[] = {
      {"", ""},
      {"Zg==", "f"},
      {"Zm8=", "fo"},
      {"Zm9v", "foo"},
      {"Zm9vYg==", "foob"},
      {"Zm9vYmE=", "fooba"},
      {"Zm9vYmFy", "foobar"},
      {"Zg", "f"},
      {"Zm8", "fo"},
      {"Zm9v\nYmFy\r\n", "foobar"},
      {" Z m\t8 = ", "fo"},
      {"+/+/", "\xfb\xff\xbf"},
      {"-_-_", "\xfb\xff\xbf"},
      {"Zh==", "f"},
      {"Z", NULL},
      {"Zm9vY", NULL},
      {"Z===", NULL},
      {"Zg=", NULL},
      {"Zm9v=", NULL},
      {"====", NULL},
      {"Zg==Zg==", NULL},
      {"Zm=8", NULL},
      {"Zm9*", NULL},
      {"Zm9\xc3\xa4", NULL},
      {"data:Zm9v", NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char bytes[16];
    size_t size = 99;
    bool is = tp__base64_decode(tp_text_of(rows[i].text), bytes, &size);
    const char *want = rows[i].bytes;
    if (is != (want != NULL) || (is && (size != strlen(want) || memcmp(bytes, want, size) != 0)))
      fail_msg("%s: %d, %zu", rows[i].text, is, size);
    assert_true(!is || size <= tp__base64_size_max(strlen(rows[i].text)));
  }
  char bytes[4];
  size_t size;
  assert_false(tp__base64_decode((tp_text)TEXT("Zm\0v"), bytes, &size));
}

TEST(a_word_is_one_of_a_list) {
  static const struct {
    const char *text, *words;
    bool is;
  } rows[] = {
      {"a", "a", true},    {"a", "b, a", true},           {"a", "b a", true},      {"ab", "a, b", false},
      {"", "a, b", false}, {"a, b", "a, b", false},       {"b", "a, bb, b", true}, {"c", "a, b", false},
      {"a", "", false},    {"read", "read, write", true}, {"rea", "read", false},  {"write", "read, write", true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_int_equal(tp__is_one_of(tp_text_of(rows[i].text), rows[i].words), rows[i].is);
}

TEST(a_cut_text_ends_at_a_code_point) {
  static const struct {
    const char *text;
    size_t size;
    const char *cut;
  } rows[] = {
      {"abc", 4, "abc"},
      {"abc", 3, "ab"},
      {"abc", 1, ""},
      {"a\xc3\xa4", 4, "a\xc3\xa4"},
      {"a\xc3\xa4", 3, "a"},
      {"\xe2\x82\xac", 3, ""},
      {"\xe2\x82\xac", 4, "\xe2\x82\xac"},
      {"\xf0\x9f\x98\x80", 4, ""},
      {"x\xf0\x9f\x98\x80", 5, "x"},
      {"", 1, ""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char buffer[8];
    assert_int_equal(tp__copy_cut(buffer, rows[i].size, tp_text_of(rows[i].text)), strlen(rows[i].cut));
    assert_string_equal(buffer, rows[i].cut);
    assert_int_equal(tp__cut(tp_text_of(rows[i].text), (int)rows[i].size - 1), strlen(rows[i].cut));
  }
}

TEST(what_is_shown_is_printable) {
  static const struct {
    tp_text text;
    const char *shown;
  } rows[] = {
      {TEXT("plain"), "plain"},
      {TEXT("a\nb"), "a b"},
      {TEXT("a\tb"), "a?b"},
      {TEXT("\x1b[2J"), "?[2J"},
      {TEXT("a\x7f"), "a?"},
      {TEXT("a\0b"), "a?b"},
      {TEXT("\xff"), "?"},
      {TEXT("\xc3"), "?"},
      {TEXT("\xc3\xa4"), "\xc3\xa4"},
      {TEXT("\xed\xa0\x80"), "???"},
      {TEXT("0123456789ABCDEFGHIJ"), "0123456789ABCDE"},
      {TEXT("0123456789ABCD\0FGHIJ"), "0123456789ABCD?"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char buffer[16];
    tp__show(buffer, sizeof buffer, rows[i].text);
    assert_string_equal(buffer, rows[i].shown);
  }
}

TEST(a_place_counts_lines_and_code_points) {
  static const tp_text text = TEXT("ab\n\xc3\xa4z\n");
  static const tp__place places[] = {{1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 1}, {2, 2}, {2, 3}, {3, 1}};
  for (size_t i = 0; i <= text.size; i++) {
    tp__place place = tp__place_of(text, i);
    assert_int_equal(place.line, places[i].line);
    assert_int_equal(place.column, places[i].column);
  }
}

/* ---- bytes ---- */

static size_t allocations_left, bytes_held;

static void *count_alloc(void *ctx, size_t size) {
  (void)ctx;
  if (allocations_left == 0) return NULL;
  allocations_left--;
  bytes_held += size;
  return malloc(size);
}

static void count_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  bytes_held -= size;
  free(memory);
}

static const tp_allocator counting = {.alloc = count_alloc, .release = count_release};

static int use_counting(void **state) {
  (void)state;
  tp__heap = &counting;
  allocations_left = SIZE_MAX;
  bytes_held = 0;
  return 0;
}

static int use_malloc(void **state) {
  (void)state;
  tp__heap = &tp__malloc_allocator;
  return bytes_held == 0 ? 0 : -1; /* what was allocated was released with its size */
}

TEST_WITH(bytes_grow_and_end_with_a_nul, use_counting, use_malloc) {
  tp__bytes bytes = {0};
  assert_string_equal(tp__bytes_string(&bytes), "");
  for (int i = 0; i < 1000; i++) tp__bytes_printf(&bytes, "%d,", i);
  tp__bytes_put_string(&bytes, "x");
  tp__bytes_put_text(&bytes, (tp_text){NULL, 0});
  tp__bytes_put(&bytes, "", 0);
  tp__bytes_print(&bytes, "yz", 2);
  assert_false(bytes.failed);
  assert_int_equal(bytes.size, 10 * 2 + 90 * 3 + 900 * 4 + 3);
  assert_int_equal(strlen(tp__bytes_string(&bytes)), bytes.size);
  assert_memory_equal(bytes.data, "0,1,2,3,", 8);
  assert_true(tp__ends(tp__bytes_text(&bytes), "999,xyz"));
  char *data = bytes.data;
  tp__bytes_clear(&bytes);
  assert_int_equal(tp__bytes_text(&bytes).size, 0);
  tp__bytes_put_string(&bytes, "again");
  assert_ptr_equal(bytes.data, data);
  tp__bytes_fini(&bytes);
  tp__bytes_fini(&bytes);
}

TEST_WITH(strings_are_copied_all_or_not_at_all, use_counting, use_malloc) {
  static const char *const strings[] = {"one", "", "three", NULL};
  assert_int_equal(tp__string_count(NULL), 0);
  assert_int_equal(tp__string_count(strings), 3);
  for (size_t refused = 0; refused < 4; refused++) {
    allocations_left = refused;
    assert_null(tp__heap_copy_strings(strings, 3));
    assert_int_equal(bytes_held, 0);
  }
  allocations_left = SIZE_MAX;
  for (size_t count = 0; count <= 3; count++) { /* fewer than there are: a list that is counted needs no NULL */
    char **copies = tp__heap_copy_strings(strings, count);
    assert_non_null(copies);
    for (size_t i = 0; i < count; i++) {
      assert_string_equal(copies[i], strings[i]);
      assert_ptr_not_equal(copies[i], strings[i]);
    }
    assert_null(copies[count]);
    tp__heap_strings_free(copies);
  }
  char **none = tp__heap_copy_strings(NULL, 0);
  assert_non_null(none);
  assert_null(none[0]);
  tp__heap_strings_free(none);
  tp__heap_strings_free(NULL);
}

TEST_WITH(a_lack_of_memory_sticks, use_counting, use_malloc) {
  for (size_t refused = 0; refused < 4; refused++) {
    tp__bytes bytes = {0};
    allocations_left = refused;
    for (int i = 0; i < 1000; i++) tp__bytes_put_string(&bytes, "0123456789");
    assert_true(bytes.failed);
    size_t size = bytes.size;
    allocations_left = SIZE_MAX;
    tp__bytes_put_string(&bytes, "later");
    assert_int_equal(bytes.size, size); /* no hole in the middle */
    assert_string_equal(tp__bytes_string(&bytes), "");
    tp__bytes_clear(&bytes);
    tp__bytes_put_string(&bytes, "later");
    assert_string_equal(tp__bytes_string(&bytes), "later");
    tp__bytes_fini(&bytes);
  }
}

TEST_WITH(a_size_that_no_memory_has_is_refused, use_counting, use_malloc) {
  tp__bytes bytes = {0};
  assert_false(tp__bytes_reserve(&bytes, SIZE_MAX));
  assert_true(bytes.failed);
  tp__bytes_fini(&bytes);
  void *array = NULL;
  size_t capacity = 0;
  assert_false(tp__grow(tp__heap, &array, &capacity, SIZE_MAX / 4, 8));
  assert_int_equal(capacity, 0);
}

TEST_WITH(copies_are_the_heaps, use_counting, use_malloc) {
  char *copy = tp__heap_copy(tp_text_of("abc"));
  assert_string_equal(copy, "abc");
  tp__heap_string_free(copy);
  copy = tp__heap_copy((tp_text){NULL, 0});
  assert_string_equal(copy, "");
  tp__heap_string_free(copy);
  tp__heap_string_free(NULL);
  allocations_left = 0;
  assert_null(tp__heap_copy(tp_text_of("abc")));
  assert_null(tp__heap_alloc(1));
}

/* ---- faults ---- */

TEST(a_refusal_says_what_where_and_why) {
  tp_fault fault;
  memset(&fault, 0x5a, sizeof fault);
  assert_int_equal(tp__refuse(&fault, TP_ERR_USAGE, "a", "%s is %d", "x", 1), TP_ERR_USAGE);
  assert_int_equal(fault.code, TP_ERR_USAGE);
  assert_string_equal(fault.subject, "a");
  assert_string_equal(fault.message, "x is 1");
  assert_int_equal(fault.line | fault.column | (uint32_t)fault.system_error | fault.phase, 0);
  assert_int_equal(tp__refuse_at(&fault, TP_ERR_MALFORMED, NULL, (tp__place){3, 4}, "wrong"), TP_ERR_MALFORMED);
  assert_int_equal(fault.line, 3);
  assert_int_equal(fault.column, 4);
  assert_string_equal(fault.subject, "");
  assert_int_equal(tp__refuse_errno(&fault, TP_ERR_IO, "f", ENOENT, "%s cannot be read", "f"), TP_ERR_IO);
  assert_int_equal(fault.system_error, ENOENT);
  assert_string_equal(fault.message, "f cannot be read: No such file or directory");
  assert_int_equal(tp__refuse(NULL, TP_ERR_USAGE, "a", "b"), TP_ERR_USAGE);
}

TEST(a_refusal_may_quote_the_fault_that_it_fills) {
  tp_fault fault;
  (void)!tp__refuse(&fault, TP_ERR_IO, "inner", "the reason");
  (void)!tp__refuse(&fault, TP_ERR_USAGE, fault.subject, "outer: %s", fault.message);
  assert_string_equal(fault.subject, "inner");
  assert_string_equal(fault.message, "outer: the reason");
}

TEST(a_long_refusal_is_cut_at_a_code_point) {
  char text[3 * TP_FAULT_MESSAGE_SIZE + 1];
  for (size_t shift = 0; shift < 3; shift++) {
    memset(text, 'x', sizeof text);
    for (size_t i = shift; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xe2\x82\xac", 3);
    text[sizeof text - 1] = '\0';
    tp_fault fault;
    (void)!tp__refuse(&fault, TP_ERR_USAGE, text, "%s", text);
    assert_true(tp_utf8_valid(tp_text_of(fault.message), NULL));
    assert_true(tp_utf8_valid(tp_text_of(fault.subject), NULL));
    assert_in_range(strlen(fault.message), TP_FAULT_MESSAGE_SIZE - 4, TP_FAULT_MESSAGE_SIZE - 1);
    assert_in_range(strlen(fault.subject), TP_ID_BYTES_MAX - 3, TP_ID_BYTES_MAX);
    assert_null(strchr(fault.message + TP_FAULT_MESSAGE_SIZE - 8, '?'));
  }
}

struct options {
  size_t struct_size;
  uint64_t one, two;
};

TEST(a_struct_is_read_by_its_size) {
  static const struct {
    size_t size;
    uint64_t newer;
    tp_status status;
    uint64_t two;
  } rows[] = {
      {0, 0, TP_ERR_VERSION, 0},  {4, 0, TP_ERR_VERSION, 0},
      {9, 0, TP_ERR_VERSION, 0},  {4104, 0, TP_ERR_VERSION, 0},
      {8, 0, TP_OK, 0},           {16, 0, TP_OK, 0},
      {24, 0, TP_OK, 22},         {32, 0, TP_OK, 22},
      {32, 1, TP_ERR_VERSION, 0}, {SIZE_MAX, 0, TP_ERR_VERSION, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct {
      struct options options;
      uint64_t newer;
    } theirs = {{rows[i].size, 11, 22}, rows[i].newer};
    struct options ours = {1, 2, 3};
    tp_fault fault = {0};
    assert_int_equal(tp__struct_read(&ours, sizeof ours, &theirs, "options", &fault), rows[i].status);
    if (rows[i].status == TP_OK) {
      assert_int_equal(ours.struct_size, sizeof ours);
      assert_int_equal(ours.one, rows[i].size < 16 ? 0 : 11);
      assert_int_equal(ours.two, rows[i].two);
    } else {
      assert_int_equal(ours.two, 3); /* untouched */
      assert_non_null(strstr(fault.message, "options"));
    }
  }
  struct options ours = {1, 2, 3};
  assert_int_equal(tp__struct_read(&ours, sizeof ours, NULL, "options", NULL), TP_OK);
  assert_int_equal(ours.struct_size, sizeof ours);
  assert_int_equal(ours.one | ours.two, 0);
}

/* ---- clocks ---- */

TEST(the_clocks_are_those_of_their_names) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t before_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  int64_t ns = tp__monotonic_ns(), ms = tp__monotonic_ms();
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t after_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  assert_in_range(ns, before_ns, after_ns);
  assert_in_range(ms, ns / TP__NS_IN_MS, after_ns / TP__NS_IN_MS);
  int64_t wall_ms = (int64_t)time(NULL) * 1000;
  assert_in_range(tp__wall_ms(), wall_ms - 1000, wall_ms + 60000);
}

TEST(milliseconds_of_any_length_are_nanoseconds) {
  uint32_t minute_ms = 60000, longest_ms = UINT32_MAX;
  assert_true(minute_ms * TP__NS_IN_MS == INT64_C(60000000000));
  assert_true(longest_ms * TP__NS_IN_MS == INT64_C(4294967295000000));
}

/* ---- files ---- */

enum { BOUND = 1000 };

static char folder[] = "/tmp/turnphase_support_XXXXXX";

static const char *path_of(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void make_file(const char *name, size_t size, mode_t mode) {
  int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  assert_true(fd >= 0);
  for (size_t i = 0; i < size; i++) assert_int_equal(write(fd, "x", 1), 1);
  close(fd);
}

static int make_files(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  make_file("empty", 0, 0600);
  make_file("small", 10, 0600);
  make_file("full", BOUND, 0600);
  make_file("large", BOUND + 1, 0600);
  make_file("unreadable", 10, 0000);
  make_file("sparse", 1, 0600);
  if (truncate(path_of("sparse"), (off_t)20 << 30) != 0) return -1;
  if (mkfifo(path_of("fifo"), 0600) != 0 || mkdir(path_of("directory"), 0700) != 0) return -1;
  if (symlink("loop", path_of("loop")) != 0 || symlink("small", path_of("link")) != 0) return -1;
  if (symlink("fifo", path_of("link_to_fifo")) != 0) return -1;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path_of("socket"));
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int bound = bind(fd, (struct sockaddr *)&address, sizeof address);
  close(fd);
  return bound;
}

static int remove_files(void **state) {
  (void)state;
  static const char *const names[] = {"empty", "small", "full", "large",        "unreadable", "sparse",
                                      "fifo",  "loop",  "link", "link_to_fifo", "socket",     "growing"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path_of(names[i]));
  rmdir(path_of("directory"));
  return rmdir(folder);
}

FOR_ALL_TESTS(make_files, remove_files);

/* Opening a FIFO without a writer could wait for ever; then this test would not end. */
TEST(only_a_regular_file_within_the_bound_is_read) {
  static const struct {
    const char *name;
    int error;
    size_t size;
    const char *words; /* of the fault; those of the C library follow a blank at the end */
  } rows[] = {
      {"empty", 0, 0, NULL},
      {"small", 0, 10, NULL},
      {"full", 0, BOUND, NULL},
      {"link", 0, 10, NULL},
      {"large", -EFBIG, 0, "cannot be read: it has more than 1000 bytes"},
      {"sparse", -EFBIG, 0, "cannot be read: it has more than 1000 bytes"},
      {"fifo", -ENOTSUP, 0, "cannot be read: it is not a regular file"},
      {"link_to_fifo", -ENOTSUP, 0, "cannot be read: it is not a regular file"},
      {"socket", -ENOTSUP, 0, "cannot be read: it is not a regular file"},
      {"/dev/zero", -ENOTSUP, 0, "cannot be read: it is not a regular file"},
      {"/dev/null", -ENOTSUP, 0, "cannot be read: it is not a regular file"},
      {"directory", -EISDIR, 0, "cannot be read: is a directory"},
      {"loop", -ELOOP, 0, "cannot be read: "},
      {"missing", -ENOENT, 0, "cannot be read: "},
      {"unreadable", -EACCES, 0, "cannot be read: "},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].error == -EACCES && geteuid() == 0) continue; /* root reads it */
    tp__bytes bytes = {0};
    const char *path = rows[i].name[0] == '/' ? rows[i].name : path_of(rows[i].name);
    int error = tp__file_read(AT_FDCWD, path, BOUND, &bytes);
    if (error != rows[i].error) print_error("%s: %d\n", rows[i].name, error);
    assert_int_equal(error, rows[i].error);
    assert_int_equal(bytes.size, rows[i].size);
    tp__bytes_fini(&bytes);
    if (!rows[i].words) continue;
    tp_fault fault = {0};
    tp_status status = tp__file_refuse(&fault, path, error, BOUND, "cannot be %s", "read");
    assert_int_equal(status, error == -EFBIG ? TP_ERR_TOO_LARGE : TP_ERR_IO);
    assert_int_equal(fault.code, status);
    char words[128];
    bool is_theirs = rows[i].words[strlen(rows[i].words) - 1] == ' ';
    snprintf(words, sizeof words, "%s%s", rows[i].words, is_theirs ? strerror(-error) : "");
    assert_string_equal(fault.message, words);
    assert_string_equal(fault.subject, path);
  }
}

TEST(a_path_is_relative_to_its_directory) {
  int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  tp__bytes bytes = {0};
  tp__bytes_put_string(&bytes, "before ");
  assert_int_equal(tp__file_read(directory, "small", BOUND, &bytes), 0);
  assert_string_equal(tp__bytes_string(&bytes), "before xxxxxxxxxx");
  tp__bytes_fini(&bytes);
  close(directory);
}

/* The size from fstat() is not the end: bytes that were written since are read, too, up to the bound. */
TEST(a_file_that_grows_is_read_to_its_bound) {
  static const struct {
    size_t before, after;
    int error;
  } rows[] = {{10, 20, 0}, {0, 5000, -EFBIG}, {10, BOUND - 10, 0}, {10, BOUND - 9, -EFBIG}, {BOUND, 1, -EFBIG}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    make_file("growing", rows[i].before, 0600);
    struct stat found;
    int fd = tp__file_open(AT_FDCWD, path_of("growing"), &found);
    assert_true(fd >= 0);
    assert_int_equal(found.st_size, rows[i].before);
    make_file("growing", rows[i].before + rows[i].after, 0600);
    tp__bytes bytes = {0};
    assert_int_equal(tp__file_read_open(fd, BOUND, &bytes), rows[i].error);
    if (rows[i].error == 0) assert_int_equal(bytes.size, rows[i].before + rows[i].after);
    tp__bytes_fini(&bytes);
    close(fd);
  }
}

/* Streams without a known size: a pipe (standard input may be one), and /proc, whose files have size 0. */
TEST(a_stream_is_read_to_its_bound) {
  for (size_t size = BOUND - 1; size <= BOUND + 1; size++) {
    int ends[2];
    tp__bytes bytes = {0};
    assert_int_equal(pipe(ends), 0);
    for (size_t i = 0; i < size; i++) assert_int_equal(write(ends[1], "x", 1), 1);
    close(ends[1]);
    assert_int_equal(tp__file_read_open(ends[0], BOUND, &bytes), size <= BOUND ? 0 : -EFBIG);
    if (size <= BOUND) assert_int_equal(bytes.size, size);
    tp__bytes_fini(&bytes);
    close(ends[0]);
  }
  tp__bytes bytes = {0};
  assert_int_equal(tp__file_read(AT_FDCWD, "/proc/self/status", 1 << 20, &bytes), 0);
  assert_true(bytes.size > 100);
  tp__bytes_fini(&bytes);
}

TEST_WITH(a_file_without_memory_is_refused, use_counting, use_malloc) {
  tp__bytes bytes = {0};
  tp_fault fault = {0};
  allocations_left = 0;
  int error = tp__file_read(AT_FDCWD, path_of("small"), BOUND, &bytes);
  assert_int_equal(error, -ENOMEM);
  assert_int_equal(tp__file_refuse(&fault, "small", error, BOUND, "cannot be read"), TP_ERR_NO_MEMORY);
  tp__bytes_fini(&bytes);
}

/* ---- references ---- */

TEST(the_last_reference_is_known) {
  tp__references references;
  tp__references_init(&references);
  tp__references_ref(&references);
  tp__references_ref(&references);
  assert_false(tp__references_unref(&references));
  assert_false(tp__references_unref(&references));
  assert_true(tp__references_unref(&references));
}

/* ---- secrets ---- */

TEST(texts_are_shown_without_secrets_and_credentials_of_urls) {
  static const struct {
    const char *text, *shown;
  } rows[] = {
      {"", ""},
      {"nothing", "nothing"},
      {"abcdef", "[key]"},
      {"xabcdefabcdefx", "x[key][key]x"},
      {"abcde", "abcde"},
      {"abcd", "abcd"},
      {"a abcdefgh z", "a [key] z"}, /* the longest */
      {"abcdefg", "[key]g"},
      {"xyz", "xyz"}, /* too short for the list */
      {"a%2Fb=c and a/b=c", "[key] and [key]"},
      {"value-1", "[key]"},
      {"2024-10-21", "2024-10-21"},
      {"Bearer header-1 or header-1", "[key] or [key]"},
      {"2023-06-01", "2023-06-01"},
      {"pass-1", "[key]"},
      {"http://h/x?a=b", "http://h/x?a=b"},
      {"http://u:p@h/x", "http://[key]@h/x"},
      {"to 'https://u:p@h' and http://v@k.", "to 'https://[key]@h' and http://[key]@k."},
      {"http://u:p@q@h/x", "http://[key]@h/x"},
      {"http://u:p/q@h/x", "http://[key]@h/x"},
      {"http://u:p?q@h", "http://[key]@h"},
      {"http://h:8080/u@x", "http://h:8080/u@x"},
      {"http://h/u:p@x", "http://h/u:p@x"},
      {"http://[::1]:80/u@x", "http://[::1]:80/u@x"},
      {"http://h, mail me@x", "http://h, mail me@x"},
      {"://", "://"},
      {"http://abcdef@h", "http://[key]@h"},
      {"http://abcdef:rest@h", "http://[key]@h"},
      {"a longest-1 z", "a [key] z"}, /* the longer one was added first */
      {"a://b://c:d@e", "a://b://[key]@e"},
  };
  tp__secrets secrets = {0};
  tp__secrets_add(&secrets, tp_text_of("abcdef"));
  tp__secrets_add(&secrets, tp_text_of("abcdefgh"));
  tp__secrets_add(&secrets, tp_text_of("longest-1"));
  tp__secrets_add(&secrets, tp_text_of("longest"));
  tp__secrets_add(&secrets, tp_text_of("xyz"));
  tp__secrets_add(&secrets, (tp_text){NULL, 0});
  tp__secrets_add_url(&secrets, tp_text_of("https://us:pass-1@h/p?api-version=2024-10-21&sig=a%2Fb=c&value-1&e=&&"));
  tp__secrets_add_header(&secrets, tp_text_of("X-Key"), tp_text_of("Bearer header-1"));
  tp__secrets_add_header(&secrets, tp_text_of("Anthropic-Version"), tp_text_of("2023-06-01"));
  assert_false(secrets.failed);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tp__bytes shown = {0};
    char *exact = malloc(strlen(rows[i].text) ? strlen(rows[i].text) : 1); /* for the sanitizer: no NUL follows */
    assert_non_null(exact);
    memcpy(exact, rows[i].text, strlen(rows[i].text));
    tp__put_without(&shown, (tp_text){exact, strlen(rows[i].text)}, &secrets);
    if (strcmp(tp__bytes_string(&shown), rows[i].shown) != 0)
      fail_msg("%s: %s", rows[i].text, tp__bytes_string(&shown));
    tp__bytes_fini(&shown);
    free(exact);
  }
  tp__secrets_fini(&secrets);
  tp__bytes shown = {0};
  tp__put_without(&shown, tp_text_of("abcdef http://u@h"), NULL);
  assert_string_equal(tp__bytes_string(&shown), "abcdef http://[key]@h");
  tp__bytes_fini(&shown);
  assert_int_equal(tp__url_place_size(tp_text_of("http://h/p?q")), 10);
  assert_int_equal(tp__url_place_size(tp_text_of("http://h/p#q")), 10);
  assert_int_equal(tp__url_place_size(tp_text_of("http://h/p")), 10);
  assert_int_equal(tp__url_place_size(tp_text_of("http://h/p q")), 10);
}
