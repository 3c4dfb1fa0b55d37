#include "core/current.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::core {
namespace {

TEST(Current, a_view_reads_the_newest_value) {
  const auto current = std::make_shared<Current<int>>(std::make_shared<const int>(1));
  Current<int>::View early(current);
  current->publish(std::make_shared<const int>(2));
  Current<int>::View late(current);
  EXPECT_EQ(*early.get(), 2);
  EXPECT_EQ(early.get(), late.get());
  current->publish(nullptr);
  EXPECT_EQ(early.get(), nullptr);
  EXPECT_EQ(current->latest(), nullptr);
}

TEST(Current, a_read_on_any_thread_gives_what_was_published_before_it_began_or_later) {
  constexpr int last = 2000;
  const auto current = std::make_shared<Current<int>>(std::make_shared<const int>(0));
  std::atomic<int> published{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      Current<int>::View view(current);
      for (int seen = 0; seen < last;) {
        const int least = published.load(std::memory_order_acquire);
        const int now = *view.get();
        EXPECT_GE(now, seen);
        EXPECT_GE(now, least);
        seen = now;
      }
    });
  }
  for (int i = 1; i <= last; ++i) {
    current->publish(std::make_shared<const int>(i));
    published.store(i, std::memory_order_release);
  }
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace sluice::core
