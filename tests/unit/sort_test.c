/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test.h"
#include "tests/unit/plan_world.h"

enum { NODES_MAX = 4096 };
typedef struct sorted {
  tp_status status;
  uint32_t order[NODES_MAX];
  uint32_t cycle[NODES_MAX + 1];
  uint32_t cycle_count;
} sorted;
static sorted result;

static const tp_allocator *default_allocator(void) {
  static tp_allocator allocator;
  allocator = tp__allocator_of(NULL);
  return &allocator;
}

static void sort(const tp__sort_node *nodes, uint32_t count, const tp__sort_edge *edges, uint32_t edge_count) {
  memset(&result, 0xEE, sizeof result);
  result.cycle_count = 0;
  result.status =
      tp__sort(default_allocator(), nodes, count, edges, edge_count, result.order, result.cycle, &result.cycle_count);
}

static void assert_numbers(const uint32_t *numbers, const char *expected) {
  char text[256] = "";
  size_t used = 0;
  uint32_t count = 1;
  for (const char *c = expected; *c; c++) count += *c == ' ';
  for (uint32_t i = 0; i < count; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", i ? " " : "", numbers[i]);
  assert_string_equal(text, expected);
}

TEST(nothing_is_sorted_to_nothing) {
  sort(NULL, 0, NULL, 0);
  assert_int_equal(result.status, TP_OK);
}

TEST(lower_priority_runs_earlier) {
  const tp__sort_node nodes[] = {{5, "a", 0}, {-5, "b", 0}, {0, "c", 0}, {INT32_MIN, "d", 0}, {INT32_MAX, "e", 0}};
  sort(nodes, 5, NULL, 0);
  assert_int_equal(result.status, TP_OK);
  assert_numbers(result.order, "3 1 2 0 4");
}

TEST(equal_priorities_are_ordered_by_id_bytewise) {
  /* "a" < "a.b" < "ab" < "é", as bytes: 61, 61 2E 62, 61 62, C3 A9 */
  const tp__sort_node nodes[] = {{0, "\xC3\xA9", 1}, {0, "ab", 2}, {0, "a", 3}, {0, "a.b", 4}, {0, "B", 5}};
  sort(nodes, 5, NULL, 0);
  assert_int_equal(result.status, TP_OK);
  assert_numbers(result.order, "4 2 3 1 0");
}

static int compare_ids(const void *a, const void *b) {
  return strcmp((*(const tp__sort_node *const *)a)->tie_id, (*(const tp__sort_node *const *)b)->tie_id);
}

/* Ids have letters from the ends of the range, after beginnings that some or all share, so that ids end early, differ
 * late, and have sign bits. */
TEST(however_much_ids_share_they_are_ordered_bytewise) {
  enum { IDS = 300 };
  static char ids[IDS][40];
  static tp__sort_node nodes[IDS];
  const tp__sort_node *expected[IDS];
  uint64_t seed = 1;
  for (int shared = 0; shared <= 12; shared += 4) {
    for (uint32_t i = 0; i < IDS; i++) {
      static const char letters[] = {1, 'a', 'b', '\x7F', '\x80', '\xFF'};
      int size = snprintf(ids[i], sizeof ids[i], "%.*s", shared, "common parts");
      for (seed += i; seed % 7 && size < 32; size++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i][size] = letters[(seed >> 33) % sizeof letters];
      }
      ids[i][size] = '\0';
      nodes[i] = (tp__sort_node){0, ids[i], 0};
      expected[i] = &nodes[i];
    }
    qsort(expected, IDS, sizeof *expected, compare_ids);
    sort(nodes, IDS, NULL, 0);
    assert_int_equal(result.status, TP_OK);
    for (uint32_t i = 0; i < IDS; i++) assert_string_equal(ids[result.order[i]], expected[i]->tie_id);
  }
}

TEST(without_ids_the_number_decides) {
  const tp__sort_node nodes[] = {{0, NULL, 30}, {0, NULL, 10}, {0, NULL, 20}, {-1, NULL, 99}};
  sort(nodes, 4, NULL, 0);
  assert_int_equal(result.status, TP_OK);
  assert_numbers(result.order, "3 1 2 0");
}

TEST(an_edge_outweighs_priority) {
  const tp__sort_node nodes[] = {{100, "late", 0}, {0, "early", 0}, {50, "middle", 0}};
  const tp__sort_edge edges[] = {{0, 1}};
  sort(nodes, 3, edges, 1);
  assert_int_equal(result.status, TP_OK);
  assert_numbers(result.order, "2 0 1");
}

TEST(a_repeated_edge_is_one_edge) {
  const tp__sort_node nodes[] = {{0, "a", 0}, {0, "b", 0}};
  const tp__sort_edge edges[] = {{1, 0}, {1, 0}, {1, 0}};
  sort(nodes, 2, edges, 3);
  assert_int_equal(result.status, TP_OK);
  assert_numbers(result.order, "1 0");
}

TEST(a_diamond_is_ordered_by_ties_among_the_ready) {
  const tp__sort_node nodes[] = {{0, "d", 0}, {0, "c", 0}, {0, "b", 0}, {0, "a", 0}};
  const tp__sort_edge edges[] = {{3, 1}, {3, 2}, {1, 0}, {2, 0}};
  sort(nodes, 4, edges, 4);
  assert_int_equal(result.status, TP_OK);
  assert_numbers(result.order, "3 2 1 0");
}

TEST(a_self_edge_is_a_cycle_of_one) {
  const tp__sort_node nodes[] = {{0, "a", 0}, {0, "b", 0}};
  const tp__sort_edge edges[] = {{1, 1}};
  sort(nodes, 2, edges, 1);
  assert_int_equal(result.status, TP_ERR_CYCLE);
  assert_int_equal(result.cycle_count, 2);
  assert_numbers(result.cycle, "1 1");
}

TEST(a_cycle_is_given_along_its_edges_from_its_first_member) {
  const tp__sort_node nodes[] = {{0, "c", 0}, {0, "a", 0}, {0, "b", 0}};
  const tp__sort_edge edges[] = {{0, 1}, {1, 2}, {2, 0}}; /* c -> a -> b -> c */
  sort(nodes, 3, edges, 3);
  assert_int_equal(result.status, TP_ERR_CYCLE);
  assert_int_equal(result.cycle_count, 4);
  assert_numbers(result.cycle, "1 2 0 1");
}

TEST(nodes_behind_a_cycle_are_not_part_of_it) {
  /* a depends on the cycle y -> z -> y, and is first in order, so the search begins at it. */
  const tp__sort_node nodes[] = {{0, "a", 0}, {0, "z", 0}, {0, "y", 0}, {0, "b", 0}};
  const tp__sort_edge edges[] = {{1, 2}, {2, 1}, {1, 3}, {3, 0}};
  sort(nodes, 4, edges, 4);
  assert_int_equal(result.status, TP_ERR_CYCLE);
  assert_int_equal(result.cycle_count, 3);
  assert_numbers(result.cycle, "2 1 2");
}

TEST(a_ring_of_thousands_is_given_whole) {
  static tp__sort_node nodes[NODES_MAX];
  static tp__sort_edge edges[NODES_MAX];
  for (uint32_t i = 0; i < NODES_MAX; i++) {
    nodes[i] = (tp__sort_node){.tie_number = i};
    edges[i] = (tp__sort_edge){i, (i + 1) % NODES_MAX};
  }
  sort(nodes, NODES_MAX, edges, NODES_MAX);
  assert_int_equal(result.status, TP_ERR_CYCLE);
  assert_int_equal(result.cycle_count, NODES_MAX + 1);
  for (uint32_t i = 0; i < NODES_MAX; i++) assert_int_equal(result.cycle[i], i);
  assert_int_equal(result.cycle[NODES_MAX], 0);
}

TEST(wholly_equal_nodes_keep_the_order_of_their_indexes) {
  const tp__sort_node nodes[] = {{0, "x", 0}, {0, "x", 0}, {0, "x", 0}};
  sort(nodes, 3, NULL, 0);
  assert_int_equal(result.status, TP_OK);
  assert_numbers(result.order, "0 1 2");
}

TEST(refused_memory_is_an_error_and_leaves_nothing) {
  counter count = {.refuse_at = 1};
  const tp_allocator allocator = {.alloc = counted_alloc, .release = counted_release, .ctx = &count};
  const tp__sort_node nodes[] = {{0, "a", 0}};
  uint32_t order[1], cycle[2], cycle_count;
  assert_int_equal(tp__sort(&allocator, nodes, 1, NULL, 0, order, cycle, &cycle_count), TP_ERR_NO_MEMORY);
  assert_int_equal(count.blocks, 0);
}
