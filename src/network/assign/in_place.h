// Concats and Splits that copy nothing: what is made lies where the whole has it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "network/assign/assignment.h"

namespace convoy::network {

class InPlace {
 public:
  // Those that can be in place with these formats (by node), all at once: each part is one piece of the whole that
  // begins at a whole cache line, made by a node of the graph, no output of it, and in one place only. What several
  // Concats read is made in the last one's output, and the others' outputs are pieces of it. What a Split reads is made
  // where such a Concat has all of its parts, else in memory of its own.
  InPlace(const Graph& graph, const std::vector<NodeFormats>& formats);
  // Of those that the assignment has in place.
  InPlace(const Graph& graph, const Assignment& assignment);

  bool has(std::size_t node) const { return in_place_[node]; }

  // Where a value lies in the whole of the last such Concat or the first such Split, directly or by others; of that
  // whole, in itself. Null: it lies in none.
  struct View {
    Format format;        // in which the value lies there
    int whole;            // a value
    std::int64_t offset;  // bytes
    friend bool operator==(const View&, const View&) = default;
  };
  const View* view(int value) const {
    const auto found = views_.find(value);
    return found == views_.end() ? nullptr : &found->second;
  }

 private:
  InPlace(const Graph& graph, const std::vector<NodeFormats>& formats, const std::vector<bool>& wanted);
  bool place(int whole, const std::vector<int>& parts, const std::vector<std::int64_t>& offsets, const View& home);

  std::vector<bool> in_place_;
  std::map<int, View> views_;
};

// Has all Concats and Splits copy nothing that can.
void put_in_place(const Graph& graph, Assignment& assignment);

}  // namespace convoy::network
