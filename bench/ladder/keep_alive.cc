// Step 3: the connection stays open: no handshake, accept and close for each request.
#include "ladder.h"

int main(int argc, char** argv) {
  const ladder::Arguments arguments = ladder::arguments(argc, argv);
  ladder::loop(ladder::listen_on(arguments.port), [&](int fd, std::string_view input) {
    for (int left = ladder::requests_in(input); left > 0; --left) {
      if (!ladder::send_all(fd, ladder::answer_from(arguments.file, true))) return false;
    }
    return true;
  });
}
