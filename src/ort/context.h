// Models that were compiled before: ONNX Runtime's nodes "EPContext", which have in them, or in a file beside the
// model, Convoy's model of the nodes that they stand for, its weights, and what was decided for it.
#pragma once

#include <string>
#include <vector>

#include "ort/model.h"
#include "ort/options.h"

namespace convoy::ort {

// Whether the node is one of Convoy's.
Result<bool> is_context(const Api& api, const OrtNode* node);

// Its model, whose weights are in memory of their own, or mapped. `model_path`: of the model that the node is in, "" of
// one from memory. Error: invalid_argument says what is wrong with it.
Result<GraphModel> read_context(const Api& api, const OrtNode* node, const std::string& model_path);

// What such a node has in "ep_cache_context": the content, or the name of a file that is written now, the `index`-th of
// the model at `model_path`. Error: invalid_argument where there is no path for it.
Result<std::string> write_context(const GraphModel& model, const std::string& plan,
                                  const ProviderOptions::Context& options, const std::string& model_path, int index);

// The node for it, which ONNX Runtime takes.
Result<OrtNode*> context_node(const Api& api, const std::string& name, const std::vector<std::string>& inputs,
                              const std::vector<std::string>& outputs, const std::string& context, bool embedded);

}  // namespace convoy::ort
