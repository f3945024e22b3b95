/* SPDX-License-Identifier: MIT */
/* What the launcher of swiglu hands to its kernels: the one by-value parameter, laid out alike on host and device. */
#ifndef KW_SWIGLU_PARAMS_H
#define KW_SWIGLU_PARAMS_H

/*
 * A unit is what one load brings: 16 bytes, or an element. Every row is `row_units` of them. The first one begins with
 * `skip` elements that are not the row's, since it begins on 16 bytes, and the last may end with some; in shifted rows
 * these depend on the row, and the kernel finds them. Addresses and pitches are bytes.
 */
struct KwSwigluParams {
  const char* gate; /* the first unit of the first row; shifted: its first element; and so for the others */
  const char* up;
  const char* dy; /* null in the forward kernels */
  char* out;      /* y; backward: dgate */
  char* up_out;   /* backward: dup */
  long long gate_pitch, up_pitch, dy_pitch, out_pitch, up_out_pitch;
  long long cols;
  unsigned units; /* of all rows, below 2^31 */
  unsigned row_units;
  unsigned first_whole, end_whole; /* flat, rows: a row's units between these are whole */
  unsigned skip;                   /* flat, rows */
  unsigned magic, shift;           /* n * magic >> shift is n / row_units, for n below 2^31 */
  int slots;                       /* units a thread */
  int large;                       /* the tensors are far larger than L2 */
};

#endif
