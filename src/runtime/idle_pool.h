// Objects that runs use one after the other: what a run would otherwise have to allocate.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/guarded.h"

namespace tenon {

// Threads: any. Objects are made, and end, with no lock held.
template <typename T>
class IdlePool {
 public:
  // An object of the pool, or a new one; given back at the end of the scope, with what the user has left in it.
  // Lifetime: the pool outlives it.
  class Lease {
   public:
    explicit Lease(const IdlePool& pool) : pool_(pool), object_(pool.find()) {
      if (object_ == nullptr) object_ = std::make_unique<T>();
    }
    ~Lease() { pool_.idle_.lock()->push_back(std::move(object_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    T& operator*() const { return *object_; }
    T* operator->() const { return object_.get(); }

   private:
    const IdlePool& pool_;
    std::unique_ptr<T> object_;
  };

  Lease take() const { return Lease(*this); }

 private:
  std::unique_ptr<T> find() const {
    auto idle = idle_.lock();
    if (idle->empty()) return nullptr;
    std::unique_ptr<T> object = std::move(idle->back());
    idle->pop_back();
    return object;
  }

  Guarded<std::vector<std::unique_ptr<T>>> idle_;
};

}  // namespace tenon
