// Who started this process, from variables alone.
#include "tessera/launch/environment.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using Set = std::map<std::string, std::string>;

Environment recognise(const Set& set) {
  return recognise_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  });
}

void expect_refused(const Set& set, std::initializer_list<const char*> parts) {
  test::expect_input_error([&] { recognise(set); }, parts);
}

// A set with some values changed; an empty one is unset.
Set with(Set set, const Set& changes) {
  for (const auto& [name, value] : changes) {
    set[name] = value;
    if (value.empty()) set.erase(name);
  }
  return set;
}

const Set& torchrun() {
  static const Set set{{"RANK", "5"},
                       {"WORLD_SIZE", "8"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "4"},
                       {"MASTER_ADDR", "gn10"},
                       {"MASTER_PORT", "29500"},
                       {"TORCHELASTIC_RUN_ID", "7c1f0ac2"}};
  return set;
}

const Set& mpirun() {
  static const Set set{{"OMPI_COMM_WORLD_RANK", "2"},
                       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  return set;
}

const Set& srun() {
  static const Set set{{"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NAME", "train"},
                       {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "3"},
                       {"SLURM_NTASKS", "16"}, {"SLURM_STEP_NUM_TASKS", "4"},
                       {"SLURM_LOCALID", "1"}};
  return set;
}

TEST(Environment, Alone) {
  const Environment found = recognise({});
  EXPECT_EQ(found.launcher, Launcher::none);
  EXPECT_EQ(found.size, 1);
  EXPECT_EQ(recognise({{"PMI_SIZE", "1"}}).launcher, Launcher::none);
}

TEST(Environment, Torchrun) {
  const Environment found = recognise(torchrun());
  EXPECT_EQ(found.launcher, Launcher::torchrun);
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.size, 8);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_size, 4);
  EXPECT_EQ(found.address, "gn10");
  EXPECT_EQ(found.port, 29500);
  EXPECT_EQ(recognise(with(torchrun(), {{"WORLD_SIZE", "1"}, {"RANK", "0"}, {"LOCAL_RANK", "0"}}))
                .launcher,
            Launcher::none);
}

TEST(Environment, TorchrunsOwnPortIsTaken) {
  EXPECT_EQ(recognise(with(torchrun(), {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).port, 29501);
  EXPECT_EQ(recognise(with(torchrun(), {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).port, 29500);
  EXPECT_EQ(recognise(with(torchrun(),
                           {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}}))
                .port,
            65534);
  EXPECT_EQ(recognise(with(torchrun(), {{"TESSERA_RENDEZVOUS_PORT", "4000"}})).port, 4000);
}

TEST(Environment, TheSecretIsGivenOrFollowsFromTheRun) {
  const Environment found = recognise(torchrun());
  EXPECT_FALSE(found.secret_is_weak);
  for (const Set& other : {Set{{"TORCHELASTIC_RUN_ID", "other"}}, Set{{"MASTER_ADDR", "gn11"}},
                           Set{{"MASTER_PORT", "29501"}}, Set{{"WORLD_SIZE", "9"}}})
    EXPECT_NE(recognise(with(torchrun(), other)).secret, found.secret);
  EXPECT_EQ(recognise(with(torchrun(), {{"RANK", "6"}, {"LOCAL_RANK", "2"}})).secret, found.secret);

  const Set none{{"TORCHELASTIC_RUN_ID", "none"}};
  EXPECT_TRUE(recognise(with(torchrun(), none)).secret_is_weak);
  EXPECT_TRUE(recognise(with(torchrun(), {{"TORCHELASTIC_RUN_ID", ""}})).secret_is_weak);
  EXPECT_FALSE(
      recognise(with(with(torchrun(), none), {{"MASTER_ADDR", "127.0.0.1"}})).secret_is_weak);

  const std::string given = "0123456789abcdef0123456789abcdef";
  const Environment own =
      recognise(with(with(torchrun(), none), {{"TESSERA_RENDEZVOUS_SECRET", given}}));
  EXPECT_EQ(own.secret, given);
  EXPECT_FALSE(own.secret_is_weak);
  expect_refused(with(torchrun(), {{"TESSERA_RENDEZVOUS_SECRET", "short"}}),
                 {"TESSERA_RENDEZVOUS_SECRET", "5 characters", "openssl rand"});
}

TEST(Environment, TorchrunsVariablesMustBeThereAndFit) {
  expect_refused(with(torchrun(), {{"MASTER_ADDR", ""}, {"LOCAL_RANK", ""}}),
                 {"lacks LOCAL_RANK, MASTER_ADDR", "torchrun", "unset"});
  expect_refused({{"RANK", "0"}}, {"has RANK", "WORLD_SIZE", "MASTER_PORT"});
  expect_refused(with(torchrun(), {{"RANK", "8"}}), {"RANK=8", "WORLD_SIZE=8"});
  expect_refused(with(torchrun(), {{"LOCAL_RANK", "4"}}), {"LOCAL_RANK=4", "LOCAL_WORLD_SIZE=4"});
  expect_refused(with(torchrun(), {{"RANK", "-1"}}), {"RANK='-1'"});
  expect_refused(with(torchrun(), {{"WORLD_SIZE", "8x"}}), {"WORLD_SIZE='8x'"});
  expect_refused(with(torchrun(), {{"WORLD_SIZE", "0"}}), {"WORLD_SIZE='0'"});
  expect_refused(with(torchrun(), {{"MASTER_PORT", "70000"}}), {"MASTER_PORT='70000'"});
}

TEST(Environment, Mpirun) {
  const Environment found = recognise(mpirun());
  EXPECT_EQ(found.launcher, Launcher::mpirun);
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.size, 4);
  EXPECT_EQ(found.local_rank, 0);
  EXPECT_EQ(found.local_size, 2);
  expect_refused({{"OMPI_COMM_WORLD_SIZE", "2"}}, {"lacks OMPI_COMM_WORLD_RANK"});
  expect_refused(with(mpirun(), {{"OMPI_COMM_WORLD_RANK", "4"}}),
                 {"OMPI_COMM_WORLD_RANK=4", "OMPI_COMM_WORLD_SIZE=4"});
}

TEST(Environment, ScriptsForMpirunThatSetRank) {
  EXPECT_EQ(recognise(with(mpirun(), {{"RANK", "2"}, {"WORLD_SIZE", "4"}})).launcher,
            Launcher::mpirun);
  expect_refused(with(mpirun(), {{"RANK", "1"}, {"WORLD_SIZE", "4"}}),
                 {"rank 2 of 4", "RANK=1", "WORLD_SIZE=4"});
}

TEST(Environment, TheInnermostLauncherWins) {
  Set both = torchrun();
  both.merge(Set(mpirun()));
  both.merge(Set(srun()));
  EXPECT_EQ(recognise(both).launcher, Launcher::torchrun);
  Set slurm = mpirun();
  slurm.merge(Set(srun()));
  EXPECT_EQ(recognise(slurm).launcher, Launcher::mpirun);
}

TEST(Environment, Srun) {
  const Environment found = recognise(srun());
  EXPECT_EQ(found.launcher, Launcher::srun);
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.size, 4) << "the step's number of tasks, not the job's";
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(recognise(with(srun(), {{"SLURM_STEP_NUM_TASKS", ""}})).size, 16);
  expect_refused(with(srun(), {{"SLURM_LOCALID", ""}}), {"srun", "lacks SLURM_LOCALID"});
  expect_refused(with(srun(), {{"SLURM_PROCID", "4"}}), {"SLURM_PROCID=4"});
  EXPECT_EQ(recognise(with(srun(), {{"SLURM_STEP_NUM_TASKS", "1"},
                                    {"SLURM_PROCID", "0"},
                                    {"SLURM_LOCALID", "0"}}))
                .launcher,
            Launcher::none)
      << "one task is no launch of ranks";
}

// How many of 7 tasks run on a node, where SLURM says it with these variables.
int local_size(const Set& variables) {
  const Set step{{"SLURM_STEP_NUM_TASKS", "7"}, {"SLURM_PROCID", "6"}, {"SLURM_LOCALID", "0"}};
  return recognise(with(with(srun(), step), variables)).local_size;
}

TEST(Environment, SrunsTasksPerNode) {
  const auto on_node = [](const char* list, const char* node) {
    return local_size({{"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", node}});
  };
  EXPECT_EQ(on_node("7", "0"), 7);
  EXPECT_EQ(on_node("3,4", "1"), 4);
  for (const auto& [node, tasks] : {std::pair("0", 2), {"1", 2}, {"2", 3}, {"3", 0}})
    EXPECT_EQ(on_node("2(x2),3", node), tasks) << node;
  EXPECT_EQ(local_size({}), 0);
  EXPECT_EQ(local_size({{"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"}}), 0) << "which node?";
}

TEST(Environment, SrunsOtherWordsForTasksPerNode) {
  EXPECT_EQ(local_size({{"SLURM_TASKS_PER_NODE", "3,4"}, {"SLURM_NODEID", "0"}}), 3);
  EXPECT_EQ(local_size({{"SLURM_TASKS_PER_NODE", "16"}, {"SLURM_NODEID", "0"}}), 0)
      << "the job's tasks, not the step's";
  EXPECT_EQ(local_size({{"SLURM_STEP_TASKS_PER_NODE", "3,4"},
                        {"SLURM_TASKS_PER_NODE", "4,3"},
                        {"SLURM_NODEID", "0"}}),
            3);
  EXPECT_EQ(local_size({{"SLURM_NTASKS_PER_NODE", "7"}, {"SLURM_NNODES", "1"}}), 7);
  EXPECT_EQ(local_size({{"SLURM_NTASKS_PER_NODE", "4"}, {"SLURM_NNODES", "2"}}), 0)
      << "some node has fewer, nobody says which";
}

TEST(Environment, SrunsTasksPerNodeMustBeReadableAndFit) {
  for (const char* list : {"x", "4(2)", "4(x)", "4(x2", "0(x2)", "4(x2)3", "-1"})
    expect_refused(with(srun(), {{"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", "0"}}),
                   {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"});
  expect_refused(with(srun(), {{"SLURM_STEP_TASKS_PER_NODE", "1,3"}, {"SLURM_NODEID", "0"}}),
                 {"SLURM_LOCALID=1", "1 task(s)"});
}

TEST(Environment, AScriptOfSlurmIsNoLaunch) {
  for (const Set& changes : {Set{{"SLURM_STEP_ID", ""}}, Set{{"SLURM_STEP_ID", "4294967291"}},
                             Set{{"SLURM_STEP_ID", "4294967290"}}, Set{{"SLURM_JOB_NAME", "bash"}},
                             Set{{"SLURM_JOB_NAME", "interactive"}}, Set{{"SLURM_PROCID", ""}}})
    EXPECT_EQ(recognise(with(srun(), changes)).launcher, Launcher::none);
}

TEST(Environment, AnotherMpisLauncherIsNamed) {
  expect_refused({{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}}, {"PMI_SIZE=4", "mpirun"});
}

}  // namespace
}  // namespace tessera
