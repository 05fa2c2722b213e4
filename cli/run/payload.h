/* SPDX-License-Identifier: Apache-2.0
 *
 * payload: what phases carry, from a file: one JSON object of field names (tp_field_find()) and what is in them. */
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
 *  @return CLI_OK, or an exit status after saying what is wrong and where. */
int cli_payload_read(const char *path, cli_payload *payload);
/** Reads what a program of another host gets for an event, {"hook_event_name": "PreToolUse", "tool_name": …}, as the
 *  fields that make it; an object without hook_event_name as cli_payload_read() does. What the runtime makes itself
 *  (session_id, cwd, …), and what the phase does not carry, is read over. */
int cli_payload_read_event(const char *path, const char *event, const tp_phase *phase, cli_payload *payload);
/** Those of its fields that the phase carries, in their order; freed by free(), NULL for none. */
tp_field *cli_payload_for(const cli_payload *payload, const tp_phase *phase, size_t *ret_count);
/** Whether the phase carries the field. */
bool cli_phase_carries(const tp_phase *phase, uint32_t field);
void cli_payload_free(cli_payload *payload);

/** The phase of a name or alias. @return 0 after saying that there is none, and which was meant. */
uint32_t cli_phase_find(const tp_runtime *runtime, const char *name);

#endif
