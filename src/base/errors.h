// Errors of the usual kinds from their sentence.
#pragma once

#include <string>
#include <utility>

#include "convoy/result.h"

namespace convoy {

inline Error invalid(std::string message) { return {ErrorCode::invalid_argument, std::move(message)}; }
inline Error corrupt(std::string message) { return {ErrorCode::corrupt, std::move(message)}; }
inline Error unsupported(std::string message) { return {ErrorCode::unsupported, std::move(message)}; }

}  // namespace convoy
