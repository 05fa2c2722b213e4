/* SPDX-License-Identifier: Apache-2.0
 *
 * Forking sessions. A fork is one statement: the messages of a session up to the end of a turn become the beginning of
 * a new one, in which turns keep their ids. Its messages have a number of their own (batch), by which a fork whose
 * commit was not acknowledged is recognized. */
#include <string.h>

#include "stores/postgres/store.h"
#include "support/fault.h"
#include "support/text.h"

#define MESSAGE_NAMES "role, is_error, turn, text, call_id, name, parts, value, provider_data, ending, calls"
/* Parameters: 1 tenant, 2 session, 3 new session, 4 turn or '', 5 batch. */
static const char fork_session[] =
    "WITH old AS (SELECT id FROM @.session WHERE tenant = $1::text AND name = $2::text AND next > 0),"
    " taken AS (SELECT id FROM @.session WHERE tenant = $1::text AND name = $3::text),"
    " span AS (SELECT min(m.position) AS first, max(m.position) FILTER (WHERE $4::bytea = '' OR m.turn = $4::bytea) AS"
    " last FROM @.message m JOIN old ON m.session = old.id),"
    " new AS (INSERT INTO @.session (tenant, name, next, owner, epoch, running)"
    " SELECT $1::text, $3::text, span.last - span.first + 1, 0, 0, false FROM span WHERE span.last IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM taken) ON CONFLICT (tenant, name) DO NOTHING RETURNING id),"
    " copied AS (INSERT INTO @.message (session, position, batch, appended, " MESSAGE_NAMES
    ") SELECT new.id, m.position - span.first, $5::bigint, m.appended, m.role, m.is_error, m.turn, m.text, m.call_id,"
    " m.name, m.parts, m.value, m.provider_data, m.ending, m.calls FROM new, span, old JOIN @.message m"
    " ON m.session = old.id WHERE m.position <= span.last ORDER BY m.position RETURNING 1)"
    " SELECT (SELECT count(*) FROM old), (SELECT coalesce(last - first + 1, 0) FROM span),"
    " (SELECT count(*) FROM copied), (SELECT count(*) FROM @.message m JOIN taken ON m.session = taken.id"
    " WHERE m.batch = $5::bigint)";

static tp_status check_fork(const tp_kept_fork *request, tp_fault *fault) {
  const char *const names[] = {request->tenant, request->session};
  if (!request->session) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_kept_fork.session is NULL");
  if (!tp__is_id(tp_text_of(request->new_session)))
    return tp__refuse(fault, TP_ERR_BAD_ID, request->new_session,
                      "the new session needs an id of 1 to 128 bytes without white space");
  for (int i = 0; i < 2; i++)
    if (names[i] && !tp_utf8_valid(tp_text_of(names[i]), NULL))
      return tp__refuse(fault, TP_ERR_UTF8, NULL, "tenant and session of a fork must be UTF-8");
  return TP_OK;
}

static tp_status refuse_fork(const tp_kept_fork *r, bool has_old, bool has_turn, tp_fault *fault) {
  if (has_old && has_turn)
    return tp__refuse(fault, TP_ERR_DUPLICATE_ID, r->new_session, "there is a session %s already", r->new_session);
  if (!has_old) return tp__refuse(fault, TP_ERR_NOT_FOUND, r->session, "there is no session %s", r->session);
  return tp__refuse(fault, TP_ERR_NOT_FOUND, r->turn, "session %s has no turn %s", r->session, r->turn);
}

tp_status tp_postgres_session_fork(tp_postgres *pg, const tp_kept_fork *theirs, uint64_t *ret_messages,
                                   tp_fault *fault) {
  tp_kept_fork request;
  tp__pg_request r;
  if (!pg || !theirs)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_session_fork needs a database and a request");
  tp_status status = tp__struct_read(&request, sizeof request, theirs, "tp_kept_fork", fault);
  if (status == TP_OK) status = check_fork(&request, fault);
  if (status != TP_OK) return status;
  tp__pg_request_init(&r, pg, TP__PG_WRITES, "fork a session");
  tp__pg_parameters *p = tp__pg_request_add(&r, fork_session);
  tp__pg_parameter_text(p, tp_text_of(request.tenant));
  tp__pg_parameter_text(p, tp_text_of(request.session));
  tp__pg_parameter_text(p, tp_text_of(request.new_session));
  tp__pg_parameter_text(p, tp_text_of(request.turn));
  tp__pg_parameter_int(p, tp__pg_next_batch(pg));
  status = tp__pg_request_run(&r, fault);
  if (status == TP_OK) {
    const PGresult *rows = tp__pg_request_rows(&r, 0);
    int64_t before = tp__pg_int(rows, 0, 3), copied = before ? before : tp__pg_int(rows, 0, 2);
    if (copied == 0) status = refuse_fork(&request, tp__pg_int(rows, 0, 0) > 0, tp__pg_int(rows, 0, 1) > 0, fault);
    if (status == TP_OK && ret_messages) *ret_messages = (uint64_t)copied;
  }
  tp__pg_request_fini(&r);
  return status;
}
