// Step 5: the same loop once for each core, each with its own listener on the same port (SO_REUSEPORT): nothing is shared.
#include <sys/sendfile.h>

#include <thread>
#include <vector>

#include "ladder.h"

int main(int argc, char** argv) {
  const ladder::Arguments arguments = ladder::arguments(argc, argv);
  const int file = ::open(arguments.file, O_RDONLY);
  struct stat status{};
  if (file < 0 || ::fstat(file, &status) != 0) return 1;
  const std::string head = ladder::head(static_cast<std::size_t>(status.st_size), true);
  const auto serve = [&] {
    ladder::loop(ladder::listen_on(arguments.port), [&](int fd, std::string_view input) {
      for (int left = ladder::requests_in(input); left > 0; --left) {
        if (!ladder::send_all(fd, head, MSG_MORE)) return false;
        for (off_t at = 0; at < status.st_size;) {
          if (::sendfile(fd, file, &at, static_cast<std::size_t>(status.st_size - at)) < 0 && errno != EAGAIN) return false;
        }
      }
      return true;
    });
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < arguments.threads; ++i) threads.emplace_back(serve);
  serve();
}
