/* SPDX-License-Identifier: Apache-2.0
 *
 * server: the declarations that the files of the library turnphase-server share. A request of a client that becomes a
 * turn is an exchange; the turn outlives its exchange when the client leaves. A form writes the answers of one API.
 *
 * Ownership: a turn has a reference for each of its exchanges, and one until its end was notified. An exchange is the
 * data of its HTTP request, and is freed when that is released.
 * Locks: the server's for its lists, and one of each turn for everything that its exchange sends. No function of the
 * runtime is called under these locks. */
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

/** The beginning of the data of an HTTP request. */
typedef struct tp__client {
  bool watches; /* set in a tp__watcher; else it is a tp__exchange */
} tp__client;

/** The reason why a client gets no answer, in the form that its library reads. */
typedef struct tp__refusal {
  unsigned status;                /* the status of HTTP */
  const char *type;               /* "invalid_request_error" */
  const char *code;               /* "model_not_found"; NULL: none */
  const char *param;              /* the field of the body; NULL: none */
  const char *phase;              /* the phase of the hook; NULL: none */
  const char *allow;              /* the allowed methods, with status 405; NULL: none */
  char hook[TP_ID_BYTES_MAX + 1]; /* the hook that denied or failed; empty: none */
  uint64_t retry_ms;              /* after which time the client may send the request again; 0: not known */
  bool ran;                       /* the turn began, so a client that sends the request again repeats its effects */
  char message[TP_FAULT_MESSAGE_SIZE];
} tp__refusal;

/** A call of a tool that the client runs. */
typedef struct tp__client_call {
  char id[TP__EXCHANGE_ID_BYTES]; /* the id as the client reads it: it names the turn, and cannot be guessed */
  tp__bytes name, arguments;      /* JSON */
  tp_token token;
} tp__client_call;

/** The answer of a turn. */
typedef struct tp__answer {
  tp_text text, thinking;
  const tp__client_call *calls; /* the calls that the client must run */
  size_t call_count;
  tp_finish finish;
  int64_t input_tokens, output_tokens;
} tp__answer;

/** The functions that write the answers of one API. Each adds to `out`, under the lock of the exchange's turn. */
typedef struct tp__form {
  bool numbers_exchanges; /* set when the id of an exchange is the id of its turn and a number */
  /** Writes a piece of the answer, or of the thinking, into a stream. */
  void (*piece)(tp__exchange *exchange, tp__bytes *out, tp_text piece, bool is_thinking);
  /** Writes the end of a stream. */
  void (*end)(tp__exchange *exchange, tp__bytes *out, const tp__answer *answer);
  /** Writes the failure of a stream that had begun. */
  void (*fail)(tp__exchange *exchange, tp__bytes *out, const tp__refusal *refusal);
  /** Writes the whole answer, when it is no stream. */
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
  tp__bytes model, previous; /* the names that the client used */
  bool stores;
  /* under the turn's lock */
  int64_t input_tokens, output_tokens; /* the usage in its answer */
  tp__http_request *request;           /* NULL: the request was ended */
  bool began;                          /* the stream has begun */
  bool has_piece, has_text;
  uint64_t sequence;           /* the number of the next event */
  unsigned item;               /* index of the output item that is being written */
  int item_kind;               /* used by responses.c */
  tp__bytes item_text, output; /* the text of this item; the JSON of the complete items */
  tp__bytes tail;              /* bytes for which the stream has no space yet */
  bool tail_ends;              /* set when these are the last bytes */
};

struct tp__server_turn {
  tp__references refs;
  /* never change */
  tp_server *server;
  tp__server_session *session;             /* until the end of the turn */
  bool holds_text;                         /* the answer is sent only when it is complete, since it must fit a schema */
  char key[TP__TURN_KEY_DIGITS + 1];       /* the key in the ids of its calls */
  char previous_id[TP__EXCHANGE_ID_BYTES]; /* the response that it continues; empty: none */
  char turn_id[TP__EXCHANGE_ID_BYTES];     /* the runtime's id of the turn */
  char tenant[TP_ID_BYTES_MAX + 1];        /* empty: no tenant, or it was not submitted */
  char agent_id[TP_ID_BYTES_MAX + 1];      /* empty: it was not submitted */
  char *session_id;                        /* a copy; NULL: it was not submitted */
  tp_text tools;                           /* value: an array as in the request; empty: none */
  tp__bytes tools_copy;
  /* the owner of the turn only */
  int64_t asked_ns;                /* when the model was last asked; 0: the first piece of its answer has come */
  char model[TP_ID_BYTES_MAX + 1]; /* the model that was asked */
  bool had_delta, separates;       /* whether a delta has come; whether the next piece begins another answer of the
                                      model */
  tp__lock lock;
  /* under lock */
  tp__exchange *exchange; /* NULL: no client listens */
  tp_hold *hold;          /* holds back the answer that is being written; NULL: the client reads fast enough */
  tp__bytes text, thinking;
  int64_t input_tokens, output_tokens;                   /* tokens of the turn's requests so far */
  int64_t reported_input_tokens, reported_output_tokens; /* tokens that earlier exchanges have reported */
  tp__client_call *calls;                                /* the calls of the newest response that wait for the client */
  size_t call_count, call_capacity;
  size_t expected, over;          /* how many calls the newest response has; how many of them have ended */
  uint32_t calls_made;            /* in the whole turn */
  bool waits;                     /* set while it waits for results of the client */
  tp_submission *submission;      /* NULL: not yet */
  char id[TP__EXCHANGE_ID_BYTES]; /* the id of its first exchange */
  unsigned exchanges;
  bool lost_previous;    /* set when the response that it continues is not the newest one of its session */
  bool cancelled, ended; /* ended: its end was notified */
  /* under the server's lock */
  tp__server_turn *previous, *next;
  tp__server_turn *known_next, *waiting_next; /* the next ones in the buckets */
  bool is_listed, is_waiting;
};

/** The content of a body. It points into the body's value, or to the heap. Freed by tp__ask_fini(). */
typedef struct tp__ask {
  tp_writer *body; /* the writer that has the value */
  tp_writer *parameters, *arguments;
  tp_text instructions, previous; /* of a request to /v1/responses; empty: none */
  bool stores;                    /* the response may be continued later */
  uint32_t tool_calls_max;        /* 0: the runtime's default */
  tp_text model, session, tools;  /* tools: a value, an array of maps of name, description and schema */
  tp_writer *tools_writer;
  bool streams, wants_usage;
  tp__bytes text, system; /* those of the turn */
  tp_text parameters_value;
  tp_message *messages; /* the messages before the text */
  const tp_message **message_list;
  size_t message_count, message_capacity;
  tp_tool_call *calls;
  const tp_tool_call **call_list;
  size_t call_count, call_capacity;
  tp__bytes *texts; /* on the heap, one for each message */
  tp_writer *parts; /* the writer that has the parts of all messages, an array of arrays */
  tp_writer *files_writer;
  tp_text files;                       /* the files of the turn's message: a value, an array of texts; or empty */
  size_t result_at, results;           /* the results of the client's tools with which the messages end */
  char turn_id[TP__EXCHANGE_ID_BYTES]; /* empty: the id of the exchange */
  tp__bytes schema;                    /* JSON; empty: none */
  bool goes_on;                        /* continues the session's history, if there is a session */
} tp__ask;

/** A session that the server has opened. */
struct tp__server_session {
  tp_session *session;
  tp_server *server;
  char *tenant, *id, *agent_id;
  bool is_kept; /* set when the client has named it */
  /* under the server's lock */
  unsigned users;
  bool closes;
  tp__server_turn *waiting;          /* the turn that waits for results of the client */
  tp__server_session *bucket_next;   /* the next one in the bucket of kept sessions */
  tp__server_session *older, *newer; /* the list of kept sessions that have no user */
};

enum { TP__SESSION_BUCKETS = 4096, TP__TURN_BUCKETS = 4096 };

struct tp_server {
  tp__references refs; /* one of the host, and one of each hook until the last turn with it has ended */
  /* never change */
  tp_runtime *runtime;
  tp_server_options options;
  tp__http *http;
  struct tp__metrics *metrics; /* NULL only while it starts */
  tp__operator *operators;
  struct tp__live *live;                          /* NULL: operators have no key */
  tp__bytes page, page_policy;                    /* the page of operators, and its Content-Security-Policy */
  int64_t started_ms;                             /* by the wall clock */
  char owner[24], tools_hook[40], calls_hook[40]; /* the owner of the hooks, and their ids */
  bool has_hooks;
  bool is_local; /* listens on an address of this machine only */
  /* used by the front's thread only, after the start */
  char *operator_keys[2]; /* the key of operators, or NULL; then NULL */
  char **keys;            /* NULL at the end */
  const char **tenants;   /* the tenant of each key, "" for none; these point into tenant_names */
  size_t key_count;
  char *default_agent;                    /* NULL: none */
  struct tp__tenant_name *tenant_names;   /* the tenants of all keys so far, since open requests point to them */
  struct tp__mount_client *mount_clients; /* the clients of the mount so far */
  tp__lock lock;
  tp__lock_condition changed;
  /* under lock */
  tp__server_turn *turns;
  size_t turn_count, waiting_count;
  tp__server_turn *known[TP__TURN_BUCKETS];   /* all turns, by address, to tell them from turns of the host */
  tp__server_turn *waiting[TP__TURN_BUCKETS]; /* those that wait for results of their client, by key */
  tp__server_session *buckets[TP__SESSION_BUCKETS];
  tp__server_session *oldest, *newest;
  size_t session_count; /* the sessions in the buckets */
  size_t open_count;    /* all sessions whose close has not ended */
  bool drains;
  int64_t store_failed_ms; /* monotonic: when a turn last failed because of the store, if none was kept since; 0:
                              never */
  int64_t revised_ms;      /* when the host noted the newest revision; 0: never */
  char refused[1024];      /* the reason of its refusal; empty: the revision was made */
};

/* ---- server.c ---- */

/** "ok", "denied", "cancelled", "timed_out" or "failed". */
const char *tp__server_status_word(tp_status status);
/** The path of a route; "" for NULL. */
const char *tp__server_route_path(const void *route);
void tp__server_unref(tp_server *server);

/* ---- ready.c ---- */

/** Notes how a turn ended, before its client is answered. @param kept  set when a client has named its session. */
void tp__server_note_end(tp_server *server, tp_status status, bool kept);
/** The reason why the server is not ready: "draining", "store_failing", "no_model"; NULL: it is ready. */
const char *tp__server_unready(tp_server *server);

/* ---- revision.c ---- */

/** Takes the keys and the default agent of options at the start. */
tp_status tp__server_take_keys(tp_server *server, const tp_server_options *options, tp_fault *fault) TP_MUST_USE;
void tp__server_free_keys(tp_server *server);
/** Adds "revised_ms" and "revision_refused" to the state, if a revision was noted. */
void tp__server_put_revision(tp_server *server, tp__bytes *out);

/* ---- refusal.c ---- */

/** Fills a refusal and returns false, so that the caller can refuse in one line. */
bool tp__refusal_fill(tp__refusal *refusal, unsigned status, const char *code, const char *param, const char *format,
                      ...) TP__PRINTF(5, 6);
/** Fills a refusal for a status of the runtime. */
void tp__refusal_of_status(tp__refusal *refusal, tp_status status, const tp_fault *fault);
/** Fills a refusal for a turn that did not complete. */
void tp__refusal_of_turn(const tp_runtime *runtime, tp__refusal *refusal, const tp_turn_result *result);
/** Adds {"error": {…}} to out. */
void tp__refusal_put(const tp__refusal *refusal, tp__bytes *out);
/** Ends the request with the refusal. */
void tp__refusal_answer(const tp__refusal *refusal, tp__http_request *request);

/* ---- ask.c ---- */

/** Reads a body of /v1/chat/completions. @return false: the refusal has the reason. The caller calls tp__ask_fini() in
 *  either case. */
bool tp__ask_read_chat(tp__ask *ask, tp_text body, tp__refusal *refusal);
/** The same for a body of /v1/responses. */
bool tp__ask_read_response(tp__ask *ask, tp_text body, tp__refusal *refusal);
void tp__ask_fini(tp__ask *ask);

/* ---- chat.c ---- */

extern const tp__form tp__chat_form;

/* ---- responses.c ---- */

extern const tp__form tp__responses_form;

/* ---- limits.c ---- */

/** Fills the limits of a turn from the config of its agent (turnphase/server.h). The request already has the limits of
 *  the server's options and of the client; for tool calls the smaller number counts.
 *  @return TP_ERR_INTERNAL when the config's `limits` cannot be read. */
tp_status tp__server_limits_fill(const tp_agent *agent, tp_turn_request *request, tp_fault *fault) TP_MUST_USE;

/** Whether the turns of an agent may use all the tools of a client: a model would not be offered any other tool.
 *  @param tools  of tp__ask.  @return false: the refusal names the first one that they may not use. */
bool tp__server_tools_check(const tp_agent *agent, tp_text tools, tp__refusal *refusal);

/* ---- session.c ---- */

/** Takes a session for one turn or, with an id, a kept session. Ended by tp__server_session_release().
 *  @param id  empty: the session is for this turn only.
 *  @param agent  NULL: for the work of a mount; the session is kept, and its history keeps nothing. */
tp_status tp__server_session_take(tp_server *server, const char *tenant, tp_text id, tp_agent *agent,
                                  tp__server_session **ret_session, tp_fault *fault) TP_MUST_USE;
void tp__server_session_release(tp__server_session *session);
/** Closes all kept sessions, and waits until every close has ended. */
void tp__server_sessions_close(tp_server *server);

/* ---- mount.c ---- */

/** Begins to answer /mcp by options.mount, if there is one. */
tp_status tp__mount_start(tp_server *server, tp_fault *fault) TP_MUST_USE;
/** Passes a request to the mount. @param key  the index of the client's key; -1: none was needed. */
void tp__mount_answer(tp_server *server, tp__http_request *request, int key, const char *tenant, bool drains);
/** tp_mount.stop, if there is one. */
void tp__mount_stop(tp_server *server, int64_t until_ms);
/** Ends the mount: no request is passed any more, and none is open. */
void tp__mount_end(tp_server *server);

/* ---- client_tool.c ---- */

/** Adds the hooks that give turns their clients' tools. */
tp_status tp__client_tools_add(tp_server *server, tp_fault *fault) TP_MUST_USE;
void tp__client_tools_remove(tp_server *server);
/** Called when a call has ended: when only waiting calls are left, they are passed to the client. The turn is
 *  locked. */
void tp__client_calls_look_locked(tp__server_turn *turn);
void tp__client_calls_fini(tp__server_turn *turn);
/** Whether a tool belongs to the client of a turn.
 *  @param data  the data pointer of a running turn, which need not be a turn of this server. */
bool tp__client_tool_has(tp_server *server, const void *data, tp_text name);
/** Finds the turn whose calls a request answers; NULL: there is none, and the request begins a turn of its own.
 *  @return with a reference. */
tp__server_turn *tp__client_calls_find(tp_server *server, const tp__ask *ask, const char *tenant);
/** Passes the results of the request to the turn, to which the exchange is attached already. @return false: the refusal
 *  has the reason. */
bool tp__client_calls_answer(tp__server_turn *turn, const tp__ask *ask, tp__refusal *refusal);
/** Cancels the turns that wait for their clients: those of a session, or with NULL all. */
void tp__client_calls_cancel(tp_server *server, tp__server_session *session);
/** Removes the turn from those that wait for their client. The server is locked. */
void tp__client_calls_unlist_locked(tp__server_turn *turn);
/** Add a turn to the list of the server's turns, and remove it. The server is locked. */
void tp__server_turn_list_locked(tp__server_turn *turn);
void tp__server_turn_unlist_locked(tp__server_turn *turn);

/* ---- exchange.c ---- */

void tp__server_turn_unref(tp__server_turn *turn);
void tp__server_turn_cancel(tp__server_turn *turn);
/** Ends the exchange of a turn and passes the waiting calls to the client; the turn goes on later. */
void tp__exchange_hand_over_locked(tp__server_turn *turn);

/** Makes a turn of a request and submits it, or answers the request with the reason.
 *  @param prefix  the prefix of the id that the client reads, such as "chatcmpl-". */
void tp__exchange_begin(tp_server *server, tp__http_request *request, const tp__form *form, const char *prefix,
                        const tp__ask *ask, const char *tenant);
void tp__exchange_gone(void *ctx, void *data);
void tp__exchange_drained(void *ctx, tp__http_request *request, void *data);
void tp__exchange_released(void *ctx, void *data);
/** Notifies the host that a request has ended. */
void tp__exchange_done(void *ctx, const tp__http_done *done, void *data);
/** Handles the events of this server's turns; a tp_event_fn. */
void tp__exchange_event(void *ctx, const tp_event *event);
void tp__server_turns_cancel(tp_server *server);
/** Random lower-case hexadecimal digits and a NUL. @return false: no random bytes were available. */
bool tp__server_random(char *ret_text, size_t digits);

#endif
