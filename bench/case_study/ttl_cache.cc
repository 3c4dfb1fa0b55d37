// Stage 8: answers are cached for `lifetime`, so an answer may be that old.
#include <chrono>
#include <unordered_map>
#include <utility>

#include "service.h"

namespace case_study {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto lifetime = std::chrono::seconds(5);
constexpr std::size_t most_entries = 1024;  // clients choose the roles; one more entry clears the cache

class TtlCache final : public Service {
 public:
  explicit TtlCache(std::unique_ptr<Service> inner) : inner_(std::move(inner)) {}

  Answer users_with(const Query& query) override {
    const auto now = Clock::now();
    std::string key(query.accepts_gzip ? "gzip " : "");
    key += query.role;
    const auto found = entries_.find(key);
    if (found != entries_.end() && now < found->second.expires) return found->second.answer;
    if (entries_.size() == most_entries) entries_.clear();
    Answer answer = inner_->users_with(query);
    entries_.insert_or_assign(std::move(key), Entry{answer, now + lifetime});
    return answer;
  }

 private:
  struct Entry {
    Answer answer;
    Clock::time_point expires;
  };

  std::unique_ptr<Service> inner_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace

std::unique_ptr<Service> ttl_cache(std::unique_ptr<Service> inner) {
  return std::make_unique<TtlCache>(std::move(inner));
}

}  // namespace case_study
