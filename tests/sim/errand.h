/* SPDX-License-Identifier: Apache-2.0
 *
 * errand: a host with a loop of its own that dispatches tool calls on a turn it drives, by tp_tools_run() and by
 * tp_tools_submit(), batch after batch: tools that answer at once, through tokens in every way, or not at all. What
 * each call sends and what its tool does is drawn beforehand from the errand's own stream, so that what comes of it in
 * a quiet world does not depend on the schedule. */
#ifndef SIM_ERRAND_H
#define SIM_ERRAND_H

#include "world.h"

enum { ERRAND_BATCHES_MAX = 4, ERRAND_BRIEF_MS = 5, ERRAND_NARROW_MS = 60, ERRAND_TERSE_BYTES = 64 };

/** The tools, one of each kind. */
typedef enum errand_tool {
  TOOL_QUICK,
  TOOL_BRIEF,    /* quick, with a limit of ERRAND_BRIEF_MS */
  TOOL_TERSE,    /* quick, its answers are cut to ERRAND_TERSE_BYTES */
  TOOL_STRICT,   /* quick, with a schema */
  TOOL_BARRED,   /* quick; where there is a gate, it denies this one and no other */
  TOOL_THREADED, /* not quick */
  TOOL_NARROW,   /* not quick, one at a time */
  ERRAND_TOOLS,
  TOOL_NOBODY = ERRAND_TOOLS /* a name that no tool has */
} errand_tool;

typedef enum errand_arguments {
  ARGUMENTS_NONE, /* an empty map */
  ARGUMENTS_NUMBER,
  ARGUMENTS_LONG,      /* the number and more */
  ARGUMENTS_OTHER,     /* a map that the schema refuses */
  ARGUMENTS_NO_MAP,    /* a value, but no map */
  ARGUMENTS_NO_VALUE,  /* bytes that are no value */
  ARGUMENTS_EMPTY,     /* nothing at all */
  ARGUMENTS_MALFORMED, /* as the provider says */
  ARGUMENTS_DOUBTFUL,  /* the same, though they look like an empty map */
  ERRAND_ARGUMENTS
} errand_arguments;

/** How a token is completed. */
typedef enum errand_hand {
  HAND_TOOL,
  HAND_TOKEN, /* first taken for the token of a handler */
  HAND_MODEL  /* first taken for the token of a model */
} errand_hand;

/** Whose words a result is. */
typedef enum errand_words {
  WORDS_NONE,
  WORDS_FIRST,     /* what the tool wants to say */
  WORDS_SECOND,    /* what somebody else says who completes the token, too */
  WORDS_MALFORMED, /* it deferred and answered at once */
  WORDS_REFUSED,   /* it could not defer */
  WORDS_NO_MEMORY, /* the answer was lost */
  WORDS_STRANGE    /* nobody's */
} errand_words;

typedef struct errand errand;
typedef struct errand_batch errand_batch;

typedef struct errand_call {
  errand_batch *batch;
  uint32_t index;
  /* what is drawn */
  errand_tool tool;
  errand_arguments arguments;
  script_way way;
  errand_hand hand;
  char *id; /* the host's own; NULL: it gives none */
  char *text;
  size_t text_size;
  bool fails, no_utf8, polite;
  bool again;  /* it tries to defer twice */
  bool silent; /* it answers without a word */
  int64_t before_ns, later_ns;
  /* what is noted */
  int64_t deadline_ns, deadline_max_ns; /* it ends between them */
  int64_t called_ns, returned_ns, end_ns;
  uint32_t calls, cancels, destroys, accepted;
  uint32_t event_begins, event_ends;
  bool deferred, refused; /* its deferral was taken; was not */
  bool token_over, in_cancel;
  tp_token token;
  errand_words taken, heard; /* by a completion that was accepted; in the result */
  tp_tool_result_kind kind;
  bool started;
} errand_call;

struct errand_batch {
  errand *e;
  uint32_t index, count;
  bool submitted, materialize;
  errand_call *calls;
  const tp_tool_result *const *results; /* while the turn is open */
  bool begun, sure;              /* sure: the turn has our tools */
  uint32_t ends, event_ends;
  int64_t begun_ns;
  uint64_t bytes_hash; /* of all that was given back */
  uint64_t same_hash;  /* of what does not depend on the schedule */
};

struct errand {
  world *w;
  uint32_t index;
  uint64_t stream; /* the drawing's */
  errand_batch batches[ERRAND_BATCHES_MAX];
  uint32_t batch_count, next, now; /* now: the batch under way */
  bool chained;                    /* each batch is submitted by the end of the one before */
  bool ends_inside;                /* and the turn is ended there */
  bool in_session;
  uint32_t limit_ms;
  int64_t begin_ns, cancel_ns;
  tp_turn *turn;
  tp_session *session;
  tp__parker parker;
  bool rests, closed;
  bool beside;                          /* a submit beside a batch was taken, and has not ended */
  bool has_tools;                       /* the last materialization has brought them */
  bool over;                            /* the turn's end was asked for */
  int64_t limit_begin_ns, limit_end_ns; /* the turn's deadline lies behind the first by its limit, before the second */
  int64_t cancelled_ns;
  bool is_cancelled;   /* the cancel has returned */
  uint32_t late_calls; /* quick ones that began all the same */
  uint32_t inside;     /* quick tools that run */
  event_order heard;
};

/* ---- errand_draw.c ---- */

void errand_draw(errand *e);
void errand_undraw(errand *e);
const char *errand_tool_name(errand_tool tool);
/** What the call sends, in memory for free(), which a host is free to spoil afterwards. */
tp_tool_call *errand_letter(const errand_batch *batch);
/** What the call that sends none is called; room is 16 bytes. */
tp_text errand_id(const errand_call *call, char *room);
/** Whose run it is. NULL: nobody's. */
errand_call *errand_find(errand *e, const tp_tool_run *run);
bool errand_arguments_are(const errand_call *call, tp_text arguments);

/* ---- errand.c ---- */

tp_status errand_register(world *w, tp_edit *edit);
/** The gate of a world that has one. */
tp_answer errand_gate(tp_call *call);
/** arg: an errand that was drawn. */
void errand_run(void *arg);
/** When the runtime is gone. */
void errand_after_free(errand *e);

/* ---- errand_oracle.c ---- */

extern const char errand_second_words[], errand_hasty_words[];
int64_t errand_turn_limit_ns(const errand *e);
/** A quick tool is called. */
void errand_called(const errand_call *call, int64_t left_ms);
void errand_heard(errand *e, const tp_event *event);
void errand_batch_ended(errand_batch *batch, const tp_tool_result *const *results, size_t count);
/** Before the turn ends: nothing has changed its results. */
void errand_again(errand *e);
/** How long its quick tools ran between the two. */
int64_t errand_inline_between(const errand *e, int64_t from_ns, int64_t to_ns);
/** When the run is over. */
void errand_ended(errand *e);
void errand_same(errand *a, const errand *b, uint32_t workers_a, uint32_t workers_b);

#endif
