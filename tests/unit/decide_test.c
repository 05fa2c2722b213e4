/* SPDX-License-Identifier: Apache-2.0
 *
 * decide(execution, failure, cause): every cell, written out. */
#include "tests/support/test.h"
#include "runtime/exec/decide.h"

#define GO TP__DECIDE_GO_ON
#define DI TP__DECIDE_DIAGNOSE
#define FB TP__DECIDE_FALLBACK
#define FA TP__DECIDE_FAIL

/* Columns: best_effort, fallback, required. */
typedef struct row {
  tp_reason cause;
  tp__decision blocking[3], deadline[3], fire_and_record[3], background[3];
} row;

/* clang-format off */
static const row table[] = {
    /*                          blocking      deadline      fire_and_record  background */
    {TP_REASON_NONE,           {GO, GO, GO}, {GO, GO, GO}, {GO, GO, GO},    {GO, GO, GO}},
    {TP_REASON_ERROR,          {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_TIMEOUT,        {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_CRASH,          {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_KILLED,         {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_CANNOT_START,   {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_MALFORMED,      {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_CAPABILITY,     {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_NO_PERMIT,      {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_NO_WORKER,      {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_BREAKER_OPEN,   {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_SHED,           {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_NO_MEMORY,      {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_STORE,          {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_SHUTDOWN,       {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_POSTPONED,      {DI, FB, FA}, {DI, FB, FA}, {DI, DI, FA},    {DI, DI, FA}},
    /* A cancelled run's fallback is not used: the entry is being given up. */
    {TP_REASON_CANCELLED,      {DI, DI, FA}, {DI, DI, FA}, {DI, DI, FA},    {DI, DI, FA}},
    {TP_REASON_MATCH,          {GO, GO, GO}, {GO, GO, GO}, {GO, GO, GO},    {GO, GO, GO}},
    {TP_REASON_DEPENDENCY,     {GO, GO, FA}, {GO, GO, FA}, {GO, GO, FA},    {GO, GO, FA}},
    {TP_REASON_PHASE_FAILED,   {GO, GO, GO}, {GO, GO, GO}, {GO, GO, GO},    {GO, GO, GO}},
    {TP_REASON_NO_SLACK,       {GO, GO, FA}, {GO, GO, FA}, {GO, GO, FA},    {GO, GO, FA}},
    {TP_REASON_KILL_SWITCH,    {GO, GO, GO}, {GO, GO, GO}, {GO, GO, GO},    {GO, GO, GO}},
    /* Shed by its own policy: not even a required one fails its entry. */
    {TP_REASON_BACKLOG,        {DI, DI, DI}, {DI, DI, DI}, {DI, DI, DI},    {DI, DI, DI}},
};
/* clang-format on */

static const tp_failure policies[3] = {TP_FAILURE_BEST_EFFORT, TP_FAILURE_FALLBACK, TP_FAILURE_REQUIRED};

static void assert_cells(tp_execution execution, tp_reason cause, const tp__decision *want) {
  for (int i = 0; i < 3; i++) {
    tp__decision got = tp__decide(execution, policies[i], cause);
    if (got != want[i])
      fail_msg("execution %d, failure %d, cause %s: decided %d, not %d", execution, policies[i], tp_reason_name(cause),
               got, want[i]);
  }
}

TEST(every_cell_is_as_written) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    assert_cells(TP_EXECUTION_BLOCKING, table[i].cause, table[i].blocking);
    assert_cells(TP_EXECUTION_DEADLINE, table[i].cause, table[i].deadline);
    assert_cells(TP_EXECUTION_FIRE_AND_RECORD, table[i].cause, table[i].fire_and_record);
    assert_cells(TP_EXECUTION_BACKGROUND, table[i].cause, table[i].background);
  }
}

TEST(every_cause_has_a_row) {
  bool seen[64] = {0};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) seen[table[i].cause] = true;
  for (int cause = TP_REASON_NONE; cause <= TP_REASON_CANCELLED; cause++) assert_true(seen[cause]);
  for (int cause = TP_REASON_MATCH; cause <= TP_REASON_KILL_SWITCH; cause++) assert_true(seen[cause]);
}
