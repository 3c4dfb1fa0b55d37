// Step 5: the same, edge-triggered: the kernel reports a connection once for its new bytes, and does not look at it
// again in the next wait.
#include "ladder.h"

int main(int argc, char** argv) {
  const ladder::Arguments arguments = ladder::arguments(argc, argv);
  const ladder::OpenFile file(arguments.file);
  ladder::loop(
      ladder::listen_on(arguments.port),
      [&](int fd, std::string_view input) {
        for (int left = ladder::requests_in(input); left > 0; --left) {
          if (!file.send_to(fd)) return false;
        }
        return true;
      },
      EPOLLET);
}
