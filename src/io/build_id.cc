#include "io/build_id.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

namespace convoy::io {
namespace {

constexpr std::size_t kMostBytes = 1 << 16;  // of a segment of notes
constexpr std::size_t kMostSegments = 256;

template <class T>
std::optional<T> read_at(std::ifstream& file, std::uint64_t offset) {
  T value;
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(reinterpret_cast<char*>(&value), sizeof value)) return std::nullopt;
  return value;
}

std::uint64_t padded(std::uint64_t size) { return (size + 3) / 4 * 4; }

std::string id_in(const std::vector<char>& notes) {
  for (std::uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr head;
    std::memcpy(&head, notes.data() + at, sizeof head);
    const std::uint64_t name = at + sizeof head, data = name + padded(head.n_namesz);
    const std::uint64_t next = data + padded(head.n_descsz);
    if (data + head.n_descsz > notes.size()) return {};
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0) {
      std::string id;
      for (std::uint64_t i = 0; i < head.n_descsz; ++i) {
        id += fmt::format("{:02x}", static_cast<unsigned char>(notes[data + i]));
      }
      return id;
    }
    at = next;
  }
  return {};
}

}  // namespace

std::string build_id(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const auto head = read_at<Elf64_Ehdr>(file, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
      head->e_ident[EI_DATA] != ELFDATA2LSB || head->e_phentsize != sizeof(Elf64_Phdr)) {
    return {};
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(head->e_phnum, kMostSegments); ++i) {
    const auto segment = read_at<Elf64_Phdr>(file, head->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return {};
    if (segment->p_type != PT_NOTE || segment->p_filesz > kMostBytes) continue;
    std::vector<char> notes(segment->p_filesz);
    file.seekg(static_cast<std::streamoff>(segment->p_offset));
    if (!file.read(notes.data(), static_cast<std::streamsize>(notes.size()))) return {};
    if (std::string id = id_in(notes); !id.empty()) return id;
  }
  return {};
}

}  // namespace convoy::io
