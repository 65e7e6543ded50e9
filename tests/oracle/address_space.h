/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a process had mapped executable, as modules of libdwfl. */
#ifndef ADDRESS_SPACE_H
#define ADDRESS_SPACE_H

#include "copies.h"
#include <elfutils/libdwfl.h>

struct address_space;

/* The address space that `maps` tells of. The same one for equal texts. */
struct address_space *address_space_of(const struct maps_record *maps,
				       const Dwfl_Thread_Callbacks *callbacks,
				       void *callback_argument);

Dwfl *address_space_dwfl(struct address_space *space);

/* Reads a word of a mapped file; false where none is mapped. */
bool address_space_read(struct address_space *space, uint64_t address, uint64_t *word);

/* Writes `module+0xoffset`, or the plain address, and the symbol when `with_name`. */
void address_space_label(struct address_space *space, uint64_t address, bool with_name, char *out,
			 size_t out_bytes);

/* The name of the function around an address; NULL where none is known. */
const char *address_space_symbol(struct address_space *space, uint64_t address);

/* Whether there is call frame information for an instruction. */
bool address_space_has_cfi(struct address_space *space, uint64_t address);

#endif /* ADDRESS_SPACE_H */
