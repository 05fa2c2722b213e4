# SPDX-License-Identifier: Apache-2.0
"""Completions of the command for bash, zsh and fish, of the rows that `turnphase help --json` prints.

A word is of one kind: words:A B (one of them), file, folder, path (of either), phase, session, turn, job, command, or
'' (a word of one's own). The three shells get the same kinds.
"""

import re

# What stands for an argument or an operand in the help, and the kind of word that is meant.
KINDS = {'DIR': 'folder', 'DATA': 'path', 'FILE': 'file', 'JSON': 'file', 'LIB.so': 'file', 'MODEL.yaml': 'file',
         'CONVERSATION': 'file', 'AGENTS.yaml': 'file', 'SETTINGS': 'file', 'PHASE': 'phase', 'SESSION': 'session',
         'TURN': 'turn', 'TURN|RUN': 'turn', 'JOB': 'job', 'OPERAND…': 'path'}
# The same placeholder is used for names of many things: these options mean one that can be listed.
OF_OPTIONS = {'phase': 'phase', 'session': 'session', 'turn': 'turn', 'data-file': 'file', 'code-file': 'file'}


def kind_of_option(row):
    if row['values']:
        return 'words:' + ' '.join(row['values'])
    return OF_OPTIONS.get(row['name'], KINDS.get(row['argument'], ''))


def kind_of_operand(word):
    word = word.strip('[]')
    if re.fullmatch(r'[a-z]+(\|[a-z]+)+', word):
        return 'words:' + word.replace('|', ' ')
    return KINDS.get(word, '')


def operands_of(command):
    """Of each action ('' where there are none) the kinds of its operands, without the action itself. A line of the
    description that begins with the action has them: "list DIR    the hooks of a directory"."""
    words = command['operand'].split()
    if not command['actions']:
        return {'': [kind_of_operand(word) for word in words]}
    found = {action: [kind_of_operand(word) for word in words[1:]] for action in command['actions']}
    for line in command['description'].split('\n'):
        first, *rest = re.split(r'  +', line.strip())[0].split(' ')
        if first in found and all(re.fullmatch(r'\[?[A-Z]+\]?|[a-z]+\|[a-z]+', word) for word in rest):
            found[first] = [kind_of_operand(word) for word in rest]
    return found


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def options_of_all(commands):
    """Each option once: name, row; the same name means the same for every command."""
    rows = {}
    for command in commands:
        for row in command['options']:
            rows.setdefault(row['name'], row)
    return rows


def names_of(row):
    return ['--' + row['name']] + (['-' + row['letter']] if 'letter' in row else [])


# ---- bash ----

BASH = r'''# bash completion of turnphase. Generated of the table of its commands: turnphase help --json.

# The words of a line, the command's name first; what is typed now is the last.
_turnphase_values() { # KIND WORD COMMAND-NAME DATA
  case $1 in
    words:*) compgen -W "${1#words:}" -- "$2" ;;
    command) compgen -W "$_turnphase_commands" -- "$2" ;;
    file | path) compgen -f -- "$2" ;;
    folder) compgen -d -- "$2" ;;
    phase) _turnphase_among "$2" < <(command "$3" phases --json 2>/dev/null | grep -o '"phase":"[^"]*"') ;;
    session) [[ ! $4 ]] || _turnphase_among "$2" < <(command "$3" sessions list "$4" --json 2>/dev/null |
      grep -o '"session":"[^"]*"') ;;
    turn) [[ ! $4 ]] || _turnphase_among "$2" < <(command "$3" runs "$4" --json 2>/dev/null |
      grep -o '"turn":"[^"]*"') ;;
    job) [[ ! $4 ]] || _turnphase_among "$2" < <(command "$3" jobs list "$4" --state all --json 2>/dev/null |
      grep -o '"job":[0-9]*') ;;
  esac
}

# Of lines "key":"NAME" each name once that begins with WORD.
_turnphase_among() { # WORD
  local line
  while IFS= read -r line; do
    line=${line#*:} line=${line//\"/}
    [[ $line != "$1"* ]] || printf '%s\n' "$line"
  done | sort -u
}

_turnphase() {
  local words token word command='' action='' data='' option='' kind='' i reply
  local -a operands=()
  read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
  [[ ${COMP_LINE:0:COMP_POINT} != *[[:space:]] ]] || words+=('')
  token=${words[-1]} COMPREPLY=()
  for ((i = 1; i < ${#words[@]} - 1; i++)); do
    word=${words[i]}
    if [[ $option ]]; then
      case $option in --data | -d) data=$word ;; esac
      option=''
    elif [[ $word == --data=* ]]; then data=${word#*=}
    elif [[ $word == -* ]]; then
      [[ $word == *=* || " $_turnphase_takes " != *" $word "* ]] || option=$word
    elif [[ ! $command ]]; then command=$word
    elif [[ ! $action && " ${_turnphase_actions[$command]-} " != '  ' ]]; then action=$word
    else operands+=("$word")
    fi
  done
  [[ $data || ! $command ]] || data=${operands[0]-}
  word=$token
  if [[ $token == --*=* ]]; then
    option=${token%%=*} word=${token#*=}
  fi
  if [[ $option ]]; then kind=${_turnphase_kinds[$option]-}
  elif [[ $token == -* ]]; then kind="words:${_turnphase_options[${command:-none}]-}"
  elif [[ ! $command ]]; then kind=command
  elif [[ $command == help ]]; then kind=command
  elif [[ ! $action && ${_turnphase_actions[$command]-} ]]; then kind="words:${_turnphase_actions[$command]}"
  else kind=${_turnphase_operands["$command,$action,${#operands[@]}"]-}
  fi
  [[ $kind != @(file|folder|path) ]] || compopt -o filenames 2>/dev/null
  # Readline replaces what follows the last of its word breaks, such as = and :, only.
  local typed=${COMP_WORDS[COMP_CWORD]-}
  [[ $typed != [=:] ]] || typed=''
  local before=${token%"$typed"}
  local name=${words[0]/#\~\//$HOME/}
  word=${word/#\~\//$HOME/}
  while IFS= read -r reply; do
    [[ $token == --*=* ]] && reply=${token%%=*}=$reply
    COMPREPLY+=("${reply#"$before"}")
  done < <(_turnphase_values "$kind" "$word" "$name" "$data")
}

complete -F _turnphase turnphase
'''


def bash(commands):
    takes, kinds, options, actions, operands = [], {}, {'none': '--help --version'}, {}, {}
    for row in options_of_all(commands).values():
        if 'argument' in row:
            takes += names_of(row)
            for name in names_of(row):
                kinds[name] = kind_of_option(row)
    for command in commands:
        name = command['command']
        options[name] = ' '.join('--' + row['name'] for row in command['options'])
        actions[name] = ' '.join(command['actions'])
        for action, found in operands_of(command).items():
            operands.update({'%s,%s,%d' % (name, action, at): kind for at, kind in enumerate(found)})
    names = ' '.join([command['command'] for command in commands] + ['help'])

    def table(name, rows):
        pairs = ''.join('  [%s]=%s\n' % (quoted(key), quoted(value)) for key, value in rows.items() if value)
        return 'declare -gA %s=(\n%s)\n' % (name, pairs)

    return (BASH + '\n_turnphase_commands=%s\n_turnphase_takes=%s\n' % (quoted(names), quoted(' '.join(takes))) +
            table('_turnphase_options', options) + table('_turnphase_kinds', kinds) +
            table('_turnphase_actions', actions) + table('_turnphase_operands', operands))


# ---- zsh ----

ZSH = r'''#compdef turnphase
# zsh completion of turnphase. Generated of the table of its commands: turnphase help --json.

# Of each line "key":"NAME" that the command prints the name. Its data directory is that of --data, or an operand.
_turnphase_listed() { # KEY WORDS…
  local key=$1
  shift
  local -a found
  found=(${(fu)"$(command ${words_of_turnphase} "$@" --json 2>/dev/null | grep -o "\"$key\":\"\\?[^\",}]*" |
    sed 's/^[^:]*:"*//')"})
  compadd -a found
}

_turnphase_data() {
  local word
  integer at=$words[(I)(--data|-d)]
  if (( at )); then print -r -- ${(Q)words[at+1]}; return; fi
  for word in ${(Q)words[2,-1]}; do [[ -d $word && $word != -* ]] && print -r -- $word && return; done
}

_turnphase_phase() { _turnphase_listed phase phases }
_turnphase_session() { _turnphase_listed session sessions list "$(_turnphase_data)" }
_turnphase_turn() { _turnphase_listed turn runs "$(_turnphase_data)" }
_turnphase_job() { _turnphase_listed job jobs list "$(_turnphase_data)" --state all }
'''


def zsh_spec(text):
    return text.replace('\\', '\\\\').replace('[', '\\[').replace(']', '\\]').replace(':', '\\:')


def zsh_kind(kind):
    if kind.startswith('words:'):
        return '(%s)' % kind[6:]
    return {'file': '_files', 'path': '_files', 'folder': '_path_files -/', 'command': '_turnphase_commands',
            '': ' '}.get(kind, '_turnphase_' + kind)


def zsh_option(row):
    several = '*' if 'argument' in row else ''
    value = ':%s:%s' % (zsh_spec(row['argument']), zsh_kind(kind_of_option(row))) if 'argument' in row else ''
    help_ = '[%s]' % zsh_spec(row['help'])
    return [quoted(several + name + ('=' if name.startswith('--') and value else '') + help_ + value)
            for name in names_of(row)]


def zsh(commands):
    out = ZSH + '\n_turnphase_commands() {\n  local -a rows=(\n'
    for command in commands:
        out += '    %s\n' % quoted(command['command'] + ':' + zsh_spec(command['summary']))
    out += "  )\n  _describe -t commands 'command' rows\n}\n"
    for command in commands:
        specs = [spec for row in command['options'] for spec in zsh_option(row)]
        found = operands_of(command)
        out += '\n_turnphase__%s() {\n' % command['command'].replace('-', '_')
        if command['actions']:
            specs.append(quoted('1:action:(%s)' % ' '.join(command['actions'])))
            out += '  local -a operands\n  case ${words[(r)(%s)]} in\n' % '|'.join(command['actions'])
            for action, kinds in found.items():
                rows = ' '.join(quoted('%d: :%s' % (at, zsh_kind(kind))) for at, kind in enumerate(kinds, 2))
                out += '    %s) operands=(%s) ;;\n' % (action, rows)
            out += '  esac\n'
            last = ' "$operands[@]"'
        else:
            specs += [quoted('%d: :%s' % (at, zsh_kind(kind))) for at, kind in enumerate(found[''], 1)]
            last = ''
        out += '  _arguments -s : \\\n    ' + ' \\\n    '.join(specs) + last + '\n}\n'
    out += r'''
_turnphase() {
  local words_of_turnphase=${(Q)words[1]/#\~\//$HOME/}
  if (( CURRENT == 2 )); then
    if [[ $words[2] == -* ]]; then compadd -- --help --version; else _turnphase_commands; compadd help; fi
  elif [[ $words[2] == help ]]; then _turnphase_commands
  else
    local function=_turnphase__${words[2]//-/_}
    shift words
    (( CURRENT-- ))
    (( $+functions[$function] )) && $function
  fi
}

_turnphase "$@"
'''
    return out


# ---- fish ----

FISH = r'''# fish completion of turnphase. Generated of the table of its commands: turnphase help --json.

# The words before the cursor that are no options, without the arguments of options: command, action and operands.
function __turnphase_words
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- $word $__turnphase_takes
            set skip 1
        else if not string match -q -- '-*' $word
            echo -- $word
        end
    end
end

# Whether so many words, beginning with the given ones, stand there.
function __turnphase_at # COUNT WORD…
    set -l found (__turnphase_words)
    test (count $found) = $argv[1]; or return 1
    test (count $argv) -lt 2; or test "$found[1..$(math (count $argv) - 1)]" = "$argv[2..-1]"
end

function __turnphase_data
    set -l all (commandline -opc)
    for at in (seq 2 (count $all))
        if contains -- $all[$at] --data -d; and test $at -lt (count $all)
            echo -- $all[(math $at + 1)]
            return
        end
    end
    for word in $all[2..-1]
        if test -d $word
            echo -- $word
            return
        end
    end
end

function __turnphase_listed # KEY WORDS…
    set -l program (commandline -opc)[1]
    command $program $argv[2..-1] --json 2>/dev/null | string match -ra '"'$argv[1]'":"?[^",}]*' |
        string replace -r '^[^:]*:"?' '' | sort -u
end

function __turnphase_phases; __turnphase_listed phase phases; end
function __turnphase_sessions; __turnphase_listed session sessions list (__turnphase_data); end
function __turnphase_turns; __turnphase_listed turn runs (__turnphase_data); end
function __turnphase_jobs; __turnphase_listed job jobs list (__turnphase_data) --state all; end

complete -c turnphase -f
'''


def fish_kind(kind):
    if kind.startswith('words:'):
        return '-x -a ' + quoted(kind[6:])
    return {'file': '-r -F', 'path': '-r -F', 'folder': "-x -a '(__fish_complete_directories)'",
            '': '-x'}.get(kind, "-x -a '(__turnphase_%ss)'" % kind)


def fish(commands):
    takes = [name for row in options_of_all(commands).values() if 'argument' in row for name in names_of(row)]
    out = 'set -g __turnphase_takes ' + ' '.join(takes) + '\n' + FISH
    row_of = 'complete -c turnphase -n %s'
    for command in commands:
        name = command['command']
        out += row_of % "'__turnphase_at 0'" + ' -a %s -d %s\n' % (name, quoted(command['summary']))
        out += row_of % "'__turnphase_at 1 help'" + ' -a %s -d %s\n' % (name, quoted(command['summary']))
    out += row_of % "'__turnphase_at 0'" + " -a help -d 'show what a command does'\n"
    for command in commands:
        name = command['command']
        is_this = '__fish_seen_subcommand_from ' + name
        for row in command['options']:
            letter = ' -s ' + row['letter'] if 'letter' in row else ''
            value = ' ' + fish_kind(kind_of_option(row)) if 'argument' in row else ''
            out += row_of % quoted(is_this) + '%s -l %s%s -d %s\n' % (letter, row['name'], value, quoted(row['help']))
        for action, kinds in operands_of(command).items():
            if action:
                out += row_of % quoted('__turnphase_at 1 ' + name) + ' -a %s\n' % action
            words = name + ' ' + action if action else name
            for at, kind in enumerate(kinds, 2 if action else 1):
                if kind:
                    out += row_of % quoted('__turnphase_at %d %s' % (at, words)) + ' %s\n' % fish_kind(kind).replace(
                        '-r -F', '-F')
    return out


SHELLS = {'turnphase': bash, '_turnphase': zsh, 'turnphase.fish': fish}
