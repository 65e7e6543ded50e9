// The table of functions.

const ROWS_AT_ONCE = 200;

class Table {
	constructor(element, note, events) {
		Object.assign(this, { element, note, key: "own", is_falling: true, rows: [] });
		this.body = element.tBodies[0];
		this.more = element.nextElementSibling;
		on(this.more, "click", () => { this.most += 2000; this.draw(); });
		for (const head of element.tHead.querySelectorAll("th")) {
			head.tabIndex = 0;
			on(head, "click", () => this.sort_by(head.dataset.key));
			on(head, "keydown", (event) => { if (event.key === "Enter") this.sort_by(head.dataset.key); });
		}
		on(this.body, "click", (event) => {
			const row = event.target.closest("tr");
			if (row) events.chosen(Number(row.dataset.label), event.detail > 1);
		});
		on(this.body, "keydown", (event) => {
			const row = event.target.closest("tr");
			const to = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling, Enter: row }[event.key];
			if (!to) return;
			event.preventDefault();
			event.stopPropagation();
			to.focus();
			events.chosen(Number(to.dataset.label), to === row);
		});
	}
	sort_by(key) {
		this.is_falling = this.key === key ? !this.is_falling : !["name", "module", "place"].includes(key);
		this.show({ key });
	}
	show(values) {
		Object.assign(this, { most: ROWS_AT_ONCE }, values);
		this.draw();
	}
	value(row) {
		return this.key === "name" ? short_name(row.label) : this.key === "module" ? path_of(row.label) : row[this.key];
	}
	draw() {
		const { event, whole, search } = this;
		const kept = search ? this.rows.filter((row) => search(row.label)) : this.rows;
		const sorted = kept.map((row) => [this.value(row), row]);
		const way = this.is_falling ? -1 : 1;
		sorted.sort(([a, first], [b, second]) => (a < b ? -way : a > b ? way : second.own - first.own || second.total - first.total || first.label - second.label));
		this.body.textContent = "";
		for (const [, row] of sorted.slice(0, this.most)) this.body.append(this.line(row, event, whole));
		for (const head of this.element.tHead.querySelectorAll("th")) {
			head.ariaSort = head.dataset.key === this.key ? (this.is_falling ? "descending" : "ascending") : null;
		}
		const words = [];
		if (search) words.push(`${counted(kept.length, "function")} of ${number(this.rows.length)} found`);
		if (event.rows.left_out && this.is_whole) {
			words.push(`${counted(event.rows.left_out, "function")} with the smallest self, ${weight_text(event, event.rows.left_out_own)} in all, left out`);
		}
		this.note.textContent = words.join("  ·  ");
		this.more.hidden = sorted.length <= this.most;
		this.more.textContent = `show more of ${number(sorted.length)}`;
	}
	line(row, event, whole) {
		const line = document.createElement("tr");
		const cell = (text, name, title) => {
			const cell = line.insertCell();
			cell.textContent = text;
			cell.className = name;
			if (title) cell.title = title;
			return cell;
		};
		const share = (part) => cell(percent(part, whole), "n share").style.setProperty("--part", Math.min(100, (100 * part) / whole) + "%");
		share(row.own);
		cell(row.error === null ? "" : row.error.toFixed(1), "n");
		cell(weight_text(event, row.own, whole), "n");
		share(row.total);
		cell(weight_text(event, row.total, whole), "n");
		cell(number(row.n), "n");
		cell(this.full ? full_name(row.label) : short_name(row.label), "", full_name(row.label));
		const path = path_of(row.label);
		cell(path.replace(/^.*\/(?=.)/, ""), "", path);
		cell("", "", row.place).appendChild(document.createElement("bdi")).textContent = row.place;
		line.dataset.label = row.label;
		line.tabIndex = -1;
		line.setAttribute("aria-selected", row.label === this.selected);
		return line;
	}
	select(label) {
		this.selected = label;
		for (const line of this.body.rows) line.setAttribute("aria-selected", Number(line.dataset.label) === label);
	}
}
