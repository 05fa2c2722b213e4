/* SPDX-License-Identifier: Apache-2.0
 *
 * conversation: the turns to play, in their order, each in a session. The whole conversation is read and checked before
 * any turn runs. docs/conversation.md describes its two forms. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include "cli/common/options.h"
#include "cli/common/pool.h"

/** The id of the agent for sessions that name none. */
#define CLI_OWN_AGENT "turnphase"

/** An agent that sessions name. Texts live as long as the conversation. */
typedef struct cli_agent {
  const char *id;
  const char *system;     /* NULL: none */
  cli_model_names models; /* none: those of the command line */
  cli_limits limits;      /* of its turns; missing ones are those of the command line */
  /* values, arrays of texts; empty: no restriction */
  tp_text tools, tools_denied; /* patterns of names */
  tp_text skills;              /* names */
  bool no_memory;              /* although the command has one */
} cli_agent;

/** One turn of the user. Texts live as long as the conversation. */
typedef struct cli_turn {
  const char *tenant, *workspace; /* NULL: none */
  const char *session;
  const char *agent;        /* the id of an agent of the conversation; NULL: the agent of the command line */
  const cli_limits *limits; /* that agent's; NULL: without one */
  const char *id;           /* NULL: the library numbers it */
  tp_text user;
  int64_t said_unix_ms; /* 0: now */
  uint32_t line;        /* its line in the file; 0: not known in this form */
} cli_turn;

typedef struct cli_conversation {
  const char *name; /* the file, for messages */
  cli_turn *turns;
  size_t count, capacity;
  cli_agent *agents;
  size_t agent_count, agents_capacity;
  bool has_servers;   /* of MCP: cli_mcp_profile_add() reads them */
  tp_text servers[2]; /* `mcp` and `mcp_defer` as values; empty: missing */
  tp_text exposes;    /* `mcp_expose` as a value, an array; empty: missing */
  cli_pool pool;
} cli_conversation;

/** Reads and checks a conversation. @param path  NULL or "-": standard input.
 *  @return CLI_OK, or an exit status after a message with the error and its place; then there is nothing to free. */
int cli_conversation_read(const char *path, const cli_arguments *arguments, cli_conversation *conversation);
void cli_conversation_free(cli_conversation *conversation);
/** Whether an agent, or a session without one, uses the models of the command line. */
bool cli_conversation_needs_model(const cli_conversation *conversation);
/** Whether two turns belong to one session. */
bool cli_turn_same_session(const cli_turn *a, const cli_turn *b);

/** The session, other than the given one, that has a turn with this id; NULL when there is none, or when the given
 *  session has one itself. */
const char *cli_conversation_find(const cli_conversation *conversation, tp_text turn_id, tp_text session);

#endif
