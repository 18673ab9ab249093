// A store of measurements in memory, with the contract's rule for replacing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convoy/measurement.h"

namespace convoy::testing_support {

struct MapStore final : MeasurementStore {
  Result<std::vector<Measurement>> find(const MeasurementKey& key) override {
    std::vector<Measurement> found;
    for (const auto& [name, measurement] : rows[key]) found.push_back(measurement);
    return found;
  }
  Result<void> store(const MeasurementKey& key, const Measurement& measurement) override {
    Measurement& row = rows[key].try_emplace(print(measurement.candidate), measurement).first->second;
    if (measurement.state >= row.state) row = measurement;
    ++stores;
    return {};
  }

  std::map<MeasurementKey, std::map<std::string, Measurement>> rows;
  int stores = 0;
};

}  // namespace convoy::testing_support
