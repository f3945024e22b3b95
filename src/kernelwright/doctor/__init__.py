# SPDX-License-Identifier: MIT
"""Names the cause of what goes wrong between a driver, a toolkit, a torch and a wheel. Standard library only.

`causes/` has one record for each cause: its code (`KW-001` …), why it happens, the command that ends it, how it shows
in a log. `explain/` finds the cause in anybody's log.
"""
