/* SPDX-License-Identifier: Apache-2.0
 *
 * session: the connection to one server, whatever the transport: which version it speaks, its requests and their
 * answers, its list of tools, and when it is started again. One lock guards it; answers are given without it.
 *
 *   IDLE -> STARTING -> READY -> (its transport is lost) -> PAUSED -> STARTING …
 *                 \-> PAUSED
 *
 * STARTING: the client sends server/discover (the probe); when that is refused, or not answered, it sends initialize;
 * then it reads all pages of tools/list. A server that ends during the probe is started once more, without a probe.
 * PAUSED: the server ended or could not be started. After 1, 2, 4 … 60 s it may start again: it does so by itself if it
 * was ready before, else when a turn needs it. No request is repeated automatically. */
#ifndef TP__MCP_SESSION_H
#define TP__MCP_SESSION_H

#include "domains/mcp/message.h"
#include "domains/mcp/notes.h"
#include "domains/mcp/settings.h"
#include "support/lock.h"
#include "support/references.h"

typedef struct tp__mcp_session tp__mcp_session;

/** A tool as its server describes it. */
typedef struct tp__mcp_tool {
  char *name;                         /* the server's name for it */
  char *full_name;                    /* mcp__SERVER__TOOL, as the model knows it */
  char *description;                  /* never NULL */
  tp_text schema;                     /* value, with type object; a part of the list's pages */
  tp_text output_schema, annotations; /* values, or empty; parts of the list's pages */
  char hash[65];                      /* a hash of name, description, schemas and annotations */
  bool is_changed;                    /* set when it differs from the pin */
  struct tp__mcp_tools *list;
} tp__mcp_tool;

/** The list of a server's tools at one time. It never changes, and a turn keeps the list with which it began. */
typedef struct tp__mcp_tools {
  tp__references refs;
  tp__mcp_session *session; /* holds a reference */
  tp__mcp_tool *items;      /* in the order of their names */
  size_t count, capacity;
  bool is_audited;   /* set when the audit has its changed tools; under the session's lock */
  tp_writer **pages; /* the writers that hold the values */
  size_t page_count, page_capacity;
} tp__mcp_tools;

void tp__mcp_tools_ref(tp__mcp_tools *tools);
/** Accepts NULL. */
void tp__mcp_tools_unref(tp__mcp_tools *tools);

typedef enum tp__mcp_state {
  TP__MCP_IDLE,
  TP__MCP_STARTING,
  TP__MCP_READY,
  TP__MCP_PAUSED,
  TP__MCP_CLOSED
} tp__mcp_state;

/** The answer to a request. Borrowed until the callback returns. */
typedef struct tp__mcp_answer {
  const tp__mcp_message *message; /* a RESULT or ERROR; NULL: there is no answer, and words give the reason */
  const char *words;
} tp__mcp_answer;
/** Receives the answer. Threads: the one that reads, or that ends the session. No lock is held. */
typedef void (*tp__mcp_answer_fn)(void *ctx, const tp__mcp_answer *answer);
/** Receives the progress of a request. @param message  may be empty. @return false: the numbers are no valid progress.
 *  Threads: the one that reads; the session's lock is held. */
typedef bool (*tp__mcp_progress_fn)(void *ctx, double done, double total, tp_text message);

struct tp__mcp_sample;

/** The call for which a request is made. What it points to stays valid until the request is answered or given up, and
 *  as long as its owner is referenced; the data is only compared. */
typedef struct tp__mcp_origin {
  const char *tool; /* the tool's name as models know it */
  const void *data; /* the data of its turn */
  tp_token token;   /* the token of the call */
  const char *tenant;
  void *owner; /* the object that contains the origin */
  void (*ref)(void *owner);
  void (*unref)(void *owner);
  /* of sample.c, under the session's lock */
  uint32_t sample_count; /* how many requests to models were begun */
  int64_t sample_tokens; /* how many tokens they have used */
  bool is_over;
} tp__mcp_origin;
/** The caller of a request. */
typedef struct tp__mcp_asker {
  tp__mcp_progress_fn on_progress; /* may be NULL */
  tp__mcp_answer_fn on_answer;     /* called once, unless the request is given up; not when it could not be sent */
  void *ctx;
  tp__mcp_origin *origin;          /* NULL: the request belongs to no call */
  tp_text traceparent, tracestate; /* for _meta; read until the request was sent; empty: none */
} tp__mcp_asker;

/** A pair of the params of a request. */
typedef struct tp__mcp_pair {
  const char *key;
  tp_text content; /* the content of a text, or a value */
  bool is_value;
} tp__mcp_pair;

/** The functions of a transport, which passes messages to a server. They are called with the session's lock held, and
 *  must not call the session. */
typedef struct tp__mcp_transport {
  /** Begins. Bytes that it reads go to tp__mcp_session_take(); when it ends it calls tp__mcp_session_lost(). */
  tp_status (*start_locked)(tp__mcp_session *session, tp_fault *fault);
  /** @param id      the id of a request; -1: a message that has no answer.
   *  @param params  those of the request, for headers; or empty. */
  tp_status (*send_locked)(tp__mcp_session *session, int64_t id, const char *method, tp_text params, tp_text json,
                           tp_fault *fault);
  /** Set when each message is a transfer of its own, so that one may overtake another: then tp__mcp_session_delivered()
   *  is called after a message without an answer. */
  bool confirms;
  /** Begins to receive the server's own messages, after the handshake of a version with sessions. NULL: they come
   *  anyway. */
  void (*listen_locked)(tp__mcp_session *session);
  /** Notifies that a request was given up; NULL: nothing is to be done. */
  void (*give_up_locked)(tp__mcp_session *session, int64_t id);
  /** Ends the transport, or begins its end: then tp__mcp_session_lost() follows.   @return whether that follows. */
  bool (*stop_locked)(tp__mcp_session *session);
  /** Ends the transport at once, when its end did not follow in time. */
  void (*kill_locked)(tp__mcp_session *session);
  /** Frees the transport, which has ended, together with the session. */
  void (*free)(tp__mcp_session *session);
} tp__mcp_transport;

struct tp__mcp_request;

/** A timer with a callback. Its owner must not move or free it until the callback has begun or the alarm was unset. */
typedef struct tp__mcp_alarm {
  struct tp__mcp_alarm *next;
  int64_t due_ns;
  /** @param words  NULL: the time has come; else the session has ended, and words give the reason.
   *  Threads: io's, or the one that ends the session. No lock is held. */
  void (*on_due)(void *ctx, const char *words);
  void *ctx;
} tp__mcp_alarm;

struct tp__mcp_session {
  /* never change */
  tp__references refs;
  tp__mcp_settings settings;
  tp_runtime *runtime;
  const tp__mcp_transport *transport;
  tp__lock lock;
  tp__lock_condition ended; /* signalled when is_connected has become false */
  /* under lock */
  tp__mcp_state state;
  bool is_connected; /* set while the transport runs, or ends */
  bool was_ready, skips_probe, is_probing, is_listing, list_again;
  tp_mcp_version version;
  int64_t last_id;
  struct tp__mcp_request *requests;
  tp__mcp_tools *tools;   /* the tools of the last list; NULL: none yet */
  tp__mcp_tools *listing; /* the list that is being read */
  size_t pages;
  struct tp__mcp_waiter *waiters;
  tp__mcp_alarm *alarms;
  uint32_t failures;                                                 /* failures in a row */
  uint32_t strays;                                                   /* lines that were no messages, since the start */
  uint64_t starts;                                                   /* how often it was started */
  uint32_t asks;                                                     /* how many requests of the server wait for an
                                                                        answer */
  struct tp__mcp_sample *samples;                                    /* the requests to models that have no answer */
  uint64_t sample_sessions;                                          /* how many sessions were opened for them */
  bool has_bad_progress;                                             /* set when the server sent wrong progress and a
                                                                        note was made */
  int64_t start_deadline_ns, probe_deadline_ns, restart_ns, kill_ns; /* INT64_MAX: none */
  int64_t ready_ns;
  bool leaves_at_end;                /* set when it was closed on a thread of io */
  bool awaits_delivery;              /* waits for the delivery of notifications/initialized, before anything else is
                                        sent */
  char words[TP_FAULT_MESSAGE_SIZE]; /* the reason why it is PAUSED */
  char server_name[128], server_version[64];
  bool has_tools, has_list_changed;
  tp__mcp_notes notes;  /* notes that no turn has shown yet */
  void *link;           /* the transport's own */
  tp_writer *writer;    /* for messages */
  tp_writer *constants; /* value: what write_constants() wrote */
  /* the reading thread's */
  tp_writer *reader;
};

/** @param settings  taken, also on failure.
 *  @param ret_session  with one reference. */
tp_status tp__mcp_session_new(tp_runtime *runtime, tp__mcp_settings *settings, const tp__mcp_transport *transport,
                              tp__mcp_session **ret_session, tp_fault *fault);
void tp__mcp_session_ref(tp__mcp_session *session);
void tp__mcp_session_unref(tp__mcp_session *session);
/** Ends a session: requests that wait are answered, and the transport is ended. Waits for the end of the transport,
 *  except on a thread of io. */
void tp__mcp_session_close(tp__mcp_session *session);

/** Receives the tools once the session is ready; or NULL and the reason. Threads: those of io, or the caller's before
 *  tp__mcp_session_want() returns. No lock is held. */
typedef void (*tp__mcp_ready_fn)(void *ctx, tp__mcp_tools *tools, const char *words);
/** Starts the session if it does not run, and calls on_ready once.
 *  @return false without memory: then on_ready is not called. */
bool tp__mcp_session_want(tp__mcp_session *session, tp__mcp_ready_fn on_ready, void *ctx);
/** Ends the wait for on_ready.   @return true: on_ready will not be called; false: it was called, or is being
 *  called. */
bool tp__mcp_session_unwant(tp__mcp_session *session, const void *ctx);

/** Returns the tools of a session that is READY, if it has no notes and no audit rows for a turn.
 *  @return with a reference; NULL: tp__mcp_session_want() is needed. */
tp__mcp_tools *tp__mcp_session_tools(tp__mcp_session *session);

/** Sends a request of a session that is READY.
 *  @param pairs   the pairs of its params, without `_meta`.
 *  @param asker   what it points to must stay valid until the answer.
 *  @param ret_id  set before on_answer can come.
 *  @return TP_OK; TP_ERR_STALE: the session is not ready, for the reason in the fault; TP_ERR_FULL; TP_ERR_NO_MEMORY;
 *          what the transport returns. */
tp_status tp__mcp_session_request(tp__mcp_session *session, const char *method, const tp__mcp_pair *pairs,
                                  size_t pair_count, const tp__mcp_asker *asker, int64_t *ret_id, tp_fault *fault);
/** Gives a request up, and notifies its server.   @param id  as tp__mcp_session_request() set it.
 *  @return whether the request had no answer yet; then on_answer will not be called. */
bool tp__mcp_session_give_up(tp__mcp_session *session, const int64_t *id, const char *reason);

/** Calls on_due once, after limit_ms. @return false: the session is not READY, and on_due will not be called. */
bool tp__mcp_session_set_alarm(tp__mcp_session *session, tp__mcp_alarm *alarm, uint32_t limit_ms);
/** Stops an alarm. @return whether it had not expired yet; then on_due will not be called. */
bool tp__mcp_session_unset_alarm(tp__mcp_session *session, const tp__mcp_alarm *alarm);

/** Takes the bytes that a transport read. @param json  one line, body or event. Threads: one at a time. */
void tp__mcp_session_take(tp__mcp_session *session, tp_text json);
/** Whether a request waits for its answer. */
bool tp__mcp_session_waits(tp__mcp_session *session, int64_t id);
/** Whether its version has all these features of tp__mcp_has. */
bool tp__mcp_session_has(tp__mcp_session *session, int has);
/** The schema of one of its tools; empty: there is no tool of this name. Valid while the lock is held. */
tp_text tp__mcp_session_schema_locked(const tp__mcp_session *session, tp_text name);
/** Handles a server that has lost the session of the request: the request fails, and the session is initialized again,
 *  once. */
void tp__mcp_session_renew(tp__mcp_session *session, int64_t id);
/** Notifies that a message without an answer has arrived, or could not be sent. */
void tp__mcp_session_delivered(tp__mcp_session *session);
/** Notifies that the answer to one request will not come. */
void tp__mcp_session_fail_request(tp__mcp_session *session, int64_t id, const char *words);
/** Ends a server at once whose output cannot be read any more. */
void tp__mcp_session_broken(tp__mcp_session *session, const char *words);
/** Notifies that the transport has ended. */
void tp__mcp_session_lost(tp__mcp_session *session, const char *words);
/** Runs the expired timers. @return when the next one expires. Threads: that of io. */
int64_t tp__mcp_session_tick(tp__mcp_session *session, int64_t now_ns);

/** Whether a tool of the newest list differs from its pin.   @param full_name  its name as models know it. */
bool tp__mcp_session_is_changed(tp__mcp_session *session, tp_text full_name);
/** True the first time, if tools of the list have changed: the caller adds the rows of the audit. */
bool tp__mcp_session_take_changed(tp__mcp_session *session, tp__mcp_tools *tools);
/** Writes the answer to a request of the server that needs no person, such as roots/list.
 *  @return false for a method that this client does not have; then nothing was written. */
bool tp__mcp_session_write_input(const tp__mcp_session *session, tp_text method, tp_writer *writer);

/* ---- for the files of a session ----
 *
 *   session.c    its states, timers, begin and end, and who waits for its tools
 *   handshake.c  from the start to READY: versions, and the list of tools
 *   request.c    what is sent, and the requests that have no answer
 *   receive.c    what the server sends: tp__mcp_session_take() and what it calls
 *   notes.c      lines for the diagnostics of the next turn
 *
 * Functions whose name ends in _locked are called with the session's lock held. No callback is called under it: calls
 * that must follow are collected, and tp__mcp_session_release() makes them. While the lock is free, only a session that
 * is STARTING has waiters, only one that is READY has alarms, and READY has tools. */

/** A waiter for the moment at which the session is ready, or cannot be. */
struct tp__mcp_waiter {
  struct tp__mcp_waiter *next;
  tp__mcp_ready_fn on_ready;
  void *ctx;
};

/** The calls that follow the release of the lock. Zero-filled: none. */
typedef struct tp__mcp_after {
  struct tp__mcp_request *failed; /* are answered with the words */
  struct tp__mcp_waiter *waiters; /* get the tools, or the words */
  tp__mcp_alarm *due, *lost;      /* due ones get NULL, lost ones the words */
  tp__mcp_tools *tools;           /* holds a reference; passed to the waiters */
  bool has_changed;               /* set when the tools that turns get have changed */
  char words[TP_FAULT_MESSAGE_SIZE];
} tp__mcp_after;

/** Releases the lock, and makes the collected calls. */
void tp__mcp_session_release(tp__mcp_session *session, tp__mcp_after *after);
/** Goes from STARTING or READY to PAUSED: everything that waits is answered with the words.
 *  @param words  the reason of the end; a note about the next start is added. */
void tp__mcp_session_pause_locked(tp__mcp_session *session, tp__mcp_after *after, const char *words);
/** Makes the list that was read the list of the next turns; a session that was STARTING becomes READY. */
void tp__mcp_session_ready_locked(tp__mcp_session *session, tp__mcp_after *after);

#endif
