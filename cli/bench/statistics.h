/* SPDX-License-Identifier: Apache-2.0
 *
 * statistics: the measurements: for each phase its duration and the part of it that its handlers took; for each
 * subscription how long it ran and waited, and how it ended. Each thread that measures fills its own; they are added up
 * at the end. One thread at a time. */
#ifndef CLI_STATISTICS_H
#define CLI_STATISTICS_H

#include "cli/bench/histogram.h"
#include "turnphase/turnphase.h"

/** How a run of a phase ended. */
typedef enum cli_ending {
  CLI_ENDING_OK = 0,
  CLI_ENDING_DENIED = 1, /* also one that failed closed */
  CLI_ENDING_FAILED = 2,
  CLI_ENDING_CANCELLED = 3,
  CLI_ENDING_COUNT = 4
} cli_ending;
const char *cli_ending_name(cli_ending ending);

enum { CLI_STATES = 16, CLI_REASONS = 64 };

/** One subscription. */
typedef struct cli_statistics_run {
  tp_run_record row;             /* the newest; its names are those of the subscription */
  uint64_t calls;                /* how many phase runs called its handler */
  uint64_t attempts;             /* how often it was called in total; with retries more than calls */
  uint64_t states[CLI_STATES];   /* counts by tp_state */
  uint64_t reasons[CLI_REASONS]; /* counts by tp_reason */
  uint64_t fallbacks, late;      /* how often the fallback was used; answers that came too late and were discarded */
  cli_histogram own, wait;       /* ns: duration of the last attempt; from ready to its start */
} cli_statistics_run;

/** A handler for which its phase did not wait: FireAndRecord, or Background. */
typedef struct cli_statistics_detached {
  size_t phase; /* its index */
  cli_statistics_run run;
} cli_statistics_detached;

typedef struct cli_statistics_phase {
  uint64_t endings[CLI_ENDING_COUNT];
  cli_histogram duration; /* ns: from the call, or the submission, to the result */
  cli_histogram handlers; /* ns: of that at least one handler ran */
  cli_histogram runtime;  /* ns: the rest */
  cli_statistics_run *runs;
  uint32_t run_count;
} cli_statistics_phase;

/** A run of a phase that has ended. */
typedef struct cli_statistics_entry {
  tp_status outcome;
  int64_t duration_ns;
  uint32_t run_count;
  bool (*run)(const void *source, size_t index, tp_run_record *row); /* as tp_entry_record.run */
  const void *source;
} cli_statistics_entry;

/** The calls of one tool in whole turns. */
typedef struct cli_statistics_tool {
  char name[TP_ID_BYTES_MAX + 1];
  uint64_t calls, failed; /* failed: calls that did not end with a result */
  cli_histogram own;      /* ns: of its function */
} cli_statistics_tool;

/** What whole turns have besides phases. */
typedef struct cli_statistics_whole {
  uint64_t endings[CLI_ENDING_COUNT];
  char reason[256];                    /* of the first that failed; "" */
  cli_histogram history, model, tools; /* ns: what a turn waited for */
  cli_statistics_tool *by_tool;
  size_t tool_count, tool_capacity;
} cli_statistics_whole;

/** A part of a run of a phase, on the runtime's clock. */
typedef struct cli_span {
  int64_t from_ns, to_ns;
} cli_span;

typedef struct cli_statistics {
  cli_statistics_phase *phases;
  size_t phase_count;
  cli_histogram turn;         /* ns: begin, phases, end */
  cli_histogram begin, end;   /* ns: of a turn */
  cli_histogram response;     /* ns: from the time when a turn was due to its end; empty without a rate */
  cli_histogram late;         /* ns: from then to its begin; likewise */
  cli_statistics_whole whole; /* empty without a script */
  int64_t step_ns;            /* from the baseline: the time in an inline handler's record that is not the handler's */
  bool timed;                 /* the records have time-stamps */
  cli_statistics_detached *detached; /* until cli_statistics_join() */
  size_t detached_count, detached_capacity;
  cli_span *spans; /* scratch */
  size_t span_capacity;
  struct cli_statistics *next;
} cli_statistics;

cli_statistics *cli_statistics_new(size_t phase_count, int64_t step_ns, bool timed);
/** Records one run of a phase. @param phase  its index. */
void cli_statistics_add(cli_statistics *statistics, size_t phase, const cli_statistics_entry *entry);
/** Records the steps for which a whole turn waited, and its tool calls. */
void cli_statistics_add_parts(cli_statistics *statistics, const tp_turn_record *record);
/** Takes down how a whole turn ended. */
void cli_statistics_add_turn(cli_statistics *statistics, int64_t duration_ns, const tp_turn_result *result);
/** Records one run of a handler for which the phase did not wait; its names live as long as the runtime. */
void cli_statistics_add_detached(cli_statistics *statistics, size_t phase, const tp_run_record *row);
/** Adds these to the subscriptions of their phases, which count how often they were left to run after the phase. */
void cli_statistics_join(cli_statistics *statistics);
/** Adds the statistics of another one; both are about the same phases. */
void cli_statistics_merge(cli_statistics *into, const cli_statistics *from);
void cli_statistics_free(cli_statistics *statistics);

#endif
