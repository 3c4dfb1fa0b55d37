// Stage 7: all cores write parts of a long answer at the same time.
#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "json_text.h"
#include "role_index.h"
#include "service.h"

namespace case_study {
namespace {

constexpr std::size_t least_part = 128;  // users; fewer are written sooner than another thread wakes up

// Threads that work on the parts of one job at a time.
class Pool {
 public:
  explicit Pool(unsigned helpers) {
    for (unsigned i = 0; i < helpers; ++i) threads_.emplace_back([this](std::stop_token stop) { help(stop); });
  }

  // Calls job(0) ... job(parts - 1) on this thread and the pool's, and returns when all calls have returned.
  void run(std::size_t parts, const std::function<void(std::size_t)>& job) {
    std::unique_lock lock(mutex_);
    job_ = &job;
    next_ = 0;
    parts_ = unfinished_ = parts;
    if (parts > 1) more_.notify_all();
    work(lock);
    done_.wait(lock, [&] { return unfinished_ == 0; });
  }

 private:
  void work(std::unique_lock<std::mutex>& lock) {
    while (next_ < parts_) {
      const std::size_t part = next_++;
      lock.unlock();
      (*job_)(part);
      lock.lock();
      if (--unfinished_ == 0) done_.notify_one();
    }
  }

  void help(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (more_.wait(lock, stop, [&] { return next_ < parts_; })) work(lock);
  }

  std::mutex mutex_;
  std::condition_variable_any more_;
  std::condition_variable done_;
  const std::function<void(std::size_t)>* job_ = nullptr;
  std::size_t next_ = 0;  // next_ <= parts_; the first part that no thread has begun
  std::size_t parts_ = 0;
  std::size_t unfinished_ = 0;
  std::vector<std::jthread> threads_;
};

class Parallel final : public Service {
 public:
  explicit Parallel(std::vector<User> users)
      : users_(std::move(users)),
        index_(users_),
        cores_(std::max(1U, std::thread::hardware_concurrency())),
        pool_(cores_ - 1) {}

  Answer users_with(const Query& query) override {
    const std::span<const std::size_t> places = index_.find(query.role);
    const std::size_t parts = std::clamp<std::size_t>(places.size() / least_part, 1, cores_);
    std::vector<std::string> texts(parts);
    pool_.run(parts, [&](std::size_t part) {
      const std::size_t begin = places.size() * part / parts;
      const std::size_t end = places.size() * (part + 1) / parts;
      // The other parts are appended to the first one.
      texts[part].reserve((part == 0 ? places.size() : end - begin) * bytes_of_a_user + 2);
      append_objects(texts[part], places.subspan(begin, end - begin));
    });
    return {.body = std::make_shared<std::string>(joined(texts))};
  }

 private:
  // Appends the users' JSON objects, each with a comma before it.
  void append_objects(std::string& text, std::span<const std::size_t> places) const {
    for (const std::size_t place : places) {
      text += ',';
      append_json(text, users_[place]);
    }
  }

  static std::string joined(std::span<std::string> texts) {
    std::string array = std::move(texts.front());
    if (array.empty()) return "[]";
    array.front() = '[';
    for (const std::string& text : texts.subspan(1)) array += text;
    array += ']';
    return array;
  }

  std::vector<User> users_;
  RoleIndex index_;
  unsigned cores_;
  Pool pool_;
};

}  // namespace

std::unique_ptr<Service> parallel(std::vector<User> users) { return std::make_unique<Parallel>(std::move(users)); }

}  // namespace case_study
