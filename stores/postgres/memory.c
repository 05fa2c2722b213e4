/* SPDX-License-Identifier: Apache-2.0
 *
 * The store of memories in a database (tp_memory_store). Keys are SHA-256 hashes, since an index takes no row of more
 * than some 2,700 bytes. Of all works of a transaction that keep memories, one statement locks the rows of the scopes,
 * in the order of their keys, before any id is taken: so the ids of a scope rise in the order of the commits, and no
 * reader misses a row whose transaction ended late. What deletes, and what keeps vectors, has a transaction of its own.
 *
 * A put whose commit was not acknowledged is done again, and changes nothing then: its texts are there, a row that was
 * updated is not counted as new, and the last id of a scope only rises. A deletion leaves its number and its count in
 * memory_erased for an hour, so that one that is done again knows what it deleted. */
#include "stores/postgres/memory.h"

#include <assert.h>
#include <string.h>

#include "stores/postgres/schema.h"
#include "stores/postgres/store.h"
#include "support/fault.h"
#include "turnphase/memory_store.h"

enum { ROWS_AT_ONCE = 16384, VECTORS_AT_ONCE = 4096 };

/** Bytes of a key in an index. */
typedef struct hash_key {
  unsigned char bytes[TP__PG_HASH_BYTES];
} hash_key;

typedef struct memory_store {
  tp_postgres *postgres; /* a reference */
  char *add_sql, *lock_sql;
  tp__lock mutex;
  tp__lock_condition ended;
  /* ---- under mutex */
  size_t open;       /* what put_later got and has not ended */
  bool is_destroyed; /* the last that ends frees it */
} memory_store;

/** A work that keeps memories. */
typedef struct putting {
  tp__pg_request request; /* first */
  memory_store *store;
  size_t scope_count;   /* the scopes that it locks */
  hash_key *scopes;     /* their keys */
  tp_memory_scope *of;  /* their names, borrowed from `names` */
  size_t given, *which; /* entries without repetitions; of each entry, which of these */
  size_t count;
  char *names;
  size_t names_size;
  tp_memory_put_fn end; /* of put_later */
  void *end_ctx;
} putting;

/* ---- keys ---- */

static hash_key key_of_scope(const tp_memory_scope *owner) {
  hash_key key;
  tp__pg_texts_hash((const tp_text[]){owner->tenant, owner->scope, owner->name}, 3, key.bytes);
  return key;
}

static hash_key key_of_entry(const tp_memory_entry *e) {
  hash_key key;
  tp__pg_texts_hash((const tp_text[]){e->session, e->turn, e->part}, 3, key.bytes);
  return key;
}

static tp_text text_of_key(const hash_key *key) { return (tp_text){(const char *)key->bytes, sizeof key->bytes}; }

static tp_memory_scope owner_of(const tp_memory_entry *e) {
  return (tp_memory_scope){
      .struct_size = sizeof(tp_memory_scope), .tenant = e->tenant, .scope = e->scope, .name = e->name};
}

/* ---- statements ---- */

static const char add_scopes[] =
    "INSERT INTO @.memory_scope (key_hash, tenant, kind, name, memories, last, changes)"
    " SELECT DISTINCT ON (g.key) g.key, g.tenant, g.kind, g.name, 0, 0, 0"
    " FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) AS g(key, tenant, kind, name)"
    " WHERE NOT EXISTS (SELECT 1 FROM @.memory_scope s WHERE s.key_hash = g.key) ORDER BY g.key"
    " ON CONFLICT (key_hash) DO NOTHING";
static const char lock_scopes[] =
    "SELECT s.id FROM @.memory_scope s WHERE s.key_hash = ANY ($1::bytea[]) ORDER BY s.key_hash FOR UPDATE";

/* 1 scope keys, 2 keys, 3 said_ms, 4 session, 5 turn, 6 part, 7 text, 8 subject, 9 replaced_ms, 10 whether facts that
 * another turn's fact says already are left out. All of it sees what was there before it. A text that is another one
 * loses its vector. */
static const char put_entries[] =
    "WITH given AS (SELECT g.*, s.id AS scope FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[],"
    " $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bigint[]) WITH ORDINALITY"
    " AS g(scope_key, key, said_ms, session, turn, part, text, subject, replaced_ms, n)"
    " JOIN @.memory_scope s ON s.key_hash = g.scope_key),"
    " wanted AS (SELECT * FROM given g WHERE NOT $10::boolean OR NOT EXISTS (SELECT 1 FROM @.memory m"
    "  WHERE m.scope = g.scope AND m.subject <> '' AND m.replaced_ms = 0 AND m.text = g.text"
    "  AND NOT (m.session = g.session AND m.turn = g.turn))),"
    " changed AS (SELECT m.id, m.scope FROM wanted g JOIN @.memory m ON m.scope = g.scope AND m.key_hash = g.key"
    "  WHERE m.text <> g.text),"
    " dropped AS (DELETE FROM @.memory_vector v USING changed c WHERE v.memory = c.id RETURNING 1),"
    " lowered AS (UPDATE @.memory_embedded e SET upto = least(e.upto, x.first - 1)"
    "  FROM (SELECT c.scope, min(c.id) AS first FROM changed c GROUP BY c.scope) x WHERE e.scope = x.scope RETURNING "
    "1),"
    " put AS (INSERT INTO @.memory AS m (scope, key_hash, said_ms, session, turn, part, text, subject, replaced_ms,"
    "  replaced_by) SELECT g.scope, g.key, g.said_ms, g.session, g.turn, g.part, g.text, g.subject, g.replaced_ms, 0"
    "  FROM wanted g ORDER BY g.n ON CONFLICT (scope, key_hash) DO UPDATE SET text = excluded.text,"
    "  subject = CASE WHEN excluded.subject = '' THEN m.subject ELSE excluded.subject END,"
    "  replaced_ms = CASE WHEN m.subject = '' THEN excluded.replaced_ms ELSE m.replaced_ms END"
    "  RETURNING m.id, m.scope, m.xmax = 0 AS is_new),"
    " marked AS (UPDATE @.memory_scope s SET last = greatest(s.last, x.last), memories = s.memories + x.added,"
    "  changes = s.changes + x.changed FROM (SELECT p.scope, max(p.id) AS last,"
    "   count(*) FILTER (WHERE p.is_new) AS added,"
    "   (SELECT count(*) FROM changed c WHERE c.scope = p.scope) AS changed FROM put p GROUP BY p.scope) x"
    "  WHERE s.id = x.scope RETURNING 1)"
    " SELECT coalesce(p.id, 0), g.total FROM (SELECT count(*) AS total FROM given) g LEFT JOIN put p ON true";
/* 1 scope keys, 2 keys, 3 what each replaces. Of the two the one that was said later holds. */
static const char replace_facts[] =
    "WITH pair AS (SELECT a.id AS a, a.said_ms AS a_ms, b.id AS b, b.said_ms AS b_ms"
    "  FROM unnest($1::bytea[], $2::bytea[], $3::bigint[]) AS g(scope_key, key, replaces)"
    "  JOIN @.memory_scope s ON s.key_hash = g.scope_key JOIN @.memory b ON b.scope = s.id AND b.key_hash = g.key"
    "  JOIN @.memory a ON a.id = g.replaces AND a.scope = b.scope AND a.id <> b.id),"
    " done AS (UPDATE @.memory f SET replaced_ms = greatest(p.a_ms, p.b_ms),"
    "  replaced_by = CASE WHEN p.a_ms <= p.b_ms THEN p.b ELSE p.a END FROM pair p"
    "  WHERE f.id = CASE WHEN p.a_ms <= p.b_ms THEN p.a ELSE p.b END AND f.replaced_ms = 0 AND f.subject <> ''"
    "  RETURNING f.scope)"
    " UPDATE @.memory_scope s SET changes = s.changes + x.n FROM (SELECT d.scope, count(*) AS n FROM done d"
    "  GROUP BY d.scope) x WHERE s.id = x.scope";

/* 1 ids, 2 the key of a scope, or nothing, 3 the number of the deletion. */
#define OF_SCOPE " AND ($2::bytea = '' OR s.key_hash = $2::bytea)"
static const char erase_lock[] =
    "SELECT s.id FROM @.memory_scope s WHERE s.id IN (SELECT m.scope FROM @.memory m WHERE m.id = ANY"
    " ($1::bigint[]))" OF_SCOPE " ORDER BY s.key_hash FOR UPDATE";
static const char erase_rows[] =
    "WITH gone AS (DELETE FROM @.memory m USING @.memory_scope s WHERE m.id = ANY ($1::bigint[])"
    "  AND s.id = m.scope" OF_SCOPE
    " RETURNING m.id, m.scope),"
    " vectors AS (DELETE FROM @.memory_vector v USING gone g WHERE v.memory = g.id RETURNING 1),"
    " counted AS (UPDATE @.memory_scope s SET memories = s.memories - x.n, changes = s.changes + x.n"
    "  FROM (SELECT g.scope, count(*) AS n FROM gone g GROUP BY g.scope) x WHERE s.id = x.scope RETURNING 1)"
    " INSERT INTO @.memory_erased (batch, memories, erased) SELECT $3::bigint, count(*), clock_timestamp() FROM gone"
    " HAVING count(*) > 0 ON CONFLICT (batch) DO NOTHING";
/* Of scopes that are empty: a tenant's name is a person's. The row stays, and its id is never another scope's. */
static const char erase_names[] =
    "UPDATE @.memory_scope SET key_hash = int8send(id), tenant = '', kind = '', name = '', changes = changes + 1"
    " WHERE memories = 0 AND kind <> '' AND EXISTS (SELECT 1 FROM @.memory_erased WHERE batch = $1::bigint)";
static const char erase_count[] = "SELECT memories FROM @.memory_erased WHERE batch = $1::bigint";
static const char erase_notes[] = "DELETE FROM @.memory_erased WHERE erased < clock_timestamp() - interval '1 hour'";

/* One statement, so that the number of changes and the rows are of one moment. 1 the scope's key, 2 its id, 3 changes
 * and 4 the last id that the reader has, 5 rows. */
static const char read_news[] =
    "SELECT s.id, s.changes, s.last, coalesce(m.id, 0), m.said_ms, m.session, m.part, m.text, m.subject"
    " FROM @.memory_scope s LEFT JOIN LATERAL (SELECT * FROM @.memory x WHERE x.scope = s.id AND x.replaced_ms = 0"
    "  AND x.id > CASE WHEN s.id = $2::bigint AND s.changes = $3::bigint THEN $4::bigint ELSE 0 END"
    "  ORDER BY x.id LIMIT $5::bigint) m ON true WHERE s.key_hash = $1::bytea ORDER BY m.id";

#define ENTRY_COLUMNS "m.id, m.said_ms, m.replaced_ms, m.replaced_by, m.session, m.turn, m.part, m.text, m.subject"
#define SCOPED_ROWS ENTRY_COLUMNS ", s.tenant, s.kind, s.name FROM @.memory m JOIN @.memory_scope s ON s.id = m.scope"
static const char get_entries[] = "SELECT " SCOPED_ROWS
                                  " JOIN unnest($1::bigint[]) WITH ORDINALITY AS g(id, n) ON g.id = m.id"
                                  " WHERE $2::bigint = 0 OR m.scope = $2::bigint ORDER BY g.n";
/* 1 the key of a scope, or nothing, 2, 4, 6 whether tenant, kind and name are given, which are 3, 5, 7, 8 beyond,
 * 9 limit. */
#define OF_QUERY                                                                                    \
  " WHERE ($1::bytea = '' OR s.key_hash = $1::bytea) AND (NOT $2::boolean OR s.tenant = $3::bytea)" \
  " AND (NOT $4::boolean OR s.kind = $5::bytea) AND (NOT $6::boolean OR s.name = $7::bytea)"
static const char list_newest[] =
    "SELECT " SCOPED_ROWS OF_QUERY " AND ($8::bigint = 0 OR m.id < $8::bigint) ORDER BY m.id DESC LIMIT $9::bigint";
static const char list_oldest[] =
    "SELECT " SCOPED_ROWS OF_QUERY " AND m.id > $8::bigint ORDER BY m.id LIMIT $9::bigint";
/* 1 the scope's key, 2 limit. */
static const char list_facts[] =
    "SELECT " SCOPED_ROWS
    " WHERE s.key_hash = $1::bytea AND m.subject <> '' AND m.replaced_ms = 0 ORDER BY m.id DESC LIMIT $2::bigint";
/* 1 the scope's key, 2 limit, 3 the id. */
static const char list_history[] =
    "WITH RECURSIVE later(id) AS (SELECT replaced_by FROM @.memory WHERE id = $3::bigint AND replaced_by > 0"
    "  UNION SELECT f.replaced_by FROM @.memory f JOIN later ON f.id = later.id WHERE f.replaced_by > 0),"
    " earlier(id) AS (VALUES ($3::bigint) UNION SELECT f.id FROM @.memory f JOIN earlier ON f.replaced_by = earlier.id)"
    " SELECT " SCOPED_ROWS
    " WHERE s.key_hash = $1::bytea AND m.subject <> '' AND m.id <> $3::bigint"
    " AND (m.id IN (SELECT id FROM later) OR m.id IN (SELECT id FROM earlier))"
    " ORDER BY m.said_ms DESC, m.id DESC LIMIT $2::bigint";
static const char list_scopes[] =
    "SELECT tenant, kind, name, memories FROM @.memory_scope WHERE kind <> '' ORDER BY tenant, kind, name";

/* 1 the scope's key, 2 embedder, 3 rows. */
static const char missing_vectors[] =
    "SELECT s.id, coalesce(e.upto, 0), coalesce(m.id, 0), m.text FROM @.memory_scope s"
    " LEFT JOIN @.memory_embedded e ON e.scope = s.id AND e.embedder = $2::bytea"
    " LEFT JOIN LATERAL (SELECT x.id, x.text FROM @.memory x WHERE x.scope = s.id AND x.id > coalesce(e.upto, 0)"
    "  ORDER BY x.id LIMIT $3::bigint) m ON true WHERE s.key_hash = $1::bytea ORDER BY m.id";
static const char lock_scope[] = "SELECT id FROM @.memory_scope WHERE id = $1::bigint FOR UPDATE";
/* 1 scope, 2 embedder, 3 up to which memory there were vectors, 4 up to which there are then, 5 ids, 6 scales, 7
 * numbers, 8 texts. */
static const char put_vectors[] =
    "WITH ok AS (SELECT 1 WHERE coalesce((SELECT upto FROM @.memory_embedded WHERE scope = $1::bigint"
    "  AND embedder = $2::bytea), 0) = $3::bigint),"
    " put AS (INSERT INTO @.memory_vector (memory, scope, scale, bytes) SELECT m.id, m.scope, g.scale, g.bytes FROM ok"
    "  CROSS JOIN unnest($5::bigint[], $6::bigint[], $7::bytea[], $8::bytea[]) AS g(id, scale, bytes, text)"
    "  JOIN @.memory m ON m.id = g.id AND m.scope = $1::bigint AND m.text = g.text"
    "  ON CONFLICT (memory) DO UPDATE SET scale = excluded.scale, bytes = excluded.bytes RETURNING 1)"
    " INSERT INTO @.memory_embedded (scope, embedder, upto) SELECT $1::bigint, $2::bytea, $4::bigint FROM ok"
    " ON CONFLICT (scope) DO UPDATE SET embedder = excluded.embedder, upto = excluded.upto";
/* 1 the scope's key, 2 embedder, 3 after which memory, 4 rows. */
static const char read_vectors_sql[] =
    "SELECT v.memory, v.scale, v.bytes FROM @.memory_scope s"
    " JOIN @.memory_embedded e ON e.scope = s.id AND e.embedder = $2::bytea"
    " JOIN @.memory_vector v ON v.scope = s.id AND v.memory > $3::bigint AND v.memory <= e.upto"
    " JOIN @.memory m ON m.id = v.memory AND m.replaced_ms = 0"
    " WHERE s.key_hash = $1::bytea ORDER BY v.memory LIMIT $4::bigint";

/* ---- the works that keep ---- */

static putting *putting_of(const tp__pg_flight *f, size_t index) {
  tp__pg_work *work = f->works[index];
  return work->class == &tp__pg_memory_class ? (putting *)(void *)work : NULL; /* the work comes first */
}

typedef enum scope_column { SCOPE_KEY, SCOPE_TENANT, SCOPE_KIND, SCOPE_NAME, SCOPE_COLUMNS } scope_column;

static void put_scopes(tp__pg_flight *f, size_t count, scope_column column) {
  tp__bytes *array = tp__pg_parameter_array(f->parameters, TP__PG_BYTEA, count);
  for (size_t i = 0; i < f->count; i++) {
    const putting *p = putting_of(f, i);
    for (size_t k = 0; p && k < p->scope_count; k++) {
      const tp_memory_scope *of = &p->of[k];
      tp__pg_put_bytes(array, column == SCOPE_KEY      ? text_of_key(&p->scopes[k])
                              : column == SCOPE_TENANT ? of->tenant
                              : column == SCOPE_KIND   ? of->scope
                                                       : of->name);
    }
  }
}

static bool build(void *ctx, tp__pg_lane lane, tp__pg_flight *f) {
  const memory_store *store = NULL;
  size_t count = 0;
  (void)ctx, (void)lane;
  for (size_t i = 0; i < f->count; i++) {
    const putting *p = putting_of(f, i);
    if (!p) continue;
    store = p->store;
    count += p->scope_count;
  }
  if (!store) return true;
  for (int column = SCOPE_KEY; column < SCOPE_COLUMNS; column++) put_scopes(f, count, (scope_column)column);
  if (!tp__pg_flight_send(f, store->add_sql, NULL)) return false;
  put_scopes(f, count, SCOPE_KEY);
  return tp__pg_flight_send(f, store->lock_sql, NULL) && tp__pg_requests_build(&tp__pg_memory_class, f);
}

/* A scope whose name was deleted after it was added is added again. */
static void settle(void *ctx, tp__pg_lane lane, tp__pg_flight *f) {
  (void)ctx, (void)lane;
  tp__pg_requests_settle(&tp__pg_memory_class, f);
  for (size_t i = 0; i < f->count; i++) {
    putting *p = putting_of(f, i);
    if (!p) continue;
    const PGresult *rows = tp__pg_request_rows(&p->request, 0);
    if ((size_t)tp__pg_int(rows, 0, 1) == p->given) continue;
    p->request.work.again = true;
    tp__pg_request_clear_rows(&p->request);
  }
}

const tp__pg_class tp__pg_memory_class = {.build = build, .settle = settle};

static void putting_free(putting *p) {
  tp__pg_request_fini(&p->request);
  tp__heap_free(p->scopes, p->count * sizeof *p->scopes);
  tp__heap_free(p->of, p->count * sizeof *p->of);
  tp__heap_free(p->which, p->count * sizeof *p->which);
  tp__heap_free(p->names, p->names_size);
  tp__heap_free(p, sizeof *p);
}

/** What is put into the arrays: entries without repetitions, in the order of the first of each. */
typedef struct given_entry {
  hash_key scope, key;
  const tp_memory_entry *first, *last, *last_fact; /* of the same key; NULL: none has a subject */
  int64_t replaces;
} given_entry;

static bool same_key(const hash_key *a, const hash_key *b) { return memcmp(a, b, sizeof *a) == 0; }

/* Open addressing by what is random in a key. */
static size_t slot_of(const given_entry *given, const uint32_t *slots, size_t mask, const given_entry *wanted) {
  uint64_t hash, of_scope;
  memcpy(&hash, wanted->key.bytes, sizeof hash);
  memcpy(&of_scope, wanted->scope.bytes, sizeof of_scope);
  size_t at = (size_t)(hash ^ of_scope) & mask;
  for (; slots[at]; at = (at + 1) & mask) {
    const given_entry *there = &given[slots[at] - 1];
    if (same_key(&there->key, &wanted->key) && same_key(&there->scope, &wanted->scope)) break;
  }
  return at;
}

static void note_scope(putting *p, const hash_key *key, const tp_memory_entry *e) {
  for (size_t i = p->scope_count; i > 0; i--)
    if (same_key(&p->scopes[i - 1], key)) return;
  assert(p->scope_count < p->count);
  p->scopes[p->scope_count] = *key;
  p->of[p->scope_count++] = owner_of(e);
}

/* @param slots  of mask + 1, all 0, more than twice as many as entries. */
static void choose_given(putting *p, const tp_memory_entry *const *entries, const int64_t *replaces, given_entry *given,
                         uint32_t *slots, size_t mask) {
  hash_key scope = {{0}};
  for (size_t i = 0; i < p->count; i++) {
    const tp_memory_entry *e = entries[i];
    const tp_memory_scope owner = owner_of(e);
    scope = key_of_scope(&owner);
    note_scope(p, &scope, e);
    const given_entry wanted = {.scope = scope, .key = key_of_entry(e), .first = e, .replaces = 0};
    const size_t at = slot_of(given, slots, mask, &wanted);
    if (!slots[at]) {
      given[p->given++] = wanted;
      slots[at] = (uint32_t)p->given;
    }
    given_entry *g = &given[slots[at] - 1];
    g->last = e;
    if (e->subject.size) g->last_fact = e;
    if (replaces && replaces[i]) g->replaces = replaces[i];
    p->which[i] = slots[at] - 1;
    assert(p->which[i] < p->given && p->given <= p->count);
  }
}

static tp_text text_of_given(const given_entry *g, int column) {
  const tp_text none = {"", 0};
  switch (column) {
    case 0:
      return g->first->session;
    case 1:
      return g->first->turn;
    case 2:
      return g->first->part;
    case 3:
      return g->last->text;
    default:
      return g->last_fact ? g->last_fact->subject : none;
  }
}

static void put_keys(tp__pg_parameters *to, const given_entry *given, size_t count) {
  tp__bytes *array = tp__pg_parameter_array(to, TP__PG_BYTEA, count);
  for (size_t i = 0; i < count; i++) tp__pg_put_bytes(array, text_of_key(&given[i].scope));
  array = tp__pg_parameter_array(to, TP__PG_BYTEA, count);
  for (size_t i = 0; i < count; i++) tp__pg_put_bytes(array, text_of_key(&given[i].key));
}

static void put_given(putting *p, const given_entry *given, bool as_facts) {
  enum { TEXT_COLUMNS = 5 };
  tp__pg_parameters *to = tp__pg_request_add(&p->request, put_entries);
  put_keys(to, given, p->given);
  tp__bytes *array = tp__pg_parameter_array(to, TP__PG_INT8, p->given);
  for (size_t i = 0; i < p->given; i++) tp__pg_put_int(array, given[i].first->said_unix_ms);
  for (int column = 0; column < TEXT_COLUMNS; column++) {
    array = tp__pg_parameter_array(to, TP__PG_BYTEA, p->given);
    for (size_t i = 0; i < p->given; i++) tp__pg_put_bytes(array, text_of_given(&given[i], column));
  }
  array = tp__pg_parameter_array(to, TP__PG_INT8, p->given);
  for (size_t i = 0; i < p->given; i++)
    tp__pg_put_int(array, given[i].last_fact ? given[i].last_fact->replaced_unix_ms : 0);
  tp__pg_parameter_bool(to, as_facts);
  if (!as_facts) return;
  to = tp__pg_request_add(&p->request, replace_facts);
  put_keys(to, given, p->given);
  array = tp__pg_parameter_array(to, TP__PG_INT8, p->given);
  for (size_t i = 0; i < p->given; i++) tp__pg_put_int(array, given[i].replaces);
}

/* The names of the scopes, which the caller of put_later may free before they are sent. */
static bool copy_names(putting *p) {
  for (size_t i = 0; i < p->scope_count; i++)
    p->names_size += p->of[i].tenant.size + p->of[i].scope.size + p->of[i].name.size;
  p->names_size++;
  p->names = tp__heap_alloc(p->names_size);
  char *at = p->names;
  for (size_t i = 0; at && i < p->scope_count; i++) {
    tp_text *const texts[] = {&p->of[i].tenant, &p->of[i].scope, &p->of[i].name};
    for (int k = 0; k < 3; k++) {
      if (texts[k]->size) memcpy(at, texts[k]->data, texts[k]->size);
      texts[k]->data = at;
      at += texts[k]->size;
    }
  }
  return at != NULL;
}

/* @param replaces  NULL: they are no facts that a model extracted. @return NULL without memory. */
static putting *putting_new(memory_store *store, const tp_memory_entry *const *entries, size_t count,
                            const int64_t *replaces) {
  size_t slot_count = 4;
  assert(count > 0 && entries);
  while (slot_count < 2 * count + 2) slot_count *= 2;
  putting *p = tp__heap_alloc(sizeof *p);
  given_entry *given = tp__heap_alloc(count * sizeof *given);
  uint32_t *slots = tp__heap_alloc(slot_count * sizeof *slots);
  bool has_memory = p && given && slots;
  if (p) {
    tp__pg_request_init(&p->request, store->postgres, TP__PG_WRITES, "keep memories");
    p->request.work.class = &tp__pg_memory_class;
    p->store = store;
    p->count = count;
    p->scopes = tp__heap_alloc(count * sizeof *p->scopes);
    p->of = tp__heap_alloc(count * sizeof *p->of);
    p->which = tp__heap_alloc(count * sizeof *p->which);
    has_memory = has_memory && p->scopes && p->of && p->which;
  }
  if (has_memory) {
    choose_given(p, entries, replaces, given, slots, slot_count - 1);
    put_given(p, given, replaces != NULL);
    has_memory = copy_names(p);
  }
  tp__heap_free(slots, slot_count * sizeof *slots);
  tp__heap_free(given, count * sizeof *given);
  if (has_memory) return p;
  if (p) putting_free(p);
  return NULL;
}

static tp_status no_memory(const memory_store *store, tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_NO_MEMORY, store->postgres->target.name, "%s: no memory for memories",
                    store->postgres->target.name);
}

static tp_status put(void *ctx, const tp_memory_entry *const *entries, size_t count, int64_t *ret_ids,
                     tp_fault *fault) {
  memory_store *store = ctx;
  if (count == 0) return TP_OK;
  putting *p = putting_new(store, entries, count, NULL);
  if (!p) return no_memory(store, fault);
  tp_status status = tp__pg_request_run(&p->request, fault);
  for (size_t i = 0; status == TP_OK && ret_ids && i < count; i++)
    ret_ids[i] = tp__pg_int(tp__pg_request_rows(&p->request, 0), (int)p->which[i], 0);
  putting_free(p);
  return status;
}

static tp_status put_facts(void *ctx, const tp_memory_entry *const *facts, const int64_t *replaces, size_t count,
                           size_t *ret_kept, tp_fault *fault) {
  memory_store *store = ctx;
  *ret_kept = 0;
  if (count == 0) return TP_OK;
  putting *p = putting_new(store, facts, count, replaces);
  if (!p) return no_memory(store, fault);
  tp_status status = tp__pg_request_run(&p->request, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&p->request, 0) : NULL;
  for (int i = 0; status == TP_OK && i < PQntuples(rows); i++) *ret_kept += tp__pg_int(rows, i, 0) != 0;
  putting_free(p);
  return status;
}

/* ---- later ---- */

static void store_free(memory_store *store) {
  tp_postgres *postgres = store->postgres;
  tp__lock_condition_fini(&store->ended);
  tp__lock_fini(&store->mutex);
  tp__heap_string_free(store->add_sql);
  tp__heap_string_free(store->lock_sql);
  tp__heap_free(store, sizeof *store);
  tp__pg_unref(postgres);
}

static void put_ended(tp__pg_work *work) {
  putting *p = (putting *)(void *)work;
  memory_store *store = p->store;
  tp_memory_put_fn end = p->end;
  void *end_ctx = p->end_ctx;
  tp_status status = work->status;
  putting_free(p);
  end(end_ctx, status);
  tp__lock_acquire(&store->mutex);
  assert(store->open > 0);
  const bool is_last = --store->open == 0 && store->is_destroyed;
  tp__lock_condition_broadcast(&store->ended);
  tp__lock_release(&store->mutex);
  if (is_last) store_free(store);
}

static tp_status put_later(void *ctx, const tp_memory_entry *const *entries, size_t count, tp_memory_put_fn end,
                           void *end_ctx) {
  memory_store *store = ctx;
  putting *p = putting_new(store, entries, count, NULL);
  if (!p) return TP_ERR_NO_MEMORY;
  p->end = end;
  p->end_ctx = end_ctx;
  p->request.work.end = put_ended;
  tp__lock_acquire(&store->mutex);
  store->open++;
  tp__lock_release(&store->mutex);
  if (tp__pg_request_submit(&p->request)) return TP_OK;
  tp__lock_acquire(&store->mutex);
  store->open--;
  tp__lock_release(&store->mutex);
  putting_free(p);
  return TP_ERR_NO_MEMORY;
}

/* On the database's own thread nobody can wait for it: what ends last frees the store. */
static void destroy(void *ctx) {
  memory_store *store = ctx;
  const bool waits = !tp__pg_is_own_thread(store->postgres->pool);
  tp__lock_acquire(&store->mutex);
  while (waits && store->open > 0) tp__lock_condition_wait(&store->ended, &store->mutex);
  store->is_destroyed = true;
  const bool is_last = store->open == 0;
  tp__lock_release(&store->mutex);
  if (is_last) store_free(store);
}

/* ---- deleting ---- */

static void put_ids(tp__pg_parameters *to, const int64_t *ids, size_t count) {
  tp__bytes *array = tp__pg_parameter_array(to, TP__PG_INT8, count);
  for (size_t i = 0; i < count; i++) tp__pg_put_int(array, ids[i]);
}

static tp_status erase(void *ctx, const tp_memory_scope *owner, const int64_t *ids, size_t count, size_t *ret_count,
                       tp_fault *fault) {
  enum { COUNTED = 3 };
  memory_store *store = ctx;
  const int64_t batch = tp__pg_next_batch(store->postgres);
  const hash_key key = owner ? key_of_scope(owner) : (hash_key){{0}};
  tp__pg_request r;
  assert(ids || count == 0);
  *ret_count = 0;
  tp__pg_request_init(&r, store->postgres, TP__PG_WRITES, "delete memories");
  r.work.exclusive = true;
  for (int i = 0; i < 2; i++) {
    tp__pg_parameters *to = tp__pg_request_add(&r, i ? erase_rows : erase_lock);
    put_ids(to, ids, count);
    tp__pg_parameter_text(to, owner ? text_of_key(&key) : (tp_text){"", 0});
    if (i) tp__pg_parameter_int(to, batch);
  }
  tp__pg_parameter_int(tp__pg_request_add(&r, owner ? erase_count : erase_names), batch);
  tp__pg_parameter_int(tp__pg_request_add(&r, erase_count), batch);
  (void)tp__pg_request_add(&r, erase_notes);
  tp_status status = tp__pg_request_run(&r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, COUNTED) : NULL;
  if (status == TP_OK && PQntuples(rows) == 1) *ret_count = (size_t)tp__pg_int(rows, 0, 0);
  tp__pg_request_fini(&r);
  return status;
}

/* ---- reading ---- */

static tp__pg_parameters *begin_read(memory_store *store, const char *doing, const char *sql, tp__pg_request *ret_r) {
  tp__pg_request_init(ret_r, store->postgres, TP__PG_READS, doing);
  return tp__pg_request_add(ret_r, sql);
}

/* Passes rows of SCOPED_ROWS, and ends the request. */
static tp_status show_entries(tp__pg_request *r, tp_memory_entry_fn each, void *each_ctx, tp_fault *fault) {
  tp_status status = tp__pg_request_run(r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(r, 0) : NULL;
  bool more = status == TP_OK;
  for (int i = 0; more && i < PQntuples(rows); i++) {
    const tp_memory_entry entry = {.struct_size = sizeof entry,
                                   .id = tp__pg_int(rows, i, 0),
                                   .said_unix_ms = tp__pg_int(rows, i, 1),
                                   .replaced_unix_ms = tp__pg_int(rows, i, 2),
                                   .replaced_by = tp__pg_int(rows, i, 3),
                                   .session = tp__pg_text(rows, i, 4),
                                   .turn = tp__pg_text(rows, i, 5),
                                   .part = tp__pg_text(rows, i, 6),
                                   .text = tp__pg_text(rows, i, 7),
                                   .subject = tp__pg_text(rows, i, 8),
                                   .tenant = tp__pg_text(rows, i, 9),
                                   .scope = tp__pg_text(rows, i, 10),
                                   .name = tp__pg_text(rows, i, 11)};
    more = each(each_ctx, &entry);
  }
  tp__pg_request_fini(r);
  return status;
}

static bool show_line(const PGresult *rows, int i, tp_memory_entry_fn each, void *each_ctx) {
  const tp_memory_entry entry = {.struct_size = sizeof entry,
                                 .id = tp__pg_int(rows, i, 3),
                                 .said_unix_ms = tp__pg_int(rows, i, 4),
                                 .session = tp__pg_text(rows, i, 5),
                                 .part = tp__pg_text(rows, i, 6),
                                 .text = tp__pg_text(rows, i, 7),
                                 .subject = tp__pg_text(rows, i, 8)};
  return each(each_ctx, &entry);
}

/* Some rows. @param mark  what the reader has, and has then. @param ret_more  there are more. */
static tp_status read_some_news(memory_store *store, const hash_key *key, tp_memory_mark *mark, bool is_first,
                                bool *ret_is_anew, tp_memory_entry_fn each, void *each_ctx, bool *ret_more,
                                tp_fault *fault) {
  tp__pg_request r;
  tp__pg_parameters *to = begin_read(store, "read what is new of a memory", read_news, &r);
  tp__pg_parameter_text(to, text_of_key(key));
  tp__pg_parameter_int(to, mark->scope);
  tp__pg_parameter_int(to, mark->changes);
  tp__pg_parameter_int(to, mark->last);
  tp__pg_parameter_int(to, ROWS_AT_ONCE);
  tp_status status = tp__pg_request_run(&r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, 0) : NULL;
  const int count = status == TP_OK ? PQntuples(rows) : 0;
  const bool has_rows = count > 0 && tp__pg_int(rows, 0, 3) > 0;
  const bool same = count > 0 && tp__pg_int(rows, 0, 0) == mark->scope && tp__pg_int(rows, 0, 1) == mark->changes;
  *ret_more = status == TP_OK && count == ROWS_AT_ONCE && has_rows;
  if (status == TP_OK && is_first) {
    *ret_is_anew = !same;
    if (!same) *mark = (tp_memory_mark){.struct_size = sizeof *mark};
    if (!same && count > 0) mark->scope = tp__pg_int(rows, 0, 0);
    if (!same && count > 0) mark->changes = tp__pg_int(rows, 0, 1);
  } else if (!same) {
    *ret_more = false; /* it was changed meanwhile: the mark is of before, so the next time all of it comes */
    status = status == TP_OK ? TP_OK : status;
  }
  for (int i = 0; status == TP_OK && (is_first || same) && has_rows && i < count; i++) {
    mark->last = tp__pg_int(rows, i, 3);
    mark->lines++;
    if (show_line(rows, i, each, each_ctx)) continue;
    *ret_more = false;
    break;
  }
  if (status == TP_OK && count > 0 && (is_first || same) && count < ROWS_AT_ONCE) mark->last = tp__pg_int(rows, 0, 2);
  tp__pg_request_fini(&r);
  return status;
}

static tp_status news(void *ctx, const tp_memory_scope *owner, const tp_memory_mark *mark, bool *ret_is_anew,
                      tp_memory_entry_fn each, void *each_ctx, tp_memory_mark *ret_mark, tp_fault *fault) {
  const hash_key key = key_of_scope(owner);
  bool more = true;
  tp_status status = TP_OK;
  *ret_mark = *mark;
  for (bool is_first = true; status == TP_OK && more; is_first = false)
    status = read_some_news(ctx, &key, ret_mark, is_first, ret_is_anew, each, each_ctx, &more, fault);
  return status;
}

static tp_status get(void *ctx, int64_t scope, const int64_t *ids, size_t count, tp_memory_entry_fn each,
                     void *each_ctx, tp_fault *fault) {
  tp__pg_request r;
  tp__pg_parameters *to = begin_read(ctx, "read memories", get_entries, &r);
  put_ids(to, ids, count);
  tp__pg_parameter_int(to, scope);
  return show_entries(&r, each, each_ctx, fault);
}

static tp_status list(void *ctx, const tp_memory_scope *owner, const tp_memory_query *query, tp_memory_entry_fn each,
                      void *each_ctx, tp_fault *fault) {
  const hash_key key = owner ? key_of_scope(owner) : (hash_key){{0}};
  const char *const names[] = {query->tenant, query->scope, query->name};
  const bool oldest_first = !owner && query->oldest_first;
  tp__pg_request r;
  tp__pg_parameters *to = begin_read(ctx, "list memories", oldest_first ? list_oldest : list_newest, &r);
  tp__pg_parameter_text(to, owner ? text_of_key(&key) : (tp_text){"", 0});
  for (int i = 0; i < 3; i++) {
    const char *name = owner ? NULL : names[i];
    tp__pg_parameter_bool(to, name != NULL);
    tp__pg_parameter_text(to, name ? tp_text_of(name) : (tp_text){"", 0});
  }
  tp__pg_parameter_int(to, query->beyond > 0 ? query->beyond : 0);
  tp__pg_parameter_int(to, query->limit);
  return show_entries(&r, each, each_ctx, fault);
}

static tp_status facts(void *ctx, const tp_memory_scope *owner, int64_t id, size_t limit, tp_memory_entry_fn each,
                       void *each_ctx, tp_fault *fault) {
  const hash_key key = key_of_scope(owner);
  tp__pg_request r;
  tp__pg_parameters *to = begin_read(ctx, "list facts", id ? list_history : list_facts, &r);
  tp__pg_parameter_text(to, text_of_key(&key));
  tp__pg_parameter_int(to, (int64_t)limit);
  if (id) tp__pg_parameter_int(to, id);
  return show_entries(&r, each, each_ctx, fault);
}

static tp_status scopes(void *ctx, tp_memory_scope_fn each, void *each_ctx, tp_fault *fault) {
  tp__pg_request r;
  (void)begin_read(ctx, "list the scopes of a memory", list_scopes, &r);
  tp_status status = tp__pg_request_run(&r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, 0) : NULL;
  bool more = status == TP_OK;
  for (int i = 0; more && i < PQntuples(rows); i++) {
    const tp_memory_scope scope = {.struct_size = sizeof scope,
                                   .tenant = tp__pg_text(rows, i, 0),
                                   .scope = tp__pg_text(rows, i, 1),
                                   .name = tp__pg_text(rows, i, 2),
                                   .memories = tp__pg_int(rows, i, 3)};
    more = each(each_ctx, &scope);
  }
  tp__pg_request_fini(&r);
  return status;
}

/* ---- vectors ---- */

static tp_status vectors_missing(void *ctx, const tp_memory_scope *owner, const char *embedder, size_t limit,
                                 tp_memory_entry_fn each, void *each_ctx, tp_memory_mark *ret_mark, tp_fault *fault) {
  const hash_key key = key_of_scope(owner);
  tp__pg_request r;
  assert(limit > 0 && embedder);
  tp__pg_parameters *to = begin_read(ctx, "look for memories without vectors", missing_vectors, &r);
  tp__pg_parameter_text(to, text_of_key(&key));
  tp__pg_parameter_text(to, tp_text_of(embedder));
  tp__pg_parameter_int(to, (int64_t)limit);
  *ret_mark = (tp_memory_mark){.struct_size = sizeof *ret_mark};
  tp_status status = tp__pg_request_run(&r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, 0) : NULL;
  bool more = status == TP_OK;
  for (int i = 0; more && i < PQntuples(rows); i++) {
    ret_mark->scope = tp__pg_int(rows, i, 0);
    ret_mark->last = tp__pg_int(rows, i, 1);
    const tp_memory_entry entry = {
        .struct_size = sizeof entry, .id = tp__pg_int(rows, i, 2), .text = tp__pg_text(rows, i, 3)};
    more = entry.id > 0 && each(each_ctx, &entry);
  }
  tp__pg_request_fini(&r);
  return status;
}

static int64_t bits_of(double number) {
  int64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static tp_status vectors_put(void *ctx, const tp_memory_mark *mark, const char *embedder,
                             const tp_memory_vector *const *vectors, size_t count, int64_t upto, tp_fault *fault) {
  memory_store *store = ctx;
  tp__pg_request r;
  assert(count > 0 && vectors[count - 1]->id <= upto);
  tp__pg_request_init(&r, store->postgres, TP__PG_WRITES, "keep vectors");
  r.work.exclusive = true;
  tp__pg_parameter_int(tp__pg_request_add(&r, lock_scope), mark->scope);
  tp__pg_parameters *to = tp__pg_request_add(&r, put_vectors);
  tp__pg_parameter_int(to, mark->scope);
  tp__pg_parameter_text(to, tp_text_of(embedder));
  tp__pg_parameter_int(to, mark->last);
  tp__pg_parameter_int(to, upto);
  tp__bytes *array = tp__pg_parameter_array(to, TP__PG_INT8, count);
  for (size_t i = 0; i < count; i++) tp__pg_put_int(array, vectors[i]->id);
  array = tp__pg_parameter_array(to, TP__PG_INT8, count);
  for (size_t i = 0; i < count; i++) tp__pg_put_int(array, bits_of(vectors[i]->scale));
  array = tp__pg_parameter_array(to, TP__PG_BYTEA, count);
  for (size_t i = 0; i < count; i++)
    tp__pg_put_bytes(array, (tp_text){(const char *)vectors[i]->numbers, vectors[i]->dimensions});
  array = tp__pg_parameter_array(to, TP__PG_BYTEA, count);
  for (size_t i = 0; i < count; i++) tp__pg_put_bytes(array, vectors[i]->text);
  tp_status status = tp__pg_request_run(&r, fault);
  tp__pg_request_fini(&r);
  return status;
}

static tp_status read_vectors(void *ctx, const tp_memory_scope *owner, const char *embedder, int64_t *after,
                              tp_memory_vector_fn each, void *each_ctx, tp_fault *fault) {
  const hash_key key = key_of_scope(owner);
  tp__pg_request r;
  tp__pg_parameters *to = begin_read(ctx, "read vectors", read_vectors_sql, &r);
  tp__pg_parameter_text(to, text_of_key(&key));
  tp__pg_parameter_text(to, tp_text_of(embedder));
  tp__pg_parameter_int(to, *after);
  tp__pg_parameter_int(to, VECTORS_AT_ONCE);
  assert(*after >= 0);
  *after = 0;
  tp_status status = tp__pg_request_run(&r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, 0) : NULL;
  const int count = status == TP_OK ? PQntuples(rows) : 0;
  bool more = true;
  for (int i = 0; more && i < count; i++) {
    const tp_text numbers = tp__pg_text(rows, i, 2);
    const int64_t bits = tp__pg_int(rows, i, 1);
    tp_memory_vector vector = {.struct_size = sizeof vector,
                               .id = tp__pg_int(rows, i, 0),
                               .numbers = (const int8_t *)numbers.data,
                               .dimensions = numbers.size};
    memcpy(&vector.scale, &bits, sizeof vector.scale);
    more = each(each_ctx, &vector);
    if (count == VECTORS_AT_ONCE) *after = vector.id;
  }
  tp__pg_request_fini(&r);
  return status;
}

/* ---- life ---- */

static const tp_memory_store functions = {.struct_size = sizeof functions,
                                          .put = put,
                                          .put_later = put_later,
                                          .put_facts = put_facts,
                                          .news = news,
                                          .get = get,
                                          .list = list,
                                          .facts = facts,
                                          .scopes = scopes,
                                          .erase = erase,
                                          .vectors_missing = vectors_missing,
                                          .vectors_put = vectors_put,
                                          .vectors = read_vectors,
                                          .destroy = destroy};

tp_status tp_postgres_memory(tp_postgres *postgres, tp_memory_store *ret_store, tp_fault *fault) {
  if (!postgres || !ret_store)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_memory: postgres and ret_store are needed");
  if (ret_store->struct_size < sizeof functions)
    return tp__refuse(fault, TP_ERR_VERSION, NULL,
                      "tp_memory_store: struct_size is %zu; set it to sizeof(tp_memory_store)", ret_store->struct_size);
  memory_store *store = tp__heap_alloc(sizeof *store);
  if (store) {
    store->add_sql = tp__pg_expand(add_scopes, postgres->quoted);
    store->lock_sql = tp__pg_expand(lock_scopes, postgres->quoted);
  }
  if (!store || !store->add_sql || !store->lock_sql) {
    if (store) tp__heap_string_free(store->add_sql);
    if (store) tp__heap_string_free(store->lock_sql);
    tp__heap_free(store, sizeof *store);
    return tp__refuse(fault, TP_ERR_NO_MEMORY, postgres->target.name, "%s: no memory for its memories",
                      postgres->target.name);
  }
  tp__lock_init(&store->mutex, TP__LOCK_postgres_memory);
  tp__lock_condition_init(&store->ended);
  store->postgres = postgres;
  tp__references_ref(&postgres->references);
  const size_t struct_size = ret_store->struct_size;
  memset(ret_store, 0, struct_size);
  *ret_store = functions;
  ret_store->struct_size = struct_size;
  ret_store->ctx = store;
  return TP_OK;
}
