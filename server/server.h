/* SPDX-License-Identifier: Apache-2.0
 *
 * server: what the files of the library turnphase-server share. A request of a client that becomes a turn is an
 * exchange; the turn outlives its exchange when the client leaves. A form writes what a client of one API reads.
 *
 * Ownership: a turn has a reference for each of its exchanges, and one until its end was notified. An exchange is the
 * data of its HTTP request, and is freed when that is released.
 * Locks: the server's for its lists, one of each turn for everything that its exchange sends. No function of the
 * runtime is called under either. */
#ifndef TP__SERVER_SERVER_H
#define TP__SERVER_SERVER_H

#include "runtime/base/check.h"
#include "server/http.h"
#include "support/fault.h"
#include "support/json.h"
#include "support/lock.h"
#include "support/references.h"
#include "turnphase/server.h"

enum { TP__EXCHANGE_ID_BYTES = 64, TP__TURN_KEY_DIGITS = 24 };

typedef struct tp__exchange tp__exchange;
typedef struct tp__server_turn tp__server_turn;
typedef struct tp__server_session tp__server_session;
typedef struct tp__operator tp__operator;
struct tp__operator_request;
/** Answers a request of an operator, on the thread of the operators. */
typedef void (*tp__operator_fn)(tp_server *server, struct tp__operator_request *request);

/** What the data of an HTTP request begins with. */
typedef struct tp__client {
  bool watches; /* it is a tp__watcher, else a tp__exchange */
} tp__client;

/** Why a client gets no answer: in the form that its library reads. */
typedef struct tp__refusal {
  unsigned status;                /* of HTTP */
  const char *type;               /* "invalid_request_error" */
  const char *code;               /* "model_not_found"; NULL: none */
  const char *param;              /* the field of the body; NULL: none */
  const char *phase;              /* of the hook; NULL: none */
  const char *allow;              /* methods, of a 405; NULL: none */
  char hook[TP_ID_BYTES_MAX + 1]; /* that denied or failed; empty: none */
  uint64_t retry_ms;              /* when it may be sent again; 0: not known */
  bool ran;                       /* the turn began: a client that sends it again repeats what it did */
  char message[TP_FAULT_MESSAGE_SIZE];
} tp__refusal;

/** A call of a tool that the client runs. */
typedef struct tp__client_call {
  char id[TP__EXCHANGE_ID_BYTES]; /* as the client reads it: it names the turn, and cannot be guessed */
  tp__bytes name, arguments;      /* JSON */
  tp_token token;
} tp__client_call;

/** How a turn answered. */
typedef struct tp__answer {
  tp_text text, thinking;
  const tp__client_call *calls; /* that the client is to run */
  size_t call_count;
  tp_finish finish;
  int64_t input_tokens, output_tokens;
} tp__answer;

/** What a client of one API reads. Each adds to `out`, under the lock of the exchange's turn. */
typedef struct tp__form {
  bool numbers_exchanges; /* the exchanges of a turn have the id of the turn, and a number */
  /** A piece of the answer, or of what the model thinks, of a stream. */
  void (*piece)(tp__exchange *exchange, tp__bytes *out, tp_text piece, bool is_thinking);
  /** The end of a stream. */
  void (*end)(tp__exchange *exchange, tp__bytes *out, const tp__answer *answer);
  /** The end of a stream that failed after its begin. */
  void (*fail)(tp__exchange *exchange, tp__bytes *out, const tp__refusal *refusal);
  /** The whole answer, where it is no stream. */
  void (*whole)(tp__exchange *exchange, tp__bytes *out, const tp__answer *answer);
} tp__form;

struct tp__exchange {
  tp__client client;
  /* never change */
  tp__server_turn *turn;
  const tp__form *form;
  bool streams, wants_usage;
  char id[TP__EXCHANGE_ID_BYTES];
  int64_t created;
  tp__bytes model, previous; /* as the client named them */
  bool stores;
  /* under the turn's lock */
  int64_t input_tokens, output_tokens; /* of its usage */
  tp__http_request *request;           /* NULL: it was ended */
  bool began;                          /* the stream */
  bool has_piece, has_text;
  uint64_t sequence;           /* of its events */
  unsigned item;               /* index of the output that is being written */
  int item_kind;               /* of responses.c */
  tp__bytes item_text, output; /* of that; JSON of those that are complete */
  tp__bytes tail;              /* of a stream that does not take it yet */
  bool tail_ends;              /* and it is the last */
};

struct tp__server_turn {
  tp__references refs;
  /* never change */
  tp_server *server;
  tp__server_session *session;             /* until the end */
  bool holds_text;                         /* the answer is shown when it is complete: it must fit a schema */
  char key[TP__TURN_KEY_DIGITS + 1];       /* of the ids of its calls */
  char previous_id[TP__EXCHANGE_ID_BYTES]; /* the response that it continues; empty: none */
  char turn_id[TP__EXCHANGE_ID_BYTES];     /* of the runtime */
  char tenant[TP_ID_BYTES_MAX + 1];        /* empty: none, or it was not submitted */
  char agent_id[TP_ID_BYTES_MAX + 1];      /* empty: it was not submitted */
  char *session_id;                        /* a copy; NULL: it was not submitted */
  tp_text tools;                           /* value: an array as in the request; empty: none */
  tp__bytes tools_copy;
  /* the owner of the turn only */
  int64_t asked_ns;                /* when the model was asked last; 0: its first piece has come */
  char model[TP_ID_BYTES_MAX + 1]; /* that was asked */
  bool had_delta, separates;       /* the next piece begins another answer of the model */
  tp__lock lock;
  /* under lock */
  tp__exchange *exchange; /* NULL: no client listens */
  tp_hold *hold;          /* of the answer that is being written; NULL: the client reads fast enough */
  tp__bytes text, thinking;
  int64_t input_tokens, output_tokens;                   /* of the requests so far */
  int64_t reported_input_tokens, reported_output_tokens; /* in the usage of earlier exchanges */
  tp__client_call *calls;                                /* of the newest response, that wait for the client */
  size_t call_count, call_capacity;
  size_t expected, over;          /* calls of the newest response; those that have ended */
  uint32_t calls_made;            /* of the whole turn */
  bool waits;                     /* for results of the client */
  tp_submission *submission;      /* NULL: not yet */
  char id[TP__EXCHANGE_ID_BYTES]; /* that of its first exchange */
  unsigned exchanges;
  bool lost_previous;    /* the response that it continues is not the newest of its session */
  bool cancelled, ended; /* its end was notified */
  /* under the server's lock */
  tp__server_turn *previous, *next;
  tp__server_turn *known_next, *waiting_next; /* of the buckets */
  bool is_listed, is_waiting;
};

/** What a body asks for; it points into the body's value, or is of the heap. tp__ask_fini(). */
typedef struct tp__ask {
  tp_writer *body; /* has the value */
  tp_writer *parameters, *arguments;
  tp_text instructions, previous; /* of a response; empty: none */
  bool stores;                    /* a response may be continued */
  uint32_t tool_calls_max;        /* 0: the runtime's */
  tp_text model, session, tools;  /* tools: a value, an array of maps of name, description and schema */
  tp_writer *tools_writer;
  bool streams, wants_usage;
  tp__bytes text, system; /* of the turn */
  tp_text parameters_value;
  tp_message *messages; /* that come before the text */
  const tp_message **message_list;
  size_t message_count, message_capacity;
  tp_tool_call *calls;
  const tp_tool_call **call_list;
  size_t call_count, call_capacity;
  tp__bytes *texts; /* of the heap, one for each message */
  tp_writer *parts; /* has those of all messages, an array of arrays */
  tp_writer *files_writer;
  tp_text files;                       /* of the turn's message: a value, an array of texts; or empty */
  size_t result_at, results;           /* the results of the client's tools with which the messages end */
  char turn_id[TP__EXCHANGE_ID_BYTES]; /* empty: that of the exchange */
  tp__bytes schema;                    /* JSON; empty: none */
  bool goes_on;                        /* with the session's history, where there is a session */
} tp__ask;

/** A session that the server has opened. */
struct tp__server_session {
  tp_session *session;
  tp_server *server;
  char *tenant, *id, *agent_id;
  bool is_kept; /* the client has named it */
  /* under the server's lock */
  unsigned users;
  bool closes;
  tp__server_turn *waiting;          /* the turn that waits for results of the client */
  tp__server_session *bucket_next;   /* of those that are kept */
  tp__server_session *older, *newer; /* of those that are kept and have no user */
};

enum { TP__SESSION_BUCKETS = 4096, TP__TURN_BUCKETS = 4096 };

struct tp_server {
  tp__references refs; /* of the host, and of each hook until the last turn that has it has ended */
  /* never change */
  tp_runtime *runtime;
  tp_server_options options;
  tp__http *http;
  struct tp__metrics *metrics; /* NULL only while it starts */
  tp__operator *operators;
  struct tp__live *live;                          /* NULL: operators have no key */
  tp__bytes page, page_policy;                    /* of operators, and its Content-Security-Policy */
  int64_t started_ms;                             /* the wall clock */
  char owner[24], tools_hook[40], calls_hook[40]; /* of the hooks, and their ids */
  bool has_hooks;
  bool is_local; /* listens on an address of this machine only */
  /* the front's thread only, after the start */
  char *operator_keys[2]; /* the one key of operators, or NULL; and NULL */
  char **keys;            /* NULL at the end */
  const char **tenants;   /* of each key, "" for none; in tenant_names */
  size_t key_count;
  char *default_agent;                    /* NULL: none */
  struct tp__tenant_name *tenant_names;   /* of all keys so far: open requests name theirs */
  struct tp__mount_client *mount_clients; /* so far */
  tp__lock lock;
  tp__lock_condition changed;
  /* under lock */
  tp__server_turn *turns;
  size_t turn_count, waiting_count;
  tp__server_turn *known[TP__TURN_BUCKETS];   /* all turns, by address: the runtime has turns of the host, too */
  tp__server_turn *waiting[TP__TURN_BUCKETS]; /* those that wait for results of their client, by key */
  tp__server_session *buckets[TP__SESSION_BUCKETS];
  tp__server_session *oldest, *newest;
  size_t session_count; /* those of the buckets */
  size_t open_count;    /* all whose close has not ended */
  bool drains;
  int64_t store_failed_ms; /* monotonic: when a turn last failed by the store, and none has been kept since; 0: none */
  int64_t revised_ms;      /* when the host noted the newest revision; 0: never */
  char refused[1024];      /* why that was refused; empty: it was made */
};

/* ---- server.c ---- */

/** "ok", "denied", "cancelled", "timed_out" or "failed". */
const char *tp__server_status_word(tp_status status);
/** The path of a route; "" for NULL: a path that is none. */
const char *tp__server_route_path(const void *route);
void tp__server_unref(tp_server *server);

/* ---- ready.c ---- */

/** Note how a turn ended, before its client is answered. @param kept  its session is one that a client has named. */
void tp__server_note_end(tp_server *server, tp_status status, bool kept);
/** Why it is not ready: "draining", "store_failing", "no_model"; NULL: it is. */
const char *tp__server_unready(tp_server *server);

/* ---- revision.c ---- */

/** Takes the keys and the default agent of options at the start. */
tp_status tp__server_take_keys(tp_server *server, const tp_server_options *options, tp_fault *fault) TP_MUST_USE;
void tp__server_free_keys(tp_server *server);
/** Adds "revised_ms" and "revision_refused" to the state, where a revision was noted. */
void tp__server_put_revision(tp_server *server, tp__bytes *out);

/* ---- refusal.c ---- */

/** Fills a refusal and returns false, so that a refusal is one line. */
bool tp__refusal_fill(tp__refusal *refusal, unsigned status, const char *code, const char *param, const char *format,
                      ...) TP__PRINTF(5, 6);
/** What a status of the runtime means to a client. */
void tp__refusal_of_status(tp__refusal *refusal, tp_status status, const tp_fault *fault);
/** How a turn ended that did not complete. */
void tp__refusal_of_turn(const tp_runtime *runtime, tp__refusal *refusal, const tp_turn_result *result);
/** {"error": {…}}, added to out. */
void tp__refusal_put(const tp__refusal *refusal, tp__bytes *out);
/** Ends the request with it. */
void tp__refusal_answer(const tp__refusal *refusal, tp__http_request *request);

/* ---- ask.c ---- */

/** Reads a body of /v1/chat/completions. @return false: the refusal says why. The caller calls tp__ask_fini() in either
 *  case. */
bool tp__ask_read_chat(tp__ask *ask, tp_text body, tp__refusal *refusal);
/** Likewise a body of /v1/responses. */
bool tp__ask_read_response(tp__ask *ask, tp_text body, tp__refusal *refusal);
void tp__ask_fini(tp__ask *ask);

/* ---- chat.c ---- */

extern const tp__form tp__chat_form;

/* ---- responses.c ---- */

extern const tp__form tp__responses_form;

/* ---- limits.c ---- */

/** Fills the limits of a turn from the config of its agent (turnphase/server.h). The request has what the server's
 *  options and the client say of them; of the calls of tools the smaller number counts.
 *  @return TP_ERR_INTERNAL for a config whose `limits` cannot be read. */
tp_status tp__server_limits_fill(const tp_agent *agent, tp_turn_request *request, tp_fault *fault) TP_MUST_USE;

/** Whether the turns of an agent may use each of the tools that a client brings: no model would be offered another one.
 *  @param tools  of tp__ask.  @return false: the refusal names the first one that they may not use. */
bool tp__server_tools_check(const tp_agent *agent, tp_text tools, tp__refusal *refusal);

/* ---- session.c ---- */

/** A session for one turn, or with an id one that is kept. Ended by tp__server_session_release().
 *  @param id  empty: of this turn only.
 *  @param agent  NULL: for what a mount runs; it is kept, and its history keeps nothing. */
tp_status tp__server_session_take(tp_server *server, const char *tenant, tp_text id, tp_agent *agent,
                                  tp__server_session **ret_session, tp_fault *fault) TP_MUST_USE;
void tp__server_session_release(tp__server_session *session);
/** Closes all that are kept, and waits until every close has ended. */
void tp__server_sessions_close(tp_server *server);

/* ---- mount.c ---- */

/** Begins to answer /mcp by options.mount, if there is one. */
tp_status tp__mount_start(tp_server *server, tp_fault *fault) TP_MUST_USE;
/** Passes a request to the mount. @param key  the index of the client's key; -1: none was needed. */
void tp__mount_answer(tp_server *server, tp__http_request *request, int key, const char *tenant, bool drains);
/** tp_mount.stop, if there is one. */
void tp__mount_stop(tp_server *server, int64_t until_ms);
/** No request is passed any more, nor is one open. */
void tp__mount_end(tp_server *server);

/* ---- client_tool.c ---- */

/** Adds the hooks that give turns the tools of their clients. */
tp_status tp__client_tools_add(tp_server *server, tp_fault *fault) TP_MUST_USE;
void tp__client_tools_remove(tp_server *server);
/** A call has ended: those that wait are handed to the client when they are all that is left. The turn is locked. */
void tp__client_calls_look_locked(tp__server_turn *turn);
void tp__client_calls_fini(tp__server_turn *turn);
/** Whether a tool is one that the client of a turn has brought.
 *  @param data  the pointer of a turn that runs, which may be none of this server. */
bool tp__client_tool_has(tp_server *server, const void *data, tp_text name);
/** Of the turn whose calls a request answers; NULL: there is none, and the request begins a turn of its own.
 *  @return with a reference. */
tp__server_turn *tp__client_calls_find(tp_server *server, const tp__ask *ask, const char *tenant);
/** Gives the turn the results of the request. Its exchange is attached. @return false: the refusal says why. */
bool tp__client_calls_answer(tp__server_turn *turn, const tp__ask *ask, tp__refusal *refusal);
/** Cancels the turns that wait for their clients: those of a session, or with NULL all. */
void tp__client_calls_cancel(tp_server *server, tp__server_session *session);
/** The turn waits for its client no more. The server is locked. */
void tp__client_calls_unlist_locked(tp__server_turn *turn);
/** Lists and unlists a turn among those of the server. The server is locked. */
void tp__server_turn_list_locked(tp__server_turn *turn);
void tp__server_turn_unlist_locked(tp__server_turn *turn);

/* ---- exchange.c ---- */

void tp__server_turn_unref(tp__server_turn *turn);
void tp__server_turn_cancel(tp__server_turn *turn);
/** Ends the exchange of a turn that goes on with the calls that wait. */
void tp__exchange_hand_over_locked(tp__server_turn *turn);

/** Makes a turn of a request and submits it, or answers the request with the reason.
 *  @param prefix  of the id that the client reads, such as "chatcmpl-". */
void tp__exchange_begin(tp_server *server, tp__http_request *request, const tp__form *form, const char *prefix,
                        const tp__ask *ask, const char *tenant);
void tp__exchange_gone(void *ctx, void *data);
void tp__exchange_drained(void *ctx, tp__http_request *request, void *data);
void tp__exchange_released(void *ctx, void *data);
/** Notifies the host of a request that has ended. */
void tp__exchange_done(void *ctx, const tp__http_done *done, void *data);
/** What happens in turns of this server; a tp_event_fn. */
void tp__exchange_event(void *ctx, const tp_event *event);
void tp__server_turns_cancel(tp_server *server);
/** Random lower-case hexadecimal digits and a NUL. @return false: there is no randomness. */
bool tp__server_random(char *ret_text, size_t digits);

#endif
