// A world whose applications use block devices that can lose what they cached.
#include <algorithm>

#include "sim/cluster/world.hpp"
#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

void World::make_disks() {
  const auto fail = [this](const std::string& what) {
    judge_.fail(Oracle::devices, now(), "not so: " + what);
  };
  const auto hits = [this](std::uint32_t one_of) { return choice_.draw(one_of, Label::disk) == one_of - 1; };
  const WorkloadOptions& load = scenario_.workload;
  disks_ = std::make_unique<Disks>(choice_, load.disk_time, load.opening, fail);
  if (options_.verbose) disks_->tell([this](const std::string& what) { journal_.add_step(now(), what); });
  for (const auto& client : clients_) {
    client->disks = std::make_unique<DiskBook>(*disks_, scenario_.client, fail);
    for (const std::string& name : disk_names(client->id - 1, load.disks)) {
      BlockDisk& disk = disks_->add(name, kSectorsOfADisk, *client->disks);
      if (load.one_export) disks_->join(name, disks_->all().begin()->first);
      disk.replaceable = load.replaces;
      disk.memory = hits(6);
      disk.volatile_cache = !hits(5);
      disk.fua = !hits(3);
    }
  }
}

// The server comes back, and has not opened anything yet.
void World::change_disks() {
  if (!scenario_.disks_change || healed_) return;
  for (const auto& [name, disk] : disks_->all()) {
    switch (choice_.draw(4, Label::closing)) {
      case 1:
        judge_.mark(Mark::disk_exchanged);
        disks_->exchange(name);
        break;
      case 2:
        disks_->resize(name, kSectorsOfADisk / 2 + choice_.draw(kSectorsOfADisk, Label::closing));
        break;
      case 3:
        judge_.mark(Mark::disk_reshaped);
        disks_->reshape(disks_->at(name));
        break;
      default:
        break;
    }
  }
}

// As after a reboot, when file systems are mounted and hardware appears one after the other.
void World::delay_disks() {
  if (!scenario_.disks_late || healed_) return;
  for (const auto& [name, disk] : disks_->all()) {
    if (choice_.draw(2, Label::late_disk) == 0) continue;
    judge_.mark(Mark::disk_late);
    const Nanos time = scenario_.interval * (1 + choice_.draw(12, Label::late_disk));
    disks_->keep_away(name, Disks::draw_absence(choice_), now() + time);
  }
}

std::size_t World::in_storage() const noexcept {
  return storage_.under_way() + (disks_ != nullptr ? disks_->under_way() : 0);
}

Nanos World::disks_time() const noexcept {
  if (disks_ == nullptr || !server_.up) return kNever;
  const Nanos next = disks_->next_time();
  return next == kNever ? kNever : std::max({now(), server_.paused_until, next});
}

void World::disks_due() {
  server_.driver->storage_due(*server_.fabric, now(server_));
}

// In their order: one that waits for another IO of its sectors holds back those behind it.
void World::disk_steps_due(ClientNode& client) {
  if (client.disk_steps.empty() || client.paused_until > now()) return;
  const DiskLoad::Call call{*client.fabric, now(), now(client)};
  while (!client.disk_steps.empty() && client.driver->disks()->carry_out(call, client.disk_steps.front()))
    client.disk_steps.pop_front();
  disk_result(client);
}

// A step of the script that is about a disk of a client.
void World::disk_step(const Step& step) {
  if (disks_ == nullptr || step.client == 0 || step.client > clients_.size()) return;
  if (step.con >= scenario_.workload.disks) return;
  const std::string name = disk_names(step.client - 1, scenario_.workload.disks)[step.con];
  BlockDisk& disk = disks_->at(name);
  switch (step.verb) {
    case Step::Verb::resize:
      return disks_->resize(name, std::clamp<std::uint32_t>(step.number, kSmallestDisk, kLargestDisk));
    case Step::Verb::forbid:
      disk.writable = step.number == 0;
      return;
    case Step::Verb::take_away:
      disk.is_to_be_taken_away = true;
      return;
    case Step::Verb::fail_sync:
      disk.next_sync_fails = true;
      return;
    default:
      if (client_of(step) != nullptr) client_of(step)->disk_steps.push_back(step);
  }
}

void World::act_on_disks(ClientNode& client) {
  if (!client.up || client.leaving) return;
  disk_steps_due(client);
  if (client.left == 0) return;
  if (client.next_submit > now() || client.paused_until > now()) return;
  const ScopedGroup group(choice_, Label::workload);
  const DiskLoad::Call call{*client.fabric, now(), now(client)};
  DiskLoad& load = *client.driver->disks();
  if (client.probing) {
    load.probe(call);
    client.left = 0;
  }
  const bool burst = choice_.fires(scenario_.workload.burst_rate, Label::workload_gap);
  while (client.left > 0) {
    --client.left;
    if (!choice_.skips(Label::request)) {
      const ScopedGroup one(choice_, Label::request);
      load.act(call, !healed_);
    }
    if (!burst) break;
  }
  client.next_submit = now() + draw_time(choice_, scenario_.workload.gap, Label::workload_gap);
  disk_result(client);
}

void World::disk_result(ClientNode& client) {
  const std::uint32_t before = client.under_way;
  client.under_way = client.disks->under_way();
  client.reads_under_way = client.disks->reads();
  if (client.under_way != before) hash_ = fold(hash_, std::uint64_t{client.id} << 32 ^ client.under_way);
}

void World::disks_die(NodeId node) {
  if (node != 0) return clients_[node - 1]->disks->dies();
  const bool host = next_death_ ? *next_death_ == Death::host : choice_.draw(2, Label::disk) != 0;
  next_death_.reset();
  disks_->crash(host ? Death::host : Death::process, now());
}

bool World::devices_open() {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const auto& client) { return client->driver->disks()->all_open(); });
}

void World::check_closed_disks() {
  const auto expect = [this](bool holds, const std::string& what) {
    if (!holds) judge_.fail(Oracle::devices, now(), "not so: " + what);
  };
  expect(disks_->idle(), "a server without sessions keeps nothing of them");
  for (const auto& [name, disk] : disks_->all())
    expect(disk.holders == 0, "nobody holds " + name + " open any more");
}

}  // namespace rtrs::sim
