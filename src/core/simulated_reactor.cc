#include "core/simulated_reactor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <netinet/in.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/buffer.h"

namespace sluice::core {
namespace {

// Bits that poll() returns and that an edge carries.
constexpr unsigned readable = 1;
constexpr unsigned writable = 2;
constexpr unsigned peer_end = 4;
constexpr unsigned hang_up = 8;
constexpr unsigned error_bit = 16;
constexpr unsigned everything = 31;

constexpr Duration turn_cost = 1us;
constexpr Duration syn_retry = 1s;
constexpr std::size_t most_syn_retries = 6;
constexpr std::size_t most_sent_of_a_file_at_once = 64 * 1024;
constexpr std::int64_t virtual_epoch_ns = 1'767'225'600'000'000'000;  // 2026-01-01T00:00:00Z

bool is_unspecified(const Address& address) {
  if (address.family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  if (address.family() == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr);
  }
  return false;
}

// Whether a socket that listens on `bound` receives connections to `wanted`. `::` accepts IPv4, too.
bool reaches(const Address& bound, const Address& wanted) {
  if (wanted.family() == AF_UNIX || bound.family() == AF_UNIX) {
    return wanted.family() == bound.family() && wanted.text() == bound.text();
  }
  if (bound.port() != wanted.port()) return false;
  if (is_unspecified(bound)) return bound.family() == AF_INET6 || wanted.family() == AF_INET;
  return bound.text() == wanted.text();
}

}  // namespace

// One end of a connection, or a listener, as the kernel sees it. It outlives its handle while packets are in flight.
struct SimulatedReactor::Socket : std::enable_shared_from_this<Socket> {
  enum class State : std::uint8_t { bound, listening, queued, connecting, connected, closed };

  int fd = -1;
  State state = State::connecting;
  Handle* handle = nullptr;  // null: in a listener's queue, or closed by the program
  Address local;
  Address remote;

  // For a connection.
  std::weak_ptr<Socket> peer;
  Buffer received;                // received bytes that are not read yet
  std::size_t outstanding = 0;    // bytes sent that the peer has not read, as far as this end knows
  Instant last_arrival{};         // arrival of the last packet from this end: TCP keeps the order
  std::uint64_t lost_before = 0;  // number of the first packet to this end that can still arrive
  int error = 0;                  // SO_ERROR
  bool fin_received = false;
  bool fin_sent = false;
  bool is_reset = false;
  bool reset_on_close = false;
  bool no_room = false;   // a send found the buffer full; the kernel announces room only then
  bool vanished = false;  // by a fault: nothing more arrives
  bool is_quiet = false;  // arriving bytes give no edge

  // For a listener.
  std::deque<std::shared_ptr<Socket>> queue;
  std::size_t backlog = 0;
  bool reuse_port = false;

  unsigned edges = 0;     // not processed yet
  bool has_edge = false;  // linked in edges_
};

struct SimulatedReactor::Packet {
  Instant when;
  std::uint64_t sequence = 0;
  Kind kind{};
  std::shared_ptr<Socket> to;  // syn: the connecting socket
  std::string bytes;
  std::size_t count = 0;  // taken: bytes; edge: bits; syn: tries so far
};

struct SimulatedReactor::Later {
  bool operator()(const Packet& a, const Packet& b) const {
    return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
  }
};

SimulatedReactor::SimulatedReactor(std::uint64_t seed, const Faults& faults)
    : Reactor(Instant(1h)), random_(seed), faults_(faults), start_(now_) {}

SimulatedReactor::~SimulatedReactor() = default;

std::int64_t SimulatedReactor::wall_clock_ns() const { return virtual_epoch_ns + (now_ - start_).count(); }

// SplitMix64.
std::uint64_t SimulatedReactor::random() {
  std::uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

bool SimulatedReactor::happens(double probability) {
  if (probability <= 0) return false;
  return static_cast<double>(random() >> 11) * 0x1p-53 < probability;
}

Duration SimulatedReactor::delay() {
  const auto span = static_cast<std::uint64_t>((faults_.max_delay - faults_.min_delay).count());
  Duration result = faults_.min_delay + Duration(static_cast<Duration::rep>(below(span + 1)));
  if (happens(faults_.stall)) {
    ++counters_.stalls;
    result += faults_.stall_delay;
  }
  return result;
}

void SimulatedReactor::note(Kind kind, const Socket& socket, std::uint64_t value) {
  const std::uint64_t words[] = {static_cast<std::uint64_t>(now_.time_since_epoch().count()),
                                 static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(socket.fd), value};
  for (const std::uint64_t word : words) history_ = (history_ ^ word) * 1099511628211u;
}

// ---- Handles ----

Result<void> SimulatedReactor::attach(Handle& handle, std::shared_ptr<Socket> socket) {
  SLUICE_ASSERT(handle.fd < 0);
  if (socket->fd < 0) socket->fd = next_fd_++;
  handle.fd = socket->fd;
  handle.may_read = handle.may_write = true;
  handle.peer_ended = handle.failed = false;
  handle.backend = socket.get();
  socket->handle = &handle;
  edge(*socket, poll(*socket));  // registration gives an edge for everything that is ready
  sockets_.emplace(socket->fd, std::move(socket));
  return {};
}

std::uint16_t SimulatedReactor::ephemeral_port() {
  next_port_ = next_port_ == 65535 ? 32768 : static_cast<std::uint16_t>(next_port_ + 1);
  return next_port_;
}

Result<void> SimulatedReactor::bind(Handle& handle, const Address& address, bool reuse_port) {
  auto socket = std::make_shared<Socket>();
  socket->local = address;
  if (address.family() != AF_UNIX && address.port() == 0) {
    do {
      socket->local = *Address::from_ip(address.ip(), ephemeral_port());
    } while (find_listener(socket->local) != nullptr);
  } else {
    for (const Socket* other : listeners_) {
      if (other->local.text() != address.text()) continue;
      if (address.family() == AF_UNIX || !reuse_port || !other->reuse_port) {
        return fail(Errc::system, EADDRINUSE);
      }
    }
  }
  socket->state = Socket::State::bound;
  socket->reuse_port = reuse_port;
  listeners_.push_back(socket.get());
  return attach(handle, std::move(socket));
}

Result<void> SimulatedReactor::start_listening(Handle& handle, int backlog) {
  Socket& socket = socket_of(handle);
  socket.state = Socket::State::listening;
  socket.backlog = static_cast<std::size_t>(std::max(backlog, 1));
  return {};
}

SimulatedReactor::Socket* SimulatedReactor::find_listener(const Address& address) {
  // If several listeners share the port, the kernel picks any of them.
  std::vector<Socket*> found;
  for (const bool exact : {true, false}) {
    for (Socket* listener : listeners_) {
      if (listener->state != Socket::State::listening) continue;
      if (exact == !is_unspecified(listener->local) && reaches(listener->local, address)) found.push_back(listener);
    }
    if (!found.empty()) break;
  }
  if (found.empty()) return nullptr;
  return found.size() == 1 ? found[0] : found[below(found.size())];
}

Result<bool> SimulatedReactor::accept(Handle& listener, Handle& accepted, Address* peer) {
  Socket& from = socket_of(listener);
  if (from.queue.empty()) {
    listener.may_read = false;
    return false;
  }
  if (happens(faults_.accept_error)) {
    ++counters_.accept_errors;
    return fail(Errc::system, EMFILE);
  }
  std::shared_ptr<Socket> socket = std::move(from.queue.front());
  from.queue.pop_front();
  if (happens(faults_.accept_abort)) {
    ++counters_.accept_errors;
    break_connection(*socket);
    socket->state = Socket::State::closed;
    return fail(Errc::system, ECONNABORTED);
  }
  socket->state = Socket::State::connected;
  if (peer != nullptr) *peer = socket->remote;
  if (auto attached = attach(accepted, std::move(socket)); !attached) return std::unexpected(attached.error());
  return true;
}

Result<bool> SimulatedReactor::connect(Handle& handle, const Address& address) {
  auto socket = std::make_shared<Socket>();
  socket->remote = address;
  const bool at_once = address.family() == AF_UNIX;
  if (at_once) {
    Socket* listener = find_listener(address);
    if (listener == nullptr) return fail(Errc::system, ENOENT);
    if (happens(faults_.refuse)) {
      ++counters_.refused;
      return fail(Errc::system, ECONNREFUSED);
    }
    if (listener->queue.size() >= listener->backlog) return fail(Errc::system, EAGAIN);
  } else {
    // The kernel replaces an unspecified address by the loopback address.
    const bool v4 = address.family() == AF_INET;
    if (is_unspecified(address)) socket->remote = *Address::from_ip(v4 ? "127.0.0.1" : "::1", address.port());
    socket->local = *Address::from_ip(v4 ? "127.0.0.1" : "::1", ephemeral_port());
  }
  auto attached = attach(handle, socket);
  if (!attached) return std::unexpected(attached.error());
  if (at_once) {
    deliver_syn(socket, 0);
    socket->state = Socket::State::connected;
    edge(*socket, writable);
    return true;
  }
  post_at(now_ + delay(), Kind::syn, std::move(socket));
  handle.may_write = false;
  return false;
}

Result<void> SimulatedReactor::connect_result(Handle& handle) {
  if (const int error = std::exchange(socket_of(handle).error, 0)) return fail(Errc::system, error);
  return {};
}

Result<Address> SimulatedReactor::local_address(const Handle& handle) const { return socket_of(handle).local; }

bool SimulatedReactor::broken_by_fault(const Handle& handle) const {
  return handle.open() && socket_of(handle).vanished;
}

void SimulatedReactor::close(Handle& handle) noexcept {
  if (handle.fd < 0) return;
  SLUICE_ASSERT(handle.reader == nullptr && handle.writer == nullptr);
  const std::shared_ptr<Socket> socket = socket_of(handle).shared_from_this();
  if (socket->state <= Socket::State::listening) {
    std::erase(listeners_, socket.get());
    for (const auto& waiting : socket->queue) {
      waiting->state = Socket::State::closed;
      post(*waiting, Kind::reset);
    }
    socket->queue.clear();
  } else if (socket->state == Socket::State::connected && !socket->is_reset) {
    // RFC 1122, 4.2.2.13: closing with unread bytes loses data, so it sends RST. Bytes from this end that the other end
    // has not received yet may be lost, too.
    if (socket->reset_on_close || !socket->received.empty()) {
      if (happens(0.5)) {
        if (auto peer = socket->peer.lock()) peer->lost_before = next_packet_;
      }
      post(*socket, Kind::reset);
    } else if (!socket->fin_sent) {
      post(*socket, Kind::fin);
    }
  }
  socket->state = Socket::State::closed;
  socket->handle = nullptr;
  socket->received.release();
  sockets_.erase(handle.fd);
  handle.fd = -1;
  handle.backend = nullptr;
  if (dispatching_ == &handle) dispatching_ = nullptr;
}

void SimulatedReactor::shutdown_write(Handle& handle) noexcept {
  Socket& socket = socket_of(handle);
  if (socket.state != Socket::State::connected || socket.is_reset || std::exchange(socket.fin_sent, true)) return;
  post(socket, Kind::fin);
  edge(socket, writable);  // Linux wakes waiters of a socket that is shut down
}

void SimulatedReactor::reset_on_close(Handle& handle) noexcept { socket_of(handle).reset_on_close = true; }

// ---- Attempts ----

Io SimulatedReactor::recv(Handle& handle, char* into, std::size_t size) {
  Socket& socket = socket_of(handle);
  if (socket.received.empty()) {
    // A received end is returned before an error that came after it. The error is returned once.
    if (!socket.fin_received) {
      if (const int error = std::exchange(socket.error, 0)) return {.error = error};
      if (!socket.is_reset) {
        handle.may_read = false;
        return {.error = EAGAIN};
      }
    }
    if (size != 0 && !handle.peer_ended) handle.may_read = false;
    return {};
  }
  std::size_t bytes = std::min(size, socket.received.size());
  // Once the end has been announced, all bytes have arrived, so the kernel cannot hold back any.
  if (!handle.peer_ended) {
    if (happens(faults_.would_block)) {
      ++counters_.would_blocks;
      handle.may_read = false;
      announce_later(socket, readable);
      return {.error = EAGAIN};
    }
    if (bytes > 1 && happens(faults_.short_read)) {
      ++counters_.short_reads;
      bytes = 1 + below(bytes - 1);
      announce_later(socket, readable);
    }
  }
  std::memcpy(into, socket.received.data(), bytes);
  socket.received.consume(bytes);
  if (socket.received.empty()) socket.received.release();
  post(socket, Kind::taken, {}, bytes);
  if (bytes < size && !handle.peer_ended) handle.may_read = false;
  return {.bytes = bytes};
}

std::size_t SimulatedReactor::room(const Socket& socket) const {
  return faults_.buffer - std::min(socket.outstanding, faults_.buffer);
}

// The common checks of send and send_file, before any byte is accepted.
Io SimulatedReactor::refuse_send(Handle& handle, Socket& socket, bool& refused) {
  refused = true;
  if (const int error = std::exchange(socket.error, 0)) return {.error = error};
  if (socket.is_reset || socket.fin_sent) return {.error = EPIPE};
  if (socket.state == Socket::State::connecting) {
    handle.may_write = false;
    return {.error = EAGAIN};
  }
  if (room(socket) == 0) {
    socket.no_room = true;
    handle.may_write = false;
    return {.error = EAGAIN};
  }
  if (happens(faults_.would_block)) {
    ++counters_.would_blocks;
    socket.no_room = true;
    handle.may_write = false;
    announce_later(socket, writable);
    return {.error = EAGAIN};
  }
  refused = false;
  return {};
}

Io SimulatedReactor::send(Handle& handle, std::span<const iovec> parts) {
  Socket& socket = socket_of(handle);
  bool refused = false;
  if (const Io io = refuse_send(handle, socket, refused); refused) return io;
  std::size_t wanted = 0;
  for (const iovec& part : parts) wanted += part.iov_len;
  if (wanted == 0) return {};

  std::size_t bytes = std::min(wanted, room(socket));
  if (bytes > 1 && happens(faults_.short_write)) {
    ++counters_.short_writes;
    bytes = 1 + below(bytes - 1);
    announce_later(socket, writable);
  }
  if (bytes < wanted) {
    socket.no_room = true;
    handle.may_write = false;
  }
  std::string taken;
  taken.reserve(bytes);
  for (const iovec& part : parts) {
    taken.append(static_cast<const char*>(part.iov_base), std::min(part.iov_len, bytes - taken.size()));
    if (taken.size() == bytes) break;
  }
  transmit(socket, std::move(taken));
  handle.sent += bytes;
  return {.bytes = bytes};
}

// The count may be short without EAGAIN if the pipe behind sendfile is full. Only EAGAIN means that the socket is full.
Io SimulatedReactor::send_file(Handle& handle, int file, std::uint64_t offset, std::size_t size) {
  Socket& socket = socket_of(handle);
  bool refused = false;
  if (const Io io = refuse_send(handle, socket, refused); refused) return io;
  std::size_t bytes = std::min({size, room(socket), most_sent_of_a_file_at_once});
  if (bytes > 1 && happens(faults_.short_write)) {
    ++counters_.short_writes;
    bytes = 1 + below(bytes - 1);
  }
  std::string taken(bytes, '\0');
  const ssize_t got = ::pread(file, taken.data(), bytes, static_cast<off_t>(offset));
  if (got < 0) return {.error = errno};
  taken.resize(static_cast<std::size_t>(got));
  if (got > 0) transmit(socket, std::move(taken));
  handle.sent += static_cast<std::uint64_t>(got);
  return {.bytes = static_cast<std::size_t>(got)};
}

std::size_t SimulatedReactor::unsent(const Handle& handle) const noexcept { return socket_of(handle).outstanding; }

// ---- The wire ----

void SimulatedReactor::post_at(Instant when, Kind kind, std::shared_ptr<Socket> to, std::string bytes,
                               std::size_t count) {
  packets_.push_back({.when = when,
                      .sequence = next_packet_++,
                      .kind = kind,
                      .to = std::move(to),
                      .bytes = std::move(bytes),
                      .count = count});
  std::push_heap(packets_.begin(), packets_.end(), Later{});
}

void SimulatedReactor::post(Socket& from, Kind kind, std::string bytes, std::size_t count) {
  if (from.vanished) return;
  auto peer = from.peer.lock();
  if (peer == nullptr) {
    // The other end is closed: data sent to it is answered with RST.
    if (kind == Kind::data) post_at(now_ + delay(), Kind::reset, from.shared_from_this());
    return;
  }
  Instant when = now_ + delay();
  if (kind != Kind::taken) when = from.last_arrival = std::max(when, from.last_arrival);
  post_at(when, kind, std::move(peer), std::move(bytes), count);
}

void SimulatedReactor::transmit(Socket& from, std::string bytes) {
  from.outstanding += bytes.size();
  counters_.bytes += bytes.size();
  while (!bytes.empty()) {
    ++counters_.segments;
    if (!from.vanished && happens(faults_.reset)) {
      ++counters_.resets;
      break_connection(from);
      return;
    }
    if (!from.vanished && happens(faults_.vanish)) {
      ++counters_.vanished;
      from.vanished = true;
      if (auto peer = from.peer.lock()) peer->vanished = true;
    }
    std::string rest;
    if (bytes.size() > 1 && happens(faults_.split)) {
      // Cuts after a single byte reveal the most errors in parsers.
      const std::size_t cut = happens(0.3) ? 1 : 1 + below(bytes.size() - 1);
      rest = bytes.substr(cut);
      bytes.resize(cut);
    }
    post(from, Kind::data, std::move(bytes));
    bytes = std::move(rest);
  }
}

// Answers a packet to a closed socket.
void SimulatedReactor::answer_with_reset(Socket& closed) {
  if (closed.is_reset) return;
  closed.is_reset = true;
  post(closed, Kind::reset);
}

// From now on only resets arrive.
void SimulatedReactor::break_connection(Socket& socket) {
  socket.vanished = true;
  socket.lost_before = next_packet_;
  post_at(now_ + delay(), Kind::reset, socket.shared_from_this());
  if (auto peer = socket.peer.lock()) {
    peer->vanished = true;
    peer->lost_before = next_packet_;
    post_at(now_ + delay(), Kind::reset, std::move(peer));
  }
}

void SimulatedReactor::announce_later(Socket& socket, unsigned bits) {
  const auto most = static_cast<std::uint64_t>(faults_.later.count());
  post_at(now_ + Duration(static_cast<Duration::rep>(1 + below(std::max<std::uint64_t>(most, 1)))), Kind::edge,
          socket.shared_from_this(), {}, bits);
}

void SimulatedReactor::arrive() {
  while (!packets_.empty() && packets_.front().when <= now_) {
    std::pop_heap(packets_.begin(), packets_.end(), Later{});
    Packet packet = std::move(packets_.back());
    packets_.pop_back();
    deliver(packet);
  }
}

void SimulatedReactor::deliver(Packet& packet) {
  Socket& to = *packet.to;
  note(packet.kind, to, packet.kind == Kind::data ? packet.bytes.size() : packet.count);
  if (packet.kind == Kind::syn) return deliver_syn(packet.to, packet.count);
  if (packet.kind == Kind::edge) return edge(to, static_cast<unsigned>(packet.count));
  if (packet.sequence < to.lost_before || to.is_reset) return;
  switch (packet.kind) {
    case Kind::accepted:
      if (to.state != Socket::State::connecting) {  // closed meanwhile
        answer_with_reset(to);
        break;
      }
      to.state = Socket::State::connected;
      edge(to, writable);
      break;
    case Kind::data:
      if (to.state == Socket::State::closed) {
        answer_with_reset(to);
        break;
      }
      to.received.append(packet.bytes);
      edge(to, readable);
      break;
    case Kind::fin:
      to.fin_received = true;
      edge(to, readable | peer_end);
      break;
    case Kind::reset:
      deliver_reset(to);
      break;
    case Kind::taken:
      SLUICE_ASSERT(packet.count <= to.outstanding);
      to.outstanding -= packet.count;
      // Linux announces room when a third of the buffer is free again, and only if a send found the buffer full.
      if (to.no_room && room(to) * 3 >= faults_.buffer) {
        to.no_room = false;
        edge(to, writable);
      }
      break;
    case Kind::syn:
    case Kind::edge:
      break;
  }
}

void SimulatedReactor::deliver_syn(const std::shared_ptr<Socket>& from, std::size_t tries) {
  Socket& client = *from;
  if (client.state != Socket::State::connecting) return;  // closed meanwhile
  Socket* listener = find_listener(client.remote);
  const bool refused = listener != nullptr && client.remote.family() != AF_UNIX && happens(faults_.refuse);
  if (listener == nullptr || refused) {
    ++counters_.refused;
    post_at(now_ + delay(), Kind::reset, from);
    return;
  }
  if (listener->queue.size() >= listener->backlog) {
    if (tries >= most_syn_retries) {
      client.error = ETIMEDOUT;
      client.is_reset = true;
      edge(client, everything);
    } else {
      post_at(now_ + syn_retry * (1 << tries), Kind::syn, from, {}, tries + 1);
    }
    return;
  }
  ++counters_.connections;
  auto server = std::make_shared<Socket>();
  server->fd = next_fd_++;
  server->state = Socket::State::queued;
  server->local = client.remote;
  server->remote = client.local;
  server->peer = from;
  client.peer = server;
  if (client.remote.family() != AF_UNIX) post(*server, Kind::accepted);
  listener->queue.push_back(std::move(server));
  edge(*listener, readable);
}

void SimulatedReactor::deliver_reset(Socket& socket) {
  if (std::exchange(socket.is_reset, true)) return;
  socket.error = socket.state == Socket::State::connecting ? ECONNREFUSED : socket.fin_received ? EPIPE : ECONNRESET;
  edge(socket, everything);
}

// ---- Edges ----

unsigned SimulatedReactor::poll(const Socket& socket) const {
  if (socket.state <= Socket::State::listening) return socket.queue.empty() ? 0 : readable;
  if (socket.is_reset) return socket.error != 0 ? everything : everything & ~error_bit;
  if (socket.state == Socket::State::connecting) return 0;
  unsigned bits = 0;
  if (!socket.received.empty()) bits |= readable;
  if (socket.fin_received) bits |= readable | peer_end;
  if (socket.fin_received && socket.fin_sent) bits |= hang_up;  // also after an orderly end in both directions
  if (socket.fin_sent || room(socket) * 3 >= faults_.buffer) bits |= writable;
  return bits;
}

void SimulatedReactor::edge(Socket& socket, unsigned bits) {
  if (socket.is_quiet) bits &= ~readable;
  if (socket.handle == nullptr || bits == 0) return;
  socket.edges |= bits;
  if (!std::exchange(socket.has_edge, true)) edges_.push_back(socket.shared_from_this());
}

void SimulatedReactor::set_quiet(Handle& handle, bool quiet) noexcept {
  Socket& socket = socket_of(handle);
  socket.is_quiet = quiet;
  edge(socket, poll(socket));  // a change of the registration gives an edge for everything that is ready
}

// Like epoll_wait: reports the current state of the sockets that had an edge. An event may be stale when it is
// dispatched.
void SimulatedReactor::harvest() {
  for (std::size_t i = edges_.size(); i > 1; --i) std::swap(edges_[i - 1], edges_[below(i)]);
  // The kernel returns no more events than requested; the rest is returned in the next turn.
  const std::size_t taken = edges_.size() > 1 && happens(0.2) ? 1 + below(edges_.size()) : edges_.size();
  batch_.clear();
  for (std::size_t i = 0; i < taken; ++i) {
    Socket& socket = *edges_[i];
    socket.has_edge = false;
    const unsigned wanted = std::exchange(socket.edges, 0);
    if (socket.handle == nullptr) continue;
    // An event carries all bits that are true, not only those that changed. The program must tolerate the extra bits
    // but must not depend on them, so bits without an edge of their own are reported only now and then.
    const unsigned all = poll(socket) & (socket.is_quiet ? ~readable : everything);
    const unsigned bits = happens(0.5) ? all : all & (wanted | peer_end | hang_up | error_bit);
    if (bits != 0) batch_.push_back({std::move(edges_[i]), bits});
  }
  edges_.erase(edges_.begin(), edges_.begin() + static_cast<std::ptrdiff_t>(taken));
}

void SimulatedReactor::dispatch(Handle& handle, unsigned bits) {
  const bool dead = (bits & (hang_up | error_bit)) != 0;
  const bool ended = dead || (bits & peer_end) != 0;
  handle.failed |= dead;
  handle.peer_ended |= ended;
  handle.may_read |= ended || (bits & readable) != 0;
  handle.may_write |= dead || (bits & writable) != 0;
  dispatching_ = &handle;
  if (handle.may_read && handle.reader != nullptr) handle.reader->on_ready(*handle.reader);
  if (dispatching_ == nullptr) return;  // the reader has closed it
  if (handle.may_write && handle.writer != nullptr) handle.writer->on_ready(*handle.writer);
  dispatching_ = nullptr;
}

void SimulatedReactor::turn(Instant until) {
  begin_turn();
  ++counters_.turns;
  arrive();
  if (woken_.exchange(false, std::memory_order_acquire) || !edges_.empty() || next_turn_is_due()) {
    now_ += turn_cost;
  } else {
    Instant next = std::min({until, timers().next(), next_lull()});
    if (!packets_.empty()) next = std::min(next, packets_.front().when);
    if (next != never) now_ = std::max(now_ + turn_cost, next);
  }
  arrive();
  harvest();
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    if (Handle* handle = batch_[i].socket->handle) {
      note(Kind::edge, *batch_[i].socket, batch_[i].bits);
      dispatch(*handle, batch_[i].bits);
    }
  }
  batch_.clear();
  while (Handle* const handle = take_due_lull()) dispatch(*handle, 0);
  timers().advance(now_);
  run_hooks();
}

bool SimulatedReactor::deadlocked() const {
  return packets_.empty() && edges_.empty() && timers_armed() == 0 && next_lull() == never && !hooks_pending() &&
         !next_turn_is_due() && !woken_.load(std::memory_order_acquire);
}

}  // namespace sluice::core
