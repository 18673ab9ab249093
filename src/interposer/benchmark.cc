#include "interposer/benchmark.h"

namespace convoy::interposer {
namespace {

// The graph that a thread is busy with, from its query to its first execution.
struct Course {
  const GraphRecord* row = nullptr;
  int tried = 0, made = 0, permitted = 0;
  bool fallback = false;  // asked for before a plan was tried
};
thread_local Course course;

}  // namespace

void Benchmark::asked(const GraphRecord& row, bool fallback) {
  if (course.row != &row || (!fallback && course.tried > 0)) course = {.row = &row};
  if (fallback && course.tried == 0) course.fallback = true;
}

bool Benchmark::planned(const GraphRecord& row, bool made, bool permitted) {
  if (course.row != &row) return false;
  ++course.tried;
  course.made += made;
  course.permitted += made && permitted;
  if (!course.fallback || course.made != 2 || !made) return false;
  on_ = ever_ = true;
  return true;
}

void Benchmark::ran(const GraphRecord& row) {
  if (course.row != &row) return;
  if (course.made == 1 && !course.fallback) on_.store(false, std::memory_order_relaxed);
  course.row = nullptr;
}

bool Benchmark::times(const GraphRecord& row) const {
  return course.row == &row && course.fallback && course.permitted > 0;
}

}  // namespace convoy::interposer
