/* SPDX-License-Identifier: Apache-2.0
 *
 * The command export: prints, as JSON Lines, everything that forget with the same options would erase. It erases
 * nothing. */
#include <stdlib.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/database.h"
#include "cli/common/exit_status.h"
#include "cli/common/kept_sessions.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/inspect/chosen.h"
#include "cli/memory/memory.h"
#include "cli/run/event.h"

/** What is worked on, and what was printed. */
typedef struct exporting {
  const char *directory;
  cli_output *output;
  cli_erasure choice;
  tp_kept_erased passed;
  int64_t *ids; /* ids of the printed memories, in ascending order */
  size_t id_count, id_next;
} exporting;

/* ---- the store ---- */

static bool print_row(void *ctx, const tp_kept_session *session, const char *kind, tp_text row) {
  exporting *x = ctx;
  cli_map p = {0};
  cli_map_add_string(&p, "kind", kind);
  cli_map_add_text(&p, "tenant", session->tenant);
  cli_map_add_text(&p, "session", session->session);
  cli_map_add_value(&p, "row", row);
  return cli_map_print(&p, x->output) == CLI_OK && !x->output->error;
}

static int export_rows(exporting *x) {
  cli_data data = {0};
  tp_fault fault = {0};
  const tp_kept_choice request = cli_chosen_rows(&x->choice);
  int status = cli_data_open(x->directory, &data);
  if (status != CLI_OK) return status;
  tp_status passed = cli_sessions_export(&data, &request, print_row, x, &x->passed, &fault);
  if (passed != TP_OK) status = cli_fault(data.path, passed, &fault);
  cli_data_close(&data);
  return status;
}

/* ---- the memories ---- */

static bool print_memory(void *ctx, const tp_memory_entry *entry) {
  exporting *x = ctx;
  while (x->id_next < x->id_count && x->ids[x->id_next] < entry->id) x->id_next++; /* gone since it was chosen */
  if (x->id_next == x->id_count || x->ids[x->id_next] != entry->id) return x->id_next < x->id_count;
  cli_map p = {0};
  cli_map_add_string(&p, "kind", "memory");
  cli_map_open(&p, "row");
  cli_memory_add(&p, entry);
  cli_map_close(&p);
  return cli_map_print(&p, x->output) == CLI_OK && !x->output->error;
}

static tp_status print_memories(exporting *x, tp_memory *memory, tp_fault *fault) {
  const tp_memory_query query = {
      .struct_size = sizeof query, .tenant = x->choice.tenant, .limit = UINT32_MAX, .oldest_first = true};
  tp_status status = cli_chosen_memories(memory, &x->choice, &x->ids, &x->id_count, fault);
  if (status == TP_OK) status = tp_memory_list(memory, &query, print_memory, x, fault);
  free(x->ids);
  return status;
}

static int export_memories(exporting *x, const char *path) {
  tp_memory *memory = NULL;
  tp_fault fault = {0};
  tp_status status = tp_memory_open(path, &memory, &fault);
  if (status == TP_OK) status = print_memories(x, memory, &fault);
  tp_memory_close(memory);
  return status == TP_OK ? CLI_OK : cli_fault(path, status, &fault);
}

/* ---- the whole of it ---- */

static int export_all(exporting *x) {
  char *store = cli_data_path(x->directory, "turnphase.db"), *memory = cli_data_path(x->directory, "memory.db");
  const bool has_memory = access(memory, F_OK) == 0;
  int status = CLI_OK;
  if (!has_memory || access(store, F_OK) == 0) status = export_rows(x);
  if (status == CLI_OK && has_memory) status = export_memories(x, memory);
  free(store);
  free(memory);
  return status;
}

int cli_export(const cli_arguments *arguments, cli_output *output) {
  exporting x = {.directory = arguments->operand, .output = output, .passed = {.struct_size = sizeof x.passed}};
  int status = cli_chosen_read(arguments, &x.choice);
  if (status != CLI_OK) return status;
  if (!x.directory || (!x.choice.tenant && !x.choice.every_tenant)) {
    cli_error(
        "export takes a data directory or a database and --tenant ID, or --before or --age for every tenant: of whom?");
    return CLI_USAGE;
  }
  const bool is_database = cli_database_is(x.directory); /* which has no memories */
  status = is_database ? export_rows(&x) : cli_data_check(x.directory);
  if (status == CLI_OK && !is_database) status = export_all(&x);
  if (status != CLI_OK) return status;
  cli_flush(output); /* so that lines are not mixed with messages when both go to one file */
  cli_error("%llu sessions (%llu rows) and %zu memories were exported", (unsigned long long)x.passed.sessions,
            (unsigned long long)x.passed.rows, x.id_count);
  if (x.passed.turns_unknown)
    cli_error(
        "%llu turns and tasks of sessions that others share were left out: no record says whose they are; --matching "
        "or --session reaches them",
        (unsigned long long)x.passed.turns_unknown);
  return CLI_OK;
}
