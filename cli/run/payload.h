/* SPDX-License-Identifier: Apache-2.0
 *
 * payload: reads the payload of phases from a file: one JSON object with field names (tp_field_find()) and their
 * values. */
#ifndef CLI_PAYLOAD_H
#define CLI_PAYLOAD_H

#include "turnphase/turnphase.h"

/** Zero-filled means no fields. */
typedef struct cli_payload {
  tp_writer *writer; /* holds what the fields point to */
  tp_writer *calls;  /* made for one of them; NULL: none */
  tp_field *fields;
  size_t count;
  char *text; /* a text that was made for one of them */
} cli_payload;

/** Reads a file. @param path  "-": standard input; NULL: no fields.
 *  @return CLI_OK, or an exit status after a message with the error and its place. */
int cli_payload_read(const char *path, cli_payload *payload);
/** Reads the input that a program of another host gets for an event, {"hook_event_name": "PreToolUse", "tool_name": …},
 *  as payload fields. An object without hook_event_name is read as by cli_payload_read(). Members that the runtime
 *  makes itself (session_id, cwd, …), and those that the phase does not carry, are skipped. */
int cli_payload_read_event(const char *path, const char *event, const tp_phase *phase, cli_payload *payload);
/** The fields that the phase carries, in their order; freed by free(), NULL when there are none. */
tp_field *cli_payload_for(const cli_payload *payload, const tp_phase *phase, size_t *ret_count);
/** Whether the phase carries the field. */
bool cli_phase_carries(const tp_phase *phase, uint32_t field);
void cli_payload_free(cli_payload *payload);

/** The phase with a name or alias. @return 0 after a message that suggests a similar name. */
uint32_t cli_phase_find(const tp_runtime *runtime, const char *name);

#endif
