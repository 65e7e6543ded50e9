/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Part of the contract of prof.h: which goroutine of a Go program a thread works for, and what its
 * program says of that work.
 */
#ifndef PROF_GOROUTINE_H
#define PROF_GOROUTINE_H

/* How a goroutine keeps the labels that its program gave it. */
enum prof_label_form {
	PROF_LABELS_NONE = 0,  /* in none that is known */
	PROF_LABELS_MAP = 1,   /* a map of strings, in buckets of eight */
	PROF_LABELS_PAIRS = 2, /* a slice of pairs of strings */
};

/* Where Go's runtime keeps the goroutine of a thread: each offset is from the word before. */
struct prof_goroutine_place {
	__s64 own_off;	      /* from the thread pointer: the goroutine that runs, or the thread's
			       * own */
	__u64 constants;      /* process address of data that never change */
	__u64 constant_bytes; /* how much of them there is */
	__u16 machine_off;    /* in a goroutine: its thread */
	__u16 current_off;    /* in a thread: the goroutine that it works for; 0: none */
	__u16 id_off;	      /* in a goroutine */
	__u16 labels_off;     /* in a goroutine: pointer to its labels; 0: it has none */
	__u8 is_known;	      /* else the process is no Go program, or nothing is known of it */
	__u8 label_form;      /* enum prof_label_form */
	__u8 pad[6];
};

/* The goroutine of a sample. It is the sample's last part, where its runtime_flags say that there
 * is one. */
struct prof_goroutine {
	__u64 id;
	__u64 labels; /* pointer to its labels */
	__u64 check;  /* of goroutine_check; 0: they could not be read */
};

/* Labels that are looked at: more are left out. */
#define PROF_GO_LABELS 8
/* Bytes of a list of so many labels: of a bucket, and at most of a slice. */
#define PROF_GO_BUCKET_BYTES 272
#define PROF_GO_PAIRS_BYTES (PROF_GO_LABELS * 32)
/* In a bucket: bytes that say which of its eight entries are used, if they are at least this. */
#define PROF_GO_ENTRY_USED 5
/* Words of a string that count for the check. */
#define PROF_GO_STRING_WORDS 8

#endif /* PROF_GOROUTINE_H */
