/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as the command shows them to people. */
#include "tests/support/test.h"
#include "cli/common/quantity.h"

TEST(durations_have_three_digits_that_count) {
  static const struct {
    double ns;
    const char *text;
  } rows[] = {{0, "0 ns"},           {1, "1 ns"},           {7.62, "7.62 ns"},   {9.999, "10.0 ns"},
              {45.6, "45.6 ns"},     {812, "812 ns"},       {999, "999 ns"},     {999.6, "1.00 µs"},
              {1000, "1.00 µs"},     {1234, "1.23 µs"},     {9996, "10.0 µs"},   {45678, "45.7 µs"},
              {99960, "100 µs"},     {456789, "457 µs"},    {999600, "1.00 ms"}, {2e6, "2.00 ms"},
              {123456789, "123 ms"}, {999600000, "1.00 s"}, {789e9, "789 s"},    {12345e9, "12345 s"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    assert_string_equal(cli_duration(rows[i].ns).text, rows[i].text);
}

TEST(counts_have_commas) {
  assert_string_equal(cli_count(0).text, "0");
  assert_string_equal(cli_count(999).text, "999");
  assert_string_equal(cli_count(1000).text, "1,000");
  assert_string_equal(cli_count(1234567).text, "1,234,567");
  assert_string_equal(cli_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
}
