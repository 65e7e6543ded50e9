// Controls, keys, and what is in the address so that a link restores it.

const $ = (id) => document.getElementById(id);

prepare();

// What is shown.
const view = { event: 0, threads: "class", direction: "calls", root: "", order: "weight", search: "", label: -1 };

const graph = new Graph($("canvas"), $("pane"), $("tall"), {
	hover: () => show_details(),
	click: (box) => { select(box); zoom(box); },
});

const table = new Table($("table"), $("rows-note"), {
	chosen(label, is_double) {
		view.label = label;
		if (is_double) return show_sandwich(label);
		const box = largest(label);
		if (box) { select(box); keep_in_sight(box); }
		else table.select(label);
	},
});

let history_of_zoom = [];

const event_now = () => data.events[view.event];

function element(tag, text = "", name = "") {
	const made = document.createElement(tag);
	made.textContent = text;
	made.className = name;
	return made;
}

const is_label = (boxes, i) => boxes.text[i] === undefined;
const long_name = (boxes, i) => (is_label(boxes, i) ? full_name(boxes.at[i] >> 2) : boxes.text[i]);
const main_layer = () => graph.layers[graph.layers.length - 1];

// Trees and rows of what is to be shown now, from the document.
function rebuild() {
	const event = event_now();
	if (view.direction === "sandwich") {
		const below = tree_of(event, { ...view, direction: "below" });
		const above = tree_of(event, { ...view, direction: "above" });
		const row = above.depths - 1;
		graph.show([new Layer(above, true, row), new Layer(below, false, row)]);
	} else {
		const boxes = tree_of(event, view);
		// A flame that is taller than can be seen has its root on top.
		view.turned = view.root ? view.root === "below" : !data.is_icicle && boxes.depths * ROW <= 1000;
		graph.show([new Layer(boxes, view.turned, view.turned ? boxes.depths - 1 : 0)]);
	}
	history_of_zoom = [];
	find();
	const choice = view.threads;
	table.is_whole = choice[0] !== "=" && choice[0] !== "~";
	const whole = table.is_whole ? event.total : sum_of(threads_of(event, choice), event.tree.total);
	table.show({ event, rows: rows_of(event, choice), whole });
	$("noun").textContent = event.noun === "wait" ? "waits" : "samples";
	update_facts();
	update_controls();
	update_legend();
	graph.settle();
	graph.redraw();
	show_details();
	if (view.direction === "sandwich") select({ layer: main_layer(), i: 0 });
}

function select(box) {
	graph.selected = box;
	const { boxes } = box.layer, label = is_label(boxes, box.i) ? boxes.at[box.i] >> 2 : -1;
	if (label >= 0) view.label = label;
	table.select(label);
	update_controls();
	show_details();
	graph.redraw();
}

function zoom({ layer, i }) {
	if (layer.zoom === i && layer.from === layer.boxes.x[i]) return;
	history_of_zoom.push([layer, layer.zoom]);
	layer.zoom_to(i);
	after_zoom();
}

function back() {
	const last = history_of_zoom.pop();
	if (last) last[0].zoom_to(last[1]);
	else for (const layer of graph.layers) layer.zoom_to(0);
	after_zoom();
}

function after_zoom() {
	if (graph.selected) keep_in_sight(graph.selected);
	show_found();
	update_trail();
	show_details();
	save();
	graph.redraw();
}

function keep_in_sight(box) {
	const y = box.layer.row(box.layer.boxes.depth[box.i]) * ROW + graph.offset(), pane = graph.pane;
	if (y < pane.scrollTop) pane.scrollTop = y;
	if (y + ROW > pane.scrollTop + pane.clientHeight) pane.scrollTop = y + ROW - pane.clientHeight;
}

// The largest box of a function.
function largest(label) {
	let best = null;
	for (const layer of graph.layers) {
		for (let i = 1; i < layer.boxes.size; i++) {
			const is_it = layer.boxes.at[i] >> 2 === label && is_label(layer.boxes, i);
			if (is_it && (!best || layer.boxes.total[i] > best.layer.boxes.total[best.i])) best = { layer, i };
		}
	}
	return best;
}

function show_sandwich(label) {
	if (label >= 0) change({ label, direction: "sandwich" });
}

function find() {
	const input = $("search"), found = $("found");
	let problem = "", regex = null;
	view.search = input.value;
	graph.found = table.search = null;
	if (view.search) {
		try {
			// Capitals count where some are typed.
			regex = new RegExp(view.search, /[A-Z]/.test(view.search.replace(/\\./g, "")) ? "" : "i");
		} catch (error) {
			problem = error.message.replace(/^Invalid regular expression: /, "");
		}
	}
	input.setAttribute("aria-invalid", problem !== "");
	found.className = problem ? "bad" : "";
	found.textContent = problem ? "not searched: " + problem : "";
	if (regex) {
		graph.found = new Map(graph.layers.map((layer) => [layer, matches(layer.boxes, regex)]));
		table.search = graph.found.get(main_layer()).test;
		show_found();
	}
	graph.redraw();
}

// How much of the time has what was searched for on its stack.
function show_found() {
	if (!graph.found) return;
	const layer = main_layer(), result = graph.found.get(layer);
	const whole = layer.boxes.total[0], weight = result.weight(0, whole), inside = result.weight(layer.from, layer.to);
	const zoomed = layer.zoom > 0 ? `, ${percent(inside, layer.to - layer.from)} of zoom` : "";
	$("found").textContent = result.count ? `${percent(weight, event_now().total)} of all${zoomed}  (${counted(result.count, "box")})` : "no match";
}

// To the next box that was found, from left to right and from the root on.
function next_found(step) {
	if (!graph.found) return;
	const layer = main_layer(), { hit } = graph.found.get(layer), { size } = layer.boxes;
	let i = graph.selected && graph.selected.layer === layer ? graph.selected.i : 0;
	for (let tries = 0; tries < size; tries++) {
		i = (i + step + size) % size;
		const { x, total } = layer.boxes;
		if (hit[i] && x[i] >= layer.from && x[i] + total[i] <= layer.to) {
			select({ layer, i });
			return keep_in_sight(graph.selected);
		}
	}
}

// Two lines about the box under the pointer, or else the selected one.
function show_details() {
	const box = graph.hovered || graph.selected, details = $("details");
	details.textContent = "";
	if (!box) {
		details.append(element("div", "click or Enter zooms, Esc goes back, / searches, s shows callers and callees, ? lists all keys", "faint"));
		return;
	}
	const { layer, i } = box, { boxes } = layer, event = event_now(), label = boxes.at[i] >> 2;
	const first = element("div"), second = element("div");
	const marks = is_label(boxes, i) ? ["", boxes.at[i] & INLINED && "[inlined]", path_of(label), event.places.get(label)] : [];
	first.append(element("b", long_name(boxes, i)), element("span", marks.filter((mark, k) => !k || mark).join("  "), "faint"));
	const parts = [`total ${weight_text(event, boxes.total[i])}`, `${percent(boxes.total[i], event.total)} of all`];
	const whole = layer.to - layer.from;
	if (layer.zoom > 0 || whole < boxes.total[0]) parts.push(`${percent(Math.min(boxes.total[i], whole), whole)} of zoom`);
	else if (boxes.total[0] !== event.total) parts.push(`${percent(boxes.total[i], boxes.total[0])} of what is shown`);
	if (boxes.own[i] > 0) parts.push(`self ${weight_text(event, boxes.own[i])} (${percent(boxes.own[i], event.total)})`);
	if (layer.samples[i] > 0) parts.push(counted(layer.samples[i], event.noun));
	if (boxes.at[i] & WAITING && event.id === "wall") parts.push("all of it waiting");
	second.textContent = parts.join("  ·  ");
	details.append(first, second);
	$("canvas").setAttribute("aria-label", `flame graph. ${first.textContent}. ${second.textContent}`);
}

function update_facts() {
	const event = event_now(), facts = $("facts");
	document.title = data.title || event.caption;
	$("title").textContent = data.title || event.caption;
	const { boxes, largest_pct } = event.left_out, notes = [];
	const most = largest_pct < 0.01 ? "less than 0.01" : "at most " + largest_pct.toFixed(2);
	if (boxes > 0) notes.push(`${counted(boxes, "box")}, each ${most}% of all, left out of the graph to keep this page small; grey … boxes have their sum, all totals are exact`);
	if (labels.cut > 0) notes.push(`${counted(labels.cut, "name")} cut to keep this page small`);
	notes.push(...event.notes);
	facts.replaceChildren(...event.header.map((line) => element("p", line)), ...notes.map((note) => element("p", note, "note")));
	const quality = event.header.find((line) => line.includes("lost ")) || "";
	$("summary").textContent = `${event.header[0]}  ${quality}  ${notes.length ? counted(notes.length, "note") : ""}`.trim().replace(/  +/g, "  ·  ");
}

function update_controls() {
	const is_sandwich = view.direction === "sandwich";
	const pressed = {
		calls: view.direction === "calls", callers: view.direction === "callers", sandwich: is_sandwich,
		flame: !is_sandwich && view.turned, icicle: !is_sandwich && !view.turned, names: graph.full,
	};
	for (const id in pressed) $(id).setAttribute("aria-pressed", pressed[id]);
	for (const id of ["event", "order", "threads"]) $(id).value = view[id];
	$("flame").disabled = $("icicle").disabled = is_sandwich;
	$("sandwich").disabled = view.label < 0;
	update_trail();
}

function update_trail() {
	const trail = $("trail"), layer = main_layer();
	trail.textContent = { sandwich: `callers above and callees below ${full_name(view.label)}  `, callers: "where the time was spent, and its callers  " }[view.direction] || "";
	if (!layer || layer.zoom === 0) return;
	const path = layer.ancestors(layer.zoom).reverse();
	const shown = path.length > 6 ? [path[0], -1, ...path.slice(-4)] : path;
	for (const i of shown) {
		if (i !== shown[0]) trail.append(" › ");
		if (i < 0) { trail.append(`… ${path.length - 5} frames …`); continue; }
		const step = trail.appendChild(element("button", graph.name(layer, i)));
		on(step, "click", () => zoom({ layer, i }));
	}
}

function update_legend() {
	const seen = new Set(), entries = [];
	for (const { boxes } of graph.layers) boxes.at.forEach((at, i) => { if (i > 0) seen.add(key_of(at) + (at & WAITING)); });
	for (const [key, { words, waiting }] of Object.entries(KINDS)) {
		const is_running = seen.has(key + 0) || (waiting === undefined && seen.has(key + WAITING));
		if (is_running) entries.push(swatch(key, false, words), " ");
		if (waiting !== undefined && seen.has(key + WAITING)) entries.push(swatch(key, true, words + ", waiting"), " ");
	}
	$("legend").replaceChildren(...entries, element("span", "blank next to a caller’s boxes: its own time"));
}

function swatch(key, is_waiting, words) {
	const entry = element("span"), color = element("i");
	color.style.background = `rgb(${Palette.base(key, is_waiting)})`;
	entry.append(color, words);
	return entry;
}

// Threads by class, each name, and of classes with several names those names.
function fill_threads() {
	const event = event_now(), select = $("threads");
	select.textContent = "";
	select.append(new Option("by class", "class"), new Option("each name", "each"), new Option("merged", "merged"));
	const share = (total) => percent(total, event.total);
	for (const { name, title, total, names } of thread_choices(event)) {
		const is_class = title !== undefined;
		if (is_class) select.append(new Option(`${title}  ${share(total)}`, "~" + name));
		for (const one of names.slice(0, 100)) select.append(new Option(`${is_class ? "\u2003" : ""}${one.name}  ${share(one.total)}`, "=" + one.name));
	}
}

// The address: what differs from what is shown at first.
function save() {
	const layer = main_layer(), state = new URLSearchParams();
	const { threads, direction, root, order, search } = view;
	const put = (key, value, first) => { if (value !== first) state.set(key, value); };
	put("metric", event_now().id, data.events[0].id);
	put("threads", threads, usual.threads);
	put("view", direction, usual.direction);
	put("of", direction === "sandwich" ? full_name(view.label) : "", "");
	put("root", root, "");
	put("order", order, "weight");
	put("search", search, "");
	put("names", graph.full ? "full" : "short", "short");
	put("zoom", layer.zoom > 0 ? zoom_key(layer, layer.zoom) : "", "");
	const hash = state.toString();
	if (hash === location.hash.slice(1)) return;
	saved = hash;
	try { history.replaceState(null, "", "#" + hash); } catch { /* not in a frame */ }
}

function zoom_key(layer, i) {
	layer.keys = layer.keys || path_keys(layer.boxes);
	return (layer.keys[i] >>> 0).toString(16).padStart(8, "0");
}

let saved = null, usual = { threads: "class", direction: "calls" };

// Takes what the address says, as far as this document has it.
function restore() {
	const state = new URLSearchParams(location.hash.slice(1));
	const one_of = (key, values, first) => (values.includes(state.get(key)) ? state.get(key) : first);
	view.event = Math.max(0, data.events.findIndex((event) => event.id === state.get("metric")));
	fill_threads();
	view.threads = one_of("threads", [...$("threads").options].map((option) => option.value), usual.threads);
	view.direction = one_of("view", ["calls", "callers", "sandwich"], usual.direction);
	view.label = state.has("of") ? named(state.get("of")) : -1;
	if (view.direction === "sandwich" && view.label < 0) view.direction = "calls";
	view.root = one_of("root", ["below", "above"], "");
	view.order = one_of("order", ["weight", "name"], "weight");
	$("search").value = state.get("search") || "";
	graph.full = table.full = state.get("names") === "full";
	if (state.has("theme")) set_theme(state.get("theme") === "dark");
	rebuild();
	restore_zoom(state.get("zoom"));
}

// To the box of a key, or, as in a link that was written by hand, the largest one of a function.
function restore_zoom(wanted) {
	if (!wanted) return;
	const layer = main_layer();
	const i = layer.boxes.at.findIndex((_, i) => zoom_key(layer, i) === wanted);
	const box = i >= 0 ? { layer, i } : largest(named(wanted));
	if (box) { select(box); zoom(box); graph.settle(); }
}

const named = (name) => labels.name.findIndex((short, label) => short === name || full_name(label) === name);

// What is zoomed stays so where it is in the next tree, too.
function change(values) {
	const layer = main_layer(), key = layer.zoom > 0 ? zoom_key(layer, layer.zoom) : "";
	Object.assign(view, values);
	rebuild();
	restore_zoom(key);
	save();
}

const is_dark = () => root_element.classList.contains("dark");

function set_theme(dark) {
	root_element.classList.toggle("dark", dark);
	$("theme").textContent = dark ? "light" : "dark";
	graph.redraw();
}

function switch_names() {
	graph.full = table.full = !graph.full;
	table.draw();
	update_controls();
	save();
	graph.redraw();
}

// Of another event the same threads, if it has them.
function to_event(event) {
	view.event = event % data.events.length;
	fill_threads();
	change({ threads: [...$("threads").options].some((option) => option.value === view.threads) ? view.threads : "class" });
}

async function copy(what, from) {
	if (!graph.selected) return;
	const { layer, i } = graph.selected;
	const text = layer.ancestors(i).slice(0, -1).map((k) => long_name(layer.boxes, k)).reverse().slice(from).join("\n");
	const said = (words) => {
		const toast = $("toast");
		toast.textContent = words;
		toast.hidden = false;
		setTimeout(() => { toast.hidden = true; }, 1800);
	};
	try { await navigator.clipboard.writeText(text); said("copied " + what); } catch { said(text); }
}

// Moves the selection to where an arrow points.
function move(key) {
	if (!graph.selected) return select({ layer: main_layer(), i: main_layer().zoom });
	const { layer, i } = graph.selected, { boxes } = layer;
	let to = i;
	if (key === "ArrowLeft" || key === "ArrowRight") {
		to = i + (key === "ArrowLeft" ? -1 : 1);
		if (to < boxes.from[boxes.depth[i]] || to >= boxes.from[boxes.depth[i] + 1]) return;
		if (boxes.x[to] >= layer.to || boxes.x[to] + boxes.total[to] <= layer.from) return;
	} else if ((key === "ArrowUp") === layer.turned) {
		to = layer.heaviest(i);
		if (to < 0) return;
	} else {
		to = boxes.up[i];
	}
	graph.hovered = null;
	select({ layer, i: to });
	keep_in_sight(graph.selected);
}

const KEYS = [
	["arrows", "move the selection", null],
	["Enter", "zoom into the selection", () => graph.selected && zoom(graph.selected)],
	["Escape", "back to the zoom before", () => back()],
	["0", "show all", () => { history_of_zoom = []; back(); }],
	["/", "search; small letters find capitals", () => { $("search").focus(); $("search").select(); }],
	["n", "the next box found (N: the one before)", () => next_found(1)],
	["N", null, () => next_found(-1)],
	["i", "callers or callees at the root", () => change({ direction: view.direction === "calls" ? "callers" : "calls" })],
	["s", "callers and callees of the selection", () => show_sandwich(view.label)],
	["u", "the root below or above", () => change({ root: view.turned ? "above" : "below" })],
	["m", "the next metric", () => to_event(view.event + 1)],
	["T", "threads by class, each, merged", () => change({ threads: { class: "each", each: "merged" }[view.threads] || "class" })],
	["o", "heaviest first, or by name", () => change({ order: view.order === "weight" ? "name" : "weight" })],
	["v", "short or full names", switch_names],
	["y", "copy the name", () => copy("the name", -1)],
	["Y", "copy the stack, root first", () => copy("the stack", 0)],
	["?", "this help", show_help],
	["click", "select and zoom"],
	["Ctrl-wheel", "zoom at the pointer; Shift-wheel pans"],
	["double click", "on a row: its callers and callees"],
];

function show_help() {
	const dialog = $("keys"), colors = element("p"), list = element("dl"), close = element("button", "close");
	for (const [key, { words, waiting }] of Object.entries(KINDS)) {
		colors.append(swatch(key, false, words + "   "));
		if (waiting !== undefined) colors.append(swatch(key, true, "waiting   "));
	}
	for (const [key, words] of KEYS) if (words) list.append(element("dt", key), element("dd", words));
	on(close, "click", () => dialog.close());
	const small = `± is half the width of the 95 % interval around a share, in percentage points. Written by prof ${data.version}.`;
	dialog.replaceChildren(element("h2", "Colours"), colors, element("h2", "Keys and mouse"), list, element("p", small), close);
	dialog.showModal();
}

function listen() {
	const chosen = { event: (value) => to_event(Number(value)), threads: (threads) => change({ threads }), order: (order) => change({ order }) };
	for (const id in chosen) on($(id), "change", (e) => chosen[id](e.target.value));
	const pressed = {
		calls: () => change({ direction: "calls" }), callers: () => change({ direction: "callers" }), sandwich: () => show_sandwich(view.label),
		flame: () => change({ root: "below" }), icicle: () => change({ root: "above" }), names: switch_names, help: show_help, theme: () => set_theme(!is_dark()),
	};
	for (const id in pressed) on($(id), "click", pressed[id]);
	const searched = () => { find(); table.draw(); save(); };
	on($("search"), "input", searched);
	on($("search"), "keydown", (e) => {
		if (e.key === "Enter") next_found(e.shiftKey ? -1 : 1);
		else if (e.key === "Escape") { $("search").value = ""; searched(); $("canvas").focus({ preventScroll: true }); }
		else return;
		e.preventDefault();
		e.stopPropagation();
	});
	on(window, "keydown", (e) => {
		const { target } = e;
		if (/^(INPUT|SELECT)$/.test(target.tagName) || $("keys").open || e.altKey || e.ctrlKey || e.metaKey) return;
		if (e.key === "Enter" && target.tagName === "BUTTON") return;
		const is_arrow = e.key.startsWith("Arrow") && !target.closest("table");
		const key = KEYS.find(([name, , act]) => name === e.key && act);
		if (!is_arrow && !key) return;
		e.preventDefault();
		if (is_arrow) move(e.key); else key[2]();
	});
	on(window, "hashchange", () => { if (location.hash.slice(1) !== saved) restore(); });
	const dark = window.matchMedia("(prefers-color-scheme: dark)");
	let was_dark = false;
	set_theme(dark.matches);
	on(dark, "change", () => set_theme(dark.matches));
	// Paper is white.
	on(window, "beforeprint", () => { was_dark = is_dark(); set_theme(false); graph.draw(); });
	on(window, "afterprint", () => set_theme(was_dark));
}

$("graph").hidden = $("controls").hidden = false;
usual = { threads: data.threads, direction: data.is_bottom_up ? "callers" : "calls" };
data.events.forEach((event, i) => $("event").append(new Option(`${event.title}  ${weight_text(event, event.total)}`, i)));
listen();
restore();
