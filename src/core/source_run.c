/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever these programs can be talked into happens inside, with the user's rights, before the
 * first command; still they are kept to what they are for: one protocol, no hooks, no submodules,
 * no settings but ours. */
#include "core/source_run.h"
#include "model/limits.h"
#include <stdio.h>
#include <string.h>

/* $1 URL, $2 branch or tag, $3 commit, $4 depth; all but the first may be empty. */
static const char git_script[] =
    "command -v git > /dev/null || { echo 'the image has no git' >&2; exit 90; }\n"
    "url=$1 branch=$2 commit=$3 depth=$4\n"
    "if [ -z \"$commit\" ]; then\n"
    "  exec git clone --quiet --no-recurse-submodules --template= ${depth:+--depth=\"$depth\"}"
    " ${branch:+--branch=\"$branch\"} -- \"$url\" .\n"
    "fi\n"
    "git init --quiet --template= . && git remote add -- origin \"$url\" &&\n"
    "git fetch --quiet --no-recurse-submodules ${depth:+--depth=\"$depth\"} -- origin \"$commit\" "
    "&&\n"
    "git checkout --quiet --detach FETCH_HEAD\n";

/* $1 URL. What comes goes to a file first: half an archive is not unpacked. Who got some of it and
 * not all was lied to about its length. */
static const char tarball_script[] =
    "missing() { echo \"the image has no $1\" >&2; exit 90; }\n"
    "for tool in tar mktemp; do command -v $tool > /dev/null || missing $tool; done\n"
    "with=\n"
    "for tool in ${CAY_FETCH_WITH:-curl node python3}; do\n"
    "  [ -z \"$with\" ] && command -v \"$tool\" > /dev/null && with=$tool\n"
    "done\n"
    "file=$(mktemp) || exit 1\n"
    "trap 'rm -f \"$file\"' EXIT\n"
    "case $with in\n"
    "curl) curl -gfsSL --proto =https --proto-redir =https --max-redirs 5 --speed-limit 1000"
    " --speed-time \"$2\" -o \"$file\" --url \"$1\";;\n"
    "node) node -e \"$3\" \"$1\" \"$file\" \"$2\";;\n"
    "python3) python3 -c \"$4\" \"$1\" \"$file\" \"$2\";;\n"
    "*) missing 'curl, node or python3';;\n"
    "esac || { code=$?; [ -s \"$file\" ] && code=92; exit $code; }\n"
    "said=$(tar -xof \"$file\" 2>&1 && [ -s \"$file\" ]) && exit 0\n"
    "printf '%s\\n' \"${said:-tar: nothing is in it}\" | head -n 1 >&2\n"
    "exit 92\n";

static const char node_program[] =
    "const [url, file, quiet] = process.argv.slice(1), end = (m, code) => {\n"
    "  console.error('node: ' + m); process.exit(code || 1); };\n"
    "const get = (at, hops) => require('https').get(at, {timeout: quiet * 1000}, r => {\n"
    "  const to = r.headers.location && new URL(r.headers.location, at);\n"
    "  if (r.statusCode > 300 && r.statusCode < 400 && to) {\n"
    "    if (to.protocol !== 'https:' || hops > 4) end('redirected elsewhere');\n"
    "    r.destroy(); get(to, hops + 1);\n"
    "  } else if (r.statusCode !== 200) end('the server answered ' + r.statusCode);\n"
    "  else require('stream').pipeline(r, require('fs').createWriteStream(file),\n"
    "    e => e && end(e.message, 92));\n"
    "}).on('timeout', function () { this.destroy(Error('the server is silent')); })\n"
    "  .on('error', e => end(e.message));\n"
    "get(new URL(url), 0);\n";

static const char python_program[] =
    "import shutil, sys, urllib.request as web\n"
    "class Redirect(web.HTTPRedirectHandler):\n"
    "    def redirect_request(self, req, fp, code, msg, headers, to):\n"
    "        if not to.startswith('https://'):\n"
    "            raise OSError('redirected elsewhere')\n"
    "        return super().redirect_request(req, fp, code, msg, headers, to)\n"
    "try:\n"
    "    r = web.build_opener(Redirect).open(sys.argv[1], timeout=int(sys.argv[3]))\n"
    "    with open(sys.argv[2], 'wb') as f:\n"
    "        shutil.copyfileobj(r, f)\n"
    "    if r.length:\n"
    "        raise OSError('the answer ends early')\n"
    "except Exception as e:\n"
    "    sys.exit('python3: %s' % e)\n";

static bool is_commit(const char *s)
{
    size_t len = strlen(s);
    return (len == 40 || len == 64) && s[strspn(s, "0123456789abcdef")] == '\0';
}

/* Git reads settings from the environment as if they were its options; nothing of them is written
 * to the repository. */
static void add_settings(struct cay_arena *a, const char *origin, const char *login,
                         struct cay_pairs *env)
{
    const struct cay_pair settings[] = {
        {"protocol.allow", "never"},
        {"protocol.https.allow", "always"},
        {"core.hooksPath", "/dev/null"},
        {"core.fsmonitor", "false"},
        {"submodule.recurse", "false"},
        {"credential.helper", ""},
        {"safe.directory", "*"},
        {"gc.auto", "0"},
        {"maintenance.auto", "false"},
        {"http.lowSpeedLimit", "1000"},
        {"http.lowSpeedTime", cay_arena_printf(a, "%d", CAY_SOURCE_SILENCE_S)},
        {cay_arena_printf(a, "http.%s.extraHeader", origin), login},
    };
    size_t count = CAY_COUNT(settings) - (login ? 0 : 1);
    for (size_t i = 0; i < count; i++) {
        cay_pairs_set(a, env, cay_arena_printf(a, "GIT_CONFIG_KEY_%zu", i), settings[i].key);
        cay_pairs_set(a, env, cay_arena_printf(a, "GIT_CONFIG_VALUE_%zu", i), settings[i].value);
    }
    cay_pairs_set(a, env, "GIT_CONFIG_COUNT", cay_arena_printf(a, "%zu", count));
}

static void add_git(struct cay_arena *a, const struct cay_spec_source *s, const char *origin,
                    const char *login, struct cay_exec_spec *out)
{
    static const struct cay_pair fixed[] = {
        {"GIT_ALLOW_PROTOCOL", "https"},
        {"GIT_CONFIG_NOSYSTEM", "1"},
        {"GIT_CONFIG_GLOBAL", "/dev/null"},
        {"GIT_TERMINAL_PROMPT", "0"},
        {"GIT_ASKPASS", "true"},
        {"GIT_LFS_SKIP_SMUDGE", "1"},
        {"GIT_TRACE_CURL", "0"},
        {"GIT_CURL_VERBOSE", "0"},
        {"LC_ALL", "C"},
    };
    const char *revision = s->revision ? s->revision : "";
    bool commit = is_commit(revision);
    for (size_t i = 0; i < CAY_COUNT(fixed); i++)
        cay_pairs_set(a, &out->env, fixed[i].key, fixed[i].value);
    add_settings(a, origin, login, &out->env);
    cay_strs_push(a, &out->argv, git_script);
    cay_strs_push(a, &out->argv, "source");
    cay_strs_push(a, &out->argv, s->url);
    cay_strs_push(a, &out->argv, commit ? "" : revision);
    cay_strs_push(a, &out->argv, commit ? revision : "");
    cay_strs_push(a, &out->argv, s->depth ? cay_arena_printf(a, "%lld", (long long)s->depth) : "");
}

static void add_tarball(struct cay_arena *a, const struct cay_spec_source *s,
                        struct cay_exec_spec *out)
{
    cay_strs_push(a, &out->argv, tarball_script);
    cay_strs_push(a, &out->argv, "source");
    cay_strs_push(a, &out->argv, s->url);
    cay_strs_push(a, &out->argv, cay_arena_printf(a, "%d", CAY_SOURCE_SILENCE_S));
    cay_strs_push(a, &out->argv, node_program);
    cay_strs_push(a, &out->argv, python_program);
}

struct cay_exec_spec cay_source_command(struct cay_arena *a, const struct cay_spec_source *s,
                                        const struct cay_pairs *env, const char *origin,
                                        const char *login)
{
    struct cay_exec_spec out = {.timeout_ms = s->timeout_ms};
    for (size_t i = 0; i < env->count; i++)
        cay_pairs_set(a, &out.env, env->at[i].key, env->at[i].value);
    cay_strs_push(a, &out.argv, "/bin/sh");
    cay_strs_push(a, &out.argv, "-c");
    if (s->kind == CAY_SOURCE_GIT)
        add_git(a, s, origin, login, &out);
    else
        add_tarball(a, s, &out);
    return out;
}
