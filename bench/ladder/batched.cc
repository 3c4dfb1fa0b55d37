// A variant of `prepared`: io_uring instead of epoll. The reads and sends of a turn go to the kernel in one system
// call, and it reads into buffers of a pool that all connections share.
#include <liburing.h>

#include "ladder.h"

namespace {

constexpr unsigned entries = 4096, buffers = 4096, buffer_bytes = 4096;
constexpr int group = 1;
enum Kind : std::uint64_t { accepted, received, sent };

io_uring_sqe* entry(io_uring& ring) {
  io_uring_sqe* sqe = ::io_uring_get_sqe(&ring);
  if (sqe == nullptr) {
    ::io_uring_submit(&ring);
    sqe = ::io_uring_get_sqe(&ring);
  }
  return sqe;
}

void mark(io_uring_sqe* sqe, Kind kind, int fd) {
  ::io_uring_sqe_set_data64(sqe, static_cast<std::uint64_t>(fd) << 2 | kind);
}

void receive(io_uring& ring, int fd) {
  io_uring_sqe* const sqe = entry(ring);
  ::io_uring_prep_recv_multishot(sqe, fd, nullptr, 0, 0);
  mark(sqe, received, fd);
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = group;
}

}  // namespace

int main(int argc, char** argv) {
  const ladder::Arguments arguments = ladder::arguments(argc, argv);
  const std::string answer = ladder::answer_from(arguments.file, true);
  const int listener = ladder::listen_on(arguments.port);
  io_uring ring;
  io_uring_params parameters{};
  parameters.flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  parameters.cq_entries = 4 * entries;
  if (::io_uring_queue_init_params(entries, &ring, &parameters) != 0) return 1;
  auto* const pool = static_cast<io_uring_buf_ring*>(std::aligned_alloc(4096, buffers * sizeof(io_uring_buf)));
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(pool);
  registration.ring_entries = buffers;
  registration.bgid = group;
  if (::io_uring_register_buf_ring(&ring, &registration, 0) != 0) return 1;
  ::io_uring_buf_ring_init(pool);
  std::string memory(std::size_t{buffers} * buffer_bytes, '\0');
  const auto give = [&](unsigned id) {
    ::io_uring_buf_ring_add(pool, memory.data() + std::size_t{id} * buffer_bytes, buffer_bytes,
                            static_cast<unsigned short>(id), ::io_uring_buf_ring_mask(buffers), 0);
    ::io_uring_buf_ring_advance(pool, 1);
  };
  for (unsigned id = 0; id < buffers; ++id) give(id);
  io_uring_sqe* const accepting = entry(ring);
  ::io_uring_prep_multishot_accept(accepting, listener, nullptr, nullptr, 0);
  mark(accepting, accepted, listener);
  for (;;) {
    ::io_uring_submit_and_wait(&ring, 1);
    io_uring_cqe* cqe;
    unsigned head, seen = 0;
    io_uring_for_each_cqe(&ring, head, cqe) {
      ++seen;
      const auto kind = static_cast<Kind>(cqe->user_data & 3);
      const int fd = static_cast<int>(cqe->user_data >> 2);
      if (kind == accepted && cqe->res >= 0) {
        const int on = 1;
        ::setsockopt(cqe->res, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        receive(ring, cqe->res);
      }
      if (kind != received) continue;
      if (cqe->res > 0) {
        const unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
        const std::string_view input(memory.data() + std::size_t{id} * buffer_bytes,
                                     static_cast<std::size_t>(cqe->res));
        for (int left = ladder::requests_in(input); left > 0; --left) {
          io_uring_sqe* const sqe = entry(ring);
          ::io_uring_prep_send(sqe, fd, answer.data(), answer.size(), MSG_WAITALL | MSG_NOSIGNAL);
          mark(sqe, sent, fd);
        }
        give(id);
        if ((cqe->flags & IORING_CQE_F_MORE) == 0) receive(ring, fd);
      } else if (cqe->res == -ENOBUFS) {
        receive(ring, fd);
      } else {
        ::close(fd);
      }
    }
    ::io_uring_cq_advance(&ring, seen);
  }
}
