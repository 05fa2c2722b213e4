/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/exit_status.h"

#include <signal.h>

#include "cli/common/map.h"
#include "runtime/base/check.h"

cli_exit cli_exit_of(tp_status status) {
  assert(status >= TP_OK);
  static const struct {
    tp_status status;
    cli_exit exit;
  } rows[] = {{TP_OK, CLI_OK},
              {TP_ERR_STORE_BUSY, CLI_RETRY},
              {TP_ERR_STORE_SCHEMA, CLI_CONFIG},
              {TP_ERR_INTERNAL, CLI_BUG},
              {TP_ERR_TIMEOUT, CLI_TIMED_OUT},
              {TP_ERR_NO_MEMORY, CLI_UNAVAILABLE},
              {TP_ERR_NO_THREAD, CLI_UNAVAILABLE},
              {TP_ERR_SYSTEM, CLI_UNAVAILABLE},
              {TP_ERR_IO, CLI_IO}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].status == status) return rows[i].exit;
  return status >= TP_ERR_STORE && status < TP_ERR_SYSTEM ? CLI_IO : CLI_CONFIG;
}

cli_exit cli_exit_of_signal(int number) {
  assert(number == SIGINT || number == SIGTERM || number == SIGHUP);
  return number == SIGTERM ? CLI_TERMINATED : number == SIGHUP ? CLI_HUNG_UP : CLI_INTERRUPTED;
}

void cli_exit_print(cli_output *output) {
#define X(name, number, text) cli_printf(output, "%4d  %s\n", number, text);
#include "cli/common/exit_status.def"
#undef X
}

static void add_exit(cli_map *map, int number, const char *text) {
  cli_map_open(map, NULL);
  cli_map_add_int(map, "status", number);
  cli_map_add_string(map, "meaning", text);
  cli_map_close(map);
}

int cli_exit_print_json(cli_output *output) {
  cli_map map = {0};
  cli_map_open_list(&map, "exit_statuses");
#define X(name, number, text) add_exit(&map, number, text);
#include "cli/common/exit_status.def"
#undef X
  cli_map_close(&map);
  return cli_map_print(&map, output);
}
