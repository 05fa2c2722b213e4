/* SPDX-License-Identifier: Apache-2.0
 *
 * The official tests of JSON Schema, of all installed drafts. The Debian package json-schema-test-suite has the drafts
 * up to 7; JSON_SCHEMA_TEST_SUITE names the folder `tests` of another copy, such as one with draft 2020-12. A schema
 * with a part that is reported as unchecked is counted and left out. Every other test must have the expected result. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "phases/merge/schema.h"

typedef struct counts {
  int held, unchecked, deviations;
} counts;

/* Deliberate deviations, which docs/contributions.md describes: a double is no integer, because tp_value_int() would
 * not read it; keywords next to a $ref count, as from draft 2019-09 on; an enum must have a value; no metaschema is
 * read. */
static bool is_deviation(const char *group, const char *test) {
  static const char *const groups[] = {"ref overrides any sibling keywords", "empty enum",
                                       "schema that uses custom metaschema with with no validation vocabulary"};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (strstr(group, groups[i])) return true;
  return strstr(test, "a float with zero fractional part is an integer") != NULL;
}

typedef struct words {
  char text[256];
} words;

static words description_of(tp_text value) {
  words w;
  tp_text text = tp_value_text(tp_value_get(value, "description"));
  snprintf(w.text, sizeof w.text, "%.*s", (int)text.size, text.data);
  return w;
}

static void play_group(counts *c, const char *file, tp_text group) {
  const words name = description_of(group);
  tp_text schema = tp_value_get(group, "schema");
  char unchecked[512], message[TP__SCHEMA_MESSAGE_SIZE];
  tp__out list = {unchecked, sizeof unchecked, 0};
  tp_allocator libc = tp__allocator_of(NULL);
  tp_fault fault = {0};
  bool is_bool = tp_value_kind_of(schema) == TP_VALUE_BOOL;
  if (is_bool) return; /* of a property it may be one, of a tool not */
  tp_status status = tp__schema_check_any(schema, &libc, &list, &fault);
  if (status != TP_OK && !is_deviation(name.text, "")) fail_msg("%s: %s: %s", file, name.text, fault.message);
  c->deviations += status != TP_OK;
  if (status != TP_OK) return;
  const tp__schema *compiled;
  tp__arena arena;
  tp__arena_init(&arena, &libc, NULL, 0, 0);
  assert_int_equal(tp__schema_compile(schema, &arena, &compiled), TP_OK);
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(group, "tests"), &walk);) {
    const words test = description_of(walk.value);
    bool wanted = tp_value_bool(tp_value_get(walk.value, "valid"), false);
    c->unchecked += list.size > 0;
    if (list.size > 0) continue;
    message[0] = '\0';
    tp_status found =
        tp__schema_validate_value(compiled, "value", tp_value_get(walk.value, "data"), message, sizeof message);
    bool fits = found == TP_OK;
    assert_int_equal(fits, message[0] == '\0');
    if (fits == wanted) c->held++;
    else if (is_deviation(name.text, test.text)) c->deviations++;
    else fail_msg("%s: %s: %s: %s", file, name.text, test.text, fits ? "fits" : message);
  }
  tp__arena_fini(&arena);
}

static char *text_of(FILE *file) {
  enum { BYTES_MAX = 16 << 20 };
  assert_non_null(file);
  char *text = malloc(BYTES_MAX);
  assert_non_null(text);
  size_t size = fread(text, 1, BYTES_MAX - 1, file);
  assert_true(size < BYTES_MAX - 1);
  text[size] = '\0';
  return text;
}

static void play(counts *c, const char *path, FILE *file) {
  tp_writer *writer;
  tp_text all;
  tp_fault fault = {0};
  char *text = text_of(file);
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_status status = tp_json_decode(tp_text_of(text), writer, &fault);
  if (status == TP_OK) status = tp_writer_finish(writer, &all);
  /* A file with numbers above 64 bits cannot be read as a value; it is reported and left out. */
  if (status != TP_OK) print_message("# left out: %s: %s\n", path, fault.message);
  for (tp_value_walk walk = {0}; status == TP_OK && tp_value_next(all, &walk);) play_group(c, path, walk.value);
  tp_writer_free(writer);
  free(text);
}

static void play_file(counts *c, const char *path) {
  FILE *file = fopen(path, "re");
  play(c, path, file);
  fclose(file);
}

static bool play_folder(counts *c, const char *root, const char *draft, const char *below, const char *only) {
  char folder[512], path[1024];
  snprintf(folder, sizeof folder, "%s/%s%s", root, draft, below);
  DIR *files = opendir(folder);
  if (!files) return false;
  for (const struct dirent *one; (one = readdir(files));) {
    const char *end = strstr(one->d_name, ".json");
    bool is_asked = end && (only[0] == '-' ? strcmp(one->d_name, only + 1) != 0 : strcmp(one->d_name, only) == 0);
    snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
    if (is_asked) play_file(c, path);
  }
  closedir(files);
  return true;
}

/* format.json treats a format as no requirement by default; in turnphase it is one, as in the optional tests. */
static bool play_draft(const char *root, const char *draft, int at_least) {
  static const char *const formats[] = {"date.json", "time.json", "date-time.json",
                                        "ipv4.json", "ipv6.json", "uuid.json"};
  counts c = {0};
  if (!play_folder(&c, root, draft, "", "-format.json")) return false;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    play_folder(&c, root, draft, "/optional/format", formats[i]);
  play_folder(&c, root, draft, "/optional", "ecmascript-regex.json");
  play_folder(&c, root, draft, "/optional", "non-bmp-regex.json");
  print_message("# %s: %d tests held, %d of schemas with a part that is not checked, %d deviations\n", draft, c.held,
                c.unchecked, c.deviations);
  assert_true(c.held >= at_least);
  assert_true(c.deviations <= 8);
  return true;
}

TEST(official_tests_come_out_as_they_say) {
  static const struct {
    const char *draft;
    int at_least;
  } drafts[] = {{"draft4", 250}, {"draft6", 350}, {"draft7", 400}, {"draft2019-09", 1000}, {"draft2020-12", 1000}};
  const char *root = getenv("JSON_SCHEMA_TEST_SUITE");
  int played = 0;
  if (!root) root = "/usr/share/json-schema-test-suite/tests";
  for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++)
    played += play_draft(root, drafts[i].draft, drafts[i].at_least);
  if (played == 0) print_message("# skipped: %s is not there: apt-get install json-schema-test-suite\n", root);
}

/* TURNPHASE_SEED replays one seed; TURNPHASE_ROUNDS plays this many, each with 500 schemas and eight values per
 * schema. */
TEST(another_validator_says_the_same_of_random_schemas) {
  const char *source = getenv("TURNPHASE_SOURCE"), *given = getenv("TURNPHASE_SEED"),
             *rounds = getenv("TURNPHASE_ROUNDS");
  if (!source || system("python3 -c 'import jsonschema' 2>/dev/null") != 0) {
    print_message("# skipped: there is no python3-jsonschema\n");
    return;
  }
  int first = given ? atoi(given) : 1, count = rounds && !given ? atoi(rounds) : 1;
  for (int seed = first; seed < first + count; seed++) {
    char command[4096], name[64];
    counts c = {0};
    snprintf(command, sizeof command, "python3 '%s/tests/unit/schema_oracle.py' %d 500", source, seed);
    snprintf(name, sizeof name, "seed %d", seed);
    FILE *oracle = popen(command, "re");
    play(&c, name, oracle);
    assert_int_equal(pclose(oracle), 0);
    assert_int_equal(c.held + c.deviations, 4000);
    assert_int_equal(c.unchecked + c.deviations, 0);
  }
}
