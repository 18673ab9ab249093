// What is learnt from a program's calls of cuDNN. Each function is told of a call that cuDNN has answered (or, where it
// says so, is about to). None of them throws, prints or changes what the program gets.
#pragma once

#include <cudnn.h>

#include <cstdint>

namespace convoy::interposer {

// Whether anybody wants to know: CONVOY_RECORD or CONVOY_CHOICES is set, and the program's cuDNN is of the major
// version that is understood here. Decided once, at the first call.
bool observing();

void created(cudnnBackendDescriptor_t raw, cudnnBackendDescriptorType_t type);
void set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         std::int64_t count, const void* values);
void finalized(cudnnBackendDescriptor_t raw, cudnnStatus_t status);
// cudnnBackendGetAttribute of a heuristic's results into `configurations`: asks cuDNN, in an order that offers what is
// known to be fast first (choices.h). The caller gets every configuration that cuDNN would have given it.
cudnnStatus_t offer(cudnnBackendDescriptor_t heuristic, std::int64_t requested, std::int64_t* count,
                    cudnnBackendDescriptor_t* configurations);
void executed(cudnnBackendDescriptor_t plan);
void destroying(cudnnBackendDescriptor_t raw);  // before cuDNN does

}  // namespace convoy::interposer
