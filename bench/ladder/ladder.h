#pragma once

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../plain_server.h"

// Code that the servers of the ladder share, so that each file shows only its own step. Each server answers every
// request with the same file and looks only for the blank line in a request. The servers are not meant for real use.
namespace ladder {

using plain::listen_on;
using plain::loop;
using plain::send_all;

struct Arguments {
  std::uint16_t port;
  const char* file;
  int threads;
};

// usage: NAME PORT FILE [THREADS]
inline Arguments arguments(int argc, char** argv) {
  if (argc < 3) std::exit(2);
  std::signal(SIGPIPE, SIG_IGN);
  return {static_cast<std::uint16_t>(std::atoi(argv[1])), argv[2], argc > 3 ? std::atoi(argv[3]) : 1};
}

// The number of requests that end in `input`. Their blank lines must be whole, as wrk's are: it never splits a request.
inline int requests_in(std::string_view input) {
  int count = 0;
  for (std::size_t at = 0; (at = input.find("\r\n\r\n", at)) != input.npos; at += 4) ++count;
  return count;
}

inline std::string head(std::size_t size, bool keep_alive) {
  return "HTTP/1.1 200 OK\r\nServer: ladder\r\nContent-Type: text/html\r\nContent-Length: " + std::to_string(size) +
         (keep_alive ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n");
}

// Opens and reads the file, and appends it with its head.
inline void append_answer(std::string& answer, const char* file, bool keep_alive) {
  const int fd = ::open(file, O_RDONLY);
  struct stat status{};
  ::fstat(fd, &status);
  answer += head(static_cast<std::size_t>(status.st_size), keep_alive);
  const std::size_t before = answer.size();
  answer.resize(before + static_cast<std::size_t>(status.st_size));
  for (std::size_t done = before; done < answer.size();) {
    const ssize_t got = ::read(fd, answer.data() + done, answer.size() - done);
    if (got <= 0) std::exit(1);
    done += static_cast<std::size_t>(got);
  }
  ::close(fd);
}

inline std::string answer_from(const char* file, bool keep_alive) {
  std::string answer;
  append_answer(answer, file, keep_alive);
  return answer;
}

// A file that stays open. The kernel sends it from its page cache.
class OpenFile {
 public:
  explicit OpenFile(const char* path) : fd_(::open(path, O_RDONLY)) {
    struct stat status{};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0) std::exit(1);
    size_ = status.st_size;
    head_ = head(static_cast<std::size_t>(size_), true);
  }
  [[nodiscard]] bool send_to(int peer) const {
    if (!send_all(peer, head_, MSG_MORE)) return false;
    for (off_t at = 0; at < size_;) {
      if (::sendfile(peer, fd_, &at, static_cast<std::size_t>(size_ - at)) < 0 && errno != EAGAIN) return false;
    }
    return true;
  }

 private:
  int fd_;
  off_t size_ = 0;
  std::string head_;
};

}  // namespace ladder
