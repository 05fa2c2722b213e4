/* SPDX-License-Identifier: Apache-2.0
 *
 * Skills: files that a user calls by name; which are listed for an agent, what a model reads, and refusals. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/world.h"
#include "turnphase/skills.h"

static const reply hello[] = {{.text = "hello"}};

/* ---- a directory of skills, and an agent that has them ---- */

static char skills[96];

static void write_bytes(const char *name, const char *bytes, size_t size) {
  char file[256];
  snprintf(file, sizeof file, "%s/%s", skills, name);
  FILE *out = fopen(file, "wb");
  assert_non_null(out);
  assert_int_equal(fwrite(bytes, 1, size, out), size);
  assert_int_equal(fclose(out), 0);
}

static void write_skill(const char *name, const char *text) { write_bytes(name, text, strlen(text)); }

static void remove_skill(const char *name) {
  char file[256];
  snprintf(file, sizeof file, "%s/%s", skills, name);
  assert_int_equal(unlink(file), 0);
}

static void make_skills(void) {
  static int number;
  snprintf(skills, sizeof skills, "%s/%d", directory, number++);
  assert_int_equal(mkdir(skills, 0700), 0);
  write_skill("review.md", "---\nname: x\ndescription: \"Looks at a change\"\n---\n\n# Review\n\nRead it twice.\n\n");
  write_skill("brief.md", "## Be brief ##\r\nOne sentence.\n");
  write_skill("open.md", "---\ndescription: of a front matter without an end\n");
  write_skill("notes.txt", "\xff");
  write_skill(".draft.md", "");
}

static tp_status register_from(tp_runtime *runtime, const tp_skills_options *options, tp_fault *fault) {
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "skills", .trust = TP_TRUST_HOST};
  tp_edit *edit;
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  tp_status status = tp_skills_register(edit, options, fault);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, fault);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

typedef struct world {
  WORLD;
} world;

static void register_skills(tp_runtime *runtime) {
  tp_fault fault = {0};
  tp_skills_options options = {.struct_size = sizeof options, .directory = skills};
  if (register_from(runtime, &options, &fault) != TP_OK) fail_msg("%s", fault.message);
}

/* @param extra  of the agent. */
static void open_world(world *w, tp_text extra) {
  world_open(&w->stage, &(world_options){.prepare = register_skills,
                                         .replies = hello,
                                         .reply_count = 1,
                                         .agent = {.id = "clerk", .system = "You are a clerk.", .extra = extra}});
}

/* @param reason  of the denial, or NULL: the turn completes. */
static void say(const world *w, const char *text, const char *reason) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text)};
  const tp_turn_result *result;
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  if (!reason) {
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  } else {
    assert_int_equal(result->outcome, TP_TURN_DENIED);
    assert_text(result->bare_reason, reason);
    assert_text(result->subscription, "skills.call");
  }
  tp_turn_result_free(result);
}

/* What the model read last ends with this message. */
static void assert_last_message(const world *w, const char *text) {
  char want[4096];
  snprintf(want, sizeof want, "U<%s>", text);
  const char *request = w->model->requests[w->model->asked - 1];
  size_t size = strlen(request), end = strlen(want);
  assert_true(size >= end);
  assert_string_equal(request + size - end, want);
}

/* ---- what works ---- */

FOR_ALL_TESTS(make_directory, remove_directory);

TEST(called_skill_becomes_its_body_with_the_arguments_behind_it) {
  world w;
  make_skills();
  open_world(&w, (tp_text){NULL, 0});
  say(&w, "/review the last\ncommit ", NULL);
  assert_last_message(&w, "<skill name=\"review\">\n# Review\n\nRead it twice.\n</skill>\n\nthe last\ncommit");
  say(&w, "/brief", NULL);
  assert_last_message(&w, "<skill name=\"brief\">\n## Be brief ##\r\nOne sentence.\n</skill>");
  world_close(&w.stage);
}

TEST(several_skills_of_a_message_become_several_bodies) {
  world w;
  make_skills();
  open_world(&w, (tp_text){NULL, 0});
  say(&w, "/brief a\n/usr/bin b\n/* c */\n/review", NULL);
  assert_last_message(&w,
                      "<skill name=\"brief\">\n## Be brief ##\r\nOne sentence.\n</skill>\n\n"
                      "a\n/usr/bin b\n/* c */\n\n"
                      "<skill name=\"review\">\n# Review\n\nRead it twice.\n</skill>");
  world_close(&w.stage);
}

TEST(message_that_is_no_command_stays_as_it_is) {
  static const char *const texts[] = {"/etc/hosts is odd", " /review",    "/",   "/* x",
                                      "/ review",          "see /review", "/.x", "hi\n/review"};
  world w;
  make_skills();
  open_world(&w, (tp_text){NULL, 0});
  for (size_t i = 0; i < COUNT(texts); i++) {
    say(&w, texts[i], NULL);
    assert_last_message(&w, texts[i]);
  }
  world_close(&w.stage);
}

TEST(skills_are_listed_in_the_agents_system_text) {
  world w;
  make_skills();
  open_world(&w, (tp_text){NULL, 0});
  say(&w, "hi", NULL);
  assert_string_equal(w.model->requests[0],
                      "S<You are a clerk.\n\n## Skills\n\n- /brief: Be brief ##\n"
                      "- /open: ---\n- /review: Looks at a change>U<hi>");
  world_close(&w.stage);
}

static void note_missing(void *ctx, const tp_event *event) {
  if (event->kind != TP_EVENT_DIAGNOSTIC) return;
  tp_text text = event->contribution->text;
  snprintf(ctx, 256, "%.*s", (int)text.size, text.data);
}

TEST(agent_with_a_list_has_the_skills_of_the_list_alone) {
  /* {"skills": ["brief", "gone"]} */
  static const tp_text some = TEXT(
      "\x81\xa6skills\x92\xa5"
      "brief\xa4gone");
  char missing[256] = "";
  world w;
  make_skills();
  open_world(&w, some);
  say(&w, "/brief", NULL);
  assert_non_null(strstr(w.model->requests[0], "- /brief: "));
  assert_null(strstr(w.model->requests[0], "- /review"));
  say(&w, "/review x", "/review: the agent may not use this skill; begin the message with a blank to send it as it is");
  tp_listener listener = {.struct_size = sizeof listener, .on_event = note_missing, .ctx = missing};
  assert_int_equal(tp_runtime_listen(w.runtime, &listener, NULL, NULL), TP_OK);
  tp_agent *agent;
  tp_agent_config config = {.struct_size = sizeof config, .id = "second", .extra = some};
  assert_int_equal(tp_agent_add(w.runtime, &config, &agent, NULL), TP_OK);
  assert_string_equal(missing, "the config names the skill gone, and there is no file of it");
  tp_agent_remove(agent);
  world_close(&w.stage);
}

/* ---- what is refused ---- */

TEST(names_without_a_skill_deny_the_turn_and_say_so) {
  world w;
  make_skills();
  open_world(&w, (tp_text){NULL, 0});
  say(&w, "/reveiw x", "/reveiw: there is no such skill; begin the message with a blank to send it as it is");
  say(&w, "/Review x", "/Review: no skill can have this name; begin the message with a blank to send it as it is");
  say(&w, "/brief\n/reveiw", "/reveiw: there is no such skill; begin the message with a blank to send it as it is");
  remove_skill("brief.md");
  say(&w, "/brief", "/brief: there is no such skill; begin the message with a blank to send it as it is");
  write_skill("review.md", "\xff");
  say(&w, "/review", "review.md: not a text in UTF-8");
  write_skill("new.md", "made later");
  say(&w, "/new", NULL);
  assert_last_message(&w, "<skill name=\"new\">\nmade later\n</skill>");
  assert_int_equal(w.model->asked, 1);
  world_close(&w.stage);
}

TEST(agent_is_refused_when_its_skills_cannot_be_read) {
  world w;
  make_skills();
  open_world(&w, (tp_text){NULL, 0});
  write_skill("ill.md", "\xff");
  tp_agent *agent = NULL;
  tp_fault fault = {0};
  tp_agent_config config = {.struct_size = sizeof config, .id = "second"};
  assert_int_equal(tp_agent_add(w.runtime, &config, &agent, &fault), TP_ERR_HOOK);
  assert_non_null(strstr(fault.message, "ill.md: not a text in UTF-8"));
  world_close(&w.stage);
}

TEST(directory_with_a_file_that_is_no_skill_is_refused) {
  static char large[256 * 1024 + 1];
  static const char with_nul[] = "a\0b";
  memset(large, 'x', sizeof large);
  const struct {
    const char *file, *text;
    size_t size;
    tp_status status;
    const char *message;
  } cases[] = {
      {"Bad.md", "x", 1, TP_ERR_BAD_ID, "Bad.md: no skill can have this name"},
      {"a b.md", "x", 1, TP_ERR_BAD_ID, "a b.md: no skill can have this name"},
      {"0123456789012345678901234567890123456789012345678901234567890123x.md", "x", 1, TP_ERR_BAD_ID, "no skill can"},
      {"0123456789012345678901234567890123456789012345678901234567890123.md", "x", 1, TP_OK, ""},
      {"ill.md", "\xff", 1, TP_ERR_UTF8, "ill.md: not a text in UTF-8"},
      {"nul.md", with_nul, 3, TP_ERR_UTF8, "nul.md: not a text in UTF-8"},
      {"empty.md", "\n \n", 3, TP_ERR_MALFORMED, "empty.md: the skill has no body"},
      {"head.md", "---\na: b\n---\n", 13, TP_ERR_MALFORMED, "head.md: the skill has no body"},
      {"open.md", "---\ndescription: b\n", 19, TP_OK, ""}, /* no end: no front matter */
      {"large.md", large, sizeof large, TP_ERR_TOO_LARGE, "large.md: a skill has at most 262144 bytes"},
      {"large.md", large, sizeof large - 1, TP_OK, ""},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime *runtime = open_runtime(NULL);
    tp_fault fault = {0};
    make_skills();
    write_bytes(cases[i].file, cases[i].text, cases[i].size);
    tp_skills_options options = {.struct_size = sizeof options, .directory = skills};
    assert_int_equal(register_from(runtime, &options, &fault), cases[i].status);
    assert_non_null(strstr(fault.message, cases[i].message));
    if (cases[i].status != TP_OK) assert_string_equal(fault.subject, cases[i].file);
    close_runtime(runtime);
  }
}

TEST(as_many_skills_as_there_may_be_are_taken_and_not_one_more) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_fault fault = {0};
  make_skills(); /* three */
  tp_skills_options options = {.struct_size = sizeof options, .directory = skills};
  for (int i = 0; i < 254; i++) {
    char name[16];
    if (i == 253) assert_int_equal(register_from(runtime, &options, &fault), TP_OK);
    snprintf(name, sizeof name, "s%d.md", i);
    write_skill(name, "x");
  }
  close_runtime(runtime);
  runtime = open_runtime(NULL);
  assert_int_equal(register_from(runtime, &options, &fault), TP_ERR_FULL);
  close_runtime(runtime);
}

TEST(things_that_are_no_files_are_refused) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_fault fault = {0};
  char fifo[256];
  make_skills();
  snprintf(fifo, sizeof fifo, "%s/pipe.md", skills);
  assert_int_equal(mkfifo(fifo, 0600), 0);
  tp_skills_options options = {.struct_size = sizeof options, .directory = skills};
  assert_int_equal(register_from(runtime, &options, &fault), TP_ERR_IO);
  assert_string_equal(fault.message, "pipe.md: not a regular file");
  close_runtime(runtime);
}

TEST(options_that_are_wrong_are_refused) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_fault fault = {0};
  make_skills();
  tp_skills_options options = {.struct_size = sizeof options};
  assert_int_equal(register_from(runtime, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(register_from(runtime, &options, &fault), TP_ERR_USAGE);
  options.directory = "";
  assert_int_equal(register_from(runtime, &options, &fault), TP_ERR_USAGE);
  options.directory = "/nowhere/at all";
  assert_int_equal(register_from(runtime, &options, &fault), TP_ERR_IO);
  assert_string_equal(fault.subject, "/nowhere/at all");
  options.directory = skills;
  options.struct_size = 7;
  assert_int_equal(register_from(runtime, &options, &fault), TP_ERR_VERSION);
  struct {
    tp_skills_options options;
    void *newer;
  } grown = {{.struct_size = sizeof grown, .directory = skills}, &fault};
  assert_int_equal(register_from(runtime, &grown.options, &fault), TP_ERR_VERSION);
  grown.newer = NULL;
  assert_int_equal(register_from(runtime, &grown.options, &fault), TP_OK);
  close_runtime(runtime);
}

/* ---- for hosts that list them elsewhere ---- */

static bool note_skill(void *ctx, const tp_skill *skill) {
  char *all = ctx;
  size_t used = strlen(all);
  snprintf(all + used, 512 - used, "%.*s: %.*s: %.*s\n", (int)skill->name.size, skill->name.data,
           (int)skill->summary.size, skill->summary.data, (int)skill->body.size, skill->body.data);
  return strncmp(skill->name.data, "stop", 4) != 0;
}

TEST(skills_of_a_directory_are_read_all_or_one) {
  char all[512] = "";
  tp_fault fault = {0};
  make_skills();
  remove_skill("open.md");
  assert_int_equal(tp_skills_each(skills, NULL, note_skill, all, &fault), TP_OK);
  assert_non_null(strstr(all, "brief: "));
  assert_non_null(strstr(all, "review: Looks at a change: # Review\n\nRead it twice."));
  write_skill("stop.md", "one\n");
  write_skill("zebra.md", "two\n");
  all[0] = 0;
  assert_int_equal(tp_skills_each(skills, NULL, note_skill, all, &fault), TP_OK);
  assert_null(strstr(all, "zebra"));
  all[0] = 0;
  assert_int_equal(tp_skills_each(skills, "zebra", note_skill, all, &fault), TP_OK);
  assert_string_equal(all, "zebra: two: two\n");
  assert_int_equal(tp_skills_each(skills, "missing", note_skill, all, &fault), TP_ERR_NOT_FOUND);
  assert_int_equal(tp_skills_each(skills, "../zebra", note_skill, all, &fault), TP_ERR_NOT_FOUND);
  assert_int_equal(tp_skills_each("/nowhere", NULL, note_skill, all, &fault), TP_ERR_IO);
  assert_int_equal(tp_skills_each(NULL, NULL, note_skill, all, &fault), TP_ERR_USAGE);
}
