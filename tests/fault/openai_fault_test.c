/* SPDX-License-Identifier: Apache-2.0
 *
 * Each allocation of the provider is refused, one after the other: while a model is made, and while turns run, on any
 * thread. A turn fails with no_memory or completes; nothing hangs, and no memory is left. */
#include "tests/support/test.h"
#include "support/bytes.h"
#include "tests/support/json_value.h"
#include "tests/support/provider.h"

static _Atomic long until_refused, asked, blocks; /* until_refused 0: the next is refused; below: none is */
static _Atomic int wrong_sizes;

static void *shy_alloc(void *ctx, size_t size) {
  (void)ctx;
  asked++;
  if (until_refused-- == 0) return NULL;
  size_t *memory = malloc(size + 16);
  if (!memory) return NULL;
  *memory = size;
  blocks++;
  return (char *)memory + 16;
}

static void shy_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  size_t *real = (size_t *)(void *)((char *)memory - 16);
  if (*real != size) wrong_sizes++;
  blocks--;
  free(real);
}

static const tp_allocator shy = {shy_alloc, shy_release, NULL};

TEST(a_model_is_made_or_refused) {
  const tp_allocator *before = tp__heap;
  const tp_openai_price price = {.struct_size = sizeof price, .model = "m*", .input_micros = 1}, *const prices[] = {
                                                                                                     &price};
  tp_writer *headers, *body;
  assert_int_equal(tp_writer_new(NULL, &headers), TP_OK);
  assert_int_equal(tp_writer_new(NULL, &body), TP_OK);
  tp_openai_options options = {.struct_size = sizeof options,
                               .model = "m",
                               .base_url = "http://127.0.0.1:1/v1///",
                               .key_env = "TEST_KEY",
                               .proxy = "http://127.0.0.1:2",
                               .ca_file = "/dev/null",
                               .files_directory = "/",
                               .headers = json_value(headers, "{'a': 'b'}"),
                               .body = json_value(body, "{'seed': 1}"),
                               .prices = prices,
                               .price_count = 1};
  setenv("TEST_KEY", "k", 1);
  tp__heap = &shy;
  bool refused = true;
  for (long at = 0; refused; at++) {
    tp_model *model = NULL;
    tp_fault fault = {0};
    until_refused = at;
    tp_status status = tp_openai_model_new(&options, &model, &fault);
    refused = until_refused < 0;
    if (refused && status != TP_OK) assert_int_equal(status, TP_ERR_NO_MEMORY);
    else assert_int_equal(status, TP_OK);
    if (status == TP_OK) tp_model_free(model);
    assert_int_equal(blocks, 0);
    assert_int_equal(wrong_sizes, 0);
  }
  tp__heap = before;
  tp_writer_free(headers);
  tp_writer_free(body);
}

TEST(a_turn_completes_or_fails) {
  static const endpoint_reply reply = {.body = CHAT_CALLS}, text_reply = {.body = CHAT_HELLO};
  const tp_allocator *before = tp__heap;
  const endpoint_reply *const both[] = {&text_reply, &reply};
  tp__heap = &shy;
  for (int i = 0; i < 2; i++) {
    bool refused = true;
    for (long at = 0; refused; at++) {
      until_refused = -1;
      provider *p = provider_open(both[i], 1, NULL, false);
      until_refused = at;
      const tp_turn_result *result = provider_turn(p, &(tp_turn_request){.iterations_max = 1, .model_attempts = 1});
      refused = until_refused < 0;
      if (refused && result->outcome != TP_TURN_COMPLETED && result->code != TP_ERR_NO_MEMORY &&
          result->code != TP_ERR_TOO_LARGE)
        fail_msg("allocation %ld: %.*s", at, (int)result->reason.size, result->reason.data);
      provider_close(p);
      assert_int_equal(blocks, 0);
      assert_int_equal(wrong_sizes, 0);
    }
  }
  tp__heap = before;
}
