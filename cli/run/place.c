/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/place.h"

#include <stdlib.h>

#include "cli/common/data.h"
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/inspect/forget.h"
#include "cli/run/host.h"
#include "turnphase/sqlite.h"

static int open_directory(const cli_arguments *arguments, cli_place *place, tp_store **ret_store) {
  tp_fault fault = {0};
  int status = cli_data_make(arguments->data);
  if (status == CLI_OK) status = cli_forget_finish(arguments->data);
  if (status != CLI_OK) return status;
  place->store_path = cli_data_path(arguments->data, "turnphase.db");
  place->memory_path = cli_data_path(arguments->data, "memory.db");
  const tp_sqlite_store_options options = {.struct_size = sizeof options,
                                           .path = place->store_path,
                                           .log = cli_log,
                                           .log_ctx = (void *)(uintptr_t)arguments,
                                           .content_hashes = 1};
  tp_status opened = tp_sqlite_store_open(&options, ret_store, &fault);
  return opened == TP_OK ? CLI_OK : cli_fault(place->store_path, opened, &fault);
}

int cli_place_open(const cli_arguments *arguments, cli_place *place, tp_store **ret_store) {
  tp_fault fault = {0};
  *ret_store = NULL;
  *place = (cli_place){0};
  if (!arguments->data) return CLI_OK;
  if (!cli_database_is(arguments->data)) return open_directory(arguments, place, ret_store);
  void *log_ctx = (void *)(uintptr_t)arguments;
  tp_status opened = cli_database_open(arguments->data, false, cli_log, log_ctx, &place->database, &fault);
  if (opened == TP_OK) opened = cli_database_store(place->database, ret_store, &fault);
  return opened == TP_OK ? CLI_OK : cli_fault(NULL, opened, &fault);
}

void cli_place_close(cli_place *place) {
  cli_database_close(place->database);
  free(place->store_path);
  free(place->memory_path);
  *place = (cli_place){0};
}
