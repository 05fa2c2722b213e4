/* SPDX-License-Identifier: Apache-2.0
 *
 * tool workload: a host with a loop of its own that dispatches tool calls on a host-driven turn, by tp_tools_run() and
 * by tp_tools_submit(), batch after batch: tools that answer at once, through tokens in every way, or never. The
 * content of each call and the behaviour of its tool are drawn beforehand from the workload's own stream. So in a
 * fault-free world the results do not depend on the schedule. */
#ifndef SIM_TOOL_WORK_H
#define SIM_TOOL_WORK_H

#include "world.h"

enum { TOOL_WORK_BATCHES_MAX = 4, TOOL_WORK_BRIEF_MS = 5, TOOL_WORK_SINGLE_MS = 60, TOOL_WORK_TERSE_BYTES = 64 };
enum { TOOL_WORK_ASK_MS = 40 };

/** The tools, one of each kind. */
typedef enum tool_work_tool {
  TOOL_INLINE,
  TOOL_BRIEF,    /* inline, with a limit of TOOL_WORK_BRIEF_MS */
  TOOL_TERSE,    /* inline, its answers are cut to TOOL_WORK_TERSE_BYTES */
  TOOL_STRICT,   /* inline, with a schema */
  TOOL_BARRED,   /* inline; where there is a gate, it denies this one and no other */
  TOOL_THREADED, /* on a thread */
  TOOL_SINGLE,   /* on a thread, one call at a time */
  TOOL_READER,   /* inline; reads the key in its arguments, see tool_work_key() */
  TOOL_WRITER,   /* on a thread; writes that key */
  TOOL_ASKED,    /* inline; where there are people, one is asked about each call */
  TOOL_WORK_TOOLS,
  TOOL_UNKNOWN = TOOL_WORK_TOOLS /* a name that no tool has */
} tool_work_tool;

typedef enum tool_work_arguments {
  ARGUMENTS_NONE, /* an empty map */
  ARGUMENTS_NUMBER,
  ARGUMENTS_LONG,      /* the number, and more text */
  ARGUMENTS_OTHER,     /* a map that the schema refuses */
  ARGUMENTS_NO_MAP,    /* a value, but no map */
  ARGUMENTS_NO_VALUE,  /* bytes that are no value */
  ARGUMENTS_EMPTY,     /* no bytes */
  ARGUMENTS_MALFORMED, /* text that is no value; the provider marks it as malformed */
  ARGUMENTS_DOUBTFUL,  /* the bytes of an empty map; the provider marks them as malformed, too */
  TOOL_WORK_ARGUMENTS
} tool_work_arguments;

/** How a token is completed. */
typedef enum tool_work_hand {
  HAND_TOOL,
  HAND_TOKEN, /* first taken for the token of a handler */
  HAND_MODEL  /* first taken for the token of a model */
} tool_work_hand;

/** What the person who is asked about a call does. */
typedef enum tool_work_person {
  PERSON_ALLOWS,
  PERSON_DENIES,
  PERSON_ANSWERS_TWICE,  /* allows, and then denies */
  PERSON_ANSWERS_OTHERS, /* allows other arguments */
  PERSON_ABANDONS,       /* the channel fails */
  PERSON_SILENT,
  TOOL_WORK_PERSONS
} tool_work_person;

/** The origin of the text of a result. */
typedef enum tool_work_words {
  WORDS_NONE,
  WORDS_FIRST,     /* what the tool itself answers */
  WORDS_SECOND,    /* what a second thread answers that also completes the token */
  WORDS_MALFORMED, /* the tool deferred and also answered at once */
  WORDS_REFUSED,   /* the tool could not defer */
  WORDS_NO_MEMORY, /* the answer was lost */
  WORDS_STRANGE    /* text of none of these */
} tool_work_words;

typedef struct tool_work tool_work;
typedef struct tool_work_batch tool_work_batch;

typedef struct tool_work_call {
  tool_work_batch *batch;
  uint32_t index;
  /* members that are drawn */
  tool_work_tool tool;
  tool_work_arguments arguments;
  script_way way;
  tool_work_hand hand;
  char *id; /* the id that the host gives; NULL: it gives none */
  char *text;
  size_t text_size;
  bool fails, no_utf8, polite;
  bool again;  /* the tool tries to defer twice */
  bool silent; /* the tool answers without text */
  int64_t before_ns, later_ns;
  tool_work_person person;
  int64_t person_ns; /* time until the person answers; 0: the person answers before the channel returns */
  /* members that are noted while the call runs */
  int64_t deadline_ns, deadline_max_ns; /* the call ends between these two times */
  int64_t called_ns, returned_ns, end_ns;
  uint32_t calls, cancels, destroys, accepted;
  uint32_t event_begins, event_ends;
  uint32_t reported, progress_heard;
  bool deferred, refused; /* deferred: its deferral was accepted; refused: its deferral was refused */
  bool token_over, in_cancel;
  bool completing; /* by its token: from here on it may be over */
  tp_token token;
  tp_token question;
  char shown_hash[64];
  uint32_t asked, answers;      /* answers that were taken */
  bool allowed;                 /* an answer that allows it was accepted */
  tool_work_words taken, heard; /* taken: the text of the completion that was accepted; heard: the text in the result */
  tp_tool_result_kind kind;
  bool started;
} tool_work_call;

struct tool_work_batch {
  tool_work *e;
  uint32_t index, count;
  bool submitted, materialize;
  tool_work_call *calls;
  const tp_tool_result *const *results; /* valid while the turn is open */
  bool begun, sure;                     /* sure: the turn has our tools */
  uint32_t ends, event_ends;
  int64_t begun_ns;
  uint64_t bytes_hash; /* hash of all bytes of the results */
  uint64_t same_hash;  /* hash of those parts of the results that do not depend on the schedule */
};

struct tool_work {
  world *w;
  uint32_t index;
  uint64_t stream; /* the stream from which the batches are drawn */
  tool_work_batch batches[TOOL_WORK_BATCHES_MAX];
  uint32_t batch_count, next, now; /* now: the batch under way */
  bool chained;                    /* each batch is submitted by the end of the one before */
  bool ends_inside;                /* the end of the last batch ends the turn */
  bool in_session;
  uint32_t limit_ms;
  int64_t begin_ns, cancel_ns;
  int64_t calls_cancel_ns;   /* 0: no call is cancelled alone */
  tool_work_call *to_cancel; /* NULL: all calls of the response are cancelled */
  tp_turn *turn;
  tp_session *session;
  tp__parker parker;
  bool rests, closed;
  bool beside;            /* a submit beside a batch was taken, and has not ended */
  bool has_tools;         /* the last materialization has contributed them */
  tp_tool_call *borrowed; /* the calls of the running batch if they are borrowed; NULL: they are copied */
  const tp_tool_call **borrowed_pointers;
  bool over;                            /* the turn's end was asked for */
  int64_t limit_begin_ns, limit_end_ns; /* the turn's deadline is at least limit_begin_ns plus the turn's limit, and at
                                           most limit_end_ns */
  int64_t cancelled_ns;
  bool is_cancelled;    /* the cancel has returned */
  bool calls_cancelled; /* the cancel of calls was asked for */
  bool has_asked;       /* the turn's deadline lies later */
  uint32_t late_calls;  /* inline ones that began all the same */
  uint32_t inside;      /* inline tools that run */
  event_order heard;
};

/* ---- tool_work_draw.c ---- */

void tool_work_draw(tool_work *e);
void tool_work_undraw(tool_work *e);
const char *tool_work_tool_name(tool_work_tool tool);
/** The content of the call, in memory for free(), which the host may overwrite afterwards. */
tp_tool_call *tool_work_letter(const tool_work_batch *batch);
static inline bool tool_work_is_threaded(tool_work_tool tool) {
  return tool == TOOL_THREADED || tool == TOOL_SINGLE || tool == TOOL_WRITER;
}
static inline bool tool_work_has_key(tool_work_tool tool) { return tool == TOOL_READER || tool == TOOL_WRITER; }
/** The key in the arguments of a call that has one: one of two keys, or the key above them. */
const char *tool_work_key(tp_text arguments);
/** Whether the two calls of one batch may not run at the same time. */
bool tool_work_conflict(const tool_work_call *a, const tool_work_call *b);
/** The id of the call; if the host gives none, the one that is written to the 16 bytes of buffer. */
tp_text tool_work_id(const tool_work_call *call, char *buffer);
/** The call to which the run belongs. NULL: it belongs to no call. */
tool_work_call *tool_work_find(tool_work *e, const tp_tool_run *run);
/** The call about which the question asks. NULL: it asks about no call. */
tool_work_call *tool_work_find_asked(world *w, const tp_question *question);
bool tool_work_arguments_are(const tool_work_call *call, tp_text arguments);

/* ---- tool workload.c ---- */

tp_status tool_work_register(world *w, tp_edit *edit);
/** The gate of a world that has one. */
tp_answer tool_work_gate(tp_call *call);
/** arg: a tool workload that was drawn. */
void tool_work_run(void *arg);
/** Called when the runtime is gone. */
void tool_work_after_free(tool_work *e);

/* ---- tool_work_ask.c ---- */

/** Whether people answer the questions of this world. */
static inline bool tool_work_has_people(const world *w) { return w->s->tool_work_count && w->s->tool_work_stream & 1; }
void tool_work_set_people(world *w, tp_runtime_options *options);
/** Called when the run is over. */
void tool_work_check_asked(const tool_work_call *call);

/* ---- tool_work_oracle.c ---- */

extern const char tool_work_second_words[], tool_work_hasty_words[], tool_work_progress_words[];
int64_t tool_work_turn_limit_ns(const tool_work *e);
/** An inline tool is called. */
void tool_work_called(const tool_work_call *call, int64_t left_ms);
void tool_work_heard(tool_work *e, const tp_event *event);
void tool_work_batch_ended(tool_work_batch *batch, const tp_tool_result *const *results, size_t count);
/** Before the turn ends: nothing has changed its results. */
void tool_work_again(tool_work *e);
/** The time for which inline tools of e ran between the two times. */
int64_t tool_work_inline_between(const tool_work *e, int64_t from_ns, int64_t to_ns);
/** Called when the run is over. */
void tool_work_ended(tool_work *e);
void tool_work_same(tool_work *a, const tool_work *b, uint32_t workers_a, uint32_t workers_b);

#endif
