#include "tessera/config/parse.h"

#include <algorithm>
#include <array>

#include "tessera/base/files.h"
#include "tessera/config/rules/given_rules.h"
#include "tessera/options/limits.h"

namespace tessera {
namespace {

using config::Assignments;
using config::Problems;

Assignments read_file(Command command, const Assignments& arguments, Problems& problems) {
  const auto flag = arguments.find("config");
  if (flag == arguments.end()) return {};
  const std::string& path = flag->second.values.front();
  return config::read_config(command, read_text_file(path, kMaxConfigBytes), path, problems);
}

// Flags that several commands have are stored once; each command carries what it needs along.
void share_flags(ParsedCommand& parsed) {
  if (parsed.command == Command::preprocess)
    parsed.preprocess.tokenizer = parsed.options.data.tokenizer;
  if (parsed.command == Command::tokenize) {
    parsed.tokenize.inputs = parsed.preprocess.inputs;
    parsed.tokenize.output = parsed.evaluate.output;
    parsed.tokenize.overwrite = parsed.preprocess.overwrite;
  }
  if (parsed.command == Command::train_tokenizer) {
    TrainTokenizerOptions& options = parsed.train_tokenizer;
    options.inputs = parsed.preprocess.inputs;
    options.json_keys = parsed.preprocess.json_keys;
    options.output = parsed.evaluate.output;
    options.overwrite = parsed.preprocess.overwrite;
    options.vocab_size = parsed.options.data.tokenizer.vocab_size;
    options.threads = parsed.options.train.threads;
  }
}

ParsedCommand settle(Command command, const Assignments& file, Assignments all,
                     Problems& problems) {
  ParsedCommand parsed{default_settings(command), command, std::move(all)};
  config::store(parsed.given, parsed, problems);
  problems.throw_if_any();
  share_flags(parsed);
  // A file's value that the command line replaces may be bad: then it has no effect either.
  Problems unused;
  Settings file_settings = default_settings(command);
  config::store(file, file_settings, unused);
  config::check_given({parsed.given, parsed, file, file_settings}, problems);
  problems.throw_if_any();
  return parsed;
}

ParsedCommand read_command(Command command, std::span<const std::string> args) {
  Problems problems;
  const Assignments arguments = config::read_arguments(command, args, problems);
  const Assignments file = read_file(command, arguments, problems);
  return settle(command, file, config::merge(file, arguments), problems);
}

bool is_mesh_switch(std::string_view argument) {
  return argument == "--mesh" || argument == "--mesh=true";
}

// inspect --mesh draws the ranks of a training, and takes that training's flags.
ParsedCommand read_mesh_command(std::span<const std::string> args) {
  std::vector<std::string> of_training(args.begin(), args.end());
  std::erase_if(of_training, is_mesh_switch);
  ParsedCommand parsed = read_command(Command::train, of_training);
  parsed.command = Command::inspect;
  parsed.mesh = true;
  return parsed;
}

// inspect --schedule draws that of a training, and takes that training's flags beside its own.
constexpr std::array<std::string_view, 3> kPictureFlags{"--schedule", "--schedule-file", "--trace"};

bool is_picture_flag(std::string_view argument) {
  const std::string_view name = argument.substr(0, argument.find('='));
  return std::ranges::find(kPictureFlags, name) != kPictureFlags.end();
}

ParsedCommand read_schedule_command(std::span<const std::string> args) {
  std::vector<std::string> own, of_training;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool picture = is_picture_flag(args[i]);
    (picture ? own : of_training).push_back(args[i]);
    const bool value_follows =
        picture && args[i] != kPictureFlags[0] && args[i].find('=') == std::string::npos;
    if (value_follows && i + 1 < args.size()) own.push_back(args[++i]);
  }
  const ParsedCommand picture = read_command(Command::inspect, own);
  ParsedCommand parsed = read_command(Command::train, of_training);
  parsed.command = Command::inspect;
  parsed.schedule = picture.schedule;
  parsed.schedule_file = picture.schedule_file;
  parsed.trace = picture.trace;
  return parsed;
}

// inspect CKPT is inspect --load CKPT.
std::vector<std::string> with_load(std::span<const std::string> args) {
  std::vector<std::string> all(args.begin(), args.end());
  if (!all.empty() && !all.front().empty() && all.front().front() != '-')
    all.insert(all.begin(), "--load");
  return all;
}

}  // namespace

Settings default_settings(Command command) {
  Settings settings;
  if (command == Command::evaluate || command == Command::inspect)
    settings.options.train.micro_batch_size = 1;
  // All of the data is evaluated unless --split says which part.
  if (command == Command::evaluate) settings.options.data.split = "0,1,0";
  return settings;
}

ParsedCommand parse_command(std::string_view name, std::span<const std::string> args) {
  const Command command = command_from_name(name);
  const bool help = std::find(args.begin(), args.end(), "--help") != args.end();
  if (help || (!args.empty() && args.front() == "-h")) {
    ParsedCommand parsed{default_settings(command), command, {}};
    parsed.help = true;
    return parsed;
  }
  if (command == Command::inspect && std::any_of(args.begin(), args.end(), is_mesh_switch))
    return read_mesh_command(args);
  if (command == Command::inspect && std::any_of(args.begin(), args.end(), is_picture_flag))
    return read_schedule_command(args);
  if (command == Command::inspect) return read_command(command, with_load(args));
  return read_command(command, args);
}

Options options_from_yaml(std::string_view text, std::string_view what) {
  Problems problems;
  const Assignments file = config::read_config(Command::train, text, what, problems);
  return settle(Command::train, file, file, problems).options;
}

void apply_given(const ParsedCommand& parsed, Options& options) {
  Settings settings;
  settings.options = options;
  Problems problems;
  config::store(parsed.given, settings, problems);
  problems.throw_if_any();
  options = settings.options;
}

void leave_start_to_launcher(ParsedCommand& parsed, int ranks) {
  ParallelOptions& parallel = parsed.options.parallel;
  if (parallel.nproc == ranks) return;
  const auto in_file = [&](std::string_view flag) {
    const auto found = parsed.given.find(flag);
    return found != parsed.given.end() && !found->second.where.empty();
  };
  if (in_file("nproc")) parallel.nproc = ParallelOptions().nproc;
  if (in_file("launch")) parallel.launch = ParallelOptions().launch;
}

}  // namespace tessera
