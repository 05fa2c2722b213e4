/* SPDX-License-Identifier: Apache-2.0
 *
 * Each statement serves all works of one kind in a transaction at once: its parameters are arrays with one element for
 * each work, and `k` is the work's index. The row of each work succeeds or fails by itself. '@' is the schema.
 *
 * The sessions of a transaction are locked first, in the order of their ids, so that two transactions never wait for
 * each other. The later statements see what earlier transactions have committed (READ COMMITTED). So a statement never
 * decides by an old version of a row for which it waited. */
#include "stores/postgres/postgres.h"

/* The epochs of a session begin after its number times this. So a session that was deleted and begun anew never has an
 * earlier epoch again, and a turn that was stopped meanwhile is fenced. */
#define EPOCHS "268435456"
#define OF_NAMES "s.tenant = c.tenant AND s.name = c.name"
#define LIVES "EXISTS (SELECT 1 FROM @.process p WHERE p.id = s.owner AND p.lease_end > clock_timestamp())"
#define MESSAGE_COLUMNS                                                                                          \
  "m.role::bigint, m.is_error, m.turn, m.text, m.call_id, m.name, m.parts, m.value, m.provider_data, m.ending, " \
  "m.calls"

const char *const tp__pg_history_sql[TP__PG_STATEMENTS] = {
    [TP__PG_BEAT] =
        "INSERT INTO @.process (id, address, lease_end, started)"
        " SELECT c.id, $2::text, clock_timestamp() + $3::bigint * interval '1 millisecond', clock_timestamp()"
        " FROM unnest($1::bigint[]) AS c(id) ORDER BY c.id"
        " ON CONFLICT (id) DO UPDATE SET lease_end = excluded.lease_end",
    [TP__PG_SWEEP] = "DELETE FROM @.process WHERE lease_end < clock_timestamp() - interval '1 hour'",
    [TP__PG_LEAVE] = "DELETE FROM @.process WHERE id = ANY ($1::bigint[])",
    /* Adds sessions in the order of the arrays. */
    [TP__PG_ADD_SESSIONS] =
        "INSERT INTO @.session (tenant, name, next, owner, epoch, running)"
        " SELECT c.tenant, c.name, 0, 0, 0, false FROM unnest($1::text[], $2::text[]) AS c(tenant, name)"
        " WHERE NOT EXISTS (SELECT 1 FROM @.session s WHERE " OF_NAMES ") ON CONFLICT (tenant, name) DO NOTHING",
    [TP__PG_LOCK_SESSIONS] =
        "SELECT s.id FROM unnest($1::text[], $2::text[]) AS c(tenant, name) JOIN @.session s ON " OF_NAMES
        " ORDER BY s.id FOR UPDATE OF s",
    [TP__PG_CLAIM] = "UPDATE @.session s SET owner = c.process, epoch = greatest(s.epoch, s.id * " EPOCHS
                     ") + 1, running = true"
                     " FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS c(k, tenant, name, process)"
                     " WHERE " OF_NAMES " AND (NOT s.running OR s.owner = c.process OR NOT " LIVES
                     ")"
                     " RETURNING c.k, s.id, s.epoch, s.next",
    /* Reads the messages of the sessions that were claimed, by the same rule as in fill_claim(). */
    [TP__PG_CLAIMED_MESSAGES] =
        "SELECT c.k, " MESSAGE_COLUMNS
        " FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])"
        " AS c(k, tenant, name, process, number, after)"
        " JOIN @.session s ON " OF_NAMES
        " AND s.running AND s.owner = c.process"
        " CROSS JOIN LATERAL (SELECT * FROM @.message x WHERE x.session = s.id AND x.position >="
        " CASE WHEN s.id = c.number AND c.after <= s.next THEN c.after ELSE 0 END ORDER BY x.position) m"
        " ORDER BY c.k, m.position",
    /* Appends. fence 0: the turn has no claim. batch 0: the append is not in doubt. */
    [TP__PG_APPEND] =
        "WITH ok AS (UPDATE @.session s SET next = s.next + c.size, running = s.running AND c.fence = 0"
        " FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],"
        " $8::bigint[]) AS c(k, tenant, name, number, fence, position, size, batch)"
        " WHERE " OF_NAMES
        " AND ((c.fence = 0 AND NOT (c.batch <> 0 AND EXISTS (SELECT 1 FROM @.message m"
        " WHERE m.session = s.id AND m.batch = c.batch)))"
        " OR (s.running AND s.id = c.number AND s.epoch = c.fence AND s.next = c.position))"
        " RETURNING c.k AS k, s.id AS session, s.next - c.size AS position),"
        " added AS (INSERT INTO @.message (session, position, batch, appended, " TP__PG_MESSAGE_NAMES
        ") SELECT ok.session, ok.position + m.i, m.batch, clock_timestamp(), " MESSAGE_COLUMNS
        " FROM ok JOIN unnest($9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::boolean[],"
        " $14::bytea[], $15::bytea[], $16::bytea[], $17::bytea[], $18::bytea[], $19::bytea[], $20::bytea[],"
        " $21::bytea[], $22::bytea[]) AS m(k, i, batch, " TP__PG_MESSAGE_NAMES
        ") ON m.k = ok.k RETURNING 1) SELECT ok.k FROM ok",
    /* For appends in doubt: finds those that were committed before. An append of no messages has ended its claim. */
    [TP__PG_PROVE] =
        "SELECT c.k FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],"
        " $7::bigint[], $8::bigint[]) AS c(k, tenant, name, number, fence, position, size, batch)"
        " LEFT JOIN @.session s ON " OF_NAMES
        " WHERE CASE WHEN c.size > 0 THEN EXISTS (SELECT 1 FROM @.message m WHERE m.session = s.id"
        " AND m.position >= c.position AND m.batch = c.batch)"
        " ELSE (s.id IS NULL AND c.position = 0) OR (s.id = c.number AND s.epoch = c.fence AND NOT s.running) END",
    [TP__PG_DROP_EMPTY] =
        "DELETE FROM @.session WHERE id = ANY ($1::bigint[]) AND next = 0 AND NOT running"
        " AND epoch = id * " EPOCHS " + 1",
    [TP__PG_DELETE] =
        "WITH gone AS (DELETE FROM @.session s USING unnest($1::bigint[], $2::text[], $3::text[])"
        " AS c(k, tenant, name) WHERE " OF_NAMES " AND NOT (s.running AND " LIVES
        ")"
        " RETURNING c.k AS k, s.id AS id, s.next AS next),"
        " messages AS (DELETE FROM @.message m USING gone WHERE m.session = gone.id RETURNING 1)"
        " SELECT gone.k, gone.next FROM gone",
    /* For claims and deletions that failed: finds the process that has the session. */
    [TP__PG_HOLDERS] =
        "SELECT c.k, coalesce(p.address, ''),"
        " coalesce(ceil(extract(epoch FROM p.lease_end - clock_timestamp()) * 1000), 0)::bigint"
        " FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS c(k, tenant, name, process)"
        " JOIN @.session s ON " OF_NAMES
        " LEFT JOIN @.process p ON p.id = s.owner WHERE s.running AND s.owner <> c.process",
    [TP__PG_MESSAGES] =
        "SELECT c.k, " MESSAGE_COLUMNS
        " FROM unnest($1::bigint[], $2::text[], $3::text[]) AS c(k, tenant, name) JOIN @.session s ON " OF_NAMES
        " CROSS JOIN LATERAL (SELECT * FROM @.message x WHERE x.session = s.id ORDER BY x.position) m"
        " ORDER BY c.k, m.position",
    [TP__PG_LIST] =
        "SELECT s.id, s.tenant, s.name, (SELECT count(*) FROM @.message m WHERE m.session = s.id) FROM @.session s"
        " WHERE s.id > $1::bigint AND ($3::text = '' OR s.tenant = $3::text) AND s.next > 0"
        " ORDER BY s.id LIMIT $2::bigint"};
