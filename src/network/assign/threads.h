// How many of the session's threads each step gets: all of them, or the calling one alone. `global` chooses them with
// the layouts (formats.h); the other rules choose layouts first, and threads here.
#pragma once

#include "network/assign/assignment.h"

namespace convoy::network {

// What a step takes longer for being shared by all threads, which begin it and end it together.
inline constexpr double kSecondsOfAllThreads = 3e-6;

// The last steps of a network of tiny ones run on one thread, from where on it takes least by their costs; of a network
// that is tiny throughout, all do. A step that can be switched keeps all threads, since what it takes is stored for
// these, and so does what stands before it.
void choose_threads(const Graph& graph, Assignment& assignment, Chooser& chooser);

// Whether a step may be better on one thread, by the seconds that it takes so and on all: it may be slower alone by
// what its neighbours then save in cache transfers.
constexpr bool may_be_better_on_one(double on_one, double on_all) { return on_one < on_all + 3e-6; }

// What a step takes longer where its input was written by all of `threads` and it runs on one of them, or the other way
// round: it reads what lies in another core's cache.
double cache_transfer_seconds(const TensorDesc& value, int threads);

}  // namespace convoy::network
