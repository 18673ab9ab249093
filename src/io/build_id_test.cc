#include "io/build_id.h"

#include <gtest/gtest.h>
#include <link.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace convoy::io {
namespace {

namespace fs = std::filesystem;

// Of this program, as the loader has it in memory.
std::string own_id() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE) continue;
          const char* at = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          const char* const end = at + segment.p_memsz;
          while (at + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) head;
            std::memcpy(&head, at, sizeof head);
            const auto* data = reinterpret_cast<const unsigned char*>(at + sizeof head + (head.n_namesz + 3) / 4 * 4);
            if (head.n_type == NT_GNU_BUILD_ID) {
              char text[3];
              for (unsigned j = 0; j < head.n_descsz; ++j) {
                std::snprintf(text, sizeof text, "%02x", data[j]);
                *static_cast<std::string*>(into) += text;
              }
            }
            at = reinterpret_cast<const char*>(data) + (head.n_descsz + 3) / 4 * 4;
          }
        }
        return 1;  // the program comes first
      },
      &id);
  return id;
}

TEST(BuildId, IsTheOneThatTheLoaderHas) { EXPECT_EQ(build_id("/proc/self/exe"), own_id()); }

TEST(BuildId, WhatIsNoElfFileHasNone) {
  EXPECT_EQ(build_id("/nowhere/at/all"), "");
  EXPECT_EQ(build_id("/"), "");
  const fs::path file = fs::temp_directory_path() / ("build_id_" + std::to_string(getpid()));
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::string head(4096, '\0');
  self.read(head.data(), static_cast<std::streamsize>(head.size()));
  for (const std::size_t size : {0u, 3u, 40u, 63u, 64u, 100u, 700u, 4096u}) {
    std::ofstream(file, std::ios::binary) << head.substr(0, size);
    const std::string id = build_id(file.string());
    EXPECT_TRUE(id.empty() || id == own_id()) << size;
  }
  std::string wild = head;
  std::memset(wild.data() + 24, 0xff, wild.size() - 24);  // offsets and counts beyond everything
  std::ofstream(file, std::ios::binary) << wild;
  EXPECT_EQ(build_id(file.string()), "");
  fs::remove(file);
}

}  // namespace
}  // namespace convoy::io
