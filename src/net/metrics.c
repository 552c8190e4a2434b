/* SPDX-License-Identifier: Apache-2.0 */
#include "net/metrics.h"

struct cay_metric cay_net_open = {.name = "cay_egress_connections",
                                  .help = "Connections out of sandboxes that are open.",
                                  .goes_down = true};
struct cay_metric cay_net_opened = {.name = "cay_egress_connections_total",
                                    .help = "Connections out of sandboxes that were allowed."};
struct cay_metric cay_net_refused = {.name = "cay_egress_refused_total",
                                     .help = "Connections that a policy or a limit refused."};
struct cay_metric cay_net_failed = {.name = "cay_egress_failed_total",
                                    .help = "Allowed connections that did not come about."};
struct cay_metric cay_net_cut = {.name = "cay_egress_cut_total",
                                 .help = "Connections that a change of policy cut."};
struct cay_metric cay_net_sent = {.name = "cay_egress_sent_bytes_total",
                                  .help = "Bytes out of sandboxes."};
struct cay_metric cay_net_received = {.name = "cay_egress_received_bytes_total",
                                      .help = "Bytes into sandboxes, on their own connections."};
struct cay_metric cay_net_asked = {.name = "cay_egress_questions_total",
                                   .help = "Names that sandboxes asked for."};
struct cay_metric cay_net_not_answered = {.name = "cay_egress_questions_refused_total",
                                          .help = "Names that a policy refused."};
struct cay_metric cay_net_injected = {
    .name = "cay_egress_injected_total",
    .help = "Requests that were given headers on their way out of sandboxes."};
