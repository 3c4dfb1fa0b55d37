#include "net/resolver.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include <ares.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"

namespace sluice::net {

// All members are guarded by the mutex.
struct Resolver::Entry {
  Answer answer;
  Instant until = Instant::min();  // when a new query is needed
  std::vector<Wait*> waiting;
  bool asked = false;  // a query is in flight or queued
};

// One caller's wait. The caller frees it; after it has been posted, its delivery frees it.
struct Resolver::Wait : core::Letter {
  // Guarded by the mutex. `entry` is valid only in the first state; later the entry may be destroyed.
  enum class Place : std::uint8_t { entry, mailbox, refused };
  Wait(Resolving& by, core::Mailbox& mailbox, Entry& of) : Letter(delivered), asker(&by), home(mailbox), entry(of) {}
  static void delivered(Letter& letter) noexcept;

  Resolving* asker;  // on the home core; null: the caller was destroyed
  core::Mailbox& home;
  Entry& entry;
  std::optional<Answer> answer;
  Place place = Place::entry;
};

struct Resolver::Query {
  State& state;
  Entry& entry;
};

struct Resolver::State {
  explicit State(Options given) : options(std::move(given)), wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (wake < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    if (!options.clock) options.clock = [] { return Instant(std::chrono::steady_clock::now().time_since_epoch()); };
  }
  ~State() { ::close(wake); }

  void ring() const noexcept { (void)::eventfd_write(wake, 1); }
  void leave(Wait& wait) noexcept;
  // Used if no newer answer is available. The caller holds the mutex.
  [[nodiscard]] bool may_serve(const Entry& entry) const {
    return entry.answer && *entry.answer && options.clock() < (*entry.answer)->until + stale;
  }

  using Entries = std::map<std::string, Entry, std::less<>>;

  // Runs on the thread.
  void serve() noexcept;
  void ask(Entries::value_type& name);
  [[nodiscard]] int open();
  void wait_and_process();
  void settle(Entry& entry, Answer answer, Instant until, bool may_be_stale);
  static void answered(void* query, int status, int timeouts, ares_addrinfo* found);
  static void watch(void* state, ares_socket_t socket, int reads, int writes);

  Options options;
  const int wake;
  std::mutex mutex;
  Entries entries;  // entries with `asked` set are not moved or removed
  std::vector<Entries::value_type*> to_ask;
  bool ended = false;

  // Used by the thread. The channel lives while queries are in flight, so that the next one reads the system's files
  // again.
  ares_channel channel = nullptr;
  std::vector<pollfd> sockets;
  std::size_t in_flight = 0;
  bool calling = false;  // inside ares_getaddrinfo(): an answer within the call came without asking a server
};

Resolver::Resolver(Options options) : state_(std::make_unique<State>(std::move(options))) {
  ares_library_init(ARES_LIB_INIT_ALL);
  thread_ = std::thread([&state = *state_] { state.serve(); });
  pthread_setname_np(thread_.native_handle(), "sluice-resolve");
}

Resolver::~Resolver() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
  }
  state_->ring();
  thread_.join();
  ares_library_cleanup();
}

Resolver::Resolving::~Resolving() {
  if (wait_ != nullptr) state_.leave(*wait_);
}

bool Resolver::Resolving::await_suspend(std::coroutine_handle<> caller) {
  if (const auto literal = core::Address::from_ip(host_, 0)) {
    answer_ = std::make_shared<const Addresses>(Addresses{.list = {*literal}, .until = never});
    return false;
  }
  const std::lock_guard lock(state_.mutex);
  auto name = state_.entries.find(host_);
  if (name == state_.entries.end()) {
    if (state_.entries.size() >= most_names) {
      std::erase_if(state_.entries, [](const auto& each) { return !each.second.asked; });
    }
    if (state_.entries.size() >= most_names) {
      answer_ = std::unexpected("too many names are asked for at once");
      return false;
    }
    name = state_.entries.emplace(host_, Entry{}).first;
  }
  Entry& entry = name->second;
  if (!entry.asked && state_.options.clock() < entry.until) {
    answer_ = entry.answer;
    return false;
  }
  wait_ = new Wait(*this, home_, entry);
  entry.waiting.push_back(wait_);
  if (!std::exchange(entry.asked, true)) {
    state_.to_ask.push_back(&*name);
    state_.ring();
  }
  caller_ = caller;
  home_.reactor().timers().schedule(*this, deadline_);
  return true;
}

void Resolver::Resolving::expire(Timer& timer) noexcept {
  auto& self = static_cast<Resolving&>(timer);
  {
    const std::lock_guard lock(self.state_.mutex);
    const Wait& wait = *self.wait_;
    if (wait.place != Wait::Place::entry) {
      self.answer_ = wait.answer;
    } else if (self.state_.may_serve(wait.entry)) {
      self.answer_ = wait.entry.answer;
    } else {
      self.answer_ = std::unexpected("no server has answered in time");
    }
  }
  self.state_.leave(*std::exchange(self.wait_, nullptr));
  self.caller_.resume();
}

void Resolver::Wait::delivered(Letter& letter) noexcept {
  const std::unique_ptr<Wait> self(static_cast<Wait*>(&letter));
  if (self->asker == nullptr) return;
  Resolving& asker = *self->asker;
  asker.wait_ = nullptr;
  asker.answer_ = std::move(self->answer);
  self->home.reactor().timers().cancel(asker);
  asker.caller_.resume();
}

void Resolver::State::leave(Wait& wait) noexcept {
  const std::lock_guard lock(mutex);
  if (wait.place == Wait::Place::mailbox) {
    wait.asker = nullptr;
    return;
  }
  if (wait.place == Wait::Place::entry) std::erase(wait.entry.waiting, &wait);
  delete &wait;
}

void Resolver::State::serve() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all,
                  nullptr);  // a new thread inherits the mask; signals stay with the threads that handle them
  for (;;) {
    std::vector<Entries::value_type*> names;
    {
      const std::lock_guard lock(mutex);
      if (ended) break;
      names.swap(to_ask);
    }
    for (Entries::value_type* const name : names) ask(*name);
    if (in_flight == 0 && channel != nullptr) ares_destroy(std::exchange(channel, nullptr));
    wait_and_process();
  }
  if (channel != nullptr) ares_destroy(channel);
}

int Resolver::State::open() {
  if (channel != nullptr) return ARES_SUCCESS;
  ares_options chosen{};
  chosen.timeout = static_cast<int>(options.timeout.count());
  chosen.tries = options.tries;
  chosen.sock_state_cb = watch;
  chosen.sock_state_cb_data = this;
  const int status = ares_init_options(&channel, &chosen, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
  if (status != ARES_SUCCESS) channel = nullptr;
  if (status != ARES_SUCCESS || options.servers.empty()) return status;
  const int set = ares_set_servers_ports_csv(channel, options.servers.c_str());
  if (set != ARES_SUCCESS) ares_destroy(std::exchange(channel, nullptr));
  return set;
}

void Resolver::State::ask(Entries::value_type& name) {
  auto& [host, entry] = name;
  if (const int status = open(); status != ARES_SUCCESS) {
    settle(entry, std::unexpected(ares_strerror(status)), options.clock() + failure, true);
    return;
  }
  ++in_flight;
  ares_addrinfo_hints hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  calling = true;
  ares_getaddrinfo(channel, host.c_str(), nullptr, &hints, answered, new Query{*this, entry});
  calling = false;
}

void Resolver::State::watch(void* state, ares_socket_t socket, int reads, int writes) {
  auto& sockets = static_cast<State*>(state)->sockets;
  std::erase_if(sockets, [socket](const pollfd& each) { return each.fd == socket; });
  const int events = (reads != 0 ? POLLIN : 0) | (writes != 0 ? POLLOUT : 0);
  if (events != 0) sockets.push_back({.fd = socket, .events = static_cast<short>(events), .revents = 0});
}

void Resolver::State::wait_and_process() {
  std::vector<pollfd> polled = sockets;  // a copy, because c-ares changes the list during processing
  polled.push_back({.fd = wake, .events = POLLIN, .revents = 0});
  int most_ms = -1;
  timeval most{};
  if (channel != nullptr && ares_timeout(channel, nullptr, &most) != nullptr) {
    most_ms = static_cast<int>(most.tv_sec * 1000 + (most.tv_usec + 999) / 1000);
  }
  (void)::poll(polled.data(), polled.size(), most_ms);
  if (polled.back().revents != 0) {
    eventfd_t count = 0;
    (void)::eventfd_read(wake, &count);
  }
  polled.pop_back();
  if (channel == nullptr) return;
  ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // timeouts
  for (const pollfd& each : polled) {
    if (each.revents == 0) continue;
    ares_process_fd(channel, (each.revents & ~POLLOUT) != 0 ? each.fd : ARES_SOCKET_BAD,
                    (each.revents & POLLOUT) != 0 ? each.fd : ARES_SOCKET_BAD);
  }
}

void Resolver::State::answered(void* query, int status, int /*timeouts*/, ares_addrinfo* found) {
  const std::unique_ptr<Query> own(static_cast<Query*>(query));
  const std::unique_ptr<ares_addrinfo, void (*)(ares_addrinfo*)> owner(found, ares_freeaddrinfo);
  State& state = own->state;
  --state.in_flight;
  const Instant now = state.options.clock();
  Addresses addresses;
  Duration ttl = longest;
  for (const ares_addrinfo_node* node = found != nullptr ? found->nodes : nullptr; node; node = node->ai_next) {
    if (node->ai_family != AF_INET && node->ai_family != AF_INET6) continue;
    addresses.list.emplace_back(node->ai_addr, node->ai_addrlen);
    ttl = std::min<Duration>(ttl, std::chrono::seconds(node->ai_ttl));
  }
  for (const ares_addrinfo_cname* name = found != nullptr ? found->cnames : nullptr; name; name = name->next) {
    ttl = std::min<Duration>(ttl, std::chrono::seconds(name->ttl));
  }
  if (status == ARES_SUCCESS && addresses.list.empty()) status = ARES_ENODATA;
  if (status != ARES_SUCCESS) {
    const bool is_answer = status == ARES_ENOTFOUND || status == ARES_ENODATA || status == ARES_EBADNAME;
    state.settle(own->entry, std::unexpected(ares_strerror(status)), now + failure, !is_answer);
    return;
  }
  addresses.until = now + (state.calling ? hosts_file : std::max(ttl, shortest));
  const Instant until = addresses.until;
  state.settle(own->entry, std::make_shared<const Addresses>(std::move(addresses)), until, false);
}

void Resolver::State::settle(Entry& entry, Answer answer, Instant until, bool may_be_stale) {
  const std::lock_guard lock(mutex);
  if (!may_be_stale || !may_serve(entry)) entry.answer = std::move(answer);
  entry.until = until;
  entry.asked = false;
  for (Wait* const wait : std::exchange(entry.waiting, {})) {
    wait->answer = entry.answer;
    // Set before posting, because the wait may be freed afterwards.
    wait->place = Wait::Place::mailbox;
    if (!wait->home.post(*wait)) wait->place = Wait::Place::refused;
  }
}

}  // namespace sluice::net
