/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test.h"

#include "runtime/base/glob.h"
#include "tests/support/host.h"

TEST(glob_matches_folders_as_git_does) {
  static const struct {
    const char *pattern, *text;
    bool matches;
  } rows[] = {
      {"services/**/x.c", "services/x.c", true},
      {"services/**/x.c", "services/a/b/x.c", true},
      {"services/**/x.c", "services/ax.c", false},
      {"apps/*", "apps/a", true},
      {"apps/*", "apps/a/b", false},
      {"apps/**", "apps/a/b", true},
      {"**/x", "x", true},
      {"**/x", "a/b/x", true},
      {"*", "", true},
      {"?", "/", false},
      {"a?c", "abc", true},
      {"", "", true},
      {"", "a", false},
      {"*.c", "a.cc", false},
      {"shell.*", "shell.run", true},
      {"**", "a/b/c", true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (tp__glob_matches(tp_text_of(rows[i].pattern), tp_text_of(rows[i].text)) != rows[i].matches)
      fail_msg("%s %s", rows[i].pattern, rows[i].text);
  }
  char stars[255], text[4096];
  for (size_t i = 0; i < sizeof stars; i++) stars[i] = i % 2 ? 'a' : '*';
  memset(text, 'a', sizeof text);
  text[sizeof text - 1] = 'b';
  assert_false(tp__glob_matches((tp_text){stars, 254}, (tp_text){text, sizeof text}));
}
