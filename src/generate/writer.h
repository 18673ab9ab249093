// A kernel's text, piece by piece, of a computation, its positions in memory's order and its schedule.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "generate/kernel.h"
#include "generate/schedule.h"
#include "generate/text.h"

namespace convoy::generate {

class Writer {
 public:
  // All of them outlive it.
  Writer(const Computation& computation, const Lowered& space, const Schedule& schedule, std::string name)
      : computation_(computation),
        space_(space),
        schedule_(schedule),
        name_(std::move(name)),
        kept_(static_cast<int>(space.kept.size())) {}

  Kernel write();

 private:
  int load_count() const { return static_cast<int>(space_.loads.size()); }
  bool in_vectors(int dim) const { return schedule_.vector > 1 && dim == schedule_.vector_dim; }
  bool vectors_kept() const { return schedule_.vector > 1 && !schedule_.along_folded; }

  // A load's values along the vector's dim: all of them where it, or one that stands in for it, depends on that.
  int width(int load) const {
    for (int i = load; i >= 0; i = computation_.loads[static_cast<std::size_t>(i)].otherwise) {
      if (schedule_.vector > 1 && space_.loads[static_cast<std::size_t>(i)].depends_on(schedule_.vector_dim)) {
        return schedule_.vector;
      }
    }
    return 1;
  }
  bool load_reads_folded(int load) const {
    for (int i = load; i >= 0; i = computation_.loads[static_cast<std::size_t>(i)].otherwise) {
      if (reads_folded(space_, space_.loads[static_cast<std::size_t>(i)])) return true;
    }
    return false;
  }
  bool value_is_folded(int value) const { return value < load_count() && load_reads_folded(value); }

  void head();
  // v<load>[width] = the load's elements.
  void load(int index, const std::string& indent);
  std::string load_into(const std::string& to, int index, int count, const std::string& indent) const;
  // Of a vector's element k: a load's value or a fold's.
  std::function<std::string(int)> value_at() const;
  void store(std::size_t index, const std::string& indent);
  // Loads that `bodies` need and that aren't there yet, of those that do or don't read folded positions.
  // What a load's place is computed of stands before it.
  std::vector<int> needed(const std::vector<const Body*>& bodies, bool folded, std::set<int> done = {}) const;
  void add_needed(const Body& body, bool folded, std::set<int>& done, std::vector<int>& found) const;
  PlaceText place(const Access& access) const;
  // What a store's value is made of, and its place.
  std::vector<const Body*> bodies_of(std::size_t store) const;
  void map();
  // A block moves a tile of the first load through shared memory, so that both sides are touched in runs.
  void transpose();
  // A block has a tile of the product, a thread some of its rows and columns, and both sides come by shared memory.
  void product();
  // Positions of the dims that no tile has, counted by `rest`.
  void outer_positions(int one, int other);
  void rows();
  // Loads that several loops over folded positions need are there once, in kept<load>[turn].
  void keep();
  void turns();
  void loop(const std::vector<const Body*>& bodies);
  // s<index>[..] = the fold; one value, or a vector's of kept positions.
  void fold(std::size_t index);
  void stores();
  // Results that are stored for each folded position.
  std::vector<const Body*> results_of_each() const;
  bool joins_in_a_warp() const { return schedule_.along_folded && schedule_.rows <= 32; }

  const Computation& computation_;
  const Lowered& space_;
  const Schedule& schedule_;
  std::string name_, text_;
  int kept_;
  std::vector<Body> starts_, joins_, folded_, results_, coordinates_;
  std::map<std::size_t, Body> then_;
  std::set<int> kept_loads_;
  Kernel kernel_;
};

}  // namespace convoy::generate
