// Checkpoints: saving, loading, and starting from a Hugging Face folder.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

bool saves(const Settings& s) { return !s.options.train.save.empty(); }

bool loads(const Settings& s) { return !s.options.train.load.empty(); }

}  // namespace

void append_checkpoint_flags(std::vector<Flag>& table) {
  append(table, Group::checkpoints,
         {Command::train, Command::generate, Command::evaluate, Command::inspect, Command::convert},
         {
             path("load", at(&TrainOptions::load), "FOLDER",
                  "take the model (and, to resume training, all state) from a checkpoint"),
             path("load-hf", at(&TrainOptions::load_hf), "FOLDER",
                  "take model and weights from a Hugging Face folder; to train, a checkpoint of "
                  "--load comes first")
                 .only_for(kWithModel),
             path("save", at(&TrainOptions::save), "FOLDER", "write checkpoints there")
                 .only_for({Command::train, Command::convert}),
             integer("save-interval", at(&TrainOptions::save_interval), {1, kMaxIterations},
                     "iterations between checkpoints")
                 .only_for(kTrain)
                 .only_if(saves, "--save"),
             toggle("async-save", at(&TrainOptions::async_save),
                    "copy the state, and write it while training goes on")
                 .only_for(kTrain)
                 .only_if(saves, "--save"),
             integer("async-save-staging-mib", at(&TrainOptions::async_staging_mib),
                     {1, kMaxStagingMib},
                     "memory of a rank for these copies; less than all fills in waves")
                 .only_for(kTrain)
                 .only_if([](const Settings& s) { return s.options.train.async_save; },
                          "--async-save"),
             integer("keep-last", at(&TrainOptions::keep_last), {1, kMaxIterations},
                     "remove checkpoints that are older than so many newer ones")
                 .only_for(kTrain)
                 .only_if(saves, "--save"),
             integer("keep-every", at(&TrainOptions::keep_every), {1, kMaxIterations},
                     "of these keep the ones whose iteration is a multiple of this")
                 .only_for(kTrain)
                 .only_if([](const Settings& s) { return s.options.train.keep_last > 0; },
                          "--keep-last"),
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
             toggle("no-load-rng", at(&TrainOptions::no_load_rng),
                    "let --seed differ: new dropout masks; the samples keep their order")
                 .only_for(kTrain)
                 .only_if([](const Settings& s) { return loads(s) && !s.options.train.finetune; },
                          "--load without --finetune"),
             integer("ckpt-step", at(&TrainOptions::ckpt_step), {0, kMaxIterations},
                     "load the checkpoint of this iteration, not the newest")
                 .only_if(loads, "--load"),
             toggle("exit-on-missing-checkpoint", at(&TrainOptions::exit_on_missing_checkpoint),
                    "stop when --load has no checkpoint, instead of starting anew")
                 .only_for(kTrain)
                 .only_if(loads, "--load"),
         });
}

}  // namespace tessera::config
