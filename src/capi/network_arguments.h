// Networks' handle, and what callers give and ask of networks and sessions alike.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "capi/calls.h"
#include "convoy/host_tensor.h"
#include "convoy/network.h"
#include "convoy/tuning_database.h"

struct convoy_network {
  std::unique_ptr<convoy::Network> network;
  // The names of each value's free sizes, as C has them.
  std::vector<std::vector<const char*>> input_dim_names, output_dim_names;
  std::vector<const char*> metadata_keys, metadata_values;
};

namespace convoy::capi {

// As long as the values live.
std::vector<std::vector<const char*>> dim_names(const std::vector<NetworkValue>& values);
Result<void> describe(const std::vector<NetworkValue>& values, const std::vector<std::vector<const char*>>& dim_names,
                      std::size_t index, const char* what, convoy_value* value);

// What a network is prepared for; null: as it proposes.
Result<std::vector<TensorDesc>> read_shapes(const Network& network, const convoy_shape* shapes, std::size_t count);
// Tensors that borrow the caller's memory.
Result<std::vector<HostTensor>> read_inputs(std::span<const TensorDesc> descs, const void* const* inputs,
                                            std::size_t count);

enum class Use { prepare, tune };
// The database, if there is one, must live as long as the options are used.
Result<NetworkOptions> read_network_options(const convoy_options* options, Use use,
                                            std::unique_ptr<TuningDatabase>& database);

}  // namespace convoy::capi
