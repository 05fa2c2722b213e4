/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/exit_status.h"

cli_exit cli_exit_of(tp_status status) {
  switch (status) {
    case TP_OK:
      return CLI_OK;
    case TP_ERR_STORE_BUSY:
      return CLI_RETRY;
    case TP_ERR_STORE_SCHEMA:
      return CLI_CONFIG;
    case TP_ERR_INTERNAL:
      return CLI_BUG;
    case TP_ERR_TIMEOUT:
      return CLI_TIMED_OUT;
    case TP_ERR_NO_MEMORY:
    case TP_ERR_NO_THREAD:
    case TP_ERR_SYSTEM:
      return CLI_UNAVAILABLE;
    default:
      break;
  }
  if (status >= TP_ERR_STORE && status < TP_ERR_SYSTEM) return CLI_IO;
  return status == TP_ERR_IO ? CLI_IO : CLI_CONFIG;
}

void cli_exit_print(cli_output *output) {
#define X(name, number, text) cli_printf(output, "%4d  %s\n", number, text);
#include "cli/common/exit_status.def"
#undef X
}
