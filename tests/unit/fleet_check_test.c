/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker of the fault tests with several processes (support/fleet_check.h): it finds nothing in histories that
 * follow every rule, and finds each planted bug in a history that breaks one. */
#include "tests/support/fleet_check.h"
#include "tests/support/test.h"

enum { SESSIONS = 3, EVENTS_MAX = 4096, TURNS = 300 };

typedef struct play {
  fleet_event events[EVENTS_MAX];
  size_t count;
  fleet_list lists[SESSIONS];
  fleet_list jobs;
  uint64_t fences[SESSIONS], next_id;
  int64_t now_ns;
  unsigned seed;
} play;

static fleet_event *put(play *p, fleet_event event) {
  event.began_ns = ++p->now_ns;
  event.ended_ns = event.fate == FLEET_BEGUN ? 0 : ++p->now_ns;
  p->events[p->count] = event;
  return &p->events[p->count++];
}

/* A begun operation either stays in doubt (its effect is there or not), or is acknowledged, or is refused. */
static void put_effect(play *p, fleet_event event, fleet_list *into) {
  unsigned dice = (unsigned)rand_r(&p->seed) % 10;
  event.id = ++p->next_id;
  event.fate = FLEET_BEGUN;
  put(p, event);
  bool happens = dice != 0 && dice != 1;
  if (dice != 0 && dice != 2) {
    event.fate = happens ? FLEET_DONE : FLEET_REFUSED;
    put(p, event);
  }
  if (happens && into) fleet_add(into, event.id);
}

static void put_turn(play *p) {
  uint32_t s = (uint32_t)rand_r(&p->seed) % SESSIONS;
  fleet_list *list = &p->lists[s];
  fleet_event claim = {.kind = FLEET_CLAIM,
                       .fate = FLEET_DONE,
                       .session = s,
                       .number = s + 1,
                       .fence = ++p->fences[s],
                       .position = list->count,
                       .count = list->count,
                       .hash = FLEET_HASH};
  for (size_t i = 0; i < list->count; i++) claim.hash = fleet_hash(claim.hash, list->ids[i]);
  put(p, claim);
  claim.hash = claim.count = 0;
  claim.kind = FLEET_TOOL;
  put_effect(p, claim, NULL);
  size_t before = p->jobs.count;
  claim.kind = FLEET_JOB;
  put_effect(p, claim, &p->jobs);
  claim.kind = FLEET_APPEND;
  put_effect(p, claim, list);
  if (p->jobs.count > before)
    put(p, (fleet_event){.kind = FLEET_FINISH, .fate = FLEET_DONE, .id = p->jobs.ids[before]});
}

static play *play_new(unsigned seed) {
  play *p = calloc(1, sizeof *p);
  p->seed = seed;
  for (int i = 0; i < TURNS; i++) put_turn(p);
  return p;
}

static fleet_verdict verdict_of(play *p) {
  const fleet_history h = {.events = p->events,
                           .event_count = p->count,
                           .lists = p->lists,
                           .session_count = SESSIONS,
                           .jobs = p->jobs,
                           .has_jobs = true};
  fleet_verdict v = fleet_check(&h);
  for (int s = 0; s < SESSIONS; s++) free(p->lists[s].ids);
  free(p->jobs.ids);
  free(p);
  return v;
}

/* The nth event of a kind and a fate, counted from the middle, so that there are events before and after it. */
static fleet_event *event_of(play *p, fleet_kind kind, fleet_fate fate) {
  for (size_t i = p->count / 2; i < p->count; i++)
    if (p->events[i].kind == (uint32_t)kind && p->events[i].fate == (uint32_t)fate) return &p->events[i];
  fail_msg("there is none");
  return NULL;
}

static size_t index_of(const fleet_list *list, uint64_t id) {
  size_t i = 0;
  while (i < list->count && list->ids[i] != id) i++;
  return i;
}

static void drop_at(fleet_list *list, size_t index) {
  memmove(list->ids + index, list->ids + index + 1, (--list->count - index) * sizeof *list->ids);
}

/* ---- bugs ---- */

static void lose_a_message(play *p) {
  const fleet_event *e = event_of(p, FLEET_APPEND, FLEET_DONE);
  drop_at(&p->lists[e->session], index_of(&p->lists[e->session], e->id));
}
static void append_a_message_twice(play *p) {
  const fleet_event *e = event_of(p, FLEET_APPEND, FLEET_DONE);
  fleet_add(&p->lists[e->session], e->id);
}
static void keep_a_refused_message(play *p) {
  const fleet_event *e = event_of(p, FLEET_APPEND, FLEET_REFUSED);
  fleet_add(&p->lists[e->session], e->id);
}
static void make_a_message_up(play *p) { fleet_add(&p->lists[0], 999999); }
static void put_a_message_into_another_session(play *p) {
  const fleet_event *e = event_of(p, FLEET_APPEND, FLEET_DONE);
  uint64_t id = e->id;
  drop_at(&p->lists[e->session], index_of(&p->lists[e->session], id));
  fleet_add(&p->lists[(e->session + 1) % SESSIONS], id);
}
static void swap_two_messages(play *p) {
  uint64_t *ids = p->lists[1].ids, first = ids[4];
  ids[4] = ids[5];
  ids[5] = first;
}
static void load_an_old_beginning_as_all(play *p) { event_of(p, FLEET_CLAIM, FLEET_DONE)->position++; }
static void load_what_is_not_there_yet(play *p) { event_of(p, FLEET_CLAIM, FLEET_DONE)->hash ^= 1; }
static void load_more_than_there_is(play *p) {
  fleet_event *e = event_of(p, FLEET_CLAIM, FLEET_DONE);
  e->position = e->count = 100000;
}
static void give_a_position_twice(play *p) { event_of(p, FLEET_APPEND, FLEET_DONE)->position--; }
/* A turn that stood still goes on after another turn has had the session. */
static void go_on(play *p, fleet_kind kind) {
  fleet_event late = *event_of(p, kind, FLEET_DONE);
  late.fence--;
  late.id = ++p->next_id;
  if (kind == FLEET_APPEND) {
    late.position = p->lists[late.session].count;
    fleet_add(&p->lists[late.session], late.id);
  }
  if (kind == FLEET_JOB) fleet_add(&p->jobs, late.id);
  put(p, late);
}
static void begin_a_call_under_an_old_epoch(play *p) { go_on(p, FLEET_TOOL); }
static void insert_a_job_under_an_old_epoch(play *p) { go_on(p, FLEET_JOB); }
static void append_under_an_old_epoch(play *p) { go_on(p, FLEET_APPEND); }
/* A session was deleted and begun again, but with its earlier fences: a turn that stood still goes on in it. */
static void give_fences_of_before(play *p) {
  fleet_event claim = *event_of(p, FLEET_CLAIM, FLEET_DONE), late = *event_of(p, FLEET_TOOL, FLEET_DONE);
  late.session = claim.session = SESSIONS; /* one that no list is kept of */
  late.number = claim.number = SESSIONS + 1;
  late.fence = claim.fence = 1;
  late.id = ++p->next_id;
  put(p, claim);
  claim.number = SESSIONS + 2;
  put(p, claim);
  put(p, late);
}
static void give_a_fence_twice(play *p) {
  fleet_event again = *event_of(p, FLEET_CLAIM, FLEET_DONE);
  again.fence = p->fences[again.session];
  again.count = again.position = 0;
  again.hash = FLEET_HASH;
  put(p, again);
}
static void lose_a_job(play *p) {
  const fleet_event *e = event_of(p, FLEET_JOB, FLEET_DONE);
  drop_at(&p->jobs, index_of(&p->jobs, e->id));
}
static void insert_a_job_twice(play *p) { fleet_add(&p->jobs, event_of(p, FLEET_JOB, FLEET_DONE)->id); }
static void keep_a_refused_job(play *p) { fleet_add(&p->jobs, event_of(p, FLEET_JOB, FLEET_REFUSED)->id); }
static void end_a_job_twice(play *p) { put(p, *event_of(p, FLEET_FINISH, FLEET_DONE)); }

static const struct {
  const char *name;
  void (*plant)(play *p);
  fleet_rule rule;
} bugs[] = {
    {"an acknowledged message is lost", lose_a_message, FLEET_LOST},
    {"a message is appended twice", append_a_message_twice, FLEET_TWICE},
    {"a refused message is kept", keep_a_refused_message, FLEET_FORGED},
    {"a message is made up", make_a_message_up, FLEET_FORGED},
    {"a message is in another session", put_a_message_into_another_session, FLEET_FORGED},
    {"two messages have changed places", swap_two_messages, FLEET_TORN},
    {"an old beginning is loaded as all", load_an_old_beginning_as_all, FLEET_TORN},
    {"what is loaded is not what is there", load_what_is_not_there_yet, FLEET_TORN},
    {"more is loaded than there is", load_more_than_there_is, FLEET_TORN},
    {"a position is given twice", give_a_position_twice, FLEET_POSITION},
    {"a call begins under an old epoch", begin_a_call_under_an_old_epoch, FLEET_OLD_EPOCH},
    {"a job is inserted under an old epoch", insert_a_job_under_an_old_epoch, FLEET_OLD_EPOCH},
    {"a message is appended under an old epoch", append_under_an_old_epoch, FLEET_OLD_EPOCH},
    {"a session begun anew has fences of before", give_fences_of_before, FLEET_FENCE_TWICE},
    {"a fence is given twice", give_a_fence_twice, FLEET_FENCE_TWICE},
    {"an acknowledged job is lost", lose_a_job, FLEET_JOB_LOST},
    {"a job is inserted twice", insert_a_job_twice, FLEET_JOB_TWICE},
    {"a refused job is kept", keep_a_refused_job, FLEET_JOB_TWICE},
    {"a job ends twice", end_a_job_twice, FLEET_JOB_TWICE},
};

TEST(histories_that_kept_every_rule_have_no_fault) {
  for (unsigned seed = 1; seed <= 50; seed++) {
    fleet_verdict v = verdict_of(play_new(seed));
    if (v.sum) fail_msg("seed %u: %s", seed, v.first);
  }
}

TEST(empty_history_has_no_fault) { assert_int_equal(fleet_check(&(fleet_history){.has_jobs = true}).sum, 0); }

TEST(each_planted_bug_is_found_under_its_rule) {
  for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++)
    for (unsigned seed = 1; seed <= 10; seed++) {
      play *p = play_new(seed);
      bugs[i].plant(p);
      fleet_verdict v = verdict_of(p);
      if (!v.broken[bugs[i].rule]) fail_msg("not found with seed %u: %s (%s)", seed, bugs[i].name, v.first);
    }
}

TEST_MAIN(count, arguments) { return test_main(count, arguments); }
