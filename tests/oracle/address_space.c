// SPDX-License-Identifier: MIT OR Apache-2.0
/* Makes modules of libdwfl from the text of /proc/PID/maps. Load biases are worked out here, from
 * the program headers: nothing of what prof thinks of the mappings is used. */
#define _GNU_SOURCE
#include "address_space.h"
#include <elfutils/libdw.h>
#include <err.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_MAPPINGS 4096

struct mapping {
	uint64_t start, end, offset, bias;
	char *path;
	int fd; /* -1 when it could not be opened */
	bool has_bias;
};

struct address_space {
	struct address_space *next;
	Dwfl *dwfl;
	struct mapping *mappings;
	size_t count;
	uint32_t pid;
};

/* All that were made. */
static struct address_space *spaces;

/* A copy of this process's vdso in a file: all 64-bit processes have the same. */
static int open_vdso(void)
{
	const unsigned char *vdso = (const unsigned char *)getauxval(AT_SYSINFO_EHDR);
	int fd = memfd_create("vdso", MFD_CLOEXEC);

	if (!vdso || fd < 0 || write(fd, vdso, 2 * 4096) != 2 * 4096)
		return -1;
	return fd;
}

static int open_mapped(const char *path)
{
	return !strcmp(path, "[vdso]") ? open_vdso() : open(path, O_RDONLY | O_CLOEXEC);
}

/* Process address - address in the file, by the executable segment of which the mapping shows most.
 */
static bool find_bias(struct mapping *mapping)
{
	Elf *elf = elf_begin(mapping->fd, ELF_C_READ_MMAP, NULL);
	uint64_t most = 0;
	size_t count = 0;

	if (!elf)
		return false;
	if (elf_kind(elf) != ELF_K_ELF || elf_getphdrnum(elf, &count))
		count = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t from, to, mapped_to = mapping->offset + (mapping->end - mapping->start);
		GElf_Phdr header;

		if (!gelf_getphdr(elf, i, &header) || header.p_type != PT_LOAD ||
		    !(header.p_flags & PF_X))
			continue;
		from = header.p_offset > mapping->offset ? header.p_offset : mapping->offset;
		to = header.p_offset + header.p_filesz;
		to = to < mapped_to ? to : mapped_to;
		if (to <= from || to - from <= most)
			continue;
		most = to - from;
		mapping->bias = mapping->start - mapping->offset + header.p_offset - header.p_vaddr;
	}
	elf_end(elf);
	return most > 0;
}

static void add_mapping(struct address_space *space, const char *line)
{
	struct mapping *mapping = &space->mappings[space->count];
	char rights[8] = "";
	int path_at = 0;

	*mapping = (struct mapping){.fd = -1};
	if (space->count == MAX_MAPPINGS ||
	    sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &mapping->start,
		   &mapping->end, rights, &mapping->offset, &path_at) < 4 ||
	    rights[2] != 'x')
		return;
	mapping->path = strdup(path_at ? line + path_at : "");
	space->count++;
}

static void parse_maps(struct address_space *space, const struct maps_record *maps)
{
	char *text = strndup(maps->text, maps->text_bytes), *rest = text, *line;

	while ((line = strsep(&rest, "\n")))
		add_mapping(space, line);
	free(text);
}

static bool same_mappings(const struct address_space *one, const struct address_space *other)
{
	if (one->pid != other->pid || one->count != other->count)
		return false;
	for (size_t i = 0; i < one->count; i++) {
		const struct mapping *a = &one->mappings[i], *b = &other->mappings[i];

		if (a->start != b->start || a->end != b->end || a->offset != b->offset ||
		    strcmp(a->path, b->path))
			return false;
	}
	return true;
}

static int no_debug_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			 const char *file, const char *link, GElf_Word checksum, char **found)
{
	(void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)checksum,
		(void)found;
	return -1;
}

static const Dwfl_Callbacks file_callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = no_debug_file,
};

static void report_modules(struct address_space *space)
{
	for (size_t i = 0; i < space->count; i++) {
		struct mapping *mapping = &space->mappings[i];
		bool is_known = false;
		char name[4096];

		if (!mapping->path[0])
			continue;
		mapping->fd = open_mapped(mapping->path);
		if (mapping->fd < 0)
			continue;
		mapping->has_bias = find_bias(mapping);
		for (size_t j = 0; j < i; j++)
			is_known |= space->mappings[j].has_bias &&
				    space->mappings[j].bias == mapping->bias &&
				    !strcmp(space->mappings[j].path, mapping->path);
		if (!mapping->has_bias || is_known)
			continue;
		/* libdwfl takes two modules of one name for one; V8 maps its program's file twice.
		 */
		snprintf(name, sizeof(name), "%s at %" PRIx64, mapping->path, mapping->bias);
		if (!dwfl_report_elf(space->dwfl, name, mapping->path, dup(mapping->fd),
				     mapping->bias, true))
			warnx("%s: %s", mapping->path, dwfl_errmsg(-1));
	}
}

struct address_space *address_space_of(const struct maps_record *maps,
				       const Dwfl_Thread_Callbacks *callbacks,
				       void *callback_argument)
{
	struct address_space *space = calloc(1, sizeof(*space));

	if (!space || !(space->mappings = calloc(MAX_MAPPINGS + 1, sizeof(*space->mappings))))
		err(2, "no memory");
	space->pid = maps->pid;
	parse_maps(space, maps);
	for (struct address_space *known = spaces; known; known = known->next) {
		if (same_mappings(known, space)) {
			free(space->mappings);
			free(space);
			return known;
		}
	}
	space->dwfl = dwfl_begin(&file_callbacks);
	if (!space->dwfl)
		errx(2, "dwfl_begin: %s", dwfl_errmsg(-1));
	dwfl_report_begin(space->dwfl);
	report_modules(space);
	dwfl_report_end(space->dwfl, NULL, NULL);
	if (!dwfl_attach_state(space->dwfl, NULL, maps->pid, callbacks, callback_argument))
		warnx("process %" PRIu32 ": %s", maps->pid, dwfl_errmsg(-1));
	space->next = spaces;
	spaces = space;
	return space;
}

Dwfl *address_space_dwfl(struct address_space *space)
{
	return space->dwfl;
}

static const struct mapping *find(const struct address_space *space, uint64_t address)
{
	for (size_t i = 0; i < space->count; i++) {
		if (address >= space->mappings[i].start && address < space->mappings[i].end)
			return &space->mappings[i];
	}
	return NULL;
}

bool address_space_read(struct address_space *space, uint64_t address, uint64_t *word)
{
	const struct mapping *mapping = find(space, address);

	return mapping && mapping->fd >= 0 && mapping->end - address >= 8 &&
	       pread(mapping->fd, word, 8, address - mapping->start + mapping->offset) == 8;
}

const char *address_space_symbol(struct address_space *space, uint64_t address)
{
	Dwfl_Module *module = dwfl_addrmodule(space->dwfl, address);

	return module ? dwfl_module_addrname(module, address) : NULL;
}

void address_space_label(struct address_space *space, uint64_t address, bool with_name, char *out,
			 size_t out_bytes)
{
	const struct mapping *mapping = find(space, address);
	const char *file, *symbol;

	if (!mapping) {
		snprintf(out, out_bytes, "0x%" PRIx64, address);
		return;
	}
	file = strrchr(mapping->path, '/');
	file = file ? file + 1 : mapping->path;
	symbol = with_name ? address_space_symbol(space, address) : NULL;
	snprintf(out, out_bytes, "%s+0x%" PRIx64 "%s%s", *file ? file : "[jit]",
		 mapping->has_bias ? address - mapping->bias : address, symbol ? " " : "",
		 symbol ? symbol : "");
}

bool address_space_has_cfi(struct address_space *space, uint64_t address)
{
	Dwfl_Module *module = dwfl_addrmodule(space->dwfl, address);
	Dwarf_Addr bias;
	Dwarf_Frame *frame;
	Dwarf_CFI *cfi;

	if (!module)
		return false;
	cfi = dwfl_module_eh_cfi(module, &bias);
	if (cfi && !dwarf_cfi_addrframe(cfi, address - bias, &frame)) {
		free(frame);
		return true;
	}
	cfi = dwfl_module_dwarf_cfi(module, &bias);
	if (cfi && !dwarf_cfi_addrframe(cfi, address - bias, &frame)) {
		free(frame);
		return true;
	}
	return false;
}
