/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/metrics.h"

extern struct cay_metric cay_net_open, cay_net_opened, cay_net_refused, cay_net_failed, cay_net_cut,
    cay_net_sent, cay_net_received, cay_net_asked, cay_net_not_answered, cay_net_injected;
