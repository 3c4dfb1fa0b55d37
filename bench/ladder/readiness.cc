// Step 2: the same work in one level-triggered epoll loop instead of blocking reads. Still one request a connection.
#include "ladder.h"

int main(int argc, char** argv) {
  const ladder::Arguments arguments = ladder::arguments(argc, argv);
  ladder::loop(ladder::listen_on(arguments.port), [&](int fd, std::string_view input) {
    if (ladder::requests_in(input) == 0) return true;
    ladder::send_all(fd, ladder::answer_from(arguments.file, false));
    return false;
  });
}
