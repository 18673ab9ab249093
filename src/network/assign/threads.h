// How many of the session's threads each step gets: all of them, or the calling one alone.
#pragma once

#include "network/assign/assignment.h"

namespace convoy::network {

// The last steps of a network of tiny ones run on one thread, from where on it takes least by their costs; of a network
// that is tiny throughout, all do. A step that can be switched keeps all threads, since what it takes is stored for
// these, and so does what stands before it.
void choose_threads(const Graph& graph, Assignment& assignment, Selector& selector);

}  // namespace convoy::network
