#include "runtime/node_observer.h"

#include <utility>

namespace tenon {

namespace {

thread_local constinit NodeObserver* observer_of_thread = nullptr;
thread_local constinit bool reported_by_kernel = false;

}  // namespace

NodeObserver* NodeObserver::current() { return observer_of_thread; }
void NodeObserver::set_reported(bool reported) { reported_by_kernel = reported; }
bool NodeObserver::reported() { return reported_by_kernel; }

NodeObserver::Scope::Scope(NodeObserver* observer) : before_(std::exchange(observer_of_thread, observer)) {}
NodeObserver::Scope::~Scope() { observer_of_thread = before_; }

}  // namespace tenon
