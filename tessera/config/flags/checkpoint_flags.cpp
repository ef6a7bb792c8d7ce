// Checkpoints: saving, loading, and starting from a Hugging Face folder.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

bool saves(const Settings& s) { return !s.options.train.save.empty(); }

bool loads(const Settings& s) { return !s.options.train.load.empty(); }

bool upcycles(const Settings& s) {
  return s.options.model.num_experts > 0 && (loads(s) || !s.options.train.load_hf.empty());
}

}  // namespace

void append_checkpoint_flags(std::vector<Flag>& table) {
  append(
      table, Group::checkpoints,
      {Command::train, Command::generate, Command::evaluate, Command::inspect, Command::convert},
      {
          path("load", at(&TrainOptions::load), "FOLDER",
               "load the model from a checkpoint; train resumes from its full state"),
          path("load-hf", at(&TrainOptions::load_hf), "FOLDER",
               "load model and weights from a Hugging Face folder; for train, a checkpoint in "
               "--load takes precedence")
              .only_for(kWithModel),
          path("save", at(&TrainOptions::save), "FOLDER", "folder to write checkpoints to")
              .only_for({Command::train, Command::convert}),
          integer("save-interval", at(&TrainOptions::save_interval), {1, kMaxIterations},
                  "iterations between checkpoints [default: one at the end]")
              .only_for(kTrain)
              .only_if(saves, "--save"),
          toggle("async-save", at(&TrainOptions::async_save),
                 "copy the state to host memory and write it in the background")
              .only_for(kTrain)
              .only_if(saves, "--save"),
          integer("async-save-staging-mib", at(&TrainOptions::async_staging_mib),
                  {1, kMaxStagingMib},
                  "staging memory per rank in MiB; if the state is larger, it is copied in "
                  "several rounds")
              .only_for(kTrain)
              .only_if([](const Settings& s) { return s.options.train.async_save; },
                       "--async-save"),
          integer("keep-last", at(&TrainOptions::keep_last), {1, kMaxIterations},
                  "number of newest checkpoints to keep; older ones are removed")
              .only_for(kTrain)
              .only_if(saves, "--save"),
          integer("keep-every", at(&TrainOptions::keep_every), {1, kMaxIterations},
                  "also keep checkpoints at iterations that are a multiple of this")
              .only_for(kTrain)
              .only_if([](const Settings& s) { return s.options.train.keep_last > 0; },
                       "--keep-last"),
          toggle("no-save-optim", at(&TrainOptions::no_save_optim),
                 "do not save the optimizer state")
              .only_for(kTrain)
              .only_if(saves, "--save"),
          toggle("finetune", at(&TrainOptions::finetune),
                 "load only the weights; optimizer, schedule and data start from the beginning")
              .only_for(kTrain)
              .only_if(loads, "--load"),
          toggle("moe-use-upcycling", at(&TrainOptions::upcycle),
                 "the model to load is dense: each expert starts as a copy of its layer's MLP, and "
                 "routers start anew. Drop the flag when the run resumes")
              .only_for(kTrain)
              .only_if(upcycles, "--num-experts with --load or --load-hf"),
          toggle("no-load-optim", at(&TrainOptions::no_load_optim),
                 "do not load the optimizer state")
              .only_for(kTrain)
              .only_if([](const Settings& s) { return loads(s) && !s.options.train.finetune; },
                       "--load without --finetune"),
          toggle("no-load-rng", at(&TrainOptions::no_load_rng),
                 "allow another --seed, which changes dropout masks; the order of samples stays "
                 "the same")
              .only_for(kTrain)
              .only_if([](const Settings& s) { return loads(s) && !s.options.train.finetune; },
                       "--load without --finetune"),
          toggle("use-checkpoint-args", at(&TrainOptions::use_checkpoint_args),
                 "take the model from the checkpoint of --load, if there is one")
              .only_for(kTrain)
              .only_if(loads, "--load"),
          toggle("use-checkpoint-opt-param-scheduler", at(&TrainOptions::use_checkpoint_scheduler),
                 "take the schedule of learning rate and weight decay from the checkpoint of "
                 "--load, if there is one")
              .only_for(kTrain)
              .one_of("schedule of a resumed run")
              .only_if([](const Settings& s) { return loads(s) && !s.options.train.finetune; },
                       "--load without --finetune"),
          action(
              "override-opt-param-scheduler", [](Settings&, bool) {},
              [](const Settings&) { return false; },
              "a resumed run follows the schedule of its flags, as it does anyway")
              .only_for(kTrain)
              .one_of("schedule of a resumed run")
              .never_shown(),
          integer("ckpt-step", at(&TrainOptions::ckpt_step), {0, kMaxIterations},
                  "load the checkpoint of this iteration instead of the newest")
              .only_if(loads, "--load"),
          toggle("exit-on-missing-checkpoint", at(&TrainOptions::exit_on_missing_checkpoint),
                 "stop if --load has no checkpoint, instead of starting from scratch")
              .only_for(kTrain)
              .only_if(loads, "--load"),
      });
}

}  // namespace tessera::config
