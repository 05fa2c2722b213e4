/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/chat/ask.h"

#include <strings.h>

static bool is_yes(tp_text text) {
  return (text.size == 1 && strncasecmp(text.data, "y", 1) == 0) ||
         (text.size == 3 && strncasecmp(text.data, "yes", 3) == 0);
}

void cli_ask(cli_screen *screen, cli_line *line, const tp_question *question, tp_decision *ret_decision) {
  tp_text answer;
  cli_screen_question(screen, question->call, question->subscription, question->reason);
  cli_flush(screen->output);
  bool allowed = cli_line_read(line, "  allow? [y/N] ", &answer) == CLI_LINE_TEXT && is_yes(answer);
  *ret_decision = (tp_decision){.struct_size = sizeof *ret_decision,
                                .verdict = allowed ? TP_VERDICT_ALLOW : TP_VERDICT_DENY,
                                .arguments_hash = question->arguments_hash};
}
