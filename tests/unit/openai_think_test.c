/* SPDX-License-Identifier: Apache-2.0
 *
 * Thinking in the text between tags, and pieces that contain the whole text so far: from servers that have no field for
 * thinking, and no deltas. ' stands for a double quote in the rows with JSON. */
#include "tests/support/test.h"
#include "tests/support/answers.h"
#include "tests/unit/value_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- tags ---- */

/** What was told apart. */
typedef struct heard {
  tp__bytes said, thought;
} heard;

static void hear(void *ctx, tp_text piece, bool thinking) {
  heard *h = ctx;
  assert_true(piece.size > 0);
  tp__bytes_put_text(thinking ? &h->thought : &h->said, piece);
}

/* In pieces that end at cut, and then have a size each; 0: the rest. */
static void tell(tp_text text, bool first, size_t cut, size_t size, heard *h) {
  tp__openai_think think = {.out = hear, .ctx = h, .begins_inside = first};
  tp__openai_think_feed(&think, (tp_text){text.data, cut});
  for (size_t at = cut, step; at < text.size; at += step) {
    step = size > 0 && size < text.size - at ? size : text.size - at;
    tp__openai_think_feed(&think, (tp_text){text.data + at, step});
  }
  tp__openai_think_end(&think);
  assert_false(think.failed);
  tp__openai_think_fini(&think);
}

static const struct row {
  const char *text, *said, *thought;
  bool first; /* the quirk of an answer that begins with thinking */
} rows[] = {
    /* plain */
    {"<think>a b</think>c", "c", "a b", 0},
    {"<think>\nhm\n</think>\n\nHello", "Hello", "hm\n", 0},
    {" \n <think>hm</think> x", "x", "hm", 0},
    {"Hello", "Hello", "", 0},
    {"  Hello\n", "  Hello\n", "", 0},
    {" \n", " \n", "", 0},
    {"", "", "", 0},
    /* names, letters, attributes */
    {"<thinking>a</thinking>b", "b", "a", 0},
    {"<thought>a</thought>b", "b", "a", 0},
    {"<thoughts>a</thoughts>b", "b", "a", 0},
    {"<reasoning>a</reasoning>b", "b", "a", 0},
    {"<THINK>a</THINK>b", "b", "a", 0},
    {"<Thinking>a</ThinkinG>b", "b", "a", 0},
    {"<think >a</think >b", "b", "a", 0},
    {"<think\n>a</think\n>b", "b", "a", 0},
    {"<think type=\"deep\" n=1>a</think>b", "b", "a", 0},
    {"<seed:think>a</seed:think>b", "b", "a", 0},
    {"<thinking>a</thinking>b", "b", "a", 0},
    {"[THINK]a[/THINK]b", "b", "a", 0},
    {"\xe2\x97\x81think\xe2\x96\xb7"
     "a\xe2\x97\x81/think\xe2\x96\xb7"
     "b",
     "b", "a", 0},
    {"<|begin_of_thought|>a<|end_of_thought|>b", "b", "a", 0},
    {"<think>a</thinking>b", "b", "a", 0},
    {"<think></think>b", "b", "", 0},
    {"<think>\n\n</think>\n\nb", "b", "", 0},
    {"<think/>b", "b", "", 0},
    {"a<think />b", "ab", "", 0},
    /* in the middle, several, unclosed */
    {"Well. <think>hm</think> Yes.", "Well.  Yes.", "hm", 0},
    {"<think>a</think>b<think>c</think>d", "bd", "ac", 0},
    {"<think>a</think> \n<think>c</think> d", "d", "ac", 0},
    {"<think>never ends", "", "never ends", 0},
    {"a<think>never", "a", "never", 0},
    {"a</think>b", "a</think>b", "", 0},
    {"<think>a</thin", "", "a</thin", 0},
    {"a<thin", "a<thin", "", 0},
    {"a<", "a<", "", 0},
    /* nested */
    {"<think>a<think>b</think>c</think>d", "d", "a<think>b</think>c", 0},
    {"<think>a<thinking>b</thinking>c<x></think>d", "d", "a<thinking>b</thinking>c<x>", 0},
    {"<think>the tag <think> is meant</think>So.", "So.", "the tag <think> is meant</think>", 0},
    {"<think>a<think>b<think>c</think>d</think>e</think>f", "f", "a<think>b<think>c</think>d</think>e", 0},
    {"<think>a<think/>b</think>c", "c", "a<think/>b", 0},
    /* what is no tag */
    {"<thinker>a</thinker>", "<thinker>a</thinker>", "", 0},
    {"<think about it> 1 < 2", "<think about it> 1 < 2", "", 0},
    {"x < think > y", "x < think > y", "", 0},
    {"<html><b>x</b> [think] [TH", "<html><b>x</b> [think] [TH", "", 0},
    {"<:think>a", "<:think>a", "", 0},
    {"<think a=1\nb>c", "<think a=1\nb>c", "", 0},
    {"```\n<think>\n````\n<think>a</think>b", "```\n<think>\n````\nb", "a", 0},
    {"<think>`</think>x<think>c</think>d", "xd", "`c", 0},
    {"<<think>a</think>b", "<b", "a", 0},
    {"Write `<think>` first.", "Write `<think>` first.", "", 0},
    {"```\n<think>a</think>\n```\n<think>b</think>c", "```\n<think>a</think>\n```\nc", "b", 0},
    {"a ` b\n<think>c</think>d", "a ` b\nd", "c", 0},
    {"<think>`</think>d", "d", "`", 0},
    {"``a`<think>``<think>b</think>c", "``a`<think>``c", "b", 0},
    /* without an opening tag */
    {"hm\n</think>\n\nHello", "Hello", "hm\n", 1},
    {"<think>hm</think>Hello", "Hello", "hm", 1},
    {"\n<think>\nhm</think>Hello", "Hello", "hm", 1},
    {"</think>Hello", "Hello", "", 1},
    {"hm", "", "hm", 1},
    {"a</think>b<think>c</think>d", "bd", "ac", 1},
    {"a<think>b</think>c</think>d", "d", "a<think>b</think>c", 1},
};

TEST(thinking_between_tags_is_told_wherever_pieces_end) {
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_text text = tp_text_of(rows[i].text);
    for (size_t cut = 0; cut <= text.size; cut++)
      for (size_t size = 0; size < 3; size++) {
        heard h = {.said = {0}};
        tell(text, rows[i].first, cut, size, &h);
        if (!tp_text_is(tp__bytes_text(&h.said), rows[i].said) ||
            !tp_text_is(tp__bytes_text(&h.thought), rows[i].thought))
          fail_msg("%zu, cut at %zu, then %zu: %s\n said %s\n thought %s", i, cut, size, rows[i].text,
                   tp__bytes_string(&h.said), tp__bytes_string(&h.thought));
        tp__bytes_fini(&h.said);
        tp__bytes_fini(&h.thought);
      }
  }
}

/* What may become a tag is held up to the size of one. */
TEST(a_text_that_may_become_a_tag_is_not_held_for_ever) {
  heard h = {.said = {0}};
  tp__openai_think think = {.out = hear, .ctx = &h};
  tp__openai_think_feed(&think, tp_text_of("<think "));
  for (int i = 0; i < 200; i++) tp__openai_think_feed(&think, tp_text_of("a"));
  assert_true(h.said.size >= 200);
  tp__openai_think_end(&think);
  assert_int_equal(h.said.size, 207);
  tp__openai_think_fini(&think);
  tp__bytes_fini(&h.said);
  tp__bytes_fini(&h.thought);
}

/* ---- answers ---- */

static tp__bytes thought;

static tp_status hear_both(void *ctx, tp_text piece, bool thinking) {
  (void)ctx;
  tp__bytes_put_text(thinking ? &thought : &deltas, piece);
  return TP_OK;
}

/* The text of the response, the deltas and the thinking of an answer. */
static char *seen_of(tp_openai_api api, uint64_t quirks, const char *row, size_t step) {
  char *bytes = strdup(row), *seen = NULL;
  assert_non_null(bytes);
  for (char *at = bytes; *at; at++)
    if (*at == '\'') *at = '"';
  size_t size = strlen(bytes);
  tp__openai_stream stream = begin(api, 1 << 20);
  stream.on_text = hear_both;
  stream.quirks = quirks;
  tp__bytes_clear(&thought);
  assert_int_equal(tp__openai_stream_init(&stream), TP_OK);
  for (size_t at = 0; at < size; at += step)
    if (!tp__openai_stream_feed(&stream, bytes + at, step < size - at ? step : size - at)) break;
  (void)tp__openai_stream_end(&stream);
  tp_model_response response = {.text = {NULL, 0}};
  tp_status status = tp__openai_answer_response(&stream.answer, &response);
  const char *failure = stream.answer.failure.message;
  assert_true(asprintf(&seen, "%.*s|%s|%s|%s%s", (int)response.text.size, response.text.size ? response.text.data : "",
                       tp__bytes_string(&deltas), tp__bytes_string(&thought), status == TP_OK ? "" : failure,
                       stream.answer.grows ? " grows" : "") > 0);
  tp__openai_stream_fini(&stream);
  free(bytes);
  return seen;
}

#define C(text) "data: {'choices':[{'index':0,'delta':{'content':'" text "'}}]}\n\n"
#define R(text) "data: {'choices':[{'index':0,'delta':{'reasoning_content':'" text "'}}]}\n\n"
#define F "data: {'choices':[{'index':0,'delta':{},'finish_reason':'stop'}]}\n\ndata: [DONE]\n\n"
#define WHOLE(text)                                                                                  \
  "{'object':'chat.completion','choices':[{'index':0,'message':{'role':'assistant','content':'" text \
  "'},'finish_reason':'stop'}]}"
#define TAGS TP_OPENAI_QUIRK_THINK_TAGS
#define FIRST TP_OPENAI_QUIRK_THINK_FIRST
#define GROWS TP_OPENAI_QUIRK_CUMULATIVE

static void assert_seen(tp_openai_api api, uint64_t quirks, const char *row, const char *expected) {
  static const size_t steps[] = {1, 7, 8192};
  for (size_t i = 0; i < COUNT(steps); i++) {
    char *seen = seen_of(api, quirks, row, steps[i]);
    if (strcmp(seen, expected) != 0) fail_msg("%s\n  %s\n  not\n  %s", row, seen, expected);
    free(seen);
  }
}

TEST(answers_have_their_text_without_thinking) {
  static const struct {
    tp_openai_api api;
    uint64_t quirks;
    const char *row, *seen;
  } answers[] = {
      {TP_OPENAI_CHAT, 0, C("<think>a</think>b") F, "<think>a</think>b|<think>a</think>b||"},
      {TP_OPENAI_CHAT, TAGS, C("<thi") C("nk>\\nhm") C("m</") C("think>\\n\\nHel") C("lo") F, "Hello|Hello|hmm|"},
      {TP_OPENAI_CHAT, TAGS, WHOLE("<think>hm</think>\\n\\nHello"), "Hello|||"},
      {TP_OPENAI_CHAT, FIRST, C("hm") C("</think>Hello") F, "Hello|Hello|hm|"},
      {TP_OPENAI_CHAT, TAGS | FIRST, C("<think>hm") C("</think>Hello") F, "Hello|Hello|hm|"},
      /* the last chunk has all of it again, and a field has the same thinking */
      {TP_OPENAI_CHAT, TAGS, C("<think>hm</think>Hello") "data: " WHOLE("<think>hm</think>Hello") "\n\n",
       "Hello|Hello|hm|"},
      {TP_OPENAI_CHAT, TAGS, R("hm") C("<think>hm</think>Hello") F, "Hello|Hello|hm|"},
      /* what was held is not lost */
      {TP_OPENAI_CHAT, TAGS, C("a <thi") F, "a <thi|a <thi||"},
      {TP_OPENAI_CHAT, TAGS, C("<think>a<think>b</think>Yes") F, "Yes|Yes|a<think>b</think>|"},
      {TP_OPENAI_CHAT, TAGS, C("<think>only") F, "||only|"},
      {TP_OPENAI_RESPONSES, TAGS,
       "data: {'type':'response.output_text.delta','output_index':0,'content_index':0,'delta':'<think>hm</thi'}\n\n"
       "data: {'type':'response.output_text.delta','output_index':0,'content_index':0,'delta':'nk>Yes'}\n\n"
       "data: {'type':'response.output_text.done','output_index':0,'content_index':0,'text':'<think>hm</think>Yes'}"
       "\n\ndata: {'type':'response.completed','response':{'status':'completed','output':[{'type':'message','content':"
       "[{'type':'output_text','text':'<think>hm</think>Yes'}]}]}}\n\n",
       "Yes|Yes|hm|"},
      {TP_OPENAI_MESSAGES, TAGS,
       "data: {'type':'content_block_delta','index':0,'delta':{'type':'text_delta','text':'<think>hm'}}\n\n"
       "data: {'type':'content_block_delta','index':0,'delta':{'type':'text_delta','text':'</think>Yes'}}\n\n"
       "data: {'type':'message_delta','delta':{'stop_reason':'end_turn'}}\n\ndata: {'type':'message_stop'}\n\n",
       "Yes|Yes|hm|"},
  };
  for (size_t i = 0; i < COUNT(answers); i++)
    assert_seen(answers[i].api, answers[i].quirks, answers[i].row, answers[i].seen);
}

TEST(no_memory_is_an_answer_with_tags_too) {
  static const char bytes[] =
      "data: {\"choices\":[{\"delta\":{\"content\":\" <think>a<think>b</think>\"}}]}\n\n"
      "data: {\"choices\":[{\"delta\":{\"content\":\"c <th\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
  const tp_allocator *before = tp__heap;
  bool refused = true;
  for (size_t at = 1; refused; at++) {
    counting counter = {.refuse_at = at};
    tp_allocator allocator = allocator_over(&counter);
    tp__heap = &allocator;
    tp__openai_stream stream = {.form = tp__openai_form_of(TP_OPENAI_CHAT), .bytes_max = 1 << 20, .quirks = TAGS};
    tp_model_response response;
    tp_status status = tp__openai_stream_init(&stream);
    if (status == TP_OK) {
      tp__openai_stream_feed(&stream, bytes, strlen(bytes));
      (void)tp__openai_stream_end(&stream);
      status = tp__openai_answer_response(&stream.answer, &response);
      if (status == TP_OK) assert_true(tp_text_is(response.text, "c <th"));
    }
    tp__openai_stream_fini(&stream);
    refused = counter.requests >= at;
    assert_int_equal(status, refused ? TP_ERR_NO_MEMORY : TP_OK);
    assert_int_equal(counter.open, 0);
  }
  tp__heap = before;
}

/* Text with tags counts once. */
TEST(thinking_between_tags_counts_once_in_the_limit) {
  static const char piece[] =
      "data: {\"choices\":[{\"delta\":{\"content\":\"<think>12345678901234567890</think>12345678901234567890\"}}]}\n\n";
  for (int count = 3; count < 8; count += 4) { /* within the limit, and beyond it */
    tp__openai_stream stream = {.form = tp__openai_form_of(TP_OPENAI_CHAT), .bytes_max = 200, .quirks = TAGS};
    assert_int_equal(tp__openai_stream_init(&stream), TP_OK);
    bool taken = true;
    for (int i = 0; i < count; i++) taken = tp__openai_stream_feed(&stream, piece, sizeof piece - 1);
    assert_int_equal(taken, count == 3);
    tp__openai_stream_fini(&stream);
  }
}

/* ---- pieces that have all of the text so far ---- */

TEST(pieces_that_have_the_text_so_far_add_what_follows_it) {
  static const struct {
    uint64_t quirks;
    const char *row, *seen;
  } answers[] = {
      {GROWS, C("Hel") C("Hello, w") C("Hello, world") F, "Hello, world|Hello, world||"},
      {GROWS, C("Hello") C("Hello") C("Hello!") F, "Hello!|Hello!||"},
      {GROWS, C("Hello!") C("Hel") F, "Hello!|Hello!||"},
      {GROWS, C("a") C("b") F, "ab|ab||"},
      {GROWS, R("h") R("hm") C("a") C("ab") F, "ab|ab|hm|"},
      {GROWS | TAGS, C("<think>h") C("<think>hm</thi") C("<think>hm</think>Yes") F, "Yes|Yes|hm|"},
      {GROWS, C("\xc3\xbc") C("\xc3\xbc\xe2\x82\xac") F, "\xc3\xbc\xe2\x82\xac|\xc3\xbc\xe2\x82\xac||"},
      /* without the quirk they stay, and are named */
      {0, C("H") C("He") C("Hel") C("Hello, this is a text") F,
       "HHeHelHello, this is a text|HHeHelHello, this is a text|| grows"},
      /* streams that repeat themselves */
      {0, C("ha") C("haha") C("!") F, "hahaha!|hahaha!||"},
      {0, C("=") C("==") C("====") C("=\\n") F, "========\n|========\n||"},
      {0, C("no ") C("no ") C("no ") C("no ") C("no no no no no no") F,
       "no no no no no no no no no no|no no no no no no no no "
       "no no||"},
      {0, C("a") C("ab") C("c") C("cd") C("cd, and this is long enough") F,
       "aabccdcd, and this is long enough|aabccdcd, and this is long enough||"},
  };
  for (size_t i = 0; i < COUNT(answers); i++)
    assert_seen(TP_OPENAI_CHAT, answers[i].quirks, answers[i].row, answers[i].seen);
  tp__bytes_fini(&thought);
  tp__bytes_fini(&deltas);
}
