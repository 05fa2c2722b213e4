/* SPDX-License-Identifier: Apache-2.0
 *
 * The command turnphase: shows plans, and plays conversations. It uses only the public headers. Data goes to standard
 * output, everything else to standard error. The exit status tells the result (turnphase exit-status). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/nearest.h"
#include "cli/common/options.h"
#include "cli/common/visible.h"
#include "cli/inspect/trace.h"
#include "cli/run/host.h"
#include "cli/run/model.h"

static int print_exit_status(const cli_arguments *arguments, cli_output *output) {
  (void)arguments;
  cli_exit_print(output);
  return CLI_OK;
}

static const cli_command commands[] = {
    {.bit = CLI_RUN,
     .name = "run",
     .operand = "CONVERSATION",
     .summary = "play a conversation through every phase",
     .examples = "  turnphase run --script model.yaml talk.yaml\n"
                 "  turnphase run --model openai:qwen3 --base-url http://localhost:8080/v1 talk.yaml\n"
                 "  ANTHROPIC_API_KEY=… turnphase run --model anthropic:NAME talk.yaml\n"
                 "  turnphase run --script model.yaml --data ./kept talk.jsonl   # goes on where the last run ended\n"
                 "  turnphase run --script model.yaml --load ./guards.so talk.yaml\n"
                 "  generate | turnphase run --script model.yaml --json | jq 'select(.event == \"context\")'\n",
     .description = "Plays each turn of a conversation (a file, or standard input for none or -), session after\n"
                    "session, and shows what every phase did. The conversation is YAML (.yaml, .yml) or JSON Lines:\n"
                    "{\"session\": …, \"turn\": …, \"user\": …} a line. All of it is checked before the first turn.",
     .run = cli_run},
    {.bit = CLI_CHAT,
     .name = "chat",
     .summary = "talk with a model in the terminal",
     .examples = "  turnphase chat --model openai:qwen3 --base-url http://localhost:8080/v1\n"
                 "  ANTHROPIC_API_KEY=… turnphase chat --model anthropic:NAME --data ./kept\n"
                 "  turnphase chat --script model.yaml --load ./tools.so --verbose\n"
                 "  echo 'Hello!' | turnphase chat --model openai:NAME --json\n",
     .description = "Reads messages and shows what the model answers as it comes, with its tool calls. /help lists\n"
                    "the commands of the conversation. Ctrl-C cancels the turn, Ctrl-D leaves. With --data the next\n"
                    "chat with the same --session goes on where this one ended. Where standard input is no terminal,\n"
                    "each line is a message.",
     .run = cli_chat_command},
    {.bit = CLI_PLAN,
     .name = "plan",
     .operand = "PHASE",
     .summary = "show in what order the handlers of a phase run",
     .examples = "  turnphase plan\n"
                 "  turnphase plan turn.pre_prompt_context\n"
                 "  turnphase plan --load ./guards.so --dot tool.pre | dot -Tsvg > plan.svg\n",
     .description = "Shows the compiled plan of one phase, by name or alias, or of every phase that has subscriptions.",
     .run = cli_plan},
    {.bit = CLI_PHASES,
     .name = "phases",
     .summary = "list the phases of a turn",
     .examples = "  turnphase phases\n"
                 "  turnphase phases --json | jq '.phases[].phase'\n",
     .description = "Lists every phase with how its handlers work together, what they may contribute, its limits, its\n"
                    "aliases, and how many subscriptions it has.",
     .run = cli_phases},
    {.bit = CLI_BENCH,
     .name = "bench",
     .operand = "A B",
     .operands_max = 2,
     .summary = "measure how long phases take, and their handlers",
     .examples = "  turnphase bench --load ./guards.so\n"
                 "  turnphase bench --load ./guards.so --phase tool.pre --payload call.json --histogram phases\n"
                 "  turnphase bench --load ./guards.so --no-memory --concurrency 64 --turns 100000\n"
                 "  turnphase bench --load ./guards.so --rate 1000 --turns 10000 --hdr turns.hlog\n"
                 "  turnphase bench --script model.yaml --hooks .system/hooks --files .\n"
                 "  turnphase bench --compare ./old.so ./new.so --turns 200\n"
                 "  turnphase bench --load ./guards.so --baseline before.json\n"
                 "  turnphase bench --load ./guards.so --json | jq '.phases[] | {phase, p99: .duration_ns.p99}'\n",
     .description = "Runs turns through the phases that have subscriptions, one phase after the other in the order of\n"
                    "the table, and shows how long each lasted, what of that were its handlers and what the runtime\n"
                    "around them. A turn is a bare one, without session, model and tool calls: phases only. With\n"
                    "--script a turn is whole: the library drives it, with its session, the responses of the script\n"
                    "in the model's place, its tool calls with their gates, and what runs after it.",
     .run = cli_bench},
    {.bit = CLI_HOOKS,
     .name = "hooks",
     .operand = "ACTION OPERAND…",
     .actions = "list check trust untrust run import stats new",
     .operands_max = CLI_OPERANDS_MAX,
     .summary = "check, trust, try and make declared hooks",
     .examples = "  turnphase hooks new guard no_rm .system/hooks --language python\n"
                 "  turnphase hooks check .system/hooks\n"
                 "  turnphase hooks trust .system/hooks\n"
                 "  turnphase hooks list .system/hooks\n"
                 "  turnphase hooks stats ./kept --since 7d\n"
                 "  echo '{\"tool\": \"shell\"}' | turnphase hooks run .system/hooks no_rm --payload -\n",
     .description =
         "list DIR          the hooks of a directory, and whether it is trusted\n"
         "check DIR         what a commit would say: file, line, column and remedy\n"
         "trust DIR         trust the content of a directory as it is now; untrust DIR takes that back\n"
         "run DIR ID        run one hook of a trusted directory alone, with --payload\n"
         "import SETTINGS   show what becomes of another host's hooks; --write DIR writes them\n"
         "stats DATA        per hook of a data directory: calls, denials, failures, p50, p99, last fired, with\n"
         "                  --since; those that never fired stand last; --hooks DIR adds those\n"
         "                  that no record has\n"
         "new KIND ID DIR   make a hook with its script and a test; KIND is guard,\n"
         "                  preflight, context, log or stop: one for each of the five events; or\n"
         "                  summary: two hooks, which show a session how the one before it ended",
     .run = cli_hooks},
    {.bit = CLI_TOOL,
     .name = "tool",
     .operand = "ACTION TOOL|KEY",
     .actions = "list call create run",
     .operands_max = 2,
     .summary = "list tools, call one with every gate of a turn, or create and run a task",
     .examples = "  turnphase tool list --load ./tools.so\n"
                 "  turnphase tool call files_read --files . --arguments '{\"path\": \"notes.txt\"}'\n"
                 "  turnphase tool call deploy --load ./tools.so --caller ci --environment prod --json\n"
                 "  turnphase tool create deploy --load ./tools.so --data ./kept --key monday\n"
                 "  turnphase tool run monday --load ./tools.so --data ./kept --caller ci\n",
     .description =
         "list        the tools that a turn would have\n"
         "call TOOL   calls one, without session and model: policies, tool.create, tool.rewrite, schema,\n"
         "            tool.pre, questions (on the terminal), the tool, tool.result and tool.post. Exit: 0 it\n"
         "            did what was asked, 1 it did not, 77 it was denied, 78 no such tool, or arguments that\n"
         "            its schema refuses, 124 it did not end within its limit\n"
         "create TOOL asks tool.create alone and keeps the call in --data DIR; prints its key\n"
         "run KEY     does the rest of such a call, once, in any process; exit as call, 75 it is being run",
     .run = cli_tool},
    {.bit = CLI_MCP,
     .name = "mcp",
     .operand = "ACTION TOOL|SERVER",
     .actions = "list call check pin serve",
     .operands_max = 2,
     .summary = "tools of MCP servers: list, call, see what the gates say, and serve them guarded",
     .examples =
         "  turnphase mcp list --mcp files='npx -y @modelcontextprotocol/server-filesystem .'\n"
         "  turnphase mcp list --mcp-config .mcp.json --json | jq -r .tool\n"
         "  echo '{\"path\": \".\"}' | turnphase mcp call mcp__files__list_directory --mcp-config .mcp.json -a -\n"
         "  turnphase mcp check files --mcp-config .mcp.json --hooks .system/hooks\n"
         "  turnphase mcp serve --mcp-config .mcp.json --hooks .system/hooks --data ./kept\n"
         "  turnphase mcp serve --http 127.0.0.1:8808 --files . --ask data --data ./kept\n",
     .description =
         "list           the tools of the servers, as a turn would have them\n"
         "call TOOL      calls one with every gate of a turn; exit as of tool call\n"
         "check [SERVER] what tool.pre says of each tool, called without arguments: allow, ask or deny, by whom\n"
         "               and why. 1: the server has no tool\n"
         "pin SERVER     what its tools are now is what they shall be: with --data, which pins them when they are\n"
         "               first seen\n"
         "serve          offers the tools to a client that speaks MCP, on standard input and output or over\n"
         "               HTTP: each call goes through the gates and is recorded; SIGTERM waits for open calls",
     .run = cli_mcp},
    {.bit = CLI_SERVE,
     .name = "serve",
     .operand = "AGENTS.yaml",
     .summary = "serve turns to clients of the OpenAI API, over HTTP",
     .examples =
         "  turnphase serve --model script:model.yaml\n"
         "  turnphase serve agents.yaml --data ./kept\n"
         "  turnphase serve --model openai:gpt-4o --hooks .system/hooks --data ./kept\n"
         "  turnphase serve --model openai:NAME --base-url http://localhost:8000/v1 --http 0.0.0.0:80 --keys keys\n",
     .description =
         "Clients change their base URL to http://127.0.0.1:8080/v1, and each of their requests becomes a turn:\n"
         "hooks guard it, tools and memory are there, and --data keeps its records. SIGTERM lets turns that run\n"
         "end; SIGHUP looks at the hooks again, and opens the access log again; SIGQUIT prints the state.\n"
         "docs/serve.md has the rest, such as a service of systemd with its socket.",
     .run = cli_serve},
    {.bit = CLI_RUNS,
     .name = "runs",
     .operand = "DIR",
     .summary = "list what ran, from a data directory",
     .examples = "  turnphase runs ./kept\n"
                 "  turnphase runs ./kept --session monday --phase tool.pre --state failed\n"
                 "  turnphase runs ./kept --follow --state failed\n"
                 "  turnphase runs ./kept --since 1h --limit 0 --json | jq -r 'select(.attempts > 1) | .run'\n",
     .description = "Lists the runs of handlers that the store of a data directory has, newest first: when, in which\n"
                    "turn and phase, how it ended and how long it ran. A process may work on the directory\n"
                    "meanwhile. The last word of a line is what show takes.",
     .run = cli_runs},
    {.bit = CLI_SHOW,
     .name = "show",
     .operand = "DIR TURN|RUN",
     .operands_max = 2,
     .summary = "show one turn, or one run of a phase",
     .examples = "  turnphase show ./kept monday-1\n"
                 "  turnphase show ./kept 91d3a8c0f2b54e17-12\n",
     .description = "Shows the record of a turn with its phases, newest first, and every subscription of each: how it\n"
                    "ended and why, how long it waited and ran. With --session a turn of that session.",
     .run = cli_show},
    {.bit = CLI_SESSIONS,
     .name = "sessions",
     .operand = "list|show|export|fork|delete DIR SESSION",
     .actions = "list show export fork delete",
     .operands_max = 4,
     .summary = "list the sessions of a data directory, show, export, fork and erase them",
     .examples = "  turnphase sessions list ./kept --tenant acme\n"
                 "  turnphase sessions export ./kept monday > monday.jsonl\n"
                 "  turnphase sessions fork ./kept monday monday-b --turn monday-3\n"
                 "  turnphase sessions delete ./kept monday\n"
                 "  turnphase sessions delete ./kept --age 365d --yes --json\n",
     .description =
         "list DIR              the sessions, the one with the oldest activity first\n"
         "show DIR SESSION      what was said in one, its turns, jobs, questions and tasks\n"
         "export DIR SESSION    everything of one as JSON Lines\n"
         "fork DIR SESSION NEW  begin a session NEW with what was said in SESSION, up to the end of --turn\n"
         "delete DIR [SESSION]  erase one, those of --tenant, or those of which nothing is newer than --age:\n"
         "                      history, records, jobs, questions and tasks, and every copy in the directory;\n"
         "                      not the memories (forget). 75 while a process works on the directory\n"
         "DIR may be postgres://USER@HOST/DATABASE. Its sessions on which a process works stay (75), and the server\n"
         "has copies of those that were erased until it vacuums.",
     .run = cli_sessions},
    {.bit = CLI_DATA,
     .name = "data",
     .operand = "copy DIR DIR",
     .actions = "copy",
     .operands_max = 3,
     .summary = "copy a data directory into a database, or back",
     .examples = "  turnphase data copy ./kept postgres://turnphase@db.example.com/agents\n"
                 "  turnphase data copy postgres://turnphase@db.example.com/agents ./kept --json\n",
     .description = "Copies sessions, records, audit rows and jobs that wait from one place into another one, which\n"
                    "must be empty: a data directory, or postgres://USER@HOST/DATABASE. Jobs that have ended, open\n"
                    "questions and tasks are not copied; it says how many there are. End the processes that work on\n"
                    "the first one before.",
     .run = cli_data_command},
    {.bit = CLI_FORGET,
     .name = "forget",
     .operand = "DIR",
     .summary = "erase what a data directory has of a tenant, or of a person of it",
     .examples = "  turnphase forget ./kept --tenant acme\n"
                 "  turnphase forget postgres://turnphase@db.example.com/agents --tenant acme --user zoe\n"
                 "  turnphase forget ./kept --tenant acme --session monday --yes\n"
                 "  turnphase forget ./kept --tenant acme --user zoe --before 2026-01-01\n"
                 "  turnphase forget ./kept --tenant acme --matching \"zoe@example.org\"\n"
                 "  turnphase forget ./kept --before 365d --yes\n",
     .description =
         "Erases the sessions of --tenant (or one, or those of which nothing is newer than --age) from the store, and\n"
         "their memories from the memory's file; with --user, --before or --matching only turns that fit all of them,\n"
         "with what belongs to them. --age or --before without --tenant is what is as old of every tenant.\n"
         "First it counts, and asks. 75 while a process works on the directory. Where it\n"
         "is interrupted, the next start of run, chat, serve, worker or forget finishes it; forget DIR does no more.\n"
         "DIR may be postgres://USER@HOST/DATABASE, which has no memories: sessions on which a process works stay\n"
         "then (75), the server has copies until it vacuums, and an erasure that was interrupted is called again.",
     .run = cli_forget},
    {.bit = CLI_EXPORT,
     .name = "export",
     .operand = "DIR",
     .summary = "print what a data directory has of a tenant, or of a person of it",
     .examples = "  turnphase export ./kept --tenant acme > acme.jsonl\n"
                 "  turnphase export ./kept --tenant acme --user zoe > zoe.jsonl\n"
                 "  turnphase export ./kept --tenant acme --user zoe | jq -r 'select(.kind == \"message\").row.text'\n",
     .description =
         "Prints as JSON Lines what forget with the same options would erase: the rows of the sessions or turns, kind\n"
         "after kind, and the memories with the facts that were made of them. It erases nothing, and other processes\n"
         "may work on the directory meanwhile. DIR may be postgres://USER@HOST/DATABASE, which has no memories.",
     .run = cli_export},
    {.bit = CLI_TIME,
     .name = "time",
     .operand = "DIR TURN",
     .operands_max = 2,
     .summary = "show what a turn's time was spent on",
     .examples = "  turnphase time ./kept monday-1\n"
                 "  turnphase time ./kept monday-1 --json | jq '.tools_ns'\n",
     .description = "Splits a turn into its phases, the model, the tools, the history and the rest, then by phase.",
     .run = cli_time},
    {.bit = CLI_BLAME,
     .name = "blame",
     .operand = "DIR TURN",
     .operands_max = 2,
     .summary = "list the handlers and tools of a turn, the slowest first",
     .examples = "  turnphase blame ./kept monday-1\n"
                 "  turnphase blame ./kept monday-1 --json | jq '.blame[0]'\n",
     .description = "Lists every handler, tool call and request to the model of a turn, the slowest first. What it\n"
                    "waited for a thread or a permit has a column of its own; both together order the list.",
     .run = cli_blame},
    {.bit = CLI_CHAIN,
     .name = "critical-chain",
     .operand = "DIR TURN",
     .operands_max = 2,
     .summary = "show what determined how long a turn lasted",
     .examples = "  turnphase critical-chain ./kept monday-1\n",
     .description = "Shows, from the end of a turn to its begin, what each part waited for, and in each phase which\n"
                    "handlers determined its length.",
     .run = cli_critical_chain},
    {.bit = CLI_EXPLAIN,
     .name = "explain",
     .operand = "DIR TURN",
     .operands_max = 2,
     .summary = "say of every subscription in a turn what became of it",
     .examples = "  turnphase explain ./kept monday-1\n"
                 "  turnphase explain ./kept monday-1 --json | jq '.phases[].subscriptions[] | select(.why != \"\")'\n",
     .description = "Shows each phase of a turn with a line for every subscription: whether it ran, or why not; how\n"
                    "long it was queued and ran, its limit and how much of that was left (slack), after which other\n"
                    "it ran, and what it contributed.",
     .run = cli_explain},
    {.bit = CLI_PLOT,
     .name = "plot",
     .operand = "DIR TURN",
     .operands_max = 2,
     .summary = "draw a turn: phases, handlers, requests and tool calls in time",
     .examples = "  turnphase plot ./kept monday-1 -o turn.html && xdg-open turn.html\n"
                 "  turnphase plot ./kept monday-1 --format svg > turn.svg\n"
                 "  turnphase plot ./kept monday-1 --format chrome-trace > turn.json   # for ui.perfetto.dev\n",
     .description = "Writes one HTML file that needs nothing else: zoom with the wheel, move by dragging, and hover\n"
                    "for what is known of a bar. What overlapped lies in lanes of its own.",
     .run = cli_plot_command},
    {.bit = CLI_JOBS,
     .name = "jobs",
     .operand = "list|show|redrive|discard DIR JOB",
     .actions = "list show redrive discard",
     .operands_max = 3,
     .summary = "list background jobs, and run or give up those that failed",
     .examples = "  turnphase jobs list ./kept\n"
                 "  turnphase jobs list ./kept --state dead --json\n"
                 "  turnphase jobs redrive ./kept 12\n"
                 "  turnphase jobs redrive ./kept --handler memory.extract\n",
     .description = "list DIR          jobs that wait, run, or failed for good (dead), oldest first\n"
                    "show DIR JOB      one job, whatever its state; its payload is content and is not shown\n"
                    "redrive DIR JOB   a dead job is run again, with all its attempts before it; in place of its\n"
                    "                  number --all, --handler ID or --session ID: every dead job, or those chosen\n"
                    "discard DIR JOB   a dead or waiting job is given up, and its payload deleted",
     .run = cli_jobs},
    {.bit = CLI_WORKER,
     .name = "worker",
     .operand = "DIR",
     .summary = "run the background jobs of a data directory",
     .examples = "  turnphase worker ./kept --load ./handlers.so\n"
                 "  turnphase worker ./kept --load ./handlers.so --until-empty --json\n",
     .description = "Claims the jobs that its handlers can run, beside any other process that works on the directory,\n"
                    "until SIGTERM or Ctrl-C: then jobs that run have 30 s to end, and no other is claimed. Each\n"
                    "attempt is a line. 73 when a job failed for good.",
     .run = cli_worker},
    {.bit = CLI_ASK,
     .name = "ask",
     .operand = "list|answer DIR NUMBER allow|deny",
     .actions = "list answer",
     .operands_max = 4,
     .summary = "list questions about tool calls that wait in a data directory, and answer them",
     .examples = "  turnphase run --model anthropic:NAME --data ./kept --ask data talk.yaml &\n"
                 "  turnphase ask list ./kept\n"
                 "  turnphase ask answer ./kept 3 allow --by ann --reason \"it is only a draft\"\n",
     .description = "list DIR          questions that may be answered now, the oldest first; left: the call is\n"
                    "                  over or its process has ended (a kill is not seen), and the answer counts when\n"
                    "                  its turn is submitted again\n"
                    "answer DIR NUMBER allow|deny\n"
                    "                  answers one, once; 1 when it was answered before, or has expired",
     .run = cli_ask_command},
    {.bit = CLI_AUDIT,
     .name = "audit",
     .operand = "DIR",
     .summary = "list who registered what, and what was refused, denied, replaced or failed",
     .examples = "  turnphase audit ./kept\n"
                 "  turnphase audit ./kept --action denial --since 1d\n"
                 "  turnphase audit ./kept --handler guard --phase tool.pre --json | jq -r .detail\n",
     .description = "Lists the audit rows of a data directory, newest first: when, what, which subscription (else the\n"
                    "owner) in which phase and turn, and why. A process may work on the directory meanwhile.",
     .run = cli_audit},
    {.bit = CLI_STORE,
     .name = "store",
     .operand = "verify|stats|hash|prune DIR FILE",
     .actions = "verify stats hash prune",
     .operands_max = 3,
     .summary = "check the store of a data directory, or count what is in it",
     .examples = "  turnphase store verify ./kept\n"
                 "  turnphase store stats ./kept --json\n"
                 "  turnphase store prune ./kept --age 30d\n",
     .description = "verify DIR        checks every page of the file, and that its rows agree with each other; 1 when\n"
                    "                  something is wrong\n"
                    "stats DIR         counts records, jobs, messages and bytes\n"
                    "hash DIR FILE     the keyed hash of a text, as explain --json shows those of what passed through\n"
                    "prune DIR         deletes records that are older than --age, or the oldest until the file is no\n"
                    "                  larger than --size, and turns of the history older than --history-age; open\n"
                    "                  jobs and dead letters stay",
     .run = cli_store},
    {.bit = CLI_MEMORY,
     .name = "memory",
     .operand = "ACTION DATA OPERAND…",
     .actions = "list search show forget export import stats",
     .operands_max = CLI_OPERANDS_MAX,
     .summary = "look into a memory, search it, forget, export and import",
     .examples = "  turnphase memory list ./kept\n"
                 "  turnphase memory search ./kept \"Where does Ingrid live?\" --explain\n"
                 "  turnphase memory forget ./kept 12\n"
                 "  turnphase memory export ./kept > kept.jsonl && turnphase memory import ./other kept.jsonl\n",
     .description = "DATA is a directory as of run --data, or the file itself; import makes what is not there: a\n"
                    "directory, or a file where the name ends with .db.\n\n"
                    "list DATA           the memories, newest first\n"
                    "search DATA TEXT    what a turn with this text would recall, best first\n"
                    "show DATA ID        one memory\n"
                    "forget DATA ID      delete a memory with all its traces in the file\n"
                    "export DATA         all memories as JSON Lines, oldest first\n"
                    "import DATA [FILE]  keep what export wrote (a file, or standard input)\n"
                    "stats DATA          how many memories, by scope",
     .run = cli_memory_command},
    {.bit = CLI_EXIT_STATUS,
     .name = "exit-status",
     .summary = "explain what the command ends with",
     .examples = "  turnphase exit-status\n",
     .description = "Prints the exit statuses and what they mean.",
     .run = print_exit_status},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int print_usage(cli_output *output) {
  cli_output_init(output, CLI_COLOUR_AUTO);
  cli_output_fold(output);
  cli_print_string(output,
                   "Examples:\n"
                   "  turnphase run --script model.yaml talk.yaml    play a conversation\n"
                   "  turnphase chat --model openai:NAME             talk with a model\n"
                   "  turnphase plan                                 what would run, and in what order\n"
                   "  turnphase bench                                how long it takes\n"
                   "\n"
                   "Usage: turnphase COMMAND [OPTION…]\n\n");
  for (size_t i = 0; i < COMMANDS; i++) cli_printf(output, "  %-15s %s\n", commands[i].name, commands[i].summary);
  cli_print_string(
      output,
      "\nturnphase help COMMAND says more, help --json the same for programs; turnphase --version says which\n"
      "version this is.\n");
  return CLI_OK;
}

static const cli_command *find_command(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(commands[i].name, name) == 0) return &commands[i];
  return NULL;
}

static int run_command(const cli_command *command, int argc, char **argv, cli_output *output) {
  cli_arguments arguments = {0};
  int status = cli_arguments_read(command, argc, argv, &arguments);
  if (status == CLI_OK) {
    cli_output_init(output, arguments.colour);
    if (!arguments.json && !arguments.dot && command->bit != CLI_PLOT) cli_output_fold(output);
    if (arguments.help) cli_help(command, output);
    else status = command->run(&arguments, output);
  }
  cli_arguments_free(&arguments);
  return status;
}

static int refuse_command(const char *word) {
  char hint[CLI_HINT_SIZE];
  cli_nearest nearest = cli_nearest_to(word);
  for (size_t i = 0; i < COMMANDS; i++) cli_nearest_try(&nearest, commands[i].name);
  cli_nearest_try(&nearest, "--help");
  cli_nearest_try(&nearest, "--version");
  cli_error("there is no command '%s'%s", word, cli_nearest_hint(&nearest, "", hint));
  cli_error("see: turnphase --help");
  return CLI_USAGE;
}

static int help_of(const char *word, cli_output *output) {
  const cli_command *command = find_command(word);
  if (!command) return refuse_command(word);
  cli_output_init(output, CLI_COLOUR_AUTO);
  cli_output_fold(output);
  cli_help(command, output);
  return CLI_OK;
}

/* Prints every command with its options, and the exit statuses, a line each. */
static int print_help_json(cli_output *output) {
  int status = CLI_OK;
  for (size_t i = 0; i < COMMANDS && status == CLI_OK; i++) status = cli_help_json(&commands[i], output);
  return status == CLI_OK ? cli_exit_print_json(output) : status;
}

static int dispatch(int argc, char **argv, cli_output *output) {
  const char *word = argc > 1 ? argv[1] : NULL;
  if (!word) {
    cli_error("which command? see: turnphase --help");
    return CLI_USAGE;
  }
  bool asks_help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
  bool asks_version = strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0;
  if (argc > 2 + asks_help && (asks_help || asks_version)) {
    cli_error("%s does not take '%s'", word, argv[2 + asks_help]);
    return CLI_USAGE;
  }
  if (asks_help && argc > 2 && strcmp(argv[2], "--json") == 0) return print_help_json(output);
  if (asks_help && argc > 2) return help_of(argv[2], output);
  if (asks_help) return print_usage(output);
  if (asks_version) {
    cli_printf(output, "turnphase %s\n", tp_version());
    return CLI_OK;
  }
  const cli_command *command = find_command(word);
  return command ? run_command(command, argc - 1, argv + 1, output) : refuse_command(word);
}

/* A core file would contain the keys of models and hooks. A limit of one byte also stops the program that a pipe in
 * core_pattern starts from storing one. Programs of hooks inherit the limit. */
static void forbid_core_files(void) {
  struct rlimit limit;
  const char *wanted = getenv("TURNPHASE_CORE_FILES");
  if ((wanted && strcmp(wanted, "1") == 0) || getrlimit(RLIMIT_CORE, &limit) != 0) return;
  if (limit.rlim_cur > 1) limit.rlim_cur = 1;
  (void)setrlimit(RLIMIT_CORE, &limit);
}

/* If a standard descriptor is closed, a file that is opened later could get its number, and would be read or written by
 * mistake. So it is replaced by a descriptor that is at its end and cannot be written: a write to it still fails. */
static void fill_descriptors(void) {
  int ends[2];
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && pipe(ends) == 0) close(ends[1]);
}

int main(int argc, char **argv) {
  cli_output output = {0};
  fill_descriptors();
  forbid_core_files();
  cli_locale_start();
  signal(SIGPIPE, SIG_IGN); /* when a reader goes away, a write fails, and the running turn is ended properly */
  int status = dispatch(argc, argv, &output);
  cli_only_models_free();
  cli_redactor_free();
  return cli_output_finish(&output, status);
}
