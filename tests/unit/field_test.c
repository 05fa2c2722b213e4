/* SPDX-License-Identifier: Apache-2.0
 *
 * Options instead of fields of the C API. Every field that the providers and domains name is checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "cli/common/field.h"

static void expect(const char *text, bool of_model, const char *wanted) {
  tp__bytes words = {0};
  cli_field_words(tp_text_of(text), of_model, &words);
  assert_string_equal(tp__bytes_string(&words), wanted);
  tp__bytes_fini(&words);
}

TEST(fields_of_structs_are_options) {
  static const struct {
    const char *text, *wanted;
  } rows[] = {
      {"tp_openai_options.key_env: K is not set", "--key-env: K is not set"},
      {"--model: tp_openai_options.base_url: it names no host", "--model: --base-url: it names no host"},
      {"to a (tp_hooks_options.webhook_hosts, --webhook)", "to a (--webhook, --webhook)"},
      {"tp_openai_options.key_env_x is odd", "key_env_x is odd"},                 /* no row: the struct's name goes */
      {"xtp_openai_options.key_env is odd", "xtp_openai_options.key_env is odd"}, /* another word */
      {"tp_openai_options has a field that is newer", "tp_openai_options has a field that is newer"},
      {"tp_openai_options.", "tp_openai_options."},
      {"tp_turn_result.value", "tp_turn_result.value"},
      {"bad.yaml:3:5: base_url must be a text", "bad.yaml:3:5: base_url must be a text"}, /* its own key */
      {"", ""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) expect(rows[i].text, false, rows[i].wanted);
}

TEST(remedies_of_a_failed_model_name_options) {
  expect("check the host in base_url, and the network", true, "check the host in --base-url, and the network");
  expect("the key was refused: check key_env or key_file", true,
         "the key was refused: check --key-env; without it no key is sent to a --base-url");
  expect("check base_url, api and the model's name", true, "check --base-url and --model");
  expect("my_base_url, base_urls", true, "my_base_url, base_urls");
}

/* The texts of the sources: faults of a provider or a domain that the command uses. */
TEST(no_field_of_the_sources_is_left) {
  static const char *const files[] = {
      "providers/openai/config.c", "providers/openai/embed.c", "providers/openai/failure.c", "providers/openai/call.c",
      "domains/files/files.c",     "domains/skills/skills.c",  "domains/declared/hooks.c",   "domains/mcp/settings.c"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[4096], line[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("TURNPHASE_SOURCE"), files[i]);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
      tp__bytes words = {0};
      bool is_text = strchr(line, '"') != NULL;
      cli_field_words(tp_text_of(line), true, &words);
      const char *left = is_text ? strstr(tp__bytes_string(&words), "_options.") : NULL;
      if (left && strncmp(left, "_options.%", 10) == 0) left = NULL; /* a field by its name, as those above */
      if (left) print_message("# %s: %s", files[i], line);
      assert_null(left);
      tp__bytes_fini(&words);
    }
    fclose(file);
  }
}
