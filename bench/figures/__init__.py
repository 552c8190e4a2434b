# SPDX-License-Identifier: Apache-2.0
"""One file per theme; each has FIGURES, name to function of a Bench."""
