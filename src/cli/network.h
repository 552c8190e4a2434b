/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may reach, as an option says it. */
#pragma once
#include "base/json.h"
#include "cli/options.h"

/* Headers that requests are given on their way out: "HOST/NAME=VARIABLE", "HOST/NAME=FILE". */
struct cay_edge_options {
    struct cay_strs headers, header_files;
};

#define CAY_EDGE_OPTIONS(at)                                                                       \
    {CAY_OPTION_LIST, "edge-header", (at) + offsetof(struct cay_edge_options, headers),            \
     .arg = "HOST/NAME=VARIABLE",                                                                  \
     .help = "header for its HTTP requests to a host, never inside: our own variable's value"},    \
    {                                                                                              \
        CAY_OPTION_LIST, "edge-header-file",                                                       \
            (at) + offsetof(struct cay_edge_options, header_files),                                \
            .arg = "HOST/NAME=FILE",                                                               \
            .help = "the same: what the file holds, without a last newline"                        \
    }

/* "off", "open", "observe", or rules with commas between: networkPolicy, into the open object.
 * Nothing if neither that nor a header is said. */
int cay_network_put(struct cay_json_writer *w, struct cay_arena *a, const char *text,
                    const struct cay_edge_options *edge, struct cay_error *err);
