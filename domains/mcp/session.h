/* SPDX-License-Identifier: Apache-2.0
 *
 * session: the connection to one server, whatever the transport: which era and version it speaks, its requests and
 * their answers, its list of tools, and when it is started again. One lock guards it; answers are given without it.
 *
 *   IDLE -> STARTING -> READY -> (its transport is lost) -> PAUSED -> STARTING …
 *                 \-> PAUSED
 *
 * STARTING: server/discover; where that is refused, or not answered, initialize; then all pages of tools/list. A server
 * that ends while it is probed is started once more and not probed. PAUSED: it ended or could not be started; after 1,
 * 2, 4 … 60 s it is started again: by itself when it was ready before, else when it is wanted. No request is repeated
 * by itself. */
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
  char *name;                         /* the server's */
  char *full_name;                    /* mcp__SERVER__TOOL, as the model knows it */
  char *description;                  /* never NULL */
  tp_text schema;                     /* value, with type object; in list->values */
  tp_text output_schema, annotations; /* values, or empty; in list->values */
  char hash[65];                      /* of name, description, schemas and annotations */
  bool is_changed;                    /* another than what is pinned */
  struct tp__mcp_tools *list;
} tp__mcp_tool;

/** The tools of a server at one time: it never changes, and turns keep the one that they began with. */
typedef struct tp__mcp_tools {
  tp__references refs;
  tp__mcp_session *session; /* referenced */
  tp__mcp_tool *items;      /* in the order of their names */
  size_t count, capacity;
  bool is_audited;   /* what has changed is in the audit; under the session's lock */
  tp_writer **pages; /* that the values are in */
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

/** What came of a request. Borrowed until the callback returns. */
typedef struct tp__mcp_answer {
  const tp__mcp_message *message; /* RESULT or ERROR; NULL: there is no answer, and words say why */
  const char *words;
} tp__mcp_answer;
/** Threads: the one that reads, or ends the session. No lock is held. */
typedef void (*tp__mcp_answer_fn)(void *ctx, const tp__mcp_answer *answer);
/** How far a request is. @param message  may be empty. @return false: this is no progress.
 *  Threads: the one that reads; the session's lock is held. */
typedef bool (*tp__mcp_progress_fn)(void *ctx, double done, double total, tp_text message);

struct tp__mcp_sample;

/** Whose call a request is. What it points to stays until the request has its answer, or was given up, and as long as
 *  its owner is referenced; the data is compared only. */
typedef struct tp__mcp_origin {
  const char *tool; /* as models know it */
  const void *data; /* of its turn */
  tp_token token;   /* of the call */
  const char *tenant;
  void *owner; /* that the origin is a part of */
  void (*ref)(void *owner);
  void (*unref)(void *owner);
  /* of sample.c, under the session's lock */
  uint32_t sample_count; /* that were begun */
  int64_t sample_tokens; /* that they have taken */
  bool is_over;
} tp__mcp_origin;
/** Who makes a request. */
typedef struct tp__mcp_asker {
  tp__mcp_progress_fn on_progress; /* may be NULL */
  tp__mcp_answer_fn on_answer;     /* called once, unless the request is given up; not when it could not be sent */
  void *ctx;
  tp__mcp_origin *origin;          /* NULL: it is no call */
  tp_text traceparent, tracestate; /* of _meta; read until the request was sent; empty: none */
} tp__mcp_asker;

/** A pair of the params of a request. */
typedef struct tp__mcp_pair {
  const char *key;
  tp_text content; /* of a text, or a value */
  bool is_value;
} tp__mcp_pair;

/** How messages go to a server. The functions are called with the session's lock held, and call nothing of it. */
typedef struct tp__mcp_transport {
  /** Begins. What it reads goes to tp__mcp_session_take(), and its end to tp__mcp_session_lost(). */
  tp_status (*start_locked)(tp__mcp_session *session, tp_fault *fault);
  /** @param id      of a request; -1: of a message that has no answer.
   *  @param params  of the request, for headers; or empty. */
  tp_status (*send_locked)(tp__mcp_session *session, int64_t id, const char *method, tp_text params, tp_text json,
                           tp_fault *fault);
  /** Each message goes its own way, and one may overtake another: after a message without an answer
   *  tp__mcp_session_delivered() follows. */
  bool confirms;
  /** The handshake of a version with a session is over: messages of the server's own are wanted. NULL: they come. */
  void (*listen_locked)(tp__mcp_session *session);
  /** A request was given up; NULL: nothing is to be done. */
  void (*give_up_locked)(tp__mcp_session *session, int64_t id);
  /** Ends it, or asks it to end: then tp__mcp_session_lost() follows.   @return whether that follows. */
  bool (*stop_locked)(tp__mcp_session *session);
  /** Ends it at once, when it did not follow. */
  void (*kill_locked)(tp__mcp_session *session);
  /** With the session: it has ended. */
  void (*free)(tp__mcp_session *session);
} tp__mcp_transport;

struct tp__mcp_request;

/** A call at a later time. Its owner leaves it where it is until it has come or was unset. */
typedef struct tp__mcp_alarm {
  struct tp__mcp_alarm *next;
  int64_t due_ns;
  /** @param words  NULL: it is time; else the session has ended, and they say why.
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
  tp__lock_condition ended; /* is_connected has become false */
  /* under lock */
  tp__mcp_state state;
  bool is_connected; /* the transport runs, or ends */
  bool was_ready, skips_probe, is_probing, is_listing, list_again;
  tp_mcp_version version;
  int64_t last_id;
  struct tp__mcp_request *requests;
  tp__mcp_tools *tools;   /* of the last list; NULL: none yet */
  tp__mcp_tools *listing; /* that is being read */
  size_t pages;
  struct tp__mcp_waiter *waiters;
  tp__mcp_alarm *alarms;
  uint32_t failures;                                                 /* in a row */
  uint32_t strays;                                                   /* lines that were no messages, since the start */
  uint64_t starts;                                                   /* how often it was started */
  uint32_t asks;                                                     /* of the server, that wait for an answer */
  struct tp__mcp_sample *samples;                                    /* that have no answer */
  uint64_t sample_sessions;                                          /* that were opened for them */
  bool has_bad_progress;                                             /* and a note says so */
  int64_t start_deadline_ns, probe_deadline_ns, restart_ns, kill_ns; /* INT64_MAX: none */
  int64_t ready_ns;
  bool leaves_at_end;                /* it was closed on a thread of io */
  bool awaits_delivery;              /* of notifications/initialized, before anything else is sent */
  char words[TP_FAULT_MESSAGE_SIZE]; /* why it is PAUSED */
  char server_name[128], server_version[64];
  bool has_tools, has_list_changed;
  tp__mcp_notes notes;  /* that no turn has shown yet */
  void *link;           /* the transport's own */
  tp_writer *writer;    /* of messages */
  tp_writer *constants; /* value: write_constants() */
  /* the reading thread's */
  tp_writer *reader;
};

/** @param settings  taken, whatever comes of it.
 *  @param ret_session  with one reference. */
tp_status tp__mcp_session_new(tp_runtime *runtime, tp__mcp_settings *settings, const tp__mcp_transport *transport,
                              tp__mcp_session **ret_session, tp_fault *fault);
void tp__mcp_session_ref(tp__mcp_session *session);
void tp__mcp_session_unref(tp__mcp_session *session);
/** Ends it: requests that wait are answered, the transport is ended, and, on other threads than those of io, waited
 *  for. */
void tp__mcp_session_close(tp__mcp_session *session);

/** Gets the tools once the session is ready, or NULL and words.
 *  Threads: any of io, or the caller's before tp__mcp_session_want() returns. No lock is held. */
typedef void (*tp__mcp_ready_fn)(void *ctx, tp__mcp_tools *tools, const char *words);
/** Starts the session where it is not, and calls on_ready once.
 *  @return false without memory: then on_ready is not called. */
bool tp__mcp_session_want(tp__mcp_session *session, tp__mcp_ready_fn on_ready, void *ctx);
/** Waits for it no more.   @return true: on_ready will not be called; false: it was, or is being called. */
bool tp__mcp_session_unwant(tp__mcp_session *session, const void *ctx);

/** The tools of a session that is READY, where turns have nothing else to be told: no note, no audit.
 *  @return with a reference; NULL: tp__mcp_session_want() is needed. */
tp__mcp_tools *tp__mcp_session_tools(tp__mcp_session *session);

/** Sends a request of a session that is READY.
 *  @param pairs   of its params, without `_meta`.
 *  @param asker   what it points to stays until the answer.
 *  @param ret_id  set before on_answer can come.
 *  @return TP_OK; TP_ERR_STALE: it is not ready, the fault says why; TP_ERR_FULL; TP_ERR_NO_MEMORY; what the transport
 *          returns. */
tp_status tp__mcp_session_request(tp__mcp_session *session, const char *method, const tp__mcp_pair *pairs,
                                  size_t pair_count, const tp__mcp_asker *asker, int64_t *ret_id, tp_fault *fault);
/** Gives a request up: its server is notified.   @param id  as tp__mcp_session_request() set it.
 *  @return whether it had no answer yet; then on_answer will not come. */
bool tp__mcp_session_give_up(tp__mcp_session *session, const int64_t *id, const char *reason);

/** Calls on_due once, after so long. @return false: the session is not READY, and on_due will not be called. */
bool tp__mcp_session_set_alarm(tp__mcp_session *session, tp__mcp_alarm *alarm, uint32_t limit_ms);
/** @return whether it had not come yet; then on_due will not be called. */
bool tp__mcp_session_unset_alarm(tp__mcp_session *session, const tp__mcp_alarm *alarm);

/** What a transport read. @param json  one line, body or event. Threads: one at a time. */
void tp__mcp_session_take(tp__mcp_session *session, tp_text json);
/** Whether a request waits for its answer. */
bool tp__mcp_session_waits(tp__mcp_session *session, int64_t id);
/** Whether its version has all of tp__mcp_has. */
bool tp__mcp_session_has(tp__mcp_session *session, int has);
/** The schema of one of its tools; empty: there is none of the name. Valid while the lock is held. */
tp_text tp__mcp_session_schema_locked(const tp__mcp_session *session, tp_text name);
/** The server does not know the session any more that the request was a part of: the request fails, and the session is
 *  initialized again, once. */
void tp__mcp_session_renew(tp__mcp_session *session, int64_t id);
/** A message without an answer has arrived, or could not be sent. */
void tp__mcp_session_delivered(tp__mcp_session *session);
/** The answer to one request will not come. */
void tp__mcp_session_fail_request(tp__mcp_session *session, int64_t id, const char *words);
/** What the server writes cannot be read any more: it is ended at once. */
void tp__mcp_session_broken(tp__mcp_session *session, const char *words);
/** The transport has ended. */
void tp__mcp_session_lost(tp__mcp_session *session, const char *words);
/** Timers. @return when the next one passes. Threads: io's. */
int64_t tp__mcp_session_tick(tp__mcp_session *session, int64_t now_ns);

/** Whether a tool of the newest list is not as it was pinned.   @param full_name  as models know it. */
bool tp__mcp_session_is_changed(tp__mcp_session *session, tp_text full_name);
/** True the first time, if tools of the list have changed: the caller adds the rows of the audit. */
bool tp__mcp_session_take_changed(tp__mcp_session *session, tp__mcp_tools *tools);
/** Writes the answer to what a server asks of its client, and no person.
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
 * Functions whose name ends in _locked are called with the session's lock held. No callback is called under it: what
 * is to follow is gathered, and done by tp__mcp_session_release(). While the lock is free, only a session that is
 * STARTING has waiters, only one that is READY has alarms, and READY has tools. */

/** Who waits until the session is ready, or cannot be. */
struct tp__mcp_waiter {
  struct tp__mcp_waiter *next;
  tp__mcp_ready_fn on_ready;
  void *ctx;
};

/** What is done when the lock was released. Zero-filled is nothing. */
typedef struct tp__mcp_after {
  struct tp__mcp_request *failed; /* are answered with words */
  struct tp__mcp_waiter *waiters; /* get the tools, or words */
  tp__mcp_alarm *due, *lost;      /* get NULL, or words */
  tp__mcp_tools *tools;           /* referenced; for the waiters */
  bool has_changed;               /* the tools that turns get */
  char words[TP_FAULT_MESSAGE_SIZE];
} tp__mcp_after;

/** Releases the lock, and does what was gathered. */
void tp__mcp_session_release(tp__mcp_session *session, tp__mcp_after *after);
/** STARTING or READY to PAUSED: what waits is answered with the words.
 *  @param words  of the end; that it is started again is added. */
void tp__mcp_session_pause_locked(tp__mcp_session *session, tp__mcp_after *after, const char *words);
/** The list that was read is whole: it is that of turns from here on, and a session that was STARTING is READY. */
void tp__mcp_session_ready_locked(tp__mcp_session *session, tp__mcp_after *after);

#endif
