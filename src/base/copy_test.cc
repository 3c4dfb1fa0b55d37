#include "base/copy.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace sluice {
namespace {

TEST(CopyShort, CopiesEverySizeAndNothingBeside) {
  for (std::size_t size = 0; size <= 100; ++size) {
    // Both buffers have exactly the size of the text, so a sanitizer sees an access of one byte too many.
    const auto from = std::make_unique<char[]>(size);
    const auto to = std::make_unique<char[]>(size);
    for (std::size_t i = 0; i < size; ++i) from[i] = static_cast<char>(i * 7 + size);
    EXPECT_EQ(copy_short(to.get(), {from.get(), size}), to.get() + size);
    EXPECT_EQ(std::string_view(to.get(), size), std::string_view(from.get(), size)) << size;
  }
}

}  // namespace
}  // namespace sluice
