/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistyped words, and the names that were meant. */
#include <string.h>

#include "cli/common/nearest.h"
#include "tests/support/test.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const names[] = {"run",      "runs", "chat", "plan",  "phases",  "explain", "critical-chain",
                                    "sessions", "plot", "time", "blame", "redrive", "list",    "max-tool-calls"};

static const struct {
  const char *word, *meant; /* NULL: none is near */
} words[] = {
    {"pln", "plan"},
    {"plna", "plan"},
    {"paln", "plan"},
    {"plaan", "plan"},
    {"plam", "plan"},
    {"lst", "list"},
    {"rn", "run"},
    {"rnus", "runs"},
    {"explian", "explain"},
    {"exlpian", "explain"},
    {"expl", "explain"}, /* a begin */
    {"sess", "sessions"},
    {"ph", NULL}, /* too short for one */
    {"phases ", "phases"},
    {"critcal-chian", "critical-chain"},
    {"crtcl-chn", NULL},
    {"max-tol-cals", "max-tool-calls"},
    {"x", NULL},
    {"ab", NULL},
    {"", NULL},
    {"something-else", NULL},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL},
    {"PLAN", NULL},
    {"läst", "list"}, /* two bytes for one: replaced and inserted */
};

TEST(the_name_that_was_meant_is_found) {
  for (size_t i = 0; i < COUNT(words); i++) {
    cli_nearest nearest = cli_nearest_to(words[i].word);
    for (size_t n = 0; n < COUNT(names); n++) cli_nearest_try(&nearest, names[n]);
    if (!words[i].meant && nearest.name) fail_msg("'%s' is near '%s'", words[i].word, nearest.name);
    if (words[i].meant && (!nearest.name || strcmp(nearest.name, words[i].meant) != 0))
      fail_msg("'%s' is near '%s', not '%s'", words[i].word, nearest.name ? nearest.name : "none", words[i].meant);
  }
}

TEST(the_hint_names_it) {
  char buffer[CLI_HINT_SIZE];
  cli_nearest nearest = cli_nearest_to("pln");
  assert_string_equal(cli_nearest_hint(&nearest, "--", buffer), "");
  cli_nearest_try(&nearest, "plan");
  cli_nearest_try(&nearest, "plen"); /* as near: the first stays */
  assert_string_equal(cli_nearest_hint(&nearest, "--", buffer), "; did you mean '--plan'?");
}
