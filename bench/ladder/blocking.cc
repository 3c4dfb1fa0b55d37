// Step 1: one thread, one connection at a time, one request a connection.
#include "ladder.h"

int main(int argc, char** argv) {
  const ladder::Arguments arguments = ladder::arguments(argc, argv);
  const int listener = ladder::listen_on(arguments.port, true);
  char input[16384];
  for (;;) {
    const int peer = ::accept(listener, nullptr, nullptr);
    if (peer < 0) continue;
    std::string request;
    while (ladder::requests_in(request) == 0) {
      const ssize_t got = ::recv(peer, input, sizeof input, 0);
      if (got <= 0) break;
      request.append(input, static_cast<std::size_t>(got));
    }
    if (ladder::requests_in(request) != 0) ladder::send_all(peer, ladder::answer_from(arguments.file, false));
    ::close(peer);
  }
}
