/* SPDX-License-Identifier: Apache-2.0
 *
 * A real conversation: plays the 419 utterances of conversation 26 of LoCoMo, session by session, then asks its
 * questions, each in a session of its own, and counts for how many of those that name evidence at least one evidence
 * utterance is in the recalled context. The data is not ours to ship: where it is not there, the test is skipped. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

enum { UTTERANCES = 419, SESSIONS = 19, QUESTIONS = 199, WITH_EVIDENCE = 197 };

static char data_path[4096];
static tp_writer *data_writer;
static tp_text data; /* the conversation as a value */

/* ---- writing JSON Lines ---- */

static void add_json(void *ctx, const char *text, size_t size) { bytes_add(ctx, text, size); }

static void add_turn(bytes *lines, const char *session, tp_text turn, tp_text user) {
  tp_writer *writer;
  tp_text value;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_write_map(writer, 3);
  tp_write_string(writer, "session");
  tp_write_string(writer, session);
  tp_write_string(writer, "turn");
  tp_write_text(writer, turn);
  tp_write_string(writer, "user");
  tp_write_text(writer, user);
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  assert_int_equal(tp_json_encode(value, add_json, lines, NULL), TP_OK);
  bytes_string(lines, "\n");
  tp_writer_free(writer);
}

static tp_text text_at(tp_text map, const char *key) { return tp_value_text(tp_value_get(map, key)); }

/* "Speaker: text", as a transcript has it. */
static void add_utterance(bytes *lines, const char *session, tp_text utterance) {
  char words[4096];
  tp_text speaker = text_at(utterance, "speaker"), text = text_at(utterance, "text");
  int size = snprintf(words, sizeof words, "%.*s: %.*s", (int)speaker.size, speaker.data, (int)text.size, text.data);
  assert_true(size > 0 && (size_t)size < sizeof words);
  add_turn(lines, session, text_at(utterance, "dia_id"), (tp_text){words, (size_t)size});
}

static size_t add_conversation(bytes *lines) {
  size_t count = 0;
  for (int number = 1; number <= SESSIONS; number++) {
    char key[32];
    snprintf(key, sizeof key, "session_%d", number);
    for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(data, key), &walk); count++)
      add_utterance(lines, key, walk.value);
  }
  return count;
}

static size_t add_questions(bytes *lines) {
  size_t count = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(data, "qa"), &walk);) {
    char id[32];
    snprintf(id, sizeof id, "q%zu", ++count);
    add_turn(lines, id, tp_text_of(id), text_at(walk.value, "question"));
  }
  return count;
}

/* ---- counting ---- */

/* Evidence is a list of ids; one of its texts holds two, with a semicolon between. */
static bool evidence_recalled(const events *e, const char *turn, tp_text evidence) {
  for (tp_value_walk walk = {0}; tp_value_next(evidence, &walk);) {
    char ids[256], *rest = NULL;
    tp_text text = tp_value_text(walk.value);
    snprintf(ids, sizeof ids, "%.*s", (int)text.size, text.data);
    for (char *id = strtok_r(ids, "; ,", &rest); id; id = strtok_r(NULL, "; ,", &rest))
      if (events_recalled(e, turn, id)) return true;
  }
  return false;
}

/* Only the contexts matter; the other events of a run would have to be walked again and again. */
static void keep_contexts(events *e) {
  size_t left = 0;
  for (size_t i = 0; i < e->count; i++) {
    if (event_is(event_at(e, i), "event", "context")) e->lines[left++] = e->lines[i];
    else tp_writer_free(e->lines[i]);
  }
  e->count = left;
}

static size_t count_recalled(const events *e, size_t *ret_with_evidence) {
  size_t number = 0, recalled = 0, with_evidence = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(data, "qa"), &walk);) {
    char turn[32];
    tp_text evidence = tp_value_get(walk.value, "evidence");
    snprintf(turn, sizeof turn, "q%zu", ++number);
    if (tp_value_count(evidence) == 0) continue;
    with_evidence++;
    recalled += evidence_recalled(e, turn, evidence);
  }
  *ret_with_evidence = with_evidence;
  return recalled;
}

/* ---- the test ---- */

static const char script[] = "repeat: true\nresponses:\n  - text: I see.\n";

static void play(command *c, const bytes *lines) {
  *c = (command){.arguments = {"run", "--script", scratch_string("model.yaml", script), "--data", scratch_path("data"),
                               "--workspace", "locomo", "--json", "-"},
                 .input = lines->data,
                 .input_size = lines->size};
  assert_status(c, 0);
}

static void evidence_of_a_real_conversation_is_recalled(void **state) {
  (void)state;
  bytes told = {0}, asked = {0};
  command telling, asking;
  assert_int_equal(add_conversation(&told), UTTERANCES);
  assert_int_equal(add_questions(&asked), QUESTIONS);
  play(&telling, &told);
  play(&asking, &asked); /* a process of its own: what it knows, it has from the file */

  events told_events = events_read(&telling.out), asked_events = events_read(&asking.out);
  assert_int_equal(events_count(&told_events, "result", NULL), UTTERANCES);
  assert_int_equal(events_count(&asked_events, "result", NULL), QUESTIONS);
  keep_contexts(&asked_events);
  size_t with_evidence, recalled = count_recalled(&asked_events, &with_evidence);
  assert_int_equal(with_evidence, WITH_EVIDENCE);
  fprintf(stderr, "recall: %zu of %zu questions\n", recalled, with_evidence); /* standard output is the protocol's */
  assert_true(recalled > 0);
  events_free(&told_events);
  events_free(&asked_events);
  command_free(&telling);
  command_free(&asking);
  free(told.data);
  free(asked.data);
}

/* @return false when the data is not there. */
static bool read_data(void) {
  const char *source = getenv("TURNPHASE_SOURCE");
  snprintf(data_path, sizeof data_path, "%s/../shared/data/locomo/26.json", source ? source : ".");
  FILE *file = fopen(data_path, "r");
  if (!file) return false;
  bytes text = {0};
  char piece[65536];
  for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;) bytes_add(&text, piece, got);
  fclose(file);
  bool ok = tp_writer_new(NULL, &data_writer) == TP_OK &&
            tp_json_decode((tp_text){text.data, text.size}, data_writer, NULL) == TP_OK &&
            tp_writer_finish(data_writer, &data) == TP_OK;
  free(text.data);
  return ok;
}

int main(void) {
  if (!read_data()) {
    printf("1..0 # SKIP no data in %s\n", data_path);
    return 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(evidence_of_a_real_conversation_is_recalled)};
  int failed = cmocka_run_group_tests(tests, scratch_make, scratch_remove);
  tp_writer_free(data_writer);
  return failed;
}
