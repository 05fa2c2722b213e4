/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peer.h"

#include <unistd.h>

const bench_peer *const bench_peers[] = {
#ifdef BENCH_WITH_TBB
    &bench_peer_tbb_group,
    &bench_peer_tbb_flow,
#endif
#ifdef BENCH_WITH_OPENMP
    &bench_peer_openmp,
#endif
#ifdef BENCH_WITH_GLIB
    &bench_peer_glib,
#endif
#ifdef BENCH_WITH_UV
    &bench_peer_uv,
#endif
    NULL};
const size_t bench_peer_count = sizeof bench_peers / sizeof *bench_peers - 1;

uint32_t bench_processors(void) {
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : (uint32_t)count;
}
