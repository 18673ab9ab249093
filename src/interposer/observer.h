// What is learnt from a program's calls of cuDNN. Each function is told of a call that cuDNN has answered (or, where it
// says so, is about to, or is asked by it). None of them throws.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>

#include "interposer/fast_path.h"
#include "interposer/legacy.h"

namespace convoy::interposer {

// Whether anybody wants to know: CONVOY_RECORD, CONVOY_CHOICES or CONVOY_TUNER is set, CONVOY_EXEC isn't off, and the
// program's cuDNN is of the major version that is understood here. Decided once, at the first call.
bool observing();

// From now on executions go by what lies together (fast_path.h), where the program's cuDNN has all of it.
void begin_fast_path();

void created(cudnnBackendDescriptor_t raw, cudnnBackendDescriptorType_t type);
void set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         std::int64_t count, const void* values);
// cudnnBackendFinalize: asks cuDNN.
cudnnStatus_t finalize(cudnnBackendDescriptor_t raw);
// cudnnBackendGetAttribute of a heuristic's results, or of how many there are: asks cuDNN, and gives the program its
// configurations in the order that rules, filters and known times say (decision.h).
cudnnStatus_t offer(cudnnBackendDescriptor_t heuristic, std::int64_t requested, std::int64_t* count,
                    cudnnBackendDescriptor_t* configurations);
// cudnnBackendGetAttribute of a plan's workspace, which is that of what stands in for it, too.
void workspace(cudnnBackendDescriptor_t plan, std::int64_t* bytes);
// cudnnBackendExecute: asks cuDNN, unless another engine stands in for the plan.
cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variant_pack);
// Runs what stands in for a plan. False: it can't, the plan has to.
bool stands_in(const StandIn& stand_in, cudnnHandle_t handle, cudnnBackendDescriptor_t variant_pack);
void called(const LegacyCall& call);
// Before cuDNN destroys it. What is returned is to be freed after that.
std::shared_ptr<void> destroying(cudnnBackendDescriptor_t raw);

}  // namespace convoy::interposer
