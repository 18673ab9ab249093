// Engines that need no GPU and compute nothing: what stands in for plans in tests of `convoy exec`. The value of the
// candidate's knob says how it behaves.
#include <cudnn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "interposer/engines/library.h"

namespace {

using convoy::interposer::EngineArguments;
using convoy::interposer::EngineLibrary;

struct Plan {
  char name[64];
  int tile;
};

const void* prepare(const char* problem, const char* candidate, int target_sms, char* error, std::size_t size) {
  const char* value = std::strchr(candidate, '=');
  const int tile = value == nullptr ? 0 : std::atoi(value + 1);
  const char* math = std::strstr(problem, ":math=");
  std::printf("prepares %s for %d SMs%s\n", candidate, target_sms, math == nullptr ? "" : math);
  // By the names that the interposer stands in front of, as cuDNN's own libraries may: nobody is to see it.
  cudnnBackendDescriptor_t operation = nullptr, graph = nullptr;
  cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, &operation);
  cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph);
  cudnnBackendSetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
  cudnnBackendFinalize(operation);
  cudnnBackendFinalize(graph);
  cudnnBackendDestroyDescriptor(graph);
  cudnnBackendDestroyDescriptor(operation);
  if (tile == 2) {
    std::snprintf(error, size, "no such tile");
    return nullptr;
  }
  Plan* plan = new Plan{{}, tile};
  std::snprintf(plan->name, sizeof plan->name, "%s", candidate);
  return plan;
}
const char* notes(const void* plan) {
  return static_cast<const Plan*>(plan)->tile == 3 ? "RUNTIME_COMPILATION NONDETERMINISTIC " : "RUNTIME_COMPILATION ";
}
std::size_t workspace_bytes(const void*) { return 640; }
bool execute(const void* plan, const EngineArguments* given, char* error, std::size_t size) {
  const Plan& ran = *static_cast<const Plan*>(plan);
  if (ran.tile == 4) {
    std::snprintf(error, size, "the launch failed");
    std::printf("failed %s\n", ran.name);
    return false;
  }
  static const bool quiet = std::getenv("SCRIPTED_CUDNN_QUIET") != nullptr;
  if (quiet) return true;
  const auto letter = [](const void* pointer) { return static_cast<char>(reinterpret_cast<std::size_t>(pointer)); };
  std::printf("ran %s x=%c w=%c out=%c workspace=%c of %zu stream=%c%s\n", ran.name, letter(given->x), letter(given->w),
              letter(given->out), letter(given->workspace), given->workspace_bytes, letter(given->stream),
              given->y != nullptr || given->bias != nullptr || given->z != nullptr ? " and more" : "");
  return true;
}

}  // namespace

extern "C" const EngineLibrary* convoy_engine_library() {
  static const EngineLibrary library{prepare, notes, workspace_bytes, execute};
  return &library;
}
