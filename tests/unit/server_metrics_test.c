/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a server (server/metrics.h): labels that come from outside, how many series there may be, summaries,
 * and which format a client prefers. The whole exposition is read strictly by tests/integration/serve_test.py. */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "server/metrics.h"

static const tp_text none = {0};

static const char *printed(tp__metrics *metrics, bool open_metrics) {
  static tp__bytes out;
  const tp__metrics_now now = {.runtime.struct_size = sizeof now.runtime};
  tp__bytes_clear(&out);
  tp__metrics_print(metrics, &now, open_metrics, &out);
  return tp__bytes_string(&out);
}

static void expect_in(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in: %s", part, text);
}

TEST(a_label_from_outside_is_escaped_cut_and_made_utf8) {
  tp__metrics *metrics = tp__metrics_new();
  char large[400];
  memset(large, 'x', sizeof large);
  tp__metrics_add(metrics, TP__METRIC_tool_calls, tp_text_of("a\"b\\c\nd{}\xff"), tp_text_of("ok"), 2);
  tp__metrics_add(metrics, TP__METRIC_tool_calls, (tp_text){large, sizeof large}, tp_text_of("ok"), 1);
  tp__metrics_add(metrics, TP__METRIC_tool_calls, (tp_text){large, 200}, tp_text_of("ok"), 1);
  const char *text = printed(metrics, false);
  expect_in(text, "turnphase_tool_calls_total{tool=\"a\\\"b\\\\c\\nd{}\xef\xbf\xbd\",result=\"ok\"} 2\n");
  large[128] = '\0';
  char want[500];
  snprintf(want, sizeof want, "{tool=\"%s\",result=\"ok\"} 2\n", large); /* both are cut to the same */
  expect_in(text, want);
  tp__metrics_free(metrics);
}

TEST(labels_above_the_bound_are_counted_together) {
  tp__metrics *metrics = tp__metrics_new();
  char label[32];
  for (int i = 0; i < TP__METRICS_SERIES_MAX + 100; i++) {
    snprintf(label, sizeof label, "tool-%d", i);
    tp__metrics_add(metrics, TP__METRIC_tool_calls, tp_text_of(label), tp_text_of("ok"), 1);
    tp__metrics_observe(metrics, TP__METRIC_tool_duration, tp_text_of(label), 5);
  }
  tp__metrics_add(metrics, TP__METRIC_tool_calls, tp_text_of("tool-3"), tp_text_of("ok"), 1); /* one that is known */
  const char *text = printed(metrics, true);
  expect_in(text, "{tool=\"_other\",result=\"_other\"} 100\n");
  expect_in(text, "{tool=\"tool-3\",result=\"ok\"} 2\n");
  expect_in(text, "turnphase_tool_duration_seconds_count{tool=\"_other\"} 100\n");
  assert_null(strstr(text, "\"tool-512\""));
  assert_string_equal(text + strlen(text) - 6, "# EOF\n");
  tp__metrics_free(metrics);
}

TEST(a_duration_is_in_the_bucket_whose_bound_it_does_not_pass) {
  tp__metrics *metrics = tp__metrics_new();
  const int64_t durations[] = {-5, 0, 10000, 10001, 1000000000, 300000000001};
  for (size_t i = 0; i < sizeof durations / sizeof *durations; i++)
    tp__metrics_observe(metrics, TP__METRIC_turn_duration, none, durations[i]);
  const char *text = printed(metrics, false);
  expect_in(text, "turnphase_turn_duration_seconds_bucket{le=\"1e-05\"} 3\n");
  expect_in(text, "turnphase_turn_duration_seconds_bucket{le=\"0.0001\"} 4\n");
  expect_in(text, "turnphase_turn_duration_seconds_bucket{le=\"1.0\"} 5\n");
  expect_in(text, "turnphase_turn_duration_seconds_bucket{le=\"300.0\"} 5\n");
  expect_in(text, "turnphase_turn_duration_seconds_bucket{le=\"+Inf\"} 6\n");
  expect_in(text, "turnphase_turn_duration_seconds_sum 301.000020002\n");
  expect_in(text, "turnphase_turn_duration_seconds_count 6\n");
  tp__metrics_free(metrics);
}

TEST(the_slowest_have_the_largest_sums) {
  tp__metrics *metrics = tp__metrics_new();
  tp__metrics_summary top[2];
  char label[32];
  for (int i = 1; i <= 5; i++) {
    snprintf(label, sizeof label, "h%d", i);
    for (int k = 0; k < 20; k++)
      tp__metrics_observe(metrics, TP__METRIC_handler_duration, tp_text_of(label), (int64_t)(i % 4) * 2000000);
  }
  tp__metrics_observe(metrics, TP__METRIC_handler_duration, tp_text_of("h3"), 90000000);
  assert_int_equal(tp__metrics_largest(metrics, TP__METRIC_handler_duration, top, 2), 2);
  assert_string_equal(top[0].label, "h3");
  assert_int_equal(top[0].count, 21);
  assert_true(top[0].sum_s > 0.2099 && top[0].sum_s < 0.2101);
  assert_true(top[0].max_s > 0.0899 && top[0].max_s < 0.0901);
  assert_true(top[0].p95_s > 0.0099 && top[0].p95_s < 0.0101); /* 6 ms are in the bucket up to 10 ms */
  assert_string_equal(top[1].label, "h2");
  assert_true(top[1].p95_s > 0.0039 && top[1].p95_s < 0.0041); /* and never above the largest */
  assert_int_equal(tp__metrics_largest(metrics, TP__METRIC_tool_duration, top, 2), 0);
  tp__metrics_free(metrics);
}

TEST(openmetrics_is_for_clients_that_prefer_it) {
  static const struct {
    const char *accept;
    bool open;
  } rows[] = {{"", false},
              {"*/*", false},
              {"text/plain", false},
              {"application/openmetrics-text", true},
              {"application/openmetrics-text; version=1.0.0", true},
              {"APPLICATION/OpenMetrics-Text;version=1.0.0;charset=utf-8", true},
              {"application/openmetrics-text;version=0.0.1", false},
              {"application/openmetrics-text;q=0", false},
              {"application/openmetrics-text;q=0.5,text/plain;q=0.4", true},
              {"application/openmetrics-text;q=0.4,text/plain;q=0.5", false},
              {"text/plain;version=0.0.4;q=0.75, application/openmetrics-text;version=1.0.0;q=0.75", true},
              {"application/openmetrics-texts", false},
              {",,;,q=1", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (tp__metrics_prefers_open(tp_text_of(rows[i].accept)) != rows[i].open) fail_msg("%s", rows[i].accept);
}
