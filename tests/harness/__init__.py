# SPDX-License-Identifier: Apache-2.0
"""What the tests under e2e, escape and fault drive the real server with; standard library only."""
