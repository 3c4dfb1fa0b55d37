// The two things to do as seldom as possible: allocating memory and writing, at three sizes. usage: allocations FILE
// Prints a JSON object for each case, with nanoseconds for each operation.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "clock.h"

namespace {

constexpr std::size_t total = 64 << 20;  // bytes of all operations of a run, so that a run has thousands of small ones

void touch(void* block) { *static_cast<volatile char*>(block) = 1; }

// A block is freed before the next one is allocated, so the allocator returns the same memory again.
void reuse(std::size_t size) {
  for (std::size_t left = total / size; left > 0; --left) {
    void* const block = std::malloc(size);
    touch(block);
    std::free(block);
  }
}

// All blocks stay alive until the last has been allocated, and each page is used, so the kernel has to provide it.
void keep(std::size_t size) {
  std::vector<void*> blocks(total / size);
  for (void*& block : blocks) {
    block = std::malloc(size);
    for (std::size_t at = 0; at < size; at += 4096) touch(static_cast<char*>(block) + at);
  }
  for (void* const block : blocks) std::free(block);
}

void write_to(const char* name, const std::string& text) {
  const int file = ::open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (std::size_t left = total / text.size(); left > 0; --left) {
    if (::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::exit(1);
  }
  ::close(file);
}

template <class Work>
void print(const char* operation, std::size_t size, Work work) {
  std::printf("{\"operation\": \"%s\", \"bytes\": %zu, \"ns\": %.4g}\n", operation, size,
              exports::median_nanoseconds(work) / static_cast<double>(total / size));
}

}  // namespace

int main(int count, char** values) {
  if (count != 2) return 2;
  for (const std::size_t size : {1024, 16 * 1024, 512 * 1024}) {
    const std::string text(size, 'a');
    print("malloc, freed at once", size, [&] { reuse(size); });
    print("malloc, 64 MB kept", size, [&] { keep(size); });
    print("write to /dev/null", size, [&] { write_to("/dev/null", text); });
    print("write to a file", size, [&] { write_to(values[1], text); });
  }
}
