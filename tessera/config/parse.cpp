#include "tessera/config/parse.h"

#include <algorithm>
#include <array>

#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/config/rules/given_rules.h"
#include "tessera/options/limits.h"

namespace tessera {
namespace {

using config::Assignments;
using config::Notes;
using config::Problems;

Assignments read_file(Command command, const Assignments& arguments, Problems& problems,
                      Notes& notes) {
  const auto flag = arguments.find("config");
  if (flag == arguments.end()) return {};
  const std::string& path = flag->second.values.front();
  return config::read_config(command, read_text_file(path, kMaxConfigBytes), path, problems, notes);
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

// GPT-2's files need no --tokenizer-type, as in Megatron.
bool names_gpt2_files(Command command, const Assignments& given) {
  return (command == Command::train || command == Command::preprocess) &&
         !given.contains("tokenizer-type") && given.contains("vocab-file") &&
         given.contains("merge-file");
}

Settings settings_of(Command command, const Assignments& given, Problems& problems) {
  Settings settings = default_settings(command);
  if (names_gpt2_files(command, given)) settings.options.data.tokenizer.kind = TokenizerKind::gpt2;
  config::store(given, settings, problems);
  return settings;
}

// A flag without effect is as if it had not been given. Leaving it out may leave another one
// without effect.
void drop_ineffective(ParsedCommand& parsed, const Assignments& file) {
  Problems reported;  // already, for the same values
  const Settings file_settings = settings_of(parsed.command, file, reported);
  for (bool dropped = true; dropped;) {
    dropped = config::drop_ineffective({parsed.command, parsed.given, parsed, file, file_settings},
                                       parsed.problems, parsed.notes);
    if (dropped)
      static_cast<Settings&>(parsed) = settings_of(parsed.command, parsed.given, reported);
  }
}

// With --strict-flags every flag has to be one of Tessera's, and have an effect.
void apply_strictness(ParsedCommand& parsed) {
  if (!parsed.strict_flags) return;
  for (const std::string& warning : parsed.notes.warnings)
    parsed.problems.add("{} (--strict-flags)", warning);
  for (const auto& [flag, text] : parsed.notes.already_so)
    parsed.problems.add("--{}: without need: {} (--strict-flags)", flag, text);
}

ParsedCommand settle(Command command, const Assignments& file, Assignments all, Problems problems,
                     Notes notes) {
  ParsedCommand parsed{default_settings(command), command, std::move(all), std::move(problems),
                       std::move(notes)};
  static_cast<Settings&>(parsed) = settings_of(command, parsed.given, parsed.problems);
  drop_ineffective(parsed, file);
  config::add_remarks(parsed.given, parsed.notes);
  config::check_partners(parsed.given, parsed.options, parsed.problems);
  apply_strictness(parsed);
  share_flags(parsed);
  return parsed;
}

ParsedCommand read_command(Command command, std::span<const std::string> args) {
  Problems problems;
  Notes notes;
  const Assignments arguments = config::read_arguments(command, args, problems, notes);
  const Assignments file = read_file(command, arguments, problems, notes);
  return settle(command, file, config::merge(file, arguments), std::move(problems),
                std::move(notes));
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

ParsedCommand parse_without_check(std::string_view name, std::span<const std::string> args) {
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

ParsedCommand parse_command(std::string_view name, std::span<const std::string> args) {
  ParsedCommand parsed = parse_without_check(name, args);
  parsed.problems.throw_if_any();
  return parsed;
}

void log_notes(const config::Notes& notes) {
  for (const std::string& warning : notes.warnings) log_warning("{}", warning);
  if (const std::string line = notes.already_so_line(); !line.empty()) log_info("{}", line);
}

Options options_from_yaml(std::string_view text, std::string_view what) {
  Problems problems;
  Notes notes;
  const Assignments file = config::read_config(Command::train, text, what, problems, notes);
  const ParsedCommand parsed =
      settle(Command::train, file, file, std::move(problems), std::move(notes));
  parsed.problems.throw_if_any();
  return parsed.options;
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
