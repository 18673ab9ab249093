#include "base/spent.h"

#include <mutex>

#include "base/fork_mutex.h"

namespace convoy {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, SpentSum, std::less<>> sums;
};
Table& table() {
  static Table& kept = *new Table;  // never destroyed: threads may still count while the process ends
  return kept;
}

}  // namespace

std::map<std::string, SpentSum> spent_seconds() {
  const NoFork no_fork;
  const std::lock_guard lock(table().mutex);
  return {table().sums.begin(), table().sums.end()};
}

Spent::~Spent() {
  const double seconds = monotonic_seconds() - start_;
  const NoFork no_fork;
  const std::lock_guard lock(table().mutex);
  const auto found = table().sums.find(name_);
  SpentSum& sum = found != table().sums.end() ? found->second : table().sums[std::string(name_)];
  sum.seconds += seconds;
  ++sum.times;
}

}  // namespace convoy
