#include "interposer/measuring.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace convoy::interposer {
namespace {

constexpr std::string_view kEnd = "end\n";

class Connection {
 public:
  explicit Connection(const std::string& path) : file_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    connected_ = path.size() < sizeof address.sun_path;
    if (!connected_) return;
    std::copy(path.begin(), path.end(), address.sun_path);
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    connected_ = ::connect(file_, to, sizeof address) == 0;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (file_ >= 0) ::close(file_);
  }

  bool send(std::string_view text) const {
    while (connected_ && !text.empty()) {
      const ssize_t sent = ::send(file_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return connected_;
  }

  // Empty: there is no more.
  std::string_view receive() {
    for (;;) {
      const ssize_t received = ::recv(file_, part_.data(), part_.size(), 0);
      if (received < 0 && errno == EINTR) continue;
      return {part_.data(), static_cast<std::size_t>(std::max<ssize_t>(received, 0))};
    }
  }

 private:
  int file_;
  bool connected_ = false;
  std::array<char, 4096> part_{};
};

}  // namespace

std::string measured_times(const std::string& socket, int ordinal, const std::string& problem) {
  Connection connection(socket);
  if (!connection.send(fmt::format("measure\t{}\t{}\n", ordinal, problem))) return {};
  std::string text;
  while (!text.ends_with(kEnd)) {
    const std::string_view part = connection.receive();
    if (part.empty()) return {};
    text += part;
  }
  text.resize(text.size() - kEnd.size());
  return text;
}

}  // namespace convoy::interposer
