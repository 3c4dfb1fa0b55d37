// Step 6: the loop of step 4 once for each core, each with its own listener on the same port (SO_REUSEPORT): nothing is
// shared.
#include <thread>
#include <vector>

#include "ladder.h"

int main(int argc, char** argv) {
  const ladder::Arguments arguments = ladder::arguments(argc, argv);
  const ladder::OpenFile file(arguments.file);
  const auto serve = [&] {
    ladder::loop(ladder::listen_on(arguments.port), [&](int fd, std::string_view input) {
      for (int left = ladder::requests_in(input); left > 0; --left) {
        if (!file.send_to(fd)) return false;
      }
      return true;
    });
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < arguments.threads; ++i) threads.emplace_back(serve);
  serve();
}
