// Checkpoints: saving, loading, and starting from a Hugging Face folder.
#include "tessera/config/flag_builders.h"
#include "tessera/config/flag_groups.h"

namespace tessera::config {
namespace {

constexpr CommandSet kTrain = {Command::train};

bool saves(const Settings& s) { return !s.options.train.save.empty(); }

bool loads(const Settings& s) { return !s.options.train.load.empty(); }

}  // namespace

void append_checkpoint_flags(std::vector<Flag>& table) {
  append(table, Group::checkpoints,
         {Command::train, Command::generate, Command::evaluate, Command::inspect},
         {
             path("load", at(&TrainOptions::load), "FOLDER",
                  "take the model (and, to resume training, all state) from a checkpoint"),
             path("load-hf", at(&TrainOptions::load_hf), "FOLDER",
                  "take model and weights from a Hugging Face folder; to train, a checkpoint of "
                  "--load comes first"),
             path("save", at(&TrainOptions::save), "FOLDER", "write checkpoints there")
                 .only_for(kTrain),
             integer("save-interval", at(&TrainOptions::save_interval), {1, kMaxIterations},
                     "iterations between checkpoints")
                 .only_for(kTrain)
                 .only_if(saves, "--save"),
             toggle("no-save-optim", at(&TrainOptions::no_save_optim),
                    "leave the optimizer's state out of checkpoints")
                 .only_for(kTrain)
                 .only_if(saves, "--save"),
             toggle("finetune", at(&TrainOptions::finetune),
                    "load weights only: optimizer, schedule and data start anew")
                 .only_for(kTrain)
                 .only_if(loads, "--load"),
             toggle("no-load-optim", at(&TrainOptions::no_load_optim),
                    "start the optimizer's state anew")
                 .only_for(kTrain)
                 .only_if([](const Settings& s) { return loads(s) && !s.options.train.finetune; },
                          "--load without --finetune"),
             toggle("exit-on-missing-checkpoint", at(&TrainOptions::exit_on_missing_checkpoint),
                    "stop when --load has no checkpoint, instead of starting anew")
                 .only_for(kTrain)
                 .only_if(loads, "--load"),
         });
}

}  // namespace tessera::config
