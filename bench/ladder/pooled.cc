// A variant of step 3: the file is still opened and read for each request, but into a buffer that is kept, instead of
// into a new string.
#include "ladder.h"

int main(int argc, char** argv) {
  const ladder::Arguments arguments = ladder::arguments(argc, argv);
  std::string answer;
  ladder::loop(ladder::listen_on(arguments.port), [&](int fd, std::string_view input) {
    for (int left = ladder::requests_in(input); left > 0; --left) {
      answer.clear();
      ladder::append_answer(answer, arguments.file, true);
      if (!ladder::send_all(fd, answer)) return false;
    }
    return true;
  });
}
