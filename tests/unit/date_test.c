/* SPDX-License-Identifier: Apache-2.0
 *
 * Dates as the command reads and writes them: each accepted form with its time, and refusals. */
#include "tests/support/test.h"
#include "cli/common/date.h"
#include "support/clock.h"

TEST(dates_and_times_are_read_to_the_millisecond) {
  static const struct {
    const char *text;
    int64_t unix_ms;
  } rows[] = {{"1970-01-01", 0},
              {"2023-05-08", INT64_C(1683504000000)},
              {"2023-05-08T13:56", INT64_C(1683554160000)},
              {"2023-05-08 13:56:07", INT64_C(1683554167000)},
              {"2023-05-08T13:56:07.5Z", INT64_C(1683554167500)},
              {"2023-05-08T13:56:07.123987Z", INT64_C(1683554167123)},
              {"2023-05-08T13:56+02:00", INT64_C(1683546960000)},
              {"2023-05-08T13:56-0930", INT64_C(1683588360000)},
              {"2024-02-29", INT64_C(1709164800000)},
              {"2016-12-31T23:59:60Z", INT64_C(1483228800000)}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int64_t unix_ms = -1;
    if (!cli_date_read(tp_text_of(rows[i].text), &unix_ms)) fail_msg("%s is refused", rows[i].text);
    if (unix_ms != rows[i].unix_ms) fail_msg("%s is %lld", rows[i].text, (long long)unix_ms);
  }
}

TEST(what_is_no_date_is_refused) {
  static const char *const texts[] = {"",
                                      "2023",
                                      "2023-5-8",
                                      "2023-05-08T",
                                      "2023-05-08T13",
                                      "2023-00-01",
                                      "2023-13-01",
                                      "2023-02-29",
                                      "2100-02-29",
                                      "2023-05-32",
                                      "2023-05-00",
                                      "20230508",
                                      "2023-05-08T24:00",
                                      "2023-05-08T13:60",
                                      "2023-05-08T13:56:61",
                                      "2023-05-08Z",
                                      "2023-05-08T13:56:",
                                      "2023-05-08T13:56:07.",
                                      "2023-05-08T13:56+2",
                                      "2023-05-08T13:56+24:00",
                                      "2023-05-08T13:56Zx",
                                      " 2023-05-08",
                                      "2023-05-08 ",
                                      "-023-05-08"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    int64_t unix_ms = 47;
    if (cli_date_read(tp_text_of(texts[i]), &unix_ms)) fail_msg("'%s' is taken", texts[i]);
    assert_int_equal(unix_ms, 47);
  }
}

TEST(what_is_written_is_read_again) {
  static const int64_t times[] = {0, 1000, -1000, INT64_C(1683554167000), INT64_C(253402300799000)};
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
    char text[CLI_DATE_SIZE];
    int64_t unix_ms = 0;
    cli_date_write(times[i], text);
    assert_true(cli_date_read(tp_text_of(text), &unix_ms));
    assert_int_equal(unix_ms, times[i]);
  }
  char text[CLI_DATE_SIZE];
  cli_date_write(INT64_C(253402300800000), text);
  assert_string_equal(text, "");
  cli_date_write(INT64_MIN, text);
  assert_string_equal(text, "");
}

TEST(a_time_before_now_is_read_too) {
  static const char *const refused[] = {"", "90", "s", "1.5h", "2h ", "-1d", "1w", "1234567890s", "1969-12-31"};
  int64_t before_ms = tp__wall_ms(), unix_ms = 0;
  assert_true(cli_date_read_since("90s", &unix_ms));
  assert_true(unix_ms >= before_ms - 90000 && unix_ms <= tp__wall_ms() - 90000);
  assert_true(cli_date_read_since("999999999d", &unix_ms) && unix_ms == 0);
  assert_true(cli_date_read_since("2023-05-08T13:56", &unix_ms) && unix_ms == INT64_C(1683554160000));
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
    if (cli_date_read_since(refused[i], &unix_ms)) fail_msg("'%s' is taken", refused[i]);
}
