// Layout conversion of activations: nchw <-> nhwc, any element size, in parallel. A conversion is a transposition of
// each sample's C x S matrix (S = product of the spatial dims).
#pragma once

#include "convoy/tensor.h"
#include "convoy/thread_team.h"

namespace convoy::network {

// Same dims and type, packed nchw or nhwc; other pairs go through copy_tensor. src and dst must not overlap.
void convert_layout(const TensorDesc& src, const void* src_data, const TensorDesc& dst, void* dst_data,
                    ThreadTeam& team);

// Whether two descriptions of one tensor say the same of its bytes (nchw and nhwc do where C = 1, or without spatial
// extent). Same dims.
bool same_bytes(const TensorDesc& a, const TensorDesc& b);

}  // namespace convoy::network
