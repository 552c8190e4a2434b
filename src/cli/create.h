/* SPDX-License-Identifier: Apache-2.0 */
/* What `create` and `run` both take to describe a sandbox. */
#pragma once
#include "cli/network.h"
#include "cli/remote.h"

struct cay_create_options {
    struct cay_remote_options remote;
    const char *image, *name, *start, *user, *workdir, *from, *source, *volume, *network, *track,
        *pull, *team;
    double cpus;
    int64_t memory_bytes, disk_bytes, timeout_ms, idle_ms, lease_ms;
    const char *ready_line; /* the rest of these is of `create` alone, which has a start command */
    int64_t ready_port, ready_ms;
    struct cay_pairs env, secrets, tags;
    struct cay_strs labels, secret_files;
    struct cay_edge_options edge;
    bool no_network, persistent;
};

#define CAY_CREATE_AT(member) offsetof(struct cay_create_options, member)
#define CAY_CREATE_OPTIONS                                                                         \
    {CAY_OPTION_STRING, "image", CAY_CREATE_AT(image), .arg = "NAME", .help = "image to run"},     \
        {CAY_OPTION_STRING, "pull", CAY_CREATE_AT(pull), .arg = "always|missing|never",            \
         .help = "when its registry is asked"},                                                    \
        {CAY_OPTION_STRING, "from", CAY_CREATE_AT(from), .arg = "SNAPSHOT",                        \
         .help = "snapshot whose files it begins with"},                                           \
        {CAY_OPTION_STRING, "track", CAY_CREATE_AT(track), .arg = "WHAT",                          \
         .help = "keep versions of its workspace, or of files: see history"},                      \
        {CAY_OPTION_STRING, "source", CAY_CREATE_AT(source), .arg = "URL[@REVISION]",              \
         .help = "repository or archive to fetch into its working directory"},                     \
        {CAY_OPTION_STRING, "volume", CAY_CREATE_AT(volume), .arg = "VOLUME",                      \
         .help = "volume that is its /workspace, and stays"},                                      \
        {CAY_OPTION_STRING, "name", CAY_CREATE_AT(name), .arg = "NAME",                            \
         .help = "its name; made up when not given"},                                              \
        {CAY_OPTION_NUMBER, "cpus", CAY_CREATE_AT(cpus), .arg = "N",                               \
         .help = "at most this many cores, like 0.5"},                                             \
        {CAY_OPTION_SIZE,                                                                          \
         "memory",                                                                                 \
         CAY_CREATE_AT(memory_bytes),                                                              \
         'm',                                                                                      \
         .arg = "SIZE",                                                                            \
         .help = "at most this much memory, like 512m"},                                           \
        {CAY_OPTION_SIZE, "disk", CAY_CREATE_AT(disk_bytes), .arg = "SIZE",                        \
         .help = "at most this much disk, like 5g"},                                               \
        {CAY_OPTION_PAIRS,   "env",                                                                \
         CAY_CREATE_AT(env), 'e',                                                                  \
         .arg = "KEY=VALUE", .help = "variable inside; KEY alone takes our own value"},            \
        {CAY_OPTION_PAIRS, "secret", CAY_CREATE_AT(secrets), .arg = "NAME[=VALUE]",                \
         .help = "secret inside; NAME alone takes our own variable, which others cannot see"},     \
        {CAY_OPTION_LIST, "secret-file", CAY_CREATE_AT(secret_files), .arg = "NAME=FILE",          \
         .help = "secret inside: what the file holds, without a last newline"},                    \
        {CAY_OPTION_LIST, "label", CAY_CREATE_AT(labels), 'l', .arg = "TEXT", .help = "label"},    \
        {CAY_OPTION_PAIRS, "tag", CAY_CREATE_AT(tags), .arg = "KEY=VALUE", .help = "tag"},         \
        {CAY_OPTION_STRING, "team", CAY_CREATE_AT(team), .arg = "ID", .help = "whose it is"},      \
        {CAY_OPTION_STRING,   "user",                                                              \
         CAY_CREATE_AT(user), 'u',                                                                 \
         .arg = "USER",       .help = "who runs commands inside"},                                 \
        {CAY_OPTION_STRING,      "workdir",                                                        \
         CAY_CREATE_AT(workdir), 'w',                                                              \
         .arg = "DIR",           .help = "where commands begin"},                                  \
        {CAY_OPTION_STRING, "network", CAY_CREATE_AT(network), .arg = "WHAT",                      \
         .help = "what it may reach: open, off, observe, or rules like *.debian.org:80,…"},        \
        CAY_EDGE_OPTIONS(CAY_CREATE_AT(edge)),                                                     \
    {                                                                                              \
        CAY_OPTION_FLAG, "no-network", CAY_CREATE_AT(no_network),                                  \
            .help = "the same as --network off"                                                    \
    }

/* Creates it; timeout_ms < 0 leaves the server's default, 0 is never. name stands over o->name. */
int cay_create(struct cay_cli *cli, const struct cay_create_options *o, const char *name,
               int64_t timeout_ms, const struct cay_json **out, struct cay_error *err);
