/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: is a spec the same as another, in every field? */
#pragma once
#include "model/spec.h"
#include "tests/test.h"

static inline void check_strs(const char *store, const struct cay_strs *got,
                              const struct cay_strs *want)
{
    CHECK_EQ(store, got->count, want->count);
    for (size_t i = 0; i < got->count && i < want->count; i++)
        CHECK_STR(store, got->at[i], want->at[i]);
}

static inline void check_network(const char *store, const struct cay_network *got,
                                 const struct cay_network *want)
{
    CHECK_EQ(store, got->form, want->form);
    CHECK_EQ(store, got->mode, want->mode);
    CHECK_EQ(store, got->generation, want->generation);
    check_strs(store, &got->allow, &want->allow);
    check_strs(store, &got->deny, &want->deny);
    check_strs(store, &got->subnets_allow, &want->subnets_allow);
    check_strs(store, &got->subnets_deny, &want->subnets_deny);
}

static inline void check_spec(const char *store, const struct cay_spec *got,
                              const struct cay_spec *want)
{
    CHECK_STR(store, got->name, want->name);
    CHECK_STR(store, got->image, want->image);
    check_strs(store, &got->start, &want->start);
    CHECK_STR(store, got->start_text, want->start_text);
    CHECK_EQ(store, got->cpu_milli, want->cpu_milli);
    CHECK_EQ(store, got->memory_bytes, want->memory_bytes);
    CHECK_EQ(store, got->disk_bytes, want->disk_bytes);
    CHECK_EQ(store, got->pids, want->pids);
    CHECK_EQ(store, got->gpu_count, want->gpu_count);
    check_network(store, &got->network, &want->network);
    CHECK_EQ(store, got->persistent, want->persistent);
    CHECK_EQ(store, got->stop_when_start_ends, want->stop_when_start_ends);
    CHECK_EQ(store, got->timeout_ms, want->timeout_ms);
    CHECK_EQ(store, got->env.count, want->env.count);
    for (size_t i = 0; i < want->env.count; i++)
        CHECK_STR(store, cay_pairs_get(&got->env, want->env.at[i].key), want->env.at[i].value);
    CHECK_EQ(store, got->labels.count, want->labels.count);
    CHECK_EQ(store, got->tags.count, want->tags.count);
    CHECK_STR(store, got->user, want->user);
    CHECK_STR(store, got->workdir, want->workdir);
    CHECK_STR(store, got->team_id, want->team_id);
    CHECK_STR(store, got->from, want->from);
    CHECK_STR(store, got->volume, want->volume);
    CHECK_EQ(store, got->source.kind, want->source.kind);
    CHECK_STR(store, got->source.url, want->source.url);
    CHECK_STR(store, got->source.revision, want->source.revision);
    CHECK_EQ(store, got->source.depth, want->source.depth);
    CHECK_EQ(store, got->source.timeout_ms, want->source.timeout_ms);
    CHECK(store, !got->source.username && !got->source.password);
}
