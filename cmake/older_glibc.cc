// For packages: functions that the static archives take from glibc 2.35 and 2.36, so that the program starts with 2.34.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

extern "C" {

// glibc 2.36; c-ares uses both.
[[gnu::visibility("hidden")]] void arc4random_buf(void* buffer, std::size_t size) noexcept {
  auto* bytes = static_cast<char*>(buffer);
  while (size > 0) {
    const ssize_t got = ::getrandom(bytes, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) std::abort();
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
}

[[gnu::visibility("hidden")]] std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  arc4random_buf(&number, sizeof number);
  return number;
}

// glibc 2.35; libgcc looks up the frames of an exception with it.
[[gnu::visibility("hidden")]] int _dl_find_object(void* address, dl_find_object* result) noexcept {
  struct Search {
    std::uintptr_t address;
    dl_find_object* result;
  } search{reinterpret_cast<std::uintptr_t>(address), result};
  const auto look = [](dl_phdr_info* info, std::size_t, void* argument) {
    const auto& [wanted, found] = *static_cast<Search*>(argument);
    bool is_here = false;
    std::uintptr_t first = UINTPTR_MAX, last = 0, frames = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
      if (part.p_type == PT_GNU_EH_FRAME) frames = begin;
      if (part.p_type != PT_LOAD) continue;
      if (begin < first) first = begin;
      if (begin + part.p_memsz > last) last = begin + part.p_memsz;
      if (wanted >= begin && wanted < begin + part.p_memsz) is_here = true;
    }
    if (!is_here || frames == 0) return 0;
    *found = {};
    found->dlfo_map_start = reinterpret_cast<void*>(first);
    found->dlfo_map_end = reinterpret_cast<void*>(last);
    found->dlfo_eh_frame = reinterpret_cast<void*>(frames);
    return 1;
  };
  return ::dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}

}  // extern "C"
