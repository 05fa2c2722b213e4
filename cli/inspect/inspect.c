/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands plan and phases: what is registered, as the library prints it. */
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/run/host.h"

static tp_plan_format format_of(const cli_arguments *arguments) {
  return arguments->dot ? TP_PLAN_DOT : arguments->json ? TP_PLAN_JSON : TP_PLAN_TABLE;
}

static int ended(tp_runtime *runtime, tp_status status) {
  tp_runtime_free(runtime);
  return status == TP_OK ? CLI_OK : cli_fault(NULL, status, &(tp_fault){0});
}

int cli_phases(const cli_arguments *arguments, cli_output *output) {
  tp_runtime *runtime;
  int opened = cli_host_open(arguments, NULL, NULL, &runtime);
  if (opened != CLI_OK) return opened;
  return ended(runtime, tp_phases_print(runtime, format_of(arguments), cli_print, output));
}

/* An empty table is reported: an empty screen would leave the reader in doubt. */
static bool has_subscriptions(const cli_arguments *arguments) {
  return !arguments->no_memory || arguments->loads.count > 0 || arguments->hooks.count > 0 || arguments->files ||
         arguments->skills || arguments->tasks != CLI_TASKS_NONE || arguments->mcp_servers.count > 0 ||
         arguments->mcp_configs.count > 0;
}

int cli_plan(const cli_arguments *arguments, cli_output *output) {
  if (arguments->json && arguments->dot) {
    cli_error("--json and --dot are two forms of the same: take one");
    return CLI_USAGE;
  }
  tp_runtime *runtime;
  int opened = cli_host_open(arguments, NULL, NULL, &runtime);
  if (opened != CLI_OK) return opened;
  uint32_t phase = arguments->operand ? tp_phase_find(runtime, arguments->operand) : TP_PHASE_NONE;
  if (arguments->operand && !phase) {
    cli_error("there is no phase '%s'; see: turnphase phases", arguments->operand);
    tp_runtime_free(runtime);
    return CLI_USAGE;
  }
  if (!has_subscriptions(arguments) && format_of(arguments) == TP_PLAN_TABLE) cli_error("nothing is subscribed");
  return ended(runtime, tp_plan_print(runtime, phase, format_of(arguments), cli_print, output));
}
