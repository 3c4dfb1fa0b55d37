// Step 4: the file stays open, and the kernel copies it: no open, fstat, read, close, and no copy through our memory.
#include "ladder.h"

int main(int argc, char** argv) {
  const ladder::Arguments arguments = ladder::arguments(argc, argv);
  const ladder::OpenFile file(arguments.file);
  ladder::loop(ladder::listen_on(arguments.port), [&](int fd, std::string_view input) {
    for (int left = ladder::requests_in(input); left > 0; --left) {
      if (!file.send_to(fd)) return false;
    }
    return true;
  });
}
