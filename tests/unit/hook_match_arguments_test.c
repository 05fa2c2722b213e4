/* SPDX-License-Identifier: Apache-2.0
 *
 * match.arguments: conditions on the arguments of a call, and guards without a program. */
#include "tests/support/test.h"
#include "domains/declared/condition.h"
#include "domains/declared/hook.h"
#include "tests/support/hook_files.h"

FOR_EACH_TEST(make_directory, remove_directory);

enum { CALLS_MAX = 48 };

/* ---- the table ---- */

static const struct {
  const char *arguments; /* of match, as YAML */
  struct {
    const char *call; /* its arguments, as JSON */
    bool holds;
  } calls[CALLS_MAX];
} vectors[] = {
    {"{path: config/prod.yaml}",
     {{"{\"path\":\"config/prod.yaml\"}", true},
      {"{\"path\":\"config/dev.yaml\"}", false},
      {"{\"path\":\"./config/prod.yaml\"}", true},
      {"{\"path\":\"config//prod.yaml\"}", true},
      {"{\"path\":\"config/x/../prod.yaml\"}", true},
      {"{\"path\":\"config/./prod.yaml\"}", true},
      {"{\"path\":\"config/prod.yaml/\"}", true},
      {"{\"path\":\"xconfig/prod.yaml\"}", false},
      {"{\"other\":\"config/prod.yaml\"}", false},
      {"{}", false},
      {"{\"path\":7}", false},
      {"{\"path\":null}", false},
      {"{\"path\":[\"config/prod.yaml\"]}", true},
      {"{\"path\":[\"a\",\"config/prod.yaml\"]}", true},
      {"{\"path\":{\"path\":\"config/prod.yaml\"}}", false},
      {"[]", false}}},
    {"{path: 'config/*'}",
     {{"{\"path\":\"config/a\"}", true},
      {"{\"path\":\"config/a/b\"}", false},
      {"{\"path\":\"config/\"}", true},
      {"{\"path\":\"config\"}", false},
      {"{\"path\":\"config/../config/a\"}", true},
      {"{\"path\":\"other/../config/a\"}", true}}},
    {"{path: 'services/**'}",
     {{"{\"path\":\"services/a/b/c\"}", true},
      {"{\"path\":\"services/\"}", true},
      {"{\"path\":\"services\"}", false},
      {"{\"path\":\"a/services/b\"}", false},
      {"{\"path\":\"a/../services/b\"}", true}}},
    {"{path: '**/.env'}",
     {{"{\"path\":\".env\"}", true},
      {"{\"path\":\"a/b/.env\"}", true},
      {"{\"path\":\"a/.env.local\"}", false},
      {"{\"path\":\"x.env\"}", false},
      {"{\"path\":\"/abs/.env\"}", true}}},
    {"{path: ['*.pem', '**/*.key', id_rsa]}",
     {{"{\"path\":\"a.pem\"}", true},
      {"{\"path\":\"d/a.pem\"}", false},
      {"{\"path\":\"d/e/a.key\"}", true},
      {"{\"path\":\"id_rsa\"}", true},
      {"{\"path\":\"id_rsa.pub\"}", false}}},
    {"{path: {glob: 'src/**', not: 'src/gen/**'}}",
     {{"{\"path\":\"src/a.c\"}", true},
      {"{\"path\":\"src/gen/a.c\"}", false},
      {"{\"path\":\"src/x/../gen/a.c\"}", false},
      {"{\"path\":\"src/gen/../a.c\"}", true},
      {"{\"path\":\"lib/a.c\"}", false}}},
    {"{path: {not: 'src/**'}}",
     {{"{\"path\":\"src/a.c\"}", false},
      {"{\"path\":\"etc/passwd\"}", true},
      {"{\"path\":\"src/../etc/passwd\"}", true},
      {"{\"path\":\"/etc/passwd\"}", true},
      {"{\"path\":\"../src/a.c\"}", true},
      {"{}", false},
      {"{\"path\":\"./src/a.c\"}", false}}},
    {"{path: {not: ['src/**', 'tests/**']}}",
     {{"{\"path\":\"src/a\"}", false}, {"{\"path\":\"tests/a\"}", false}, {"{\"path\":\"docs/a\"}", true}}},
    {"{n: 7}",
     {{"{\"n\":7}", true},
      {"{\"n\":\"7\"}", true},
      {"{\"n\":7.5}", false},
      {"{\"n\":70}", false},
      {"{\"n\":true}", false}}},
    {"{force: true}",
     {{"{\"force\":true}", true},
      {"{\"force\":false}", false},
      {"{\"force\":\"true\"}", true},
      {"{\"force\":1}", false},
      {"{}", false}}},
    {"{force: false}", {{"{\"force\":false}", true}, {"{\"force\":true}", false}}},
    {"{n: {min: 10}}",
     {{"{\"n\":10}", true},
      {"{\"n\":9}", false},
      {"{\"n\":9.99}", false},
      {"{\"n\":1e9}", true},
      {"{\"n\":\"11\"}", false},
      {"{\"n\":true}", false},
      {"{}", false},
      {"{\"n\":null}", false}}},
    {"{n: {max: 10}}", {{"{\"n\":10}", true}, {"{\"n\":10.01}", false}, {"{\"n\":-5}", true}}},
    {"{n: {min: 1, max: 3}}",
     {{"{\"n\":0}", false}, {"{\"n\":1}", true}, {"{\"n\":2.5}", true}, {"{\"n\":3}", true}, {"{\"n\":4}", false}}},
    {"{n: {min: 0.5}}", {{"{\"n\":0.4}", false}, {"{\"n\":0.5}", true}, {"{\"n\":1}", true}}},
    {"{amount: {min: 1000, not: '5000'}}", {{"{\"amount\":5000}", false}, {"{\"amount\":5001}", true}}},
    {"{path: {exists: true}}",
     {{"{\"path\":\"x\"}", true},
      {"{\"path\":null}", true},
      {"{\"path\":{}}", true},
      {"{\"path\":[]}", true},
      {"{\"q\":1}", false}}},
    {"{path: {exists: false}}",
     {{"{\"path\":\"x\"}", false}, {"{\"q\":1}", true}, {"{}", true}, {"{\"path\":null}", false}}},
    {"{a.b.c: x}",
     {{"{\"a\":{\"b\":{\"c\":\"x\"}}}", true},
      {"{\"a\":{\"b\":{\"c\":\"y\"}}}", false},
      {"{\"a\":{\"b\":\"x\"}}", false},
      {"{\"a\":{\"c\":\"x\"}}", false}}},
    {"{edits.*.path: 'prod/*'}",
     {{"{\"edits\":[{\"path\":\"dev/a\"},{\"path\":\"prod/a\"}]}", true},
      {"{\"edits\":[{\"path\":\"dev/a\"}]}", false},
      {"{\"edits\":[]}", false},
      {"{\"edits\":{\"x\":{\"path\":\"prod/a\"}}}", true}}},
    {"{edits.1.path: a}",
     {{"{\"edits\":[{\"path\":\"b\"},{\"path\":\"a\"}]}", true},
      {"{\"edits\":[{\"path\":\"a\"},{\"path\":\"b\"}]}", false}}},
    {"{'*': '**/.ssh/**'}", {{"{\"a\":\"x\",\"b\":\"home/.ssh/id\"}", true}, {"{\"a\":\"x\"}", false}}},
    {"{path: 'prod/*', force: true}",
     {{"{\"path\":\"prod/a\",\"force\":true}", true},
      {"{\"path\":\"prod/a\"}", false},
      {"{\"path\":\"dev/a\",\"force\":true}", false},
      {"{\"path\":\"prod/a\",\"force\":false}", false}}},
    {"{path: 'prod/*', mode: {exists: false}}",
     {{"{\"path\":\"prod/a\"}", true}, {"{\"path\":\"prod/a\",\"mode\":\"x\"}", false}}},
    {"{command: {runs: 'git push*'}}",
     {{"{\"command\":\"git push\"}", true},
      {"{\"command\":\"git push origin main\"}", true},
      {"{\"command\":\"git pull\"}", false},
      {"{\"command\":\"git status; git push\"}", true},
      {"{\"command\":\"git status && git push --force\"}", true},
      {"{\"command\":\"false || git push\"}", true},
      {"{\"command\":\"echo x | git push\"}", true},
      {"{\"command\":\"true\\ngit push\"}", true},
      {"{\"command\":\"git push&\"}", true},
      {"{\"command\":\"(git push)\"}", true},
      {"{\"command\":\"{ git push; }\"}", true},
      {"{\"command\":\"echo $(git push)\"}", true},
      {"{\"command\":\"echo \\\"$(git push)\\\"\"}", true},
      {"{\"command\":\"echo `git push`\"}", true},
      {"{\"command\":\"GIT_DIR=x git push\"}", true},
      {"{\"command\":\"A=1 B=2 git push\"}", true},
      {"{\"command\":\"/usr/bin/git push\"}", true},
      {"{\"command\":\"g\\\"i\\\"t push\"}", true},
      {"{\"command\":\"'git' push\"}", true},
      {"{\"command\":\"g\\\\it push\"}", true},
      {"{\"command\":\"git   push\"}", true},
      {"{\"command\":\"git\\tpush\"}", true},
      {"{\"command\":\"git \\\\\\npush\"}", true},
      {"{\"command\":\"sudo git push\"}", true},
      {"{\"command\":\"sudo -u me git push\"}", true},
      {"{\"command\":\"env X=1 git push\"}", true},
      {"{\"command\":\"timeout 5 git push\"}", true},
      {"{\"command\":\"sh -c 'git push'\"}", true},
      {"{\"command\":\"bash -lc \\\"cd x && git push\\\"\"}", true},
      {"{\"command\":\"sh -c \\\"sh -c 'git push'\\\"\"}", true},
      {"{\"command\":\"eval git push\"}", true},
      {"{\"command\":\"eval 'git push'\"}", true},
      {"{\"command\":\"if true; then git push; fi\"}", true},
      {"{\"command\":\"for i in 1; do git push; done\"}", true},
      {"{\"command\":\"while ! git push; do :; done\"}", true},
      {"{\"command\":\">log git push\"}", true},
      {"{\"command\":\"2>/dev/null git push\"}", true},
      {"{\"command\":\"git push >log 2>&1\"}", true},
      {"{\"command\":\"cat <(git push)\"}", true},
      {"{\"command\":\"find . -exec git push \\\\;\"}", true},
      {"{\"command\":\"ls | xargs git push\"}", true},
      {"{\"command\":\"nohup git push &\"}", true}}},
    {"{command: {runs: 'git push*'}}",
     {{"{\"command\":\"echo git push\"}", false},
      {"{\"command\":\"echo 'git push'\"}", false},
      {"{\"command\":\"echo \\\"git push\\\"\"}", false},
      {"{\"command\":\"grep '; git push' file\"}", false},
      {"{\"command\":\"# git push\"}", false},
      {"{\"command\":\"ls # ; git push\"}", false},
      {"{\"command\":\"git pushd\"}", true},
      {"{\"command\":\"mygit push\"}", false},
      {"{\"command\":\"git-push\"}", false},
      {"{\"command\":\"git\"}", false},
      {"{\"command\":\"\"}", false},
      {"{\"command\":\";;\"}", false},
      {"{\"command\":\"cat > git push\"}", false},
      {"{\"command\":\"echo a\\\\;git push\"}", false},
      {"{\"command\":7}", false},
      {"{\"command\":[\"ls\",\"git push\"]}", true},
      {"{}", false},
      {"{\"command\":\"'unended git push\"}", false}}},
    {"{command: {runs: 'git push*'}}",
     {{"{\"command\":\"$'git' push\"}", true},
      {"{\"command\":\"$'\\\\x67it' push\"}", true},
      {"{\"command\":\"$'\\\\147\\\\u0069t' p$'ush'\"}", true},
      {"{\"command\":\"$'\\\\U00000067it' push\"}", true},
      {"{\"command\":\"git$'\\\\t'push\"}", false},
      {"{\"command\":\"echo $'a\\\\'; git push'\"}", false},
      {"{\"command\":\"echo $'a\\\\\\\\'; git push\"}", true},
      {"{\"command\":\"$\\\"git\\\" push\"}", true},
      {"{\"command\":\"\\\"$\\\" git push\"}", false},
      {"{\"command\":\"echo \\\"$'\\\"; git push\"}", true},
      {"{\"command\":\"{git,push}\"}", true},
      {"{\"command\":\"sudo {git,push}\"}", true},
      {"{\"command\":\"echo {git,push}\"}", false},
      {"{\"command\":\"echo {a,b}; sudo x,y\"}", false},
      {"{\"command\":\"sudo curl -d '{\\\"a\\\":1,\\\"b\\\":2}'\"}", false},
      {"{\"command\":\"DATA='{a,b}' ls\"}", false},
      {"{\"command\":\"echo &>log git push\"}", false},
      {"{\"command\":\"&>log git push\"}", true},
      {"{\"command\":\"0<file git push\"}", true},
      {"{\"command\":\"echo a#b; git push\"}", true},
      {"{\"command\":\"echo \\\"$(date) ; git push\\\"\"}", false},
      {"{\"command\":\"bash --norc 'git push'\"}", false},
      {"{\"command\":\"bash --norc -c 'git push'\"}", true},
      {"{\"command\":\"cat >(git push)\"}", true},
      {"{\"command\":\"env A0=1 A1=1 A2=1 A3=1 A4=1 A5=1 A6=1 A7=1 A8=1 A9=1 A10=1 A11=1 A12=1 A13=1 A14=1 A15=1 A16=1 "
       "A17=1 A18=1 A19=1 A20=1 A21=1 A22=1 A23=1 A24=1 A25=1 A26=1 A27=1 A28=1 A29=1 A30=1 A31=1 A32=1 A33=1 A34=1 "
       "A35=1 A36=1 A37=1 A38=1 A39=1 A40=1 A41=1 A42=1 A43=1 A44=1 A45=1 A46=1 A47=1 A48=1 A49=1 A50=1 A51=1 A52=1 "
       "A53=1 A54=1 A55=1 A56=1 A57=1 A58=1 A59=1 A60=1 A61=1 A62=1 A63=1 A64=1 A65=1 git push\"}",
       true},
      {"{\"command\":\"A0=1 A1=1 A2=1 A3=1 A4=1 A5=1 A6=1 A7=1 A8=1 A9=1 A10=1 A11=1 A12=1 A13=1 A14=1 A15=1 A16=1 "
       "A17=1 A18=1 A19=1 A20=1 A21=1 A22=1 A23=1 A24=1 A25=1 A26=1 A27=1 A28=1 A29=1 A30=1 A31=1 A32=1 A33=1 A34=1 "
       "A35=1 A36=1 A37=1 A38=1 A39=1 A40=1 A41=1 A42=1 A43=1 A44=1 A45=1 A46=1 A47=1 A48=1 A49=1 A50=1 A51=1 A52=1 "
       "A53=1 A54=1 A55=1 A56=1 A57=1 A58=1 A59=1 A60=1 A61=1 A62=1 A63=1 A64=1 A65=1 git push\"}",
       true},
      {"{\"command\":\"echo A0=1 A1=1 A2=1 A3=1 A4=1 A5=1 A6=1 A7=1 A8=1 A9=1 A10=1 A11=1 A12=1 A13=1 A14=1 A15=1 "
       "A16=1 A17=1 A18=1 A19=1 A20=1 A21=1 A22=1 A23=1 A24=1 A25=1 A26=1 A27=1 A28=1 A29=1 A30=1 A31=1 A32=1 A33=1 "
       "A34=1 A35=1 A36=1 A37=1 A38=1 A39=1 A40=1 A41=1 A42=1 A43=1 A44=1 A45=1 A46=1 A47=1 A48=1 A49=1 A50=1 A51=1 "
       "A52=1 A53=1 A54=1 A55=1 A56=1 A57=1 A58=1 A59=1 A60=1 A61=1 A62=1 A63=1 A64=1 A65=1 git push\"}",
       false}}},
    {"{command: {runs: 'git push*'}}",
     {{"{\"command\":\"git commit -m \\\"$(cat <<'EOF'\\nDon't break\\nEOF\\n)\\\" && git push\"}", true},
      {"{\"command\":\"cat <<EOF\\nit's\\nEOF\\ngit push\"}", true},
      {"{\"command\":\"cat <<-'E'\\n\\tit's\\n\\tE\\ngit push\"}", true},
      {"{\"command\":\"cat << \\\\E\\nit's\\nE\\ngit push\"}", true},
      {"{\"command\":\"cat <<A; cat <<B\\nit's\\nA\\n\\\"\\nB\\ngit push\"}", true},
      {"{\"command\":\"cat <<EOF\\nit's $(git push)\\nEOF\"}", true},
      {"{\"command\":\"cat <<'EOF'\\nit's $(git push)\\nEOF\"}", false},
      {"{\"command\":\"sh <<EOF\\ngit push\\nEOF\"}", true},
      {"{\"command\":\"cat <<EOF\\nit's\\ngit push\"}", false},
      {"{\"command\":\"sh <<< 'git push'\"}", true},
      {"{\"command\":\"cat <<< 'git push'\"}", false},
      {"{\"command\":\"cat <<< \\\"it's\\\" && git push\"}", true},
      {"{\"command\":\"echo \\\"`FOO=1 git push`\\\"\"}", true},
      {"{\"command\":\"echo \\\"`ls; git push`\\\"\"}", true},
      {"{\"command\":\"echo `echo \\\\`git push\\\\``\"}", true},
      {"{\"command\":\"echo \\\"$(case x in x) git push;; esac)\\\"\"}", true},
      {"{\"command\":\"echo $(case x in x) ls;; esac) git push\"}", false},
      {"{\"command\":\"diff <(ls) <(git push)\"}", true},
      {"{\"command\":\"bash -o pipefail -c 'git push'\"}", true},
      {"{\"command\":\"bash --rcfile x -c 'git push'\"}", true},
      {"{\"command\":\"bash -c -e 'git push'\"}", true},
      {"{\"command\":\"bash -c -- 'git push'\"}", true},
      {"{\"command\":\"bash script -c 'git push'\"}", false},
      {"{\"command\":\"fish -c 'git push'\"}", true},
      {"{\"command\":\"su - me -c 'A=1 git push'\"}", true},
      {"{\"command\":\"flock lock -c 'A=1 git push'\"}", true},
      {"{\"command\":\"watch 'A=1 git push'\"}", true},
      {"{\"command\":\"env -S 'A=1 git push'\"}", true},
      {"{\"command\":\"sudo echo 'a; git push'\"}", false},
      {"{\"command\":\"trap 'git push' EXIT\"}", true},
      {"{\"command\":\"strace -f git push\"}", true},
      {"{\"command\":\"time -p git push\"}", true},
      {"{\"command\":\"coproc NAME { git push; }\"}", true},
      {"{\"command\":\"function f { git push; }; f\"}", true},
      {"{\"command\":\"{fd}>file git push\"}", true},
      {"{\"command\":\"sh -c \\\"sh -c \\\\\\\"sh -c \\\\\\\\\\\\\\\"sh -c \\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\"sh -c 'git "
       "push'\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\"\\\\\\\\\\\\\\\"\\\\\\\"\\\"\"}",
       true},
      {"{\"command\":\"$($($($($($($($($(ls)))))))))\"}", true},
      {"{\"command\":\"$($($(ls)))\"}", false}}},
    {"{command: {runs: 'git push * --force*'}}",
     {{"{\"command\":\"git push $(git remote) --force\"}", true},
      {"{\"command\":\"git push \\\"$(git remote)\\\" --force\"}", true},
      {"{\"command\":\"git push `git remote` --force\"}", true},
      {"{\"command\":\"git push <(ls) --force\"}", true},
      {"{\"command\":\"git push $(git remote); ls --force\"}", false},
      {"{\"command\":\"git push origin --force\"}", true}}},
    {"{command: {runs: 'git push *'}}",
     {{"{\"command\":\"git push\"}", true},
      {"{\"command\":\"git push x\"}", true},
      {"{\"command\":\"git pushd\"}", false}}},
    {"{command: {runs: [rm, 'rm *', 'dd *']}}",
     {{"{\"command\":\"rm -rf /\"}", true},
      {"{\"command\":\"ls; rm x\"}", true},
      {"{\"command\":\"/bin/rm x\"}", true},
      {"{\"command\":\"dd if=a\"}", true},
      {"{\"command\":\"rmdir x\"}", false},
      {"{\"command\":\"echo rm\"}", false},
      {"{\"command\":\"ls rm\"}", false},
      {"{\"command\":\"sudo rm x\"}", true},
      {"{\"command\":\"xargs rm\"}", true},
      {"{\"command\":\"\\\\rm x\"}", true},
      {"{\"command\":\"command rm x\"}", true}}},
    {"{command: {runs: 'curl *', not: '*localhost*'}}",
     {{"{\"command\":\"curl example.com\"}", true}, {"{\"command\":\"curl localhost\"}", false}}},
    {"{command: 'ls*'}", {{"{\"command\":\"ls -la\"}", true}, {"{\"command\":\"cd x; ls\"}", false}}},
    {"{url: 'https://*.example/**'}",
     {{"{\"url\":\"https://a.example/x/y\"}", true},
      {"{\"url\":\"http://a.example/x\"}", false},
      {"{\"url\":\"https://example.evil/x\"}", false}}},
    {"{query: {glob: '*drop table*', not: '*select*'}}",
     {{"{\"query\":\"drop table x\"}", true}, {"{\"query\":\"select drop table\"}", false}}},
    {"{'tags.*': secret}",
     {{"{\"tags\":[\"a\",\"secret\"]}", true},
      {"{\"tags\":{\"x\":\"secret\"}}", true},
      {"{\"tags\":\"secret\"}", false}}},
    {"{name: '?at'}", {{"{\"name\":\"cat\"}", true}, {"{\"name\":\"at\"}", false}, {"{\"name\":\"/at\"}", false}}},
    {"{name: ''}", {{"{\"name\":\"\"}", true}, {"{\"name\":\"a\"}", false}}},
};

static tp_hooks *hooks_of(tp_runtime *runtime, const char *text) {
  tp_hooks *hooks;
  tp_fault fault = {0};
  write_named("a.yaml", text);
  if (read_hooks(runtime, NULL, &hooks, &fault) != TP_OK) fail_msg("%s: %u: %s", text, fault.line, fault.message);
  return hooks;
}

static bool holds(const tp_hooks *hooks, const char *call) {
  tp_writer *writer;
  tp_text arguments;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(tp_json_decode(tp_text_of(call), writer, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &arguments), TP_OK);
  bool held = tp__conditions_hold(hooks->first->conditions, arguments, NULL, NULL);
  tp_writer_free(writer);
  return held;
}

TEST(arguments_fit_as_the_table_says) {
  size_t count = 0;
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(vectors); i++) {
    char text[600];
    snprintf(text, sizeof text, "id: a\nevent: tool.pre\nmatch: {arguments: %s}\nhandler: {kind: deny}\n",
             vectors[i].arguments);
    tp_hooks *hooks = hooks_of(runtime, text);
    for (size_t k = 0; k < CALLS_MAX && vectors[i].calls[k].call; k++, count++) {
      const char *call = vectors[i].calls[k].call;
      if (holds(hooks, call) != vectors[i].calls[k].holds) fail_msg("%s of %s", vectors[i].arguments, call);
    }
    tp_hooks_free(hooks);
  }
  close_runtime(runtime);
  assert_true(count >= 200);
}

/* A shell line that is cut anywhere, or contains odd bytes, neither crashes nor hangs. */
TEST(any_line_can_be_looked_at) {
  static const char line[] = "A=1 2>x sudo sh -c \"git 'push' $(a `b` \\\\ \" | (x && y) & eval 'q' <(z) #c\n{ !; }";
  static const char odd[] = "\"'`\\$(){};|&<><>#\n\n -12/ab=";
  tp__condition condition = {.runs = {.items = {"git push*"}, .count = 1}};
  tp__conditions conditions = {.count = 1};
  assert_null(tp__condition_set_path(&condition, "c"));
  conditions.items[0] = condition;
  uint32_t seed = 1;
  for (int i = 0; i < 4000; i++) {
    char bytes[160] =
        "\x81\xa1"
        "c\xd9";
    size_t size = 0;
    for (size_t most = (size_t)i % 120; size < most; size++) {
      seed = seed * 1664525 + 1013904223;
      bytes[5 + size] = i < (int)sizeof line ? line[size % (sizeof line - 1)] : odd[(seed >> 16) % (sizeof odd - 1)];
    }
    bytes[4] = (char)size;
    (void)tp__conditions_hold(&conditions, (tp_text){bytes, 5 + size}, NULL, NULL);
  }
}

/* ---- what a file may say ---- */

TEST(conditions_that_nothing_could_fit_are_refused) {
  static const struct {
    const char *match, *says;
  } rows[] = {
      {"{arguments: path}", "a map from paths"},
      {"{arguments: {path: {}}}", "a condition has one of"},
      {"{arguments: {path: []}}", "nothing would fit"},
      {"{arguments: {path: {globs: a}}}", "globs"},
      {"{arguments: {path: {min: a}}}", "min must be a number"},
      {"{arguments: {path: {min: 3, max: 2}}}", "min is above max"},
      {"{arguments: {path: {exists: maybe}}}", "exists must be true or false"},
      {"{arguments: {path: {exists: false, glob: a}}}", "stands by itself"},
      {"{arguments: {a..b: c}}", "is empty"},
      {"{arguments: {'': c}}", "is empty"},
      {"{arguments: {path: {a: {b: c}}}}", "a condition"},
      {"{arguments: {path: [[a]]}}", "must be text"},
      {"{if: Bash(x)}", "belongs to the protocol"},
  };
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(rows); i++) {
    char text[400];
    tp_hooks *hooks;
    tp_fault fault = {0};
    snprintf(text, sizeof text, "id: a\nevent: tool.pre\nmatch: %s\nhandler: {kind: deny}\n", rows[i].match);
    write_named("a.yaml", text);
    assert_int_not_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_OK);
    if (!strstr(fault.message, rows[i].says) || fault.line != 3)
      fail_msg("%s: %u: %s", rows[i].match, fault.line, fault.message);
  }
  write_named("a.yaml", "id: a\nevent: turn.intake\nmatch: {arguments: {a: b}}\nhandler: {kind: deny}\n");
  tp_hooks *hooks;
  tp_fault fault = {0};
  assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_ERR_MATCH_KEY);
  close_runtime(runtime);
}

/* ---- guards ---- */

typedef struct gate_call {
  const char *tool, *arguments; /* JSON */
} gate_call;

static tp_phase_result gate(tp_turn *turn, gate_call call) {
  tp_writer *writer;
  tp_text arguments;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(tp_json_decode(tp_text_of(call.arguments), writer, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &arguments), TP_OK);
  tp_field fields[] = {{.id = TP_FIELD_TOOL, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(call.tool)},
                       {.id = TP_FIELD_ARGUMENTS, .kind = TP_FIELD_KIND_VALUE, .text = arguments}};
  tp_phase_input input = {.struct_size = sizeof input, .fields = fields, .field_count = 2};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TOOL_PRE, &input, &result, NULL), TP_OK);
  tp_writer_free(writer);
  return result;
}

static void assert_verdict(tp_turn *turn, gate_call call, tp_verdict verdict, const char *reason) {
  tp_phase_result result = gate(turn, call);
  bool denied = result.outcome == TP_ERR_DENIED;
  if (denied != (verdict == TP_VERDICT_DENY) || (result.verdict == TP_VERDICT_ASK) != (verdict == TP_VERDICT_ASK))
    fail_msg("%s %s: %s", call.tool, call.arguments, tp_status_name(result.outcome));
  char said[300];
  snprintf(said, sizeof said, "%.*s", (int)result.reason.size, result.reason.size ? result.reason.data : "");
  if (reason && !strstr(said, reason)) fail_msg("%s: %s", call.tool, said);
  tp_phase_result_release(turn, &result);
}

TEST(guard_without_a_program_decides_with_its_reason) {
  write_named("a.yaml",
              "id: no_prod\nevent: PreAbilityCall\nmatch: {ability_scope: 'edit_*', arguments: {path: '**/prod*'}}\n"
              "handler: {kind: deny, reason: prod is closed}\n");
  write_named("b.yaml",
              "id: push\nevent: tool.pre\nmatch: {arguments: {command: {runs: 'git push*'}}}\n"
              "handler: {kind: ask, reason: it is a push}\n");
  write_named("c.yaml", "id: fine\nevent: tool.pre\nhandler: {kind: allow}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  tp_turn *turn = begin_bare(runtime, 60000);
  assert_verdict(turn, (gate_call){"edit_file", "{\"path\":\"config/prod.yaml\"}"}, TP_VERDICT_DENY, "prod is closed");
  assert_verdict(turn, (gate_call){"edit_file", "{\"path\":\"config/dev.yaml\"}"}, TP_VERDICT_ALLOW, NULL);
  assert_verdict(turn, (gate_call){"read_file", "{\"path\":\"config/prod.yaml\"}"}, TP_VERDICT_ALLOW, NULL);
  assert_verdict(turn, (gate_call){"shell", "{\"command\":\"cd a && git push\"}"}, TP_VERDICT_ASK, "it is a push");
  assert_verdict(turn, (gate_call){"shell", "{\"command\":\"git pull\"}"}, TP_VERDICT_ALLOW, NULL);
  tp_turn_end(turn);
  close_runtime(runtime);
}

TEST(lists_of_a_profile_say_what_becomes_of_each_tool) {
  static const struct {
    const char *otherwise, *tool;
    tp_verdict verdict;
  } rows[] = {
      {"auto", "files_read", TP_VERDICT_ALLOW},  {"auto", "shell", TP_VERDICT_ASK},
      {"auto", "deploy", TP_VERDICT_DENY},       {"auto", "deploy_prod", TP_VERDICT_DENY},
      {"auto", "other", TP_VERDICT_ALLOW},       {"ask", "other", TP_VERDICT_ASK},
      {"ask", "files_read", TP_VERDICT_ALLOW},   {"never", "other", TP_VERDICT_DENY},
      {"never", "files_read", TP_VERDICT_ALLOW}, {"never", "shell", TP_VERDICT_ASK},
      {"auto", "both", TP_VERDICT_DENY},         {"auto", "shell_ask", TP_VERDICT_ASK},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    char text[400];
    snprintf(text, sizeof text,
             "kind: permissions\nid: floor\nauto: ['files_*', shell_ask, both]\nask: 'shell*'\n"
             "never: ['deploy*', both]\notherwise: %s\n",
             rows[i].otherwise);
    write_named("a.yaml", text);
    tp_runtime *runtime = open_with_hooks(NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    assert_verdict(turn, (gate_call){rows[i].tool, "{}"}, rows[i].verdict,
                   rows[i].verdict == TP_VERDICT_ALLOW ? NULL : rows[i].tool);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- rules of another host ---- */

TEST(rule_of_another_host_limits_its_hook) {
  static const struct {
    const char *rule, *tool, *arguments;
    bool runs;
  } rows[] = {
      {"Bash(git push*)", "sh", "{\"cmd\":\"git push\"}", true},
      {"Bash(git push*)", "sh", "{\"cmd\":\"ls && git push -f\"}", true},
      {"Bash(git push*)", "sh", "{\"cmd\":\"git pull\"}", false},
      {"Bash(git push*)", "write_file", "{\"path\":\"git push\"}", false},
      {"Bash(git push:*)", "sh", "{\"cmd\":\"git push origin\"}", true},
      {"Bash(git push:*)", "sh", "{\"cmd\":\"git push\"}", true},
      {"Bash(git push:*)", "sh", "{\"cmd\":\"git pushd\"}", false},
      {"Bash(rm *)", "sh", "{\"cmd\":\"rm x\"}", true},
      {"Bash", "sh", "{\"cmd\":\"ls\"}", true},
      {"Bash", "write_file", "{\"path\":\"x\"}", false},
      {"Edit(src/**)", "write_file", "{\"path\":\"src/a.c\"}", true},
      {"Edit(src/**)", "write_file", "{\"path\":\"lib/a.c\"}", false},
      {"Edit(/src/**)", "write_file", "{\"path\":\"./src/a.c\"}", true},
      {"Write(.env)", "write_file", "{\"path\":\"a/b/.env\"}", true},
      {"Write(.env)", "write_file", "{\"path\":\"a/b/.envrc\"}", false},
      {"Read(.env)", "write_file", "{\"path\":\".env\"}", false},
      {"Edit(//etc/**)", "write_file", "{\"path\":\"/etc/passwd\"}", true},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    char text[500];
    snprintf(text, sizeof text,
             "id: a\nprotocol: claude-code\nevent: PreToolUse\nmatch: {if: '%s'}\nfailure: required\n"
             "tools: {sh: {name: Bash, arguments: {cmd: command}}, write_file: {name: Write, arguments: {path: "
             "file_path}}}\nhandler: {kind: deny, reason: no}\n",
             rows[i].rule);
    write_named("a.yaml", text);
    tp_runtime *runtime = open_with_hooks(NULL);
    tp_turn *turn = begin_bare(runtime, 60000);
    assert_verdict(turn, (gate_call){rows[i].tool, rows[i].arguments},
                   rows[i].runs ? TP_VERDICT_DENY : TP_VERDICT_ALLOW, NULL);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

/* ---- cost ---- */

static int64_t processor_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Prints the mean processor time as a note, because the bound of a microsecond only holds for an optimized build. */
TEST(match_of_arguments_costs_little) {
  enum { ROUNDS = 20000 };
  tp_runtime *runtime = open_runtime(NULL);
  tp_hooks *hooks = hooks_of(runtime,
                             "id: a\nevent: tool.pre\nmatch: {arguments: {path: 'config/prod*'}}\n"
                             "handler: {kind: deny}\n");
  tp_writer *writer;
  tp_text arguments;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(tp_json_decode((tp_text)TEXT("{\"path\":\"config/dev/eu/west.yaml\"}"), writer, NULL), TP_OK);
  assert_int_equal(tp_writer_finish(writer, &arguments), TP_OK);
  int64_t begun_ns = processor_ns();
  size_t held = 0;
  for (int i = 0; i < ROUNDS; i++) held += tp__conditions_hold(hooks->first->conditions, arguments, NULL, NULL);
  print_message("# %.0f ns a match\n", (double)(processor_ns() - begun_ns) / ROUNDS);
  assert_int_equal(held, 0);
  tp_writer_free(writer);
  tp_hooks_free(hooks);
  close_runtime(runtime);
}
