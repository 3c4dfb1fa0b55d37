#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include <liburing.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "core/bound_socket.h"
#include "core/slab.h"
#include "core/socket_reactor.h"

namespace sluice::core {
namespace {

constexpr unsigned submissions = 512;   // more submissions in a turn cost another system call
constexpr unsigned completions = 4096;  // more completions wait in the kernel
constexpr unsigned buffer_count = 256;
constexpr unsigned buffer_bytes = 4096;
// The distance between buffers. Requests are small, and buffers that start a page apart would share a few sets of the
// cache.
constexpr unsigned buffer_stride = buffer_bytes + 3 * 64;
constexpr std::uint16_t buffer_group = 0;
// The buffers that a connection may hold; further bytes stay in its socket. One turn of the kernel may exceed the
// limit, at most by all the buffers.
constexpr unsigned most_held = 8;
// The limit for accepted connections that accept() has not returned yet; it may be exceeded in the same way.
constexpr std::size_t most_accepted = 64;

// Memory from mmap() whose address is registered with the kernel.
class Pages {
 public:
  explicit Pages(std::size_t size)
      : bytes_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)), size_(size) {
    if (bytes_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  }
  Pages(const Pages&) = delete;
  ~Pages() { ::munmap(bytes_, size_); }
  [[nodiscard]] void* get() const { return bytes_; }

 private:
  void* bytes_;
  std::size_t size_;
};

// The submission queue and the completion queue, shared with the kernel.
class Rings {
 public:
  Rings() {
    io_uring_params parameters{};
    // One thread submits, and completions are processed only when it enters the kernel, which never interrupts it. This
    // requires Linux 6.1; the other features used here are older.
    parameters.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN |
                       IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE;
    parameters.cq_entries = completions;
    check(io_uring_queue_init_params(submissions, &ring_, &parameters), "io_uring_setup");
    constexpr unsigned needed =
        IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG | IORING_FEAT_CQE_SKIP;
    if ((parameters.features & needed) != needed) {
      io_uring_queue_exit(&ring_);
      check(-EINVAL, "io_uring_setup");
    }
    (void)io_uring_ring_dontfork(&ring_);
    (void)io_uring_register_ring_fd(&ring_);  // makes entering cheaper; a failure is harmless
  }
  Rings(const Rings&) = delete;
  ~Rings() { io_uring_queue_exit(&ring_); }
  [[nodiscard]] io_uring* get() { return &ring_; }

  static void check(int result, const char* call) {
    if (result >= 0) return;
    std::string what = call;
    switch (-result) {
      case ENOSYS:
        what += ": this kernel has no io_uring";
        break;
      case EPERM:
        what += ": kernel.io_uring_disabled or a seccomp filter forbids it";
        break;
      case EINVAL:
        what += ": it takes Linux 6.1 or newer";
        break;
      case ENOMEM:
        what += ": too little memory may be locked (RLIMIT_MEMLOCK)";
        break;
      default:
        break;
    }
    throw std::system_error(-result, std::generic_category(), what);
  }

 private:
  io_uring ring_{};
};

// One system call per turn submits the requests and waits. Accept and receive requests are multishot: the kernel
// repeats them. It takes a buffer only when bytes arrive, so an idle connection holds none.
//
// A connection that receives much, or that the program does not read, leaves this mode. It is then read by system
// calls, straight into the reader's memory, as with epoll. The same happens if no buffer is free. With its next small
// read the connection returns to multishot mode.
class UringReactor final : public SocketReactor {
 public:
  UringReactor() : ring_(rings_.get()), buffers_(buffer_count * buffer_stride), offered_(offered_bytes) {
    io_uring_buf_reg group{};
    group.ring_addr = reinterpret_cast<std::uint64_t>(offered_.get());
    group.ring_entries = buffer_count;
    group.bgid = buffer_group;
    Rings::check(io_uring_register_buf_ring(ring_, &group, 0), "io_uring_register");
    io_uring_buf_ring_init(offered());
    for (unsigned i = 0; i < buffer_count; ++i) give_back(static_cast<std::uint16_t>(i));
    poll_wake();
    // The first submission may be refused even if the setup was not.
    const int submitted = io_uring_submit(ring_);
    Rings::check(submitted, "io_uring_enter");
  }

  ~UringReactor() override {
    ending_ = true;
    io_uring_sqe& sqe = entry(nullptr, Operation::none);
    io_uring_prep_cancel64(&sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
    // Waits until all sockets are actually closed.
    for (int turns = 0; operations_ != 0 && turns < 100; ++turns) {
      enter(10);
      complete();
    }
  }

  Result<void> bind(Handle& handle, const Address& address, bool reuse_port) override {
    SLUICE_ASSERT(handle.fd < 0);
    const auto fd = bind_socket(address, reuse_port, true);
    if (!fd) return std::unexpected(fd.error());
    open_listener(handle, *fd);
    return {};
  }

  Result<void> bind_shared(Handle& handle, int socket) override {
    SLUICE_ASSERT(handle.fd < 0);
    const auto fd = share_listener(socket);
    if (!fd) return std::unexpected(fd.error());
    handle.is_shared = open_listener(handle, *fd).is_shared = true;
    return {};
  }

  Result<void> start_listening(Handle& handle, int backlog) override {
    if (::listen(handle.fd, backlog) != 0) return fail(Errc::system, errno);
    handle.may_read = true;  // so that accept() is called and submits its request
    return {};
  }

  Result<bool> accept(Handle& handle, Handle& accepted, Address* peer) override {
    Listener& listener = *static_cast<Listener*>(handle.backend);
    if (listener.is_shared) take_client(listener);
    if (listener.next == listener.accepted.size()) {
      if (const int error = std::exchange(listener.error, 0); error != 0) return fail(Errc::system, error);
      if (!listener.accepting) accept_more(listener);
      handle.may_read = false;
      return false;
    }
    const int fd = listener.accepted[listener.next++];
    if (listener.next == listener.accepted.size()) {
      listener.accepted.clear();
      listener.next = 0;
    }
    if (peer != nullptr) {
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&from), &size) != 0) {
        ::close(fd);
        return fail(Errc::system, ECONNABORTED);  // the error that accept(2) returns in this case
      }
      *peer = Address(reinterpret_cast<sockaddr*>(&from), size);
    }
    receive_more(attach(accepted, fd), false);
    return true;
  }

  Result<bool> connect(Handle& handle, const Address& address) override {
    const auto connecting = make_connection(address);
    if (!connecting) return std::unexpected(connecting.error());
    Socket& socket = attach(handle, connecting->fd);
    if (connecting->done) {
      receive_more(socket, false);
    } else {
      // A receive now would consume the error that connect_result() returns.
      handle.may_write = false;
      socket.connecting = true;
      watch(socket);
    }
    return connecting->done;
  }

  void close(Handle& handle) noexcept override {
    if (handle.fd < 0) return;
    SLUICE_ASSERT(handle.reader == nullptr && handle.writer == nullptr);
    Endpoint& endpoint = *static_cast<Endpoint*>(handle.backend);
    if (endpoint.is_listener) {
      close(static_cast<Listener&>(endpoint));
    } else {
      close(static_cast<Socket&>(endpoint));
    }
    handle.fd = -1;
    handle.backend = nullptr;
    handle.is_shared = false;
    gone(handle);
  }

  Io recv(Handle& handle, char* into, std::size_t size) override {
    Socket& socket = *static_cast<Socket*>(handle.backend);
    if (socket.held != 0) [[likely]] {
      const std::size_t copied = take(socket, into, size);
      handle.may_read = socket.held != 0 || !socket.receiving || socket.ended;
      return {.bytes = copied};
    }
    if (socket.error != 0) return {.error = std::exchange(socket.error, 0)};
    if (socket.ended) return {};
    if (socket.receiving && has_arrived(socket)) {
      handle.may_read = false;
      return {.error = EAGAIN};
    }
    const Io io = receive(handle, into, size);
    socket.read_directly += io.bytes;
    if (io.ok() && io.bytes == 0 && size != 0) {
      socket.ended = true;
    } else if (!handle.may_read && !socket.receiving) {
      if (socket.quiet) {
        watch(socket);  // only for the peer's end
      } else if (std::exchange(socket.read_directly, 0) >= buffer_bytes) {
        poll_bytes(socket);
      } else {
        receive_more(socket, true);
      }
    }
    return io;
  }

  void turn(Instant until) override {
    begin_turn();
    if (next_lull() == never) {
      enter(timeout_ms(until));
    } else {
      enter(exact_timeout(until));
    }
    look_at_clock();
    complete();
    end_lulls();
    timers().advance(now_);
    run_hooks();
  }

 private:
  // The operation that has completed: the low bits of the user data; the remaining bits are the endpoint's address.
  enum class Operation : std::uint8_t { none, wake, accept, receive, bytes, watch };
  static constexpr std::uint64_t operation_bits = 7;

  // The state behind a handle. After the handle is closed, it lives until its last operation has completed.
  struct alignas(8) Endpoint {
    Handle* handle = nullptr;  // null: closed
    int fd = -1;
    std::uint8_t operations = 0;  // operations that are submitted or queued for submission
    bool is_listener = false;
  };

  struct Listener : Endpoint {
    Listener() { is_listener = true; }
    std::vector<int> accepted;
    std::size_t next = 0;  // index in accepted
    int error = 0;
    bool is_shared = false;
    bool accepting = false;  // an operation is under way
    bool stopping = false;
  };

  struct Socket : Endpoint, SlabAllocated {
    bool receiving = false;  // the kernel puts received bytes into buffers
    bool stopping = false;   // its cancellation was requested
    bool polling = false;    // for bytes, one-shot
    bool watching = false;   // for room and the peer's end, multishot
    bool connecting = false;
    bool quiet = false;       // a lull: received bytes are not reported
    bool ended = false;       // the kernel will report nothing more
    int error = 0;            // the error that ended the connection, until it is returned
    std::uint16_t first = 0;  // of the held buffers
    std::uint16_t last = 0;
    std::uint16_t held = 0;
    std::uint16_t offset = 0;       // in the first buffer
    std::size_t read_directly = 0;  // bytes, since the socket was last empty
  };

  struct Held {
    std::uint16_t size;
    std::uint16_t next;
  };

  // ---- the queues ----

  io_uring_sqe& entry(Endpoint* endpoint, Operation operation) {
    io_uring_sqe* sqe = nullptr;
    while ((sqe = io_uring_get_sqe(ring_)) == nullptr) io_uring_submit(ring_);
    sqe->user_data = reinterpret_cast<std::uint64_t>(endpoint) | std::to_underlying(operation);
    return *sqe;
  }
  // Counts the operation until its last completion. The io_uring_prep functions reset the user data, so it is set after
  // `prepare`.
  template <class Prepare>
  void begin(Endpoint* endpoint, Operation operation, Prepare prepare) {
    io_uring_sqe& sqe = entry(endpoint, operation);
    const std::uint64_t data = sqe.user_data;
    prepare(&sqe);
    sqe.user_data = data;
    if (endpoint != nullptr) ++endpoint->operations;
    ++operations_;
  }
  void cancel(Endpoint& endpoint, Operation operation) {
    io_uring_sqe& sqe = entry(nullptr, Operation::none);
    io_uring_prep_cancel64(&sqe, reinterpret_cast<std::uint64_t>(&endpoint) | std::to_underlying(operation), 0);
    sqe.user_data = 0;
    sqe.flags |= IOSQE_CQE_SKIP_SUCCESS;
  }

  void enter(int timeout_ms) {
    int result = 0;
    if (timeout_ms < 0) {
      result = io_uring_submit_and_wait(ring_, 1);
    } else if (timeout_ms == 0) {
      result = io_uring_submit_and_get_events(ring_);
    } else {
      result = submit_and_wait(std::chrono::milliseconds(timeout_ms));
    }
    check_entered(result);
  }
  void enter(Duration timeout) {
    check_entered(timeout == Duration::zero() ? io_uring_submit_and_get_events(ring_) : submit_and_wait(timeout));
  }
  int submit_and_wait(Duration timeout) {
    __kernel_timespec time{.tv_sec = timeout / 1s, .tv_nsec = (timeout % 1s).count()};
    io_uring_cqe* first = nullptr;
    return io_uring_submit_and_wait_timeout(ring_, &first, 1, &time, nullptr);
  }
  static void check_entered([[maybe_unused]] int result) {
    SLUICE_ASSERT(result >= 0 || result == -EINTR || result == -ETIME || result == -EAGAIN || result == -EBUSY);
  }

  void complete() {
    prefetch();
    for (unsigned left = io_uring_cq_ready(ring_); left != 0; --left) {
      io_uring_cqe* cqe = nullptr;
      if (io_uring_peek_cqe(ring_, &cqe) != 0) return;
      const std::uint64_t data = cqe->user_data;
      const int result = cqe->res;
      const unsigned flags = cqe->flags;
      io_uring_cqe_seen(ring_, cqe);
      complete(reinterpret_cast<Endpoint*>(data & ~operation_bits), static_cast<Operation>(data & operation_bits),
               result, flags);
    }
  }

  // With many connections, the endpoints of the completions are likely not in the cache.
  void prefetch() {
    unsigned head = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(ring_, head, cqe) {
      __builtin_prefetch(reinterpret_cast<const void*>(cqe->user_data & ~operation_bits));
    }
  }

  void complete(Endpoint* endpoint, Operation operation, int result, unsigned flags) {
    if (operation == Operation::none) return;
    const bool is_last = (flags & IORING_CQE_F_MORE) == 0;
    if (is_last) {
      --operations_;
      if (endpoint != nullptr) --endpoint->operations;
    }
    switch (operation) {
      case Operation::none:
        break;
      case Operation::wake:
        if (is_last && !ending_) poll_wake();
        break;
      case Operation::accept:
        accepted(static_cast<Listener&>(*endpoint), result, is_last);
        break;
      case Operation::receive:
        received(static_cast<Socket&>(*endpoint), result, flags, is_last);
        break;
      case Operation::bytes:
        polled(static_cast<Socket&>(*endpoint), result);
        break;
      case Operation::watch:
        watched(static_cast<Socket&>(*endpoint), result, is_last);
        break;
    }
  }

  // Whether the completion queue holds an unprocessed receive for this socket.
  bool has_arrived(Socket& socket) {
    const std::uint64_t data = reinterpret_cast<std::uint64_t>(&socket) | std::to_underlying(Operation::receive);
    unsigned head = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(ring_, head, cqe) {
      if (cqe->user_data == data) return true;
    }
    return false;
  }

  void poll_wake() {
    begin(nullptr, Operation::wake,
          [this](io_uring_sqe* sqe) { io_uring_prep_poll_multishot(sqe, wake_fd(), POLLIN); });
  }

  // ---- listeners ----

  static Listener& open_listener(Handle& handle, int fd) {
    auto* const listener = new Listener;
    listener->handle = &handle;
    listener->fd = fd;
    open(handle, *listener);
    return *listener;
  }

  // The kernel accepts no clients of a shared listener for this core, because close() would have to reset those that
  // the core has not taken. A one-shot poll also has each client wake another core.
  void accept_more(Listener& listener) {
    begin(&listener, Operation::accept, [&](io_uring_sqe* sqe) {
      if (listener.is_shared) return io_uring_prep_poll_add(sqe, listener.fd, POLLIN | EPOLLEXCLUSIVE);
      io_uring_prep_multishot_accept(sqe, listener.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    });
    listener.accepting = true;
  }

  static void take_client(Listener& listener) {
    const int fd = ::accept4(listener.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      listener.accepted.push_back(fd);
    } else if (errno != EAGAIN) {
      listener.error = errno;
    }
  }

  void accepted(Listener& listener, int result, bool is_last) {
    if (is_last) listener.accepting = listener.stopping = false;
    if (listener.handle == nullptr || ending_) {
      if (result >= 0 && !listener.is_shared) refuse(result);
      if (listener.operations == 0 && listener.handle == nullptr) delete &listener;
      return;
    }
    if (result >= 0 && !listener.is_shared) {
      listener.accepted.push_back(result);
      if (listener.accepting && !listener.stopping && listener.accepted.size() >= most_accepted) {
        listener.stopping = true;
        cancel(listener, Operation::accept);
      }
    } else if (result < 0 && result != -ECANCELED) {
      listener.error = -result;
    }
    listener.handle->may_read = true;
    dispatch(*listener.handle);
  }

  // Submits at once, so that new connections are refused from now on, unless others accept them.
  void close(Listener& listener) {
    listener.handle = nullptr;
    for (; listener.next != listener.accepted.size(); ++listener.next) refuse(listener.accepted[listener.next]);
    if (!listener.is_shared) ::shutdown(listener.fd, SHUT_RDWR);
    const bool accepting = listener.accepting;
    if (accepting) cancel(listener, Operation::accept);
    close_in_turn(listener.fd);
    if (!accepting) delete &listener;
    io_uring_submit_and_get_events(ring_);
  }

  // Resets the connection, as the kernel does with waiting connections when a listener is closed.
  static void refuse(int fd) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(fd);
  }

  // ---- connections ----

  static void open(Handle& handle, Endpoint& endpoint) {
    handle.fd = endpoint.fd;
    handle.backend = &endpoint;
    handle.may_read = handle.peer_ended = handle.failed = false;
    handle.may_write = true;
  }
  static Socket& attach(Handle& handle, int fd) {
    SLUICE_ASSERT(handle.fd < 0);
    auto* const socket = new Socket;
    socket->handle = &handle;
    socket->fd = fd;
    open(handle, *socket);
    return *socket;
  }

  // `late`: there is nothing to receive yet, so the kernel polls first.
  void receive_more(Socket& socket, bool late) {
    begin(&socket, Operation::receive, [&](io_uring_sqe* sqe) {
      io_uring_prep_recv_multishot(sqe, socket.fd, nullptr, 0, 0);
      sqe->flags |= IOSQE_BUFFER_SELECT;
      sqe->buf_group = buffer_group;
      if (late) sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
    });
    socket.receiving = true;
  }
  void poll_bytes(Socket& socket) {
    if (socket.polling) return;
    begin(&socket, Operation::bytes,
          [&](io_uring_sqe* sqe) { io_uring_prep_poll_add(sqe, socket.fd, POLLIN | POLLRDHUP); });
    socket.polling = true;
  }
  // Multishot, so each change gives one event, as with epoll. The kernel always reports a peer's end, so a one-shot
  // poll would complete at once each time and would have to be resubmitted again and again.
  void watch(Socket& socket) {
    if (socket.watching) return;
    begin(&socket, Operation::watch,
          [&](io_uring_sqe* sqe) { io_uring_prep_poll_multishot(sqe, socket.fd, POLLOUT | POLLRDHUP); });
    socket.watching = true;
  }
  // A submitted poll for bytes is not cancelled; it completes and wakes the reader once more. A multishot receive
  // continues during the lull.
  void set_quiet(Handle& handle, bool quiet) noexcept override {
    Socket& socket = *static_cast<Socket*>(handle.backend);
    socket.quiet = quiet;
    if (!quiet && !handle.may_read && !socket.receiving && !socket.ended) poll_bytes(socket);
  }
  void want_room(Handle& handle) noexcept override { watch(*static_cast<Socket*>(handle.backend)); }
  int untold_error(Handle& handle) noexcept override {
    return std::exchange(static_cast<Socket*>(handle.backend)->error, 0);
  }

  void received(Socket& socket, int result, unsigned flags, bool is_last) {
    if (is_last) socket.receiving = socket.stopping = false;
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
      const auto buffer = static_cast<std::uint16_t>(flags >> IORING_CQE_BUFFER_SHIFT);
      if (result > 0 && socket.handle != nullptr) {
        hold(socket, buffer, static_cast<std::uint16_t>(result));
      } else {
        give_back(buffer);
      }
    }
    if (is_over(socket)) return;
    Handle& handle = *socket.handle;
    handle.may_read = true;
    if (result > 0) {
      // The peer sends more than small requests, or the program does not read.
      if (!is_last && !socket.stopping && (result == buffer_bytes || socket.held >= most_held)) {
        socket.stopping = true;
        cancel(socket, Operation::receive);
      }
    } else if (result == 0) {
      socket.ended = handle.peer_ended = true;
    } else if (result != -ECANCELED && result != -ENOBUFS && result != -EAGAIN && result != -EINTR &&
               result != -ENOMEM) {
      socket.error = -result;
      socket.ended = handle.peer_ended = handle.failed = handle.may_write = true;
    }
    if (dispatch(handle)) settle(socket);
  }

  void polled(Socket& socket, int result) {
    socket.polling = false;
    if (is_over(socket)) return;
    Handle& handle = *socket.handle;
    tell_end(handle, result);
    handle.may_read = true;
    if (dispatch(handle)) settle(socket);
  }

  void watched(Socket& socket, int result, bool is_last) {
    if (is_last) socket.watching = false;
    if (is_over(socket)) return;
    Handle& handle = *socket.handle;
    const bool could_write = handle.may_write;
    const bool had_ended = handle.peer_ended;
    const bool had_failed = handle.failed;
    tell_end(handle, result);
    handle.may_write |= (result & POLLOUT) != 0;
    // While the kernel receives, only received() reports what there is to read.
    if (handle.peer_ended && !socket.receiving) handle.may_read = true;
    if (handle.failed) handle.may_read = true;
    if (socket.connecting && handle.may_write) {
      socket.connecting = false;
      if (!handle.failed) receive_more(socket, true);
    }
    if (handle.may_write == could_write && handle.peer_ended == had_ended && handle.failed == had_failed) {
      settle(socket);
    } else if (dispatch(handle)) {
      settle(socket);
    }
  }

  static void tell_end(Handle& handle, int result) {
    // If a poll fails, the connection can no longer be waited for, so it counts as failed.
    const bool dead = result < 0 || (result & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    handle.failed |= dead;
    handle.peer_ended |= dead || (result & POLLRDHUP) != 0;
    handle.may_write |= dead;
  }

  // Watches for the peer's end if no read or poll is active, and for room if a write needs it.
  void settle(Socket& socket) {
    const Handle& handle = *socket.handle;
    if (handle.failed || socket.watching) return;
    if (!handle.may_write || (!socket.receiving && !socket.polling)) watch(socket);
  }

  // Whether the handle was closed. Deletes the socket with its last operation.
  bool is_over(Socket& socket) {
    if (socket.handle != nullptr) return ending_;
    if (socket.operations == 0) delete &socket;
    return true;
  }

  void close(Socket& socket) {
    if (socket.held != 0) {
      // Bytes are unread. The kernel resets a connection that is closed with unread bytes in its socket; this does the
      // same for unread buffers.
      reset_on_close(*socket.handle);
      while (socket.held != 0) drop_first(socket);
    }
    socket.handle = nullptr;
    if (socket.operations == 0) {
      ::close(socket.fd);
      delete &socket;
      return;
    }
    // The close is submitted after the cancellations. The descriptor stays ours until then, also for an operation that
    // is not submitted yet.
    if (socket.receiving) cancel(socket, Operation::receive);
    if (socket.polling) cancel(socket, Operation::bytes);
    if (socket.watching) cancel(socket, Operation::watch);
    close_in_turn(socket.fd);
  }

  void close_in_turn(int fd) {
    io_uring_sqe& sqe = entry(nullptr, Operation::none);
    io_uring_prep_close(&sqe, fd);
    sqe.user_data = 0;
    sqe.flags |= IOSQE_CQE_SKIP_SUCCESS;
  }

  // ---- buffers ----

  io_uring_buf_ring* offered() { return static_cast<io_uring_buf_ring*>(offered_.get()); }
  char* bytes_of(std::uint16_t buffer) {
    return static_cast<char*>(buffers_.get()) + std::size_t{buffer} * buffer_stride;
  }
  void give_back(std::uint16_t buffer) {
    io_uring_buf_ring_add(offered(), bytes_of(buffer), buffer_bytes, buffer, io_uring_buf_ring_mask(buffer_count), 0);
    io_uring_buf_ring_advance(offered(), 1);
  }
  void hold(Socket& socket, std::uint16_t buffer, std::uint16_t size) {
    held_[buffer].size = size;
    if (socket.held++ == 0) {
      socket.first = buffer;
      socket.offset = 0;
    } else {
      held_[socket.last].next = buffer;
    }
    socket.last = buffer;
  }
  void drop_first(Socket& socket) {
    const std::uint16_t buffer = socket.first;
    socket.first = held_[buffer].next;
    socket.offset = 0;
    --socket.held;
    give_back(buffer);
  }
  std::size_t take(Socket& socket, char* into, std::size_t size) {
    std::size_t copied = 0;
    while (socket.held != 0 && copied < size) {
      const std::size_t left = held_[socket.first].size - socket.offset;
      const std::size_t piece = std::min(left, size - copied);
      std::memcpy(into + copied, bytes_of(socket.first) + socket.offset, piece);
      copied += piece;
      if (piece == left) {
        drop_first(socket);
      } else {
        socket.offset = static_cast<std::uint16_t>(socket.offset + piece);
      }
    }
    return copied;
  }

  static constexpr std::size_t offered_bytes = buffer_count * sizeof(io_uring_buf);

  Rings rings_;
  io_uring* const ring_;
  Pages buffers_;
  Pages offered_;  // the queue that passes free buffers to the kernel
  std::array<Held, buffer_count> held_{};
  std::uint64_t operations_ = 0;
  bool ending_ = false;
};

}  // namespace

std::unique_ptr<Reactor> make_uring_reactor() { return std::make_unique<UringReactor>(); }

}  // namespace sluice::core
