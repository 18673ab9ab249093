#include "interposer/words.h"

#include <cstdio>
#include <cstring>

#include "interposer/real.h"

namespace convoy::interposer {
namespace {

thread_local std::string kept;

void keep(char* text, std::size_t size) {
  if (size == 0) return;
  text[0] = '\0';
  if (real().GetLastErrorString != nullptr) real().GetLastErrorString(text, size);
  kept = text;
}

}  // namespace

cudnn::Failure failure_of(cudnnStatus_t status) {
  static const cudnn::Api keeping = [] {
    cudnn::Api api = real();
    api.GetLastErrorString = keep;
    return api;
  }();
  return cudnn::failure_of(keeping, status);
}

std::string all_words() { return kept; }

void give_words(char* text, std::size_t size) {
  if (real().GetLastErrorString == nullptr) return;
  if (text != nullptr && size > 0) text[0] = '\0';
  real().GetLastErrorString(text, size);
  if (text != nullptr && size > 0 && text[0] == '\0') std::snprintf(text, size, "%s", kept.c_str());
  kept.clear();
}

}  // namespace convoy::interposer
