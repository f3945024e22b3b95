# SPDX-License-Identifier: MIT
"""`bench --against bitsandbytes,flash_attn,liger,torch`: single operators beside what else is installed here.

Every result is compared with float64 before it is timed, and a wrong one has no figure. A run is of one machine, and
says which; figures of two machines are not put together.
"""
