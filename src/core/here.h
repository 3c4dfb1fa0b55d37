#pragma once

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/mesh.h"
#include "core/reactor.h"

namespace sluice::core {

// The means of one core for an object that lives there. Outlives the object.
struct Here {
  Reactor& reactor;
  Mailbox& mailbox;
  MeshPort& mesh;
  BlockingPool& threads;
};

}  // namespace sluice::core
