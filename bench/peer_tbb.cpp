/* SPDX-License-Identifier: Apache-2.0
 *
 * oneTBB in two forms. As a task group: counters of our own over a flat graph, a task goes on with the first node that
 * it made ready and spawns the others. As a flow graph: the library's own nodes and edges, lightweight ones where the
 * work is not worth a thread. Everything runs inside an arena, so that the caller is one of its workers. */
#include <tbb/blocked_range.h>
#include <tbb/flow_graph.h>
#include <tbb/parallel_for.h>
#include <tbb/spin_mutex.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/version.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "bench/duty.h"
#include "bench/peer.h"

namespace {

const uint32_t none = UINT32_MAX;

const char *version() { return TBB_runtime_version(); }

void call(const bench_job &job) { job.run(job.ctx); }

/* Times something inside the arena. */
template <typename Body>
int64_t timed(tbb::task_arena &arena, uint32_t times, const Body &body) {
  int64_t duration_ns = 0;
  arena.execute([&] {
    int64_t began = bench_now_ns();
    for (uint32_t i = 0; i < times; i++) body();
    duration_ns = bench_now_ns() - began;
  });
  return duration_ns;
}

/* A contestant that owns a T. */
template <typename T>
void contest(const char *name, const char *form, T *ctx, bench_contestant *ret) {
  *ret = bench_contestant();
  ret->name = name;
  ret->form = form;
  ret->run = [](void *self, uint32_t times) { return static_cast<T *>(self)->run(times); };
  ret->close = [](void *self) { delete static_cast<T *>(self); };
  ret->ctx = ctx;
  ret->threads = true;
}

/* ---- task group ---- */

struct flat_phase {
  bench_flat flat;
  explicit flat_phase(const bench_graph &graph) { bench_flat_init(&flat, &graph); }
  ~flat_phase() { bench_flat_fini(&flat); }
  flat_phase(const flat_phase &) = delete;
};
using flat_phases = std::vector<std::unique_ptr<flat_phase>>;

flat_phases phases_of(const bench_workload *workload) {
  flat_phases phases;
  for (uint32_t p = 0; p < workload->phase_count; p++)
    phases.push_back(std::make_unique<flat_phase>(workload->graphs[p]));
  return phases;
}

using counters = std::vector<std::atomic<uint16_t>>;

void reset(counters &left, const bench_flat &flat) {
  for (uint32_t n = 0; n < flat.node_count; n++) left[n].store(flat.indegree[n], std::memory_order_relaxed);
}

/* Runs a node and what becomes ready by it. @return true when it ran the last node of a graph that has one. */
template <typename Spawn>
bool run_from(const bench_flat &flat, counters &left, const bench_job &job, uint32_t node, const Spawn &spawn) {
  for (;;) {
    uint32_t next = none;
    call(job);
    for (uint32_t e = flat.first_edge[node]; e < flat.first_edge[node + 1]; e++) {
      uint32_t to = flat.edges[e];
      if (left[to].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      if (next == none) next = to;
      else spawn(to);
    }
    if (next == none) return node + 1 == flat.node_count;
    node = next;
  }
}

struct group_graph {
  tbb::task_arena arena;
  tbb::task_group group;
  flat_phases phases;
  std::vector<counters> left;
  bench_job job;

  group_graph(const bench_workload *workload, bench_job its_job)
      : arena(static_cast<int>(bench_processors())), phases(phases_of(workload)), job(its_job) {
    for (auto &phase : phases) left.emplace_back(phase->flat.node_count);
  }

  void run_node(size_t p, uint32_t node) {
    run_from(phases[p]->flat, left[p], job, node, [this, p](uint32_t to) { spawn(p, to); });
  }
  void spawn(size_t p, uint32_t node) {
    group.run([this, p, node] { run_node(p, node); });
  }

  int64_t run(uint32_t times) {
    return timed(arena, times, [this] {
      for (size_t p = 0; p < phases.size(); p++) {
        const bench_flat &flat = phases[p]->flat;
        if (flat.root_count == 0) continue;
        reset(left[p], flat);
        for (uint32_t r = 1; r < flat.root_count; r++) spawn(p, flat.roots[r]);
        run_node(p, flat.roots[0]);
        group.wait();
      }
    });
  }
};

struct group_turns {
  struct turn {
    size_t phase = 0;
    counters left;
    explicit turn(uint32_t nodes) : left(nodes) {}
  };
  tbb::task_arena arena;
  tbb::task_group group;
  flat_phases phases;
  std::vector<std::unique_ptr<turn>> turns;
  bench_job job;

  group_turns(const bench_workload *workload, bench_job its_job, uint32_t count)
      : arena(static_cast<int>(bench_processors())), phases(phases_of(workload)), job(its_job) {
    for (uint32_t i = 0; i < count; i++) turns.push_back(std::make_unique<turn>(phases[0]->flat.node_count));
  }

  /* The thread that ran the last node of a phase goes on with the next phase. */
  void run_node(turn *t, uint32_t node) {
    while (run_from(phases[t->phase]->flat, t->left, job, node, [this, t](uint32_t to) { spawn(t, to); })) {
      if (++t->phase == phases.size()) return;
      reset(t->left, phases[t->phase]->flat);
      node = 0;
    }
  }
  void spawn(turn *t, uint32_t node) {
    group.run([this, t, node] { run_node(t, node); });
  }

  int64_t run(uint32_t times) {
    return timed(arena, times, [this] {
      for (auto &t : turns) {
        t->phase = 0;
        reset(t->left, phases[0]->flat);
        spawn(t.get(), 0);
      }
      group.wait();
    });
  }
};

struct loop_calls {
  struct result {
    uint64_t ended, rest[3];
  };
  tbb::task_arena arena;
  std::vector<result> results;
  bench_job job;

  explicit loop_calls(uint32_t count)
      : arena(static_cast<int>(bench_processors())), results(count), job(bench_nothing) {}
  int64_t run(uint32_t times) {
    return timed(arena, times, [this] {
      tbb::parallel_for(size_t(0), results.size(), [this](size_t i) {
        call(job);
        results[i] = result();
      });
    });
  }
};

struct duty_calls {
  using lock = std::lock_guard<tbb::spin_mutex>;
  tbb::task_arena arena;
  tbb::spin_mutex events;
  uint32_t count;
  bench_duty *duty;

  explicit duty_calls(uint32_t its_count)
      : arena(static_cast<int>(bench_processors())), count(its_count), duty(bench_duty_new(its_count)) {}
  ~duty_calls() { bench_duty_free(duty); }
  duty_calls(const duty_calls &) = delete;

  void run_call(uint32_t n) {
    {
      lock held(events);
      bench_duty_begin(duty, n);
    }
    bench_duty_run(duty, n);
    lock held(events);
    bench_duty_end(duty, n);
  }
  int64_t run(uint32_t times) {
    return timed(arena, times, [this] {
      bench_duty_start(duty);
      tbb::parallel_for(uint32_t(0), count, [this](uint32_t n) { run_call(n); });
      bench_duty_finish(duty);
    });
  }
};

void group_graph_new(const bench_workload *workload, bench_job job, bool, bench_contestant *ret) {
  contest("oneTBB task group", "goes on inline, spawns the rest", new group_graph(workload, job), ret);
}
void group_turns_new(const bench_workload *workload, bench_job job, uint32_t turns, bench_contestant *ret) {
  contest("oneTBB task group", "a task a turn, spawns the other branch", new group_turns(workload, job, turns), ret);
}
void loop_calls_new(uint32_t calls, bool equal_duty, bench_contestant *ret) {
  if (equal_duty) contest("oneTBB parallel_for", nullptr, new duty_calls(calls), ret);
  else contest("oneTBB parallel_for", "results in their places, no events", new loop_calls(calls), ret);
}

/* ---- flow graph ---- */

struct flow_phase {
  using body = tbb::flow::continue_msg;
  using node = tbb::flow::graph_node;
  std::vector<std::unique_ptr<tbb::flow::continue_node<body, tbb::flow::lightweight>>> light;
  std::vector<std::unique_ptr<tbb::flow::continue_node<body>>> queued;
  std::vector<uint32_t> roots;

  template <typename Nodes, typename Make>
  void link(const bench_graph &graph, Nodes &nodes, const Make &make) {
    std::vector<bool> entered(graph.node_count);
    for (uint32_t n = 0; n < graph.node_count; n++) nodes.push_back(make());
    for (uint32_t e = 0; e < graph.edge_count; e++) {
      tbb::flow::make_edge(*nodes[graph.from[e]], *nodes[graph.to[e]]);
      entered[graph.to[e]] = true;
    }
    for (uint32_t n = 0; n < graph.node_count; n++)
      if (!entered[n]) roots.push_back(n);
  }

  flow_phase(tbb::flow::graph &all, const bench_graph &graph, const bench_job &job, bool heavy) {
    auto work = [job](const body &) { call(job); };
    if (heavy) link(graph, queued, [&] { return std::make_unique<tbb::flow::continue_node<body>>(all, work); });
    else
      link(graph, light, [&] {
        return std::make_unique<tbb::flow::continue_node<body, tbb::flow::lightweight>>(
            all, [job](const body &) noexcept { call(job); });
      });
  }

  void start() {
    for (uint32_t n : roots) {
      if (light.empty()) queued[n]->try_put(body());
      else light[n]->try_put(body());
    }
  }
};

struct flow_graph {
  tbb::task_arena arena;
  std::unique_ptr<tbb::flow::graph> graph;
  std::vector<std::unique_ptr<flow_phase>> phases;

  flow_graph(const bench_workload *workload, bench_job job, bool heavy) : arena(static_cast<int>(bench_processors())) {
    arena.execute([&] { /* a graph runs in the arena that it was made in */
                        graph = std::make_unique<tbb::flow::graph>();
                        for (uint32_t p = 0; p < workload->phase_count; p++)
                          phases.push_back(std::make_unique<flow_phase>(*graph, workload->graphs[p], job, heavy));
    });
  }
  int64_t run(uint32_t times) {
    return timed(arena, times, [this] {
      for (auto &phase : phases) {
        phase->start();
        graph->wait_for_all();
      }
    });
  }
};

struct flow_turns {
  tbb::task_arena arena;
  std::unique_ptr<tbb::flow::graph> graph;
  std::vector<std::unique_ptr<flow_phase>> turns;

  /* The phases of a turn are one chain of diamonds: the last node of one leads to the first of the next. */
  static bench_graph joined(const bench_workload *workload) {
    bench_graph all = {};
    for (uint32_t p = 0; p < workload->phase_count; p++) all.edge_count += workload->graphs[p].edge_count + 1;
    all.from = static_cast<uint32_t *>(bench_alloc(all.edge_count, sizeof(uint32_t)));
    all.to = static_cast<uint32_t *>(bench_alloc(all.edge_count, sizeof(uint32_t)));
    all.edge_count = 0;
    for (uint32_t p = 0; p < workload->phase_count; p++) {
      const bench_graph &one = workload->graphs[p];
      for (uint32_t e = 0; e < one.edge_count; e++, all.edge_count++) {
        all.from[all.edge_count] = all.node_count + one.from[e];
        all.to[all.edge_count] = all.node_count + one.to[e];
      }
      all.node_count += one.node_count;
      if (p + 1 == workload->phase_count) break;
      all.from[all.edge_count] = all.node_count - 1;
      all.to[all.edge_count++] = all.node_count;
    }
    return all;
  }

  flow_turns(const bench_workload *workload, bench_job job, uint32_t count)
      : arena(static_cast<int>(bench_processors())) {
    bench_graph one = joined(workload);
    arena.execute([&] {
      graph = std::make_unique<tbb::flow::graph>();
      for (uint32_t i = 0; i < count; i++) turns.push_back(std::make_unique<flow_phase>(*graph, one, job, true));
    });
    free(one.from);
    free(one.to);
  }
  int64_t run(uint32_t times) {
    return timed(arena, times, [this] {
      for (auto &turn : turns) turn->start();
      graph->wait_for_all();
    });
  }
};

void flow_graph_new(const bench_workload *workload, bench_job job, bool heavy, bench_contestant *ret) {
  contest("oneTBB flow graph", heavy ? "queueing nodes" : "lightweight nodes", new flow_graph(workload, job, heavy),
          ret);
}
void flow_turns_new(const bench_workload *workload, bench_job job, uint32_t turns, bench_contestant *ret) {
  contest("oneTBB flow graph", "one graph, a chain of diamonds a turn", new flow_turns(workload, job, turns), ret);
}

} // namespace

extern "C" {
const bench_peer bench_peer_tbb_group = {"oneTBB task group", version, group_graph_new,
                                         group_turns_new,     nullptr, loop_calls_new};
const bench_peer bench_peer_tbb_flow = {"oneTBB flow graph", version, flow_graph_new, flow_turns_new, nullptr, nullptr};
}
