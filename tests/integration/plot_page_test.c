/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of turnphase plot in a browser: its script runs without an error, and lanes, labels and the late handler are
 * visible. Needs Chromium (./dev setup --plot); skipped without it. */
#include "tests/support/test.h"
#include "tests/integration/support/command.h"

static const char *browser;
static bytes page; /* the page after its script has run */

static const char *find_browser(void) {
  static const char *const paths[] = {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
    if (access(paths[i], X_OK) == 0) return paths[i];
  return NULL;
}

static void open_in_browser(const char *path) {
  char line[2048], piece[4096];
  snprintf(line, sizeof line,
           "HOME='%s' timeout 60 %s --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
           " --user-data-dir='%s/browser' --window-size=1600,900 --virtual-time-budget=2000 --dump-dom 'file://%s'"
           " 2>/dev/null",
           scratch, browser, scratch, path);
  FILE *out = popen(line, "r");
  assert_non_null(out);
  for (size_t got; (got = fread(piece, 1, sizeof piece, out)) > 0;) bytes_add(&page, piece, got);
  assert_int_equal(pclose(out), 0);
}

static int draw(void **state) {
  char model[4096], conversation[4096], data[512], path[512];
  const char *source = getenv("TURNPHASE_SOURCE"), *domain = getenv("TURNPHASE_DEMO");
  if (scratch_make(state) != 0) return -1;
  snprintf(data, sizeof data, "%s/kept", scratch);
  snprintf(path, sizeof path, "%s/turn.html", scratch);
  snprintf(model, sizeof model, "%s/examples/demo/model.yaml", source);
  snprintf(conversation, sizeof conversation, "%s/examples/demo/conversation.yaml", source);
  command c = {.arguments = {"run", "--load", domain, "--script", model, "--data", data, conversation}};
  assert_status(&c, 0);
  command_free(&c);
  c = (command){.arguments = {"plot", data, "rooms-1", "-o", path}};
  assert_status(&c, 0);
  command_free(&c);
  bytes_add(&page, "", 0);
  open_in_browser(path);
  return 0;
}

static int teardown(void **state) {
  free(page.data);
  return scratch_remove(state);
}

FOR_ALL_TESTS(draw, teardown);

TEST(script_draws_to_its_end) {
  assert_holds(&page, "data-drawn=\"yes\"");
  assert_null(strstr(page.data, "NaN"));
  assert_null(strstr(page.data, "undefined\""));
}

/* A label's element, from its begin to its text. */
static void assert_is_shown(const char *label) {
  char words[64];
  snprintf(words, sizeof words, ">%s</text>", label);
  assert_holds(&page, words);
  const char *end = strstr(page.data, words), *begin = end;
  while (strncmp(begin, "<text", 5) != 0) begin--;
  const char *shown = strstr(begin, "display=\"inline\"");
  if (!shown || shown > end) print_message("# %s is not shown\n", label);
  assert_true(shown && shown < end);
}

TEST(lanes_and_labels_are_in_the_page) {
  static const char *const lanes[] = {"phases",  "turn thread", "model",   "tools 1",
                                      "tools 2", "tools 3",     "history", "after the turn"};
  static const char *const labels[] = {"trip.events", "train_times", "find_room", "weather", "turn.pre_prompt_context"};
  char words[64];
  for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++) {
    snprintf(words, sizeof words, ">%s</text>", lanes[i]);
    assert_holds(&page, words);
  }
  assert_holds(&page, ">thread ");
  for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) assert_is_shown(labels[i]);
}

TEST(late_handler_can_be_hovered_and_is_named_below) {
  assert_holds(&page, "data-tip=\"handler trip.events");
  assert_holds(&page, "missed its deadline of 60.0 ms by");
  const char *table = strstr(page.data, "What did not go well");
  assert_non_null(table);
  assert_non_null(strstr(table, "trip.events"));
}

TEST_MAIN(count, arguments) {
  browser = find_browser();
  if (!browser) {
    puts("1..0 # SKIP no Chromium here: ./dev setup --plot");
    return 0;
  }
  return test_main(count, arguments);
}
