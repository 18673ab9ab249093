// Mixing fields into a 64-bit hash; problems as keys.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "convoy/convolution.h"

namespace convoy {

class Hash {
 public:
  std::uint64_t value() const { return state_ ^ (state_ >> 29); }

  // A multiplication and a fold of its halves a word: the mixing step of wyhash (Wang Yi).
  void add_word(std::uint64_t word) {
    const unsigned __int128 product =
        static_cast<unsigned __int128>(state_ ^ word ^ 0xa0761d6478bd642fu) * 0xe7037ed1a0b428dbu;
    state_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  template <class... Values>
  void add(const Values&... values) {
    (add_one(values), ...);
  }

 private:
  void add_one(std::string_view text) {
    add_word(text.size());
    std::uint64_t word = 0;
    for (; text.size() >= sizeof word; text.remove_prefix(sizeof word)) {
      std::memcpy(&word, text.data(), sizeof word);
      add_word(word);
    }
    word = 0;
    std::memcpy(&word, text.data(), text.size());
    add_word(word);
  }
  void add_one(double value) { add_word(std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value)); }  // -0 equals 0
  void add_one(const void* pointer) { add_word(reinterpret_cast<std::uintptr_t>(pointer)); }
  template <class T>
  requires std::integral<T> || std::is_enum_v<T>
  void add_one(T value) { add_word(static_cast<std::uint64_t>(value)); }

  std::uint64_t state_ = 0x8ebc6af09c88c6e3u;
};

// Of every field, with these alignments in place of the tensors' own. Problems that compare equal have equal hashes.
std::uint64_t hash_of(const ConvProblem& problem, std::int64_t x_alignment, std::int64_t w_alignment,
                      std::int64_t y_alignment);

bool equal_but_for_alignment(const ConvProblem& a, const ConvProblem& b);

}  // namespace convoy
