// Refusals for people: engines that give the same reason share a line.
#pragma once

#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy::report {

class Refusals {
 public:
  void add(const std::string& engine, const Refusal& refusal);
  bool empty() const { return groups_.empty(); }

  // In the order in which the reasons came first.
  struct Group {
    std::vector<std::string> engines;
    Refusal refusal;
    std::string names() const;  // "cpu.gemm", "onednn.jit_avx2, onednn.jit_sse41, ... (20)"
  };
  const std::vector<Group>& groups() const { return groups_; }

 private:
  std::vector<Group> groups_;
};

}  // namespace convoy::report
