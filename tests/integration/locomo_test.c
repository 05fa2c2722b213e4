/* SPDX-License-Identifier: Apache-2.0
 *
 * A real conversation: plays the 419 utterances of conversation 26 of LoCoMo, session by session, each at its original
 * time. Then a second process asks the questions, each in a session of its own. The recall must be as good as the
 * library's own: the share of the evidence among the first ten entries. The data may not be shipped with this tree;
 * without it the test is skipped. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"
#include "tests/integration/support/events.h"

#include "domains/memory/recall.h"
#include "tests/support/conversations.h"
#include "tests/support/json_text.h"

enum { UTTERANCES = 419, SESSIONS = 19, QUESTIONS = 199, FIRST = 10, CATEGORY_MAX = 4, EVIDENCE_MAX = 32 };

static char data_path[4096];
static tp_writer *data_writer;
static tp_text data; /* the conversation as a value */
static const tp__memory_scope scope = {.tenant = {"acme", 4}, .kind = {"workspace", 9}, .name = {"locomo", 6}};

/* ---- writing JSON Lines ---- */

/* @param said  an ISO date-time; empty: now. */
static void add_turn(bytes *lines, const char *session, tp_text turn, tp_text user, const char *said) {
  tp_writer *writer;
  tp_text value;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  tp_write_map(writer, said[0] ? 4 : 3);
  tp_write_string(writer, "session");
  tp_write_string(writer, session);
  tp_write_string(writer, "turn");
  tp_write_text(writer, turn);
  tp_write_string(writer, "user");
  tp_write_text(writer, user);
  if (said[0]) tp_write_string(writer, "said");
  if (said[0]) tp_write_string(writer, said);
  assert_int_equal(tp_writer_finish(writer, &value), TP_OK);
  char *json = json_text(value);
  bytes_string(lines, json);
  free(json);
  bytes_string(lines, "\n");
  tp_writer_free(writer);
}

static tp_text text_at(tp_text map, const char *key) { return tp_value_text(tp_value_get(map, key)); }

/* "1:56 pm on 8 May, 2023" */
static void read_said(int session, struct tm *ret_said) {
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  char key[32], words[64], month[16], half[4];
  int hour, minute, day, year;
  snprintf(key, sizeof key, "session_%d_date_time", session);
  tp_text text = text_at(data, key);
  snprintf(words, sizeof words, "%.*s", (int)text.size, text.data);
  assert_int_equal(sscanf(words, "%d:%d %3s on %d %15[A-Za-z], %d", &hour, &minute, half, &day, month, &year), 6);
  month[3] = '\0';
  *ret_said = (struct tm){.tm_year = year - 1900,
                          .tm_mon = (int)(strstr(months, month) - months) / 3,
                          .tm_mday = day,
                          .tm_hour = hour % 12 + (half[0] == 'p' ? 12 : 0),
                          .tm_min = minute};
}

/* "Speaker: text", as a transcript has it. */
static void add_utterance(bytes *lines, tp__memory_store *store, int number, tp_text utterance) {
  char words[4096], session[32], said[32];
  struct tm tm;
  tp_text speaker = text_at(utterance, "speaker"), text = text_at(utterance, "text");
  int size = snprintf(words, sizeof words, "%.*s: %.*s", (int)speaker.size, speaker.data, (int)text.size, text.data);
  assert_true(size > 0 && (size_t)size < sizeof words);
  snprintf(session, sizeof session, "session_%d", number);
  read_said(number, &tm);
  strftime(said, sizeof said, "%Y-%m-%dT%H:%M:00Z", &tm);
  tp__memory memory = {.said_ms = (int64_t)timegm(&tm) * 1000,
                       .session = tp_text_of(session),
                       .turn = text_at(utterance, "dia_id"),
                       .text = {words, (size_t)size}};
  assert_int_equal(tp__memory_put(store, &scope, &memory, NULL), TP_OK);
  add_turn(lines, session, memory.turn, memory.text, said);
}

static size_t add_conversation(bytes *lines, tp__memory_store *store) {
  size_t count = 0;
  for (int number = 1; number <= SESSIONS; number++) {
    char key[32];
    snprintf(key, sizeof key, "session_%d", number);
    for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(data, key), &walk); count++)
      add_utterance(lines, store, number, walk.value);
  }
  return count;
}

static size_t add_questions(bytes *lines) {
  size_t count = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(data, "qa"), &walk);) {
    char id[32];
    snprintf(id, sizeof id, "q%zu", ++count);
    add_turn(lines, id, tp_text_of(id), text_at(walk.value, "question"), "");
  }
  return count;
}

/* ---- counting ---- */

/** A question of categories 1 to 4: its evidence, each id once, and the part of it that is among the first entries. */
typedef struct question {
  char evidence[EVIDENCE_MAX][16];
  size_t evidence_count, entries;
  size_t found[2]; /* how many the library found, and how many the run */
  tp_text text;
} question;

static question questions[QUESTIONS + 1]; /* from 1 */

/* Evidence is a list of ids; one of its texts has two ids, separated by a semicolon. */
static void read_evidence(question *q, tp_text evidence) {
  for (tp_value_walk walk = {0}; tp_value_next(evidence, &walk);) {
    char ids[256], *rest = NULL;
    tp_text text = tp_value_text(walk.value);
    snprintf(ids, sizeof ids, "%.*s", (int)text.size, text.data);
    for (char *id = strtok_r(ids, "; ,", &rest); id; id = strtok_r(NULL, "; ,", &rest)) {
      bool known = strlen(id) > 15 || q->evidence_count == EVIDENCE_MAX;
      for (size_t i = 0; i < q->evidence_count; i++) known = known || strcmp(q->evidence[i], id) == 0;
      if (!known) strcpy(q->evidence[q->evidence_count++], id);
    }
  }
}

static void read_questions(void) {
  size_t number = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tp_value_get(data, "qa"), &walk);) {
    question *q = &questions[++number];
    q->text = text_at(walk.value, "question");
    if (tp_value_int(tp_value_get(walk.value, "category"), 0) <= CATEGORY_MAX)
      read_evidence(q, tp_value_get(walk.value, "evidence"));
  }
  assert_int_equal(number, QUESTIONS);
}

static bool is_evidence(const question *q, tp_text turn) {
  for (size_t i = 0; i < q->evidence_count; i++)
    if (tp_text_is(turn, q->evidence[i])) return true;
  return false;
}

static void ask_library(tp__memory_store *store) {
  for (question *q = questions + 1; q <= questions + QUESTIONS; q++) {
    tp__memory_list list = {0};
    assert_int_equal(tp__memory_recall(store, &scope, q->text, FIRST, &list), TP_OK);
    for (size_t i = 0; i < list.count; i++) q->found[0] += is_evidence(q, list.items[i].turn);
    tp__memory_list_fini(&list);
  }
}

/* The contexts of a turn come in the order of relevance. */
static void count_contexts(const events *e) {
  for (size_t i = 0; i < e->count; i++) {
    tp_text event = event_at(e, i), turn = tp_value_text(event_value(event, "ids.turn"));
    if (!event_is(event, "event", "context") || turn.size < 2 || turn.size > 4 || turn.data[0] != 'q') continue;
    char number[8];
    snprintf(number, sizeof number, "%.*s", (int)turn.size - 1, turn.data + 1);
    question *q = &questions[atoi(number)];
    tp_text sources = event_value(event, "contribution.sources");
    if (q->entries++ < FIRST) q->found[1] += is_evidence(q, tp_value_text(tp_value_at(sources, 0)));
  }
}

/* The mean over the questions that name evidence. */
static double mean_of(int which) {
  double sum = 0;
  size_t count = 0;
  for (const question *q = questions + 1; q <= questions + QUESTIONS; q++) {
    if (q->evidence_count == 0) continue;
    sum += (double)q->found[which] / (double)q->evidence_count;
    count++;
  }
  return sum / (double)count;
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

FOR_ALL_TESTS(scratch_make, scratch_remove);

TEST(a_run_recalls_as_well_as_the_library_alone) {
  bytes said = {0}, asked = {0};
  command saying, asking;
  tp__memory_store *store = NULL;
  assert_int_equal(tp__memory_store_open(NULL, &store, NULL), TP_OK);
  assert_int_equal(add_conversation(&said, store), UTTERANCES);
  assert_int_equal(add_questions(&asked), QUESTIONS);
  read_questions();
  ask_library(store);
  play(&saying, &said);
  play(&asking, &asked); /* another process, which knows only what is in the file */

  events said_events = events_read(&saying.out), asked_events = events_read(&asking.out);
  assert_int_equal(events_count(&said_events, "result", NULL), UTTERANCES);
  assert_int_equal(events_count(&asked_events, "result", NULL), QUESTIONS);
  count_contexts(&asked_events);
  const double library = mean_of(0), run = mean_of(1), apart = run - library;
  fprintf(stderr, "evidence among the first ten: library %.4f, run %.4f\n", library, run);
  assert_true(library > 0.7);
  assert_true(apart > -0.01 && apart < 0.01);
  tp__memory_store_close(store);
  events_free(&said_events);
  events_free(&asked_events);
  command_free(&saying);
  command_free(&asking);
  free(said.data);
  free(asked.data);
}

/* @return false when the data is not there. */
static bool read_data(void) {
  conversations_path("locomo/26.json", data_path, sizeof data_path);
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

TEST_MAIN(count, arguments) {
  if (!read_data()) {
    printf("1..0 # SKIP no data in %s\n", data_path);
    return 0;
  }
  int failed = test_main(count, arguments);
  tp_writer_free(data_writer);
  return failed;
}
