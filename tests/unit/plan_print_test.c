/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test.h"
#include "tests/support/edges.h"
#include "tests/unit/plan_world.h"

typedef struct paper {
  char text[1 << 16];
  size_t size;
} paper;
static paper page;

static void write_on(void *ctx, const char *text, size_t size) {
  paper *p = ctx;
  assert_true(p->size + size < sizeof p->text);
  memcpy(p->text + p->size, text, size);
  p->size += size;
  p->text[p->size] = '\0';
}

static const char *printed(world *w, uint32_t phase, tp_plan_format format) {
  page.size = 0;
  page.text[0] = '\0';
  assert_int_equal(tp__plan_print(w->registry, phase, format, write_on, &page), TP_OK);
  return page.text;
}

static const char *printed_phases(world *w, tp_plan_format format) {
  page.size = 0;
  page.text[0] = '\0';
  assert_int_equal(tp__phases_print(w->registry, format, write_on, &page), TP_OK);
  return page.text;
}

static void assert_has(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("`%s` is not in:\n%s", part, text);
}

/* ---- a reader of JSON that accepts nothing but JSON ---- */

static const char *json_value(const char *at);

static const char *json_text(const char *at) {
  if (*at++ != '"') return NULL;
  for (; *at != '"'; at++) {
    if ((unsigned char)*at < 0x20) return NULL;
    if (*at != '\\') continue;
    at++;
    if (*at == 'u') {
      for (int i = 0; i < 4; i++) {
        if (!*++at || !strchr("0123456789abcdefABCDEF", *at)) return NULL;
      }
    } else if (!*at || !strchr("\"\\/bfnrt", *at)) {
      return NULL;
    }
  }
  return at + 1;
}

static const char *json_members(const char *at, char end, bool named) {
  if (*++at == end) return at + 1;
  for (;;) {
    if (named) {
      at = json_text(at);
      if (!at || *at++ != ':') return NULL;
    }
    at = json_value(at);
    if (!at || (*at != ',' && *at != end)) return NULL;
    if (*at++ == end) return at;
  }
}

static const char *json_number(const char *at) {
  if (*at == '-') at++;
  if (*at == '0') return at + 1;
  if (*at < '1' || *at > '9') return NULL;
  while (*at >= '0' && *at <= '9') at++;
  return at;
}

static const char *json_value(const char *at) {
  static const char *const words[] = {"true", "false", "null"};
  if (*at == '{') return json_members(at, '}', true);
  if (*at == '[') return json_members(at, ']', false);
  if (*at == '"') return json_text(at);
  for (size_t i = 0; i < 3; i++) {
    if (strncmp(at, words[i], strlen(words[i])) == 0) return at + strlen(words[i]);
  }
  return json_number(at);
}

static void assert_json(const char *text) {
  const char *end = json_value(text);
  if (!end || strcmp(end, "\n") != 0) fail_msg("no JSON, from `%.40s` on:\n%s", end ? end : "somewhere", text);
}

/* ---- */

static int32_t matches_all(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_YES;
}

/* Three levels, every kind of edge, and words that need escaping. */
static world *peopled(void) {
  world *w = world_open();
  tp_edit *edit = edit_of(w);
  tp_handler handler = handler_of("h");
  handler.summary = "says \"hi\"\\\n\ttwice \x01";
  handler.idempotent = true;
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  tp_handler inlined = handler_of("inline.h1");
  inlined.placement = TP_PLACEMENT_INLINE;
  assert_int_equal(tp_edit_add_handler(edit, &inlined, NULL), TP_OK);
  tp_subscription first = subscription_of("first", GATHER), second = subscription_of("second", GATHER);
  first.limit_ms = 250;
  second.needs = EDGES(EDGE("first", false));
  second.needs_count = 1;
  second.after = EDGES(EDGE("nobody", true));
  second.after_count = 1;
  second.attempts = 3;
  second.backoff = TP_BACKOFF_EXPONENTIAL;
  second.backoff_ms = 100;
  second.match =
      &(tp_match){.struct_size = sizeof(tp_match), .matches = matches_all, .description = "tool is \"shell\\*\""};
  tp_subscription third = subscription_of("th\"ird\\", GATHER);
  third.handler = "inline.h1";
  third.after = EDGES(EDGE("second", false));
  third.after_count = 1;
  third.metadata = "{\"a\": \"b\"}";
  third.failure = TP_FAILURE_REQUIRED;
  tp_subscription early = subscription_of("\xC3\xA9rly", GATHER);
  early.before = EDGES(EDGE("second", false));
  early.before_count = 1;
  early.limit_ms = 1;
  tp_subscription fire = subscription_of("fire", GATHER);
  fire.execution = TP_EXECUTION_FIRE_AND_RECORD;
  add(edit, first);
  add(edit, second);
  add(edit, third);
  add(edit, early);
  add(edit, fire);
  tp_subscription guard = subscription_of("guard", STOP);
  guard.failure = TP_FAILURE_FALLBACK;
  guard.fallback_verdict = TP_VERDICT_DENY;
  add(edit, guard);
  add(edit, subscription_of("guard2", STOP));
  for (const char *c = "xy"; *c; c++) {
    char id[2] = {*c, '\0'};
    tp_subscription watch = subscription_of(id, OBSERVE);
    watch.sequential = TP_SEQUENTIAL_ON;
    add(edit, watch);
  }
  commit(w, edit);
  return w;
}

TEST(an_empty_registry_says_so) {
  world *w = world_open();
  assert_string_equal(printed(w, 0, TP_PLAN_TABLE), "no subscriptions\n");
  assert_string_equal(printed(w, STOP, TP_PLAN_TABLE), "test.stop  no subscriptions\n");
  assert_json(printed(w, 0, TP_PLAN_JSON));
  assert_has(page.text, "\"phases\":[]");
  assert_string_equal(printed(w, 0, TP_PLAN_DOT), "digraph turnphase {\n  rankdir=LR;\n  node [shape=box];\n}\n");
  tp_edit *edit = edit_with_handler(w);
  add(edit, subscription_of("gone", STOP));
  commit(w, edit);
  edit = edit_of(w);
  assert_int_equal(tp_edit_remove_subscription(edit, "gone", NULL), TP_OK);
  commit(w, edit);
  assert_string_equal(printed(w, STOP, TP_PLAN_TABLE), "test.stop  no subscriptions\n");
  assert_has(printed(w, 0, TP_PLAN_JSON), "\"phases\":[]");
  world_close(w);
}

TEST(the_table_says_all_about_a_plan) {
  world *w = peopled();
  const char *text = printed(w, GATHER, TP_PLAN_TABLE);
  static const char *const lines[] = {
      "test.gather  gather, 5 subscriptions, 3 levels\n",
      "  #  subscription  handler    owner  level  execution        limit   failure      placement  more\n",
      "  1  fire          h          host   0      fire_and_record  30 s    best_effort  thread\n",
      "  2  first         h          host   0      blocking         250 ms  best_effort  thread\n",
      ("  3  \xC3\xA9rly          h          host   0      blocking         1 ms    best_effort  thread     "
       "before second\n"),
      ("  4  second        h          host   1      blocking         5 s     best_effort  thread     after nobody?; "
       "needs "
       "first; 3 attempts exponential; when tool is \"shell\\*\"\n"),
      "  5  th\"ird\\       inline.h1  host   2      blocking         5 s     required     inline     after second\n",
      "  critical path: first -> second -> th\"ird\\\n",
      "  worst case 20550 ms, required 5 s, budget 20550 ms, hash ",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) assert_has(text, lines[i]);
  assert_null(strstr(text, "test.stop"));
  assert_null(strstr(text, "warning"));
  text = printed(w, 0, TP_PLAN_TABLE);
  assert_has(text, "test.gather  gather");
  assert_has(text, "test.stop  chain");
  assert_has(text, "fallback deny\n");
  assert_has(text, "snapshot 1, hash ");
  assert_true(strstr(text, "test.gather") < strstr(text, "test.stop"));
  world_close(w);
}

TEST(the_table_shows_switches_budgets_and_warnings) {
  world *w = peopled();
  bool was;
  tp_edit *edit = edit_of(w);
  assert_int_equal(tp_edit_set_budget(edit, GATHER, 7000, NULL), TP_OK);
  commit(w, edit);
  assert_int_equal(tp__registry_switch(w->registry, "first", TP__SWITCH_KILL, true, &was, NULL), TP_OK);
  const char *text = printed(w, GATHER, TP_PLAN_TABLE);
  assert_has(text, "SWITCHED OFF\n");
  assert_has(text, "budget 7 s (set by the host)");
  assert_has(text, "  warning: the worst case is above the budget\n");
  world_close(w);
}

TEST(handler_shows_its_kind_and_where_it_was_declared) {
  world *w = world_open();
  tp_edit *edit = edit_by(w, "parts", TP_TRUST_BUILTIN, 0);
  char file[] = "hooks/say \"hi\".yaml";
  static const struct {
    const char *id;
    tp_handler_kind kind;
    uint32_t line;
  } rows[] = {{"a", TP_HANDLER_SCRIPT, 3},
              {"b", TP_HANDLER_WORKER, 0},
              {"c", TP_HANDLER_BUILTIN, 7},
              {"d", TP_HANDLER_NATIVE, 9},
              {"e", TP_HANDLER_DEFAULT, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tp_handler handler = handler_of(rows[i].id);
    handler.kind = rows[i].kind;
    handler.origin_file = rows[i].kind == TP_HANDLER_DEFAULT ? NULL : file;
    handler.origin_line = rows[i].line;
    assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
    tp_subscription sub = subscription_of(rows[i].id, GATHER);
    sub.handler = rows[i].id;
    add(edit, sub);
  }
  memset(file, 'x', sizeof file - 1); /* it was copied */
  commit(w, edit);
  static const char *const cells[] = {
      "thread     script from hooks/say \"hi\".yaml:3\n", "thread     worker from hooks/say \"hi\".yaml\n",
      "thread     builtin from hooks/say \"hi\".yaml:7\n", "thread     native from hooks/say \"hi\".yaml:9\n",
      "e        parts  0      blocking   5 s    best_effort  thread\n"};
  const char *text = printed(w, GATHER, TP_PLAN_TABLE);
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) assert_has(text, cells[i]);
  text = printed(w, GATHER, TP_PLAN_JSON);
  assert_json(text);
  assert_has(text, "\"kind\":\"script\",\"origin_file\":\"hooks/say \\\"hi\\\".yaml\",\"origin_line\":3");
  assert_has(text, "\"kind\":\"native\",\"origin_file\":null,\"origin_line\":0");
  world_close(w);
}

TEST(kinds_of_handlers_have_names) {
  static const char *const names[] = {"native", "native", "script", "worker", "builtin"};
  for (int i = 0; i < 5; i++) assert_string_equal(tp_handler_kind_name((tp_handler_kind)i), names[i]);
  assert_string_equal(tp_handler_kind_name((tp_handler_kind)5), "unknown");
  assert_string_equal(tp_handler_kind_name((tp_handler_kind)-1), "unknown");
}

TEST(json_is_json_whatever_the_words) {
  world *w = peopled();
  const char *text = printed(w, 0, TP_PLAN_JSON);
  assert_json(text);
  static const char *const parts[] = {
      "\"summary\":\"says \\\"hi\\\"\\\\\\n\\ttwice \\u0001\"",
      "\"subscription\":\"th\\\"ird\\\\\"",
      "\"metadata\":\"{\\\"a\\\": \\\"b\\\"}\"",
      "\"after\":[{\"target\":\"nobody\",\"optional\":true}],\"needs\":[{\"target\":\"first\",\"optional\":false}]",
      "\"sees\":[\"first\"]",
      "\"next\":[{\"subscription\":\"second\",\"kind\":\"needs\"}]",
      "\"next\":[{\"subscription\":\"second\",\"kind\":\"before\"}]",
      "\"next\":[{\"subscription\":\"th\\\"ird\\\\\",\"kind\":\"after\"}]",
      "\"next\":[{\"subscription\":\"guard2\",\"kind\":\"chain\"}]",
      "\"next\":[{\"subscription\":\"y\",\"kind\":\"sequential\"}]",
      "\"fallback_verdict\":\"deny\"",
      "\"worst_ms\":20550,\"required_ms\":5000,\"budget_ms\":20550",
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_has(text, parts[i]);
  assert_json(printed(w, GATHER, TP_PLAN_JSON));
  world_close(w);
}

TEST(dot_draws_each_kind_of_edge_its_own_way) {
  world *w = peopled();
  const char *text = printed(w, 0, TP_PLAN_DOT);
  static const char *const parts[] = {
      "digraph turnphase {\n",
      "  subgraph cluster_1 {\n    label=\"test.gather\";\n",
      "    \"first\" -> \"second\" [style=bold];\n",
      "    \"second\" -> \"th\\\"ird\\\\\" [style=solid];\n",
      "    \"\xC3\xA9rly\" -> \"second\" [style=solid,arrowhead=empty];\n",
      "    \"guard\" -> \"guard2\" [style=dotted];\n",
      "    \"x\" -> \"y\" [style=dashed];\n",
      "    \"fire\" [tooltip=\"h\",xlabel=\"fire_and_record 30 s best_effort\",style=dashed];\n",
      "    \"th\\\"ird\\\\\" [tooltip=\"inline.h1\",xlabel=\"blocking 5 s required\",style=bold,color=red];\n",
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_has(text, parts[i]);
  world_close(w);
}

TEST(phases_are_printed_with_aliases_and_counts) {
  world *w = peopled();
  const char *text = printed_phases(w, TP_PLAN_TABLE);
  assert_has(text,
             "  phase                 mode            limit  failure      access      subscriptions  may contribute");
  assert_has(text,
             "  test.gather           gather          5 s    best_effort              5              "
             "prompt_context, background_job  plainAlias, inOrder\n");
  assert_has(
      text,
      "  test.stop             chain stop ask  5 s    required                 2              signal, reminder\n");
  assert_has(text, "  test.privileged       chain replace   5 s    best_effort  privileged  0              -\n");
  assert_has(text, "  test.code_only        chain replace   5 s    best_effort  code only   0              -\n");
  assert_has(text, "  phase                 payload (* a handler may replace it)\n");
  text = printed_phases(w, TP_PLAN_JSON);
  assert_json(text);
  assert_has(text, "\"fields\":[{\"id\":1,\"name\":\"field_1\",\"kind\":\"any\",\"replaceable\":");
  assert_has(text, "{\"id\":3,\"phase\":\"test.stop\",\"mode\":\"chain\",\"replace\":false,\"stop\":true,\"ask\":true");
  assert_has(text,
             "\"aliases\":[{\"name\":\"plainAlias\",\"sequential\":false,\"drops_reminders_and_signals\":false,"
             "\"subscriptions\":0},"
             "{\"name\":\"inOrder\",\"sequential\":true,\"drops_reminders_and_signals\":false,"
             "\"subscriptions\":0}],\"subscriptions\":5,\"disabled\":0,\"switched_off\":0}");
  world_close(w);
}

/* ---- disabled and switched off, and through which alias ---- */

/* on1 -> on2, and four disabled ones, one of which is also switched off; and a phase with one disabled subscription. */
static world *half_disabled(void) {
  world *w = world_open();
  tp_edit *edit = edit_with_handler(w);
  static const char *const ids[] = {"off1", "on1", "off2", "off3", "on2", "off4"};
  for (size_t i = 0; i < 6; i++) {
    tp_subscription sub = subscription_of(ids[i], TP_PHASE_NONE);
    sub.phase_name = i < 3 ? "plainAlias" : "test.gather";
    sub.disabled = ids[i][1] == 'f';
    sub.limit_ms = (uint32_t)(1 + i);
    add(edit, sub);
  }
  tp_subscription alone = subscription_of("alone", OBSERVE);
  alone.phase_name = "infra";
  alone.disabled = true;
  add(edit, alone);
  commit(w, edit);
  bool was;
  assert_int_equal(tp__registry_switch(w->registry, "off3", TP__SWITCH_KILL, true, &was, NULL), TP_OK);
  assert_int_equal(tp__registry_switch(w->registry, "on2", TP__SWITCH_KILL, true, &was, NULL), TP_OK);
  return w;
}

TEST(table_has_the_disabled_ones_behind_the_plan_and_marked) {
  world *w = half_disabled();
  assert_has(printed(w, GATHER, TP_PLAN_TABLE),
             "test.gather  gather, 2 subscriptions, 1 level, 4 disabled\n"
             "  #  subscription  handler  owner  level  execution  limit  failure      placement  more\n"
             "  1  on1           h        host   0      blocking   2 ms   best_effort  thread     as plainAlias\n"
             "  2  on2           h        host   0      blocking   5 ms   best_effort  thread     SWITCHED OFF\n"
             "  -  off1          h        host   -      blocking   1 ms   best_effort  thread     DISABLED; as "
             "plainAlias\n"
             "  -  off2          h        host   -      blocking   3 ms   best_effort  thread     DISABLED; as "
             "plainAlias\n"
             "  -  off3          h        host   -      blocking   4 ms   best_effort  thread     DISABLED, SWITCHED "
             "OFF\n"
             "  -  off4          h        host   -      blocking   6 ms   best_effort  thread     DISABLED\n"
             "  critical path: ");
  assert_has(printed(w, OBSERVE, TP_PLAN_TABLE),
             "test.observe  observe, 0 subscriptions, 0 levels, 1 disabled\n"
             "  #  subscription  handler  owner  level  execution  limit  failure      placement  more\n"
             "  -  alone         h        host   -      blocking   5 s    best_effort  thread     DISABLED; "
             "as infra\n"
             "\nsnapshot 1, hash ");
  world_close(w);
}

TEST(json_has_the_disabled_ones_in_a_list_of_their_own) {
  world *w = half_disabled();
  const char *text = printed(w, 0, TP_PLAN_JSON);
  assert_json(text);
  const char *disabled = strstr(text, "],\"disabled\":[");
  assert_non_null(disabled);
  assert_has(disabled, "{\"order\":0,\"subscription\":\"off1\",\"alias\":\"plainAlias\",\"disabled\":true,");
  assert_has(disabled, "{\"order\":0,\"subscription\":\"off4\",\"alias\":null,\"disabled\":true,");
  assert_has(disabled, "\"level\":-1,");
  assert_has(text, "{\"order\":2,\"subscription\":\"on2\",\"alias\":null,\"disabled\":false,");
  assert_has(text,
             "{\"phase\":\"test.observe\",\"mode\":\"observe\",\"reverse\":false,\"subscriptions\":[],"
             "\"disabled\":[{\"order\":0,\"subscription\":\"alone\"");
  world_close(w);
}

TEST(dot_draws_the_disabled_ones_gray_and_without_arrows) {
  world *w = half_disabled();
  const char *text = printed(w, 0, TP_PLAN_DOT);
  assert_has(text,
             "    \"off1\" [tooltip=\"h\",xlabel=\"blocking 1 ms best_effort as plainAlias DISABLED\","
             "style=dotted,color=gray,fontcolor=gray];\n");
  assert_has(text,
             "    \"on2\" [tooltip=\"h\",xlabel=\"blocking 5 ms best_effort SWITCHED OFF\","
             "color=gray,fontcolor=gray];\n");
  assert_has(text, "    \"alone\" [tooltip=\"h\",xlabel=\"blocking 5 s best_effort as infra DISABLED\"");
  assert_null(strstr(text, "->"));
  world_close(w);
}

TEST(phases_count_what_is_disabled_and_what_came_through_an_alias) {
  world *w = half_disabled();
  const char *text = printed_phases(w, TP_PLAN_TABLE);
  assert_has(text, "  6, 4 disabled, 2 switched off  prompt_context, background_job  plainAlias (3), inOrder\n");
  assert_has(text, "  1, 1 disabled                  reminder                        infra (1)\n");
  text = printed_phases(w, TP_PLAN_JSON);
  assert_json(text);
  assert_has(text,
             "\"name\":\"plainAlias\",\"sequential\":false,\"drops_reminders_and_signals\":false,"
             "\"subscriptions\":3}");
  assert_has(text, "\"subscriptions\":6,\"disabled\":4,\"switched_off\":2}");
  world_close(w);
}

TEST(what_cannot_be_printed_is_refused) {
  world *w = peopled();
  page.size = 0;
  assert_int_equal(tp__plan_print(w->registry, 63, TP_PLAN_TABLE, write_on, &page), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(tp__plan_print(w->registry, UINT32_MAX, TP_PLAN_JSON, write_on, &page), TP_ERR_UNKNOWN_PHASE);
  assert_int_equal(tp__plan_print(w->registry, 0, (tp_plan_format)3, write_on, &page), TP_ERR_USAGE);
  assert_int_equal(tp__plan_print(w->registry, 0, TP_PLAN_TABLE, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp__phases_print(w->registry, TP_PLAN_DOT, write_on, &page), TP_ERR_USAGE);
  assert_int_equal(tp__phases_print(w->registry, TP_PLAN_TABLE, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(page.size, 0);
  world_close(w);
}

TEST(printing_needs_no_memory) {
  world *w = half_disabled();
  w->count.refuse_at = 1;
  w->count.refuse_rest = true;
  w->count.asked = 0;
  for (tp_plan_format format = TP_PLAN_TABLE; format <= TP_PLAN_DOT; format++)
    assert_true(strlen(printed(w, 0, format)) > 100);
  assert_int_equal(w->count.asked, 0);
  world_close(w);
}
