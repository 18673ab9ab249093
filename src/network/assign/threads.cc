#include "network/assign/threads.h"

#include <algorithm>
#include <optional>

#include "network/graph/infer.h"

namespace convoy::network {
namespace {

// Seconds. All threads cost a step their parallel region, and what each of them reads of its input from another's
// cache; going over to one thread costs what it reads so, once. Measured with two threads of an Intel Xeon: with 2 us,
// half of mnist stays on both; with 5, ppocr goes over with 74 of 77 steps and takes 1.1 times as long.
constexpr double kGoingOver = 6e-6;

// What a node's step takes on one thread; nothing where it has to run on all, or elsewhere.
std::optional<double> alone(const Graph& graph, const Node& node, const NodeAssignment& assigned, Chooser& chooser) {
  if (assigned.place != 0) return std::nullopt;
  if (!node.conv) {
    const auto problem = step_problem(graph, node, assigned.formats);
    return problem ? chooser.costs().of(*problem, Threads::one, 0).seconds : 0;
  }
  if (assigned.switchable >= 0) return std::nullopt;
  const NodeFormats alone{assigned.formats.reads, assigned.formats.writes, Threads::one};
  const auto cost = chooser.costs().of(conv_query(graph, node, alone, chooser, 0), assigned.selection.candidate);
  return cost ? std::optional(cost->seconds) : std::nullopt;
}

// Seconds, and seconds a byte of what another thread has written, so far as that is in its cache only. An Intel Xeon
// (Emerald Rapids) takes 0.11 ns a byte of up to 128 KB and 0.06 of 512, AMD's Zen 3 0.04 to 0.07, both with two
// threads and the first with 16 (bench/cache_transfer.cc).
constexpr double kOfTransfer = 0.2e-6;
constexpr double kOfByte = 0.11e-9;
constexpr double kMostBytes = 256 << 10;

}  // namespace

double cache_transfer_seconds(const TensorDesc& value, int threads) {
  const double elsewhere = 1 - 1.0 / threads;
  return kOfTransfer + kOfByte * elsewhere * std::min(static_cast<double>(value.bytes()), kMostBytes);
}

// Only the last steps: coming back to all threads, which may sleep by then, has to be paid as well, and predictions are
// too coarse for what is left (selfie-segmentation with 35 of 88 steps on one, in the middle: 1.04 to 1.08 times as
// long).
void choose_threads(const Graph& graph, Assignment& assignment, Chooser& chooser) {
  const int threads = chooser.request().threads;
  if (threads == 1) return;
  const double shared = 1 - 1.0 / threads;  // of a step's time, by all threads
  double gained = 0, most = 0;
  std::size_t from = graph.nodes.size(), first = 0;
  while (first < graph.nodes.size() && !is_static(graph, graph.nodes[first])) ++first;
  for (std::size_t n = graph.nodes.size(); n-- > first;) {
    const Node& node = graph.nodes[n];
    if (!is_static(graph, node)) continue;
    const auto seconds = alone(graph, node, assignment.nodes[n], chooser);
    if (!seconds) break;
    if (*seconds > 0) gained += kSecondsOfAllThreads - *seconds * shared;
    const double in_all = gained - (n == first ? 0 : kGoingOver);
    if (in_all <= most) continue;
    most = in_all;
    from = n;
  }
  for (std::size_t n = from; n < graph.nodes.size(); ++n) {
    NodeAssignment& assigned = assignment.nodes[n];
    assigned.formats.threads = Threads::one;
    if (!graph.nodes[n].conv || assigned.selection.by != SelectedBy::heuristic) continue;
    // What is the fastest on all threads may not be so on one.
    if (auto alone = chooser.choose(conv_query(graph, graph.nodes[n], assigned.formats, chooser, 0)); alone.ok()) {
      assigned.selection = *std::move(alone);
    }
  }
}

}  // namespace convoy::network
