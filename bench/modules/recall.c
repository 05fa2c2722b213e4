/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of the evidence is recalled on real conversations, which are no part of this tree: every utterance is
 * remembered, then each question is asked. In LoCoMo people chat; used are its questions of categories 1 to 4 that name
 * evidence. In BEAM a user and an assistant write messages of some 2 KB, and the user's messages or those of both are
 * kept; used are its questions of five abilities whose evidence is kept. "mean" is the share of a question's evidence
 * among the first entries, and "any" whether some of it is there. For comparison, the same run shows what a full-text
 * query finds, by itself and with two neighbours of each hit.
 *
 *   recall [DIRECTORY] [--features FILE]
 *   recall [DIRECTORY] --latency
 *
 * DIRECTORY holds locomo/ and beam/: else what TURNPHASE_CONVERSATIONS names, else ../shared/data.
 *
 * The same without names: the first party of a conversation is the user, the other the assistant, no line says who
 * spoke, and a question says "I" and "you" where it says their names.
 *
 * --latency measures recalls in one scope of 1,000, 10,000 and 100,000 entries, the utterances said again and again,
 * with the questions of all conversations: CPU time of one thread; and the same with vectors of 384 dimensions, which
 * are noise made of the text, so that only their number says something.
 *
 * --features writes what domains/memory/fit/fit.py reads: for each candidate line of each question a record of float32:
 * conversation, question, category, evidence of the question in all, line, bytes of the
 * entry, 1 for evidence, the parts. */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "domains/memory/recall.h"
#include "domains/memory/score.h"
#include "domains/memory/terms.h"
#include "domains/memory/vectors.h"

enum {
  CUTS = 5,
  ENTRIES_MAX = 64,
  CATEGORIES = 6,
  PREFIX_BYTES = 40,
  WAYS = 5,
  KEPT_BYTES_MAX = TP__MEMORY_TEXT_BYTES_MAX
};

static const char *const cut_names[CUTS] = {"5", "10", "16", "2800 B", "12000 B"};
static const char *const way_names[WAYS] = {"recall", "FTS5", "FTS5 with two neighbours", "no names, I and you",
                                            "no names at all"};

/** Conversations of one form: people who chat in short lines; a user and an assistant with messages of some 2 KB. */
typedef enum kind { LOCOMO, BEAM_USER, BEAM_BOTH, BEAM_LONG, KINDS } kind;
static const char *const kind_names[KINDS] = {"LoCoMo, three", "BEAM 100K, user", "BEAM 100K, both", "BEAM 500K, user"};
static const char *const beam_categories[CATEGORIES] = {NULL,
                                                        "contradiction_resolution",
                                                        "information_extraction",
                                                        "knowledge_update",
                                                        "multi_session_reasoning",
                                                        "temporal_reasoning"};

/** Who says what: with names before the lines; or the first party is the user and the other the assistant. */
typedef enum parties { NAMED, TWO_PARTIES } parties;
static const char *const numbers[] = {"26", "30", "49"};

/** Sums over questions; category 0 is all. */
typedef struct tally {
  double mean[CUTS], any[CUTS];
  int questions;
} tally;

static tally tallies[KINDS][WAYS][CATEGORIES];
static kind present_kind;
static sqlite3 *reader;
static FILE *features;
static double spent[KINDS], worst[KINDS];
static const tp__memory_scope scope = {.tenant = {"acme", 4}, .kind = {"workspace", 9}, .name = {"home", 4}};

static void must(bool true_one, const char *words) {
  if (true_one) return;
  fprintf(stderr, "recall: %s\n", words);
  exit(1);
}

static sqlite3_stmt *query(const char *sql, const char *bound) {
  sqlite3_stmt *s = NULL;
  must(sqlite3_prepare_v2(reader, sql, -1, &s, NULL) == SQLITE_OK, sqlite3_errmsg(reader));
  if (bound) sqlite3_bind_text(s, 1, bound, -1, SQLITE_TRANSIENT);
  return s;
}

static tp_text column(sqlite3_stmt *row, int at) {
  const char *text = (const char *)sqlite3_column_text(row, at);
  return (tp_text){text ? text : "", (size_t)sqlite3_column_bytes(row, at)};
}

static void execute(const char *sql) {
  must(sqlite3_exec(reader, sql, NULL, NULL, NULL) == SQLITE_OK, sqlite3_errmsg(reader));
}

/* Reads a date such as "1:56 pm on 8 May, 2023". */
static int64_t said_of(tp_text words) {
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  char month[16] = "", half[4] = "";
  int hour = 0, minute = 0, day = 1, year = 1970;
  if (sscanf(words.data, "%d:%d %3s on %d %15[A-Za-z], %d", &hour, &minute, half, &day, month, &year) != 6) return 0;
  month[3] = '\0';
  const char *at = strstr(months, month);
  struct tm tm = {.tm_year = year - 1900,
                  .tm_mon = at ? (int)(at - months) / 3 : 0,
                  .tm_mday = day,
                  .tm_hour = hour % 12 + (half[0] == 'p' ? 12 : 0),
                  .tm_min = minute};
  return (int64_t)timegm(&tm) * 1000;
}

static const char fts_sql[] =
    "DROP TABLE IF EXISTS fts; CREATE VIRTUAL TABLE fts USING fts5 (text, turn UNINDEXED, session UNINDEXED,"
    " tokenize='porter unicode61 remove_diacritics 2')";

static void remember_all(tp__memory_store *store, const char *json, parties who) {
  execute(fts_sql);
  sqlite3_stmt *row = query(
      "SELECT s.key, u.value ->> 'dia_id', (u.value ->> 'speaker') || ': ' || (u.value ->> 'text'),"
      " json_extract(?1, '$.' || s.key || '_date_time'), u.value ->> 'text',"
      " (u.value ->> 'speaker') = json_extract(?1, '$.speaker_b')"
      " FROM json_each(?1) s JOIN json_each(s.value) u WHERE s.key GLOB 'session_[0-9]*' AND s.type = 'array'"
      " AND NOT s.key GLOB '*_*_*' ORDER BY CAST(substr(s.key, 9) AS INTEGER), u.key",
      json);
  sqlite3_stmt *add = query("INSERT INTO fts (turn, text, session) VALUES (?1, ?2, ?3)", NULL);
  while (sqlite3_step(row) == SQLITE_ROW) {
    tp__memory memory = {
        .said_ms = said_of(column(row, 3)), .session = column(row, 0), .turn = column(row, 1), .text = column(row, 2)};
    if (who == TWO_PARTIES) memory.text = column(row, 4);
    if (who == TWO_PARTIES && sqlite3_column_int(row, 5)) memory.part = tp_text_of(tp__memory_assistant);
    must(tp__memory_put(store, &scope, &memory, NULL) == TP_OK, "not remembered");
    for (int i = 0; i < 3; i++) {
      tp_text text = column(row, i == 0 ? 1 : i == 1 ? 2 : 0);
      sqlite3_bind_text(add, i + 1, text.data, (int)text.size, SQLITE_TRANSIENT);
    }
    sqlite3_step(add);
    sqlite3_reset(add);
  }
  sqlite3_finalize(add);
  sqlite3_finalize(row);
}

/** A question's evidence: the ids of utterances, each in quotes and counted once. */
typedef struct evidence {
  char ids[32][16];
  int count;
} evidence;

/* Some entries hold several ids: "D8:6; D9:17". */
static evidence read_evidence(const char *json) {
  evidence found = {.count = 0};
  for (const char *at = json; *at && found.count < 32;) {
    size_t size = strspn(at, "D0123456789:");
    bool known = size < 3 || size > 15 || at[0] != 'D';
    char id[16] = "";
    if (!known) memcpy(id, at, size);
    for (int i = 0; i < found.count; i++) known = known || strcmp(found.ids[i], id) == 0;
    if (!known) memcpy(found.ids[found.count++], id, sizeof id);
    at += size ? size : 1;
  }
  return found;
}

static bool is_evidence(const evidence *e, tp_text turn) {
  for (int i = 0; i < e->count; i++)
    if (strlen(e->ids[i]) == turn.size && memcmp(e->ids[i], turn.data, turn.size) == 0) return true;
  return false;
}

/** An answer to a question: whether each entry is evidence, and its bytes. */
typedef struct entries {
  bool good[ENTRIES_MAX];
  size_t bytes[ENTRIES_MAX];
  int count;
} entries;

static void count_entries(int way, int category, const evidence *e, const entries *list) {
  static const int counts[] = {5, 10, 16, ENTRIES_MAX, ENTRIES_MAX};
  static const size_t bytes[] = {SIZE_MAX, SIZE_MAX, SIZE_MAX, 2800, 12000};
  for (int c = 0; c < CUTS; c++) {
    int found = 0;
    size_t used = 0;
    for (int i = 0; i < list->count && i < counts[c] && (used += list->bytes[i]) <= bytes[c]; i++)
      found += list->good[i];
    for (int k = 0; k <= category; k += category) {
      tallies[present_kind][way][k].mean[c] += (double)found / e->count;
      tallies[present_kind][way][k].any[c] += found > 0;
    }
  }
  tallies[present_kind][way][0].questions++;
  tallies[present_kind][way][category].questions++;
}

static void ask_memory(int way, tp__memory_store *store, tp_text question, int category, const evidence *e) {
  tp__memory_list list = {0};
  struct timespec from, to;
  entries answer = {.count = 0};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  must(tp__memory_recall(store, &scope, question, ENTRIES_MAX, &list) == TP_OK, "not recalled");
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
  double duration_ms = 1e3 * (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_nsec - from.tv_nsec);
  if (way == 0) spent[present_kind] += duration_ms;
  if (way == 0 && duration_ms > worst[present_kind]) worst[present_kind] = duration_ms;
  for (size_t i = 0; i < list.count; i++) {
    answer.good[i] = is_evidence(e, list.items[i].turn);
    answer.bytes[i] = list.items[i].text.size + PREFIX_BYTES;
  }
  answer.count = (int)list.count;
  count_entries(way, category, e, &answer);
  tp__memory_list_fini(&list);
}

static void add_fts(entries *list, int64_t *ids, int64_t id, const evidence *e, sqlite3_stmt *get) {
  for (int i = 0; i < list->count; i++)
    if (ids[i] == id) return;
  sqlite3_bind_int64(get, 1, id);
  if (list->count < ENTRIES_MAX && sqlite3_step(get) == SQLITE_ROW) {
    ids[list->count] = id;
    list->good[list->count] = is_evidence(e, column(get, 0));
    list->bytes[list->count++] = (size_t)sqlite3_column_int64(get, 1) + PREFIX_BYTES;
  }
  sqlite3_reset(get);
}

static void ask_fts(int way, tp_text question, int category, const evidence *e) {
  tp__memory_terms terms;
  tp__memory_terms_of(question, &terms);
  sqlite3_str *words = sqlite3_str_new(reader);
  for (size_t i = 0; i < terms.count; i++)
    sqlite3_str_appendf(words, "%s\"%.*s\"", i ? " OR " : "", (int)terms.items[i].size, terms.items[i].data);
  char *match = sqlite3_str_finish(words);
  sqlite3_stmt *row =
      query("SELECT rowid FROM fts WHERE fts MATCH ?1 ORDER BY bm25(fts) LIMIT 64", match ? match : "\"\"");
  sqlite3_stmt *get = query("SELECT turn, length(CAST(text AS BLOB)) FROM fts WHERE rowid = ?1", NULL);
  entries list = {.count = 0};
  int64_t ids[ENTRIES_MAX];
  while (sqlite3_step(row) == SQLITE_ROW) {
    int64_t id = sqlite3_column_int64(row, 0);
    add_fts(&list, ids, id, e, get);
    if (way == 2) add_fts(&list, ids, id + 1, e, get);
    if (way == 2) add_fts(&list, ids, id - 1, e, get);
  }
  sqlite3_finalize(row);
  sqlite3_finalize(get);
  sqlite3_free(match);
  count_entries(way, category, e, &list);
}

static void write_features(tp__memory_store *store, tp_text text, const float head[4], const evidence *e) {
  tp__memory_index *index = NULL;
  tp__memory_scored *scored = NULL;
  size_t count = 0;
  must(tp__memory_index_use(store, &scope, &index) == TP_OK && index, "no index");
  int rc = tp__memory_score(store, index, &(tp__memory_question){.text = text}, SIZE_MAX, &scored, &count);
  must(rc == SQLITE_OK, "not scored");
  for (size_t i = 0; i < count; i++) {
    tp__memory_list one = {0};
    must(tp__memory_find(store, index->lines[scored[i].line].id, &one) == TP_OK, "not read");
    float tail[] = {(float)scored[i].line, (float)(one.items[0].text.size + PREFIX_BYTES),
                    is_evidence(e, one.items[0].turn) ? 1.0f : 0.0f};
    fwrite(head, sizeof *head, 4, features);
    fwrite(tail, sizeof *tail, 3, features);
    fwrite(scored[i].parts, sizeof(float), TP__MEMORY_PART_COUNT, features);
    tp__memory_list_fini(&one);
  }
  tp__memory_index_release(store, index);
  sqlite3_free(scored);
}

/* The question as the first party would ask the other: "I" and "you" for the names, "my" and "your". */
static char *with_pronouns(const char *question, const char *json) {
  static const char *const pronouns[][2] = {{"I", "my"}, {"you", "your"}};
  sqlite3_stmt *row = query("SELECT json_extract(?1, '$.speaker_a'), json_extract(?1, '$.speaker_b')", json);
  must(sqlite3_step(row) == SQLITE_ROW, "no parties");
  sqlite3_str *words = sqlite3_str_new(NULL);
  while (*question) {
    size_t taken = 0;
    for (int i = 0; i < 2 && !taken; i++) {
      tp_text name = column(row, i);
      if (name.size == 0 || strncmp(question, name.data, name.size) != 0) continue;
      bool of = strncmp(question + name.size, "'s", 2) == 0;
      taken = name.size + (of ? 2 : 0);
      sqlite3_str_appendall(words, pronouns[i][of]);
    }
    if (!taken) sqlite3_str_appendchar(words, 1, *question);
    question += taken ? taken : 1;
  }
  sqlite3_finalize(row);
  return sqlite3_str_finish(words);
}

static bool read_conversation(const char *directory, int number, char *json, size_t size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/locomo/%s.json", directory, numbers[number]);
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  json[fread(json, 1, size - 1, file)] = '\0';
  fclose(file);
  return true;
}

static bool ask_all(const char *directory, int number) {
  static char json[1 << 20];
  if (!read_conversation(directory, number, json, sizeof json)) return false;
  tp__memory_store *store = NULL, *unnamed = NULL;
  must(tp__memory_store_open(NULL, &store, NULL) == TP_OK, "no store");
  must(tp__memory_store_open(NULL, &unnamed, NULL) == TP_OK, "no store");
  remember_all(unnamed, json, TWO_PARTIES);
  remember_all(store, json, NAMED);
  sqlite3_stmt *row = query(
      "SELECT value ->> 'question', value ->> 'evidence', value ->> 'category' FROM json_each(?1, '$.qa')"
      " WHERE value ->> 'category' BETWEEN 1 AND 4 ORDER BY key",
      json);
  for (int q = 0; sqlite3_step(row) == SQLITE_ROW; q++) {
    evidence e = read_evidence(column(row, 1).data);
    int category = sqlite3_column_int(row, 2);
    if (e.count == 0) continue;
    char *asked = with_pronouns(column(row, 0).data, json);
    must(asked != NULL, "no memory");
    ask_memory(0, store, column(row, 0), category, &e);
    ask_memory(3, unnamed, tp_text_of(asked), category, &e);
    ask_memory(4, unnamed, column(row, 0), category, &e);
    sqlite3_free(asked);
    ask_fts(1, column(row, 0), category, &e);
    ask_fts(2, column(row, 0), category, &e);
    float head[] = {(float)number, (float)q, (float)category, (float)e.count};
    if (features) write_features(store, column(row, 0), head, &e);
  }
  sqlite3_finalize(row);
  tp__memory_store_close(unnamed);
  tp__memory_store_close(store);
  return true;
}

/* ---- BEAM: tab-separated lines, which its README explains ---- */

enum { FIELDS_MAX = 6, BEAM_FILES = 20, MESSAGE_MAX = 1 << 17 };

/* Cuts a line at its tabs, the last field being the rest. @return the number of fields. */
static int cut_fields(char *line, char *fields[FIELDS_MAX]) {
  int count = 0;
  line[strcspn(line, "\n")] = '\0';
  while (line && count < FIELDS_MAX) {
    fields[count++] = line;
    line = count < FIELDS_MAX ? strchr(line, '\t') : NULL;
    if (line) *line++ = '\0';
  }
  return count;
}

/* Messages of the data end with a mark of its authors, "->-> 1,12", which is not a part of the user's text. */
static tp_text without_mark(tp_text text) {
  size_t size = text.size;
  while (size > 0 && strchr(" ,0123456789", text.data[size - 1])) size--;
  return size >= 4 && size < text.size && memcmp(text.data + size - 4, "->->", 4) == 0 ? (tp_text){text.data, size - 4}
                                                                                       : text;
}

static void remember_message(tp__memory_store *store, char *const fields[FIELDS_MAX], sqlite3_stmt *add) {
  tp_text text = without_mark(tp_text_of(fields[5]));
  tp__memory memory = {.said_ms = strtoll(fields[4], NULL, 10),
                       .session = tp_text_of(fields[1]),
                       .turn = tp_text_of(fields[2]),
                       .part = tp_text_of(fields[3][0] == 'a' ? tp__memory_assistant : ""),
                       .text = {text.data, tp__memory_cut(text, KEPT_BYTES_MAX)}};
  must(tp__memory_put(store, &scope, &memory, NULL) == TP_OK, "not remembered");
  const tp_text columns[] = {memory.turn, text, memory.session};
  for (int i = 0; i < 3; i++) sqlite3_bind_text(add, i + 1, columns[i].data, (int)columns[i].size, SQLITE_TRANSIENT);
  sqlite3_step(add);
  sqlite3_reset(add);
}

/* Leaves out evidence that was not kept, such as messages of the assistant. */
static evidence read_numbers(char *ids) {
  evidence found = {.count = 0};
  sqlite3_stmt *has = query("SELECT 1 FROM fts WHERE turn = ?1", NULL);
  for (char *rest = NULL, *id = strtok_r(ids, ",", &rest); id && found.count < 32; id = strtok_r(NULL, ",", &rest)) {
    bool known = strlen(id) >= sizeof found.ids[0];
    for (int i = 0; i < found.count; i++) known = known || strcmp(found.ids[i], id) == 0;
    sqlite3_bind_text(has, 1, id, -1, SQLITE_STATIC);
    if (!known && sqlite3_step(has) == SQLITE_ROW) memcpy(found.ids[found.count++], id, strlen(id) + 1);
    sqlite3_reset(has);
  }
  sqlite3_finalize(has);
  return found;
}

static void ask_beam(tp__memory_store *store, int conversation, int number, char *const fields[FIELDS_MAX]) {
  int category = 1;
  while (category < CATEGORIES && strcmp(fields[1], beam_categories[category]) != 0) category++;
  if (category == CATEGORIES)
    return; /* the evidence of these questions is not a few messages: it is an order, a
                                         summary, or an instruction */
  evidence e = read_numbers(fields[2]);
  tp_text question = tp_text_of(fields[3]);
  if (e.count == 0) return;
  ask_memory(0, store, question, category, &e);
  ask_fts(1, question, category, &e);
  ask_fts(2, question, category, &e);
  float head[] = {(float)(1000 * (int)present_kind + conversation), (float)number, (float)category, (float)e.count};
  if (features) write_features(store, question, head, &e);
}

static bool ask_beam_file(const char *directory, int conversation) {
  static char line[MESSAGE_MAX];
  char path[4096], *fields[FIELDS_MAX];
  tp__memory_store *store = NULL;
  snprintf(path, sizeof path, "%s/beam/%s/%d.tsv", directory, present_kind == BEAM_LONG ? "500K" : "100K",
           conversation);
  FILE *file = fopen(path, "r");
  if (!file) return false;
  must(tp__memory_store_open(NULL, &store, NULL) == TP_OK, "no store");
  execute(fts_sql);
  sqlite3_stmt *add = query("INSERT INTO fts (turn, text, session) VALUES (?1, ?2, ?3)", NULL);
  for (int number = 0; fgets(line, sizeof line, file); number++) {
    int count = cut_fields(line, fields);
    if (count == 6 && (fields[3][0] == 'u' || present_kind == BEAM_BOTH)) remember_message(store, fields, add);
    else if (count == 4)
      ask_beam(store, conversation, number, fields); /* in a file all questions follow the
                                                                           messages */
  }
  sqlite3_finalize(add);
  fclose(file);
  tp__memory_store_close(store);
  return true;
}

static void ask_all_beam(const char *directory) {
  for (present_kind = BEAM_USER; present_kind < KINDS; present_kind++)
    for (int i = 1; i <= BEAM_FILES; i++) (void)ask_beam_file(directory, i); /* 500K has 17 */
  present_kind = LOCOMO;
}

/* ---- latency ---- */

enum { CONVERSATIONS = 3, JSON_SIZE = 1 << 20, BATCH = 1000, ROUNDS = 3, QUESTIONS_MAX = 2000 };

static double now_ms(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static double resident_mib(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
  if (file) fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

/** The utterances of all conversations. */
typedef struct corpus {
  tp__memory_list lines; /* texts that this program owns */
  char *questions[QUESTIONS_MAX];
  size_t question_count;
} corpus;

static char *copy_of(tp_text text) { return sqlite3_mprintf("%.*s", (int)text.size, text.data); }

static bool read_corpus(const char *directory, corpus *c) {
  static char json[JSON_SIZE];
  for (int i = 0; i < CONVERSATIONS; i++) {
    tp__memory_store *store = NULL;
    if (!read_conversation(directory, i, json, sizeof json)) return false;
    must(tp__memory_store_open(NULL, &store, NULL) == TP_OK, "no store");
    remember_all(store, json, NAMED);
    must(tp__memory_page(store, &(tp__memory_filter){0}, 0, true, BATCH, &c->lines) == TP_OK, "not read");
    tp__memory_store_close(store);
    sqlite3_stmt *row = query("SELECT value ->> 'question' FROM json_each(?1, '$.qa') ORDER BY key", json);
    while (sqlite3_step(row) == SQLITE_ROW && c->question_count < QUESTIONS_MAX)
      c->questions[c->question_count++] = copy_of(column(row, 0));
    sqlite3_finalize(row);
  }
  return true;
}

/* Stores the corpus repeatedly, each time in sessions of its own. */
static void fill(tp__memory_store *store, const corpus *c, size_t count) {
  static tp__memory batch[BATCH];
  static char turns[BATCH][32], sessions[BATCH][64];
  for (size_t from = 0; from < count; from += BATCH) {
    for (size_t i = 0; i < BATCH; i++) {
      size_t at = (from + i) % c->lines.count, round = (from + i) / c->lines.count;
      batch[i] = c->lines.items[at];
      snprintf(turns[i], sizeof turns[i], "t%zu", from + i);
      snprintf(sessions[i], sizeof sessions[i], "%zu %.*s %zu", round, (int)batch[i].session.size,
               batch[i].session.data, at / 400);
      batch[i].turn = tp_text_of(turns[i]);
      batch[i].session = tp_text_of(sessions[i]);
    }
    must(tp__memory_put_all(store, batch, BATCH) == TP_OK, "not kept");
  }
}

static double recall_ms(tp__memory_store *store, const char *question) {
  tp__memory_list list = {0};
  double from = now_ms(CLOCK_THREAD_CPUTIME_ID);
  must(tp__memory_recall(store, &scope, tp_text_of(question), ENTRIES_MAX, &list) == TP_OK, "not recalled");
  double duration_ms = now_ms(CLOCK_THREAD_CPUTIME_ID) - from;
  tp__memory_list_fini(&list);
  return duration_ms;
}

/* ---- with vectors ---- */

enum { DIMENSIONS = 384, FUSED_MAX = 100 };

static tp_status make_noise(void *ctx, const tp_memory_embed_request *request, float *ret_vectors) {
  (void)ctx;
  for (size_t i = 0; i < request->text_count; i++) {
    uint32_t random = 2166136261u; /* FNV-1a of the text, then a linear congruential generator */
    for (size_t k = 0; k < request->texts[i].size; k++)
      random = (random ^ (unsigned char)request->texts[i].data[k]) * 16777619u;
    for (size_t k = 0; k < request->dimensions; k++) {
      random = random * 1664525u + 1013904223u;
      *ret_vectors++ = (float)(random >> 8) / (1 << 23) - 1;
    }
  }
  return TP_OK;
}

static bool is_never_cancelled(const void *ctx) {
  (void)ctx;
  return false;
}

static const tp_memory_embedder noise = {
    .struct_size = sizeof noise, .name = "noise", .embed = make_noise, .dimensions = DIMENSIONS, .batch_max = 256};
static const tp__memory_embed_work work = {is_never_cancelled, NULL};

static void make_vectors(tp__memory_store *store, size_t count) {
  for (size_t made = 0; made < count; made += 4096) /* for one call */
    must(tp__memory_embed_missing(store, &scope, &noise, &work) == TP_OK, "no vectors");
}

static double fused_ms(tp__memory_store *store, const char *question) {
  tp__memory_list list = {0};
  float vector[DIMENSIONS];
  must(tp__memory_embed_query(&noise, &work, tp_text_of(question), vector) == TP_OK, "no vector");
  double from = now_ms(CLOCK_THREAD_CPUTIME_ID);
  must(tp__memory_recall_fused(store, &scope, &(tp__memory_question){.text = tp_text_of(question)}, &noise, vector,
                               ENTRIES_MAX, &list) == TP_OK,
       "not recalled");
  double duration_ms = now_ms(CLOCK_THREAD_CPUTIME_ID) - from;
  tp__memory_list_fini(&list);
  return duration_ms;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void measure_vectors(tp__memory_store *store, const corpus *c, size_t count) {
  static double durations_ms[FUSED_MAX];
  size_t taken = 0;
  make_vectors(store, count);
  for (size_t i = 0; i < c->question_count && taken < FUSED_MAX; i += 5)
    durations_ms[taken++] = fused_ms(store, c->questions[i]);
  qsort(durations_ms, taken, sizeof *durations_ms, compare_doubles);
  printf("%9zu %9.3f %9.3f %9.3f %9.3f  with vectors of %d dimensions\n", count, durations_ms[taken / 2],
         durations_ms[taken * 9 / 10], durations_ms[taken * 99 / 100], durations_ms[taken - 1], DIMENSIONS);
}

static void measure(const corpus *c, size_t count) {
  static double durations_ms[ROUNDS * QUESTIONS_MAX];
  char path[64] = "/tmp/turnphase_recall_XXXXXX", command[128];
  int fd = mkstemp(path);
  must(fd >= 0 && close(fd) == 0, "no file");
  tp__memory_store *store = NULL;
  must(tp__memory_store_open(path, &store, NULL) == TP_OK, "no store");
  double from = now_ms(CLOCK_MONOTONIC);
  fill(store, c, count);
  double kept_ms = now_ms(CLOCK_MONOTONIC) - from, before_mib = resident_mib();
  double build_ms = recall_ms(store, c->questions[0]);
  size_t bytes = store->indexes->bytes, taken = 0;
  for (int round = 0; round < ROUNDS; round++)
    for (size_t i = 0; i < c->question_count; i++) durations_ms[taken++] = recall_ms(store, c->questions[i]);
  double after_mib = resident_mib();
  qsort(durations_ms, taken, sizeof *durations_ms, compare_doubles);
  printf("%9zu %9.3f %9.3f %9.3f %9.3f %9.0f %11.1f %9.1f %11.1f\n", count, durations_ms[taken / 2],
         durations_ms[taken * 9 / 10], durations_ms[taken * 99 / 100], durations_ms[taken - 1], build_ms,
         1e3 * kept_ms / (double)count, (double)bytes / 1048576, after_mib - before_mib);
  measure_vectors(store, c, count);
  tp__memory_store_close(store);
  snprintf(command, sizeof command, "rm -f %s %s-wal %s-shm", path, path, path);
  must(system(command) == 0, "the file stays");
}

static bool measure_latency(const char *directory) {
  static corpus c;
  if (!read_corpus(directory, &c)) return false;
  printf("%zu questions, %d times each; ms of CPU on one thread\n", c.question_count, ROUNDS);
  printf("%9s %9s %9s %9s %9s %9s %11s %9s %11s\n", "entries", "p50", "p90", "p99", "max", "build ms", "keep us/one",
         "index MiB", "resident +MiB");
  for (size_t count = 1000; count <= 100000; count *= 10) measure(&c, count);
  for (size_t i = 0; i < c.question_count; i++) sqlite3_free(c.questions[i]);
  tp__memory_list_fini(&c.lines);
  return true;
}

static void print_kind(kind k) {
  for (int way = 0; way < WAYS; way++)
    for (int c = 0; c < CATEGORIES; c++) {
      const tally *t = &tallies[k][way][c];
      if (t->questions == 0) continue;
      printf("%-16s %-25s %-9.*s %5d", c || way ? "" : kind_names[k], c ? "" : way_names[way], c ? 1 : 3,
             c ? &"012345"[c] : "all", t->questions);
      for (int i = 0; i < CUTS; i++) printf("  %.3f / %.3f", t->mean[i] / t->questions, t->any[i] / t->questions);
      printf("\n");
    }
  if (tallies[k][0][0].questions)
    printf("%-16s a recall costs %.3f ms of CPU, at most %.3f ms\n", "", spent[k] / tallies[k][0][0].questions,
           worst[k]);
}

static void print_all(void) {
  printf("%-16s %-25s %-9s %5s", "", "", "category", "asked");
  for (int c = 0; c < CUTS; c++) printf("  %-13s", cut_names[c]);
  printf("\n");
  for (int k = 0; k < KINDS; k++) print_kind((kind)k);
  printf("Each cell: mean / any.\n");
}

int main(int count, char **arguments) {
  const char *named = getenv("TURNPHASE_CONVERSATIONS"), *directory = named ? named : "../shared/data";
  bool latency = false, there = true;
  for (int i = 1; i < count; i++)
    if (strcmp(arguments[i], "--features") == 0 && i + 1 < count) features = fopen(arguments[++i], "wb");
    else if (strcmp(arguments[i], "--latency") == 0) latency = true;
    else directory = arguments[i];
  must(sqlite3_open(":memory:", &reader) == SQLITE_OK, "no SQLite");
  if (latency) there = measure_latency(directory);
  for (int i = 0; there && !latency && i < CONVERSATIONS; i++) there = ask_all(directory, i);
  if (there && !latency) ask_all_beam(directory);
  if (!there) fprintf(stderr, "recall: the conversations are not in %s\n", directory);
  else if (!latency) print_all();
  if (features) fclose(features);
  sqlite3_close(reader);
  return there ? 0 : 77;
}
