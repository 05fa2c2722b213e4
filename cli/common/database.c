/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/database.h"

#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "support/text.h"

bool cli_database_is(const char *data) {
  return data && (tp__begins(tp_text_of(data), "postgres://") || tp__begins(tp_text_of(data), "postgresql://"));
}

/* In the user's part, user:password@, or among the parameters. */
static bool has_password(const char *data) {
  const char *authority = strstr(data, "://") + 3, *end = authority + strcspn(authority, "?");
  const char *colon = strchr(authority, ':'), *at = memchr(authority, '@', (size_t)(end - authority));
  return (at && colon && colon < at) || strstr(end, "password=");
}

int cli_database_check(const cli_command *command, const cli_arguments *arguments) {
  bool takes_one = (command->bit & (CLI_RUN | CLI_CHAT | CLI_SERVE)) != 0, given = cli_database_is(arguments->data);
  bool has_directory = command->operand && strstr(command->operand, "DIR");
  bool is_operand = false;
  for (size_t i = 0; has_directory && i < arguments->operand_count; i++)
    is_operand = is_operand || cli_database_is(arguments->operands[i]);
  if (is_operand || (given && !takes_one)) {
    cli_error(
        "%s cannot use a database yet, only a directory: run, chat and serve keep sessions in --data postgres://…",
        command->name);
    return CLI_USAGE;
  }
  if (!given) return CLI_OK;
  if (has_password(arguments->data)) {
    cli_error(
        "--data has a password, which every user of this machine sees among the arguments: put it into "
        "~/.pgpass, or into PGPASSWORD, and leave it out here");
    return CLI_USAGE;
  }
#ifdef CLI_POSTGRES
  return CLI_OK;
#else
  cli_error("this turnphase was built without turnphase-postgres: --data takes a directory");
  return CLI_USAGE;
#endif
}
